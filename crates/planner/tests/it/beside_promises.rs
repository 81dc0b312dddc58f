//! Promises and shares together, on fleets that evict, run out of room and count what is held by node: what was
//! promised counts as held, and the second opinion agrees with every plan.

use planner::check::{check, check_certificate, check_promises, check_shares, check_turns, is_sound};
use planner::decide::{Decision, decide};
use planner::inventory::Inventory;
use planner::policy::{LayoutPolicy, Order};
use planner::report::{Outcome, RequestReport};
use planner::testing::{a100, fleet, node, policy, request};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::oracle::promises::settled;
use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};
use crate::promises::promise;
use crate::shares::{drawn, share_out};

/// What the second opinion has against a decision.
fn objections(world: &World, decision: &Decision) -> Vec<String> {
    let World { inventory, requests, policies } = world;
    let Decision { plan, report } = decision;
    let mut notes = check(plan, inventory, requests, policies);
    notes.retain(|note| !is_sound(std::slice::from_ref(note)));
    notes.extend(check_promises(plan, &report.requests, inventory, requests, policies));
    notes.extend(check_shares(plan, &report.requests, &report.certificate, inventory, requests, policies));
    notes.extend(check_turns(&report.requests, inventory, requests, policies));
    notes.extend(check_certificate(plan, inventory, &report.certificate));
    notes.iter().map(ToString::to_string).collect()
}

fn is_served(decision: &Decision, name: &str) -> bool {
    let is_it = |report: &&RequestReport| report.id.name == name;
    let report = decision.report.requests.iter().find(is_it).expect("every request has an answer");
    !matches!(report.outcome, Outcome::Unserved { .. })
}

/// Two nodes of eight GPUs, somebody of `vision` on seven of the first, whose eighth was cut for two.
fn nearly_full() -> Inventory {
    let mut full = node();
    for _ in 0..7 {
        full = full.gpu(a100().used("7g.80gb", 0, "vision/a"));
    }
    let empty = (0..8).fold(node(), |node, _| node.gpu(a100()));
    fleet().node("n1", full.gpu(a100().counted("3g.40gb", 2))).node("n2", empty).build()
}

/// A share that is lowered after somebody was promised more takes the promise from nobody, gives nobody
/// more, and the plan for the others is not refused for it.
#[test]
fn a_share_that_was_lowered_since_keeps_what_was_promised_and_gives_no_more() {
    let inventory = nearly_full();
    let requests = vec![
        request("vision/promised").asks("3g.40gb", 1).since(0).promised("n1").build(),
        request("vision/late").asks("3g.40gb", 1).since(1).build(),
        request("speech/other").asks("7g.80gb", 1).since(2).build(),
    ];
    // Seven GPUs are held by vision already, 49 of 20.
    let policies = vec![policy("p").share(Some("vision"), 0, Some(20)).build()];
    let world = World { inventory, requests, policies };
    let decision = decide(&world.inventory, &world.requests, &world.policies);
    assert_eq!(objections(&world, &decision), Vec::<String>::new());
    assert!(
        is_served(&decision, "promised") && is_served(&decision, "other") && !is_served(&decision, "late")
    );
}

/// One has the last CPU of the only node promised; another asks, and could have it nowhere. So nothing is
/// missing to the share of both.
#[test]
fn who_finds_no_room_beside_what_was_promised_asks_for_no_share() {
    let inventory = fleet()
        .node("n1", node().gpu(a100().counted("3g.40gb", 2)).room(4_000, 8 << 30, 10))
        .node("n2", (0..8).fold(node().room(1_000, 8 << 30, 10), |node, _| node.gpu(a100())))
        .build();
    let asks = |name: &str, at| request(name).asks("3g.40gb", 1).since(at).takes(4_000, 0);
    let requests = vec![asks("vision/first", 0).promised("n1").build(), asks("vision/second", 1).build()];
    let policies = vec![policy("p").share(Some("vision"), 6, None).build()];
    let world = World { inventory, requests, policies };
    let decision = decide(&world.inventory, &world.requests, &world.policies);
    assert_eq!(objections(&world, &decision), Vec::<String>::new());
    assert!(is_served(&decision, "first") && !is_served(&decision, "second"));
}

