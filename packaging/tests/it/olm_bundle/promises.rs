//! Promises of the bundle that the validators do not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::ValueEnum;
use packaging::archives::System;
use packaging::bundle::{Contact, Files, Image, Maintainer, generate, read_folder};
use serde_json::Value;

use super::same::{Right, chart, rights};
use super::{csv_of, helm, manifests_of};

/// What OLM takes beside the ClusterServiceVersion, of either generation.
const SUPPORTED: [&str; 22] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

fn committed() -> Files {
    read_folder(&packaging::root().join("olm-bundle")).unwrap()
}

fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn the_image_of_the_bundle_has_the_labels_that_its_annotations_say() {
    let files = committed();
    let annotations = parse(&files.0["metadata/annotations.yaml"])["annotations"].clone();
    let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap();
    let mut labels: BTreeMap<String, String> = files.0["bundle.Dockerfile"]
        .lines()
        .filter_map(|line| line.strip_prefix("LABEL ")?.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(labels.remove("com.redhat.delivery.operator.bundle").as_deref(), Some("true"));
    assert_eq!(labels, annotations);
    for folder in ["manifests", "metadata", "tests/scorecard"] {
        let copied = format!("COPY {folder} /{folder}/");
        assert!(files.0["bundle.Dockerfile"].contains(&copied), "{copied}");
        assert!(files.0.keys().any(|path| path.starts_with(folder)), "{folder}");
    }
}

#[test]
fn every_manifest_is_one_object_of_a_kind_that_olm_takes_and_the_whole_is_small() {
    let files = committed();
    let size: usize = files.0.values().map(String::len).sum();
    assert!(size < 500 * 1024, "{size} bytes");
    for (path, text) in files.0.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        assert_eq!(documents.len(), 1, "{path}");
        let kind = documents[0]["kind"].as_str().unwrap();
        assert!(SUPPORTED.contains(&kind), "{path}: {kind}");
    }
    assert!(!files.0.contains_key("metadata/dependencies.yaml"));
}

/// Every text in a document, with the key that it stands under.
fn texts(key: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => into.push((key.to_owned(), text.clone())),
        Value::Array(all) => all.iter().for_each(|one| texts(key, one, into)),
        Value::Object(map) => map.iter().for_each(|(key, value)| texts(key, value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn a_release_names_one_image_by_digest_and_lists_it_where_those_who_mirror_look() {
    let digest = "4f".repeat(32);
    let image = format!("mirror.example.com:5000/gpu/slicer@sha256:{digest}");
    let maintainer =
        Maintainer { name: "GPU team".to_owned(), contact: "gpu@maintained.dev".parse().unwrap() };
    let made = generate(&helm(), &image.parse().unwrap(), &maintainer).unwrap();
    for (path, text) in &made.0 {
        assert!(!text.contains(&Image::unreleased().digest), "{path} names no release");
        assert!(!text.contains(&Contact::unreleased().to_string()), "{path} names nobody");
    }
    let mut named = BTreeSet::new();
    for (path, text) in made.0.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        let mut all = Vec::new();
        texts("", &parse(text), &mut all);
        for (key, text) in all {
            // What is an image by where it stands, or looks like one wherever it stands.
            let by_key = ["image", "containerImage"].contains(&key.as_str());
            let by_look = text.contains("@sha256:") || text.contains("slicewright/slicewright:");
            if by_key || by_look {
                assert_eq!(text, image, "{path}: {key}");
                named.insert(key);
            }
        }
    }
    assert_eq!(named, ["containerImage", "image", "value"].map(str::to_owned).into());
    let csv = csv_of(&made);
    let answers = serde_json::json!([{"name": "GPU team", "email": "gpu@maintained.dev"}]);
    assert_eq!(csv["spec"]["maintainers"], answers, "who packaging/project.yaml says");
    assert_eq!(csv["spec"]["relatedImages"], serde_json::json!([{"name": "operator", "image": image}]));
    let container =
        &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], *image);
    let related = container["env"].as_array().unwrap().iter().find(|v| v["name"] == "RELATED_IMAGE_OPERATOR");
    assert_eq!(related.unwrap()["value"], *image);
}

