//! The Go sources of ours below `tools/`.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The programs of ours in a module, and what stands in for a module that cannot be had: their names and texts, in order.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn of(module: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![module.to_owned()];
    while let Some(folder) = folders.pop() {
        let unread = || format!("cannot read the folder {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(unread)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "go") {
                let text =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let name = path.strip_prefix(module).unwrap_or(&path).to_string_lossy().into_owned();
                found.push((name, text));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is built depends on what stands in for a module, too: after a change of it, it is built anew.
    #[test]
    fn what_stands_in_for_a_module_is_a_source_of_ours() {
        let names = |module: &str| {
            let found = of(&crate::root().join("tools").join(module)).unwrap();
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("dra-driver"), ["main.go", "nvfm/pkg/nvfm/nvfm.go"]);
        assert_eq!(names("go-nvml"), ["main.go", "near.go", "walk.go"]);
    }
}
