//! What was promised is kept: stories, and brute force on small fleets.

use std::collections::BTreeSet;

use planner::check::{Severity, check, check_certificate, check_promises, check_turns, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Hold, Inventory, Room};
use planner::policy::{LayoutPolicy, Order, Policy};
use planner::report::{Broken, Help, Outcome, RequestReport};
use planner::testing::{a100, fleet, node, policy, request};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::oracle::promises::settled;
use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};

/// Decides, and has everything checked that can be.
fn decided(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    let notes = check(&decision.plan, inventory, requests, policies);
    assert!(is_sound(&notes), "{notes:?}");
    assert_eq!(
        check_promises(&decision.plan, &decision.report.requests, inventory, requests, policies),
        vec![]
    );
    assert_eq!(check_turns(&decision.report.requests, inventory, requests, policies), vec![]);
    decision
}

fn answer<'a>(decision: &'a Decision, name: &str) -> &'a RequestReport {
    decision
        .report
        .requests
        .iter()
        .find(|report| report.id.name == name)
        .expect("every request has an answer")
}

fn is_served(decision: &Decision, name: &str) -> bool {
    !matches!(answer(decision, name).outcome, Outcome::Unserved { .. })
}

/// A node of eight GPUs, somebody on seven of them; the eighth was cut for bob.
fn cut_for_bob() -> Inventory {
    let mut full = node();
    for _ in 0..7 {
        full = full.gpu(a100().counted_used("7g.80gb", "holder"));
    }
    fleet().node("n1", full.gpu(a100().counted("3g.40gb", 2))).build()
}

fn bob() -> planner::testing::RequestBuilder {
    request("bob").asks("3g.40gb", 1).since(1)
}

/// Somebody who comes later, and would serve the sum better.
fn carol() -> planner::testing::RequestBuilder {
    request("carol").asks("7g.80gb", 1).since(2)
}

#[test]
fn a_larger_request_that_comes_later_does_not_take_what_was_promised() {
    let (inventory, policies) = (cut_for_bob(), [policy("p").build()]);
    let without = decided(&inventory, &[bob().build(), carol().build()], &policies);
    assert!(is_served(&without, "carol") && !is_served(&without, "bob"), "else the promise proves nothing");
    let with = decided(&inventory, &[bob().promised("n1").build(), carol().build()], &policies);
    assert!(with.plan.steps.is_empty(), "{:?}", with.plan);
    let Outcome::ServedNow { node, gpus } = &answer(&with, "bob").outcome else { panic!("{with:?}") };
    assert_eq!((node.0.as_str(), gpus.len()), ("n1", 1));
    assert_eq!(gpus[0].0.to_string(), "n1/gpu7");
    assert_eq!(answer(&with, "bob").policy, Some("p".into()));
    let Outcome::Unserved { why, help } = &answer(&with, "carol").outcome else { panic!("{with:?}") };
    assert_eq!(
        why.to_string(),
        "every slice that could serve it is in use, or is planned for requests that come first"
    );
    let expected = [Help::MoreGpus { count: 1, model: "A100-80GB".to_owned() }];
    assert!(matches!(&help[0], Help::PodEnds { pod, .. } if pod.name == "holder"), "{help:?}");
    assert_eq!(help[1..2], expected);
}

/// The slice is there for one only: who is alike and came later waits, or gets another.
#[test]
fn what_was_promised_is_given_to_nobody_else() {
    let mut full = node();
    for _ in 0..8 {
        full = full.gpu(a100().counted_used("4g.40gb", "holder").counted("3g.40gb", 0));
    }
    let inventory =
        fleet().node("n1", full.gpu(a100().counted("3g.40gb", 1).counted_used("4g.40gb", "x"))).build();
    let earlier = request("alice").asks("3g.40gb", 1).since(0);
    let requests = [earlier.build(), bob().promised("n1").build()];
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert!(is_served(&decision, "bob") && !is_served(&decision, "alice"), "{decision:?}");
    let swapped = {
        let mut reports = decision.report.requests.clone();
        let outcome = reports[0].outcome.clone();
        reports[0].outcome = std::mem::replace(&mut reports[1].outcome, outcome);
        reports
    };
    let notes = check_promises(&decision.plan, &swapped, &inventory, &requests, &[policy("p").build()]);
    let said: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["fatal: n1: its slices were promised to Pod lab/bob, and the plan does not keep them"]);
}

