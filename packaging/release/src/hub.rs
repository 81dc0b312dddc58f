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
