//! Which part of the cluster a gang has, and what comes of it for those who are decided about after it.

use planner::check::check_promises;
use planner::decide::{Decision, decide, decide_near};
use planner::demand::{Apart, Request};
use planner::report::{Outcome, Why};
use planner::testing::{GpuBuilder, a100, fleet, policy, request};

use super::{
    Decide, RACK, ZONE, cut, decided, decided_by, gang, half, in_zone, nodes, nodes_of, reason, set,
};

/// So many pods that start one by one, each with one slice, and have to be in one zone.
fn service(name: &str, pods: usize) -> Vec<Request> {
    let pod = |n| request(&format!("{name}-{n}")).asks("3g.40gb", 1).together(name, ZONE).build();
    (0..pods).map(pod).collect()
}

/// Only one of them may use the first node, and only the other one the second.
#[test]
fn pods_of_one_gang_that_may_use_different_nodes_are_in_the_zone_that_has_both() {
    let inventory = fleet()
        .node("a1", in_zone("a", [half()]).label("disk", "fast"))
        .node("b1", in_zone("b", [half()]).label("disk", "fast"))
        .node("b2", in_zone("b", [half()]).label("disk", "slow"))
        .node("c1", in_zone("c", [half()]).label("disk", "slow"))
        .build();
    let pod = |name: &str, disk: &str| {
        let pod = request(name).asks("3g.40gb", 1).of_gang("train").together("train", ZONE);
        pod.selects("disk", disk).build()
    };
    let requests = [pod("train-0", "fast"), pod("train-1", "slow")];
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "train"), set(&["b1", "b2"]));
}

/// While `beta` is thought to have all there is, nothing is decided about the two others. Once it has nothing, the best plan
/// without zones has one pod of each of them in each zone. Without the younger ones, the older ones are in one.
#[test]
fn of_two_gangs_that_are_in_each_others_way_the_younger_one_makes_room() {
    let inventory = fleet().node("a1", in_zone("a", [cut()])).node("b1", in_zone("b", [a100()])).build();
    let mut requests = gang("beta", 2, "7g.80gb");
    requests.iter_mut().for_each(|request| request.priority = 5);
    for (name, slice, since) in [("older", "3g.40gb", 5), ("late", "4g.40gb", 9)] {
        let mut gang = gang(name, 2, slice);
        gang.iter_mut().for_each(|request| request.since = planner::testing::at(since));
        requests.extend(gang);
    }
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "beta"), nodes_of(&decision, "late")), (set(&["-"]), set(&["-"])));
    assert_eq!(nodes_of(&decision, "older"), set(&["a1"]));
}

/// One of its pods has its zone already when it turns out that no rack has slices for the two others.
#[test]
fn a_gang_of_which_one_rule_cannot_be_kept_is_in_nobodys_way() {
    let rack = |zone: &str, gpu: GpuBuilder| in_zone(zone, [gpu]).label(RACK, zone);
    let inventory = fleet()
        .node("a1", rack("a", half()))
        .node("b1", rack("b", half()))
        .node("c1", rack("c", a100()))
        .node("d1", rack("d", a100()))
        .build();
    let of_pair = |name: &str, slice: &str, rule: &str, label: &str| {
        request(name).asks(slice, 1).of_gang("pair").together(rule, label).build()
    };
    let mut requests = vec![
        of_pair("pair-0", "1g.10gb", "first", ZONE),
        of_pair("pair-1", "4g.40gb", "second", RACK),
        of_pair("pair-2", "4g.40gb", "second", RACK),
    ];
    let mut train = gang("train", 2, "3g.40gb");
    train.iter_mut().for_each(|request| request.since = planner::testing::at(5));
    requests.extend(train);
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "pair"), set(&["-"]));
    let train = nodes_of(&decision, "train");
    assert!(train == set(&["c1"]) || train == set(&["d1"]), "{:?}", nodes(&decision));
}

/// Whoever took the slice that was promised took the reason to stay there.
#[test]
fn a_promise_that_is_broken_does_not_keep_pods_in_its_zone() {
    let taken = || a100().used("3g.40gb", 0, "thief").used("3g.40gb", 4, "thief");
    let inventory = fleet()
        .node("n1", in_zone("b", [half()]))
        .node("n2", in_zone("a", [cut()]))
        .node("n3", in_zone("b", [taken()]))
        .build();
    let mut requests = service("serves", 2);
    requests[0].promised = Some("n3".into());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "serves"), set(&["n2"]));
}

