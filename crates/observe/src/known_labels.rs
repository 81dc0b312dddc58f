//! The labels by which a node is selected. GPU feature discovery removes its labels while a node changes,
//! and the node must not leave its policy because of that: until the change is complete, it counts as
//! having the labels that existed when its GPUs were last seen, as its `GpuNode` records them.

use std::collections::BTreeMap;

use api::GpuNode;
use k8s_openapi::api::core::v1::Node;

use crate::labels::vanishes;
use crate::memory::Memory;
use crate::{cordon, holds, node_labels};

/// The labels of a node: those that it has, and, while it is on its way, those
/// that are remembered.
pub(crate) fn known_labels(
    node: &Node,
    gpu_node: Option<&GpuNode>,
    memory: &Memory,
) -> BTreeMap<String, String> {
    let mut labels = node.metadata.labels.clone().unwrap_or_default();
    let none = BTreeMap::new();
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&none);
    let is_on_its_way = memory.is_on_its_way()
        || holds::is_busy(&labels, &node_labels::state(&labels))
        || cordon::is_cordoned(node) && node_labels::has_any_mark(&labels, annotations);
    let observed = gpu_node.and_then(|node| node.status.as_ref()?.observed.as_ref());
    if let Some(observed) = observed.filter(|_| is_on_its_way) {
        for (key, value) in observed.labels.iter().filter(|(key, _)| vanishes(key)) {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    labels
}
