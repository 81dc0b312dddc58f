//! What a step changes: no slice in use is destroyed unless the pod that holds it is evicted and the policy
//! allows it; and the limits of the actuator are respected.

use std::collections::BTreeSet;

use mig::ProfileName;

use super::note::{Note, Problem};
use crate::inventory::{ChangeScope, Gpu, Node};
use crate::names::{GpuIndex, PodRef};
use crate::plan::NodeStep;
use crate::policy::{Drain, LayoutPolicy, Policy};

pub(super) fn is_mig_off(gpu: &Gpu) -> bool {
    gpu.slices.is_mig_off()
}

/// Something on a GPU that a pod may hold.
struct Held<'a> {
    gpu: GpuIndex,
    profile: Option<ProfileName>,
    start: Option<u8>,
    by: &'a [PodRef],
}

/// Everything on a GPU that is not provably idle.
fn held(index: GpuIndex, gpu: &Gpu) -> Vec<Held<'_>> {
    let slices = gpu.slices.iter().map(|slice| (Some(slice.profile), slice.start, slice.used));
    let whole = gpu.slices.whole().map(|used| (None, None, used));
    let held = slices.chain(whole).filter(|(_, _, used)| !used.is_idle());
    held.map(|(profile, start, used)| Held { gpu: index, profile, start, by: used.holders() }).collect()
}

pub(super) fn check(step: &NodeStep, node: &Node, policy: &Policy, notes: &mut Vec<Note>) {
    let evicted: BTreeSet<&PodRef> = step.evicts.iter().collect();
    let mut in_the_way: BTreeSet<&PodRef> = BTreeSet::new();
    // Who switches MIG on or off clears, and may reset, all GPUs of the node.
    let goes_off = step.gpus.iter().any(|change| change.after.is_empty());
    let whole_node = step.enable_mig || goes_off || node.scope == ChangeScope::EmptyNode;
    for (index, gpu) in &node.gpus {
        let change = step.gpus.iter().find(|change| change.gpu == *index);
        if change.is_none() && !whole_node {
            continue;
        }
        for held in held(*index, gpu) {
            let stays = change.is_some_and(|change| match (held.profile, held.start) {
                (Some(profile), Some(start)) => change.after.contains(&(profile, start)),
                // Of counted slices nobody knows where they are; none can be kept.
                _ => false,
            });
            if stays && node.scope == ChangeScope::SliceBySlice && !whole_node {
                continue;
            }
            in_the_way.extend(held.by);
            // Whoever may hold it has to go; a holder whom nobody knows cannot.
            if !held.by.is_empty() && held.by.iter().all(|pod| evicted.contains(pod)) {
                continue;
            }
            let by: Vec<PodRef> = held.by.to_vec();
            notes.push(match change {
                Some(change) if !stays => {
                    let Held { profile, start, .. } = held;
                    Problem::InUseDestroyed { profile, start, by }.at(&step.node, change.gpu)
                }
                _ => Problem::ScopeExceeded { busy: held.gpu, by }.on(&step.node),
            });
        }
    }
    // Where requests decide which GPUs are whole, MIG off is nothing that has to be mended.
    let mends = match &policy.layout {
        LayoutPolicy::Static { .. } => true,
        LayoutPolicy::DemandDriven { whole_gpus, .. } => step.enable_mig && whole_gpus.is_none(),
    };
    let may_evict = policy.drain == Drain::Evict && !policy.mode.starts_nothing() && mends;
    let mut seen = BTreeSet::new();
    for pod in &step.evicts {
        let problem = if !seen.insert(pod) {
            Problem::EvictedTwice { pod: pod.clone() }
        } else if !may_evict {
            Problem::MayNotEvict { pod: pod.clone() }
        } else if !in_the_way.contains(pod) {
            Problem::NotInTheWay { pod: pod.clone() }
        } else {
            continue;
        };
        notes.push(problem.on(&step.node));
    }
}