/// Zone `a` has a slice for one of the two, which together with the other pod is as much as slices can be used for at all.
#[test]
fn a_zone_that_has_slices_for_a_part_of_a_gang_is_not_the_last_that_is_looked_at() {
    let inventory = fleet().node("a1", in_zone("a", [half()])).node("b1", in_zone("b", [a100()])).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.push(request("lab").asks("1g.10gb", 5).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "lab")), (set(&["b1"]), set(&["-"])));
}

#[test]
fn of_many_zones_that_have_too_few_slices_the_three_that_have_the_most_are_named() {
    let full = || a100().used("7g.80gb", 0, "held");
    let zones: [(&str, [GpuBuilder; 2]); 4] =
        [("a", [half(), half()]), ("b", [half(), full()]), ("c", [cut(), half()]), ("d", [half(), full()])];
    let zone = |(name, gpus): (&str, [GpuBuilder; 2])| (format!("{name}1"), in_zone(name, gpus));
    let fleet = zones.into_iter().map(zone).fold(fleet(), |fleet, (name, node)| fleet.node(&name, node));
    let decision = decided(&fleet.build(), &gang("train", 4, "3g.40gb"), &[policy("p").build()]);
    let told = reason(&decision, "train-0");
    assert!(told.contains("all of them: for 3 in c, for 2 in a, for 1 in b. What would help"), "{told}");
}

/// Each of the first four is too large for each of the twelve zones, which takes all the plans that a round may make.
#[test]
fn pods_that_start_by_themselves_have_the_likeliest_zone_when_no_plan_is_left_to_find_the_best() {
    let zone = |n: usize| (format!("n{n:02}"), in_zone(&format!("z{n:02}"), [cut()]));
    let fleet = (0..12).map(zone).fold(fleet(), |fleet, (name, node)| fleet.node(&name, node));
    let names = ["s0", "s1", "s2", "s3", "s4"];
    let requests: Vec<Request> = names.iter().flat_map(|name| service(name, 3)).collect();
    let decision = decided(&fleet.build(), &requests, &[policy("p").build()]);
    for name in names {
        assert!(nodes_of(&decision, name).len() > 1, "{name} has nothing: {:?}", nodes(&decision));
    }
}

/// They start one by one, and the one whose promise is in the other zone goes where more of them have a place.
#[test]
fn of_promises_in_two_zones_to_pods_that_have_to_be_in_one_those_of_one_zone_are_kept() {
    let inventory = fleet().node("a1", in_zone("a", [half()])).node("b1", in_zone("b", [cut()])).build();
    let mut requests = service("serves", 2);
    requests[0].promised = Some("a1".into());
    requests[1].promised = Some("b1".into());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "serves"), set(&["b1"]));
}

/// Of a gang without a rule each pod is planned by itself, whatever became of the others.
#[test]
fn a_promise_to_one_of_a_gang_without_a_rule_is_asked_for_though_another_one_of_it_has_none() {
    let inventory = fleet().node("b1", in_zone("b", [cut()])).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.iter_mut().for_each(|request| request.together.rules.clear());
    requests[0].promised = Some("b1".into());
    let policies = [policy("p").build()];
    assert_eq!(nodes_of(&decided(&inventory, &requests, &policies), "train-0"), set(&["b1"]));
    let mut others = requests.clone();
    let elsewhere = Apart::Elsewhere { topology: "its hostname".to_owned() };
    others[0].constraints.kept_off.insert("b1".into(), elsewhere);
    let Decision { plan, report } = decide(&inventory, &others, &policies);
    let notes = check_promises(&plan, &report.requests, &inventory, &requests, &policies);
    let said: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert!(matches!(said.as_slice(), [note] if note.contains("train-0")), "{said:?}");
}

/// The one with the rule waits for something else, so it ties the others to nobody.
#[test]
fn a_gang_whose_only_rule_is_that_of_a_pod_that_waits_for_something_else_is_served_in_part() {
    let inventory = fleet().node("b1", in_zone("b", [half()])).build();
    let mut requests = gang("train", 3, "3g.40gb");
    requests[1..].iter_mut().for_each(|request| request.together.rules.clear());
    requests[0].blocked_elsewhere = Some("its image cannot be pulled".to_owned());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(nodes_of(&decision, "train-1"), set(&["b1"]));
    assert_eq!(nodes_of(&decision, "train-2"), set(&["-"]));
}

