//! Devices that several pods share: seats of slices are planned, seats of GPUs that are not cut are told of.

use std::collections::BTreeSet;

use crate::oracle::apply::apply;
use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, shared_worlds};
use planner::check::{Severity, check, check_certificate};
use planner::decide::{Decision, decide};
use planner::inventory::{ChangeScope, Inventory};
use planner::report::{Help, Offered, Outcome, SeatSupply, Why};
use planner::testing::{
    FleetBuilder, NodeBuilder, SeatingBuilder, a100, fleet, node, policy, profile, request, seating,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_serves_more_seats_and_none_breaks_a_rule(world in shared_worlds()) {
        let World { inventory, requests, policies } = &world;
        let (best_plan, best) = crate::oracle::best(inventory, requests, policies);
        let Decision { plan, report } = decide(inventory, requests, policies);
        let fatal: Vec<String> = check(&plan, inventory, requests, policies)
            .iter().filter(|note| note.severity == Severity::Fatal).map(ToString::to_string).collect();
        prop_assert_eq!(fatal, Vec::<String>::new());
        let best = Values { nodes: u32::try_from(plan.steps.len()).expect("few"), ..best };
        let found = Demand::new(inventory, requests, policies).values_of(&plan).0;
        prop_assert_eq!(found, Some(best.clone()), "better: {:?}\nthan: {:?}", best_plan, plan);
        prop_assert_eq!(check_certificate(&plan, inventory, &report.certificate), vec![]);
        for level in report.certificate.iter().filter(|level| level.level != "nodes touched") {
            prop_assert!(level.is_proven(), "{:?}", level);
            let expect = match level.level.as_str() {
                "slices missing to minCount" => best.floors,
                "slices missing to spareCount" => best.spare,
                "GPUs changed" => best.changed,
                _ => continue,
            };
            prop_assert_eq!(level.value, i64::from(expect), "{}", level.level);
        }
        let unserved: i64 = report.certificate.iter()
            .filter(|level| level.level.starts_with("unserved compute slices"))
            .map(|level| level.value)
            .sum();
        prop_assert_eq!(unserved, best.unserved.iter().map(|n| i64::from(n.slices)).sum::<i64>());
        for report in &report.policies {
            for unmet in report.unmet.iter().filter(|unmet| unmet.field.ends_with(".spareCount")) {
                prop_assert!(unmet.reached < unmet.wanted, "{:?}", unmet);
            }
            for (offered, seats) in &report.seats {
                prop_assert!(seats.held <= seats.total, "{}: {:?}", offered, seats);
                prop_assert!(seats.unserved <= seats.requested, "{}: {:?}", offered, seats);
            }
        }
    }

    /// Once the plan is done, who was told that they are served are served, and nothing changes again.
    #[test]
    fn a_plan_with_seats_comes_to_rest(world in shared_worlds()) {
        let World { inventory, requests, policies } = &world;
        let Decision { plan, report } = decide(inventory, requests, policies);
        let after = apply(inventory, &plan.steps);
        let again = decide(&after, requests, policies);
        prop_assert_eq!(again.plan.steps, vec![], "after {:?}", plan);
        let served = |decision: &planner::report::Report| -> BTreeSet<String> {
            let served = decision.requests.iter().filter(|r| !matches!(r.outcome, Outcome::Unserved { .. }));
            served.map(|r| r.id.to_string()).collect()
        };
        prop_assert_eq!(served(&report).len(), served(&again.report).len());
    }

    #[test]
    fn what_would_help_who_waits_for_a_seat_helps(world in shared_worlds()) {
        prop_assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
    }
}

fn answer<'d>(decision: &'d Decision, name: &str) -> &'d Outcome {
    let found = decision.report.requests.iter().find(|report| report.id.name == name);
    &found.unwrap_or_else(|| panic!("{name} has an answer")).outcome
}

