//! The places that name the version by hand. What is generated of them (bundle, catalog, snapshots, references)
//! is generated anew afterwards.

/// A place: the file, and the words around the version. `{}` stands for it.
pub struct Place {
    /// The file, from the root of the repository.
    pub file: &'static str,
    /// The words.
    pub words: &'static str,
}

/// A place.
pub(crate) const fn place(file: &'static str, words: &'static str) -> Place {
    Place { file, words }
}

/// All of them.
pub const PLACES: &[Place] = &[
    place("Cargo.toml", "\nversion = \"{}\""),
    place("charts/slicewright/Chart.yaml", "\nversion: {}\n"),
    place("charts/slicewright/Chart.yaml", "\nappVersion: \"{}\"\n"),
    place("packaging/containers/operator.Containerfile", "ARG VERSION={}\n"),
    place("packaging/containers/simulator.Containerfile", "ARG VERSION={}\n"),
    place("packaging/containers/must-gather.Containerfile", "ARG VERSION={}\n"),
    place("packaging/containers/agent.Containerfile", "ARG VERSION={}\n"),
    place("packaging/containers/operator.Containerfile", "slicewright/slicewright:{}"),
    place("packaging/containers/simulator.Containerfile", "slicewright/simulator:{}"),
    place("packaging/containers/must-gather.Containerfile", "slicewright/must-gather:{}"),
    place("packaging/containers/agent.Containerfile", "slicewright/agent:{}"),
    place("docs/guides/flux.md", "tag: v{}"),
    place("examples/gitops/flux/helm-release.yaml", "tag: v{}"),
    place("examples/policy-repo/snapshot-job.yaml", "slicewright/slicewright:{}"),
    place("examples/policy-repo/install.sh", "\nVERSION={}\n"),
    place("docs/guides/olm.md", "slicewright-catalog:v{}"),
    place("docs/guides/olm.md", "slicewright.v{}"),
    place("docs/guides/images.md", "slicewright/slicewright:{}"),
    place("docs/guides/images.md", "gpu/slicewright:{}"),
    place("docs/guides/agent.md", "slicewright/agent:{}"),
];

/// A place that is not there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file} has no {words:?}: correct the lists in packaging/release/src/bump.rs, home.rs and released.rs, by which a \
     release finds its version, its registry, and what was true before it"
)]
pub struct NoPlace {
    file: String,
    words: String,
}

impl NoPlace {
    pub(crate) fn new(file: &str, words: &str) -> Self {
        Self { file: file.to_owned(), words: words.to_owned() }
    }
}

/// The text of a file with the next version.
///
/// # Errors
/// When one of its places is not there.
pub fn raised(file: &str, text: &str, from: &str, to: &str) -> Result<String, NoPlace> {
    let mut text = text.to_owned();
    for Place { words, .. } in PLACES.iter().filter(|place| place.file == file) {
        let old = words.replace("{}", from);
        if !text.contains(&old) {
            return Err(NoPlace::new(file, &old));
        }
        text = text.replace(&old, &words.replace("{}", to));
    }
    Ok(text)
}

/// A lock file of cargo in which our own packages have the next version: those that come from no registry.
#[must_use]
pub fn locked(text: &str, from: &str, to: &str) -> String {
    let old = format!("version = \"{from}\"");
    let blocks = text.split("\n\n").map(|block| {
        let ours = block.contains("[[package]]") && !block.contains("\nsource = ");
        match ours {
            true => block.replacen(&old, &format!("version = \"{to}\""), 1),
            false => block.to_owned(),
        }
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> String {
        std::fs::read_to_string(packaging::root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    #[test]
    fn every_place_is_there_and_is_raised() {
        let version = packaging::bundle::version().unwrap();
        for Place { file, words } in PLACES {
            let next = raised(file, &read(file), &version, "7.6.5").unwrap();
            assert!(next.contains(&words.replace("{}", "7.6.5")), "{file}: {words}");
        }
        let error = raised("Cargo.toml", "[workspace]", &version, "7.6.5").unwrap_err();
        assert!(error.to_string().starts_with("Cargo.toml has no"), "{error}");
    }

    /// Generated, recorded, or other people's versions.
    const OTHERS: [&str; 14] = [
        "olm-bundle/",
        "olm-catalog/",
        "packaging/previous/",
        "packaging/src/previous.rs",
        "packaging/src/catalog.rs",
        "packaging/tests/it/snapshots/",
        "packaging/image/src/",
        "packaging/release/",
        "crates/cli/tests/golden/",
        "examples/policy-repo/fleets/",
        "Cargo.lock",
        "fuzz/Cargo.lock",
        "tools/",
        "xtask/src/tools.rs",
    ];

    /// Whoever writes the version by hand somewhere else is told.
    #[test]
    fn no_other_file_names_the_version_by_hand() {
        let version = packaging::bundle::version().unwrap();
        let output = std::process::Command::new("git")
            .args(["grep", "--files-with-matches", "--fixed-strings", &version])
            .current_dir(packaging::root())
            .output()
            .unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        let unknown: Vec<&str> = found
            .lines()
            .filter(|file| !OTHERS.iter().any(|other| file.starts_with(other)))
            .filter(|file| !PLACES.iter().any(|place| place.file == *file))
            .filter(|file| {
                // As a version of ours, and not the beginning or the end of another.
                let text = read(file);
                text.match_indices(&version).any(|(at, _)| {
                    let before = text[..at].chars().next_back().unwrap_or(' ');
                    let after = text[at + version.len()..].chars().next().unwrap_or(' ');
                    !before.is_ascii_digit() && before != '.' && !after.is_ascii_digit() && after != '.'
                })
            })
            .collect();
        assert_eq!(unknown, [""; 0], "add them to PLACES, so that a release raises them");
    }

    #[test]
    fn in_a_lock_file_only_what_is_ours_is_raised() {
        let text = "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"theirs\"\nversion = \"0.1.0\"\nsource = \"registry+x\"\n";
        let next = locked(text, "0.1.0", "0.2.0");
        assert!(next.contains("\"ours\"\nversion = \"0.2.0\""), "{next}");
        assert!(next.contains("\"theirs\"\nversion = \"0.1.0\""), "{next}");
        assert_eq!(next.len(), text.len());
    }
}