/// Whoever has a promise in zone `b` could go to zone `c`, and would then be in the way of nobody.
#[test]
fn a_promise_in_a_zone_that_is_planned_by_itself_is_kept() {
    let elsewhere = || Apart::Elsewhere { topology: "its hostname".to_owned() };
    let inventory = fleet()
        .node("b1", in_zone("b", [a100().idle("3g.40gb", 0).idle("1g.10gb", 4)]))
        .node("c1", in_zone("c", [a100()]))
        .build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.push(request("lab").asks("1g.10gb", 1).promised("b1").build());
    requests.push(request("only-c").asks("2g.20gb", 1).kept_off("b1", elsewhere()).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "lab")), (set(&["c1"]), set(&["b1"])));
    assert_eq!(nodes_of(&decision, "only-c"), set(&["-"]));
}

/// Beside `lab`, one of the two has a place in zone `b`, and the other one in zone `a`. In one zone they cost `lab` its place, and
/// then whoever waits for all of the GPU would be more.
#[test]
fn who_waits_for_more_than_a_gang_that_pushes_others_out_comes_before_it() {
    let inventory = fleet().node("a1", in_zone("a", [half()])).node("b1", in_zone("b", [a100()])).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.push(request("lab").asks("4g.40gb", 1).build());
    requests.push(request("waits").asks("7g.80gb", 1).since(5).build());
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "waits"), nodes_of(&decision, "train")), (set(&["b1"]), set(&["-"])));
}

/// On each node somebody has a place who may use no other one.
#[test]
fn of_many_zones_in_which_a_gang_pushes_somebody_out_it_has_the_one_in_which_the_least_is_lost() {
    let hosts = [("a1", "4g.40gb"), ("b1", "4g.40gb"), ("c1", "4g.40gb"), ("d1", "1g.10gb")];
    let node = |host: &str| in_zone(&host[..1], [a100()]).label("host", host);
    let fleet = hosts.iter().fold(fleet(), |fleet, (host, _)| fleet.node(host, node(host)));
    let mut requests = gang("train", 2, "3g.40gb");
    let on =
        |(host, slice): &(&str, &str)| request(&format!("on-{host}")).asks(slice, 1).selects("host", host);
    requests.extend(hosts.iter().map(|host| on(host).build()));
    let decision = decided(&fleet.build(), &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "on-d1")), (set(&["d1"]), set(&["-"])));
}

/// `huge` can start nowhere, since no zone has two GPUs. One of it alone would be more than the other gang is.
#[test]
fn zone_by_zone_no_gang_loses_its_place_to_a_part_of_another() {
    let inventory = fleet().node("a1", in_zone("a", [half()])).node("b1", in_zone("b", [a100()])).build();
    let mut requests = gang("train", 2, "3g.40gb");
    requests.push(request("lab").asks("4g.40gb", 1).build());
    let mut huge = gang("huge", 2, "7g.80gb");
    huge.iter_mut().for_each(|request| request.since = planner::testing::at(5));
    requests.extend(huge);
    let decision = decided_by(decide_near, &inventory, &requests, &[policy("p").build()]);
    assert_eq!((nodes_of(&decision, "train"), nodes_of(&decision, "lab")), (set(&["b1"]), set(&["-"])));
}

#[test]
fn zone_by_zone_the_same_is_said_of_why_a_gang_waits() {
    let inventory = fleet()
        .node("a1", in_zone("a", [a100().used("4g.40gb", 0, "held")]))
        .node("b1", in_zone("b", [a100()]))
        .build();
    let mut requests = gang("train", 2, "2g.20gb");
    requests.push(request("late").asks("7g.80gb", 1).since(5).build());
    let none_has = gang("none-has", 2, "1g.5gb");
    for decide in [decide as Decide, decide_near] {
        let decision = decided_by(decide, &inventory, &requests, &[policy("p").build()]);
        assert_eq!(why(&decision, "train"), [Why::AllUsed, Why::AllUsed]);
        let decision = decided_by(decide, &inventory, &none_has, &[policy("p").build()]);
        let is_profile = |why: &Why| matches!(why, Why::NoSuchProfile { .. });
        assert!(why(&decision, "none-has").iter().all(is_profile), "{:?}", why(&decision, "none-has"));
    }
}

/// Why those are not served whose name begins so.
fn why(decision: &Decision, name: &str) -> Vec<Why> {
    let reports = decision.report.requests.iter().filter(|report| report.id.name.starts_with(name));
    let why = reports.filter_map(|report| match &report.outcome {
        Outcome::Unserved { why, .. } => Some(why.clone()),
        Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => None,
    });
    why.collect()
}
