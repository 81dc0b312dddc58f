//! Who comes first, where a policy says `order: OldestFirst`: stories, and brute
//! force on small fleets.

use std::collections::BTreeSet;

use planner::check::{check, check_certificate, check_turns, is_sound};
use planner::decide::{Decision, decide, decide_while};
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::plan::{NodeStep, UnderWay};
use planner::policy::{LayoutPolicy, Order, Policy};
use planner::report::{Help, LevelCertificate, Outcome, Why};
use planner::solver::work;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::{PolicyBuilder, a30, a100, fleet, node, policy, request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};

const OUT_OF_TURN: &str = "requests that may be out of turn";

fn served(decision: &Decision) -> Vec<String> {
    let reports = decision.report.requests.iter();
    let served = reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. }));
    served.map(|report| report.id.name.clone()).collect()
}

/// Decides, and has everything checked that can be.
fn decided(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    assert!(is_sound(&check(&decision.plan, inventory, requests, policies)));
    assert_eq!(check_certificate(&decision.plan, inventory, &decision.report.certificate), vec![]);
    assert_eq!(check_turns(&decision.report.requests, inventory, requests, policies), vec![]);
    decision
}

fn out_of_turn(decision: &Decision) -> Vec<&LevelCertificate> {
    decision.report.certificate.iter().filter(|level| level.level.starts_with(OUT_OF_TURN)).collect()
}

/// An earlier request for one slice, and a later one for a whole GPU, of which there is one.
fn early_and_late() -> (Inventory, Vec<Request>) {
    let requests = vec![
        request("early").asks("1g.10gb", 1).since(1).build(),
        request("late").asks("7g.80gb", 1).since(2).build(),
    ];
    (fleet().node("n1", node().gpu(a100())).build(), requests)
}

