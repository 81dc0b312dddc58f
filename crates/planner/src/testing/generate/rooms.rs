//! Fleets whose nodes are short of CPU and memory: idle ones, and ones that are at work.

use super::Numbers;
use crate::demand::{Request, Together};
use crate::inventory::{ChangeScope, Inventory};
use crate::testing::{GpuBuilder, NodeBuilder, a100, fleet, node, request};

/// What such a fleet is like.
#[derive(Clone, Copy, Debug)]
pub struct Rooms {
    /// How many nodes.
    pub nodes: usize,
    /// The most GPUs that a node has; some nodes have half of it.
    pub gpus: usize,
    /// How many pods wait.
    pub pods: usize,
    /// How many kinds of them there are at most.
    pub kinds: usize,
}

/// A layout that nodes are found in.
type Layout = &'static [(&'static str, usize)];
const LAYOUTS: [Layout; 5] = [
    &[("1g.10gb", 7)],
    &[("2g.20gb", 3)],
    &[("3g.40gb", 2)],
    &[("7g.80gb", 1)],
    &[("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)],
];
/// The same, with the first memory unit of each slice.
type Placed = &'static [(&'static str, u8)];
const PLACED: [Placed; 5] = [
    &[
        ("1g.10gb", 0),
        ("1g.10gb", 1),
        ("1g.10gb", 2),
        ("1g.10gb", 3),
        ("1g.10gb", 4),
        ("1g.10gb", 5),
        ("1g.10gb", 6),
    ],
    &[("2g.20gb", 0), ("2g.20gb", 2), ("2g.20gb", 4)],
    &[("3g.40gb", 0), ("3g.40gb", 4)],
    &[("7g.80gb", 0)],
    &[("2g.20gb", 0), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4)],
];
const PROFILES: [&str; 4] = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"];
/// Cores and GiB of nodes.
const SIZES: [(i64, i64); 4] = [(32, 192), (48, 384), (64, 512), (96, 1024)];
/// Cores and GiB of pods.
const TAKES: [(i64, i64); 12] = [
    (1, 4),
    (2, 8),
    (3, 24),
    (4, 16),
    (5, 10),
    (6, 20),
    (8, 32),
    (10, 80),
    (12, 48),
    (16, 64),
    (20, 100),
    (24, 128),
];

/// A fleet and what is asked of it. The same arguments give the same.
#[must_use]
pub fn rooms(rooms: Rooms, seed: u64) -> (Inventory, Vec<Request>) {
    let mut numbers = Numbers::new(seed);
    let mut pick = |end: usize| usize::try_from(numbers.below(end.max(1) as u64)).unwrap_or(0);
    let sizes: Vec<(i64, i64)> = (0..1 + pick(3)).map(|_| SIZES[pick(SIZES.len())]).collect();
    let mut builder = fleet();
    for i in 0..rooms.nodes {
        let (cores, gib) = sizes[pick(sizes.len())];
        let mut node = node().scope(ChangeScope::IdleGpus).room(cores * 1_000, gib << 30, 110);
        let gpus = if pick(2) == 0 { rooms.gpus } else { rooms.gpus.div_ceil(2) };
        let layout = LAYOUTS[pick(LAYOUTS.len())];
        for _ in 0..gpus {
            node = node.gpu(layout.iter().fold(a100(), |gpu, (profile, n)| gpu.counted(profile, *n)));
        }
        builder = builder.node(&format!("gpu-{i:04}"), node);
    }
    let requests = waiting(rooms, pick);
    (builder.build(), requests)
}

/// A fleet at work and what is asked of it: pods of many shapes run on every node, so that hardly two nodes have the same
/// left. The same arguments give the same.
#[must_use]
pub fn busy_rooms(rooms: Rooms, seed: u64) -> (Inventory, Vec<Request>) {
    let mut numbers = Numbers::new(seed);
    let mut pick = |end: usize| usize::try_from(numbers.below(end.max(1) as u64)).unwrap_or(0);
    let sizes: Vec<(i64, i64)> = (0..1 + pick(3)).map(|_| SIZES[pick(SIZES.len())]).collect();
    let scope = if pick(2) == 0 { ChangeScope::IdleGpus } else { ChangeScope::SliceBySlice };
    let mut builder = fleet();
    for i in 0..rooms.nodes {
        let (cores, gib) = sizes[pick(sizes.len())];
        let mut left = Left { milli: cores * 1_000, mib: gib << 10, pods: 110 };
        // Pods without a slice, first: what runs on every node, and what somebody computes there.
        for _ in 0..4 + pick(5) {
            left.take(&mut pick, 8);
        }
        let layout = PLACED[pick(PLACED.len())];
        let mut node = node().scope(scope);
        for g in 0..rooms.gpus {
            node = node.gpu(at_work(layout, &format!("runs-{i}-{g}"), &mut left, &mut pick));
        }
        builder = builder.node(&format!("gpu-{i:04}"), left.of(node));
    }
    let requests = waiting(rooms, pick);
    (builder.build(), requests)
}

