//! The chart's README is generated from the comments in `values.yaml`. `UPDATE=1` writes it.

use std::fmt::Write as _;

use serde_json::Value;

/// One value: its path, its default, and what its comment says.
struct Row {
    path: String,
    default: Value,
    says: String,
}

/// The values in the order of the file. A comment that begins with `# --`
/// belongs to the key below it; its further lines to the same.
fn rows(text: &str, defaults: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut says: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix('#') {
            let comment = comment.trim();
            if let Some(first) = comment.strip_prefix("-- ") {
                says = Some(first.to_owned());
            } else if let Some(says) = &mut says {
                let _ = write!(says, " {comment}");
            }
            continue;
        }
        let Some((key, _)) = trimmed.split_once(':').filter(|_| !trimmed.starts_with('-')) else { continue };
        path.retain(|(at, _)| *at < indent);
        path.push((indent, key.to_owned()));
        if let Some(says) = says.take() {
            let default = path.iter().fold(defaults, |value, (_, key)| &value[key]).clone();
            let path = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
            rows.push(Row { path, default, says });
        }
    }
    rows
}

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

fn values() -> (String, Value) {
    let text = std::fs::read_to_string(packaging::chart().join("values.yaml")).unwrap();
    let defaults = serde_saphyr::from_str(&text).unwrap();
    (text, defaults)
}

#[test]
fn every_value_has_a_comment_that_says_what_it_is_for() {
    let (text, defaults) = values();
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
    let (text, defaults) = values();
    let head = std::fs::read_to_string(packaging::chart().join("README.md.head")).unwrap();
    let mut page = head + "\n## Values\n\n| value | default | what it is for |\n|---|---|---|\n";
    for Row { path, default, says } in rows(&text, &defaults) {
        let default = serde_json::to_string(&default).unwrap().replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | `{default}` | {} |", says.replace('|', "\\|"));
    }
    let file = packaging::chart().join("README.md");
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == page, "README.md is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`");
}
