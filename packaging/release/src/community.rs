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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use packaging::bundle::read_folder;
    use serde_json::Value;

    use super::*;

    fn yaml(files: &Files, path: &str) -> Value {
        let text = files.0.get(path).unwrap_or_else(|| panic!("there is no {path}: {:?}", files.0.keys()));
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Their pipeline takes the folder of the operator for the name of its package, and the folder of a version for that
    /// of its ClusterServiceVersion.
    #[test]
    fn folders_have_the_names_of_package_and_version_and_the_bundle_is_in_them_as_it_is() {
        let bundle = read_folder(&packaging::root().join("olm-bundle")).unwrap();
        let version = packaging::bundle::version().unwrap();
        let files = pull_request(&bundle, version.parse().unwrap());
        let folder = format!("operators/slicewright/{version}");

        let annotations = yaml(&files, &format!("{folder}/metadata/annotations.yaml"));
        let annotations = &annotations["annotations"];
        assert_eq!(annotations["operators.operatorframework.io.bundle.package.v1"], "slicewright");
        // They test on the releases of OpenShift that the bundle names.
        assert!(annotations["com.redhat.openshift.versions"].is_string(), "{annotations}");
        let csv = yaml(&files, &format!("{folder}/manifests/slicewright.clusterserviceversion.yaml"));
        assert_eq!(csv["spec"]["version"], version.as_str());
        assert_eq!(csv["metadata"]["name"], format!("slicewright.v{version}"));

        // Nothing is left out of the bundle but what their pipeline writes itself, and nothing is changed.
        let mut expected: BTreeSet<String> = bundle.0.keys().map(|path| format!("{folder}/{path}")).collect();
        assert!(expected.remove(&format!("{folder}/bundle.Dockerfile")), "{expected:?}");
        for path in &expected {
            let (_, inside) = path.split_once(&format!("{folder}/")).unwrap();
            assert_eq!(files.0[path], bundle.0[inside], "{path}");
        }
        expected.insert("operators/slicewright/ci.yaml".to_owned());
        assert_eq!(files.0.keys().cloned().collect::<BTreeSet<_>>(), expected);
    }

    /// The order of versions is that of their numbers, so no ClusterServiceVersion says what it replaces.
    #[test]
    fn their_pipeline_reads_that_a_version_follows_the_one_before_by_its_number() {
        let bundle = read_folder(&packaging::root().join("olm-bundle")).unwrap();
        let files = pull_request(&bundle, "2.0.1".parse().unwrap());
        let ci = yaml(&files, "operators/slicewright/ci.yaml");
        assert_eq!(ci, serde_json::json!({"updateGraph": "semver-mode", "reviewers": []}));
        let csv =
            yaml(&files, "operators/slicewright/2.0.1/manifests/slicewright.clusterserviceversion.yaml");
        for edge in ["replaces", "skips"] {
            assert!(csv["spec"].get(edge).is_none(), "{edge}");
        }
    }
}
