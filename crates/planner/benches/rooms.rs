//! Planning where nodes are short of CPU and memory: the times and gaps that
//! the documentation quotes, on one core, in processor time of the thread.
//!
//! `cargo bench -p slicewright-planner --bench rooms -- [SNAPSHOT ...]`
//!
//! With `oldest-first`, requests are served in that order. With `who`, each row is followed by who is served, from the
//! highest priority to the lowest, and in each from the oldest to the youngest: `1` who is, `0` who is not. Of two such
//! lines, the greater one serves the oldest better.
//! With `min-count`, the policy asks for six slices of 1g.10gb at least. With `busy`, pods run on every node, so that hardly
//! two nodes have the same left; numbers that follow say of how many nodes, 10, 40, 100, 300 and 1,000 without them. With
//! `busy different`, the pods that wait are all different, and of four priorities. With `gangs`, about one pod in seven is of a gang
//! of six that ask for the same and have to be in one rack of four nodes, and each row is followed by the gangs that are served.
//! The operations are those that the planner counts, the same on every machine. With snapshots of idle fleets of A100-80GB, each of them is planned; without,
//! fleets that are generated.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod clock;
mod recorded;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use planner::check::{check, is_sound};
use planner::decide::decide;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::RequestId;
use planner::report::{Outcome, RequestReport};
use planner::solver::work;
use planner::testing::generate::rooms::{Gangs, Rooms, all_different, busy_rooms, in_racks, rooms};
use planner::testing::policy;

use crate::clock::timed;
use crate::recorded::read;

/// Slices of 1g.10gb that there are at least, with `min-count`.
const MINIMUM: u32 = 6;

/// Who is served, from the highest priority to the lowest, and in each from the oldest request to the youngest.
fn by_age(requests: &[Request], reports: &[RequestReport]) -> String {
    let is_served = |report: &RequestReport| !matches!(report.outcome, Outcome::Unserved { .. });
    let served: BTreeSet<&RequestId> = reports.iter().filter(|r| is_served(r)).map(|r| &r.id).collect();
    let mut all: Vec<_> =
        requests.iter().map(|request| (Reverse(request.priority), request.since, &request.id)).collect();
    all.sort_unstable();
    all.into_iter().map(|(.., id)| if served.contains(id) { '1' } else { '0' }).collect()
}

/// The gangs that ask for something.
fn gangs(requests: &[Request]) -> BTreeSet<&str> {
    requests.iter().filter_map(|request| request.together.gang.as_deref()).collect()
}

/// Those of them that are served.
fn gangs_served<'r>(requests: &'r [Request], reports: &[RequestReport]) -> Vec<&'r str> {
    let is_served = |report: &&RequestReport| !matches!(report.outcome, Outcome::Unserved { .. });
    let served: BTreeSet<&RequestId> = reports.iter().filter(is_served).map(|report| &report.id).collect();
    let is_of = |request: &Request, gang: &str| request.together.gang.as_deref() == Some(gang);
    let has = |gang: &str| requests.iter().any(|r| is_of(r, gang) && served.contains(&r.id));
    gangs(requests).into_iter().filter(|gang| has(gang)).collect()
}

