//! The labels by which a node is selected. GPU feature discovery removes its labels while a node changes,
//! and the node must not leave its policy because of that: until the change is complete, it counts as
//! having the labels that existed when its GPUs were last seen, as its `GpuNode` records them.

use std::collections::BTreeMap;

use api::GpuNode;
use k8s_openapi::api::core::v1::Node;

use crate::memory::Memory;
use crate::{cordon, holds, names, told};

/// How many labels a `GpuNode` remembers: as many as its CRD takes.
const MOST: usize = 64;

/// What of NVIDIA's labels says how a node stands, and not which GPUs it has:
/// layouts, operands, the time of the last look, upgrades.
const OF_THE_MOMENT: [&str; 5] = [
    names::MIG_CONFIG,
    "nvidia.com/mig-",
    names::DEPLOY_PREFIX,
    "nvidia.com/gfd.timestamp",
    "nvidia.com/gpu-driver-upgrade",
];

/// What of NVIDIA's labels stays as it is while a node changes: the GPU
/// Operator keeps the first, and people write the others.
const STAYS: [&str; 5] = [
    names::PRESENT,
    names::PLUGIN_CONFIG,
    "nvidia.com/gpu.workload.config",
    "nvidia.com/gpu.deploy.operands",
    "nvidia.com/gpu-driver-upgrade.skip",
];

/// Whether a label tells of the GPUs of a node and comes from GPU feature
/// discovery, so that it is away while the node changes.
#[must_use]
pub fn vanishes(key: &str) -> bool {
    key.starts_with(names::NVIDIA_PREFIX) && !STAYS.contains(&key) && !is_of_the_moment(key)
}

fn is_of_the_moment(key: &str) -> bool {
    !STAYS.contains(&key) && OF_THE_MOMENT.iter().any(|prefix| key.starts_with(prefix))
}

/// Why a policy had better not select nodes by a label, and by which one
/// instead; it goes on from the name of the field. `None` for a label that a
/// node keeps, whatever becomes of its GPUs.
#[must_use]
pub fn selects_badly(key: &str) -> Option<String> {
    let why = if vanishes(key) {
        "which GPU feature discovery removes while the GPUs of a node are partitioned, and whenever it restarts: the node then leaves this policy, unless Slicewright is changing it"
    } else if is_of_the_moment(key) {
        "which describes the present state of a node, so that nodes join and leave this policy when they change"
    } else {
        return None;
    };
    Some(format!(
        "selects nodes by `{key}`, {why}; select by a label of your own, such as `slicewright.io/pool: research`, or by `{}: \"true\"`, which every node with NVIDIA GPUs keeps",
        names::PRESENT
    ))
}

/// The labels of a node that are to be remembered.
#[must_use]
pub fn to_remember(node: &Node) -> BTreeMap<String, String> {
    let labels = node.metadata.labels.iter().flatten().filter(|(key, _)| vanishes(key));
    labels.map(|(key, value)| (key.clone(), value.clone())).take(MOST).collect()
}

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
        || holds::is_busy(&labels, &told::state(&labels))
        || cordon::is_cordoned(node) && told::has_any_mark(&labels, annotations);
    let observed = gpu_node.and_then(|node| node.status.as_ref()?.observed.as_ref());
    if let Some(observed) = observed.filter(|_| is_on_its_way) {
        for (key, value) in observed.labels.iter().filter(|(key, _)| vanishes(key)) {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    labels
}