/// Somebody holds one for certain whom no pod of the node accounts for; another may be held, and the node
/// counts none. So one is free: it is kept for whom it was promised, and given to nobody else.
#[test]
fn what_is_kept_comes_on_top_of_what_is_held_for_certain() {
    let mut full = node();
    for _ in 0..7 {
        full = full.gpu(a100().used("7g.80gb", 0, "holder"));
    }
    let last = a100().used("3g.40gb", 4, "stranger").maybe("3g.40gb", 0, &["perhaps"]);
    let inventory = fleet().node("n1", full.gpu(last).allocated("3g.40gb", 0)).build();
    let asks = |name: &str, at| request(name).asks("3g.40gb", 1).since(at);
    let requests = vec![asks("promised", 1).promised("n1").build(), asks("other", 0).build()];
    let world = World { inventory, requests, policies: vec![policy("p").build()] };
    let decision = decide(&world.inventory, &world.requests, &world.policies);
    assert_eq!(objections(&world, &decision), Vec::<String>::new());
    assert!(is_served(&decision, "promised") && !is_served(&decision, "other"));
}

/// Small worlds with promises, shares, and whatever worlds have.
fn everything() -> impl Strategy<Value = World> {
    (worlds(), drawn(), any::<u8>(), any::<(u16, u16)>()).prop_map(|(mut world, drawn, how, which)| {
        share_out(&mut world, &drawn, how);
        for node in world.inventory.nodes.values_mut() {
            // Nobody plans for a node that counts more than it has: such a one is held.
            for (profile, held) in &mut node.allocated {
                let slices = node.gpus.values().flat_map(|gpu| gpu.slices.iter());
                let there = slices.filter(|slice| slice.profile == *profile).count();
                *held = (*held).min(u32::try_from(there).expect("few"));
            }
        }
        promise(&mut world, which.0 | which.1);
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(41), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_better_and_nobody_objects(world in everything()) {
        let World { inventory, requests, policies } = &world;
        let decision = decide(inventory, requests, policies);
        prop_assert_eq!(objections(&world, &decision), Vec::<String>::new());
        let settled = settled(inventory, requests, policies);
        let (best_plan, best) = crate::oracle::best(inventory, &settled, policies);
        let best = Values { nodes: u32::try_from(decision.plan.steps.len()).expect("few"), ..best };
        let values = Demand::new(inventory, &settled, policies).values_of(&decision.plan).0;
        prop_assert_eq!(values, Some(best), "better: {:?}\nthan: {:?}", best_plan, decision.plan);
    }
}

/// Worlds in which promises and shares do not meet would prove nothing.
#[test]
fn promises_and_shares_meet_in_these_worlds() {
    let mut runner = TestRunner::deterministic();
    let mut meet = 0;
    for _ in 0..600 {
        let mut world = everything().new_tree(&mut runner).expect("a world").current();
        let both = decide(&world.inventory, &world.requests, &world.policies).plan;
        let promised = world.requests.clone();
        world.requests.iter_mut().for_each(|request| request.promised = None);
        let shares_only = decide(&world.inventory, &world.requests, &world.policies).plan;
        for policy in &mut world.policies {
            if let LayoutPolicy::DemandDriven { shares, .. } = &mut policy.layout {
                shares.clear();
            }
        }
        let promises_only = decide(&world.inventory, &promised, &world.policies).plan;
        meet += usize::from(both != shares_only && both != promises_only);
    }
    assert!(meet >= 2, "{meet} worlds have another plan for each");
}

/// One of a team asks for several slices, one for one; the team's share is met by the first only.
#[test]
fn a_share_that_only_several_slices_meet_is_met_where_the_oldest_comes_first() {
    let inventory = fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0))).build();
    let requests = vec![
        request("lab/one").asks("1g.10gb", 1).since(0).build(),
        request("guests/first").asks("1g.10gb", 1).since(0).build(),
        request("guests/second").asks("1g.10gb", 1).since(0).build(),
        request("lab/several").asks("1g.10gb", 2).asks("3g.40gb", 1).since(0).build(),
    ];
    let mut policy = policy("p").share(None, 2, None).build();
    let LayoutPolicy::DemandDriven { order, .. } = &mut policy.layout else { panic!() };
    *order = Order::OldestFirst;
    let world = World { inventory, requests, policies: vec![policy] };
    let decision = decide(&world.inventory, &world.requests, &world.policies);
    assert_eq!(objections(&world, &decision), Vec::<String>::new(), "{decision:#?}");
    assert!(is_served(&decision, "several") && !is_served(&decision, "one"));
}