#[test]
fn it_is_one_that_both_generations_of_olm_take() {
    let files = committed();
    let csv = csv_of(&files);
    let modes: BTreeMap<&str, bool> = csv["spec"]["installModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| (mode["type"].as_str().unwrap(), mode["supported"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("AllNamespaces", true),
        ("MultiNamespace", false),
        ("OwnNamespace", false),
        ("SingleNamespace", false),
    ];
    assert_eq!(modes, expected.into());
    assert!(csv["spec"]["customresourcedefinitions"].get("required").is_none());
    assert!(csv["spec"].get("apiservicedefinitions").is_none());
    assert!(csv["spec"].get("webhookdefinitions").is_none());
    // The second generation has no OperatorConditions.
    assert!(!csv.to_string().to_lowercase().contains("operatorcondition"));
    let minimum = csv["spec"]["minKubeVersion"].as_str().unwrap();
    let chart = std::fs::read_to_string(packaging::chart().join("Chart.yaml")).unwrap();
    assert!(chart.contains(&format!("kubeVersion: \">={minimum}-0\"")), "{minimum}");
}

#[test]
fn every_kind_has_an_example_and_every_field_in_it_a_descriptor() {
    let files = committed();
    let csv = csv_of(&files);
    let examples: Vec<Value> =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap()).unwrap();
    let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap();
    let crds = manifests_of(&files).into_iter().filter(|o| o["kind"] == "CustomResourceDefinition");
    assert_eq!(crds.count(), owned.len());
    for kind in owned {
        let example = examples.iter().find(|example| example["kind"] == kind["kind"]).unwrap();
        for (part, descriptors) in [("spec", "specDescriptors"), ("status", "statusDescriptors")] {
            let described: BTreeSet<&str> = kind[descriptors]
                .as_array()
                .unwrap()
                .iter()
                .inspect(|descriptor| {
                    let said = descriptor["description"].as_str().unwrap_or_default();
                    assert!(said.ends_with('.'), "{descriptor}");
                })
                .map(|descriptor| descriptor["path"].as_str().unwrap())
                .collect();
            for key in example[part].as_object().unwrap().keys() {
                assert!(described.contains(key.as_str()), "{}: {part}.{key}", kind["kind"]);
            }
        }
    }
}

/// The table in the guide: what each annotation says, and why.
#[test]
fn every_feature_that_is_claimed_has_its_reason_in_the_guide() {
    let csv = csv_of(&committed());
    let prefix = "features.operators.openshift.io/";
    let claimed: BTreeMap<String, String> = csv["metadata"]["annotations"]
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(key, value)| {
            Some((key.strip_prefix(prefix)?.to_owned(), value.as_str().unwrap().to_owned()))
        })
        .collect();
    let guide = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md")).unwrap();
    let mut explained = BTreeMap::new();
    for line in guide.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [feature, value @ ("true" | "false"), why] = cells.as_slice() {
            assert!(why.len() > 30, "{line}");
            explained.insert(feature.trim_matches('`').to_owned(), (*value).to_owned());
        }
    }
    assert_eq!(explained, claimed);
    assert_eq!(claimed.len(), 10);
}

#[test]
fn people_are_told_what_it_needs_what_it_does_not_do_and_how_it_goes() {
    let csv = csv_of(&committed());
    let description = csv["spec"]["description"].as_str().unwrap();
    for heading in ["### Prerequisites", "### Limits", "### Upgrade and uninstallation"] {
        assert!(description.contains(heading), "{heading}");
    }
    // The commands that it tells are those of the guide.
    let guide = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md")).unwrap();
    let commands: Vec<&str> = description.split('`').filter(|code| code.starts_with("oc ")).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        assert!(guide.lines().any(|line| line == command), "{command} is not in docs/guides/olm.md");
    }
    let short = csv["metadata"]["annotations"]["description"].as_str().unwrap();
    assert!(short.len() <= 135 && !short.contains('\n'), "{short}");
    assert_eq!(csv["spec"]["icon"].as_array().unwrap().len(), 1);
    assert!(Path::new(&packaging::root()).join("olm-catalog/catalog.Dockerfile").exists());
}

/// Whether every label of a selector is on a node.
fn selects(selector: &Value, labels: &Value) -> bool {
    selector["matchLabels"].as_object().unwrap().iter().all(|(key, value)| labels[key] == *value)
}