#[test]
fn a_later_request_does_not_take_what_an_earlier_one_was_about_to_have() {
    let (inventory, requests) = early_and_late();
    let most = decided(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(served(&most), ["late"]);
    assert_eq!(out_of_turn(&most), Vec::<&LevelCertificate>::new());
    let oldest = decided(&inventory, &requests, &[policy("p").oldest_first().build()]);
    assert_eq!(served(&oldest), ["early"]);
    let level = out_of_turn(&oldest);
    assert_eq!(level.len(), 1);
    assert_eq!((level[0].value, level[0].bound), (0, 0));
}

#[test]
fn who_is_passed_over_is_told_that_others_come_first_and_what_would_help() {
    let (inventory, requests) = early_and_late();
    let decision = decided(&inventory, &requests, &[policy("p").oldest_first().build()]);
    let report = decision.report.requests.iter().find(|r| r.id.name == "late").unwrap();
    let Outcome::Unserved { why, help } = &report.outcome else { panic!("{report:?}") };
    assert_eq!(*why, Why::NotItsTurn { policy: "p".into() });
    assert_eq!(
        why.to_string(),
        "requests that are older, or of a higher priority, get what could serve it (policy p serves the oldest first)"
    );
    assert_eq!(help[..], [Help::MoreGpus { count: 1, model: "A100-80GB".to_owned() }]);
}

#[test]
fn a_younger_one_is_served_beside_an_older_one_that_cannot_be() {
    // Two thirds of the GPU are in use: the oldest, which wants all of it, waits.
    let used = node().gpu(a100().used("4g.40gb", 0, "holder"));
    let inventory = fleet().node("n1", used).build();
    let requests = [
        request("all").asks("7g.80gb", 1).since(1).build(),
        request("part").asks("3g.40gb", 1).since(2).build(),
    ];
    let decision = decided(&inventory, &requests, &[policy("p").oldest_first().build()]);
    assert_eq!(served(&decision), ["part"]);
}

#[test]
fn a_higher_priority_comes_first_however_young_and_equally_old_ones_by_name() {
    let (inventory, mut requests) = early_and_late();
    let policies = [policy("p").oldest_first().build()];
    requests.push(request("urgent").asks("7g.80gb", 1).priority(100).since(9).build());
    assert_eq!(served(&decided(&inventory, &requests, &policies)), ["urgent"]);
    let same_age = ["b", "a", "c"].map(|name| request(name).asks("7g.80gb", 1).since(5).build());
    assert_eq!(served(&decided(&inventory, &same_age, &policies)), ["a"]);
    // The name decides among kinds too.
    let kinds =
        [request("b").asks("7g.80gb", 1).since(5).build(), request("a").asks("1g.10gb", 1).since(5).build()];
    assert_eq!(served(&decided(&inventory, &kinds, &policies)), ["a"]);
}

#[test]
fn of_two_policies_each_has_its_order() {
    // Who may use nodes of both is in the queue; who may only use the other is not.
    let both = |name: &str| node().gpu(a100()).label("pool", name);
    let inventory = fleet().node("n1", both("lab")).node("n2", both("annex")).build();
    let policies = [policy("queue").oldest_first().build(), policy("sum").pool("annex").build()];
    let requests = [
        request("small").asks("1g.10gb", 1).selects("pool", "annex").since(1).build(),
        request("large").asks("7g.80gb", 1).selects("pool", "annex").since(2).build(),
        request("first").asks("1g.10gb", 1).selects("pool", "lab").since(3).build(),
        request("second").asks("7g.80gb", 1).selects("pool", "lab").since(4).build(),
    ];
    assert_eq!(served(&decided(&inventory, &requests, &policies)), ["large", "first"]);
}

#[test]
fn somebody_younger_who_has_what_an_older_one_could_have_is_found() {
    let (inventory, requests) = early_and_late();
    let policies = [policy("p").oldest_first().build()];
    let swapped = [
        request("early").asks("7g.80gb", 1).since(1).build(),
        request("late").asks("7g.80gb", 1).since(2).build(),
    ];
    let right = decide(&inventory, &swapped, &policies).report.requests;
    let mut wrong = right.clone();
    let outcome = wrong[0].outcome.clone();
    wrong[0].outcome = std::mem::replace(&mut wrong[1].outcome, outcome);
    let said = |policies: &[Policy], reports| -> Vec<String> {
        check_turns(reports, &inventory, &swapped, policies).iter().map(ToString::to_string).collect()
    };
    assert_eq!(said(&policies, &right), Vec::<String>::new());
    assert_eq!(
        said(&policies, &wrong),
        ["fatal: n1: Pod lab/late is served, and Pod lab/early, which is older, could have what it gets"]
    );
    // Where the sum decides, that is nobody's business; nor where the older one wants more.
    assert_eq!(said(&[policy("p").build()], &wrong), Vec::<String>::new());
    let most = decide(&inventory, &requests, &[policy("p").build()]).report.requests;
    assert_eq!(check_turns(&most, &inventory, &requests, &policies), vec![]);
}

/// One or two nodes, and more who want them than they can serve.
fn tight() -> impl Strategy<Value = World> {
    const PROFILES: [&str; 6] = ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
    let spec = (1_usize..=2, 1_i64..6, any::<bool>());
    let ask = (select(&PROFILES[..]), 0_i64..7, select(&[0, 0, 0, 100][..]), 0_i64..3, 0_u8..10);
    let ask = ask.prop_map(|(profile, since, priority, cpu, how)| {
        let count = if how == 0 { 2 } else { 1 };
        let asks = request("r").asks(profile, count).since(since).priority(priority).takes(cpu * 1_000, 0);
        match how {
            1..4 => asks.selects("pool", "lab"),
            4 => asks.selects("pool", "annex"),
            _ => asks,
        }
    });
    (vec(spec, 1..=2), vec(ask, 3..=6), 1_u8..4, prop::option::of(0_u32..2)).prop_map(
        |(nodes, asks, which, bound)| {
            let mut built = fleet();
            for (i, (gpus, cpu, is_busy)) in nodes.into_iter().enumerate() {
                let mut next = node().label("pool", ["lab", "annex"][i]).room(cpu * 1_000, 1 << 30, 9);
                for gpu in 0..gpus.min(2 - i) {
                    let used = if is_busy && gpu == 0 { a100().used("2g.20gb", 2, "holder") } else { a100() };
                    next = next.gpu(used);
                }
                built = built.node(["n1", "n2"][i], next);
            }
            let names = (0..).map(|i| format!("lab/r{i}"));
            let requests = asks.into_iter().zip(names).map(|(asks, name)| {
                let mut asks = asks.build();
                asks.id = request(&name).build().id;
                asks
            });
            let order = |policy: PolicyBuilder, bit: u8| {
                if which >> bit & 1 == 1 { policy.oldest_first() } else { policy }
            };
            let mut lab = order(policy("lab"), 0);
            if let Some(min) = bound {
                lab = lab.bounds("1g.10gb", min, 1, None);
            }
            World {
                inventory: built.build(),
                requests: requests.collect(),
                policies: vec![lab.build(), order(policy("annex").pool("annex"), 1).build()],
            }
        },
    )
}

/// Small worlds in which some policies, or all, serve the oldest first: tight
/// ones, and any.
fn queues() -> impl Strategy<Value = World> {
    let any = (worlds(), 1_u8..4).prop_map(|(mut world, which)| {
        for (i, policy) in world.policies.iter_mut().enumerate() {
            if let LayoutPolicy::DemandDriven { order, .. } = &mut policy.layout
                && which >> i & 1 == 1
            {
                *order = Order::OldestFirst;
            }
        }
        world
    });
    prop_oneof![2 => tight(), 1 => any]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_better_and_the_certificate_proves_it(world in queues()) {
        let World { inventory, requests, policies } = &world;
        let decision = decide(inventory, requests, policies);
        let (best_plan, best) = crate::oracle::best(inventory, requests, policies);
        let best = Values { nodes: u32::try_from(decision.plan.steps.len()).expect("few"), ..best };
        let values = Demand::new(inventory, requests, policies).values_of(&decision.plan).0;
        prop_assert_eq!(values, Some(best), "better: {:?}\nthan: {:?}", best_plan, decision.plan);
        for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
            prop_assert!(level.is_proven(), "{:?}", level);
        }
        prop_assert!(is_sound(&check(&decision.plan, inventory, requests, policies)));
        prop_assert_eq!(check_turns(&decision.report.requests, inventory, requests, policies), vec![]);
    }

    #[test]
    fn what_would_help_helps(world in queues()) {
        prop_assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
    }

    #[test]
    fn the_order_of_input_is_of_no_account_and_planning_again_changes_nothing(world in queues()) {
        let World { inventory, requests, policies } = &world;
        let first = decide(inventory, requests, policies);
        let (mut requests, mut policies) = (requests.clone(), policies.clone());
        requests.reverse();
        policies.reverse();
        prop_assert_eq!(&decide(inventory, &requests, &policies), &first);
        let after = crate::oracle::apply::apply(inventory, first.plan.steps.iter());
        prop_assert_eq!(decide(&after, &requests, &policies).plan.steps, vec![]);
    }
}