/// A server with eight GPUs without an agent: `held` slices of the first may be held, by one of two.
fn server(replicas: u32, holders: &[&str]) -> NodeBuilder {
    let first = match holders {
        [] => a100().counted("1g.10gb", 2),
        holders => a100().counted_maybe("1g.10gb", 2, holders),
    };
    let whole = (0..7).map(|_| a100().counted_used("7g.80gb", "train"));
    let node = whole.fold(node().scope(ChangeScope::IdleGpus).gpu(first), NodeBuilder::gpu);
    node.shares("1g.10gb", replicas, true)
}

#[test]
fn one_slice_that_four_share_serves_four_requests_and_the_fifth_gets_another() {
    let inventory = fleet().node("n1", server(4, &["lab-0"])).build();
    let asks = |n: usize| -> Vec<_> {
        (0..n)
            .map(|i| request(&format!("r{i}")).asks_seats("1g.10gb", 1).since(i64::try_from(i).unwrap()))
            .collect()
    };
    // Two slices, eight seats, one of them held.
    for (n, unserved) in [(7, 0), (8, 1)] {
        let requests: Vec<_> = asks(n).into_iter().map(planner::testing::RequestBuilder::build).collect();
        let decision = decide(&inventory, &requests, &[policy("lab").build()]);
        assert!(decision.plan.steps.is_empty(), "the GPU is held: {:?}", decision.plan);
        let seats = &decision.report.policies[0].seats[&Offered::SharedSlice(profile("1g.10gb"))];
        let expect = SeatSupply {
            devices: 2,
            total: 8,
            held: 1,
            planned: 8,
            requested: u32::try_from(n).unwrap(),
            unserved,
        };
        assert_eq!(*seats, expect);
    }
}

#[test]
fn a_slice_shared_by_two_is_cut_only_when_the_last_has_gone() {
    let wish = || request("large").asks("3g.40gb", 1).build();
    let with = |holders: &[&str]| {
        let inventory = fleet().node("n1", server(2, holders)).build();
        decide(&inventory, &[wish()], &[policy("lab").build()])
    };
    let both = with(&["ada", "bob"]);
    assert!(both.plan.steps.is_empty(), "{:?}", both.plan);
    // Whoever of them has gone, the other one sits there still.
    for left in ["ada", "bob"] {
        let one = with(&[left]);
        assert!(one.plan.steps.is_empty(), "{left} holds a seat: {:?}", one.plan);
        let Outcome::Unserved { help, .. } = answer(&one, "large") else { panic!("it is in use") };
        assert!(
            help.iter().any(|help| matches!(help, Help::PodEnds { pod, .. } if pod.name == left)),
            "{help:?}"
        );
    }
    let Outcome::Unserved { help, .. } = answer(&both, "large") else { panic!("it is in use") };
    assert!(
        !help.iter().any(|help| matches!(help, Help::PodEnds { pod, .. } if pod.name != "train")),
        "{help:?}"
    );
    let none = with(&[]);
    assert!(matches!(answer(&none, "large"), Outcome::ServedByPlan { .. }), "{:?}", none.report);
}

#[test]
fn bounds_go_on_counting_slices() {
    let idle = |slices| node().gpu(a100().idle(slices, 0)).shares("1g.10gb", 4, true);
    let inventory = fleet().node("n1", idle("7g.80gb")).build();
    let count = |decision: &Decision| {
        let after = &decision.plan.steps.first().expect("a step").gpus[0].after;
        after.iter().filter(|(of, _)| *of == profile("1g.10gb")).count()
    };
    // A floor of two are two slices, though one of them has four seats.
    let floor = policy("lab").bounds("1g.10gb", 2, 0, None).build();
    assert_eq!(count(&decide(&inventory, &[], &[floor])), 2);
    let spare = policy("lab").bounds("1g.10gb", 0, 1, None).build();
    assert_eq!(count(&decide(&inventory, &[], std::slice::from_ref(&spare))), 1);
    // One more with five at one: the fifth sits on a second slice, of which three seats are left; so a third.
    let asks: Vec<_> = (0..5).map(|i| request(&format!("r{i}")).asks_seats("1g.10gb", 1).build()).collect();
    assert_eq!(count(&decide(&inventory, &asks, &[spare])), 3);
    let capped = policy("lab").bounds("1g.10gb", 0, 0, Some(1)).build();
    let decision = decide(&inventory, &asks, &[capped]);
    assert_eq!(count(&decision), 1);
    let unserved: Vec<_> =
        (0..5).filter(|i| matches!(answer(&decision, &format!("r{i}")), Outcome::Unserved { .. })).collect();
    assert_eq!(unserved.len(), 1, "four seats, and the bound is of slices");
}

