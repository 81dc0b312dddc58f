//! Idle fleets whose nodes are short of CPU and memory.

use super::Numbers;
use crate::demand::Request;
use crate::inventory::{ChangeScope, Inventory};
use crate::testing::{a100, fleet, node, request};

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
    let kinds: Vec<(&str, (i64, i64))> =
        (0..rooms.kinds.max(1)).map(|_| (PROFILES[pick(PROFILES.len())], TAKES[pick(TAKES.len())])).collect();
    let requests = (0..rooms.pods).map(|i| {
        let (profile, (cores, gib)) = kinds[pick(kinds.len())];
        let since = i64::try_from(i).unwrap_or(0) * 60;
        request(&format!("wait-{i}")).asks(profile, 1).takes(cores * 1_000, gib << 30).since(since).build()
    });
    let requests = requests.collect();
    (builder.build(), requests)
}
