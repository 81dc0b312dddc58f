//! The GPUs of a node, as far as they are known: from the present labels, and from the record in `GpuNode`,
//! since these labels vanish during a change.

use std::collections::BTreeMap;

use api::GpuNode;
use api::gpu_node::ObservedBy;
use mig::{Catalog, Model};
use planner::names::GpuIndex;

use crate::layouts::Established;

/// The GPUs of a node by index; those that know no MIG have no model.
pub type Models = BTreeMap<GpuIndex, Option<&'static Model>>;

/// The GPUs of a node. What the controller saw before holds only as long as
/// nothing is established: GPUs may have been swapped. An agent also knows
/// those that cannot be cut.
pub(crate) fn models(found: Option<&Established<'_>>, gpu_node: Option<&GpuNode>) -> Models {
    let catalog = Catalog::builtin();
    let established = found.into_iter().flat_map(|found| &found.gpus);
    let established = established.map(|(index, gpu)| (*index, catalog.get(&gpu.model.id)));
    let is_enough = found.is_some_and(|found| !found.gpus.is_empty());
    let remembered = gpu_node.and_then(|n| n.status.as_ref()?.observed.as_ref());
    let remembered = remembered.filter(|observed| observed.by == ObservedBy::Agent || !is_enough);
    let remembered = remembered
        .iter()
        .flat_map(|observed| &observed.gpus)
        .filter_map(|gpu| Some((GpuIndex(u16::try_from(gpu.index).ok()?), catalog.get(&gpu.model))));
    remembered.chain(established).collect()
}

/// Whether a node has other GPUs than the controller saw last.
pub(crate) fn was_swapped(found: &Established<'_>, gpu_node: Option<&GpuNode>) -> bool {
    let observed = gpu_node.and_then(|node| node.status.as_ref()?.observed.as_ref());
    let Some(observed) = observed.filter(|o| o.by == ObservedBy::Controller && !o.gpus.is_empty()) else {
        return false;
    };
    let before = observed.gpus.iter().map(|gpu| gpu.model.as_str());
    !found.gpus.is_empty() && !before.eq(found.gpus.values().map(|gpu| gpu.model.id.as_str()))
}

/// Whether an agent writes what a node has. Knowing and changing are two things:
/// who changes it is [`crate::Actuator`].
#[must_use]
pub fn has_report_of_agent(gpu_node: Option<&GpuNode>) -> bool {
    let observed = gpu_node.and_then(|n| n.status.as_ref()?.observed.as_ref());
    observed.is_some_and(|observed| observed.by == ObservedBy::Agent)
}