/// Policies that people are shown: in the form, after the installation, beside the editor.
fn shown() -> Vec<(String, Value)> {
    let files = committed();
    let csv = csv_of(&files);
    let annotation = |name: &str| csv["metadata"]["annotations"][name].as_str().unwrap().to_owned();
    let examples: Vec<Value> = serde_json::from_str(&annotation("alm-examples")).unwrap();
    let form = examples.into_iter().find(|example| example["kind"] == "GpuPartitionPolicy").unwrap();
    let first = serde_json::from_str(&annotation("operatorframework.io/initialization-resource")).unwrap();
    let mut shown = vec![("the form".to_owned(), form), ("the first policy".to_owned(), first)];
    for sample in manifests_of(&files).into_iter().filter(|object| object["kind"] == "ConsoleYAMLSample") {
        let policy = parse(sample["spec"]["yaml"].as_str().unwrap());
        assert_eq!(sample["spec"]["targetResource"]["kind"], policy["kind"]);
        assert_eq!(sample["spec"]["targetResource"]["apiVersion"], policy["apiVersion"]);
        shown.push((sample["metadata"]["name"].as_str().unwrap().to_owned(), policy));
    }
    shown
}

/// A recorded fleet has the labels that NVIDIA's components write and no others of ours.
#[test]
fn what_people_are_shown_selects_nodes_of_a_fresh_cluster_and_changes_nothing() {
    let fleet = parse(&std::fs::read_to_string(packaging::root().join("examples/fleet/lab.yaml")).unwrap());
    let nodes: Vec<&Value> =
        fleet["objects"].as_array().unwrap().iter().filter(|object| object["kind"] == "Node").collect();
    assert!(nodes.len() >= 3);
    let shown = shown();
    assert!(shown.len() >= 5, "{shown:?}");
    for (where_from, policy) in shown {
        assert_eq!(policy["spec"]["mode"], "Preview", "{where_from}");
        let selector = &policy["spec"]["nodeSelector"];
        let labels = selector["matchLabels"].as_object().unwrap();
        assert!(labels.keys().all(|label| label.starts_with("nvidia.com/")), "{where_from}: {labels:?}");
        assert!(nodes.iter().any(|node| selects(selector, &node["metadata"]["labels"])), "{where_from}");
    }
}

/// What settings need beyond what every operator needs: a key of `charts/slicewright/files/rights.yaml`, and the
/// variable that switches the setting on.
const SETTINGS: [(&str, &str); 6] = [
    ("patchClusterPolicy", "SLICEWRIGHT_PATCH_CLUSTER_POLICY"),
    ("secureMetrics", "SLICEWRIGHT_METRICS_CERTIFICATE"),
    ("readsQueues", "SLICEWRIGHT_KUEUE"),
    ("answersChecks", "SLICEWRIGHT_KUEUE"),
    ("plansProfiles", "SLICEWRIGHT_HARDWARE_PROFILES"),
    (BY_THE_GUIDE, "SLICEWRIGHT_HARDWARE_PROFILES"),
];
/// The only ones that an administrator grants, by the guide.
const BY_THE_GUIDE: &str = "openshiftAi";

