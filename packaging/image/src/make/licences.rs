//! The licence texts of a crate.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// File names that hold a licence, a notice or who has the copyright.
fn is_text(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let source =
        [".rs", ".c", ".h", ".py", ".toml", ".go", ".pl", ".json"].iter().any(|end| name.ends_with(end));
    let starts = ["license", "licence", "copying", "notice", "copyright", "unlicense", "patents"];
    !source && starts.iter().any(|start| name.starts_with(start))
}

/// What a folder and those below it have, by path; tests and benchmarks of a
/// crate are in no program.
pub(crate) fn texts(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    walk(folder, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, below: &str, found: &mut Vec<(String, String)>) -> anyhow::Result<()> {
    let unreadable = || format!("cannot read the folder {}", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type().with_context(unreadable)?;
        if kind.is_dir() {
            if !matches!(name.as_str(), "tests" | "benches" | "examples" | "target" | ".git" | "fuzz") {
                walk(&entry.path(), &path, found)?;
            }
        } else if is_text(&name)
            || (below.to_ascii_lowercase().starts_with("licen") && !name.ends_with(".rs"))
        {
            let text = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            found.push((path, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    Ok(())
}
