//! Which GPUs a node has, as far as that is known: what was established now,
//! and what `GpuNode` remembers, since the labels that tell vanish during a
//! change.

use std::collections::BTreeMap;

use api::GpuNode;
use api::gpu_node::ObservedBy;
use mig::{Catalog, Model};
use planner::inventory;
use planner::names::GpuIndex;

/// The GPUs of a node by index; those that know no MIG have no model.
pub type Models = BTreeMap<GpuIndex, Option<&'static Model>>;

/// The GPUs of a node.
#[must_use]
pub fn models(node: Option<&inventory::Node>, gpu_node: Option<&GpuNode>) -> Models {
    let catalog = Catalog::builtin();
    let remembered = gpu_node.and_then(|n| n.status.as_ref()?.observed.as_ref());
    let remembered = remembered
        .iter()
        .flat_map(|observed| &observed.gpus)
        .filter_map(|gpu| Some((GpuIndex(u16::try_from(gpu.index).ok()?), catalog.get(&gpu.model))));
    let established = node.into_iter().flat_map(|node| &node.gpus);
    remembered.chain(established.map(|(index, gpu)| (*index, catalog.get(&gpu.model)))).collect()
}

/// Whether an agent looks after the node's GPUs, so that we do not go through
/// the GPU Operator.
#[must_use]
pub fn has_agent(gpu_node: Option<&GpuNode>) -> bool {
    let observed = gpu_node.and_then(|n| n.status.as_ref()?.observed.as_ref());
    observed.is_some_and(|observed| observed.by == ObservedBy::Agent)
}