/// Worlds in which both orders give the same would prove nothing.
#[test]
fn the_order_makes_a_difference_in_these_worlds() {
    let mut runner = TestRunner::deterministic();
    let mut different = 0;
    for _ in 0..300 {
        let mut world = queues().new_tree(&mut runner).expect("a world").current();
        let queued = crate::oracle::help::served(&world);
        for policy in &mut world.policies {
            if let LayoutPolicy::DemandDriven { order, .. } = &mut policy.layout {
                *order = Order::MostServed;
            }
        }
        different += usize::from(crate::oracle::help::served(&world) != queued);
    }
    assert!(different >= 20, "{different} worlds differ");
}

/// Two hundred requests of many kinds for a fleet that has slices for a third of
/// them: who is served is what serving one after the other comes to.
#[test]
fn a_long_queue_is_served_as_one_after_the_other_would_be() {
    let mut builder = fleet();
    for i in 0..4 {
        builder = builder.node(&format!("n{i}"), node().gpu(a100()).gpu(a100()).gpu(a30()));
    }
    let inventory = builder.build();
    let profiles = ["1g.10gb", "3g.40gb", "2g.20gb", "1g.6gb", "7g.80gb", "2g.12gb", "4g.40gb", "1g.20gb"];
    let requests: Vec<Request> = (0..200_i64)
        .map(|i| {
            let profile = profiles[usize::try_from(i * i % 13 % 8).expect("small")];
            request(&format!("r{i:03}")).asks(profile, 1).since(i / 2).build()
        })
        .collect();
    let policies = [policy("p").oldest_first().build()];
    let decision = decided(&inventory, &requests, &policies);
    assert_eq!(out_of_turn(&decision).iter().map(|level| level.value).sum::<i64>(), 0);
    let mut accepted: Vec<Request> = vec![];
    for next in &requests {
        accepted.push(next.clone());
        let all = decide(&inventory, &accepted, &[policy("p").build()]);
        if served(&all).len() < accepted.len() {
            accepted.pop();
        }
    }
    let one_by_one: Vec<String> = accepted.iter().map(|r| r.id.name.clone()).collect();
    assert_eq!(served(&decision).into_iter().collect::<BTreeSet<_>>(), one_by_one.into_iter().collect());
}

