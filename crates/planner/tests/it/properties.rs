//! Properties of every plan in any world: legal, as good as brute force, independent of the order of input,
//! stable.

use std::collections::BTreeSet;

use crate::oracle::apply::apply;
use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};
use planner::check::{Severity, check, check_certificate};
use planner::decide::{Decision, decide, decide_while};
use planner::names::{GpuIndex, NodeName};
use planner::plan::{NodeStep, Plan, UnderWay};
use planner::report::Outcome;
use planner::testing::{a100, fleet, node, policy, request};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

fn plan(world: &World) -> Plan {
    let World { inventory, requests, policies } = world;
    decide(inventory, requests, policies).plan
}

/// The GPUs that a plan changes.
fn changed(plan: &Plan) -> BTreeSet<(NodeName, GpuIndex)> {
    plan.steps
        .iter()
        .flat_map(|step| step.gpus.iter().map(|change| (step.node.clone(), change.gpu)))
        .collect()
}

/// What a plan is worth.
fn values(world: &World, plan: &Plan) -> Option<Values> {
    let World { inventory, requests, policies } = world;
    Demand::new(inventory, requests, policies).values_of(plan).0
}

fn fatal(world: &World, plan: &Plan) -> Vec<String> {
    let World { inventory, requests, policies } = world;
    let notes = check(plan, inventory, requests, policies);
    notes.iter().filter(|n| n.severity == Severity::Fatal).map(ToString::to_string).collect()
}

fn after(world: &World, steps: &[&NodeStep]) -> World {
    World { inventory: apply(&world.inventory, steps.iter().copied()), ..world.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_breaks_no_rule(world in worlds()) {
        prop_assert_eq!(fatal(&world, &plan(&world)), Vec::<String>::new());
    }

    #[test]
    fn no_plan_is_better(world in worlds()) {
        let World { inventory, requests, policies } = &world;
        let (best_plan, best) = crate::oracle::best(inventory, requests, policies);
        let plan = plan(&world);
        // How many nodes are touched is bounded, not minimal: see the certificate.
        let best = Values { nodes: u32::try_from(plan.steps.len()).expect("few"), ..best };
        prop_assert_eq!(values(&world, &plan), Some(best), "better: {:?}\nthan: {:?}", best_plan, plan);
    }

    /// Who is evicted is in the way of what changes, and everybody who is.
    #[test]
    fn exactly_those_are_evicted_who_are_in_the_way(world in worlds()) {
        let World { inventory, requests, policies } = &world;
        let plan = plan(&world);
        let (_, choices) = Demand::new(inventory, requests, policies).values_of(&plan);
        for (name, choice) in inventory.nodes.keys().zip(choices) {
            let steps = plan.steps.iter().filter(|step| step.node == *name);
            let evicts: BTreeSet<_> = steps.flat_map(|step| step.evicts.iter().cloned()).collect();
            prop_assert_eq!(evicts, choice.evicts, "on {}", name);
        }
    }

    /// The certificate says what the plan is worth, and proves it.
    #[test]
    fn the_certificate_is_what_brute_force_finds(world in worlds()) {
        let World { inventory, requests, policies } = &world;
        let (_, best) = crate::oracle::best(inventory, requests, policies);
        let Decision { plan, report } = decide(inventory, requests, policies);
        prop_assert_eq!(check_certificate(&plan, inventory, &report.certificate), vec![]);
        for level in &report.certificate {
            if level.level == "nodes touched" {
                let fewest = i64::from(best.nodes);
                prop_assert!(level.bound <= fewest && fewest <= level.value, "{fewest}: {:?}", level);
                continue;
            }
            prop_assert!(level.is_proven(), "{:?}", level);
            let expect = match level.level.as_str() {
                "slices missing to minCount" => best.floors,
                "slices missing to spareCount" => best.spare,
                "GPUs changed" => best.changed,
                "slices created and destroyed" => best.operations,
                _ => continue,
            };
            prop_assert_eq!(level.value, i64::from(expect), "{}", level.level);
        }
        let unserved: i64 = report.certificate.iter()
            .filter(|level| level.level.starts_with("unserved compute slices"))
            .map(|level| level.value)
            .sum();
        prop_assert_eq!(unserved, best.unserved.iter().map(|n| i64::from(n.slices)).sum::<i64>());
    }

    /// Each is done to the world; then somebody who was told so is served, and
    /// less of it would not do.
    #[test]
    fn what_would_help_helps(world in worlds()) {
        prop_assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
    }

    #[test]
    fn the_order_of_input_is_of_no_account_and_every_request_has_an_answer(world in worlds()) {
        let World { inventory, requests, policies } = &world;
        let first = decide(inventory, requests, policies);
        prop_assert_eq!(&decide(inventory, requests, policies), &first);
        let (mut requests, mut policies) = (requests.clone(), policies.clone());
        requests.reverse();
        policies.reverse();
        prop_assert_eq!(&decide(inventory, &requests, &policies), &first);
        let answered: BTreeSet<_> = first.report.requests.iter().map(|r| &r.id).collect();
        prop_assert_eq!(answered, requests.iter().map(|r| &r.id).collect::<BTreeSet<_>>());
        prop_assert_eq!(first.report.requests.len(), requests.len());
    }

    #[test]
    fn planning_again_after_the_plan_changes_nothing(world in worlds()) {
        let first = plan(&world);
        let steps: Vec<_> = first.steps.iter().collect();
        prop_assert_eq!(plan(&after(&world, &steps)), Plan::default(), "after {:?}", first);
    }

    #[test]
    fn after_part_of_a_plan_no_further_gpu_changes(world in worlds(), mask in any::<u8>()) {
        let first = plan(&world);
        let done: Vec<_> = first.steps.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, s)| s).collect();
        let mut left = changed(&first);
        for step in &done {
            for change in &step.gpus {
                left.remove(&(step.node.clone(), change.gpu));
            }
        }
        let again = plan(&after(&world, &done));
        prop_assert!(changed(&again).is_subset(&left), "first {:?}\nthen {:?}", first, again);
    }
}

