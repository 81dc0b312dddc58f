//! Who publishes the project, and where: `packaging/project.yaml`. Until somebody does, its values are
//! placeholders, and nothing is released with one.

use serde::Deserialize;

use crate::bundle::{Contact, Error};

/// `packaging/project.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// The repository with the sources.
    pub repository: String,
    /// The registry and the organisation before the names of images.
    pub registry: String,
    /// Who answers.
    pub maintainer: Person,
    /// Where vulnerabilities are reported.
    pub security: String,
    /// The keys whose values are not real.
    pub placeholders: Vec<String>,
}

/// A person or a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The name.
    pub name: String,
    /// An address that they read.
    pub email: String,
}

/// The file, from the root of the repository.
pub const FILE: &str = "packaging/project.yaml";

/// The keys that may be placeholders.
const KEYS: [&str; 4] = ["repository", "registry", "maintainer", "security"];

impl Project {
    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or has a key that means nothing.
    pub fn read() -> Result<Self, Error> {
        let path = crate::root().join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        Self::parse(&text)
    }

    /// Of its text.
    ///
    /// # Errors
    /// When it has a key that means nothing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Syntax { file: FILE.to_owned(), why };
        let project: Self = serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match project.placeholders.iter().find(|key| !KEYS.contains(&key.as_str())) {
            Some(key) => Err(wrong(format!("placeholders has {key:?}; there are {}", KEYS.join(", ")))),
            None => Ok(project),
        }
    }

    /// What has to be replaced before anything is released: the key, and the value that is not real.
    #[must_use]
    pub fn placeholders(&self) -> Vec<String> {
        let Self { repository, registry, maintainer, security, placeholders } = self;
        let nobody = |email: &str| email.parse::<Contact>().is_err();
        // Also what nobody marked, where it can be seen.
        let values = [
            ("repository", repository, reserved(repository)),
            ("registry", registry, reserved(registry)),
            ("maintainer", &maintainer.email, nobody(&maintainer.email)),
            ("security", security, nobody(security)),
        ];
        values
            .into_iter()
            .filter(|(key, _, seen)| *seen || placeholders.iter().any(|marked| marked == key))
            .map(|(key, value, _)| format!("{key}: {value}"))
            .collect()
    }
}

/// Whether an address is on a host that RFC 2606 keeps for examples.
fn reserved(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    ["example.com", "example.net", "example.org"]
        .iter()
        .any(|name| host == *name || host.strip_suffix(name).is_some_and(|before| before.ends_with('.')))
        || [".invalid", ".example", ".test"].iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real() -> Project {
        Project {
            repository: "https://forge.dev/gpu/slicewright".to_owned(),
            registry: "localhost:5000/slicewright".to_owned(),
            maintainer: Person { name: "GPU team".to_owned(), email: "gpu@forge.dev".to_owned() },
            security: "security@forge.dev".to_owned(),
            placeholders: Vec::new(),
        }
    }

    #[test]
    fn what_is_marked_is_a_placeholder_and_so_is_what_nobody_can_have() {
        assert_eq!(real().placeholders(), [""; 0]);
        let marked = Project { placeholders: vec!["repository".to_owned()], ..real() };
        assert_eq!(marked.placeholders(), ["repository: https://forge.dev/gpu/slicewright"]);
        let registry = Project { registry: "registry.example.com/gpu".to_owned(), ..real() };
        assert_eq!(registry.placeholders(), ["registry: registry.example.com/gpu"]);
        let security = Project { security: "security@slicewright.invalid".to_owned(), ..real() };
        assert_eq!(security.placeholders(), ["security: security@slicewright.invalid"]);
    }

    #[test]
    fn a_key_that_means_nothing_is_refused() {
        let text = std::fs::read_to_string(crate::root().join(FILE)).unwrap();
        assert!(Project::parse(&text).is_ok());
        // Whoever has a home has an empty list.
        let (before, _) = text.split_once("\nplaceholders:").unwrap();
        let error =
            Project::parse(&format!("{before}\nplaceholders: [reposiory]\n")).unwrap_err().to_string();
        assert!(error.contains("reposiory") && error.contains("repository, registry"), "{error}");
    }
}