/// Makes pods that wait all different in what they take of a node, and of so many priorities.
pub fn all_different(requests: &mut [Request], priorities: i32) {
    for (i, request) in (0..).zip(requests) {
        request.takes.cpu_milli += 10 * i64::from(i);
        request.takes.memory_bytes += i64::from(i * 37 % 1_000) << 20;
        request.priority = i * 7 % priorities.max(1);
    }
}

/// The label of nodes that says in which rack they are.
pub const RACK: &str = "example.com/rack";

/// Gangs among the pods that wait.
#[derive(Clone, Copy, Debug)]
pub struct Gangs {
    /// How many of them.
    pub gangs: usize,
    /// How many pods each has.
    pub pods: usize,
    /// How many nodes a rack has.
    pub rack: usize,
}

/// Puts the nodes in racks, and makes gangs of pods that wait, spread over all of them. The pods of a gang ask for the same
/// and have to be in one rack.
pub fn in_racks(inventory: &mut Inventory, requests: &mut [Request], gangs: Gangs) {
    for (i, node) in inventory.nodes.values_mut().enumerate() {
        node.labels.insert(RACK.to_owned(), format!("rack-{:03}", i / gangs.rack.max(1)));
    }
    let every = (requests.len() / gangs.gangs.max(1)).max(gangs.pods);
    for (g, among) in requests.chunks_mut(every.max(1)).enumerate().take(gangs.gangs) {
        // Not each of them at the same place, so that their priorities differ.
        let begin = g % every.saturating_sub(gangs.pods).max(1);
        let Some(first) = among.get(begin).cloned() else { continue };
        let name = format!("gang-{g}");
        for pod in among.iter_mut().skip(begin).take(gangs.pods) {
            let rules = [(name.clone(), RACK.to_owned())].into();
            let together = Together { gang: Some(name.clone()), workload: None, rules };
            *pod = Request { id: pod.id.clone(), since: pod.since, together, ..first.clone() };
        }
    }
}

/// What a node has left.
struct Left {
    milli: i64,
    mib: i64,
    pods: i64,
}

impl Left {
    /// Has a pod run there that takes an odd amount, up to one in so many of what a node of the smallest size has;
    /// whether there is room for it.
    fn take(&mut self, pick: &mut impl FnMut(usize) -> usize, of: i64) -> bool {
        let mut number = |end: i64| i64::try_from(pick(usize::try_from(end).unwrap_or(1))).unwrap_or(0);
        let (cores, gib) = SIZES[0];
        let (milli, mib) = (50 * (1 + number(20 * cores / of)), 64 * (1 + number(16 * gib / of)));
        let fits = self.milli >= milli && self.mib >= mib && self.pods > 0;
        if fits {
            (self.milli, self.mib, self.pods) = (self.milli - milli, self.mib - mib, self.pods - 1);
        }
        fits
    }

    fn of(&self, node: NodeBuilder) -> NodeBuilder {
        node.room(self.milli, self.mib << 20, self.pods)
    }
}

/// A GPU in this layout: two in five are idle, and on the others every other slice is in use, as long as there is room.
fn at_work(layout: Placed, pod: &str, left: &mut Left, pick: &mut impl FnMut(usize) -> usize) -> GpuBuilder {
    let is_busy = pick(5) > 1;
    layout.iter().enumerate().fold(a100(), |gpu, (slice, (profile, start))| {
        match is_busy && pick(2) == 0 && left.take(pick, 6) {
            true => gpu.used(profile, *start, &format!("{pod}-{slice}")),
            false => gpu.idle(profile, *start),
        }
    })
}

/// Pods that wait, the oldest first.
fn waiting(rooms: Rooms, mut pick: impl FnMut(usize) -> usize) -> Vec<Request> {
    let kinds: Vec<(&str, (i64, i64))> =
        (0..rooms.kinds.max(1)).map(|_| (PROFILES[pick(PROFILES.len())], TAKES[pick(TAKES.len())])).collect();
    let requests = (0..rooms.pods).map(|i| {
        let (profile, (cores, gib)) = kinds[pick(kinds.len())];
        let since = i64::try_from(i).unwrap_or(0) * 60;
        request(&format!("wait-{i}")).asks(profile, 1).takes(cores * 1_000, gib << 30).since(since).build()
    });
    requests.collect()
}
