//! The layout of a whole node, in the form for MIG manager.

use std::collections::BTreeMap;

use mig::ProfileName;
use observe::hardware::Models;
use planner::inventory::Node;
use planner::plan::NodeStep;
use rollout::{GpuLayout, NodeLayout, WantedSlices};

/// The layout of a whole node once a step is done: what the step changes, and
/// everything else as it is.
#[must_use]
pub fn wanted(step: &NodeStep, node: &Node, models: &Models) -> NodeLayout {
    // A GPU that cannot be cut is named, too, and has MIG off.
    let mut layout = NodeLayout(models.keys().map(|index| (*index, GpuLayout::Off)).collect());
    for (index, gpu) in &node.gpus {
        let has = match gpu.slices.is_mig_off() {
            true => GpuLayout::Off,
            false => count(gpu.slices.profiles()),
        };
        layout.0.insert(*index, has);
    }
    for change in &step.gpus {
        let aim = match change.switches_mig_off() {
            true => GpuLayout::Off,
            false => count(change.after.iter().map(|(profile, _)| *profile)),
        };
        layout.0.insert(change.gpu, aim);
    }
    for (index, gpu) in &mut layout.0 {
        let empty = matches!(gpu, GpuLayout::Mig(counts) if counts.is_empty());
        if let (true, Some(node_gpu)) = (empty, node.gpus.get(index)) {
            // Never MIG on without any slice: the validator crash-loops on it.
            let full =
                node_gpu.geometry.profiles().iter().max_by_key(|p| (p.compute, p.size)).map(|p| p.name);
            *gpu = count(full);
        }
    }
    layout
}

/// The slices of the GPUs that a step changes, at their places.
#[must_use]
pub fn wanted_slices(step: &NodeStep) -> WantedSlices {
    let place = |(profile, start): &(ProfileName, u8)| agent::Place { profile: *profile, start: *start };
    step.gpus.iter().map(|change| (change.gpu, change.after.iter().map(place).collect())).collect()
}

fn count(names: impl IntoIterator<Item = ProfileName>) -> GpuLayout {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0u8) += 1;
    }
    GpuLayout::Mig(counts)
}
