//! Nodes that are short of CPU and memory: no plan serves less than first fit would, by age or the largest first,
//! and where the oldest come first, none serves an older one later than it.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::cmp::Reverse;
use std::collections::BTreeSet;

use planner::check::{check, is_sound};
use planner::decide::decide_without_advice;
use planner::demand::Request;
use planner::inventory::{Inventory, Room};
use planner::names::RequestId;
use planner::report::Outcome;
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

/// An idle node of A100-80GB, with what it was given.
struct Taken {
    gpus: i64,
    room: Room,
    /// Slices of one, two, three and seven compute slices.
    slices: [i64; 4],
}

impl Taken {
    /// Whether the GPUs can be cut into these: each has a 7g, or halves that have a 3g or four units for smaller ones.
    fn can_be_cut(gpus: i64, [ones, twos, threes, sevens]: [i64; 4]) -> bool {
        let left = gpus - sevens;
        (0..=left).any(|with_two| {
            let with_one = (threes - 2 * with_two).max(0);
            let with_none = left - with_two - with_one;
            let (twos_at_most, units) = (2 * with_one + 3 * with_none, 4 * with_one + 7 * with_none);
            with_none >= 0 && twos <= twos_at_most && 2 * twos + ones <= units
        })
    }

    /// Takes a request, if there is room for it.
    fn takes(&mut self, request: &Request) -> bool {
        let (room, takes) = (&mut self.room, request.takes);
        if room.cpu_milli < takes.cpu_milli || room.memory_bytes < takes.memory_bytes || room.pods < 1 {
            return false;
        }
        let mut slices = self.slices;
        slices[[1, 2, 3, 7].iter().position(|n| *n == compute(request)).unwrap()] += 1;
        if !Self::can_be_cut(self.gpus, slices) {
            return false;
        }
        self.slices = slices;
        *room = room.plus(takes, -1);
        true
    }
}

/// Its compute slices: each asks for one slice.
fn compute(request: &Request) -> i64 {
    request.slices.keys().map(|profile| i64::from(profile.compute)).sum()
}

/// Who is served if each in turn goes to the first node that has room for it, with whatever layouts.
fn first_fit<'r>(inventory: &Inventory, order: &[&'r Request]) -> BTreeSet<&'r RequestId> {
    let nodes = inventory.nodes.values();
    let taken = |room, gpus: usize| Taken { gpus: i64::try_from(gpus).unwrap(), room, slices: [0; 4] };
    let mut nodes: Vec<Taken> = nodes.map(|node| taken(node.room, node.gpus.len())).collect();
    let served = order.iter().filter(|request| nodes.iter_mut().any(|node| node.takes(request)));
    served.map(|request| &request.id).collect()
}

fn by_age(requests: &[Request]) -> Vec<&Request> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by_key(|r| (r.since, &r.id));
    order
}

fn by_size(requests: &[Request]) -> Vec<&Request> {
    let mut order = by_age(requests);
    order.sort_by_key(|r| Reverse((compute(r), r.takes.cpu_milli, r.takes.memory_bytes)));
    order
}

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
    let (inventory, mut requests) = rooms(shape, seed);
    for request in requests.iter_mut().filter(|_| of_its_own) {
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
