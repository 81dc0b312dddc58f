//! Where the volumes of pods are. A volume that is a local disk, or a disk of one zone, is bound to some nodes: its
//! `nodeAffinity` says which, and the scheduler takes no other node for a pod that has it. The scheduler knows a volume
//! by its claim; a claim that is not bound yet says nothing (where the storage class waits for the pod, the volume
//! comes to the pod).
//!
//! Source: Kubernetes' documentation of persistent volumes ("Node Affinity"), and of generic ephemeral volumes (the
//! claim of one is called after its pod and the volume).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec,
    Volume,
};
use serde_json::{Value, json};

/// Which volume each claim is bound to, and which nodes can have a volume that not every node can.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// The volumes of claims that are bound, by the claim's namespace and name.
    pub claims: BTreeMap<(String, String), String>,
    /// The nodes of volumes that not every node can have, by volume: one term must match.
    pub places: BTreeMap<String, Vec<NodeSelectorTerm>>,
}

/// The volume that a claim is bound to.
#[must_use]
pub fn bound_to(claim: PersistentVolumeClaim) -> Option<String> {
    claim.spec?.volume_name.filter(|volume| !volume.is_empty())
}

/// Which nodes can have a volume; `None` if all can.
#[must_use]
pub fn place(volume: PersistentVolume) -> Option<Vec<NodeSelectorTerm>> {
    Some(volume.spec?.node_affinity?.required?.node_selector_terms)
}

/// The claims of a pod's volumes; those of its ephemeral volumes where its name is known.
pub fn claims(spec: &PodSpec, pod: Option<&str>) -> impl Iterator<Item = String> {
    spec.volumes.iter().flatten().filter_map(move |volume| {
        let claim = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
        let ephemeral = volume.ephemeral.as_ref().and(pod);
        claim.or_else(|| Some(format!("{}-{}", ephemeral?, volume.name)))
    })
}

/// Volumes that name these claims and say nothing else.
pub fn only_claims(claims: impl Iterator<Item = String>) -> Option<Vec<Volume>> {
    let volume = |claim_name: String| Volume {
        name: claim_name.clone(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None }),
        ..Volume::default()
    };
    let volumes: Vec<Volume> = claims.map(volume).collect();
    (!volumes.is_empty()).then_some(volumes)
}

impl Volumes {
    /// The keys of labels by which nodes are told apart.
    pub fn labels(&self) -> impl Iterator<Item = &String> {
        let terms = self.places.values().flatten();
        terms.flat_map(|term| term.match_expressions.iter().flatten()).map(|expression| &expression.key)
    }

    /// The claims, as a snapshot has them.
    pub(crate) fn claim_documents(&self) -> impl Iterator<Item = Value> {
        self.claims.iter().map(|((namespace, name), volume)| {
            json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"volumeName": volume}})
        })
    }

    /// The volumes, as a snapshot has them.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Value> {
        self.places.iter().map(|(name, terms)| {
            let required = json!({"nodeSelectorTerms": terms});
            json!({"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}})
        })
    }
}
