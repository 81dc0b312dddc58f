//! Every skipped scenario has a stated reason.

use std::process::Command;

use e2e::needs::why_not_on_real_nodes;

#[test]
fn every_file_of_scenarios_says_why_it_is_left_out_on_real_nodes_or_needs_no_cluster() {
    let listed = Command::new(std::env::current_exe().unwrap()).args(["--list", "--format=terse"]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let names: Vec<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(names.len() > 80, "{listed}");
    let on_its_own = ["any_cluster::", "needs::"];
    let nobody_said: Vec<_> = names
        .iter()
        .filter(|name| !on_its_own.iter().any(|own| name.starts_with(own)))
        .filter(|name| why_not_on_real_nodes(name).is_none())
        .collect();
    assert!(nobody_said.is_empty(), "e2e/src/needs.rs does not say why these are left out: {nobody_said:?}");
}
