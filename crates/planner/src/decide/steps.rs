//! The steps of the plan: changes by node, in the order of their value.

use std::collections::{BTreeMap, BTreeSet};

use mig::Layout;

use super::allocate::Allocation;
use super::in_the_way::in_the_way;
use super::world::World;
use crate::inventory::{ChangeScope, Gpu, Slices};
use crate::names::{GpuIndex, NodeName, PodRef, RequestId};
use crate::plan::{GpuChange, NodeStep};

/// The steps; nodes that serve the highest priority first, then those that
/// serve most, then by name.
pub(super) fn steps(world: &World<'_>, allocation: &Allocation<'_>) -> Vec<NodeStep> {
    let mut by_node: BTreeMap<&NodeName, Vec<(GpuIndex, Layout)>> = BTreeMap::new();
    for ((node, gpu), layout) in &allocation.changes {
        by_node.entry(node).or_default().push((*gpu, *layout));
    }
    let mut serves: BTreeMap<&NodeName, Vec<&RequestId>> = BTreeMap::new();
    let mut worth: BTreeMap<&NodeName, Vec<(i32, i64)>> = BTreeMap::new();
    for group in &world.groups {
        for request in &group.requests {
            if let Some(served) = allocation.served.get(&request.id).filter(|served| served.by_plan) {
                serves.entry(served.node).or_default().push(&request.id);
                worth.entry(served.node).or_default().push((group.priority, group.weight()));
            }
        }
    }
    let mut nodes: Vec<&NodeName> = by_node.keys().copied().collect();
    nodes.sort_by_cached_key(|node| (std::cmp::Reverse(worth.get(node).map(|w| sorted_worth(w))), *node));
    nodes
        .into_iter()
        .map(|name| {
            let mut requests: Vec<RequestId> =
                serves.get(name).into_iter().flatten().map(|id| (*id).clone()).collect();
            requests.sort();
            step(world, name, &by_node[name], requests)
        })
        .collect()
}

/// Served weight by priority, highest first: compares as the objective does.
fn sorted_worth(served: &[(i32, i64)]) -> Vec<(i32, i64)> {
    let mut by_priority: BTreeMap<std::cmp::Reverse<i32>, i64> = BTreeMap::new();
    for (priority, weight) in served {
        *by_priority.entry(std::cmp::Reverse(*priority)).or_insert(0) += weight;
    }
    by_priority.into_iter().map(|(priority, weight)| (priority.0, weight)).collect()
}

fn step(
    world: &World<'_>,
    name: &NodeName,
    changes: &[(GpuIndex, Layout)],
    serves: Vec<RequestId>,
) -> NodeStep {
    let node = world.node(name);
    let mut evicts: BTreeSet<PodRef> = BTreeSet::new();
    let (mut enable_mig, mut disable_mig) = (false, false);
    let mut gpus = Vec::with_capacity(changes.len());
    for (index, layout) in changes {
        let gpu = &node.gpus[index];
        let keeps = if node.scope == ChangeScope::SliceBySlice { *layout } else { Layout::EMPTY };
        evicts.extend(in_the_way(gpu, keeps));
        enable_mig |= gpu.slices.is_mig_off();
        disable_mig |= layout.is_empty();
        let mut after: Vec<_> = layout.iter().map(|placement| gpu.geometry.describe(placement)).collect();
        after.sort_by_key(|(profile, start)| (*start, *profile));
        gpus.push(GpuChange {
            gpu: *index,
            model: gpu.model.clone(),
            before: gpu.slices.clone(),
            after,
            creation_order: mig::creation_order(&gpu.geometry, stays(gpu, node.scope, *layout), *layout)
                .map(|order| order.into_iter().map(|placement| gpu.geometry.describe(placement).0).collect()),
        });
    }
    if enable_mig || disable_mig || node.scope == ChangeScope::EmptyNode {
        // A change of MIG mode clears every GPU of the node, and whoever can
        // change an empty node only needs all of it empty.
        evicts.extend(node.gpus.values().flat_map(|gpu| in_the_way(gpu, Layout::EMPTY)));
    }
    let policy = world.assignment.policy_of[name].clone();
    NodeStep { node: name.clone(), policy, gpus, enable_mig, evicts: evicts.into_iter().collect(), serves }
}

/// What is left of a GPU when the creating begins.
fn stays(gpu: &Gpu, scope: ChangeScope, layout: Layout) -> Layout {
    match (&gpu.slices, scope) {
        (Slices::Placed(slices), ChangeScope::SliceBySlice) => slices
            .iter()
            .filter_map(|s| gpu.geometry.placement(gpu.geometry.profile_named(s.profile)?, s.start))
            .filter(|placement| layout.contains(*placement))
            .collect(),
        _ => Layout::EMPTY,
    }
}