#[test]
fn who_asks_by_the_other_name_is_told_it() {
    let inventory = fleet().node("n1", server(4, &[])).build();
    let asks =
        [request("plain").asks("1g.10gb", 1).build(), request("shares").asks_seats("2g.20gb", 1).build()];
    let decision = decide(&inventory, &asks, &[policy("lab").build()]);
    let told = answer(&decision, "plain").to_string();
    assert!(
        told.contains(
            "no node that it may use offers nvidia.com/mig-1g.10gb: there it is nvidia.com/mig-1g.10gb.shared"
        ),
        "{told}"
    );
    let told = answer(&decision, "shares").to_string();
    assert!(
        told.contains("offers nvidia.com/mig-2g.20gb.shared: there it is nvidia.com/mig-2g.20gb"),
        "{told}"
    );
}

/// Ten T4s on three nodes, shared by four, beside a server that is cut.
fn cards(first: SeatingBuilder) -> Inventory {
    let shared = |gpus| seating("T4", gpus).shared_by(4, true);
    let fleet: FleetBuilder = fleet().node("a100-1", server(2, &["ada"])).seating("t4-1", first);
    let full = |gpus: u32, node: &str| {
        (0..gpus * 4).fold(shared(gpus), |card, i| card.held_by(&format!("{node}-{i}"), 1))
    };
    fleet.seating("t4-2", full(4, "two")).seating("t4-3", full(4, "three")).build()
}

#[test]
fn four_notebooks_sit_on_one_card_and_the_fifth_is_told_who_has_the_seats() {
    let card = |n: usize| {
        let one = seating("T4", 1).shared_by(4, true);
        (0..n).fold(one, |card, i| card.held_by(&format!("lab-{i}"), 1))
    };
    let asks = |n: i64| request(&format!("nb-{n}")).asks_gpu_seats(1).since(n).build();
    let policies = [policy("lab").build()];
    // Three hold seats, and two wait: the older gets the fourth.
    let decision = decide(&cards(card(3)), &[asks(2), asks(1)], &policies);
    assert_eq!(answer(&decision, "nb-1").to_string(), "served now by t4-1, which has enough free");
    let told = decide(&cards(card(4)), &[asks(1)], &policies);
    assert_eq!(
        answer(&told, "nb-1").to_string(),
        "not served: every nvidia.com/gpu.shared that it could have is held, or is planned for requests that come first: \
         4 of 4 seats of node t4-1 are held by lab/lab-0, lab/lab-1, lab/lab-2, lab/lab-3, \
         16 of 16 seats of node t4-2 are held by lab/two-0, lab/two-1, lab/two-10, lab/two-11, lab/two-12 and 11 more, \
         16 of 16 seats of node t4-3 are held by lab/three-0, lab/three-1, lab/three-10, lab/three-11, lab/three-12 and 11 more. \
         What would help: pod lab/lab-0 ends (or moves): it holds nvidia.com/gpu.shared of node t4-1; \
         or at most 1 more T4 (4 seats each), which would serve everybody who waits for nvidia.com/gpu.shared at its priority and above"
    );
    assert!(told.plan.steps.is_empty(), "nothing is cut for it");
    let supply = &told.report.policies[0].seats[&Offered::SharedGpu];
    let expect = SeatSupply { devices: 9, total: 36, held: 36, planned: 36, requested: 1, unserved: 1 };
    assert_eq!(*supply, expect);
}

