//! Promises and shares together, on fleets that evict, run out of room and count what is held by node: what was
//! promised counts as held, and the second opinion agrees with every plan.

use std::cell::Cell;

use planner::check::{check, check_certificate, check_promises, check_shares, check_turns, is_sound};
use planner::decide::{Decision, decide};
use planner::inventory::{Inventory, Node, Room};
use planner::policy::{Drain, LayoutPolicy, Order};
use planner::report::{Outcome, RequestReport};
use planner::testing::{a100, fleet, node, policy, profile, request};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};

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

/// What worlds may have that makes it hard to plan beside promises, and how it is taken from them.
const FIVE: [fn(&mut World); 5] =
    [without_rooms, without_eviction, without_floors, without_shares, without_promises];

fn without_rooms(world: &mut World) {
    world.inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
}

fn without_eviction(world: &mut World) {
    world.policies.iter_mut().for_each(|policy| policy.drain = Drain::Never);
}

fn without_floors(world: &mut World) {
    for policy in &mut world.policies {
        if let LayoutPolicy::DemandDriven { slices, whole_gpus, .. } = &mut policy.layout {
            slices.values_mut().chain(whole_gpus).for_each(|bounds| bounds.min = 0);
        }
    }
}

fn without_shares(world: &mut World) {
    for policy in &mut world.policies {
        if let LayoutPolicy::DemandDriven { shares, .. } = &mut policy.layout {
            shares.clear();
        }
    }
}

fn without_promises(world: &mut World) {
    world.requests.iter_mut().for_each(|request| request.promised = None);
}

/// Which of them make a difference: without it there is another plan, or somebody else is served.
fn matter(world: &World, decision: &Decision) -> [bool; 5] {
    FIVE.map(|take_away| {
        let mut without = world.clone();
        take_away(&mut without);
        let other = decide(&without.inventory, &without.requests, &without.policies);
        let is_same = |(a, b): (&RequestReport, &RequestReport)| a.outcome == b.outcome;
        let mut both = other.report.requests.iter().zip(&decision.report.requests);
        other.plan != decision.plan || !both.all(is_same)
    })
}

/// Which of the five a world has: rooms in which not every pod fits, somebody who has to go for a static layout,
/// floors, shares and promises.
fn has(world: &World, decision: &Decision) -> [bool; 5] {
    let World { inventory, requests, policies } = world;
    let short = |node: &Node| {
        let together = requests.iter().fold(Room::ZERO, |sum, request| sum.plus(request.takes, 1));
        !node.room.holds(&together)
    };
    let demand_driven = || {
        policies.iter().filter_map(|policy| match &policy.layout {
            LayoutPolicy::DemandDriven { slices, whole_gpus, shares, .. } => {
                Some((slices.values().chain(whole_gpus).any(|bounds| bounds.min > 0), !shares.is_empty()))
            }
            LayoutPolicy::Static { .. } => None,
        })
    };
    [
        inventory.nodes.values().any(short),
        decision.plan.steps.iter().any(|step| !step.evicts.is_empty()),
        demand_driven().any(|(floors, _)| floors),
        demand_driven().any(|(_, shares)| shares),
        requests.iter().any(|request| request.promised.is_some()),
    ]
}

/// Small worlds in which all five are likely: pods on a node that gets a static layout may be evicted, slices of one
/// profile have a floor, and every node has its limits.
fn with_all_five() -> impl Strategy<Value = World> {
    let floor = (select(&["1g.10gb", "2g.20gb", "3g.40gb"][..]), 1_u32..=3);
    let fixed = select(&[("1g.10gb", 3), ("3g.40gb", 2), ("2g.20gb", 3), ("7g.80gb", 1)][..]);
    (everything(), 0_usize..3, floor, fixed).prop_map(|(mut world, annex, (floor, min), fixed)| {
        let nodes = world.inventory.nodes.len();
        for (i, node) in world.inventory.nodes.values_mut().enumerate() {
            if i == annex % nodes {
                node.labels.insert("pool".to_owned(), "annex".to_owned());
                (node.hold, node.schedulable) = (None, true);
            }
            if node.room == Room::UNLIMITED {
                node.room = Room { cpu_milli: 1_000, memory_bytes: 2 << 30, storage_bytes: 2 << 30, pods: 3 };
            }
        }
        world.policies.truncate(1);
        world.policies.push(policy("zebra").pool("annex").fixed(&[], &[fixed]).evicts().build());
        if let LayoutPolicy::DemandDriven { slices, .. } = &mut world.policies[0].layout {
            let bounds = slices.entry(profile(floor)).or_default();
            bounds.min = bounds.min.max(min);
            bounds.max = bounds.max.map(|max| max.max(bounds.min));
        }
        world
    })
}

fn with_seed(cases: u32, seed: u64) -> TestRunner {
    let rng_seed = RngSeed::Fixed(seed);
    TestRunner::new(ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

/// Compares a decision with the best of all, and asks for the second opinion.
fn is_best(world: &World) -> Result<Decision, TestCaseError> {
    let World { inventory, requests, policies } = world;
    let decision = decide(inventory, requests, policies);
    prop_assert_eq!(objections(world, &decision), Vec::<String>::new());
    let settled = settled(inventory, requests, policies);
    let (best_plan, best) = crate::oracle::best(inventory, &settled, policies);
    let best = Values { nodes: u32::try_from(decision.plan.steps.len()).expect("few"), ..best };
    let values = Demand::new(inventory, &settled, policies).values_of(&decision.plan).0;
    prop_assert_eq!(values, Some(best), "better: {:?}\nthan: {:?}", best_plan, decision.plan);
    Ok(decision)
}

#[test]
fn no_plan_is_better_and_nobody_objects() {
    with_seed(256, 41).run(&everything(), |world| is_best(&world).map(drop)).unwrap();
}

/// To compare worlds that never have all five would prove nothing about what these do to each other.
#[test]
fn no_plan_is_better_where_rooms_eviction_floors_shares_and_promises_meet() {
    let (all, most) = (Cell::new(0), Cell::new(0));
    let compare = |world: World| {
        let decision = is_best(&world)?;
        if has(&world, &decision).iter().all(|has| *has) {
            all.set(all.get() + 1);
            let matter = matter(&world, &decision).into_iter().filter(|matter| *matter).count();
            most.set(most.get() + usize::from(matter >= 3));
        }
        Ok(())
    };
    with_seed(400, 43).run(&with_all_five(), compare).unwrap();
    let (all, most) = (all.get(), most.get());
    println!("{all} worlds have all five, and in {most} three of them or more make a difference");
    assert!(all >= 30 && most >= 2, "{all} worlds have all five, three of which make a difference in {most}");
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
