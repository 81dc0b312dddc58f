//! Which labels of a node are read, whoever asks for what. The store of the operator lays the others aside, and
//! brings one back when a selector names it.
//!
//! Every label by whose name or form this crate learns something has to be here; a test observes fleets with
//! and without the others. One exception: [`crate::sharing::place`] reads what NFD says of the processor, some
//! forty labels of each node. Only the command asks for it, of recordings, which have all labels.

use crate::names;

/// Of these writers there are many labels, and few are read.
pub const MANY: [&str; 2] = [names::NVIDIA_PREFIX, "feature.node.kubernetes.io/"];

/// The beginnings of those that are read, or that are another on every node.
const BEGIN: [&str; 10] = [
    "nvidia.com/mig.",
    names::MACHINE,
    names::PRESENT,
    names::PRODUCT,
    names::DRIVER_UPGRADE_STATE,
    names::PLUGIN_CONFIG,
    names::VGPU_PRESENT,
    "nvidia.com/gfd.timestamp",
    "feature.node.kubernetes.io/pci-",
    "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION",
];

/// The labels of operands that are read whatever they say, beside those that an
/// agent's change pauses where they are `true`; of the others it is read whether
/// they are parked.
const DEPLOYS: [&str; 2] = [names::DEPLOY_MIG_MANAGER, names::DEPLOY_DRA];

/// Whether a label is read whoever asks for what. Of how devices are shared it
/// is read that they are.
#[must_use]
pub fn is_read(key: &str, value: &str) -> bool {
    if !MANY.iter().any(|prefix| key.starts_with(prefix)) {
        return true;
    }
    if key.starts_with(names::DEPLOY_PREFIX) {
        return DEPLOYS.contains(&key) || names::PAUSED_BY_US.contains(&key) || value.starts_with("paused-");
    }
    BEGIN.iter().any(|prefix| key.starts_with(prefix))
        || key.ends_with(names::COUNTS)
        || key.ends_with(names::REPLICAS) && !matches!(value, "0" | "1")
        || key.ends_with(names::SHARED_BY) && value != "none"
        || key.ends_with(names::PRODUCTS) && value.ends_with(names::SHARED_PRODUCT)
}
