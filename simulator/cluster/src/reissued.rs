//! The notebook controller says on a Notebook what is said on its pod and its StatefulSet: with the same type and
//! reason, and "Reissued from pod/NAME:" before the message. It does so for whoever said it, also for us. Pure:
//! [`Reissued`] has what is due, and `openshift_ai` says it.
//!
//! Left out: what the controller's library does with many of them (it holds back from the twenty-sixth on, and puts
//! similar ones together).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube::core::DynamicObject;
use operands::PodName;
use serde_json::json;

use crate::names::{digest, name_of};
use crate::node_object::whole_seconds;

/// What is still to be said again.
#[derive(Default)]
pub(crate) struct Reissued {
    /// In which version each event was taken in: a watch that begins anew shows all of them again.
    taken: BTreeMap<PodName, String>,
    due: BTreeMap<PodName, core::Event>,
}

impl Reissued {
    /// An event of a pod or a set came, or came again. Who is no workbench is passed over, as by the controller.
    pub(crate) fn heard(
        &mut self,
        event: core::Event,
        notebooks: &BTreeMap<PodName, DynamicObject>,
        pods: &BTreeMap<PodName, core::Pod>,
    ) {
        let of = name_of(&event.metadata);
        let Some(notebook) = notebook_of(&event, pods) else { return };
        let version = event.metadata.resource_version.clone().unwrap_or_default();
        if notebooks.contains_key(&notebook)
            && self.taken.insert(of.clone(), version.clone()) != Some(version)
        {
            self.due.insert(of, event);
        }
    }

    /// An event has expired.
    pub(crate) fn expired(&mut self, of: &PodName) {
        self.taken.remove(of);
        self.due.remove(of);
    }

    /// One was said again.
    pub(crate) fn said(&mut self, of: &PodName) {
        self.due.remove(of);
    }

    /// What is to be said, with what it repeats.
    pub(crate) fn due<'a>(
        &'a self,
        notebooks: &'a BTreeMap<PodName, DynamicObject>,
        pods: &'a BTreeMap<PodName, core::Pod>,
        now: Timestamp,
    ) -> impl Iterator<Item = (PodName, core::Event)> + 'a {
        self.due.iter().filter_map(move |(of, event)| {
            let notebook = notebooks.get(&notebook_of(event, pods)?)?;
            Some((of.clone(), again(event, notebook, now)))
        })
    }
}

/// The workbench that an event is about: a set has its name, and a pod a label with it.
fn notebook_of(event: &core::Event, pods: &BTreeMap<PodName, core::Pod>) -> Option<PodName> {
    let about = &event.involved_object;
    let namespace = about.namespace.as_deref()?;
    let name = about.name.as_deref()?;
    match about.kind.as_deref()? {
        "StatefulSet" => Some(PodName::new(namespace, name)),
        "Pod" => {
            let label = |pod: &core::Pod| pod.metadata.labels.as_ref()?.get("notebook-name").cloned();
            // A pod that was not seen yet is named after its set.
            let found = pods.get(&PodName::new(namespace, name)).and_then(label);
            let notebook = found.or_else(|| Some(name.strip_suffix("-0")?.to_owned()))?;
            Some(PodName::new(namespace, &notebook))
        }
        _ => None,
    }
}

