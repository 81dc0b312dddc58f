//! Nodes that are short of CPU and memory: no plan serves less than first fit would, by age or the largest first,
//! and where the oldest come first, none serves an older one later than it.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::collections::BTreeSet;

use planner::check::{check, is_sound};
use planner::decide::decide_without_advice;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::RequestId;
use planner::report::Outcome;
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

use crate::oracle::placing::{by_age, by_size, compute, first_fit, one_after_the_other};

/// Who is served by the plan.
fn planned(inventory: &Inventory, requests: &[Request], oldest_first: bool) -> BTreeSet<RequestId> {
    let policy = policy("p");
    let policies = [if oldest_first { policy.oldest_first().build() } else { policy.build() }];
    let decision = decide_without_advice(inventory, requests, &policies);
    let notes = check(&decision.plan, inventory, requests, &policies);
    assert!(is_sound(&notes), "{notes:?}");
    let reports = decision.report.requests.into_iter();
    let served = reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. }));
    served.map(|report| report.id).collect()
}

/// A fleet short of CPU and memory; with `of_its_own`, each pod has CPU and memory of its own.
fn fleet(seed: u64, of_its_own: bool) -> (Inventory, Vec<Request>) {
    let mut numbers = Numbers::new(seed ^ 0xf1f7);
    let mut of = |low: u64, high: u64| usize::try_from(low + numbers.below(high - low + 1)).unwrap();
    let shape = Rooms { nodes: of(3, 8), gpus: of(2, 4), pods: of(66, 110), kinds: of(2, 28) };
    let (inventory, requests) = rooms(shape, seed);
    if of_its_own { of_their_own((inventory, requests), &mut numbers) } else { (inventory, requests) }
}

/// Each pod has CPU and memory of its own.
fn of_their_own(
    (inventory, mut requests): (Inventory, Vec<Request>),
    numbers: &mut Numbers,
) -> (Inventory, Vec<Request>) {
    for request in &mut requests {
        request.takes.cpu_milli = 1_000 * (1 + i64::try_from(numbers.below(24)).unwrap());
        request.takes.memory_bytes = (4 + i64::try_from(numbers.below(125)).unwrap()) << 30;
    }
    (inventory, requests)
}

fn unserved(requests: &[Request], is_served: impl Fn(&RequestId) -> bool) -> i64 {
    requests.iter().filter(|request| !is_served(&request.id)).map(compute).sum()
}

#[track_caller]
fn is_never_worse(seeds: std::ops::Range<u64>, of_its_own: bool) {
    let mut short = 0;
    for seed in seeds {
        let (inventory, requests) = fleet(seed, of_its_own);
        let served = planned(&inventory, &requests, false);
        let by_plan = unserved(&requests, |id| served.contains(id));
        for order in [by_age(&requests), by_size(&requests)] {
            let fit = first_fit(&inventory, &order);
            let by_fit = unserved(&requests, |id| fit.contains(id));
            assert!(by_plan <= by_fit, "fleet {seed}: {by_plan} not served, by first fit {by_fit}");
            short += usize::from(by_fit > 0);
        }
    }
    assert!(short > 0, "everybody is served: that says nothing");
}

#[test]
fn no_plan_serves_less_than_first_fit() {
    is_never_worse(0..16, false);
}

#[test]
fn nor_where_each_pod_has_cpu_and_memory_of_its_own() {
    is_never_worse(100..106, true);
}

/// The first on whom they differ is served by the plan.
#[test]
fn the_oldest_first_is_never_worse_than_first_fit_by_age() {
    let mut better = 0;
    for seed in 200..206 {
        let (inventory, requests) = fleet(seed, true);
        let served = planned(&inventory, &requests, true);
        let order = by_age(&requests);
        let fit = first_fit(&inventory, &order);
        let differs = order.iter().find(|r| served.contains(&r.id) != fit.contains(&r.id));
        if let Some(first) = differs {
            assert!(served.contains(&first.id), "fleet {seed}: {:?} is served by first fit", first.id);
            better += 1;
        }
    }
    assert!(better > 0, "the same are served everywhere");
}

/// More kinds of pods than one program is for, on so few nodes that every way of placing them can be looked at.
#[test]
fn the_oldest_first_with_many_kinds_is_served_as_one_after_the_other_could_be() {
    let (mut looked_at, mut beyond_first_fit, mut seed) = (0, 0, 300);
    while looked_at < 12 {
        seed += 1;
        let mut numbers = Numbers::new(seed);
        let mut of = |low: u64, high: u64| usize::try_from(low + numbers.below(high - low + 1)).unwrap();
        let shape = Rooms { nodes: of(1, 3), gpus: of(1, 4), pods: of(44, 80), kinds: 28 };
        let (inventory, requests) = of_their_own(rooms(shape, seed), &mut numbers);
        let order = by_age(&requests);
        let Some(best) = one_after_the_other(&inventory, &order, 20_000) else { continue };
        looked_at += 1;
        beyond_first_fit += usize::from(first_fit(&inventory, &order) != best);
        let served = planned(&inventory, &requests, true);
        let served: BTreeSet<&RequestId> = served.iter().collect();
        assert_eq!(served, best, "fleet {seed}");
    }
    assert!(beyond_first_fit > 2, "first fit is as good: {beyond_first_fit}");
}
