//! The plan that is being carried out: the layouts in the specs of `GpuNode`s that the nodes do not have
//! yet. A node past the point of no return is not part of it: the planner sees it with its new layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use api::wanted::{WantedGpu, WantedSlice};
use mig::ProfileName;
use planner::inventory::{Gpu, Hold, Inventory, Slices};
use planner::names::{GpuIndex, NodeName};
use planner::plan::UnderWay;

/// What is under way. What cannot be read, and what is wanted of GPUs that are
/// no longer there, is under way nowhere: the round plans it anew.
#[must_use]
pub fn under_way(inventory: &Inventory, gpu_nodes: &BTreeMap<String, Arc<GpuNode>>) -> UnderWay {
    let mut under_way = UnderWay::default();
    for (name, node) in &inventory.nodes {
        let Some(gpu_node) = gpu_nodes.get(&name.0).filter(|_| !is_on_its_way(node.hold.as_ref())) else {
            continue;
        };
        for wanted in &gpu_node.spec.gpus {
            if let Some((index, slices)) = read(wanted)
                && let Some(gpu) = node.gpus.get(&index).filter(|gpu| gpu.model == wanted.model)
                && !has(gpu, &slices)
            {
                under_way.gpus.insert((NodeName(name.0.clone()), index), slices);
            }
        }
    }
    under_way
}

const fn is_on_its_way(hold: Option<&Hold>) -> bool {
    matches!(hold, Some(Hold::Changing))
}

fn read(wanted: &WantedGpu) -> Option<(GpuIndex, Vec<(ProfileName, u8)>)> {
    let slice = |slice: &WantedSlice| Some((slice.profile.parse().ok()?, u8::try_from(slice.start).ok()?));
    let slices = wanted.slices.iter().map(slice).collect::<Option<Vec<_>>>()?;
    Some((GpuIndex(u16::try_from(wanted.index).ok()?), slices))
}

/// Whether a GPU has these slices; where it is not known at which place, as
/// many of each profile. None at all means that MIG is off.
fn has(gpu: &Gpu, wanted: &[(ProfileName, u8)]) -> bool {
    match &gpu.slices {
        Slices::MigOff { .. } => wanted.is_empty(),
        Slices::Placed(_) | Slices::Counted(_) if wanted.is_empty() => false,
        Slices::Placed(slices) => {
            sorted(slices.iter().map(|slice| (slice.profile, slice.start))) == sorted(wanted.iter().copied())
        }
        Slices::Counted(slices) => {
            sorted(slices.iter().map(|slice| slice.profile)) == sorted(wanted.iter().map(|(name, _)| *name))
        }
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all
}
