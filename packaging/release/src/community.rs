//! The layout of the community catalogs (`community-operators`, `community-operators-prod`): a folder for each
//! version, and what their pipeline reads beside them.

use packaging::bundle::Files;

use crate::version::Version;

/// What their pipeline reads of the operator: a version replaces the one before it by its number, as in the channels of
/// our own catalog. Reviewers are accounts of that forge, which whoever opens the pull request adds.
const CI: &str = "---\nupdateGraph: semver-mode\nreviewers: []\n";

/// The files of a pull request to a community catalog.
#[must_use]
pub fn pull_request(bundle: &Files, version: Version) -> Files {
    let folder = format!("operators/slicewright/{version}");
    let mut files = Files::default();
    files.0.insert("operators/slicewright/ci.yaml".to_owned(), CI.to_owned());
    for (path, text) in &bundle.0 {
        // Their pipeline writes the image's description by itself, of the annotations.
        if path != "bundle.Dockerfile" {
            files.0.insert(format!("{folder}/{path}"), text.clone());
        }
    }
    files
}
