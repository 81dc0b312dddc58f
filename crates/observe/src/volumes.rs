//! Where the volumes of pods are. A volume that is a local disk, or a disk of one zone, is bound to some nodes: its
//! `nodeAffinity` says which, and the scheduler takes no other node for a pod that has it. The scheduler knows a volume
//! by its claim; a claim that is not bound yet says nothing (where the storage class waits for the pod, the volume
//! comes to the pod).
//!
//! Source: Kubernetes' documentation of persistent volumes ("Node Affinity"), and of generic ephemeral volumes (the
//! claim of one is called after its pod and the volume).

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::template::only_claim;
use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, PodSpec, Volume,
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

/// The annotation in which the claims of a pod, or of a workbench, stand where its volumes are not kept: a volume is
/// three kilobytes in memory, whatever it says. Whoever keeps objects writes it in the place of what stood there.
pub const CLAIMS: &str = "slicewright.io/volume-claims";

/// How long the claims of one object may be together. Pods have two or three, with names of some twenty letters; of one
/// with more, those are read that come first.
const LONGEST_CLAIMS: usize = 1 << 10;

/// What is noted of claims on an object.
#[must_use]
pub fn noted_on(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    annotations?.get(CLAIMS).map(String::as_str)
}

/// The claims of a pod's volumes, `noted` ones included; those of its ephemeral volumes where the name of the pod is known.
#[must_use]
pub fn claims(spec: &PodSpec, noted: Option<&str>, pod: Option<&str>) -> BTreeSet<String> {
    let noted = noted.into_iter().flat_map(|claims| claims.split(','));
    let noted = noted.map(str::to_owned).filter(|claim| !claim.is_empty());
    let volumes = spec.volumes.iter().flatten().filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
        let ephemeral = volume.ephemeral.as_ref().and(pod);
        claim.or_else(|| Some(format!("{}-{}", ephemeral?, volume.name)))
    });
    noted.chain(volumes).collect()
}

/// The claims as an annotation; none where there are none.
#[must_use]
pub fn noted(claims: &BTreeSet<String>) -> Option<(String, String)> {
    let mut text = String::new();
    for claim in claims {
        if text.len() + claim.len() < LONGEST_CLAIMS {
            text.push_str(if text.is_empty() { "" } else { "," });
            text.push_str(claim);
        }
    }
    (!text.is_empty()).then(|| (CLAIMS.to_owned(), text))
}

/// Volumes that name these claims and say nothing else.
#[must_use]
pub fn only_claims(claims: BTreeSet<String>) -> Option<Vec<Volume>> {
    let volumes: Vec<Volume> = claims.iter().map(|claim| only_claim(claim)).collect();
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
