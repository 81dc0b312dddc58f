//! The number of test programs is small, and none is forgotten: each of them links its crate and all
//! dependencies again.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who has more than one program of integration tests, and why.
const SEVERAL: [(&str, &str); 1] =
    [("slicewright-e2e", "the release's scenarios need programs that the gate does not build")];

fn packages() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn targets<'a>(package: &'a Value, kind: &str) -> Vec<&'a Value> {
    let targets = package["targets"].as_array().unwrap();
    targets.iter().filter(|target| target["kind"].as_array().unwrap().iter().any(|k| k == kind)).collect()
}

/// The sources that belong to a program alone: its file, or the folder that has its modules.
fn sources(target: &Value) -> Vec<PathBuf> {
    let file = PathBuf::from(target["src_path"].as_str().unwrap());
    let folder = file.parent().unwrap();
    if folder.join("lib.rs").exists() || file.file_name().is_some_and(|name| name != "main.rs") {
        return vec![file];
    }
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_crate_has_one_program_of_integration_tests() {
    let packages = packages();
    assert!(packages.len() > 20, "the workspace is found");
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        if SEVERAL.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let programs: Vec<_> = targets(package, "test").iter().map(|target| &target["name"]).collect();
        assert!(
            programs.len() <= 1,
            "{name} links {programs:?}: make them modules of tests/it/main.rs, which is one program"
        );
    }
}

#[test]
fn a_program_whose_tests_are_switched_off_has_none() {
    for package in packages() {
        for target in targets(&package, "bin").into_iter().filter(|target| target["test"] == false) {
            for source in sources(target) {
                let text = std::fs::read_to_string(&source).unwrap();
                assert!(
                    !text.contains("#[test]") && !text.contains("::test]"),
                    "{} has tests that never run: take `test = false` from the program {} in Cargo.toml",
                    source.display(),
                    target["name"]
                );
            }
        }
    }
}
