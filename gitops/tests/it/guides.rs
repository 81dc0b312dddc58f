//! The guides quote the files that people start from, and those are files
//! that make sense: what a guide shows is what the tests apply.

use std::collections::BTreeSet;

use gitops::root;
use serde_json::Value;

const GUIDES: &[&str] = &["docs/guides/flux.md", "docs/guides/argocd.md"];
const OPEN: &str = "<!-- examples/";
const FENCE: &str = "```yaml\n";

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a guide quotes: the file, and its text there.
fn quoted(guide: &str) -> Vec<(String, String)> {
    let text = read(guide);
    let mut quotes = Vec::new();
    for part in text.split(OPEN).skip(1) {
        let (path, rest) = part.split_once(" -->\n").unwrap_or_else(|| panic!("{guide}: a mark has no end"));
        let rest = rest.strip_prefix(FENCE).unwrap_or_else(|| panic!("{guide}: nothing is quoted of {path}"));
        let (quote, _) = rest.split_once("```").unwrap_or_else(|| panic!("{guide}: a block has no end"));
        quotes.push((format!("examples/{path}"), quote.to_owned()));
    }
    quotes
}

#[test]
fn what_a_guide_quotes_is_the_file_and_no_yaml_is_anything_else() {
    for guide in GUIDES {
        let quotes = quoted(guide);
        assert_eq!(read(guide).matches(FENCE).count(), quotes.len(), "{guide} has YAML that is no file");
        for (path, quote) in quotes {
            assert_eq!(quote, read(&path), "{guide} quotes {path} as it is no longer");
        }
    }
}

#[test]
fn every_example_is_in_a_guide() {
    let told: String = GUIDES.iter().map(|guide| read(guide)).collect();
    for folder in ["flux", "argocd"] {
        let path = root().join("examples/gitops").join(folder);
        let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for entry in entries.flatten() {
            let name = format!("examples/gitops/{folder}/{}", entry.file_name().to_string_lossy());
            assert!(told.contains(&name), "no guide speaks of {name}");
        }
    }
}

#[test]
fn the_sources_and_paths_of_both_tools_are_those_of_the_example_repository() {
    let documents = |path: &str| -> Vec<Value> {
        serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let flux = ["operator", "policies"].map(|file| documents(&format!("examples/gitops/flux/{file}.yaml")));
    let of_flux: BTreeSet<String> = flux
        .iter()
        .flatten()
        .filter_map(|object| object.pointer("/spec/path")?.as_str())
        .map(|path| path.trim_start_matches("./").to_owned())
        .collect();
    let of_argocd: BTreeSet<String> = documents("examples/gitops/argocd/applications.yaml")
        .iter()
        .filter_map(|object| Some(object.pointer("/spec/source/path")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(of_flux, of_argocd);
    assert_eq!(of_flux, ["clusters/lab".to_owned(), "operator".to_owned()].into());
    assert!(root().join("examples/policy-repo/clusters/lab/kustomization.yaml").is_file());
    assert!(root().join("examples/gitops/operator/kustomization.yaml").is_file());
    // The policies wait for the Kustomization that is the operator's.
    let policies = &flux[1][0];
    assert_eq!(policies.pointer("/spec/dependsOn/0/name"), flux[0][0].pointer("/metadata/name"));
}
