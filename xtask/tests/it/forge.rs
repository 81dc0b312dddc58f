//! The content of `.github`: workflows use only pinned actions, every kind of dependency is kept up to
//! date, and forms have the fields that a forge requires.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn yaml(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_action_is_pinned_by_its_commit_with_the_version_beside_it() {
    let mut actions = BTreeSet::new();
    let workflows = [".github/workflows", "examples/policy-repo/.github/workflows"];
    for file in workflows.iter().flat_map(|folder| files(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let Some((_, action)) = line.split_once("uses: ") else { continue };
            let place = format!("{}:{}: {action}", file.display(), number + 1);
            let (name, rest) = action.split_once('@').unwrap_or_else(|| panic!("{place}"));
            let (commit, version) = rest.split_once(" # v").unwrap_or_else(|| panic!("{place}"));
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_commit && version.split('.').count() == 3, "{place}");
            actions.insert((name.to_owned(), commit.to_owned()));
        }
    }
    let names: BTreeSet<&String> = actions.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), actions.len(), "one version of each: {actions:?}");
    assert!(names.len() > 3, "{names:?}");
}

#[test]
fn every_workflow_says_what_it_may_and_pull_requests_run_the_gate() {
    for file in files(".github/workflows") {
        let workflow = yaml(&file);
        assert_eq!(workflow["permissions"]["contents"], "read", "{}", file.display());
        assert_eq!(workflow["permissions"].as_object().unwrap().len(), 1, "{}", file.display());
    }
    let gate = yaml(&root().join(".github/workflows/gate.yaml"));
    assert!(gate["on"].as_object().unwrap().contains_key("pull_request"));
    let steps = gate["jobs"]["test"]["steps"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["run"], ".ci/run");
}

/// The gate leaves this out, since its database is downloaded: somebody has to ask.
#[test]
fn known_vulnerabilities_are_looked_up_every_night() {
    let workflow = yaml(&root().join(".github/workflows/advisories.yaml"));
    let cron = workflow["on"]["schedule"][0]["cron"].as_str().unwrap_or_default();
    assert!(cron.ends_with(" * * *"), "not every day: {cron:?}");
    let steps = workflow["jobs"]["check"]["steps"].as_array().unwrap();
    let last = steps.last().unwrap()["run"].as_str().unwrap_or_default();
    let step = last.strip_prefix("cargo xtask test ").unwrap_or_else(|| panic!("it runs {last:?}"));
    let gate = std::fs::read_to_string(root().join("xtask/src/gate.rs")).unwrap();
    assert!(gate.contains(&format!("const ADVISORIES: &str = {step:?};")), "the gate has no step {step:?}");
}

#[test]
fn a_tag_publishes_what_is_tagged_and_signs_it_and_the_release_check_keeps_its_log() {
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yaml")).unwrap();
    let release: Value = serde_saphyr::from_str(&workflow).unwrap();
    assert_eq!(release["on"]["push"]["tags"][0], "v*");
    let job = &release["jobs"]["publish"];
    // A release, and a signature in its own name: nothing else may be written.
    assert_eq!(job["permissions"], serde_json::json!({"contents": "write", "id-token": "write"}));
    let steps: Vec<&str> =
        job["steps"].as_array().unwrap().iter().filter_map(|step| step["run"].as_str()).collect();
    let at = |words: &str| {
        let place = steps.iter().position(|step| step.contains(words));
        place.unwrap_or_else(|| panic!("no step runs {words}: {steps:#?}"))
    };
    // The version is compared before anything is published, and everything is signed before people see it.
    assert!(at("Cargo.toml") < at("cargo xtask publish"));
    assert!(at("cargo xtask publish") < at("packaging/release/sign.sh dist"));
    assert!(at("packaging/release/sign.sh dist") < at("gh release create"));
    // What a stranger can write (a tag, a branch) is no part of a script.
    assert!(steps.iter().all(|step| !step.contains("${{")), "{steps:#?}");

    let check = yaml(&root().join(".github/workflows/release-check.yaml"));
    let steps = check["jobs"]["check"]["steps"].as_array().unwrap();
    assert!(
        steps
            .iter()
            .any(|step| step["run"].as_str().is_some_and(|run| run.contains("| tee release-check.log")))
    );
    let last = steps.last().unwrap();
    assert_eq!((&last["if"], &last["with"]["path"]), (&"always()".into(), &"release-check.log".into()));
}

