//! The fuzz targets are a workspace of their own, which `cargo xtask test` does not build. Its lock file names the
//! dependencies of our crates once more, and `cargo xtask fuzz` refuses one that is out of date, months later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The dependencies of our packages, as a lock file names them.
fn locked(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for package in text.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
        let (_, list) = package.split_once("dependencies = [").unwrap_or_default();
        let (list, _) = list.split_once(']').unwrap_or_default();
        let names = list.lines().map(|line| line.trim().trim_end_matches(',').trim_matches('"'));
        // `name version`, where there are two versions of one.
        let names = names.filter_map(|name| name.split(' ').next()).filter(|name| !name.is_empty());
        if name.starts_with("slicewright-") && !package.contains("\nsource = ") {
            all.insert(name.to_owned(), names.map(str::to_owned).collect());
        }
    }
    all
}

#[test]
fn the_lock_file_of_the_fuzz_targets_has_the_dependencies_that_our_crates_have_now() {
    let text = std::fs::read_to_string(root().join("fuzz/Cargo.lock")).unwrap();
    let locked = locked(&text);
    let mut metadata = Command::new(env!("CARGO"));
    metadata
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root());
    let metadata: Value = serde_json::from_slice(&metadata.output().unwrap().stdout).unwrap();
    let mut seen = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(locked) = locked.get(name) else { continue };
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let used = dependencies.filter(|dependency| dependency["kind"] != "dev");
        for dependency in used.filter(|dependency| dependency["optional"] == false) {
            let needed = dependency["name"].as_str().unwrap();
            assert!(
                locked.contains(needed),
                "fuzz/Cargo.lock does not know that {name} uses {needed}: run `cargo update --workspace` in fuzz"
            );
        }
        seen += 1;
    }
    assert!(seen > 5, "{seen} of our crates are fuzzed: {locked:?}");
}
