//! Nodes that are short of CPU and memory: as many requests are served as can be proved possible, every
//! plan respects the free resources of nodes, and the solver's choice for copies equals that of a program
//! with every copy by itself.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::collections::BTreeMap;

use crate::oracle::world::World;
use planner::check::{check, check_certificate, is_sound};
use planner::decide::{Decision, decide, decide_without_advice};
use planner::demand::Request;
use planner::inventory::{Inventory, Room};
use planner::names::NodeName;
use planner::report::Outcome;
use planner::solver::{
    Asked, Class, Column, Effort, Extra, Instance, Orders, Part, Row, Sense, solve, solve_parts, work,
};
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

fn plan(inventory: &Inventory, requests: &[Request]) -> Decision {
    let policies = [policy("p").build()];
    let decision = decide(inventory, requests, &policies);
    let notes = check(&decision.plan, inventory, requests, &policies);
    assert!(is_sound(&notes), "{notes:?}");
    assert_eq!(check_certificate(&decision.plan, inventory, &decision.report.certificate), vec![]);
    decision
}

/// What is taken of each node by those who are served there, and the compute
/// slices of the others.
fn taken(decision: &Decision, requests: &[Request]) -> (BTreeMap<NodeName, Room>, i64) {
    let by_id: BTreeMap<_, _> = requests.iter().map(|r| (&r.id, r)).collect();
    let (mut taken, mut unserved) = (BTreeMap::<NodeName, Room>::new(), 0);
    for report in &decision.report.requests {
        let request = by_id[&report.id];
        match &report.outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
                let room = taken.entry(node.clone()).or_insert(Room::ZERO);
                room.cpu_milli += request.takes.cpu_milli;
                room.memory_bytes += request.takes.memory_bytes;
                room.storage_bytes += request.takes.storage_bytes;
                room.pods += request.takes.pods;
            }
            Outcome::Unserved { .. } => {
                unserved +=
                    request.slices.iter().map(|(p, n)| i64::from(p.compute) * i64::from(*n)).sum::<i64>();
            }
        }
    }
    (taken, unserved)
}

fn fleets() -> Vec<(Inventory, Vec<Request>)> {
    let shape = |nodes, gpus, pods, kinds| Rooms { nodes, gpus, pods, kinds };
    vec![
        rooms(shape(3, 4, 20, 3), 1),
        rooms(shape(8, 2, 40, 5), 2),
        rooms(shape(6, 8, 120, 6), 3),
        rooms(shape(40, 4, 300, 4), 4),
        rooms(shape(12, 4, 90, 12), 5),
    ]
}

/// Fleets of the family that the figures are measured on: every plan keeps to
/// the room of every node, says truly what is unserved, and proves it.
#[test]
fn who_is_served_where_rooms_are_short_is_proved() {
    let mut scarce = 0;
    for (position, (inventory, requests)) in fleets().iter().enumerate() {
        let decision = plan(inventory, requests);
        let (taken, unserved) = taken(&decision, requests);
        for (node, room) in taken {
            let has = inventory.nodes[&node].room;
            let fits = room.cpu_milli <= has.cpu_milli
                && room.memory_bytes <= has.memory_bytes
                && room.storage_bytes <= has.storage_bytes
                && room.pods <= has.pods;
            assert!(fits, "fleet {position}: {node:?} has {has:?}, and {room:?} is taken");
        }
        let certificate = &decision.report.certificate;
        let level = certificate.iter().find(|level| level.level.starts_with("unserved")).unwrap();
        assert_eq!(level.value, unserved, "fleet {position}");
        assert!(level.is_proven(), "fleet {position}: {level:?}");
        scarce += usize::from(unserved > 0);
    }
    assert!(scarce >= 2, "in {scarce} fleets somebody is left over: too few to say anything");
}