fn row(name: &str, inventory: &Inventory, requests: &[Request]) -> Duration {
    let has = |word: &str| std::env::args().any(|a| a == word);
    let policy = if has("oldest-first") { policy("p").oldest_first() } else { policy("p") };
    let policies =
        [if has("min-count") { policy.bounds("1g.10gb", MINIMUM, 0, None) } else { policy }.build()];
    let before = work::done();
    let (time, decision) = timed(|| decide(inventory, requests, &policies));
    let operations = work::done() - before;
    let notes = check(&decision.plan, inventory, requests, &policies);
    assert!(is_sound(&notes), "{name}: {notes:?}");
    let level = |start: &str| {
        let found = decision.report.certificate.iter().filter(|level| level.level.starts_with(start));
        let found: Vec<String> = found.map(|level| format!("{} ({})", level.value, level.bound)).collect();
        if found.is_empty() { "-".to_owned() } else { found.join(", ") }
    };
    println!(
        "| {name} | {} | {} | {:.2} s | {} | {} | {} | {} | {} | {} M |",
        inventory.nodes.len(),
        requests.len(),
        time.as_secs_f64(),
        level("requests that may be out of turn"),
        level("unserved"),
        level("age"),
        level("GPUs changed"),
        decision.plan.digest(),
        operations / 1_000_000,
    );
    if has("gangs") {
        let served = gangs_served(requests, &decision.report.requests);
        println!("{name} serves {} gangs of {}: {}", served.len(), gangs(requests).len(), served.join(" "));
    }
    if has("who") {
        println!("{name} serves {}", by_age(requests, &decision.report.requests));
    }
    time
}

fn main() {
    let snapshots: Vec<String> = std::env::args().skip(1).filter(|a| a.ends_with(".json")).collect();
    println!(
        "| fleet | nodes | pods | time | out of turn (bound) | unserved (bound) | age (bound) | GPUs changed (bound) | plan | operations |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for path in &snapshots {
        let (inventory, requests) = read(path);
        row(path.rsplit('/').next().unwrap_or(path), &inventory, &requests);
    }
    if !snapshots.is_empty() {
        return;
    }
    if std::env::args().any(|a| a == "busy") {
        return busy();
    }
    let mut times = Vec::new();
    for seed in 0..20 {
        let (inventory, requests) = rooms(Rooms { nodes: 100, gpus: 8, pods: 1_200, kinds: 40 }, seed);
        times.push(row(&format!("100 nodes, seed {seed}"), &inventory, &requests));
    }
    times.sort_unstable();
    println!("\nmedian of {}: {:.2} s", times.len(), times[times.len() / 2].as_secs_f64());
    println!("\nlongest of {}: {:.2} s\n", times.len(), times[times.len() - 1].as_secs_f64());
    let (inventory, requests) = rooms(Rooms { nodes: 1_000, gpus: 8, pods: 5_000, kinds: 40 }, 1);
    row("1,000 nodes", &inventory, &requests);
    // As many pods on a node as above, so that not all of them are served.
    for seed in 1..4 {
        let (inventory, requests) = rooms(Rooms { nodes: 1_000, gpus: 8, pods: 12_000, kinds: 40 }, seed);
        row(&format!("1,000 nodes, seed {seed}, short"), &inventory, &requests);
    }
}

/// Fleets at work. Of the largest, three have as many pods as the goal says, and the others as many on a node as all others.
fn busy() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![10, 40, 100, 300, 1_000];
    }
    let shape = |nodes, pods| Rooms { nodes, gpus: 8, pods, kinds: 40 };
    let is_different = std::env::args().any(|a| a == "different");
    let busy_rooms = |rooms: Rooms, seed: u64| {
        let (mut inventory, mut requests) = busy_rooms(rooms, seed);
        if is_different {
            all_different(&mut requests, 4);
        }
        if std::env::args().any(|a| a == "gangs") {
            let gangs = Gangs { gangs: (requests.len() / 40).max(1), pods: 6, rack: 4 };
            in_racks(&mut inventory, &mut requests, gangs);
        }
        (inventory, requests)
    };
    for nodes in &sizes {
        let nodes = *nodes;
        let seeds = if nodes > 100 { 2 } else { 5 };
        for seed in 0..seeds {
            let (inventory, requests) = busy_rooms(shape(nodes, 12 * nodes), seed);
            row(&format!("{nodes} nodes at work, seed {seed}"), &inventory, &requests);
        }
    }
    for seed in (0..3).filter(|_| sizes.contains(&1_000)) {
        let (inventory, requests) = busy_rooms(shape(1_000, 5_000), seed);
        row(&format!("1,000 nodes at work, 5,000 pods, seed {seed}"), &inventory, &requests);
    }
}
