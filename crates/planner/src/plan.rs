//! A plan: for each node that changes, exactly what changes, in the order in which nodes should change. It
//! leaves no choices open, and each change states the precondition under which it is still right.

use std::collections::BTreeMap;

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
    /// what runs. The first 16 hexadecimal digits of the SHA-256 of its JSON:
    /// which GPU of which node gets what, and how many are evicted and served.
    /// Who they are is no part of it, so that a plan for a fleet that was
    /// recorded without names has the same.
    #[must_use]
    pub fn digest(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(nameless).collect();
        digest(&serde_json::to_vec(&steps).expect("a plan is plain data"))
    }
}

/// What a step does, without the names of pods and of who asks.
fn nameless(step: &NodeStep) -> impl Serialize + use<> {
    let NodeStep { node, policy, gpus, enable_mig, evicts, serves } = step;
    let gpus: Vec<_> = gpus
        .iter()
        .map(|change| {
            // The order of creation follows from the rest.
            let GpuChange { gpu, model, before, after, creation_order: _ } = change;
            (*gpu, model.clone(), cut(before), after.clone())
        })
        .collect();
    (node.clone(), policy.clone(), gpus, *enable_mig, evicts.len(), serves.len())
}

/// What a GPU is cut into, whoever uses it.
fn cut(slices: &Slices) -> Vec<(ProfileName, Option<u8>)> {
    slices.iter().map(|slice| (slice.profile, slice.start)).collect()
}

/// The first 16 hexadecimal digits of the SHA-256 of some bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What is being carried out: the layouts that nodes were told to come to and
/// have not come to yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// By GPU, what it should have: profiles and where they start.
    pub gpus: BTreeMap<(NodeName, GpuIndex), Vec<(ProfileName, u8)>>,
}

impl UnderWay {
    /// Some steps of a plan.
    #[must_use]
    pub fn from_steps(steps: &[NodeStep]) -> Self {
        let change =
            |step: &NodeStep, change: &GpuChange| ((step.node.clone(), change.gpu), change.after.clone());
        let gpus = steps.iter().flat_map(|step| step.gpus.iter().map(move |gpu| change(step, gpu)));
        Self { gpus: gpus.collect() }
    }
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
    /// Nothing means that MIG is switched off: a GPU with MIG on and no slice
    /// is never planned, since neither the device plugin nor the validator bear it.
    pub after: Vec<(ProfileName, u8)>,
    /// What is created, in an order in which the driver's own choice of
    /// placement leads to `after` (from what stays of `before` when slices
    /// change one by one, else from nothing); `None` when there is no such
    /// order and placements must be given.
    pub creation_order: Option<Vec<ProfileName>>,
}

impl GpuChange {
    /// Whether MIG is switched off, so that pods get the GPU as a whole.
    #[must_use]
    pub const fn switches_mig_off(&self) -> bool {
        self.after.is_empty()
    }
}

impl NodeStep {
    /// Whether MIG is switched on or off on a GPU. MIG manager then clears, and may reset, every GPU of the node.
    #[must_use]
    pub fn switches_mig(&self) -> bool {
        self.enable_mig || self.gpus.iter().any(GpuChange::switches_mig_off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{CountedSlice, Use};

    fn plan(pod: &str, after: &str) -> Plan {
        let profile = |name: &str| name.parse::<ProfileName>().expect("a profile");
        let pod = PodRef { namespace: "a".to_owned(), name: pod.to_owned() };
        let used = Use::MaybeInUse { by: vec![pod.clone()] };
        Plan {
            steps: vec![NodeStep {
                node: NodeName::from("n1"),
                policy: PolicyName::from("p"),
                gpus: vec![GpuChange {
                    gpu: GpuIndex(0),
                    model: "A100-80GB".to_owned(),
                    before: Slices::Counted(vec![CountedSlice { profile: profile("7g.80gb"), used }]),
                    after: vec![(profile(after), 0)],
                    creation_order: None,
                }],
                enable_mig: false,
                evicts: vec![pod],
                serves: vec![],
            }],
        }
    }

    #[test]
    fn the_digest_is_of_what_is_done_and_not_of_whom_it_concerns() {
        let digest = plan("x", "3g.40gb").digest();
        assert_eq!(digest, plan("y", "3g.40gb").digest());
        assert_ne!(digest, plan("x", "4g.40gb").digest());
        let mut spared = plan("x", "3g.40gb");
        spared.steps[0].evicts.clear();
        assert_ne!(digest, spared.digest());
        assert_ne!(digest, Plan::default().digest());
    }
}