#[test]
fn whoever_comes_first_takes_what_becomes_free_and_more_cards_are_counted_for_all() {
    let one = seating("T4", 1).shared_by(4, true).held_by("lab-0", 3).held_by("lab-1", 1);
    let inventory = fleet().seating("t4-1", one).build();
    let asks = |name: &str, n, since| request(name).asks_gpu_seats(n).since(since).build();
    let requests = [asks("early", 3, 1), asks("late", 1, 2), asks("later", 2, 3)];
    let decision = decide(&inventory, &requests, &[policy("lab").build()]);
    let help = |name: &str| match answer(&decision, name) {
        Outcome::Unserved { help, .. } => help.iter().map(ToString::to_string).collect::<Vec<_>>(),
        _ => panic!("{name} waits"),
    };
    assert!(help("early")[0].starts_with("pod lab/lab-0 ends"), "{:?}", help("early"));
    // One seat becomes free with lab-1: the early one cannot use it, so it is for the late one.
    assert!(help("late")[0].starts_with("pod lab/lab-1 ends"), "{:?}", help("late"));
    // Of three that become free the early one takes all.
    assert_eq!(help("later").len(), 1, "{:?}", help("later"));
    // Three, two and one on cards of four seats: two cards.
    assert!(help("later")[0].starts_with("at most 2 more T4 (4 seats each)"), "{:?}", help("later"));
}

#[test]
fn a_seat_that_becomes_free_is_told_to_the_first_of_those_who_ask_alike_and_to_the_others_as_help_for_others()
{
    let one = seating("T4", 1).shared_by(4, true).held_by("lab-0", 1).held_by("lab-1", 3);
    let inventory = fleet().seating("t4-1", one).build();
    let asks = |n: i64| request(&format!("nb-{n}")).asks_gpu_seats(1).since(n).build();
    let requests: Vec<_> = (0..4).map(asks).collect();
    let decision = decide(&inventory, &requests, &[policy("lab").build()]);
    let said = |n: usize| match answer(&decision, &format!("nb-{n}")) {
        Outcome::Unserved { help, .. } => help.iter().map(ToString::to_string).collect::<Vec<_>>(),
        _ => panic!("nb-{n} waits"),
    };
    assert!(said(0)[0].starts_with("pod lab/lab-0 ends"), "{:?}", said(0));
    // Of the three seats that become free with the other, these have one each.
    assert!(said(1)[0].starts_with("pod lab/lab-1 ends"), "{:?}", said(1));
    assert!(said(2)[0].starts_with("pod lab/lab-1 ends"), "{:?}", said(2));
    assert!(said(3)[0].starts_with("at most 1 more T4"), "{:?}", said(3));
    let others = "only for others, who ask for the same and come first: pod lab/lab-0 ends";
    assert!(said(3)[1].starts_with(others), "{:?}", said(3));
}

#[test]
fn a_whole_card_is_a_seat_for_one_and_who_waits_for_it_is_not_told_of_mig() {
    let two = seating("V100", 2).held_by("train-0", 1).held_by("train-1", 1);
    let inventory = fleet().node("a100-1", server(2, &["ada"])).seating("v100-1", two).build();
    let decision =
        decide(&inventory, &[request("bench").asks_whole_gpus(1).build()], &[policy("lab").build()]);
    assert_eq!(
        answer(&decision, "bench").to_string(),
        "not served: every nvidia.com/gpu that it could have is held, or is planned for requests that come first: \
         2 of 2 GPUs of node v100-1 are held by lab/train-0, lab/train-1. \
         What would help: pod lab/train-0 ends (or moves): it holds nvidia.com/gpu of node v100-1; \
         or at most 1 more V100, which would serve everybody who waits for nvidia.com/gpu at its priority and above"
    );
    let three = decide(&inventory, &[request("many").asks_whole_gpus(3).build()], &[policy("lab").build()]);
    let Outcome::Unserved { why: Why::TooLarge { most: 2, profile: Offered::WholeGpu }, .. } =
        answer(&three, "many")
    else {
        panic!("{:?}", answer(&three, "many"))
    };
}

