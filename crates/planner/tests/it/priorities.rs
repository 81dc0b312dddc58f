//! Many priorities: pods that differ in nothing else are planned together, and a higher one still comes before all lower ones.

use planner::check::{check, check_certificate, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::report::{LevelCertificate, Outcome, RequestReport};
use planner::solver::work;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

/// A fleet whose nodes are short of CPU and memory, and pods of so many priorities, more of them than can be served.
fn fleet(shape: Rooms, priorities: i32, seed: u64) -> (Inventory, Vec<Request>) {
    let (inventory, mut requests) = rooms(shape, seed);
    for (number, request) in (0_i32..).zip(&mut requests) {
        // A prime number of steps, so that each kind of pod has every priority.
        request.priority = number.wrapping_mul(7_919).rem_euclid(priorities) * 10;
    }
    (inventory, requests)
}

fn planned(inventory: &Inventory, requests: &[Request]) -> Decision {
    let policies = [policy("p").build()];
    let decision = decide(inventory, requests, &policies);
    let notes = check(&decision.plan, inventory, requests, &policies);
    assert!(is_sound(&notes), "{notes:?}");
    assert_eq!(check_certificate(&decision.plan, inventory, &decision.report.certificate), vec![]);
    decision
}

/// Who is not served, as a level for each priority, the highest first.
fn unserved(decision: &Decision) -> Vec<&LevelCertificate> {
    let levels = decision.report.certificate.iter();
    levels.filter(|level| level.level.starts_with("unserved compute slices at priority")).collect()
}

fn is_served(report: &RequestReport) -> bool {
    !matches!(report.outcome, Outcome::Unserved { .. })
}

/// With a row for each priority, twelve kinds of pods were 372 things to do, and nothing was proved of any priority that has to
/// leave somebody out.
#[test]
fn thirty_one_priorities_are_served_as_well_as_can_be_by_proof() {
    let shape = Rooms { nodes: 24, gpus: 8, pods: 300, kinds: 12 };
    let (inventory, requests) = fleet(shape, 31, 3);
    let before = work::done();
    let decision = planned(&inventory, &requests);
    let operations = work::done() - before;
    let levels = unserved(&decision);
    println!("{operations} operations: {levels:?}");
    assert_eq!(levels.len(), 31);
    assert!(levels.iter().filter(|level| level.value > 0).count() > 5, "not enough has to be left out");
    let open: Vec<_> = levels.iter().filter(|level| level.value > level.bound + 2).collect();
    assert!(open.is_empty(), "{open:?}");
    let proved = levels.iter().filter(|level| level.value == level.bound).count();
    assert!(proved >= 29, "{proved} of 31 are proved");
    assert!(operations < 3_000_000_000, "{operations}");
}

/// Planning for the highest priorities alone is another program, with fewer of them in each row.
#[test]
fn what_a_priority_gets_does_not_depend_on_lower_ones() {
    let mut compared = 0;
    for seed in 0..12 {
        let shape = Rooms { nodes: 3, gpus: 4, pods: 40, kinds: 5 };
        let (inventory, requests) = fleet(shape, 5, seed);
        let all = planned(&inventory, &requests);
        let all = unserved(&all);
        for count in 1..all.len() {
            let lowest = 10 * (5 - i32::try_from(count).unwrap());
            let high: Vec<Request> = requests.iter().filter(|r| r.priority >= lowest).cloned().collect();
            let alone = planned(&inventory, &high);
            let alone = unserved(&alone);
            let is_proved = |levels: &[&LevelCertificate]| levels.iter().all(|l| l.value == l.bound);
            if is_proved(&all[..count]) && is_proved(&alone) {
                let values =
                    |levels: &[&LevelCertificate]| levels.iter().map(|l| l.value).collect::<Vec<_>>();
                assert_eq!(values(&all[..count]), values(&alone), "seed {seed}, {count} priorities");
                compared += usize::from(alone.last().is_some_and(|level| level.value > 0));
            }
        }
    }
    assert!(compared > 10, "{compared} had to leave somebody out");
}

/// To a node they are the same, so nobody has a reason to serve the lower one.
#[test]
fn of_pods_that_ask_alike_the_higher_priority_is_served_and_then_the_older() {
    for seed in 0..6 {
        let shape = Rooms { nodes: 8, gpus: 4, pods: 90, kinds: 4 };
        let (inventory, requests) = fleet(shape, 6, seed);
        let decision = planned(&inventory, &requests);
        let served = |request: &Request| {
            is_served(decision.report.requests.iter().find(|report| report.id == request.id).unwrap())
        };
        let (mut pairs, mut waiting) = (0, 0);
        for one in requests.iter().filter(|request| !served(request)) {
            waiting += 1;
            let alike = |other: &&Request| {
                (&other.slices, other.takes, &other.constraints) == (&one.slices, one.takes, &one.constraints)
            };
            for other in requests.iter().filter(alike).filter(|request| served(request)) {
                pairs += 1;
                let comes_first =
                    (-other.priority, other.since, &other.id) < (-one.priority, one.since, &one.id);
                assert!(comes_first, "seed {seed}: {other:?} is served and {one:?} is not");
            }
        }
        assert!(pairs > 10 && waiting > 10, "seed {seed}: {pairs} pairs, {waiting} wait");
    }
}

/// Of each priority its own number is served, from what all of them together get.
#[test]
fn what_the_certificate_says_of_each_priority_is_who_is_served() {
    let shape = Rooms { nodes: 10, gpus: 4, pods: 120, kinds: 6 };
    let (inventory, requests) = fleet(shape, 9, 1);
    let decision = planned(&inventory, &requests);
    for (place, level) in unserved(&decision).into_iter().enumerate() {
        let priority = 80 - 10 * i32::try_from(place).unwrap();
        assert_eq!(level.level, format!("unserved compute slices at priority {priority}"));
        let of_priority = requests.iter().filter(|request| request.priority == priority);
        let waits = of_priority.filter(|request| {
            let report = decision.report.requests.iter().find(|report| report.id == request.id).unwrap();
            !is_served(report)
        });
        let slices: i64 = waits
            .flat_map(|request| &request.slices)
            .map(|(profile, n)| i64::from(profile.compute) * i64::from(*n))
            .sum();
        assert_eq!(level.value, slices, "{}", level.level);
    }
}
