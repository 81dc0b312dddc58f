//! The labels by which a node is selected. GPU feature discovery removes its labels while a node changes,
//! and the node must not leave its policy because of that: until the change is complete, it counts as
//! having the labels that existed when its GPUs were last seen, as its `GpuNode` records them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::GpuNode;
use k8s_openapi::api::core::v1::Node;

use crate::labels::vanishes;
use crate::memory::Memory;
use crate::{cordon, holds, node_labels};

/// The labels of a node: those that it has, and, while it is on its way, those
/// that are remembered. Those of most nodes are the node's own, and are not copied.
pub(crate) fn known_labels<'a>(
    node: &'a Node,
    gpu_node: Option<&GpuNode>,
    memory: &Memory,
) -> Cow<'a, BTreeMap<String, String>> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    let mut labels = Cow::Borrowed(node.metadata.labels.as_ref().unwrap_or(&NONE));
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&NONE);
    let is_on_its_way = memory.is_on_its_way()
        || holds::is_busy(&labels, &node_labels::state(&labels))
        || cordon::is_cordoned(node) && node_labels::has_any_mark(&labels, annotations);
    let observed = gpu_node.and_then(|node| node.status.as_ref()?.observed.as_ref());
    if let Some(observed) = observed.filter(|_| is_on_its_way) {
        let gone = observed.labels.iter().filter(|(key, _)| vanishes(key) && !labels.contains_key(*key));
        let gone: Vec<_> = gone.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !gone.is_empty() {
            labels.to_mut().extend(gone);
        }
    }
    labels
}