#[test]
fn seats_under_another_name_and_of_several_kinds_are_told() {
    let inventory = cards(seating("T4", 2).shared_by(4, true));
    let asks = [
        request("whole").asks_whole_gpus(1).build(),
        request("both").asks_gpu_seats(1).asks("1g.10gb", 1).build(),
        request("picky").asks_gpu_seats(1).selects("zone", "moon").build(),
        request("many").asks_gpu_seats(17).build(),
    ];
    let decision = decide(&inventory, &asks, &[policy("lab").build()]);
    let told = |name: &str| answer(&decision, name).to_string();
    assert!(told("whole").contains("there it is nvidia.com/gpu.shared"), "{}", told("whole"));
    assert!(told("both").contains("and for slices at the same time"), "{}", told("both"));
    assert!(told("picky").contains("no node fits its selector"), "{}", told("picky"));
    assert!(
        told("many").contains("more nvidia.com/gpu.shared than one node can have, which is 16"),
        "{}",
        told("many")
    );
    let without = decide(&fleet().build(), &[request("x").asks_gpu_seats(1).build()], &[]);
    assert!(
        answer(&without, "x").to_string().contains("none of them shares GPUs in this way"),
        "{:?}",
        answer(&without, "x")
    );
}

#[test]
fn a_node_that_takes_no_pods_has_no_free_seat() {
    let cordoned = seating("T4", 2)
        .shared_by(4, true)
        .on(node().unschedulable().held(planner::inventory::Hold::Cordoned { by: "an admin".to_owned() }));
    let inventory = fleet().seating("t4-1", cordoned).build();
    let decision = decide(&inventory, &[request("x").asks_gpu_seats(1).build()], &[policy("lab").build()]);
    let told = answer(&decision, "x").to_string();
    assert!(told.contains("t4-1 may not change now: it was cordoned by an admin"), "{told}");
}

/// An A100 node that a policy leaves uncut is in both lists: without GPUs for the planner, and as seats.
fn left_uncut(name: &str, seats: SeatingBuilder, fleet: FleetBuilder) -> FleetBuilder {
    fleet.node(name, node()).seating(name, seats)
}

#[test]
fn who_asks_for_slices_where_no_gpu_is_ever_cut_is_told_so_and_what_to_ask_for_there() {
    let full = |card: &str| seating(card, 8).shared_by(4, true).held_by("lab-0", 1);
    let inventory = left_uncut("a1", full("A100-40GB"), left_uncut("a2", full("A100-40GB"), fleet())).build();
    let policies = [policy("lab").build()];
    let asks = [request("slice").asks("1g.5gb", 1).build(), request("seat").asks_seats("3g.20gb", 2).build()];
    let decision = decide(&inventory, &asks, &policies);
    let told = |name: &str| answer(&decision, name).to_string();
    assert_eq!(
        told("slice"),
        "not served: it asks for slices (1g.5gb), and the GPUs of the nodes that it may use are never partitioned: \
         a1 (A100-40GB), a2 (A100-40GB). What would help: ask for nvidia.com/gpu.shared instead, if it may share \
         the GPU with others"
    );
    assert!(told("seat").contains("it asks for slices (3g.20gb)"), "{}", told("seat"));
    assert!(decision.plan.steps.is_empty());
    // Cards without MIG are no nodes to the planner at all.
    let t4s = fleet().seating("t1", seating("T4", 8).held_by("lab-0", 8)).build();
    let told = decide(&t4s, &[request("x").asks("1g.5gb", 1).build()], &policies);
    let told = answer(&told, "x").to_string();
    assert!(told.contains("are never partitioned: t1 (T4)"), "{told}");
    assert!(told.contains("ask for nvidia.com/gpu instead, a GPU for itself"), "{told}");
}

