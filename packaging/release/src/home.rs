//! Who publishes the project, and where, in the files that repeat it: a release writes there what
//! `packaging/project.yaml` says.

use crate::bump::{NoPlace, Place, place};

/// Where the project is.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    /// The repository with the sources.
    pub repository: &'a str,
    /// The registry and the organisation before the names of images.
    pub registry: &'a str,
}

/// The places that give people an image of a release; `{}` stands for the registry.
pub const IMAGES: &[Place] = &[
    place("docs/guides/olm.md", "image: {}/slicewright-catalog:v"),
    place("docs/guides/olm.md", "catalog: {}/slicewright-catalog:v"),
    place("examples/policy-repo/snapshot-job.yaml", "image: {}/slicewright:"),
];

/// The files that name the publisher's own page, alone.
pub const OWNERS: [&str; 2] = ["charts/slicewright/Chart.yaml", "packaging/olm/base.yaml"];

/// The page of whoever has a repository.
#[must_use]
pub fn owner(repository: &str) -> &str {
    repository.rsplit_once('/').map_or(repository, |(owner, _)| owner)
}

/// The text of a file when the project has moved.
///
/// # Errors
/// When a place for the registry has neither the one before nor the one after.
pub fn moved(file: &str, text: &str, from: Home<'_>, to: Home<'_>) -> Result<String, NoPlace> {
    let mut text = text.replace(from.repository, to.repository);
    if OWNERS.contains(&file) {
        for end in ["\n", "}"] {
            text = text.replace(
                &format!("{}{end}", owner(from.repository)),
                &format!("{}{end}", owner(to.repository)),
            );
        }
    }
    for Place { words, .. } in IMAGES.iter().filter(|place| place.file == file) {
        let [old, new] = [from, to].map(|home| words.replace("{}", home.registry));
        if !text.contains(&old) && !text.contains(&new) {
            return Err(NoPlace::new(file, &old));
        }
        text = text.replace(&old, &new);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use packaging::bundle::Contact;
    use packaging::project::{FILE, Project};

    use super::*;

    fn read(file: &str) -> String {
        std::fs::read_to_string(packaging::root().join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    const NEXT: Home<'_> = Home { repository: "https://forge.dev/gpu/cutter", registry: "quay.dev/gpu" };

    /// Every file under version control that has a text.
    fn that_say(text: &str) -> Vec<String> {
        let grep = ["grep", "-I", "--files-with-matches", "--fixed-strings", text];
        let output = Command::new("git").args(grep).current_dir(packaging::root()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn who_reads_a_released_page_is_given_the_registry_of_the_release() {
        let project = Project::read().unwrap();
        let now = Home { repository: &project.repository, registry: &project.registry };
        for Place { file, words } in IMAGES {
            let next = moved(file, &read(file), now, NEXT).unwrap();
            assert!(next.contains(&words.replace("{}", NEXT.registry)), "{file}: {words}");
            // The release after it finds everything in its place.
            assert_eq!(moved(file, &next, now, NEXT).unwrap(), next, "{file}");
        }
        let error = moved(IMAGES[0].file, "another page", now, NEXT).unwrap_err().to_string();
        assert!(error.starts_with("docs/guides/olm.md has no \"image: "), "{error}");
    }

    #[test]
    fn the_repository_and_its_owner_are_replaced_wherever_they_stand() {
        let project = Project::read().unwrap();
        let now = Home { repository: &project.repository, registry: &project.registry };
        let generated =
            ["olm-bundle/", "olm-catalog/", "packaging/tests/it/snapshots/", "packaging/previous/"];
        let mut files: BTreeSet<String> = that_say(owner(now.repository)).into_iter().collect();
        files.retain(|file| file != FILE && !generated.iter().any(|folder| file.starts_with(folder)));
        assert!(files.len() > 10, "{files:?}");
        for file in files {
            let next = moved(&file, &read(&file), now, NEXT).unwrap();
            assert!(!next.contains(owner(now.repository)), "{file} still names {}", owner(now.repository));
        }
    }

    /// What is no address of anybody stands in one file. The others that have it, each with why that is harmless.
    const KNOWN: [(&str, &str); 9] = [
        (FILE, "the one file"),
        ("docs/guides/releasing.md", "shows what a refused release says"),
        (
            "docs/guides/olm.md",
            "a release writes its registry there; the rest is about the bundle of the repository",
        ),
        ("examples/policy-repo/snapshot-job.yaml", "a release writes its registry there"),
        ("olm-bundle/", "made for nobody; a release is made with the real values"),
        ("olm-catalog/", "as the bundle"),
        ("packaging/src/", "what a bundle that is made for nobody says, and the judge of placeholders"),
        ("packaging/tests/it/olm_bundle/", "tests of that bundle"),
        ("packaging/tests/it/snapshots/", "the chart with the registry of a test"),
    ];

    #[test]
    fn a_placeholder_stands_in_one_file_and_whoever_repeats_it_is_known() {
        let project = Project::read().unwrap();
        if project.placeholders().is_empty() {
            return;
        }
        let registry = format!("{}/", project.registry);
        let mut used = BTreeSet::new();
        for placeholder in
            [&registry, &project.maintainer.email, &project.security, &Contact::unreleased().to_string()]
        {
            for file in that_say(placeholder) {
                let known = KNOWN.iter().find(|(known, _)| file.starts_with(known));
                let (known, _) = known.unwrap_or_else(|| {
                    panic!("{file} has the placeholder {placeholder}: say in KNOWN why nobody is led astray by it")
                });
                used.insert(*known);
            }
        }
        let unused: Vec<_> = KNOWN.iter().filter(|(known, _)| !used.contains(known)).collect();
        assert!(unused.is_empty(), "{unused:?} have none any more");
    }
}