/// Two slices are free, and CPU, memory and pod slots for one pod. Whoever tells a second one that it is served at
/// once gives away what is kept for the first.
#[test]
fn the_room_of_who_was_promised_something_is_given_to_nobody_else() {
    let policies = [policy("p").build()];
    let said = |room: Room, takes: (i64, i64)| -> Vec<String> {
        let on = node().gpu(a100().counted("3g.40gb", 2)).room(room.cpu_milli, room.memory_bytes, room.pods);
        let inventory = fleet().node("n1", on).build();
        let alice = request("alice").asks("3g.40gb", 1).since(0).takes(takes.0, takes.1).build();
        let requests = [alice, bob().takes(4_000, 8 << 30).promised("n1").build()];
        let decision = decided(&inventory, &requests, &policies);
        assert!(is_served(&decision, "bob"), "{decision:?}");
        let mut reports = decision.report.requests.clone();
        let of_bob = answer(&decision, "bob").outcome.clone();
        let alice = reports.iter_mut().find(|report| report.id.name == "alice").expect("an answer");
        alice.outcome = of_bob;
        let notes = check_promises(&decision.plan, &reports, &inventory, &requests, &policies);
        notes.iter().map(ToString::to_string).collect()
    };
    let room = Room { cpu_milli: 5_000, memory_bytes: 10 << 30, storage_bytes: 0, pods: 2 };
    let too_much =
        ["fatal: n1: its requests take more CPU, memory, ephemeral storage or pod slots than are free"];
    assert_eq!(said(room, (1_000, 2 << 30)), Vec::<String>::new(), "there is room for both");
    assert_eq!(said(room, (1_001, 2 << 30)), too_much, "CPU");
    assert_eq!(said(room, (1_000, (2 << 30) + 1)), too_much, "memory");
    assert_eq!(said(Room { pods: 1, ..room }, (1_000, 2 << 30)), too_much, "pod slots");
    let without_memory = Room { memory_bytes: 8 << 30, ..room };
    assert_eq!(said(without_memory, (1_000, 0)), Vec::<String>::new(), "it asks for no memory");
}

#[test]
fn a_plan_that_changes_what_was_promised_breaks_a_rule() {
    let (inventory, policies) = (cut_for_bob(), [policy("p").build()]);
    let plan = decide(&inventory, &[bob().build(), carol().build()], &policies).plan;
    let fatal = |bob: Request, carol: Request| -> Vec<String> {
        let notes = check(&plan, &inventory, &[bob, carol], &policies);
        notes.iter().filter(|n| n.severity == Severity::Fatal).map(ToString::to_string).collect()
    };
    assert_eq!(fatal(bob().build(), carol().build()), Vec::<String>::new());
    assert_eq!(
        fatal(bob().promised("n1").build(), carol().build()),
        ["fatal: n1: its slices were promised to Pod lab/bob, and the plan does not keep them"]
    );
    assert_eq!(fatal(bob().promised("n1").build(), carol().priority(1).build()), Vec::<String>::new());
    assert_eq!(fatal(bob().promised("n2").build(), carol().build()), Vec::<String>::new(), "no such node");
}

#[test]
fn a_higher_priority_takes_what_was_promised_and_the_answer_says_so() {
    let (inventory, policies) = (cut_for_bob(), [policy("p").build()]);
    let requests = [bob().promised("n1").build(), carol().priority(100).build()];
    let decision = decided(&inventory, &requests, &policies);
    assert!(is_served(&decision, "carol") && !is_served(&decision, "bob"));
    assert_eq!(
        answer(&decision, "bob").broken.as_ref().map(ToString::to_string).as_deref(),
        Some(
            "what was promised on n1 cannot be kept: Pod lab/carol has a higher priority and needs what was promised"
        )
    );
    // Where it gets what it wants beside, nothing is broken.
    let roomy = fleet()
        .node("n1", node().gpu(a100().counted("3g.40gb", 2)))
        .node("n2", node().gpu(a100().counted("7g.80gb", 1)))
        .build();
    let decision = decided(&roomy, &requests, &policies);
    assert!(is_served(&decision, "carol") && is_served(&decision, "bob"));
    assert_eq!(answer(&decision, "bob").broken, None);
}

