//! The volumes that a recording has: all others say nothing about where somebody may go.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodSpec;

use crate::objects::{Key, Objects};
use crate::volumes::{CLAIMS, Volumes, claims, noted_on};

/// Those of pods that are not bound, and of pods to come, that only some nodes can have.
pub(super) fn waited_for(objects: &Objects) -> Volumes {
    let mut named: BTreeSet<Key> = BTreeSet::new();
    let mut learn = |namespace: &String, claims: BTreeSet<String>| {
        named.extend(claims.into_iter().map(|claim| (namespace.clone(), claim)));
    };
    for ((namespace, name), pod) in &objects.pods {
        let is_bound = |node: &String| !node.is_empty();
        let waits = |spec: &&PodSpec| !spec.node_name.as_ref().is_some_and(is_bound);
        if let Some(spec) = pod.spec.as_ref().filter(waits) {
            learn(namespace, claims(spec, noted_on(pod.metadata.annotations.as_ref()), Some(name)));
        }
    }
    for ((namespace, _), lab) in &objects.notebooks {
        learn(namespace, claims(&lab.spec.template.spec.whole(), lab.metadata.annotations.get(CLAIMS), None));
    }
    for ((namespace, _), workload) in &objects.workloads {
        for set in &workload.spec.pod_sets {
            learn(namespace, claims(&set.template.spec.whole(), None, None));
        }
    }
    let Volumes { claims, places } = &*objects.volumes;
    let claims: BTreeMap<_, _> = claims
        .iter()
        .filter(|(claim, volume)| named.contains(*claim) && places.contains_key(*volume))
        .map(|(claim, volume)| (claim.clone(), volume.clone()))
        .collect();
    let places = claims.values().filter_map(|volume| places.get_key_value(volume));
    let places = places.map(|(volume, nodes)| (volume.clone(), nodes.clone())).collect();
    Volumes { claims, places }
}
