//! Gangs beside those who come before or after them, and beside what was promised.

use planner::decide::Decision;
use planner::demand::Apart;
use planner::inventory::Inventory;
use planner::report::{Broken, Help, Outcome};
use planner::testing::{a100, fleet, policy, request};

use super::{cut, decided, gang, half, in_zone, nodes_of, set};

/// Zone `b` has slices for two pods; each of the others has one for one.
fn one_zone_for_two() -> Inventory {
    fleet()
        .node("a1", in_zone("a", [half()]))
        .node("b1", in_zone("b", [cut()]))
        .node("c1", in_zone("c", [half()]))
        .build()
}

/// Whose promise is broken, and for whom of a higher priority.
fn broken(decision: &Decision) -> Vec<(&str, &str)> {
    let of = decision.report.requests.iter().filter_map(|report| match &report.broken.as_ref()?.why {
        Broken::HigherPriority { to } => Some((report.id.name.as_str(), to.name.as_str())),
        _ => None,
    });
    of.collect()
}

#[test]
fn a_gang_does_not_take_what_was_promised_to_somebody_else() {
    let inventory = one_zone_for_two();
    let policies = [policy("p").oldest_first().build()];
    let mut requests = gang("train", 2, "3g.40gb");
    assert_eq!(nodes_of(&decided(&inventory, &requests, &policies), "train"), set(&["b1"]));
    requests.push(request("lab").asks("3g.40gb", 1).since(9).promised("b1").build());
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "lab"), nodes_of(&decision, "train")), (set(&["b1"]), set(&["-"])));
}

#[test]
fn what_was_promised_to_a_gang_is_not_given_up_for_who_comes_later_and_asks_for_more() {
    let inventory = one_zone_for_two();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.iter_mut().for_each(|request| request.promised = Some("b1".into()));
    requests.push(request("late").asks("7g.80gb", 1).since(9).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "late")), (set(&["b1"]), set(&["-"])));
}

/// The other half of it would be kept for pods that could not start.
#[test]
fn a_gang_that_loses_a_part_of_its_promise_to_a_higher_priority_keeps_none_of_it() {
    let inventory = fleet().node("b1", in_zone("b", [cut()])).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.iter_mut().for_each(|request| request.promised = Some("b1".into()));
    requests.push(request("lab").asks("3g.40gb", 1).since(9).build());
    let policies = [policy("p").build()];
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "lab")), (set(&["b1"]), set(&["-"])));
    requests.push(request("urgent").asks("3g.40gb", 1).since(9).priority(10).build());
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "urgent"), nodes_of(&decision, "train")), (set(&["b1"]), set(&["-"])));
    assert_eq!(nodes_of(&decision, "lab"), set(&["b1"]));
    assert_eq!(broken(&decision), [("train-0", "urgent"), ("train-1", "urgent")]);

    // Where another zone has slices for all of it, it goes there, and for the same reason.
    let mut inventory = inventory;
    inventory.nodes.insert("a1".into(), in_zone("a", [a100()]).build());
    let elsewhere = Apart::Elsewhere { topology: "its hostname".to_owned() };
    requests[3].constraints.kept_off.insert("a1".into(), elsewhere);
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "urgent"), nodes_of(&decision, "train")), (set(&["b1"]), set(&["a1"])));
    assert_eq!(broken(&decision), [("train-0", "urgent"), ("train-1", "urgent")]);
}

/// Who of them has a higher priority would need what was promised, and can start in no zone. So it is for another reason that the
/// promise is not kept: one pod more than the zone has slices for.
#[test]
fn a_promise_is_not_said_to_be_broken_for_somebody_who_gets_nothing() {
    let inventory = fleet().node("a1", in_zone("a", [half()])).node("b1", in_zone("b", [cut()])).build();
    let mut requests = gang("train", 3, "3g.40gb");
    requests[..2].iter_mut().for_each(|request| request.promised = Some("b1".into()));
    requests.extend(gang("urgent", 3, "3g.40gb"));
    requests[3..].iter_mut().for_each(|request| request.priority = 10);
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "urgent"), nodes_of(&decision, "train")), (set(&["-"]), set(&["-"])));
    assert_eq!(broken(&decision), []);
}

