//! The supported versions are defined once, in `packaging/support.yaml`: the chart, the bundle, the pages
//! and the modules under `tools/` agree with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use packaging::support::{PAGE, Seen, Support};
use serde_json::Value;

fn support() -> Support {
    Support::read().unwrap_or_else(|error| panic!("{error}"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(packaging::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

#[test]
fn the_page_of_what_is_supported_is_up_to_date() {
    let page = support().page();
    #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(packaging::root().join(PAGE), &page).unwrap();
    }
    let found = std::fs::read_to_string(packaging::root().join(PAGE)).unwrap_or_default();
    assert!(found == page, "{PAGE} is not up to date: run `UPDATE=1 cargo test -p slicewright-packaging`");
}

#[test]
fn the_chart_and_the_bundle_ask_for_the_oldest_versions_that_are_supported() {
    let support = support();
    assert_eq!(yaml("charts/slicewright/Chart.yaml")["kubeVersion"], support.chart_constraint());
    let csv = yaml("olm-bundle/manifests/slicewright.clusterserviceversion.yaml");
    assert_eq!(csv["spec"]["minKubeVersion"], format!("{}.0", support.oldest.kubernetes));
    let of_openshift_ai = support.parts.iter().find(|part| part.name == "OpenShift AI").unwrap();
    let oldest = format!("{} or newer", support.oldest.openshift_ai);
    assert!(of_openshift_ai.needs.starts_with(&oldest), "{}", of_openshift_ai.needs);
    let annotations = yaml("olm-bundle/metadata/annotations.yaml");
    assert_eq!(
        annotations["annotations"]["com.redhat.openshift.versions"],
        format!("v{}", support.oldest.openshift)
    );
    assert_eq!(packaging::KUBERNETES, format!("{}.0", support.oldest.kubernetes));
}

/// What runs in a check has the version that its module under `tools/` pins.
#[test]
fn what_is_said_to_have_run_is_what_the_tools_pin() {
    for part in support().parts {
        for version in &part.versions {
            let Some(pin) = &version.pin else {
                assert_ne!(
                    version.seen,
                    Seen::Ran,
                    "{} {} ran: say where it is pinned",
                    part.name,
                    version.version
                );
                continue;
            };
            let module = read(&format!("tools/{}/go.mod", pin.module));
            let wanted = format!("{} v{}", pin.of, pin.r#as.as_ref().unwrap_or(&version.version));
            let pinned = module
                .lines()
                .map(|line| line.trim().trim_start_matches("require ").trim_end_matches(" // indirect"))
                .any(|line| line == wanted);
            assert!(pinned, "{}: tools/{}/go.mod does not have `{wanted}`", part.name, pin.module);
        }
    }
}

/// What stands between two marks, each time.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).collect()
}

/// What the scenarios and stories have of others is on the page, by the same versions.
#[test]
fn the_page_lists_what_the_tests_run_and_what_they_have_a_stand_in_for() {
    let support = support();
    let part = |name: &str| {
        let part = support.parts.iter().find(|part| part.name == name);
        part.unwrap_or_else(|| panic!("{PAGE} has no row for {name}"))
    };
    let said = |name: &str| {
        let versions = &part(name).versions;
        versions.iter().map(|v| format!("{} {}", v.version, v.r#where)).collect::<Vec<_>>().join("; ")
    };
    // Each release of OpenShift AI whose dashboard speaks otherwise.
    let releases = read("simulator/workbenches/src/dashboard/release.rs");
    let releases = between(&releases, "\n        name: \"", "\"");
    assert!(releases.len() >= 5, "{releases:?}");
    for release in releases {
        assert!(said("OpenShift AI").contains(&format!("v{release}")), "{PAGE}: the dashboard v{release}");
    }
    // Kinds of others of which there is a CRD and nothing that acts.
    let owners = read("e2e/scenarios/owners.rs");
    let (_, others) = owners.split_once("const OTHERS").unwrap();
    for (group, name) in [
        ("ray.io", "KubeRay"),
        ("jobset.x-k8s.io", "JobSet"),
        ("trainer.kubeflow.org", "Kubeflow Trainer"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ] {
        assert!(others.contains(&format!("(\"{group}\"")), "{group} is no more");
        part(name);
    }
    for kind in ["kserve.io_inferenceservices", "kserve.io_llminferenceservices"] {
        assert!(packaging::root().join(format!("simulator/cluster/crds/serving.{kind}.yaml")).is_file());
    }
    // Where they do not run, the row says so as well.
    for name in ["KServe", "KubeRay", "Kubeflow Trainer"] {
        assert!(part(name).versions.iter().any(|version| version.seen == Seen::StoodInFor), "{name}");
    }
    // And the versions of our programs that act, as another page tells them.
    let page = read("docs/e2e.md");
    for name in [
        "Kueue",
        "JobSet",
        "LeaderWorkerSet",
        "KServe",
        "KubeRay",
        "Kubeflow Trainer",
        "Kubeflow Training Operator",
        "Node Feature Discovery",
        "NVIDIA DRA driver for GPUs",
    ] {
        let version = &part(name).versions[0];
        assert_eq!(version.seen, Seen::Ran, "{name}");
        let row = page.lines().find(|line| {
            line.starts_with("| ")
                && line.split('|').nth(1).is_some_and(|cell| {
                    cell.split(',').map(str::trim).any(|part| !part.is_empty() && name.contains(part))
                })
        });
        let row = row.unwrap_or_else(|| panic!("docs/e2e.md has no row for {name}"));
        assert!(
            row.contains(&version.version),
            "docs/e2e.md: {name} is {} in {PAGE}: {row}",
            version.version
        );
    }
}

/// Which versions of the API the operator reads is what decides which releases it works with.
#[test]
fn the_page_names_the_versions_of_other_apis_that_the_operator_reads() {
    let source = read("crates/controller/src/store/source.rs");
    let source: String = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let of_kueue = read("crates/api/src/foreign/kueue.rs");
    let (_, of_kueue) = of_kueue.split_once("const VERSIONS").unwrap();
    let support = support();
    for (kind, name) in [
        ("ClusterQueue", "Kueue"),
        ("InferenceService", "KServe"),
        ("LLMInferenceService", "KServe"),
        ("HardwareProfile", "OpenShift AI"),
    ] {
        let (_, after) = source.split_once(&format!("\"{kind}\", \"")).unwrap();
        let (these, _) = after.split_once(')').unwrap();
        // Those of all kinds of Kueue are one list.
        let versions = match these.contains("&VERSIONS") {
            true => between(of_kueue, "= [", "]")[0],
            false => between(these, "&[", "]")[0],
        };
        let part = support.parts.iter().find(|part| part.name == name).unwrap();
        let says = format!("{} {}", part.needs, part.why);
        for version in between(versions, "\"", "\"").into_iter().step_by(2) {
            assert!(
                says.contains(version),
                "{name}: {kind} is read in {version}, which the row does not say"
            );
        }
    }
}

fn pages(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

/// The version after a name in a sentence such as "Kubernetes 1.33 or newer".
fn named_oldest(words: &[&str], at: usize) -> Option<String> {
    let version = words.get(at + 1)?;
    let counted =
        version.split('.').count() == 2 && version.split('.').all(|part| part.parse::<u32>().is_ok());
    let open = words.get(at + 2..at + 4)?;
    let newer =
        matches!(open, ["or" | "and", newer] if newer.trim_matches(['.', ',', ';', ':', ')']) == "newer");
    (counted && newer).then(|| (*version).to_owned())
}

#[test]
fn every_page_that_names_an_oldest_version_names_the_one_that_is_supported() {
    let support = support();
    let mut all = vec![
        packaging::root().join("README.md"),
        packaging::root().join("charts/slicewright/README.md"),
        packaging::root().join("packaging/olm/description.md"),
    ];
    pages(&packaging::root().join("docs"), &mut all);
    let mut found: BTreeMap<&String, usize> = BTreeMap::new();
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let of_openshift = words.get(at + 1) == Some(&"AI");
            let (oldest, version) = match word.trim_start_matches(['(', '`', '*', '|']) {
                "Kubernetes" => (&support.oldest.kubernetes, at),
                "OpenShift" if of_openshift => (&support.oldest.openshift_ai, at + 1),
                "OpenShift" => (&support.oldest.openshift, at),
                "Helm" => (&support.oldest.helm, at),
                _ => continue,
            };
            if let Some(named) = named_oldest(&words, version) {
                assert_eq!(named, *oldest, "{}: {} {named}", path.display(), words[at..=version].join(" "));
                *found.entry(oldest).or_default() += 1;
            }
        }
    }
    // A page that names one in other words is not seen: each is named at least so often, and all of them six times.
    assert!(found.values().sum::<usize>() >= 6, "{found:?}");
    for (oldest, least) in [
        (&support.oldest.kubernetes, 1),
        (&support.oldest.openshift, 2),
        (&support.oldest.openshift_ai, 1),
        (&support.oldest.helm, 1),
    ] {
        let times = found.get(oldest).copied().unwrap_or(0);
        assert!(times >= least, "the pages name {oldest} as an oldest version {times} times");
    }
}
