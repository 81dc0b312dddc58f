//! The owner of a pod: the root owner, and the ordinal of the pod among its pods.

use api::foreign::Workload;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use planner::names::RequestId;

use crate::controllers::Named;
use crate::objects::Objects;

/// Labels that name the root owner outright, with its kind.
const BY_LABEL: [(&str, &str); 2] =
    [("notebook-name", "Notebook"), ("serving.kserve.io/inferenceservice", "InferenceService")];

/// What the pods of an `LLMInferenceService` have as their component; its name
/// is then in another label, which many other pods have, too. KServe adds the
/// part that a pod has in serving: prefill, and leader and worker where one
/// server spans nodes.
const COMPONENT: &str = "app.kubernetes.io/component";
const LLM_COMPONENT: &str = "llminferenceservice-workload";
const LLM_PARTS: [&str; 6] = ["", "-prefill", "-worker", "-leader", "-worker-prefill", "-leader-prefill"];
const PART_NAME: &str = "app.kubernetes.io/name";

/// The label with the name of the `LeaderWorkerSet` of a pod. Its workers are
/// of sets that their leader controls, which is a pod: by references alone,
/// nobody finds the way up once that leader is not read.
pub const LEADER_WORKER_SET: &str = "leaderworkerset.sigs.k8s.io/name";

/// The root owner that a pod's labels name outright: kind and name.
fn named_by_labels(pod: &Pod) -> Option<(&'static str, &String)> {
    let labels = pod.metadata.labels.as_ref()?;
    let one = BY_LABEL.iter().find_map(|(label, kind)| Some((*kind, labels.get(*label)?)));
    let is_llm = || {
        let part = labels.get(COMPONENT).and_then(|component| component.strip_prefix(LLM_COMPONENT));
        part.is_some_and(|part| LLM_PARTS.contains(&part))
    };
    one.or_else(|| Some(("LLMInferenceService", labels.get(PART_NAME).filter(|_| is_llm())?)))
}

/// How many owners one above the other are followed. They form no rings in a
/// sane cluster; eight are more than any has.
const MOST_STEPS: usize = 8;

/// The root owner of a pod: the topmost, whom people know. The ordinal is 0;
/// [`number`] finds it.
#[must_use]
pub fn root(objects: &Objects, pod: &Pod) -> RequestId {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let id = |kind: &str, name: &str| RequestId {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ordinal: 0,
    };
    if let Some((kind, name)) = named_by_labels(pod) {
        return id(kind, name);
    }
    if let Some(name) = leader_worker_set(pod) {
        return topmost(objects, namespace, "LeaderWorkerSet", name);
    }
    match controller(&pod.metadata) {
        Some(owner) => topmost(objects, namespace, &owner.kind, &owner.name),
        None => id("Pod", pod.metadata.name.as_deref().unwrap_or_default()),
    }
}

/// The name of the `LeaderWorkerSet` of a pod, as its label says it.
#[must_use]
pub fn leader_worker_set(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(LEADER_WORKER_SET)
}

/// Who controls an object.
#[must_use]
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Who controls an object of a kind, as far as that is known.
fn above<'a>(objects: &'a Objects, (kind, namespace, name): Named<'_>) -> Option<&'a OwnerReference> {
    let pod = || objects.pods.get(&(namespace.to_owned(), name.to_owned()));
    let of_pod = || if kind == "Pod" { controller(&pod()?.metadata) } else { None };
    objects.owners.get(kind, namespace, name).or_else(of_pod)
}

/// The controllers above a pod, nearest first, and the pod itself before them.
pub(crate) fn chain<'a>(objects: &'a Objects, pod: &'a Pod) -> Vec<Named<'a>> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    // Few have more above them than a set and a workbench.
    let mut chain = Vec::with_capacity(4);
    chain.push(("Pod", namespace, pod.metadata.name.as_deref().unwrap_or_default()));
    let named = |owner: &'a OwnerReference| (owner.kind.as_str(), namespace, owner.name.as_str());
    let by_label = leader_worker_set(pod).map(|name| ("LeaderWorkerSet", namespace, name.as_str()));
    let by_reference = controller(&pod.metadata).map(named);
    for first in [by_reference, by_label] {
        let mut next = first;
        for _ in 0..MOST_STEPS {
            let Some(of) = next.filter(|of| !chain.contains(of)) else { break };
            next = above(objects, of).map(named);
            chain.push(of);
        }
    }
    chain
}

