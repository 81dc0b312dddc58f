//! Generated files agree with the code. `UPDATE=1` writes them; review the difference.

use std::path::Path;

use clap::CommandFactory;
use controller::rbac::{self, Installation};

#[track_caller]
fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
    let update = std::env::var("UPDATE").is_ok();
    if update {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "{file} is not up to date: run `UPDATE=1 cargo test -p slicewright-controller`");
}

#[test]
fn the_rights_are_up_to_date() {
    check("docs/reference/rbac.md", &rbac::page());
    let manifests = Installation::default().manifests();
    let documents: Vec<String> =
        manifests.iter().map(|manifest| serde_saphyr::to_string(manifest).unwrap()).collect();
    let head =
        "# The rights of the operator; docs/reference/rbac.md has the reason of each. Made from the code.\n";
    check("deploy/rbac.yaml", &format!("{head}---\n{}", documents.join("---\n")));
}

#[test]
fn the_rights_of_who_records_are_up_to_date() {
    let manifests = rbac::snapshot_manifests(&Installation::default());
    let documents: Vec<String> =
        manifests.iter().map(|manifest| serde_saphyr::to_string(manifest).unwrap()).collect();
    let head = "# An account that may record the fleet (`slicewright snapshot`): it only reads. Made from the code.\n";
    check("deploy/snapshot-role.yaml", &format!("{head}---\n{}", documents.join("---\n")));
}

#[test]
fn the_rights_in_the_chart_are_up_to_date() {
    let rules = serde_saphyr::to_string(&rbac::rules_by_scope()).unwrap();
    let head = "# RBAC rules by scope; templates/rbac.yaml makes roles of them. Made from the code.\n";
    check("charts/slicewright/files/rights.yaml", &format!("{head}{rules}"));
}

#[test]
fn the_metrics_are_up_to_date() {
    check("docs/reference/metrics.md", &controller::metrics::page());
}

#[test]
fn the_events_are_up_to_date() {
    check("docs/reference/events.md", &controller::publish::catalogue::page());
}

#[test]
fn the_flags_are_up_to_date() {
    let help = controller::args::Args::command().render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let page = format!(
        "# slicewright-operator\n\nWhat `slicewright-operator --help` prints. How it runs is in\n[the guide](../guides/operator.md).\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    );
    check("docs/reference/operator.md", &page);
}

#[test]
fn the_guide_names_every_kind_that_is_watched_and_when() {
    use controller::store::Foreign;
    let page = include_str!("../../../../docs/guides/operator.md");
    let (_, section) = page.split_once("## Which kinds are watched\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let row = |with: &str| section.lines().find(|line| line.contains(with)).unwrap_or_default();
    let rows = [
        (Foreign::ALWAYS.as_slice(), "while their CRDs exist"),
        (Foreign::QUEUES.as_slice(), "with `kueue:"),
        (Foreign::MENU.as_slice(), "with `hardwareProfiles.mode:"),
    ];
    for (kinds, when) in rows {
        for kind in kinds {
            let name = format!("`{}`", kind.names().1);
            assert!(row(when).contains(&name), "{name} is watched, and not in the row {when:?} of the guide");
        }
    }
}