/// Nodes that are short of CPU and memory, and more who wait than can be served.
#[test]
fn where_rooms_are_short_nobody_has_what_somebody_older_could_have() {
    let (inventory, requests) = rooms(Rooms { nodes: 12, gpus: 4, pods: 120, kinds: 8 }, 3);
    let policies = [policy("p").oldest_first().build()];
    let decision = decided(&inventory, &requests, &policies);
    assert!(
        !decision.plan.steps.is_empty(),
        "{:?} {:?}",
        decision.report.gave_up,
        decision.report.certificate
    );
    let level = out_of_turn(&decision);
    assert_eq!(level.len(), 1);
    assert_eq!((level[0].value, level[0].bound), (0, 0), "{:?}", decision.report.certificate);
    // What is under way goes on, unless another plan is better by proof: it serves
    // the same requests, and changes fewer GPUs than are left to change.
    for done in 1..=decision.plan.steps.len() {
        let (steps, left) = decision.plan.steps.split_at(done);
        let after = crate::oracle::apply::apply(&inventory, steps.iter());
        let under_way = UnderWay::from_steps(left);
        let again = decide_while(&after, &requests, &policies, &under_way);
        assert_eq!(served(&again), served(&decision), "after {done} steps");
        let nodes = |steps: &[NodeStep]| -> BTreeSet<_> { steps.iter().map(|s| s.node.clone()).collect() };
        let gpus = |steps: &[NodeStep]| -> usize { steps.iter().map(|step| step.gpus.len()).sum() };
        let again = &again.plan.steps;
        let goes_on = nodes(again).is_subset(&nodes(left)) && gpus(again) <= gpus(left);
        assert!(goes_on || gpus(again) < gpus(left), "after {done} steps: {again:?}");
    }
}

/// Each question that looks at every node is a plan of its own: only so many are asked as a plan affords, and what was
/// found is where the plan starts.
#[test]
fn serving_by_age_costs_no_more_work_than_a_plan_affords() {
    for seed in 0..4 {
        let (inventory, requests) = rooms(Rooms { nodes: 24, gpus: 4, pods: 240, kinds: 24 }, seed);
        let policies = [policy("p").oldest_first().build()];
        let before = work::done();
        let decision = decide(&inventory, &requests, &policies);
        let operations = work::done() - before;
        let unproved = decision.report.certificate.iter().find(|level| level.level.starts_with(OUT_OF_TURN));
        println!("seed {seed}: {operations} operations, {unproved:?}");
        assert!(is_sound(&check(&decision.plan, &inventory, &requests, &policies)));
        assert_eq!(check_turns(&decision.report.requests, &inventory, &requests, &policies), vec![]);
        assert!(operations < 8_000_000_000, "seed {seed}: {operations}");
    }
}