/// Of two promises the higher priority needs one: the older is kept.
#[test]
fn a_higher_priority_breaks_no_more_than_it_needs() {
    let inventory = fleet()
        .node("n1", node().gpu(a100().counted("3g.40gb", 2)))
        .node("n2", node().gpu(a100().counted("3g.40gb", 2)))
        .build();
    let requests = [
        request("young").asks("3g.40gb", 1).since(5).promised("n1").build(),
        request("old").asks("3g.40gb", 1).since(3).promised("n2").build(),
        carol().priority(100).build(),
    ];
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    let broken = |name: &str| answer(&decision, name).broken.is_some();
    assert!(is_served(&decision, "carol") && broken("young") && !broken("old"), "{decision:?}");
    assert!(is_served(&decision, "young"), "the other slice of n2 is free");
}

/// The same on a fleet: twenty wait for what was cut for them, on nodes with somebody on every other GPU. Whoever
/// is of a higher priority needs two of these GPUs.
#[test]
fn of_many_promises_no_more_are_broken_than_a_higher_priority_needs() {
    let cut_for_one = || {
        let full = (0..7).fold(node(), |node, _| node.gpu(a100().counted_used("7g.80gb", "holder")));
        full.gpu(a100().counted("3g.40gb", 2))
    };
    let names: Vec<String> = (0..20).map(|i| format!("n{i:02}")).collect();
    let inventory = names.iter().fold(fleet(), |fleet, name| fleet.node(name, cut_for_one())).build();
    let promised = |(i, name): (usize, &String)| {
        // Both slices of its node, so that nobody finds another one.
        let since = i64::try_from(i).expect("few");
        request(&format!("of-{name}")).asks("3g.40gb", 2).since(since).promised(name).build()
    };
    let mut requests: Vec<Request> = names.iter().enumerate().map(promised).collect();
    requests
        .extend(["carol", "dave"].map(|who| request(who).asks("7g.80gb", 1).since(90).priority(100).build()));
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    assert!(is_served(&decision, "carol") && is_served(&decision, "dave"), "{decision:?}");
    let broken = decision.report.requests.iter().filter(|report| report.broken.is_some());
    let broken: Vec<&str> = broken.map(|report| report.id.name.as_str()).collect();
    assert_eq!(broken, ["of-n18", "of-n19"], "the youngest");
}

/// A floor of two whole GPUs comes before everybody. While bob's promise is kept, nothing on its node changes, so that
/// the next two GPUs would go to the floor. One is enough: with it and the node the floor is met, one GPU is left for
/// the team, and the promise yields to it.
#[test]
fn who_needs_more_gpus_is_told_how_many_are_enough_once_a_promise_yields() {
    let node = || node().scope(ChangeScope::IdleGpus);
    let full =
        (0..8).fold(node(), |node, i| node.gpu(a100().counted_used("7g.80gb", &format!("holder-{i}"))));
    let idle = node().gpu(a100().counted("3g.40gb", 1)).gpu(a100().counted("7g.80gb", 1));
    let fleet = fleet().node("full", full).node("idle", idle);
    let policies = [policy("p").whole_gpus(2, 0, None).build()];
    let team = ["alice", "ann", "amir"];
    let mut requests =
        team.map(|who| request(who).asks("1g.10gb", 1).priority(100).since(2).build()).to_vec();
    requests.push(bob().promised("idle").build());
    let now = fleet.clone().build();
    let decision = decided(&now, &requests, &policies);
    let one = Help::MoreGpus { count: 1, model: "A100-80GB".to_owned() };
    for who in team {
        let Outcome::Unserved { help, .. } = &answer(&decision, who).outcome else { panic!("{decision:?}") };
        assert!(help.contains(&one), "{help:?}");
    }
    assert!(is_served(&decision, "bob"), "{decision:?}");

    let larger = fleet.node("new", node().gpu(a100().counted("7g.80gb", 1))).build();
    let decision = decided(&larger, &requests, &policies);
    assert!(team.iter().all(|who| is_served(&decision, who)), "{decision:?}");
    let broken = answer(&decision, "bob").broken.as_ref().map(|broken| &broken.why);
    assert!(matches!(broken, Some(Broken::HigherPriority { .. })), "{broken:?}");
    let world = World { inventory: now, requests, policies: policies.to_vec() };
    assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
}