/// Worlds in which nothing happens would prove nothing.
#[test]
fn the_worlds_are_worth_planning_and_every_step_counts() {
    let mut runner = TestRunner::deterministic();
    let (mut changing, mut steps, mut scarce, mut off, mut wanted) = (0, 0, 0, 0, 0);
    for _ in 0..200 {
        let world = worlds().new_tree(&mut runner).expect("a world").current();
        let World { inventory, requests, policies } = &world;
        let (plan, best) = crate::oracle::best(inventory, requests, policies);
        changing += usize::from(!plan.steps.is_empty());
        steps += plan.steps.len();
        let on_demand = plan.steps.iter().filter(|step| step.policy == "research".into());
        off += on_demand.flat_map(|step| &step.gpus).filter(|change| change.switches_mig_off()).count();
        let served = decide(inventory, requests, policies).report.requests;
        let served = served.iter().filter(|r| matches!(r.outcome, Outcome::ServedByPlan { .. }));
        let is_whole =
            |id: &planner::names::RequestId| requests.iter().any(|r| r.id == *id && r.whole_gpus > 0);
        wanted += served.filter(|r| is_whole(&r.id)).count();
        scarce += usize::from(best.unserved.iter().any(|missing| missing.slices > 0));
        // A static layout, and MIG where it is off, are not weighed.
        let is_forced = |step: &NodeStep| step.policy == "zebra".into() || step.enable_mig;
        for left_out in (0..plan.steps.len()).filter(|i| !is_forced(&plan.steps[*i])) {
            let mut less = plan.clone();
            less.steps.remove(left_out);
            assert!(values(&world, &less).is_some_and(|less| less > best), "without {left_out}: {plan:?}");
        }
    }
    assert!(off >= 10 && wanted >= 5, "MIG goes off on {off} GPUs for {wanted} requests, and for bounds");
    assert!(changing >= 80 && steps >= 100, "{changing} worlds change, in {steps} steps");
    assert!((50..=150).contains(&scarce), "{scarce} worlds leave somebody unserved");
}

/// Thirty pods, each of which wants another combination of slices on one node:
/// more than can be proved. What is planned is still a plan to act upon.
#[test]
fn a_plan_for_demand_of_too_many_kinds_is_followed_to_its_end_too() {
    let names: Vec<String> = (0..5).map(|i| format!("n{i}")).collect();
    let fleet = names.iter().fold(fleet(), |fleet, name| fleet.node(name, node().gpu(a100()).gpu(a100())));
    let requests = (0..30).map(|i| {
        let mut asks = request(&format!("r{i}")).asks("1g.10gb", 1 + i % 6).since(i64::from(i));
        if i / 6 > 0 {
            asks = asks.asks("2g.20gb", i / 6);
        }
        asks.build()
    });
    let world =
        World { inventory: fleet.build(), requests: requests.collect(), policies: vec![policy("p").build()] };
    is_followed_to_its_end(&world);
}

/// Each takes another amount of CPU and memory, of nodes that are short of both.
#[test]
fn so_is_one_for_pods_that_all_take_something_else() {
    let roomy = || node().gpu(a100()).gpu(a100()).room(64_000, 512 << 30, 100);
    let names: Vec<String> = (0..6).map(|i| format!("n{i}")).collect();
    let fleet = names.iter().fold(fleet(), |fleet, name| fleet.node(name, roomy()));
    let profiles = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "4g.40gb", "1g.20gb"];
    let requests = (0..80).zip(profiles.iter().cycle()).map(|(i, profile)| {
        let memory = (80_000 - 97 * i) << 20;
        request(&format!("r{i}")).asks(profile, 1).takes(8_000 + 100 * i, memory).since(i).build()
    });
    is_followed_to_its_end(&World {
        inventory: fleet.build(),
        requests: requests.collect(),
        policies: vec![policy("p").build()],
    });
}

/// With what is under way handed in, after its first step the rest of it is
/// planned, and after all of it nothing: also where nothing is proved.
fn is_followed_to_its_end(world: &World) {
    let first = plan(world);
    assert_eq!(fatal(world, &first), Vec::<String>::new());
    assert!(first.steps.len() > 2, "{first:?}");
    for done in 1..=first.steps.len() {
        let steps: Vec<_> = first.steps[..done].iter().collect();
        let World { inventory, requests, policies } = &after(world, &steps);
        let left = &first.steps[done..];
        let again = decide_while(inventory, requests, policies, &UnderWay::from_steps(left)).plan;
        let gpus = |steps: &[NodeStep]| -> BTreeSet<_> {
            changed(&Plan { steps: steps.to_vec() }).into_iter().collect()
        };
        assert!(gpus(&again.steps).is_subset(&gpus(left)), "after {done} steps: {again:?}");
    }
}