/// Whether the way up from a pod ends, or may end, where it could not be found out who stands above.
pub(crate) fn is_open(objects: &Objects, chain: &[Named<'_>]) -> bool {
    let is_unknown = |(kind, namespace, name): &Named<'_>| {
        let of = ((*kind).to_owned(), ((*namespace).to_owned(), (*name).to_owned()));
        objects.unknown_owners.contains(&of)
    };
    // Nearly always nothing is unknown, and nobody makes names for nothing.
    !objects.unknown_owners.is_empty() && chain.iter().any(is_unknown)
}

/// Who stands behind an object of this kind and name: the topmost owner. The
/// ordinal is 0.
pub(crate) fn topmost(objects: &Objects, namespace: &str, kind: &str, name: &str) -> RequestId {
    let (mut kind, mut name) = (kind, name);
    let is_workbench = |name: &str| objects.notebooks.contains_key(&(namespace.to_owned(), name.to_owned()));
    for _ in 0..MOST_STEPS {
        // A workbench's StatefulSet has the workbench's name.
        if kind == "StatefulSet" && is_workbench(name) {
            kind = "Notebook";
            break;
        }
        let Some(owner) = above(objects, (kind, namespace, name)) else { break };
        (kind, name) = (&owner.kind, &owner.name);
    }
    RequestId { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), ordinal: 0 }
}

/// The owner of a workload of Kueue. Those of a group of pods do not control
/// it: there the one that is no pod counts. `None` where there is none.
#[must_use]
pub fn of_workload(workload: &Workload) -> Option<&OwnerReference> {
    let mut owners = workload.metadata.owner_references.iter();
    workload.metadata.controller().or_else(|| owners.find(|owner| owner.kind != "Pod"))
}

/// Who stands behind a workload of Kueue that has an owner: the topmost. Its pods are requests of this one.
#[must_use]
pub fn behind(objects: &Objects, workload: &Workload) -> Option<RequestId> {
    let namespace = workload.metadata.namespace.as_deref().unwrap_or_default();
    of_workload(workload).map(|owner| topmost(objects, namespace, &owner.kind, &owner.name))
}

/// Kinds that make pods, or whose pods are known to be theirs although others
/// make them. Other kinds may wrap anything, and a pod leads to none of them.
const MAKERS: [&str; 15] = [
    "Job",
    "JobSet",
    "JAXJob",
    "LeaderWorkerSet",
    "MPIJob",
    "PaddleJob",
    "Pod",
    "PyTorchJob",
    "RayCluster",
    "RayJob",
    "RayService",
    "StatefulSet",
    "TFJob",
    "TrainJob",
    "XGBoostJob",
];

/// Whether pods of an owner of this kind, such as the one of a workload of Kueue, are known to be its own.
pub(crate) fn leads_to_pods(kind: &str) -> bool {
    MAKERS.contains(&kind)
}

/// The number of a pod among the pods of its root owner, where it has one of
/// its own: a set gives its pods numbers, and so does a workbench's. Whoever
/// stands above sets may have several, each with a pod of every number: such
/// pods, and those whose names are random, have none.
#[must_use]
pub fn number(pod: &Pod, root: &RequestId) -> Option<u32> {
    let is_its_own = || {
        root.kind == "Notebook"
            || controller(&pod.metadata)
                .is_some_and(|owner| owner.kind == root.kind && owner.name == root.name)
    };
    ordinal(pod).filter(|_| is_its_own())
}

/// The number in the name or label of a pod of a set; `None` for pods whose
/// names are random.
#[must_use]
pub fn ordinal(pod: &Pod) -> Option<u32> {
    let labels = pod.metadata.labels.as_ref();
    let by_label = ["apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"]
        .iter()
        .find_map(|label| labels?.get(*label)?.parse().ok());
    let of_set = || {
        let stateful = controller(&pod.metadata).is_some_and(|owner| owner.kind == "StatefulSet")
            || labels.is_some_and(|labels| labels.contains_key("statefulset"));
        let (_, number) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
        stateful.then(|| number.parse().ok())?
    };
    by_label.or_else(of_set)
}