/// What may make namespaces only where the machine lets everybody: the runners of a forge are not root, and Ubuntu 24.04
/// refuses it to others. The gate and the release check run programs in a mount namespace.
#[test]
fn a_workflow_whose_programs_need_namespaces_lets_them_make_some_before_they_run() {
    const ALLOWED: &str = "sudo sysctl --write kernel.apparmor_restrict_unprivileged_userns=0";
    for (name, job, runs) in
        [("gate", "test", ".ci/run"), ("release-check", "check", "cargo xtask release-check")]
    {
        let workflow = yaml(&root().join(format!(".github/workflows/{name}.yaml")));
        let job = &workflow["jobs"][job];
        assert_eq!(job["runs-on"], "ubuntu-24.04", "{name}: does this runner still refuse namespaces?");
        let steps: Vec<&str> =
            job["steps"].as_array().unwrap().iter().filter_map(|step| step["run"].as_str()).collect();
        let at = |words: &str| steps.iter().position(|step| step.contains(words));
        let (allowed, runs) = (at(ALLOWED), at(runs));
        assert!(allowed.is_some() && allowed < runs, "{name}: {steps:#?}");
    }
}

#[test]
fn who_reports_a_fault_is_asked_once_for_what_one_command_collects() {
    let form = yaml(&root().join(".github/ISSUE_TEMPLATE/bug.yml"));
    let asks = |field: &&Value| {
        let said = field["attributes"]["description"].as_str();
        said.is_some_and(|said| said.contains("`slicewright support-bundle --to "))
    };
    assert_eq!(form["body"].as_array().unwrap().iter().filter(asks).count(), 1);
    let text = form.to_string();
    for collected in ["kubectl get", "kubectl --namespace", "slicewright snapshot"] {
        assert!(!text.contains(collected), "the bundle has what `{collected}` shows");
    }
}

#[test]
fn every_kind_of_dependency_is_kept_up_to_date() {
    let updates = yaml(&root().join(".github/dependabot.yml"));
    let kinds: BTreeSet<&str> = updates["updates"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|u| u["package-ecosystem"].as_str())
        .collect();
    assert_eq!(kinds, BTreeSet::from(["cargo", "github-actions", "gomod", "pip"]));
    for update in updates["updates"].as_array().unwrap() {
        let folders = update["directories"].as_array().into_iter().flatten().chain(update.get("directory"));
        for folder in folders.filter_map(Value::as_str) {
            let folder = folder.trim_start_matches('/').trim_end_matches('*');
            assert!(root().join(folder).is_dir(), "there is no {folder}");
        }
    }
}

#[test]
fn forms_have_names_and_fields_and_no_field_twice() {
    for file in files(".github/ISSUE_TEMPLATE") {
        if file.file_name().unwrap() == "config.yml" {
            continue;
        }
        let form = yaml(&file);
        for field in ["name", "description"] {
            assert!(form[field].as_str().is_some_and(|text| !text.is_empty()), "{}: {field}", file.display());
        }
        let fields = form["body"].as_array().unwrap();
        let ids: BTreeSet<_> = fields.iter().map(|field| field["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), fields.len(), "{}", file.display());
        for field in fields {
            let kind = field["type"].as_str().unwrap();
            assert!(["input", "textarea", "dropdown", "checkboxes"].contains(&kind), "{kind}");
            assert!(
                field["attributes"]["label"].is_string() && field["validations"]["required"].is_boolean()
            );
        }
        assert!(fields.iter().any(|field| field["validations"]["required"] == true), "{}", file.display());
    }
}
