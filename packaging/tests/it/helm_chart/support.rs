//! The supported versions are defined once, in `packaging/support.yaml`: the chart, the bundle, the pages
//! and the modules under `tools/` agree with it.

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
    let mut found = 0;
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let oldest = match word.trim_start_matches(['(', '`', '*', '|']) {
                "Kubernetes" => &support.oldest.kubernetes,
                "OpenShift" => &support.oldest.openshift,
                "Helm" => &support.oldest.helm,
                _ => continue,
            };
            if let Some(named) = named_oldest(&words, at) {
                assert_eq!(named, *oldest, "{}: {word} {named}", path.display());
                found += 1;
            }
        }
    }
    assert!(found >= 6, "the pages name oldest versions {found} times");
}
