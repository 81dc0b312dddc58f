//! The separation between reading and all other code (`docs/adr/0009-observe-once.md`): the meaning of a
//! node's labels and annotations is known only to `observe`, which reads them, and to the code that writes
//! them. No other code names one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::purity::{root, shipped, sources};

/// The crates that could come to read a node a second time.
const JUDGED: [&str; 8] =
    ["planner", "rollout", "observe", "reconcile", "replay", "controller", "cli", "multicall"];

/// Who may name a label of a node, and why.
const MAY: [(&str, &str); 10] = [
    ("crates/observe/src", "it is the reader"),
    ("crates/rollout/src/names.rs", "it is where the names are written down"),
    ("crates/rollout/src/release.rs", "it tells a human which label stays"),
    ("crates/rollout/src/node_patch.rs", "it says what each action writes"),
    ("crates/controller/src/store", "it keeps of a node what the reader reads"),
    ("crates/planner/src/predicted_labels.rs", "it says what selectors will find after a change"),
    (
        "crates/reconcile/src/menu/offers.rs",
        "it writes them into the selectors of hardware profiles, and tells which taints are GPUs'",
    ),
    ("crates/reconcile/src/admission.rs", "it writes one into the selector of a workload's pods"),
    ("crates/controller/src/give_back.rs", "it writes the label that gives a node back"),
    ("crates/rollout/src/outlook/words.rs", "it tells people by which label a node goes back"),
];

/// How names of labels and annotations begin that are read or written.
const PREFIXES: [&str; 6] = [
    "\"nvidia.com/",
    "\"machineconfiguration.openshift.io/",
    "\"feature.node.kubernetes.io/",
    "\"slicewright.io/cordoned-by",
    "\"slicewright.io/give-back",
    "\"kubernetes.io/hostname",
];

/// The names that are written down, as `(MIG_CONFIG, nvidia.com/mig.config)`.
fn names() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join("crates/rollout/src/names.rs")).unwrap();
    let constant = |(_, code): (usize, &str)| {
        let (name, value) = code.strip_prefix("pub const ")?.split_once(": &str = ")?;
        let value = value.trim_end_matches(';').trim_matches('"');
        let is_label = PREFIXES.iter().any(|prefix| value.starts_with(prefix.trim_matches('"')));
        is_label.then(|| (name.to_owned(), value.to_owned()))
    };
    shipped(&text).filter_map(constant).collect()
}

/// What of a line names a label: a constant, or a text that is a name and not a
/// sentence with one.
fn named<'a>(code: &'a str, names: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let constant = names.keys().find(|name| {
        let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let after = |start: &str| code.split(start).skip(1).any(is_word);
        let imported = code.trim_start().starts_with("use ") && code.contains("names::{");
        after(&format!("names::{name}")) || imported && after(&format!(" {name}"))
    });
    let literal = || {
        PREFIXES.into_iter().find(|prefix| {
            let texts = code.split(prefix).skip(1);
            texts.into_iter().any(|text| text.split('"').next().is_some_and(|text| !text.contains(' ')))
        })
    };
    constant.map(String::as_str).or_else(literal)
}

#[test]
fn labels_and_annotations_of_nodes_are_named_by_the_reader_and_the_writer_alone() {
    let (root, names) = (root(), names());
    assert!(
        names.contains_key("MIG_CONFIG") && names.contains_key("CORDONED_BY") && names.len() > 12,
        "{names:?}"
    );
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for name in JUDGED {
        let mut files: Vec<PathBuf> = Vec::new();
        sources(&root.join("crates").join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "no sources in crates/{name}");
        for file in files {
            let source = std::fs::read_to_string(&file).unwrap();
            let path = file.strip_prefix(&root).unwrap();
            let may = MAY.iter().find(|(folder, _)| path.starts_with(Path::new(folder)));
            for (line, code) in shipped(&source) {
                let Some(label) = named(code, &names) else { continue };
                match may {
                    Some((folder, _)) => drop(used.insert(*folder)),
                    None => wrong.push(format!("{}:{line}: {label}", path.display())),
                }
            }
        }
    }
    let all: BTreeSet<_> = MAY.iter().map(|(folder, _)| *folder).collect();
    assert!(
        wrong.is_empty(),
        "these name a label of a node; let observe read it, and hand on what it means:\n{}",
        wrong.join("\n")
    );
    assert_eq!(used, all, "who may name a label and does not, is taken out of MAY");
}

#[test]
fn a_line_that_names_a_label_is_told_from_one_that_speaks_of_it() {
    let names = names();
    let found = |code: &str| named(code, &names).is_some();
    assert!(found("labels.get(names::MIG_CONFIG)"));
    assert!(found("    use rollout::names::{FIELD_MANAGER, MIG_CONFIG};"));
    assert!(found("labels.get(\"nvidia.com/gpu.product\")"));
    assert!(!found("names::MAP_NAME"));
    assert!(!found("names::ENTRY_PREFIX"));
    assert!(!found("\"nvidia.com/mig.config has {}, which we did not write\""));
    assert!(!found("\"nvidia.com\""));
}
