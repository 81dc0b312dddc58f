//! The names in a recording that get a [`Pseudonym`](Pseudonyms), and those that stay: of namespaces, of what is in them,
//! and of what administrators call after teams.

use std::collections::BTreeSet;

use api::GpuNode;
use api::gpu_node::{PodName, PromisedTo};
use k8s_openapi::api::core::v1::Pod;

use super::pseudonyms::{Pseudonyms, numbered};
use super::selected::named_by_policies;
use crate::objects::Objects;
use crate::owners;
use crate::requests::POD_GROUP;
use crate::surge;
use crate::volumes::Volumes;

/// Labels of pods whose value is the name of something.
pub(super) const NAMING: [&str; 6] = [
    "notebook-name",
    "statefulset",
    "serving.kserve.io/inferenceservice",
    "app.kubernetes.io/name",
    surge::LABELS[0],
    POD_GROUP,
];

/// Namespaces of the platform, which tell nothing about anybody.
pub(super) fn is_platform(namespace: &str) -> bool {
    ["kube-", "openshift-", "nvidia-", "redhat-ods-", "slicewright-"]
        .iter()
        .any(|prefix| namespace.starts_with(prefix))
        || ["gpu-operator", "opendatahub"].contains(&namespace)
}

/// Looks for all names. Beside those of the platform and of policies, these namespaces keep theirs.
pub(super) fn pseudonyms(objects: &Objects, volumes: &Volumes, kept: &BTreeSet<String>) -> Pseudonyms {
    let mut namespaces: BTreeSet<String> = objects.namespaces.keys().cloned().collect();
    let mut things = BTreeSet::new();
    let mut learn = |namespace: &str, name: &str| {
        if !namespace.is_empty() {
            namespaces.insert(namespace.to_owned());
            if !is_platform(namespace) && !name.is_empty() {
                things.insert(name.to_owned());
            }
        }
    };
    for ((namespace, name), pod) in &objects.pods {
        learn(namespace, stem(pod, name));
        for label in NAMING {
            let named = pod.metadata.labels.as_ref().and_then(|labels| labels.get(label));
            learn(namespace, named.map_or("", String::as_str));
        }
        for owner in pod.metadata.owner_references.iter().flatten() {
            learn(namespace, &owner.name);
        }
    }
    for ((namespace, name), workload) in &objects.workloads {
        learn(namespace, name);
        learn(namespace, &workload.spec.queue_name);
        for owner in &workload.metadata.owner_references {
            // A pod's own name may end with its number.
            if !objects.pods.contains_key(&(namespace.clone(), owner.name.clone())) {
                learn(namespace, &owner.name);
            }
        }
    }
    for ((_, namespace, name), owner) in objects.owners.iter() {
        // A pod's own name may end with its number, and is known already.
        if !objects.pods.contains_key(&(namespace.to_owned(), name.to_owned())) {
            learn(namespace, name);
        }
        learn(namespace, &owner.name);
    }
    for (_, (namespace, name)) in objects.placed_alone.keys() {
        learn(namespace, name);
    }
    for ((namespace, name), lab) in &objects.notebooks {
        learn(namespace, name);
        learn(namespace, lab.queue().unwrap_or_default());
    }
    let servers = objects.model_servers.values().filter_map(|server| server.hardware_profile());
    for (namespace, name) in
        objects.notebooks.values().filter_map(|lab| lab.hardware_profile()).chain(servers)
    {
        learn(&namespace, &name);
    }
    let servers = objects.model_servers.keys().map(|(_, server)| server);
    let named = objects.hardware_profiles.keys().chain(objects.local_queues.keys()).chain(servers);
    named.chain(volumes.claims.keys()).for_each(|(namespace, name)| learn(namespace, name));
    for held in objects.gpu_nodes.values().flat_map(|node| holders(node)) {
        // A pod that is gone: nobody knows whether a number at its end is one.
        if !objects.pods.contains_key(&(held.namespace.clone(), held.name.clone())) {
            learn(&held.namespace, &held.name);
        }
    }
    for to in objects.gpu_nodes.values().flat_map(|node| promised(node)) {
        // A bare pod is known already, with its number.
        if !objects.pods.contains_key(&(to.namespace.clone(), to.name.clone())) {
            learn(&to.namespace, &to.name);
        }
    }
    // Queues and cohorts of the whole cluster are called after teams.
    things.extend(objects.cluster_queues.values().filter_map(|queue| queue.spec.cohort_name.clone()));
    things.extend(objects.cluster_queues.keys().cloned());
    things.extend(volumes.places.keys().cloned());
    things.extend(objects.local_queues.values().map(|queue| queue.spec.cluster_queue.clone()));
    things.extend(
        objects
            .workloads
            .values()
            .filter_map(|workload| Some(workload.status.admission.as_ref()?.cluster_queue.clone())),
    );
    things.remove("");
    let platform: BTreeSet<String> = namespaces.iter().filter(|name| is_platform(name)).cloned().collect();
    let mut stay: BTreeSet<String> = platform.union(kept).cloned().collect();
    stay.extend(named_by_policies(objects));
    Pseudonyms::new(&namespaces, &stay, platform, &things)
}

/// The part of a pod's name that is a name: a set's pods have a number behind it.
fn stem<'a>(pod: &Pod, name: &'a str) -> &'a str {
    let of_set = owners::ordinal(pod).is_some();
    numbered(name).filter(|_| of_set).map_or(name, |(stem, _)| stem)
}

/// The pods that a node's GPUs were seen with.
fn holders(node: &GpuNode) -> impl Iterator<Item = &PodName> {
    let observed = node.status.iter().filter_map(|status| status.observed.as_ref());
    observed
        .flat_map(|observed| &observed.gpus)
        .flat_map(|gpu| gpu.held_by.iter().chain(gpu.slices.iter().flat_map(|slice| &slice.by)))
}

/// Whom slices of a node were promised to.
fn promised(node: &GpuNode) -> impl Iterator<Item = &PromisedTo> {
    let rollout = node.status.iter().filter_map(|status| status.rollout.as_ref());
    rollout.flat_map(|rollout| &rollout.promised)
}
