//! The effects of the notebook controller and the StatefulSet controller on a Notebook: its pod, the pod's
//! end, and the mirror of the pod's conditions.

use std::collections::BTreeMap;

use api::foreign::notebook::{LOCK, STOPPED};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::store::{Revision, Shelf, path};

/// What has to be done about the pod of one Notebook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// It has to come.
    Create(Box<Pod>),
    /// It has to go.
    Delete(String),
}

/// The key of a Notebook's pod.
pub(crate) fn pod_key(namespace: &str, name: &str) -> String {
    path(namespace, &format!("{name}-0"))
}

/// Whether a Notebook is stopped. The lock of its controller, which a new one has, is over here as soon as it is there.
pub(crate) fn is_stopped(notebook: &DynamicObject) -> bool {
    let says = notebook.metadata.annotations.as_ref().and_then(|annotations| annotations.get(STOPPED));
    says.is_some_and(|says| says != LOCK)
}

/// The next step for every Notebook whose pod is not as it should be, and for
/// pods whose Notebook is gone.
pub(crate) fn steps(notebooks: &Shelf<DynamicObject>, pods: &Shelf<Pod>) -> Vec<Step> {
    let mut steps = Vec::new();
    for notebook in notebooks.values() {
        let (namespace, name) = names(notebook);
        let key = pod_key(namespace, name);
        let pod = pods.get(&key);
        let going = pod.is_some_and(|p| p.metadata.deletion_timestamp.is_some());
        let over = pod.is_some_and(crate::asks::is_over);
        match (pod, is_stopped(notebook)) {
            (None, false) => steps.extend(pod_of(notebook).map(|pod| Step::Create(Box::new(pod)))),
            // A StatefulSet replaces a pod that is over.
            (Some(_), stopped) if (stopped || over) && !going => steps.push(Step::Delete(key)),
            _ => {}
        }
    }
    for (key, pod) in pods.iter() {
        let owner = pod.metadata.labels.as_ref().and_then(|l| l.get("notebook-name"));
        let orphan = owner.is_some_and(|name| {
            notebooks.get(&path(pod.metadata.namespace.as_deref().unwrap_or_default(), name)).is_none()
        });
        if orphan && pod.metadata.deletion_timestamp.is_none() {
            steps.push(Step::Delete(key.to_owned()));
        }
    }
    steps
}

/// Writes the pods' conditions into the Notebooks, as they are.
pub(crate) fn mirror(notebooks: &mut Shelf<DynamicObject>, pods: &Shelf<Pod>, revision: &mut Revision) {
    for key in notebooks.keys() {
        let Some(notebook) = notebooks.get(&key) else { continue };
        let (namespace, name) = names(notebook);
        let status = pods.get(&pod_key(namespace, name)).and_then(|p| p.status.clone());
        let status = mirrored(&status.unwrap_or_default());
        notebooks.edit(&key, revision, |n| n.data["status"] = status);
    }
}

fn mirrored(status: &PodStatus) -> Value {
    let conditions = status.conditions.clone().unwrap_or_default();
    let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
    json!({"readyReplicas": i32::from(ready), "containerState": {}, "conditions": conditions})
}

