//! A certificate claims no more than the plan shows, and no better bound than
//! arithmetic gives.

use planner::check::check_certificate;
use planner::report::LevelCertificate;

use super::world::{World, fresh, recut};

/// What is said of a world's plan whose certificate says this.
fn said(world: &World, levels: &[(&str, i64, i64)]) -> Vec<String> {
    let certificate: Vec<LevelCertificate> = levels
        .iter()
        .map(|(level, value, bound)| LevelCertificate {
            level: (*level).to_owned(),
            value: *value,
            bound: *bound,
        })
        .collect();
    let notes = check_certificate(&world.plan, &world.inventory, &certificate);
    notes.iter().map(ToString::to_string).collect()
}

#[test]
fn it_counts_what_the_plan_changes() {
    // One GPU of one node, and two of one node.
    for (world, gpus) in [(recut(), 1), (fresh(), 2)] {
        assert_eq!(
            said(&world, &[("GPUs changed", gpus, gpus), ("nodes touched", 1, 1)]),
            Vec::<String>::new()
        );
        assert_eq!(
            said(&world, &[("GPUs changed", 3, 0), ("nodes touched", 2, 1)]),
            [
                format!("fatal: the certificate says 3 GPUs changed, but there are {gpus}"),
                "fatal: the certificate says 2 nodes touched, but there are 1".to_owned()
            ]
        );
    }
}

#[test]
fn nothing_is_below_its_bound_and_a_bound_that_is_reached_is_no_fault() {
    let level = "slices created and destroyed";
    assert_eq!(said(&recut(), &[(level, 4, 4), (level, 4, 0)]), Vec::<String>::new());
    assert_eq!(
        said(&recut(), &[(level, 4, 5)]),
        [format!("fatal: the certificate says 4 {level}, but gives the lower bound 5")]
    );
}

#[test]
fn so_many_gpus_are_on_no_fewer_nodes() {
    // Only nodes are bounded so: no GPU needs to change.
    assert_eq!(said(&fresh(), &[("GPUs changed", 2, 0), ("nodes touched", 1, 1)]), Vec::<String>::new());
    assert_eq!(
        said(&fresh(), &[("nodes touched", 1, 0)]),
        ["fatal: the certificate says at least 0 nodes touched, but it is at least 1"]
    );
}
