//! What other files say of who publishes the project is what `packaging/project.yaml` says.

use packaging::bundle::{Contact, Image};
use packaging::project::Project;
use serde_json::Value;

fn read(file: &str) -> String {
    std::fs::read_to_string(packaging::root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn the_repository_is_named_alike_everywhere() {
    let Project { repository, .. } = Project::read().unwrap();
    for file in [
        "Cargo.toml",
        "book.toml",
        "charts/slicewright/Chart.yaml",
        "packaging/olm/base.yaml",
        "packaging/containers/operator.Containerfile",
        "packaging/containers/simulator.Containerfile",
        "packaging/containers/agent.Containerfile",
        "packaging/containers/must-gather.Containerfile",
        "charts/slicewright/files/rules.yaml",
        ".github/ISSUE_TEMPLATE/config.yml",
        "examples/policy-repo/install.sh",
    ] {
        assert!(read(file).contains(&repository), "{file} does not name {repository}");
    }
}

/// The bundle in the repository is made for nobody: its image and its contact are those placeholders.
#[test]
fn the_placeholders_are_those_of_the_bundle_and_nothing_can_be_released_with_one() {
    let project = Project::read().unwrap();
    let csv: Value =
        serde_saphyr::from_str(&read("olm-bundle/manifests/slicewright.clusterserviceversion.yaml")).unwrap();
    if project.placeholders().is_empty() {
        return;
    }
    assert_eq!(format!("{}/slicewright", project.registry), Image::unreleased().repository);
    assert_eq!(project.maintainer.email, Contact::unreleased().to_string());
    assert_eq!(csv["spec"]["maintainers"][0]["email"], project.maintainer.email);
    assert!(project.maintainer.email.parse::<Contact>().is_err());
    for key in ["repository", "registry", "maintainer", "security"] {
        assert!(project.placeholders().iter().any(|line| line.starts_with(key)), "{key} is not marked");
    }
    assert!(read("SECURITY.md").contains("packaging/project.yaml"));
}
