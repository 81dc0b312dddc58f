//! The fleet at one moment: the slices of every GPU and their holders.

use std::collections::BTreeMap;

use mig::ProfileName;
use planner::names::GpuIndex;
use rollout::{GpuLayout, NodeLayout};

use crate::fleet::Fleet;
use crate::stage::Stage;
use crate::target::{Cut, Target};

/// One slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) profile: ProfileName,
    pub(crate) start: u8,
    /// The request that holds it.
    pub(crate) holder: Option<usize>,
}

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gpu {
    pub(crate) slices: Vec<Slice>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) stage: Stage,
    /// No new change before this second.
    pub(crate) rests_until: Option<i64>,
}

/// All nodes, in the order of the fleet's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
}

/// What of a fleet's compute slices is what, at one moment. The four add up to
/// what the fleet has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) held: u64,
    /// Cut, free, and anybody can bind to it.
    pub(crate) idle: u64,
    /// Not held, on a node that is changing.
    pub(crate) away: u64,
    /// Covered by no slice, on a node that is open.
    pub(crate) uncut: u64,
}

impl World {
    /// The fleet cut like this, with nobody on it.
    pub(crate) fn cut(cuts: impl Iterator<Item = Vec<Cut>>) -> Self {
        let slice = |(profile, start): (ProfileName, u8)| Slice { profile, start, holder: None };
        let gpu = |cut: Cut| Gpu { slices: cut.into_iter().map(slice).collect() };
        let node = |gpus: Vec<Cut>| Node { gpus: gpus.into_iter().map(gpu).collect(), ..Node::default() };
        Self { nodes: cuts.map(node).collect() }
    }

    /// The request that holds each slice that is held.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (usize, ProfileName)> {
        self.nodes.iter().flat_map(Node::holders)
    }

    pub(crate) fn used(&self, fleet: &Fleet) -> Use {
        let mut used = Use::default();
        for (node, spec) in self.nodes.iter().zip(&fleet.nodes) {
            let (mut has, mut held, mut cut) = (0, 0, 0);
            for (gpu, spec) in node.gpus.iter().zip(&spec.gpus) {
                has += u64::from(spec.geometry.compute());
                for slice in &gpu.slices {
                    let compute = u64::from(slice.profile.compute);
                    cut += compute;
                    held += if slice.holder.is_some() { compute } else { 0 };
                }
            }
            used.held += held;
            if node.stage.is_open() {
                used.idle += cut - held;
                used.uncut += has - cut;
            } else {
                used.away += has - held;
            }
        }
        used
    }
}

impl Node {
    /// The request that holds each slice that is held.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (usize, ProfileName)> {
        let slices = self.gpus.iter().flat_map(|gpu| &gpu.slices);
        slices.filter_map(|slice| Some((slice.holder?, slice.profile)))
    }

    /// How many slices of a profile are free on it.
    pub(crate) fn free(&self, profile: ProfileName) -> usize {
        let slices = self.gpus.iter().flat_map(|gpu| &gpu.slices);
        slices.filter(|slice| slice.profile == profile && slice.holder.is_none()).count()
    }

    /// The layout of the whole node once the target is there, as the map names it.
    pub(crate) fn layout_with(&self, target: &Target) -> NodeLayout {
        let gpu = |(index, gpu): (usize, &Gpu)| {
            let mut counts: BTreeMap<ProfileName, u8> = BTreeMap::new();
            let mut count = |profile| *counts.entry(profile).or_default() += 1;
            match target.get(&index) {
                Some(cut) => cut.iter().for_each(|(profile, _)| count(*profile)),
                None => gpu.slices.iter().for_each(|slice| count(slice.profile)),
            }
            let index = u16::try_from(index).expect("a node has few GPUs");
            (GpuIndex(index), GpuLayout::Mig(counts))
        };
        NodeLayout(self.gpus.iter().enumerate().map(gpu).collect())
    }
}