#[test]
fn what_is_not_as_it_was_breaks_a_promise_and_the_answer_says_what() {
    let policies = [policy("p").pool("research").build()];
    let good = || node().label("pool", "research").gpu(a100().counted("3g.40gb", 2)).room(8_000, 8 << 30, 10);
    let check =
        |on: planner::testing::NodeBuilder, asks: planner::testing::RequestBuilder, expect: Option<&str>| {
            let inventory = fleet().node("n1", on).build();
            let decision = decided(&inventory, &[asks.build()], &policies);
            let said = answer(&decision, "bob").broken.as_ref().map(|broken| broken.why.to_string());
            assert_eq!(said.as_deref(), expect);
        };
    check(good(), bob().promised("n1"), None);
    check(good().held(Hold::Changing), bob().promised("n1"), None);
    check(good(), bob().promised("n9"), Some("the node does not exist any more"));
    let cordoned = "the node takes no pods now: it is cordoned or not ready";
    check(good().unschedulable(), bob().promised("n1"), Some(cordoned));
    check(good(), bob().promised("n1").asks("3g.40gb", 3), Some("the node has no 3g.40gb for it any more"));
    check(good(), bob().promised("n1").asks("1g.10gb", 1), Some("the node has no 1g.10gb for it any more"));
    // Two were there, and two pods have them by now, whichever.
    let taken =
        || node().label("pool", "research").gpu(a100().counted_maybe("3g.40gb", 2, &["thief", "too"]));
    check(taken().allocated("3g.40gb", 1), bob().promised("n1"), None);
    check(taken(), bob().promised("n1"), Some("the node has no 3g.40gb for it any more"));
    let full = "the node has 8000m CPU free (wanted: 9000m)";
    check(good(), bob().promised("n1").takes(9_000, 0), Some(full));
    // Who cannot run for another reason was promised nothing that could be kept.
    let mut blocked = bob().promised("n1").build();
    blocked.blocked_elsewhere = Some("no volume".to_owned());
    let inventory = fleet().node("n1", good()).build();
    let decision = decided(&inventory, &[blocked, carol().build()], &policies);
    assert!(is_served(&decision, "carol") && answer(&decision, "bob").broken.is_none());
}

#[test]
fn a_static_layout_waits_for_who_was_promised_something_unless_it_evicts() {
    let inventory = cut_for_bob();
    let requests = [bob().promised("n1").build()];
    let waits = decided(&inventory, &requests, &[policy("p").fixed(&[7], &[("1g.10gb", 7)]).build()]);
    assert!(waits.plan.steps.is_empty() && is_served(&waits, "bob"));
    let evicts = [policy("p").fixed(&[7], &[("1g.10gb", 7)]).evicts().build()];
    let comes = decided(&inventory, &requests, &evicts);
    assert_eq!(comes.plan.steps.len(), 1);
    assert!(matches!(
        answer(&comes, "bob").broken.as_ref().map(|broken| &broken.why),
        Some(Broken::Layout { .. })
    ));
}

#[test]
fn a_policys_figures_count_what_is_kept_as_asked_for_and_free() {
    let inventory = cut_for_bob();
    let policies = [policy("p").bounds("3g.40gb", 0, 2, None).build()];
    let supply = |requests: &[Request]| decided(&inventory, requests, &policies).report.policies[0].clone();
    let (with, without) = (supply(&[bob().promised("n1").build()]), supply(&[bob().build()]));
    let profile = "3g.40gb".parse().expect("a profile");
    assert_eq!(with.supply[&profile].requested, 1);
    assert_eq!(with.supply[&profile].allocated, without.supply[&profile].allocated);
    assert_eq!(with.unmet, without.unmet, "the other one is the only spare");
}

/// Promises a node to some of those who ask: the first that has slices of theirs, or any.
pub(crate) fn promise(world: &mut World, which: u16) {
    let names: Vec<_> = world.inventory.nodes.keys().cloned().collect();
    for (i, request) in world.requests.iter_mut().enumerate() {
        let has = |name: &&planner::names::NodeName| {
            let slices = world.inventory.nodes[*name].gpus.values().flat_map(|gpu| gpu.slices.iter());
            let mut idle = slices.filter(|slice| slice.used.is_idle()).map(|slice| slice.profile);
            idle.any(|profile| request.slices.contains_key(&profile))
        };
        let found = names.iter().find(has).or_else(|| names.get(i % names.len()));
        request.promised = found.filter(|_| which >> i & 1 == 1).cloned();
    }
}