/// A hundred nodes with eight GPUs each, and 1,200 who wait: the first plan is a few compute slices above the bound, a few
/// nodes lose them, and who does anew just any nodes of the hundred does not find out which.
#[test]
fn in_a_large_fleet_the_few_nodes_are_found_that_somebody_could_still_be_served_on() {
    let mut open = Vec::new();
    for seed in [16, 19] {
        let (inventory, requests) = rooms(Rooms { nodes: 100, gpus: 8, pods: 1_200, kinds: 40 }, seed);
        let decision = decide_without_advice(&inventory, &requests, &[policy("p").build()]);
        let certificate = &decision.report.certificate;
        let level = certificate.iter().find(|level| level.level.starts_with("unserved")).unwrap();
        assert!(level.value > 0, "fleet {seed}: everybody is served, which says nothing");
        if !level.is_proven() {
            open.push(format!("fleet {seed}: {level:?}"));
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

/// On fleets too large for trials that are whole plans: what is said to help is
/// done to the fleet, and then everybody who was told so is served.
#[test]
fn what_would_help_helps_where_rooms_are_short_and_hardly_anybody_is_told_nothing() {
    let (mut unserved, mut told) = (0, 0);
    for seed in 0..6 {
        let numbers = usize::try_from(seed).unwrap();
        let shape = Rooms { nodes: 12 + 4 * numbers, gpus: 2, pods: 120 + 15 * numbers, kinds: 4 + numbers };
        let (inventory, requests) = rooms(shape, 100 + seed);
        let decision = plan(&inventory, &requests);
        for report in &decision.report.requests {
            if let Outcome::Unserved { help, .. } = &report.outcome {
                unserved += 1;
                told += usize::from(!help.is_empty());
            }
        }
        let world = World { inventory, requests, policies: vec![policy("p").build()] };
        assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new(), "fleet {seed}");
    }
    println!("{told} of {unserved} who are not served are told what would help");
    assert!(unserved >= 200, "{unserved} are not served: too few to say anything");
    assert!(told * 100 >= unserved * 95, "{told} of {unserved} are told what would help");
}

/// What something costs, counted and not timed.
fn work_of<T>(what: impl FnOnce() -> T) -> u64 {
    let before = work::done();
    what();
    work::done() - before
}

/// With hundreds that are not served, trials are few, and nobody is told nothing for that.
#[test]
fn where_very_many_wait_everybody_is_told_what_would_help_and_it_does() {
    for (seed, nodes) in [(7, 2), (8, 8)] {
        let (mut inventory, mut requests) = rooms(Rooms { nodes, gpus: 8, pods: 700, kinds: 12 }, seed);
        inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
        for (i, request) in (0..).zip(&mut requests) {
            request.priority = i % 3;
        }
        let alone = work_of(|| decide_without_advice(&inventory, &requests, &[policy("p").build()]));
        let explained = work_of(|| decide(&inventory, &requests, &[policy("p").build()]));
        println!("fleet {seed}: {alone} operations, and {explained} with what would help");
        assert!(
            explained <= 2 * alone,
            "fleet {seed}: {explained} operations with what would help, {alone} without"
        );
        let decision = plan(&inventory, &requests);
        let help = decision.report.requests.iter().filter_map(|report| match &report.outcome {
            Outcome::Unserved { help, .. } => Some(help.len()),
            Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => None,
        });
        let help: Vec<usize> = help.collect();
        assert!(help.len() > 400 && help.iter().all(|n| *n > 0), "{help:?}");
        let world = World { inventory, requests, policies: vec![policy("p").build()] };
        assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new(), "fleet {seed}");
    }
}

#[test]
fn the_order_of_requests_is_of_no_account_to_patterns() {
    let (inventory, mut requests) = fleets().remove(2);
    let first = plan(&inventory, &requests);
    requests.reverse();
    assert_eq!(plan(&inventory, &requests), first);
}

/// One copy of a random part: things that take of two kinds of room, and
/// slices that its GPUs can be cut into.
struct Copies {
    copies: u32,
    gpus: u32,
    columns: Vec<Vec<i32>>,
    room: [i64; 2],
}

/// The instance of all copies together, or of every copy by itself.
fn instance(parts: &[Copies], kinds: &[(usize, [i32; 2], i64)], by_itself: bool) -> (Instance, Vec<Part>) {
    let mut instance = Instance { levels: 1, ..Instance::default() };
    for (profile, _, asked) in kinds {
        let row = instance.rows.len();
        instance.rows.push(Row { sense: Sense::Equal, rhs: *asked });
        let weight = i64::try_from(profile + 1).unwrap();
        instance.extras.push(Extra { upper: *asked, coefficients: vec![(row, 1)], costs: vec![weight] });
    }
    let mut made = Vec::new();
    for part in parts {
        let (times, of) = if by_itself { (part.copies, 1) } else { (1, part.copies) };
        for _ in 0..times {
            let first = instance.rows.len();
            let profiles = part.columns[0].len();
            instance.rows.extend((0..profiles).map(|_| Row { sense: Sense::AtLeast, rhs: 0 }));
            let room = part.room.map(|room| Row { sense: Sense::AtMost, rhs: room * i64::from(of) });
            instance.rows.extend(room);
            let columns = part.columns.iter().map(|supply| Column {
                coefficients: supply.iter().enumerate().map(|(p, n)| (first + p, *n)).collect(),
                costs: vec![],
            });
            let class = Class { count: part.gpus * of, columns: columns.collect() };
            let first_extra = instance.extras.len();
            for (k, (profile, takes, asked)) in kinds.iter().enumerate() {
                let mut coefficients = vec![(k, 1), (first + profile, -1)];
                coefficients.extend(takes.iter().enumerate().map(|(r, n)| (first + profiles + r, *n)));
                instance.extras.push(Extra { upper: *asked, coefficients, costs: vec![] });
            }
            made.push(Part {
                copies: of,
                rows: (first..instance.rows.len()).collect(),
                counts: (0..).take(instance.rows.len() - first).collect(),
                classes: vec![instance.classes.len()],
                extras: (first_extra..instance.extras.len()).collect(),
            });
            instance.classes.push(class);
        }
    }
    (instance, made)
}

/// Small enough to be decided by a program with every copy by itself.
#[test]
fn copies_decided_by_patterns_are_what_one_program_finds() {
    let mut numbers = Numbers::new(3);
    let mut number =
        |low: i64, high: i64| low + i64::try_from(numbers.below((high - low + 1) as u64)).unwrap();
    let (mut compared, mut optimal, mut short) = (0, 0, 0);
    for _ in 0..60 {
        let profiles = number(1, 3);
        let parts: Vec<Copies> = (0..number(1, 2))
            .map(|_| Copies {
                copies: number(1, 3) as u32,
                gpus: number(1, 3) as u32,
                columns: (0..number(1, 4))
                    .map(|_| (0..profiles).map(|_| number(0, 4) as i32).collect())
                    .collect(),
                room: [number(3, 20), number(3, 20)],
            })
            .collect();
        let kinds: Vec<(usize, [i32; 2], i64)> = (0..number(2, 5))
            .map(|_| {
                let profile = usize::try_from(number(0, profiles - 1)).unwrap();
                (profile, [number(1, 6) as i32, number(1, 6) as i32], number(1, 6))
            })
            .collect();
        let (alone, _) = instance(&parts, &kinds, true);
        let exact = solve(&alone, Effort::default()).unwrap();
        if !exact.levels[0].is_proven() {
            continue;
        }
        compared += 1;
        let (together, made) = instance(&parts, &kinds, false);
        let parted =
            solve_parts(&together, &made, Asked::new(1, 1, &Orders::default()), Effort::default()).unwrap();
        assert!(together.is_met_by(&parted.solved.classes, &parted.solved.extras));
        for (part, copies) in made.iter().zip(&parted.copies) {
            assert_eq!(copies.len(), part.copies as usize);
            for copy in copies {
                assert_eq!(copy.classes[0].iter().map(|(_, n)| n * part.copies).sum::<u32>(), {
                    together.classes[part.classes[0]].count
                });
                for row in &part.rows {
                    let of = |terms: &[(usize, i32)]| {
                        i64::from(terms.iter().find(|(r, _)| r == row).map_or(0, |(_, a)| *a))
                    };
                    let class = &together.classes[part.classes[0]];
                    let cut = copy.classes[0]
                        .iter()
                        .map(|(j, n)| of(&class.columns[*j].coefficients) * i64::from(*n));
                    let served = part.extras.iter().zip(&copy.extras);
                    let served = served.map(|(e, n)| of(&together.extras[*e].coefficients) * n);
                    let sum = cut.sum::<i64>() + served.sum::<i64>();
                    let Row { sense, rhs } = together.rows[*row];
                    let rhs = rhs / i64::from(part.copies);
                    assert!(if sense == Sense::AtMost { sum <= rhs } else { sum >= rhs }, "row {row}");
                }
            }
        }
        let (level, best) = (parted.solved.levels[0], exact.levels[0].value);
        assert!(level.bound <= best && best <= level.value, "{level:?}, and {best} is the best");
        optimal += usize::from(level.value == best);
        short += usize::from(best > 0);
    }
    assert!(compared >= 50 && short >= 20, "{compared} compared, {short} short: too few to say anything");
    assert!(optimal + 1 >= compared, "{optimal} of {compared} are as good as can be");
}

/// Nodes for pods of which each has CPU and memory of its own.
fn of_many_kinds(seed: u64) -> (Inventory, Vec<Request>) {
    let (inventory, mut requests) = rooms(Rooms { nodes: 6, gpus: 4, pods: 90, kinds: 40 }, seed);
    let mut numbers = Numbers::new(seed);
    for request in &mut requests {
        request.takes.cpu_milli = 1_000 * (1 + i64::try_from(numbers.below(24)).unwrap());
        request.takes.memory_bytes = (4 + i64::try_from(numbers.below(125)).unwrap()) << 30;
    }
    (inventory, requests)
}

/// Who is served if the largest are placed first, each on the first node that has room for it, with whatever
/// layouts: the compute slices of the others.
fn unserved_by_first_fit(inventory: &Inventory, requests: &[Request]) -> i64 {
    let compute = |request: &Request| -> i64 {
        request.slices.iter().map(|(p, n)| i64::from(p.compute) * i64::from(*n)).sum()
    };
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by_key(|r| std::cmp::Reverse((compute(r), r.takes.cpu_milli, r.takes.memory_bytes)));
    // Each slice goes to the first GPU that still has a place for it: by compute slices and memory units.
    let mut nodes: Vec<(Room, Vec<(i64, i64)>)> =
        inventory.nodes.values().map(|node| (node.room, vec![(7, 8); node.gpus.len()])).collect();
    let mut unserved = 0;
    for request in sorted {
        let units = match compute(request) {
            3 => 4,
            7 => 8,
            n => n,
        };
        let placed = nodes.iter_mut().any(|(room, gpus)| {
            let takes = request.takes;
            if room.cpu_milli < takes.cpu_milli || room.memory_bytes < takes.memory_bytes || room.pods < 1 {
                return false;
            }
            let gpu = gpus.iter_mut().find(|(c, m)| *c >= compute(request) && *m >= units);
            let Some((c, m)) = gpu else { return false };
            (*c, *m) = (*c - compute(request), *m - units);
            room.cpu_milli -= takes.cpu_milli;
            room.memory_bytes -= takes.memory_bytes;
            room.pods -= 1;
            true
        });
        if !placed {
            unserved += compute(request);
        }
    }
    unserved
}

/// Where everybody writes a request of their own, the program for all nodes together once took minutes, and
/// ended with nothing better than the present layouts.
#[test]
fn pods_of_very_many_kinds_are_planned_well_and_with_little_work() {
    for seed in 0..3 {
        let (inventory, requests) = of_many_kinds(seed);
        let first_fit = unserved_by_first_fit(&inventory, &requests);
        for oldest_first in [false, true] {
            let policy = policy("p");
            let policies = [if oldest_first { policy.oldest_first().build() } else { policy.build() }];
            let before = work::done();
            let decision = decide_without_advice(&inventory, &requests, &policies);
            let operations = work::done() - before;
            assert!(is_sound(&check(&decision.plan, &inventory, &requests, &policies)));
            let (_, unserved) = taken(&decision, &requests);
            println!("seed {seed}: {unserved} unserved, first fit {first_fit}, {operations} operations");
            assert!(operations < 9_000_000_000, "seed {seed}: {operations}");
            if !oldest_first {
                let levels = &decision.report.certificate;
                let level = levels.iter().find(|level| level.level.starts_with("unserved")).unwrap();
                assert_eq!(level.value, unserved, "seed {seed}");
                assert!(unserved <= first_fit, "seed {seed}: {unserved}, and first fit leaves {first_fit}");
                assert!(unserved - level.bound <= 3, "seed {seed}: {level:?}");
            }
        }
    }
}
