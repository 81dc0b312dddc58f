//! ArtifactHub: who owns the repository of the chart, as an artifact with the tag that it looks for.

use std::collections::BTreeMap;

use image::artifact::Artifact;
use packaging::project::Project;
use serde_json::json;

/// The tag under which ArtifactHub looks.
pub const TAG: &str = "artifacthub.io";

/// The file of the repository, as ArtifactHub reads it. Its `repositoryID` is given when the repository is
/// registered there, and is no part of a first release.
#[must_use]
pub fn repository(project: &Project) -> String {
    let owner = json!({"name": project.maintainer.name, "email": project.maintainer.email});
    format!("# Who may say on ArtifactHub that this repository is theirs.\nowners:\n  - {owner}\n")
}

/// The same in a registry.
#[must_use]
pub fn artifact(project: &Project) -> Artifact {
    Artifact {
        config: ("application/vnd.cncf.artifacthub.config.v1+yaml", Vec::new()),
        content: (
            "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml",
            "artifacthub-repo.yml".to_owned(),
            repository(project).into_bytes(),
        ),
        annotations: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// With a name that YAML would read as something else.
    fn project() -> Project {
        let text = "repository: https://forge.dev/gpu/slicewright\nregistry: registry.dev/gpu\nmaintainer:\n  \
            name: \"GPU team: \\\"night\\\" #2\"\n  email: gpu@forge.dev\nsecurity: security@forge.dev\nplaceholders: []\n";
        Project::parse(text).unwrap()
    }

    #[test]
    fn the_owner_is_the_maintainer_whatever_they_are_called() {
        let read: Value = serde_saphyr::from_str(&repository(&project())).unwrap();
        let owner = json!({"name": "GPU team: \"night\" #2", "email": "gpu@forge.dev"});
        // No repositoryID: it is given when the repository is registered, and a wrong one is refused.
        assert_eq!(read, json!({"owners": [owner]}));
    }

    /// ArtifactHub finds the file by the tag, the types and the name.
    #[test]
    fn in_a_registry_it_is_the_one_layer_under_the_names_that_are_looked_for() {
        let Artifact { config, content, annotations } = artifact(&project());
        assert_eq!(TAG, "artifacthub.io");
        assert_eq!(config, ("application/vnd.cncf.artifacthub.config.v1+yaml", Vec::new()));
        let (kind, name, bytes) = content;
        assert_eq!(kind, "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml");
        assert_eq!(name, "artifacthub-repo.yml");
        assert_eq!(String::from_utf8(bytes).unwrap(), repository(&project()));
        assert!(annotations.is_empty());
    }
}
