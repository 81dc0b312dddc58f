//! The changelog: what is unreleased becomes the section of a version.

use crate::version::Version;

/// The heading of what is not released.
const UNRELEASED: &str = "## Unreleased\n";
/// What stands there when nothing is.
const NOTHING: &str = "Nothing yet.";

/// A changelog of which no release can be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has no such section.
    #[error("CHANGELOG.md has no section \"## Unreleased\"")]
    NoSection,
    /// The section is empty.
    #[error("CHANGELOG.md says nothing under \"## Unreleased\": write what users notice, or do not release")]
    Nothing,
    /// There is a section of this version already.
    #[error("CHANGELOG.md has a section of {0} already")]
    Released(Version),
}

/// The changelog after the release.
///
/// # Errors
/// When there is nothing to release.
pub fn released(text: &str, version: Version, date: &str) -> Result<String, Wrong> {
    if text.contains(&format!("\n## {version} ")) {
        return Err(Wrong::Released(version));
    }
    let (before, after) = text.split_once(UNRELEASED).ok_or(Wrong::NoSection)?;
    let section = after.split("\n## ").next().unwrap_or_default().trim();
    if section.is_empty() || section == NOTHING {
        return Err(Wrong::Nothing);
    }
    Ok(format!("{before}{UNRELEASED}\n{NOTHING}\n\n## {version} ({date})\n{after}"))
}

/// What a version changes; nothing where it has no section.
#[must_use]
pub fn section(text: &str, version: Version) -> Option<String> {
    let (_, after) = text.split_once(&format!("\n## {version} ("))?;
    let (_, after) = after.split_once('\n')?;
    Some(after.split("\n## ").next().unwrap_or_default().trim().to_owned())
}

/// The entries of a section, each on one line.
#[must_use]
pub fn entries(section: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for line in section.lines() {
        match line.strip_prefix("- ") {
            Some(begin) => {
                all.push(begin.to_owned());
                open = true;
            }
            None if open && line.starts_with("  ") => {
                if let Some(last) = all.last_mut() {
                    last.push(' ');
                    last.push_str(line.trim());
                }
            }
            None => open = false,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Changes\n\n## Unreleased\n\nThe operator:\n\n- a\n  b\n- c\n\n## 0.1.0 (2026-01-01)\n\n- first\n";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_unreleased_becomes_the_section_of_the_version_and_nothing_is_lost() {
        let next = released(TEXT, version("0.2.0"), "2026-11-24").unwrap();
        assert!(
            next.starts_with(
                "# Changes\n\n## Unreleased\n\nNothing yet.\n\n## 0.2.0 (2026-11-24)\n\nThe operator:"
            ),
            "{next}"
        );
        assert!(next.ends_with("## 0.1.0 (2026-01-01)\n\n- first\n"), "{next}");
        let section = section(&next, version("0.2.0")).unwrap();
        assert_eq!(entries(&section), ["a b", "c"]);
        assert_eq!(super::section(&next, version("0.3.0")), None);
        // And the next release has to have something of its own.
        assert_eq!(released(&next, version("0.3.0"), "2026-12-01"), Err(Wrong::Nothing));
        assert_eq!(released(&next, version("0.2.0"), "x"), Err(Wrong::Released(version("0.2.0"))));
        assert_eq!(released("# Changes\n", version("0.2.0"), "x"), Err(Wrong::NoSection));
    }

    #[test]
    fn the_changelog_of_the_repository_can_be_released() {
        let text = std::fs::read_to_string(packaging::root().join("CHANGELOG.md")).unwrap();
        let next = released(&text, version("999.0.0"), "2026-11-24").unwrap();
        assert!(entries(&section(&next, version("999.0.0")).unwrap()).len() > 10);
    }
}