#[test]
fn who_may_use_a_node_that_is_cut_is_told_of_that_one() {
    let fleet = left_uncut("a1", seating("A100-80GB", 8), fleet()).node("n1", server(4, &["lab-0"]));
    let inventory = fleet.build();
    let asks = [
        request("odd").asks("1g.5gb", 1).build(),
        request("free").asks_seats("1g.10gb", 1).build(),
        request("picky").asks_seats("1g.10gb", 1).selects("zone", "moon").build(),
    ];
    let decision = decide(&inventory, &asks, &[policy("lab").build()]);
    let told = |name: &str| answer(&decision, name).to_string();
    assert!(told("odd").contains("no GPU of the nodes that it may use has 1g.5gb"), "{}", told("odd"));
    assert!(told("free").contains("served now by n1"), "{}", told("free"));
    assert!(told("picky").contains("no node fits its selector"), "{}", told("picky"));
}

/// Two of its GPUs are whole and shared, and the others are cut: it is in both lists with GPUs.
#[test]
fn a_node_that_shares_whole_gpus_beside_slices_serves_seats_and_is_not_called_one_that_is_never_cut() {
    let seats = seating("A100-80GB", 2).shared_by(4, true).held_by("lab-1", 7);
    let inventory = fleet().node("n1", server(4, &["lab-0"])).seating("n1", seats).build();
    let asks = [
        request("first").asks_gpu_seats(1).build(),
        request("second").asks_gpu_seats(1).build(),
        request("odd").asks("1g.5gb", 1).build(),
        request("elsewhere").asks("1g.10gb", 1).selects("zone", "moon").build(),
    ];
    let decision = decide(&inventory, &asks, &[policy("lab").build()]);
    let told = |name: &str| answer(&decision, name).to_string();
    assert!(told("first").contains("served now by n1"), "{}", told("first"));
    assert!(told("second").contains("7 of 8 seats of node n1 are held by"), "{}", told("second"));
    assert!(told("odd").contains("no GPU of the nodes that it may use has 1g.5gb"), "{}", told("odd"));
    assert!(!told("elsewhere").contains("never partitioned"), "{}", told("elsewhere"));
    // It has no policy, and the only node that has one is left as it is.
    let others = seating("A100-80GB", 2).shared_by(4, true).on(node().label("pool", "others"));
    let left_alone = left_uncut("a1", seating("A100-40GB", 8), fleet());
    let n1 = server(4, &["lab-0"]).label("pool", "others");
    let inventory = left_alone.node("n1", n1).seating("n1", others).build();
    let decision = decide(&inventory, &[request("x").asks("1g.5gb", 1).build()], &[policy("lab").build()]);
    let told = answer(&decision, "x").to_string();
    assert!(told.contains("are never partitioned: a1 (A100-40GB). What would help"), "{told}");
}

#[test]
fn who_asks_for_a_whole_gpu_of_a_node_without_memory_is_told_of_the_memory() {
    const GIB: i64 = 1 << 30;
    let alone = || seating("T4", 2).on(node().label("pool", "t4").room(16_000, 8 * GIB, 20));
    let inventory = fleet().node("a100-1", server(2, &[])).seating("t4-1", alone()).build();
    let large = request("large").asks_whole_gpus(1).takes(1_000, 64 * GIB);
    let elsewhere = request("elsewhere").asks_whole_gpus(1).takes(1_000, 64 * GIB).selects("pool", "h100");
    let decision = decide(&inventory, &[large.build(), elsewhere.build()], &[policy("lab").build()]);
    let Outcome::Unserved { why, help } = answer(&decision, "large") else { panic!("it is too large") };
    assert_eq!(*why, Why::NoRoom);
    let help: Vec<String> = help.iter().map(ToString::to_string).collect();
    let advice = "ask for less, or free some of it: node t4-1 has 8192 MiB memory free (wanted: 65536 MiB)";
    assert_eq!(help, [advice]);
    // Who means other nodes is told of all ways to a whole GPU, and nothing of a node that it does not mean.
    let Outcome::Unserved { why, .. } = answer(&decision, "elsewhere") else { panic!("it means no node") };
    assert_eq!(*why, Why::WholeGpu);
}
