//! Which pods have to be evicted, and the state of a node afterwards.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use planner::inventory::{ChangeScope, Gpu, Node, Slices, Use};
use planner::names::{GpuIndex, PodRef};
use planner::policy::{Drain, LayoutPolicy, Mode, Policy};

use super::choices::{has, rule, same};
use super::{apply, grid};

/// Whoever holds, or may hold, it.
pub(crate) fn holders(used: &Use) -> Vec<PodRef> {
    match used {
        Use::Idle => vec![],
        Use::InUse { by } => vec![by.clone()],
        Use::MaybeInUse { by } => by.clone(),
    }
}

pub(crate) fn everybody(node: &Node) -> BTreeSet<PodRef> {
    node.gpus.values().flat_map(apply::uses).flat_map(holders).collect()
}

pub(crate) fn is_off(gpu: &Gpu) -> bool {
    matches!(gpu.slices, Slices::MigOff { .. })
}

/// Whether a GPU changes slice by slice, so that what is not in the way stays.
pub(crate) fn by_slice(node: &Node, gpu: &Gpu) -> bool {
    node.scope == ChangeScope::SliceBySlice && matches!(gpu.slices, Slices::Placed(_))
}

/// Who is evicted whatever else is planned. Under a policy that drains, MIG is
/// switched on and a static layout comes, so who is in the way of that goes:
/// of a GPU that changes as a whole everybody on it, and when MIG is switched
/// on or off, or only an empty node can change, everybody on the node.
pub(crate) fn for_certain(node: &Node, policy: &Policy) -> BTreeSet<PodRef> {
    let drains = policy.drain == Drain::Evict && policy.mode != Mode::Paused && node.hold.is_none();
    let changes = |index: GpuIndex, gpu: &Gpu| match &policy.layout {
        // Where requests decide which GPUs are whole, nobody goes for MIG to be on.
        LayoutPolicy::DemandDriven { whole_gpus, .. } => is_off(gpu) && whole_gpus.is_none(),
        LayoutPolicy::Static { gpus } => rule(gpus, index, gpu).is_some_and(|wanted| {
            let possible = grid::states(&gpu.geometry).iter().any(|state| {
                let profiles: Vec<ProfileName> = state.iter().map(|(profile, _)| *profile).collect();
                !state.is_empty() && same(&profiles, &wanted)
            });
            (possible || wanted.is_empty()) && !has(&wanted, gpu)
        }),
    };
    let goes_off = |index: GpuIndex, gpu: &Gpu| match &policy.layout {
        LayoutPolicy::DemandDriven { .. } => false,
        LayoutPolicy::Static { gpus } => rule(gpus, index, gpu).is_some_and(|wanted| wanted.is_empty()),
    };
    let changing: Vec<(&GpuIndex, &Gpu)> = node
        .gpus
        .iter()
        .filter(|(index, gpu)| drains && gpu.hold.is_none() && changes(**index, gpu))
        .collect();
    let needs_it_empty = node.scope == ChangeScope::EmptyNode && !changing.is_empty();
    if needs_it_empty || changing.iter().any(|(index, gpu)| is_off(gpu) || goes_off(**index, gpu)) {
        return everybody(node);
    }
    let whole = changing.into_iter().map(|(_, gpu)| gpu).filter(|gpu| !by_slice(node, gpu));
    whole.flat_map(apply::uses).flat_map(holders).collect()
}

/// A node that some pods have left. Of slices that several pods may hold, each
/// pod that goes gives one back; and nobody holds what nobody may hold.
pub(crate) fn without(node: &Node, gone: &BTreeSet<PodRef>) -> Node {
    let mut after = node.clone();
    after.held.retain(|pod, _| !gone.contains(pod));
    for (profile, held) in &mut after.allocated {
        let uses: Vec<&Use> = node.gpus.values().flat_map(|gpu| uses_of(gpu, *profile)).collect();
        let sure: Vec<&PodRef> = uses
            .iter()
            .filter_map(|used| match used {
                Use::InUse { by } if gone.contains(by) => Some(by),
                _ => None,
            })
            .collect();
        let perhaps: BTreeSet<&PodRef> = uses
            .iter()
            .filter_map(|used| match used {
                Use::MaybeInUse { by } => Some(by),
                _ => None,
            })
            .flatten()
            .filter(|pod| gone.contains(*pod) && !sure.contains(pod))
            .collect();
        let given_back = u32::try_from(sure.len() + perhaps.len()).expect("few");
        let left = uses.iter().filter(|used| !leaves(used, gone).is_idle()).count();
        if given_back > 0 {
            let each = node.shared.get(profile).map_or(1, |sharing| sharing.replicas);
            *held = held.saturating_sub(given_back).min(u32::try_from(left).expect("few") * each);
        }
    }
    let off: Vec<&Use> = node.gpus.values().filter(|gpu| is_off(gpu)).flat_map(apply::uses).collect();
    let goes = off.iter().filter(|used| matches!(used, Use::InUse { by } if gone.contains(by)));
    let sure: Vec<PodRef> = goes.flat_map(|used| holders(used)).collect();
    let maybe =
        off.iter().filter(|used| matches!(used, Use::MaybeInUse { .. })).flat_map(|used| holders(used));
    let maybe: BTreeSet<PodRef> = maybe.filter(|pod| gone.contains(pod) && !sure.contains(pod)).collect();
    let left = off.iter().filter(|used| !leaves(used, gone).is_idle()).count();
    let given_back = u32::try_from(sure.len() + maybe.len()).expect("few");
    if given_back > 0 {
        let left = u32::try_from(left).expect("few");
        after.whole_held = after.whole_held.saturating_sub(given_back).min(left);
    }
    for gpu in after.gpus.values_mut() {
        match &mut gpu.slices {
            Slices::Placed(slices) => slices.iter_mut().for_each(|s| s.used = leaves(&s.used, gone)),
            Slices::Counted(slices) => slices.iter_mut().for_each(|s| s.used = leaves(&s.used, gone)),
            Slices::MigOff { used } => *used = leaves(used, gone),
        }
    }
    after
}

fn leaves(used: &Use, gone: &BTreeSet<PodRef>) -> Use {
    let left: Vec<PodRef> = holders(used).into_iter().filter(|pod| !gone.contains(pod)).collect();
    match used {
        Use::Idle => Use::Idle,
        _ if left.is_empty() => Use::Idle,
        Use::InUse { .. } => used.clone(),
        Use::MaybeInUse { .. } => Use::MaybeInUse { by: left },
    }
}

fn uses_of(gpu: &Gpu, profile: ProfileName) -> Vec<&Use> {
    let all: BTreeMap<usize, ProfileName> = apply::profiles(gpu).into_iter().enumerate().collect();
    let uses = apply::uses(gpu).into_iter().enumerate();
    uses.filter(|(i, _)| all.get(i) == Some(&profile)).map(|(_, used)| used).collect()
}
