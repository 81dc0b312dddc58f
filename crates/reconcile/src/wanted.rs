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

#[cfg(test)]
mod tests {
    use planner::inventory::Slices;
    use planner::names::GpuIndex;
    use planner::plan::GpuChange;
    use planner::testing::{GpuBuilder, NodeBuilder, a100, node, profile};

    use super::*;

    /// A step that makes this of a GPU.
    fn change(gpu: u16, after: &[(&str, u8)]) -> GpuChange {
        GpuChange {
            gpu: GpuIndex(gpu),
            model: "A100-80GB".to_owned(),
            before: Slices::Placed(vec![]),
            after: after.iter().map(|(name, start)| (profile(name), *start)).collect(),
            creation_order: None,
        }
    }

    /// MIG manager cuts a whole node by one entry: what is left out there, or said otherwise than it is, is changed, too.
    #[test]
    fn the_layout_of_a_node_has_every_gpu_as_the_step_makes_it_or_as_it_is() {
        let gpus: [GpuBuilder; 5] = [
            a100().idle("7g.80gb", 0),
            a100().idle("7g.80gb", 0),
            a100().mig_off(),
            a100().used("3g.40gb", 0, "lab/a").idle("3g.40gb", 4),
            a100(),
        ];
        let has = gpus.into_iter().fold(node(), NodeBuilder::gpu).build();
        let step = NodeStep {
            node: "n1".into(),
            policy: "research".into(),
            gpus: vec![change(0, &[("3g.40gb", 0), ("2g.20gb", 4)]), change(1, &[])],
            enable_mig: false,
            evicts: Vec::new(),
            serves: Vec::new(),
        };
        // The last one is a display GPU.
        let models: Models = (0..6).map(|index| (GpuIndex(index), None)).collect();
        let mig =
            |all: &[(&str, u8)]| GpuLayout::Mig(all.iter().map(|(name, n)| (profile(name), *n)).collect());
        let expected = [
            mig(&[("2g.20gb", 1), ("3g.40gb", 1)]),
            GpuLayout::Off,
            GpuLayout::Off,
            mig(&[("3g.40gb", 2)]),
            // MIG is on, and nothing is there: the validator would crash-loop on that.
            mig(&[("7g.80gb", 1)]),
            GpuLayout::Off,
        ];
        let NodeLayout(layout) = wanted(&step, &has, &models);
        let layout: Vec<(u16, GpuLayout)> = layout.into_iter().map(|(GpuIndex(n), gpu)| (n, gpu)).collect();
        assert_eq!(layout, (0..6).zip(expected).collect::<Vec<_>>());
    }
}