/// Small worlds in which some of those who ask were promised a node.
fn promising() -> impl Strategy<Value = World> {
    (worlds(), any::<(u16, u16)>(), any::<bool>()).prop_map(|(mut world, which, queue)| {
        promise(&mut world, which.0 | which.1);
        for policy in world.policies.iter_mut().filter(|_| queue) {
            if let LayoutPolicy::DemandDriven { order, .. } = &mut policy.layout {
                *order = Order::OldestFirst;
            }
        }
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(23), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_better_and_the_certificate_proves_it(world in promising()) {
        let World { inventory, requests, policies } = &world;
        let decision = decide(inventory, requests, policies);
        let settled = settled(inventory, requests, policies);
        let yields: BTreeSet<_> =
            requests.iter().zip(&settled).filter(|(a, b)| a.promised != b.promised).map(|(a, _)| &a.id).collect();
        let reports = decision.report.requests.iter();
        let told: BTreeSet<_> = reports.filter(|report| report.broken.as_ref().is_some_and(|b| {
            matches!(b.why, Broken::HigherPriority { .. })
        })).map(|report| &report.id).collect();
        prop_assert_eq!(told, yields);
        let (best_plan, best) = crate::oracle::best(inventory, &settled, policies);
        let best = Values { nodes: u32::try_from(decision.plan.steps.len()).expect("few"), ..best };
        let values = Demand::new(inventory, &settled, policies).values_of(&decision.plan).0;
        prop_assert_eq!(values, Some(best), "better: {:?}\nthan: {:?}", best_plan, decision.plan);
        for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
            prop_assert!(level.is_proven(), "{:?}", level);
        }
        prop_assert_eq!(check_certificate(&decision.plan, inventory, &decision.report.certificate), vec![]);
        let notes = check(&decision.plan, inventory, requests, policies);
        prop_assert!(is_sound(&notes), "{:?}", notes);
        prop_assert_eq!(check_promises(&decision.plan, &decision.report.requests, inventory, requests, policies), vec![]);
        prop_assert_eq!(check_turns(&decision.report.requests, inventory, requests, policies), vec![]);
    }

    #[test]
    fn what_would_help_helps(mut world in promising()) {
        let World { inventory, requests, policies } = &world;
        let reports = decide(inventory, requests, policies).report.requests;
        // What could not be kept was told, and is remembered by nobody.
        let broken = |id| reports.iter().any(|report| report.id == id && report.broken.is_some());
        world.requests.iter_mut().filter(|r| broken(r.id.clone())).for_each(|r| r.promised = None);
        prop_assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
    }

    #[test]
    fn the_order_of_input_is_of_no_account(world in promising()) {
        let World { inventory, requests, policies } = &world;
        let first = decide(inventory, requests, policies);
        let (mut requests, mut policies) = (requests.clone(), policies.clone());
        requests.reverse();
        policies.reverse();
        prop_assert_eq!(&decide(inventory, &requests, &policies), &first);
    }
}

/// Worlds in which promises change nothing would prove nothing.
#[test]
fn promises_make_a_difference_in_these_worlds() {
    let mut runner = TestRunner::deterministic();
    let (mut different, mut yields) = (0, 0);
    for _ in 0..300 {
        let mut world = promising().new_tree(&mut runner).expect("a world").current();
        let World { inventory, requests, policies } = &world;
        let promised = decide(inventory, requests, policies);
        yields += promised
            .report
            .requests
            .iter()
            .filter(|report| {
                report.broken.as_ref().is_some_and(|b| matches!(b.why, Broken::HigherPriority { .. }))
            })
            .count();
        world.requests.iter_mut().for_each(|request| request.promised = None);
        let World { inventory, requests, policies } = &world;
        different += usize::from(decide(inventory, requests, policies).plan != promised.plan);
    }
    assert!(different >= 10 && yields >= 3, "{different} plans differ, {yields} promises yield");
}

/// The answer says what holds the node, and not that a pod should end that is not there.
#[test]
fn who_waits_for_a_promise_to_be_taken_up_is_told_so() {
    let two = node().gpu(a100().counted("3g.40gb", 2)).gpu(a100().counted("1g.10gb", 7));
    let inventory = fleet().node("n1", two).build();
    let requests = [bob().promised("n1").build(), carol().build()];
    let decision = decided(&inventory, &requests, &[policy("p").build()]);
    let Outcome::Unserved { why, help } = &answer(&decision, "carol").outcome else { panic!("{decision:?}") };
    assert_eq!(
        why.to_string(),
        "n1 may not change now: its slices were promised to Pod lab/bob, whose pod has no node yet"
    );
    assert!(help.iter().any(|help| matches!(help, Help::HoldEnds { hold: Hold::Promised { .. }, .. })));
}
