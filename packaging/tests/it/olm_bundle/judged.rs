//! The bundle under external validators: the validation library that operator-sdk uses, the six tests of
//! its scorecard, and opm. Each also gets a broken bundle, so that the absence of errors is meaningful.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use packaging::bundle::{Files, SCORECARD_TESTS, read_folder};
use packaging::catalog;
use serde_json::Value;
use tempfile::TempDir;

/// The newest Kubernetes that the scenarios run on.
const KUBERNETES: &str = "1.36";

fn tool(name: &str) -> PathBuf {
    tools::find(name).unwrap_or_else(|error| panic!("{error}"))
}

fn bundle() -> PathBuf {
    packaging::root().join("olm-bundle")
}

/// The bundle with something in its ClusterServiceVersion changed.
fn broken(from: &str, to: &str) -> (TempDir, PathBuf) {
    let Files(mut files) = read_folder(&bundle()).unwrap();
    let csv = files.get_mut("manifests/slicewright.clusterserviceversion.yaml").unwrap();
    assert!(csv.contains(from), "{from}");
    *csv = csv.replace(from, to);
    let home = TempDir::new().unwrap();
    let folder = home.path().join("bundle");
    Files(files).write(&folder).unwrap();
    (home, folder)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn validate(folder: &Path) -> Value {
    let mut command = Command::new(tool("bundle-validate"));
    json(&command.args(["--k8s-version", KUBERNETES]).arg(folder).output().unwrap())
}

#[test]
fn the_whole_suite_of_the_validation_library_has_nothing_to_say() {
    let report = validate(&bundle());
    assert_eq!(report["findings"], Value::Array(Vec::new()), "{report}");
    for validator in ["bundle", "operatorhubv2", "good-practices", "categories", "object"] {
        assert!(report["validators"].as_array().unwrap().iter().any(|v| v == validator), "{report}");
    }
    assert!(report["objects"].as_u64().unwrap() >= 8, "{report}");
}

#[test]
fn the_validation_library_finds_what_is_wrong() {
    for (from, to, found) in [
        ("categories: AI/Machine Learning", "categories: Drivers and plugins", "categories"),
        ("minKubeVersion: \"1.33.0\"", "minKubeVersion: \"\"", "minKubeVersion"),
        ("capabilities: Seamless Upgrades", "capabilities: Everything", "capabilities"),
    ] {
        let (_home, folder) = broken(from, to);
        let report = validate(&folder);
        assert!(report["findings"].to_string().to_lowercase().contains(&found.to_lowercase()), "{report}");
    }
}

/// Runs a test of the scorecard where it looks for the bundle: at `/bundle`,
/// in a root of its own that holds the program and nothing else.
fn scorecard(folder: &Path, test: &str) -> Value {
    let home = TempDir::new().unwrap();
    let root = home.path();
    // Not copied by this process: programs that other tests start meanwhile would have it open for writing too, and
    // such a program does not run.
    let copied = Command::new("cp").arg(tool("scorecard-test")).arg(root).status().unwrap();
    assert!(copied.success());
    read_folder(folder).unwrap().write(&root.join("bundle")).unwrap();
    std::fs::create_dir(root.join("tmp")).unwrap();
    let run = |program: &str, args: &[&str]| {
        Command::new(program).args(args).arg(root).args(["/scorecard-test", test]).output().unwrap()
    };
    // Root may change the root; others may in a user namespace of their own.
    let output = run("chroot", &[]);
    let output =
        if output.status.success() { output } else { run("unshare", &["--map-root-user", "chroot"]) };
    json(&output)
}

#[test]
fn the_six_tests_of_the_scorecard_pass_without_a_suggestion() {
    for (_, test) in SCORECARD_TESTS {
        let results = scorecard(&bundle(), test);
        let results = results["results"].as_array().unwrap();
        assert_eq!(results.len(), 1, "{test}");
        let Value::Object(result) = &results[0] else { panic!("{test}: {results:?}") };
        assert_eq!(result["state"], "pass", "{test}: {result:?}");
        for said in ["errors", "suggestions"] {
            let all = result.get(said).and_then(Value::as_array).cloned().unwrap_or_default();
            assert!(all.is_empty(), "{test}: {all:?}");
        }
    }
}

#[test]
fn the_scorecard_finds_a_field_without_a_descriptor() {
    let (_home, folder) = broken("path: nodeSelector", "path: nodeElector");
    let results = scorecard(&folder, "olm-spec-descriptors");
    assert_eq!(results["results"][0]["state"], "fail", "{results}");
    assert!(results.to_string().contains("nodeSelector does not have a spec descriptor"), "{results}");
}

#[test]
fn opm_renders_a_bundle_that_asks_for_no_other() {
    let folder = bundle();
    let args =
        ["render", folder.to_str().unwrap(), "--alpha-image-ref-template", "registry.example.com/b:v1"];
    let text = catalog::opm(&tool("opm"), &args).unwrap_or_else(|error| panic!("{error}"));
    let rendered: Value = serde_json::from_str(&text).unwrap();
    let mut types: Vec<&str> =
        rendered["properties"].as_array().unwrap().iter().map(|p| p["type"].as_str().unwrap()).collect();
    types.dedup();
    // Nothing is required, no package and no kind: the second generation of OLM refuses what is.
    assert_eq!(types, ["olm.gvk", "olm.package", "olm.bundle.object"]);
    let images: Vec<&str> =
        rendered["relatedImages"].as_array().unwrap().iter().map(|i| i["image"].as_str().unwrap()).collect();
    let image = packaging::bundle::Image::unreleased().to_string();
    assert_eq!(images, ["registry.example.com/b:v1", image.as_str()]);
}
