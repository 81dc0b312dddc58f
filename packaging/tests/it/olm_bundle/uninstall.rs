//! The commands of the guide that remove the operator without its command: run as they stand, with an `oc` that writes down
//! what it is asked for.

use std::path::Path;
use std::process::Command;

/// An `oc` of a cluster on which agents keep a node, until it has been asked for it twice.
const OC: &str = r#"oc() {
    echo "$*" >> asked
    case "$1 $2" in
        "get nodes") echo >> looked; [ "$(wc -l < looked)" -gt 2 ] || echo node/gpu-1 ;;
    esac
}
sleep() { :; }
"#;

/// The commands of the guide, in the order in which they are typed.
fn commands() -> String {
    let guide = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md")).unwrap();
    let (_, section) = guide.split_once("\n## Uninstall\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks: Vec<&str> =
        section.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 2, "one while the operator runs, and one that removes it");
    blocks.concat()
}

/// What `oc` is asked for.
fn asked(folder: &Path) -> Vec<String> {
    let mut shell = Command::new("sh");
    let output = shell.args(["-euc", &format!("{OC}{}", commands())]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("asked")).unwrap().lines().map(str::to_owned).collect()
}

/// A name of `rollout`, by the constant that has it.
fn name(constant: &str) -> Vec<String> {
    let names = std::fs::read_to_string(packaging::root().join("crates/rollout/src/names.rs")).unwrap();
    let (_, rest) = names.split_once(&format!("pub const {constant}: ")).unwrap();
    let value = rest.split_once('=').unwrap().1.split(';').next().unwrap();
    value.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Once the operator is gone, nobody gives a node back to MIG manager, and nobody resumes what it paused.
#[test]
fn who_has_only_oc_strands_no_node_of_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let asked = asked(folder.path());
    let at = |words: &[&str]| {
        let found = asked.iter().position(|line| words.iter().all(|word| line.contains(word)));
        found.unwrap_or_else(|| panic!("nobody is asked for {words:?}: {asked:#?}"))
    };
    let [back, marked] = [&name("GIVE_BACK")[0], &name("CORDONED_BY")[0]];
    let (handed, paused) = (&name("HANDED_TO_AGENT")[0], &name("PAUSED_FOR_US")[0]);
    let gone = at(&["delete subscription"]);
    assert!(at(&[&format!("{back}=true")]) < gone, "{asked:#?}");
    let looks: Vec<usize> = (0..asked.len())
        .filter(|i| asked[*i].starts_with("get nodes") && asked[*i].contains(&format!("={handed}")))
        .collect();
    assert_eq!(looks.len(), 3, "it waits while a node is an agent's: {asked:#?}");
    assert!(looks.iter().all(|look| *look < gone), "{asked:#?}");
    let ended = at(&["wait --for=delete pod"]);
    let opened = at(&["adm uncordon", marked]);
    let operands = name("PAUSED_BY_US");
    assert_eq!(operands.len(), 3, "{operands:?}");
    for operand in operands {
        let resumed = at(&[&format!("{operand}={paused}"), &format!(" {operand}=true")]);
        assert!(ended < resumed && resumed < opened, "{operand}: {asked:#?}");
    }
    // An operator that is installed later finds the nodes as any others.
    assert!(opened < at(&[&format!("{back}-")]) && opened < at(&[&format!("{marked}-")]), "{asked:#?}");
}