#[test]
fn a_pod_of_a_gang_whose_node_is_cordoned_is_told_that_and_not_who_needs_the_promise_of_another() {
    let inventory =
        fleet().node("b1", in_zone("b", [half()])).node("b2", in_zone("b", [half()]).unschedulable()).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests[0].promised = Some("b1".into());
    requests[1].promised = Some("b2".into());
    requests.push(request("urgent").asks("3g.40gb", 1).priority(10).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "urgent"), nodes_of(&decision, "train")), (set(&["b1"]), set(&["-"])));
    assert_eq!(broken(&decision), [("train-0", "urgent")]);
}

#[test]
fn with_the_oldest_first_a_younger_gang_does_not_take_the_place_of_an_older_pod_that_asks_for_less() {
    let inventory = fleet().node("b1", in_zone("b", [a100()])).build();
    let mut requests = vec![request("early").asks("4g.40gb", 1).build()];
    requests.extend(gang("train", 2, "3g.40gb"));
    requests[1..].iter_mut().for_each(|request| request.since = planner::testing::at(5));
    let most = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&most, "early"), nodes_of(&most, "train")), (set(&["-"]), set(&["b1"])));
    let oldest = decided(&inventory, &requests, &[policy("p").oldest_first().build()]);
    assert_eq!((nodes_of(&oldest, "early"), nodes_of(&oldest, "train")), (set(&["b1"]), set(&["-"])));
}

/// Pod by pod there are slices for both, and the name of the younger one comes first.
#[test]
fn of_two_gangs_for_which_one_zone_has_slices_the_older_has_it_if_none_has_a_higher_priority() {
    let inventory = one_zone_for_two();
    let mut requests = gang("zeta", 2, "3g.40gb");
    requests.extend(gang("alpha", 2, "3g.40gb"));
    requests[2..].iter_mut().for_each(|request| request.since = planner::testing::at(5));
    let policies = [policy("p").build()];
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "zeta"), nodes_of(&decision, "alpha")), (set(&["b1"]), set(&["-"])));
    requests[2..].iter_mut().for_each(|request| request.priority = 10);
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!((nodes_of(&decision, "zeta"), nodes_of(&decision, "alpha")), (set(&["-"]), set(&["b1"])));
}

/// Its slice has been there for long, and it is something else that it lacks.
#[test]
fn a_pod_of_a_gang_that_waits_for_something_else_takes_no_place_from_the_others() {
    let inventory = one_zone_for_two();
    let mut requests = gang("train", 3, "3g.40gb");
    requests[0].blocked_elsewhere = Some("its image cannot be pulled".to_owned());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "train-0"), set(&["-"]));
    assert_eq!(nodes_of(&decision, "train-1").union(&nodes_of(&decision, "train-2")).count(), 1);
    assert_eq!(nodes_of(&decision, "train-2"), set(&["b1"]));
}

/// With the pod gone, one of the two would have a place, and none of them could start.
#[test]
fn nobody_of_a_gang_is_told_what_would_help_one_of_it_alone() {
    let inventory = fleet().node("b1", in_zone("b", [a100().used("7g.80gb", 0, "held")])).build();
    let mut requests = gang("train", 2, "4g.40gb");
    requests.push(request("lab").asks("4g.40gb", 1).since(9).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    let told = |name: &str| -> Vec<&Help> {
        let reports = decision.report.requests.iter().filter(|report| report.id.name.starts_with(name));
        let help = reports.filter_map(|report| match &report.outcome {
            Outcome::Unserved { help, .. } => Some(help),
            Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => None,
        });
        help.flatten().collect()
    };
    assert!(!told("lab").is_empty(), "nothing would help anybody, so this says nothing");
    assert_eq!(told("train"), Vec::<&Help>::new());
}
