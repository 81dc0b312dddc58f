//! What users of Argo CD are given: the folder that Argo CD's own repository
//! would take, run as its own test would run it; and the same script in the
//! objects that install it until then.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gitops::argocd::{Health, STATUSES, Script};
use gitops::{CUSTOMIZATION, Judges, judged, root};
use serde::Deserialize;
use serde_json::Value;

/// `health_test.yaml`, in Argo CD's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tests {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Test {
    health_status: Health,
    input_path: PathBuf,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn tests() -> Vec<(Test, Value)> {
    let tests: Tests = serde_saphyr::from_str(&read(&format!("{CUSTOMIZATION}/health_test.yaml")))
        .unwrap_or_else(|error| panic!("health_test.yaml: {error}"));
    let with_input = |test: Test| {
        let path = format!("{CUSTOMIZATION}/{}", test.input_path.display());
        let object = documents(&path).pop().unwrap_or_else(|| panic!("{path} is empty"));
        (test, object)
    };
    tests.tests.into_iter().map(with_input).collect()
}

#[test]
fn every_test_of_the_health_script_passes() {
    let script = Script::new(read(&format!("{CUSTOMIZATION}/health.lua")));
    for (test, object) in tests() {
        let health = script.health(&object).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(health, test.health_status, "{}", test.input_path.display());
    }
}

#[test]
fn every_answer_and_every_file_is_tested() {
    let tests = tests();
    let told: BTreeSet<_> = tests.iter().map(|(test, _)| test.health_status.status.as_str()).collect();
    assert_eq!(told, STATUSES.iter().copied().collect());
    let tested: BTreeSet<_> = tests.iter().map(|(test, _)| test.input_path.clone()).collect();
    let folder = root().join(CUSTOMIZATION).join("testdata");
    let there = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let there: BTreeSet<_> =
        there.flatten().map(|entry| PathBuf::from("testdata").join(entry.file_name())).collect();
    assert_eq!(tested, there);
}

#[test]
fn the_objects_of_the_tests_are_policies_as_the_api_has_them_and_all_judges_agree() {
    for (test, object) in tests() {
        let name = test.input_path.display();
        let policy: api::GpuPartitionPolicy =
            serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(policy.status.is_some_and(|status| !status.conditions.is_empty()), "{name} has no status");
        let (_, problems) = judged(&Judges::shipped(), &object);
        assert!(problems.is_empty(), "{name}: {problems:?}");
    }
}

#[test]
fn what_installs_the_script_installs_this_one() {
    let script = read(&format!("{CUSTOMIZATION}/health.lua"));
    let openshift = documents("examples/gitops/argocd/health-openshift-gitops.yaml");
    let check = openshift[0].pointer("/spec/resourceHealthChecks/0");
    assert_eq!(check.map(|check| &check["check"]), Some(&Value::from(script.as_str())));
    let plain = documents("examples/gitops/argocd/health-argocd-cm.yaml");
    let key = "resource.customizations.health.slicewright.io_GpuPartitionPolicy";
    assert_eq!(plain[0]["data"][key], script.as_str());
}
