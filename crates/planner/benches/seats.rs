//! What seats cost in planning, in processor time of the thread: the same fleets and the same pods, once as they are,
//! and once with the most wanted small slice shared by four on every node and asked for as seats. Both are measured
//! in one run, one after the other, and the shortest of several times counts.
//!
//! `cargo bench -p slicewright-planner --bench seats [-- TIMES]`

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod clock;

use std::collections::BTreeMap;
use std::time::Duration;

use mig::ProfileName;
use planner::decide::{decide, decide_without_advice};
use planner::demand::Request;
use planner::inventory::{Inventory, Room, Sharing};
use planner::report::{Offered, Outcome};
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

use crate::clock::timed;

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

/// The profile of one compute slice for which most pods ask.
fn wanted_most(requests: &[Request]) -> ProfileName {
    let mut asked: BTreeMap<ProfileName, usize> = BTreeMap::new();
    let all = requests.iter().flat_map(|request| request.slices.keys());
    all.filter(|profile| profile.compute == 1).for_each(|profile| *asked.entry(*profile).or_default() += 1);
    let most = asked.into_iter().max_by_key(|(_, n)| *n);
    most.expect("small slices are asked for").0
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

fn main() {
    let times = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok()).unwrap_or(3);
    let policies = [policy("p").build()];
    let best = |mut work: Box<dyn FnMut() -> Duration + '_>| {
        (0..times.max(1)).map(|_| work()).min().expect("it is measured once at least")
    };
    println!(
        "| nodes | pods | ask for seats | short of room | unserved without | with | plan without | with | ratio | with advice without | with | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (nodes, pods, kinds, is_short) in FLEETS {
        let (mut inventory, mut requests) = rooms(Rooms { nodes, gpus: 8, pods, kinds }, 7);
        if !is_short {
            inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
        }
        for (i, request) in (0..).zip(&mut requests) {
            request.priority = i % 3;
        }
        let (shared, seated, seats) = with_seats(inventory.clone(), requests.clone());
        let plan = |inventory: &Inventory, requests: &[Request]| {
            best(Box::new(|| timed(|| decide_without_advice(inventory, requests, &policies)).0))
        };
        let all = |inventory: &Inventory, requests: &[Request]| {
            best(Box::new(|| timed(|| decide(inventory, requests, &policies)).0))
        };
        let unserved = |inventory: &Inventory, requests: &[Request]| {
            let report = decide(inventory, requests, &policies).report.requests;
            report.iter().filter(|r| matches!(r.outcome, Outcome::Unserved { .. })).count()
        };
        let (before, after) = (plan(&inventory, &requests), plan(&shared, &seated));
        let (all_before, all_after) = (all(&inventory, &requests), all(&shared, &seated));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| {nodes} | {pods} | {seats} | {is_short} | {} | {} | {:.1} ms | {:.1} ms | {:.2} | {:.1} ms | {:.1} ms | {:.2} |",
            unserved(&inventory, &requests),
            unserved(&shared, &seated),
            ms(before),
            ms(after),
            ms(after) / ms(before),
            ms(all_before),
            ms(all_after),
            ms(all_after) / ms(all_before),
        );
    }
}
