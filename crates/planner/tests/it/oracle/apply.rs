//! The fleet after some steps of a plan.

use mig::ProfileName;
use planner::inventory::{ChangeScope, CountedSlice, Gpu, Inventory, Node, PlacedSlice, Slices, Use};
use planner::names::GpuIndex;
use planner::plan::NodeStep;

use super::evict::without;

/// Who uses the slices of a GPU, or the GPU as a whole.
pub(crate) fn uses(gpu: &Gpu) -> Vec<&Use> {
    match &gpu.slices {
        Slices::Placed(slices) => slices.iter().map(|s| &s.used).collect(),
        Slices::Counted(slices) => slices.iter().map(|s| &s.used).collect(),
        Slices::MigOff { used } => vec![used],
    }
}

/// The profiles of its slices.
pub(crate) fn profiles(gpu: &Gpu) -> Vec<ProfileName> {
    match &gpu.slices {
        Slices::Placed(slices) => slices.iter().map(|s| s.profile).collect(),
        Slices::Counted(slices) => slices.iter().map(|s| s.profile).collect(),
        Slices::MigOff { .. } => vec![],
    }
}

/// Slices that are created and destroyed; of counted slices as few as possible.
pub(crate) fn operations(gpu: &Gpu, after: &[(ProfileName, u8)]) -> u32 {
    let common = match &gpu.slices {
        Slices::Placed(slices) => slices.iter().filter(|s| after.contains(&(s.profile, s.start))).count(),
        Slices::Counted(_) => {
            let mut left = profiles(gpu);
            let mut took = |(profile, _): &&(ProfileName, u8)| {
                left.iter().position(|p| p == profile).map(|i| left.swap_remove(i)).is_some()
            };
            after.iter().filter(|slice| took(slice)).count()
        }
        Slices::MigOff { .. } => 0,
    };
    u32::try_from(profiles(gpu).len() + after.len() - 2 * common).expect("few")
}

/// Of a GPU that is cut where only numbers are known of its node: its profiles
/// but one, if any GPU beside it has one of them today.
pub(crate) fn tied(node: &Node, index: GpuIndex, after: &[(ProfileName, u8)]) -> u32 {
    let agent = node.scope == ChangeScope::SliceBySlice
        || node.gpus.values().any(|gpu| matches!(gpu.slices, Slices::Placed(_)));
    let mut mine: Vec<ProfileName> = after.iter().map(|(profile, _)| *profile).collect();
    mine.sort();
    mine.dedup();
    let beside = node.gpus.iter().filter(|(other, _)| **other != index);
    let shares = beside.flat_map(|(_, gpu)| profiles(gpu)).any(|profile| mine.contains(&profile));
    if agent || !shares { 0 } else { u32::try_from(mine.len() - 1).expect("few") }
}

/// Compute slices that no slice covers, on a GPU that changes as a whole.
pub(crate) fn stranded(node: &Node, gpu: &Gpu, after: &[(ProfileName, u8)]) -> u32 {
    let by_slice = node.scope == ChangeScope::SliceBySlice && matches!(gpu.slices, Slices::Placed(_));
    if by_slice || after.is_empty() {
        return 0;
    }
    let covered: u32 = after.iter().map(|(profile, _)| u32::from(profile.compute)).sum();
    u32::from(gpu.geometry.compute()) - covered
}

/// The fleet once these steps are done: what stays keeps its user, what is
/// new is idle, and pods that were evicted hold nothing.
pub(crate) fn apply<'a>(inventory: &Inventory, steps: impl IntoIterator<Item = &'a NodeStep>) -> Inventory {
    let mut after = inventory.clone();
    for step in steps {
        let node = after.nodes.get_mut(&step.node).expect("a node of the fleet");
        *node = without(node, &step.evicts.iter().cloned().collect());
        for change in &step.gpus {
            let gpu = node.gpus.get_mut(&change.gpu).expect("a GPU of the node");
            let placed = matches!(gpu.slices, Slices::Placed(_)) || node.scope == ChangeScope::SliceBySlice;
            let used = |profile: ProfileName, start: u8| match &gpu.slices {
                Slices::Placed(slices) => slices
                    .iter()
                    .find(|s| s.profile == profile && s.start == start)
                    .map_or(Use::Idle, |s| s.used.clone()),
                Slices::Counted(_) | Slices::MigOff { .. } => Use::Idle,
            };
            let mut new: Vec<PlacedSlice> = change
                .after
                .iter()
                .map(|(profile, start)| PlacedSlice {
                    profile: *profile,
                    start: *start,
                    used: used(*profile, *start),
                })
                .collect();
            new.sort();
            gpu.slices = if new.is_empty() {
                Slices::MigOff { used: Use::Idle }
            } else if placed {
                Slices::Placed(new)
            } else {
                let counted = |s: PlacedSlice| CountedSlice { profile: s.profile, used: s.used };
                Slices::Counted(new.into_iter().map(counted).collect())
            };
        }
    }
    after
}