fn rules_of_the_chart() -> Value {
    let file = packaging::root().join("charts/slicewright/files/rights.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// What OLM grants of the bundle.
fn granted() -> BTreeSet<Right> {
    let csv = csv_of(&committed());
    let install = &csv["spec"]["install"]["spec"];
    let parts =
        ["permissions", "clusterPermissions"].iter().flat_map(|part| install[part].as_array().unwrap());
    parts.flat_map(|part| rights(part["rules"].as_array().unwrap())).collect()
}

/// The environment of a Subscription is all that OLM can set: what it switches on must be allowed.
#[test]
fn what_the_environment_of_a_subscription_switches_on_is_allowed() {
    let rules = rules_of_the_chart();
    let granted = granted();
    let mut keys = BTreeSet::from(["cluster", "own", "gpuOperator"]);
    keys.extend(SETTINGS.iter().map(|(key, _)| *key));
    // What `slicewright release` needs is the hook's of the chart, and under OLM that of whoever runs it.
    let known: BTreeSet<&str> = keys.iter().copied().chain(["release"]).collect();
    let all: BTreeSet<&str> = rules.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(all, known, "say for a new setting which variable switches it on, and who grants its rights");
    for key in keys {
        let needed = rights(rules[key].as_array().unwrap());
        assert!(!needed.is_empty(), "{key}");
        if key == BY_THE_GUIDE {
            assert!(needed.is_disjoint(&granted), "the guide says that the bundle does not grant {needed:?}");
        } else {
            let missing: Vec<_> = needed.difference(&granted).collect();
            assert!(missing.is_empty(), "{key}: {missing:?}");
        }
    }
    let reference = std::fs::read_to_string(packaging::root().join("docs/reference/operator.md")).unwrap();
    let guide = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md")).unwrap();
    let named = guide.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
    let named: BTreeSet<&str> = named.filter(|word| word.starts_with("SLICEWRIGHT_")).collect();
    for variable in named.into_iter().chain(SETTINGS.map(|(_, variable)| variable)) {
        assert!(reference.contains(&format!("[env: {variable}=")), "the operator does not read {variable}");
    }
    let csv = csv_of(&committed());
    let container =
        &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("args").is_none(), "a flag would win over the environment");
    assert_eq!(csv["metadata"]["annotations"]["operatorframework.io/cluster-monitoring"], "true");
}

#[test]
fn what_the_guide_grants_for_hardware_profiles_is_what_the_chart_would_grant() {
    let file = packaging::root().join("examples/olm/hardware-profiles.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let found: Vec<Value> = text.split("\n---\n").map(parse).collect();
    let objects = chart(&[r#"hardwareProfiles.mode="publish""#]);
    for (kind, fields) in [("Role", &["rules"][..]), ("RoleBinding", &["roleRef", "subjects"])] {
        let pick = |objects: &[Value]| -> Value {
            let is = |object: &&Value| {
                object["kind"] == kind && object["metadata"]["name"] == "slicewright-hardware-profiles"
            };
            objects.iter().find(is).unwrap_or_else(|| panic!("there is no such {kind}")).clone()
        };
        let (ours, charts) = (pick(&found), pick(&objects));
        assert_eq!(ours["apiVersion"], charts["apiVersion"]);
        assert_eq!(ours["metadata"]["namespace"], charts["metadata"]["namespace"]);
        for field in fields {
            assert_eq!(ours[field], charts[field], "{kind}: {field}");
        }
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn the_console_is_given_samples_a_quick_start_and_a_place_to_download_from() {
    let manifests = manifests_of(&committed());
    let of =
        |kind: &str| manifests.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
    assert!(of("ConsoleYAMLSample").len() >= 3);
    let [quick_start] = of("ConsoleQuickStart").try_into().unwrap();
    for task in quick_start["spec"]["tasks"].as_array().unwrap() {
        for at in
            ["/title", "/description", "/review/instructions", "/review/failedTaskHelp", "/summary/success"]
        {
            assert!(
                task.pointer(at).and_then(Value::as_str).is_some_and(|text| !text.is_empty()),
                "{at}: {task}"
            );
        }
    }
    let [download] = of("ConsoleCLIDownload").try_into().unwrap();
    let repository =
        csv_of(&committed())["metadata"]["annotations"]["repository"].as_str().unwrap().to_owned();
    for link in download["spec"]["links"].as_array().unwrap() {
        assert!(link["href"].as_str().unwrap().starts_with(&format!("{repository}/")), "{link}");
    }
}

/// Each system that a release has an archive for, by the name that people know, and no other.
#[test]
fn the_download_and_its_page_name_the_systems_that_there_are_archives_for() {
    let mut systems: Vec<&str> = Vec::new();
    for system in System::value_variants() {
        if !systems.contains(&system.title()) {
            systems.push(system.title());
        }
    }
    let (last, others) = systems.split_last().unwrap();
    let named = format!("{} and {last}", others.join(", "));
    let manifests = manifests_of(&committed());
    let download = manifests.iter().find(|object| object["kind"] == "ConsoleCLIDownload").unwrap();
    let texts: Vec<&str> = download["spec"]["links"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|link| link["text"].as_str())
        .collect();
    assert_eq!(texts, [named.as_str()]);
    let page = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md")).unwrap();
    assert!(page.contains(&format!("Command Line Tools, for {named}.")), "docs/guides/olm.md: for {named}");
}