/// The same event on the Notebook. What is the same has one name, under which it is counted.
fn again(event: &core::Event, notebook: &DynamicObject, now: Timestamp) -> core::Event {
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default().to_lowercase();
    let from = about.name.as_deref().unwrap_or_default();
    let message = format!("Reissued from {kind}/{from}: {}", event.message.as_deref().unwrap_or_default());
    let PodName { namespace, name } = name_of(&notebook.metadata);
    let same = digest(&json!([event.type_, event.reason, message, notebook.metadata.uid]).to_string());
    let at = whole_seconds(now);
    serde_json::from_value(json!({
        "metadata": {"name": format!("{name}.{same}"), "namespace": namespace},
        "involvedObject": {"apiVersion": "kubeflow.org/v1beta1", "kind": "Notebook", "namespace": namespace,
            "name": name, "uid": notebook.metadata.uid},
        "type": event.type_, "reason": event.reason, "message": message,
        "source": {"component": "notebook-controller"},
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    }))
    .expect("an event is built from the parts of one")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_795_000_000 + seconds).expect("a time")
    }

    fn event(version: u32, kind: &str, name: &str, reason: &str) -> core::Event {
        serde_json::from_value(json!({
            "metadata": {"name": format!("{name}.1"), "namespace": "a", "resourceVersion": version.to_string()},
            "involvedObject": {"kind": kind, "namespace": "a", "name": name},
            "type": "Normal", "reason": reason, "message": "n1 is changed for it",
        }))
        .expect("an event")
    }

    /// Two workbenches; the pod of one has been seen.
    fn workbenches() -> (BTreeMap<PodName, DynamicObject>, BTreeMap<PodName, core::Pod>) {
        let notebook = |name: &str| -> DynamicObject {
            serde_json::from_value(json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
                "metadata": {"name": name, "namespace": "a", "uid": name}}))
            .expect("an object")
        };
        let long = "n".repeat(60);
        let pod =
            json!({"metadata": {"name": "nb-12345-0", "namespace": "a", "labels": {"notebook-name": long}}});
        let notebooks = ["lab", &long].map(|name| (PodName::new("a", name), notebook(name)));
        let pod = serde_json::from_value(pod).expect("a pod");
        (notebooks.into(), [(PodName::new("a", "nb-12345-0"), pod)].into())
    }

    fn due(reissued: &Reissued, now: i64) -> Vec<Value> {
        let (notebooks, pods) = workbenches();
        reissued.due(&notebooks, &pods, at(now)).map(|(_, event)| json!(event)).collect()
    }

    fn hear(reissued: &mut Reissued, event: core::Event) {
        let (notebooks, pods) = workbenches();
        reissued.heard(event, &notebooks, &pods);
    }

    #[test]
    fn what_is_said_on_pod_and_set_is_said_again_on_the_workbench_and_of_others_nothing() {
        let mut reissued = Reissued::default();
        hear(&mut reissued, event(1, "Pod", "lab-0", "SliceComing"));
        hear(&mut reissued, event(2, "StatefulSet", "lab", "FailedCreate"));
        hear(&mut reissued, event(3, "Pod", "nb-12345-0", "Scheduled"));
        hear(&mut reissued, event(4, "Pod", "web-5f9c-x7x2p", "Scheduled"));
        hear(&mut reissued, event(5, "StatefulSet", "postgres", "SuccessfulCreate"));
        let said: Vec<_> = due(&reissued, 0)
            .iter()
            .map(|event| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                assert_eq!(event["involvedObject"]["kind"], "Notebook");
                (text(&event["involvedObject"]["name"]), text(&event["reason"]), text(&event["message"]))
            })
            .collect();
        let line = |of: &str| format!("Reissued from {of}: n1 is changed for it");
        let expected = [
            ("lab".to_owned(), "SliceComing".to_owned(), line("pod/lab-0")),
            ("lab".to_owned(), "FailedCreate".to_owned(), line("statefulset/lab")),
            ("n".repeat(60), "Scheduled".to_owned(), line("pod/nb-12345-0")),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn it_is_said_once_for_each_version_and_under_one_name() {
        let mut reissued = Reissued::default();
        let lab = PodName::new("a", "lab-0.1");
        hear(&mut reissued, event(1, "Pod", "lab-0", "SliceComing"));
        let first = due(&reissued, 0);
        reissued.said(&lab);
        hear(&mut reissued, event(1, "Pod", "lab-0", "SliceComing"));
        assert!(due(&reissued, 1).is_empty(), "the watch began anew");
        hear(&mut reissued, event(2, "Pod", "lab-0", "SliceComing"));
        let again = due(&reissued, 60);
        assert_eq!(again[0]["metadata"]["name"], first[0]["metadata"]["name"]);
        assert_ne!(again[0]["lastTimestamp"], first[0]["lastTimestamp"]);
        reissued.expired(&lab);
        assert!(due(&reissued, 61).is_empty());
    }
}
