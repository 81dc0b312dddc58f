//! Which labels of a node last, and which come and go: GPU feature discovery removes its labels while a node changes.
//! Those that tell of the GPUs are remembered in the `GpuNode`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use crate::names;

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
