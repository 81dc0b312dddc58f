//! The volumes that a recording has: all others say nothing about where somebody may go.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{Key, Objects};
use crate::volumes::{Volumes, claims};

/// Those of pods that are not bound, and of pods to come, that only some nodes can have.
pub(super) fn waited_for(objects: &Objects) -> Volumes {
    let pods = objects.pods.iter().filter_map(|((namespace, name), pod)| {
        let is_bound = |node: &String| !node.is_empty();
        let spec = pod.spec.as_ref().filter(|spec| !spec.node_name.as_ref().is_some_and(is_bound))?;
        Some((namespace, Some(name.as_str()), spec))
    });
    let workbenches = objects
        .notebooks
        .iter()
        .map(|((namespace, _), notebook)| (namespace, None, &notebook.spec.template.spec));
    let sets = objects.workloads.iter().flat_map(|((namespace, _), workload)| {
        workload.spec.pod_sets.iter().map(move |set| (namespace, None, &set.template.spec))
    });
    let named: BTreeSet<Key> = pods
        .chain(workbenches)
        .chain(sets)
        .flat_map(|(namespace, pod, spec)| claims(spec, pod).map(move |claim| (namespace.clone(), claim)))
        .collect();
    let Volumes { claims, places } = &objects.volumes;
    let claims: BTreeMap<_, _> = claims
        .iter()
        .filter(|(claim, volume)| named.contains(*claim) && places.contains_key(*volume))
        .map(|(claim, volume)| (claim.clone(), volume.clone()))
        .collect();
    let places = claims.values().filter_map(|volume| places.get_key_value(volume));
    let places = places.map(|(volume, nodes)| (volume.clone(), nodes.clone())).collect();
    Volumes { claims, places }
}
