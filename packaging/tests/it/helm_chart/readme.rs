//! The chart's README is generated from the comments in `values.yaml`. `UPDATE=1` writes it.

use packaging::values::{readme, rows};
use serde_json::Value;

/// The paths of everything that has a default and is no map.
fn leaves(path: &str, value: &Value, into: &mut Vec<String>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&path, value, into);
            }
        }
        None => into.push(path.to_owned()),
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(packaging::chart().join(file)).unwrap()
}

#[test]
fn every_value_has_a_comment_that_says_what_it_is_for() {
    let text = read("values.yaml");
    let defaults: Value = serde_saphyr::from_str(&text).unwrap();
    let documented: Vec<String> = rows(&text, &defaults).into_iter().map(|row| row.path).collect();
    let mut all = Vec::new();
    leaves("", &defaults, &mut all);
    for leaf in all {
        let has = documented.iter().any(|path| leaf == *path || leaf.starts_with(&format!("{path}.")));
        assert!(has, "{leaf} has no comment that begins with `# --`");
    }
}

#[test]
fn the_readme_is_up_to_date() {
    let page = readme(&read("README.md.head"), &read("values.yaml")).unwrap();
    let file = packaging::chart().join("README.md");
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == page, "README.md is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`");
}
