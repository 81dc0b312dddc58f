//! What seats cost in planning, in processor time of the thread: the same fleets and the same pods, once as they are,
//! and once with the most wanted small slice shared by four on every node and asked for as seats. Both are measured
//! in one run, one after the other, and the shortest of several times counts.
//!
//! `cargo bench -p slicewright-planner --bench seats [-- TIMES] [FILE ...]`
//!
//! With files, fleets are those of the files: snapshots of idle fleets of A100-80GB, and problems of which the optimum is
//! proved (whoever has the shared slice there has one seat of it). Without, they are generated. With `many`, they are forty
//! that are like the shared ones in nodes, kinds and load: where bounds are not reached the planner searches until its
//! effort is used up, with seats on some fleets and without on others, so that of few fleets one decides the sum.
//!
//! The operations are those that the planner counts, the same on every machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod clock;
mod recorded;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use mig::ProfileName;
use planner::decide::{decide, decide_without_advice};
use planner::demand::Request;
use planner::inventory::{Inventory, Room, Sharing};
use planner::report::{Offered, Outcome};
use planner::solver::work;
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

use crate::clock::timed;
use crate::recorded::read;

/// Nodes, pods, kinds of pods, and whether nodes are short of CPU and memory.
const FLEETS: [(usize, usize, usize, bool); 5] = [
    (8, 120, 12, false),
    (8, 700, 12, false),
    (64, 700, 12, false),
    (64, 1_500, 12, false),
    (40, 300, 6, true),
];

/// How many pods share a slice.
const REPLICAS: u32 = 4;

/// The smallest profile that anybody asks for; of several, the one for which most pods ask.
fn wanted_most(requests: &[Request]) -> ProfileName {
    let mut asked: BTreeMap<ProfileName, usize> = BTreeMap::new();
    let all = requests.iter().flat_map(|request| request.slices.keys());
    all.for_each(|profile| *asked.entry(*profile).or_default() += 1);
    let most = asked.into_iter().max_by_key(|(profile, n)| (Reverse(profile.compute), *n));
    most.expect("slices are asked for").0
}

/// The same fleet with seats, and how many ask for one.
fn with_seats(mut inventory: Inventory, mut requests: Vec<Request>) -> (Inventory, Vec<Request>, usize) {
    let profile = wanted_most(&requests);
    let sharing = Sharing { replicas: REPLICAS, renamed: true, one_each: true };
    inventory.nodes.values_mut().for_each(|node| {
        node.shared.insert(profile, sharing);
    });
    let mut seats = 0;
    for request in &mut requests {
        if let Some(n) = request.slices.remove(&profile) {
            request.shared.insert(Offered::SharedSlice(profile), n);
            seats += 1;
        }
    }
    (inventory, requests, seats)
}

/// A fleet that is generated, with three priorities.
fn generated((nodes, pods, kinds, is_short): (usize, usize, usize, bool)) -> (Inventory, Vec<Request>) {
    let (mut inventory, mut requests) = rooms(Rooms { nodes, gpus: 8, pods, kinds }, 7);
    if !is_short {
        inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
    }
    for (i, request) in (0..).zip(&mut requests) {
        request.priority = i % 3;
    }
    (inventory, requests)
}

/// A fleet that is like those of the shared files: 3 to 60 nodes of 8 GPUs, 4 to 19 pods a node of 2 to 28 kinds.
fn like_the_shared(seed: u64) -> (Inventory, Vec<Request>) {
    let mut numbers = Numbers::new(seed);
    let mut below = |end: usize| usize::try_from(numbers.below(end as u64)).unwrap_or(0);
    let nodes = [3, 5, 8, 10, 16, 20, 40, 60][below(8)];
    rooms(Rooms { nodes, gpus: 8, pods: nodes * (4 + below(16)), kinds: 2 + below(27) }, seed)
}

/// How long something takes at best.
fn best(times: usize, mut work: impl FnMut()) -> Duration {
    let once = |_| timed(&mut work).0;
    (0..times.max(1)).map(once).min().expect("it is measured once at least")
}

/// What planning took, without seats and with them.
struct Measured {
    times: [Duration; 2],
    /// In millions.
    operations: [f64; 2],
}

/// Measures a fleet without seats and with them, and says so in one row. Returns what planning took.
fn row(name: &str, times: usize, inventory: Inventory, requests: Vec<Request>) -> Measured {
    let policies = [policy("p").build()];
    let (shared, seated, seats) = with_seats(inventory.clone(), requests.clone());
    let both = [(&inventory, &requests), (&shared, &seated)];
    let [before, after] = both.map(|(inventory, requests)| {
        best(times, || drop(decide_without_advice(inventory, requests, &policies)))
    });
    let [all_before, all_after] =
        both.map(|(inventory, requests)| best(times, || drop(decide(inventory, requests, &policies))));
    let [unserved, unserved_after] = both.map(|(inventory, requests)| {
        let report = decide(inventory, requests, &policies).report.requests;
        report.iter().filter(|r| matches!(r.outcome, Outcome::Unserved { .. })).count()
    });
    let [work_before, work_after] = both.map(|(inventory, requests)| {
        let before = work::done();
        drop(decide_without_advice(inventory, requests, &policies));
        (work::done() - before) as f64 / 1e6
    });
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "| {name} | {} | {} | {seats} | {unserved} | {unserved_after} | {:.1} ms | {:.1} ms | {:.2} | {:.1} ms | {:.1} ms | {:.2} | {work_before:.1} M | {work_after:.1} M | {:.2} |",
        inventory.nodes.len(),
        requests.len(),
        ms(before),
        ms(after),
        ms(after) / ms(before),
        ms(all_before),
        ms(all_after),
        ms(all_after) / ms(all_before),
        work_after / work_before,
    );
    Measured { times: [before, after], operations: [work_before, work_after] }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let times = args.iter().find_map(|arg| arg.parse::<usize>().ok()).unwrap_or(3);
    println!(
        "| fleet | nodes | pods | ask for seats | unserved without | with | plan without | with | ratio | with advice without | with | ratio | operations without | with | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let files: Vec<&String> = args.iter().filter(|arg| arg.ends_with(".json")).collect();
    let mut measured = Vec::new();
    for path in &files {
        let (inventory, requests) = read(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        measured.push(row(name, times, inventory, requests));
    }
    let many = args.iter().any(|arg| arg == "many");
    for seed in (0..40).filter(|_| many) {
        let (inventory, requests) = like_the_shared(seed);
        measured.push(row(&format!("seed {seed}"), times, inventory, requests));
    }
    for fleet in FLEETS.into_iter().filter(|_| files.is_empty() && !many) {
        let (inventory, requests) = generated(fleet);
        let name = if fleet.3 { "short of CPU and memory" } else { "generated" };
        measured.push(row(name, times, inventory, requests));
    }
    let [before, after] =
        [0, 1].map(|i| measured.iter().map(|of| of.times[i]).sum::<Duration>().as_secs_f64());
    let [work_before, work_after] = [0, 1].map(|i| measured.iter().map(|of| of.operations[i]).sum::<f64>());
    println!(
        "\nall together: {before:.2} s without seats, {after:.2} s with them, ratio {:.2}; {work_before:.0} M and {work_after:.0} M operations, ratio {:.2}",
        after / before,
        work_after / work_before,
    );
}
