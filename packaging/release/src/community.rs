//! The layout of the community catalogs (`community-operators`, `community-operators-prod`): a folder for each
//! version, and what their pipeline reads beside them.

use packaging::bundle::Files;

use crate::version::Version;

/// What their pipeline reads of the operator: a version replaces the one before it by its number, as in the channels of
/// our own catalog. It takes no empty list of reviewers, who are accounts of that forge: whoever opens the pull request
/// adds their own.
const CI: &str = "---\n# Whose changes are merged without a person of the catalog, by the names of their accounts:\n\
                  # reviewers: [ACCOUNT]\nupdateGraph: semver-mode\n";

/// The kind of manifest that their pipeline refuses, although OLM installs it. The operator needs none; a cluster on which
/// its namespace denies everything else needs one of its administrators.
const REFUSED: &str = "NetworkPolicy";

/// Whether a file of the bundle is one of those that a pull request has.
fn is_taken(path: &str, text: &str) -> bool {
    // Their pipeline writes the image's description by itself, of the annotations.
    path != "bundle.Dockerfile" && !text.lines().any(|line| line.strip_prefix("kind: ") == Some(REFUSED))
}

/// The files of a pull request to a community catalog.
#[must_use]
pub fn pull_request(bundle: &Files, version: Version) -> Files {
    let folder = format!("operators/slicewright/{version}");
    let mut files = Files::default();
    files.0.insert("operators/slicewright/ci.yaml".to_owned(), CI.to_owned());
    for (path, text) in bundle.0.iter().filter(|(path, text)| is_taken(path, text)) {
        files.0.insert(format!("{folder}/{path}"), text.clone());
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

        // Nothing is left out of the bundle but what their pipeline writes itself or refuses, and nothing is changed.
        let mut expected: BTreeSet<String> = bundle.0.keys().map(|path| format!("{folder}/{path}")).collect();
        for left_out in ["bundle.Dockerfile", "manifests/slicewright_networkpolicy.yaml"] {
            assert!(expected.remove(&format!("{folder}/{left_out}")), "{expected:?}");
        }
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
        assert_eq!(ci, serde_json::json!({"updateGraph": "semver-mode"}));
        let csv =
            yaml(&files, "operators/slicewright/2.0.1/manifests/slicewright.clusterserviceversion.yaml");
        for edge in ["replaces", "skips"] {
            assert!(csv["spec"].get(edge).is_none(), "{edge}");
        }
    }

    /// The icon, the mail addresses and so on are judged by the validation library (`cargo xtask bundle`), which their
    /// pipeline runs as well. The rules below are what it checks beside that, by its source of August 2026
    /// (redhat-openshift-ecosystem/operator-pipelines, operatorcert/static_tests), under its names. A rule that only
    /// compares with versions that are in the catalog already has nothing to compare with here.
    fn problems(files: &Files) -> Vec<String> {
        let mut found = Vec::new();
        let mut rule = |holds: bool, name: &str, what: &str| {
            if !holds {
                found.push(format!("{name}: {what}"));
            }
        };
        let ends = |end: &str| files.0.keys().filter(|path| path.ends_with(end)).cloned().collect::<Vec<_>>();
        let [csv_path] = ends(".clusterserviceversion.yaml").try_into().unwrap();
        let [annotations_path] = ends("/metadata/annotations.yaml").try_into().unwrap();
        let (csv, annotations) =
            (yaml(files, &csv_path), yaml(files, &annotations_path)["annotations"].clone());
        let text = |at: &str| csv.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let folders: Vec<&str> = csv_path.split('/').collect();
        let (name, version) =
            text("/metadata/name").split_once(".v").map(|(n, v)| (n.to_owned(), v.to_owned())).unwrap();

        let package = &annotations["operators.operatorframework.io.bundle.package.v1"];
        rule(*package == name.as_str() && folders[1] == name, "check_operator_name", &name);
        let named = [folders[2] == text("/spec/version"), version == text("/spec/version")];
        rule(named == [true, true], "check_operator_version_directory_name", folders[2]);
        for (path, text) in files.0.iter().filter(|(path, _)| path.contains("/manifests/")) {
            let object: Value = serde_saphyr::from_str(text).unwrap();
            let is_policy = object["kind"] == "NetworkPolicy"
                && object["apiVersion"]
                    .as_str()
                    .is_some_and(|version| version.starts_with("networking.k8s.io/"));
            rule(!is_policy, "check_network_policy_presence", path);
        }

        // Kubernetes is thirteen releases after OpenShift. A bundle for a range, or for one release, is another question.
        let openshift = annotations["com.redhat.openshift.versions"].as_str().unwrap_or_default();
        let openshift = openshift.strip_prefix("v4.").and_then(|minor| minor.parse::<u32>().ok());
        let kubernetes =
            text("/spec/minKubeVersion").split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        let fits =
            openshift.zip(kubernetes).is_some_and(|(openshift, kubernetes)| openshift + 13 >= kubernetes);
        rule(fits, "check_api_version_constraints", &format!("{openshift:?} and {kubernetes:?}"));

        let of = |key: &str| text(&format!("/metadata/annotations/{key}"));
        let image = of("containerImage");
        let (place, tag) = image
            .rsplit_once('/')
            .and_then(|(place, rest)| Some((place, rest.split_once(':')?.1)))
            .unwrap_or_default();
        let day = of("createdAt");
        let is_day = day.len() == 20 && day.ends_with("T00:00:00Z") && day.split('-').count() == 3;
        let levels = ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
        let listed = |at: &str, keys: &[&str]| {
            let all = csv.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
            !all.is_empty() && all.iter().all(|one| keys.iter().all(|key| one[key].is_string()))
        };
        let words = csv["spec"]["keywords"].as_array().cloned().unwrap_or_default();
        for (field, holds) in [
            ("capabilities", levels.contains(&of("capabilities").as_str())),
            ("categories", of("categories") == "AI/Machine Learning"),
            ("containerImage", !place.is_empty() && !tag.is_empty() && tag != "latest"),
            ("createdAt", is_day),
            ("repository", of("repository").starts_with("https://")),
            ("support", of("support").len() >= 3),
            ("description", of("description").len() >= 10),
            ("displayName", (3..=50).contains(&text("/spec/displayName").len())),
            ("spec.description", text("/spec/description").len() >= 20),
            ("icon", listed("/spec/icon", &["base64data", "mediatype"])),
            ("version", text("/spec/version").parse::<Version>().is_ok()),
            ("maintainers", listed("/spec/maintainers", &["name", "email"])),
            ("provider.name", text("/spec/provider/name").len() >= 3),
            ("links", listed("/spec/links", &["name", "url"])),
            ("keywords", !words.is_empty() && words.iter().all(Value::is_string)),
        ] {
            rule(holds, "check_required_fields", field);
        }

        let ci = yaml(files, "operators/slicewright/ci.yaml");
        let modes = ["replaces-mode", "semver-mode"];
        rule(
            ci["updateGraph"].as_str().is_some_and(|mode| modes.contains(&mode)),
            "check_ci_upgrade_graph",
            "",
        );
        let reviewers = ci.get("reviewers").map(|all| all.as_array().is_some_and(|all| !all.is_empty()));
        rule(
            reviewers.unwrap_or(true),
            "check_schema_operator_ci_config",
            "reviewers are one at least, or left out",
        );
        let known = |key: &String| ["updateGraph", "reviewers"].contains(&key.as_str());
        rule(ci.as_object().unwrap().keys().all(known), "check_schema_operator_ci_config", "an unknown key");
        found
    }

    fn released() -> Files {
        let bundle = read_folder(&packaging::root().join("olm-bundle")).unwrap();
        pull_request(&bundle, packaging::bundle::version().unwrap().parse().unwrap())
    }

    #[test]
    fn a_pull_request_keeps_the_rules_of_the_community_pipeline() {
        assert_eq!(problems(&released()), [""; 0]);
    }

    #[test]
    fn what_the_community_pipeline_would_refuse_is_found() {
        let csv = "manifests/slicewright.clusterserviceversion.yaml";
        let (annotations, ci) = ("metadata/annotations.yaml", "ci.yaml");
        for (file, from, to, rule) in [
            (csv, "name: slicewright.v", "name: cutter.v", "check_operator_name: cutter"),
            (csv, "\n  version: ", "\n  version: 1", "check_operator_version_directory_name"),
            (csv, "minKubeVersion: \"1.33", "minKubeVersion: \"1.34", "check_api_version_constraints"),
            (
                annotations,
                "com.redhat.openshift.versions",
                "com.example.versions",
                "check_api_version_constraints",
            ),
            (
                csv,
                "capabilities: Seamless Upgrades",
                "capabilities: Everything",
                "check_required_fields: capabilities",
            ),
            (csv, "createdAt: \"2", "createdAt: \"in 2", "check_required_fields: createdAt"),
            (
                csv,
                "slicewright/slicewright@sha256:",
                "slicewright@sha256-",
                "check_required_fields: containerImage",
            ),
            (csv, "email: ", "mail: ", "check_required_fields: maintainers"),
            (csv, "mediatype: ", "type: ", "check_required_fields: icon"),
            (csv, "support: ", "help: ", "check_required_fields: support"),
            (ci, "semver-mode", "newest-mode", "check_ci_upgrade_graph"),
            (ci, "# reviewers: [ACCOUNT]", "reviewers: []", "check_schema_operator_ci_config"),
            (
                ci,
                "updateGraph",
                "update: now\nupdateGraph",
                "check_schema_operator_ci_config: an unknown key",
            ),
        ] {
            let mut files = released();
            let (_, text) = files.0.iter_mut().find(|(path, _)| path.ends_with(file)).unwrap();
            assert!(text.contains(from), "{file}: {from}");
            *text = text.replace(from, to);
            let found = problems(&files);
            assert!(found.iter().any(|problem| problem.starts_with(rule)), "{file}: {to}: {found:?}");
        }
        // The bundle as it is, with what their pipeline refuses.
        let mut files = released();
        let bundle = read_folder(&packaging::root().join("olm-bundle")).unwrap();
        let policy = "manifests/slicewright_networkpolicy.yaml";
        let folder = format!("operators/slicewright/{}", packaging::bundle::version().unwrap());
        files.0.insert(format!("{folder}/{policy}"), bundle.0[policy].clone());
        assert!(problems(&files).iter().any(|problem| problem.starts_with("check_network_policy_presence")));
    }
}
