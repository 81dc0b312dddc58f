//! The owner of a pod: the root owner, and the ordinal of the pod among its pods.

use k8s_openapi::api::core::v1::Pod;
use planner::names::RequestId;

use crate::objects::{Key, Objects};

/// Labels that name the root owner outright, with its kind.
const BY_LABEL: [(&str, &str); 2] =
    [("notebook-name", "Notebook"), ("serving.kserve.io/inferenceservice", "InferenceService")];

/// What the pods of an `LLMInferenceService` have as their component; its name
/// is then in another label, which many other pods have, too.
const COMPONENT: &str = "app.kubernetes.io/component";
const LLM_COMPONENT: &str = "llminferenceservice-workload";
const PART_NAME: &str = "app.kubernetes.io/name";

/// The root owner that a pod's labels name outright: kind and name.
fn named_by_labels(pod: &Pod) -> Option<(&'static str, &String)> {
    let labels = pod.metadata.labels.as_ref()?;
    let one = BY_LABEL.iter().find_map(|(label, kind)| Some((*kind, labels.get(*label)?)));
    let is_llm = || labels.get(COMPONENT).is_some_and(|component| component == LLM_COMPONENT);
    one.or_else(|| Some(("LLMInferenceService", labels.get(PART_NAME).filter(|_| is_llm())?)))
}

/// How many owners one above the other are followed. They form no rings in a
/// sane cluster; eight are more than any has.
const MOST_STEPS: usize = 8;

/// The root owner of a pod: the topmost, except that pods which a `Job` or a
/// `StatefulSet` numbers belong to it and not to what is above, since that may
/// have several, each with a pod of every number (a `JobSet`, say). A
/// workbench has one. The ordinal is 0; [`ordinal`] finds it.
#[must_use]
pub fn root(objects: &Objects, pod: &Pod) -> RequestId {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let id = |kind: &str, name: &str| RequestId {
        kind: kind.to_owned(),
        namespace: namespace.clone(),
        name: name.to_owned(),
        ordinal: 0,
    };
    if let Some((kind, name)) = named_by_labels(pod) {
        return id(kind, name);
    }
    let own_name = pod.metadata.name.clone().unwrap_or_default();
    let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    let Some(controller) = controller else { return id("Pod", &own_name) };
    let (mut kind, mut name) = (controller.kind.clone(), controller.name.clone());
    let is_numbered = ordinal(pod).is_some();
    for _ in 0..MOST_STEPS {
        // A workbench's StatefulSet has the workbench's name.
        let key: Key = (namespace.clone(), name.clone());
        if kind == "StatefulSet" && objects.notebooks.contains_key(&key) {
            return id("Notebook", &name);
        }
        if is_numbered && matches!(kind.as_str(), "Job" | "StatefulSet") {
            break;
        }
        match objects.owners.get(&(kind.clone(), key)) {
            Some(owner) => (kind, name) = (owner.kind.clone(), owner.name.clone()),
            None => break,
        }
    }
    id(&kind, &name)
}

/// The controllers above a pod, nearest first, and the pod itself before them:
/// kind, namespace and name.
pub(crate) fn chain(objects: &Objects, pod: &Pod) -> Vec<(String, Key)> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let own_name = pod.metadata.name.clone().unwrap_or_default();
    let mut chain = vec![("Pod".to_owned(), (namespace.clone(), own_name))];
    let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    let mut above = controller.cloned();
    while let Some(owner) = above.filter(|_| chain.len() <= MOST_STEPS) {
        let of = (owner.kind, (namespace.clone(), owner.name));
        above = objects.owners.get(&of).cloned();
        chain.push(of);
    }
    chain
}

/// Who stands behind an object of this kind and name: the topmost owner. The
/// ordinal is 0.
pub(crate) fn topmost(objects: &Objects, namespace: &str, kind: &str, name: &str) -> RequestId {
    let (mut kind, mut name) = (kind.to_owned(), name.to_owned());
    for _ in 0..MOST_STEPS {
        let key: Key = (namespace.to_owned(), name.clone());
        // A workbench's StatefulSet has the workbench's name.
        if kind == "StatefulSet" && objects.notebooks.contains_key(&key) {
            kind = "Notebook".to_owned();
            break;
        }
        match objects.owners.get(&(kind.clone(), key)) {
            Some(owner) => (kind, name) = (owner.kind.clone(), owner.name.clone()),
            None => break,
        }
    }
    RequestId { kind, namespace: namespace.to_owned(), name, ordinal: 0 }
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
        let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let stateful = controller.is_some_and(|o| o.kind == "StatefulSet")
            || labels.is_some_and(|labels| labels.contains_key("statefulset"));
        let (_, number) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
        stateful.then(|| number.parse().ok())?
    };
    by_label.or_else(of_set)
}
