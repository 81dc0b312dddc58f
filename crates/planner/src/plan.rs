//! A plan: for each node that changes, exactly what changes, in the order in
//! which nodes should go. It leaves nothing to choose, and each change says
//! under which precondition it is still right.

use mig::ProfileName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::inventory::Slices;
use crate::names::{GpuIndex, NodeName, PodRef, PolicyName, RequestId};

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Node by node; earlier ones are worth more.
    pub steps: Vec<NodeStep>,
}

impl Plan {
    /// A short name of exactly this plan: the same in a preview, in a policy's
    /// status and in the log, so that what was reviewed can be compared with
    /// what runs. The first 16 hexadecimal digits of the SHA-256 of its JSON.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(&serde_json::to_vec(self).expect("a plan is plain data"))
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of some bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The change of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStep {
    /// The node.
    pub node: NodeName,
    /// The policy that wants it.
    pub policy: PolicyName,
    /// The GPUs that change, by index.
    pub gpus: Vec<GpuChange>,
    /// MIG has to be switched on first (onboarding).
    pub enable_mig: bool,
    /// Pods that have to be evicted before (static layouts with `drain: Evict` only).
    pub evicts: Vec<PodRef>,
    /// Requests that the new slices serve.
    pub serves: Vec<RequestId>,
}

/// The change of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuChange {
    /// Which GPU of the node.
    pub gpu: GpuIndex,
    /// Its model.
    pub model: String,
    /// What it has; the precondition: when it has something else by then, the
    /// change is void.
    pub before: Slices,
    /// What it should have, with the placements, by start and profile. An
    /// actuator that cannot place gets the same multiset in its own placement.
    pub after: Vec<(ProfileName, u8)>,
    /// What is created, in an order in which the driver's own choice of
    /// placement leads to `after` (from what stays of `before` when slices
    /// change one by one, else from nothing); `None` when there is no such
    /// order and placements must be given.
    pub creation_order: Option<Vec<ProfileName>>,
}