fn names(notebook: &DynamicObject) -> (&str, &str) {
    let meta = &notebook.metadata;
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The pod of a Notebook; `None` when its template is not one.
fn pod_of(notebook: &DynamicObject) -> Option<Pod> {
    let (namespace, name) = names(notebook);
    let template = &notebook.data["spec"]["template"];
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": template.get("metadata").cloned().unwrap_or_else(|| json!({})),
        "spec": template["spec"],
    }))
    .ok()?;
    let meta = &mut pod.metadata;
    meta.namespace = Some(namespace.to_owned());
    meta.name = Some(format!("{name}-0"));
    let mut labels = notebook.metadata.labels.clone().unwrap_or_default();
    labels.extend(
        [("notebook-name", name), ("statefulset", name), ("opendatahub.io/workbenches", "true")]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    meta.labels.get_or_insert_default().extend(labels);
    let copied = |(key, value): (&String, &String)| {
        let is_own = key.contains("notebook") || key.contains("kubectl") || key == STOPPED;
        (!is_own).then(|| (key.clone(), value.clone()))
    };
    let annotations: BTreeMap<_, _> =
        notebook.metadata.annotations.iter().flatten().filter_map(copied).collect();
    meta.annotations.get_or_insert_default().extend(annotations);
    meta.owner_references = Some(vec![OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "StatefulSet".to_owned(),
        name: name.to_owned(),
        uid: format!("{}-set", notebook.metadata.uid.as_deref().unwrap_or_default()),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    Some(pod)
}

/// Stops a Notebook, as the dashboard and the culler do.
pub(crate) fn stop(notebook: &mut DynamicObject, now: Timestamp) {
    notebook.metadata.annotations.get_or_insert_default().insert(STOPPED.to_owned(), now.to_string());
}

/// Starts it again.
pub(crate) fn start(notebook: &mut DynamicObject) {
    notebook.metadata.annotations.get_or_insert_default().remove(STOPPED);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "lab", "namespace": "a", "labels": {"team": "blue"}, "annotations": {
                "opendatahub.io/user": "alice", "notebooks.opendatahub.io/inject-auth": "true"}},
            "spec": {"template": {"spec": {"containers": [{"name": "lab"}]}}},
        }))
        .expect("an object")
    }

    fn shelves(notebook: Option<DynamicObject>, pod: Option<Pod>) -> (Shelf<DynamicObject>, Shelf<Pod>) {
        let (mut notebooks, mut pods, mut revision) =
            (Shelf::default(), Shelf::default(), Revision::default());
        notebook.into_iter().for_each(|n| notebooks.put(n, Timestamp::UNIX_EPOCH, &mut revision));
        pod.into_iter().for_each(|p| pods.put(p, Timestamp::UNIX_EPOCH, &mut revision));
        (notebooks, pods)
    }

    #[test]
    fn a_notebook_gets_one_pod_with_its_labels_and_without_its_own_annotations() {
        let (notebooks, pods) = shelves(Some(lab()), None);
        let [Step::Create(pod)] = &steps(&notebooks, &pods)[..] else { panic!("it has no pod yet") };
        assert_eq!(pod.metadata.name.as_deref(), Some("lab-0"));
        assert_eq!(pod.metadata.labels.as_ref().expect("labels")["notebook-name"], "lab");
        assert_eq!(pod.metadata.labels.as_ref().expect("labels")["team"], "blue");
        let keys: Vec<_> = pod.metadata.annotations.iter().flatten().map(|(k, _)| k.as_str()).collect();
        assert_eq!(keys, ["opendatahub.io/user"]);
        let (notebooks, pods) = shelves(Some(lab()), Some((**pod).clone()));
        assert_eq!(steps(&notebooks, &pods), []);
    }

    #[test]
    fn a_locked_one_gets_its_pod_since_nobody_stopped_it() {
        let mut locked = lab();
        locked.metadata.annotations.get_or_insert_default().insert(STOPPED.to_owned(), LOCK.to_owned());
        let (notebooks, pods) = shelves(Some(locked), None);
        let [Step::Create(pod)] = &steps(&notebooks, &pods)[..] else { panic!("it is to run") };
        assert!(!pod.metadata.annotations.as_ref().expect("some").contains_key(STOPPED));
    }

    #[test]
    fn a_stopped_one_loses_its_pod_and_a_deleted_one_too() {
        let pod = pod_of(&lab()).expect("the template is one");
        let mut stopped = lab();
        stop(&mut stopped, Timestamp::UNIX_EPOCH);
        let delete = [Step::Delete("a/lab-0".to_owned())];
        let (notebooks, pods) = shelves(Some(stopped.clone()), Some(pod.clone()));
        assert_eq!(steps(&notebooks, &pods), delete);
        let (notebooks, pods) = shelves(None, Some(pod));
        assert_eq!(steps(&notebooks, &pods), delete);
        start(&mut stopped);
        assert!(!is_stopped(&stopped));
    }
}
