//! A replacement for the notebook controller: a StatefulSet for each Notebook, the stop annotation, the
//! restart annotation, culling, the mirror of the pod's conditions, and what is said on the pod once more.
//! Pure: [`Book`] has the observed state, [`Book::due`] returns the resulting writes; the StatefulSet controller,
//! which is real, creates the pod.

use std::collections::BTreeMap;

use api::foreign::HardwareProfile;
use api::foreign::notebook::STOPPED;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::DynamicObject;
use operands::PodName;
use serde_json::{Value, json};

use crate::names::{digest, name_of};
use crate::node_object::whole_seconds;
use crate::reissued::Reissued;
use crate::resource_version::version;
use workbenches::profile::{newest, review};

/// On a StatefulSet: from what its template was made.
const TEMPLATE: &str = "sim.slicewright.io/template";
const RESTART: &str = "notebooks.opendatahub.io/notebook-restart";
const CHECKED: &str = "notebooks.kubeflow.org/last_activity_check_timestamp";
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    CreateSet(Box<StatefulSet>),
    /// A merge patch.
    PatchSet(PodName, Value),
    PatchNotebook(PodName, Value),
    /// With the digest of what it was made of.
    PatchStatus(PodName, Value, String),
    DeletePod(PodName),
    /// What the event of this name says, on the Notebook.
    Reissue(PodName, Box<Event>),
}

/// What the webhook makes of a Notebook.
#[derive(Clone)]
struct Injected {
    /// The pod's spec.
    spec: Value,
    /// The local queue, for the label.
    queue: Option<String>,
}

/// Culling, as its ConfigMap says; off without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Culling {
    /// After how long without activity; nothing while it is off.
    pub(crate) idle: Option<SignedDuration>,
}

impl Culling {
    /// Reads the data of `notebook-controller-culler-config`.
    pub(crate) fn from_data(data: &BTreeMap<String, String>) -> Self {
        let on = data.get("ENABLE_CULLING").is_some_and(|value| value == "true");
        let minutes = data.get("CULL_IDLE_TIME").and_then(|value| value.parse().ok()).unwrap_or(1440);
        Self { idle: on.then(|| SignedDuration::from_mins(minutes)) }
    }
}

/// What was seen of workbenches.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) notebooks: BTreeMap<PodName, DynamicObject>,
    pub(crate) sets: BTreeMap<PodName, StatefulSet>,
    pub(crate) pods: BTreeMap<PodName, Pod>,
    pub(crate) profiles: BTreeMap<PodName, HardwareProfile>,
    pub(crate) culling: Culling,
    /// What the webhook made of each Notebook when it was last written.
    injected: BTreeMap<PodName, (String, Injected)>,
    /// Since when each Notebook's pod runs, in virtual time: nobody works in
    /// these notebooks.
    idle_since: BTreeMap<PodName, Timestamp>,
    /// Of what the status of each Notebook was made when it was last written.
    reconciled: BTreeMap<PodName, String>,
    pub(crate) reissued: Reissued,
}

/// Takes an object in unless it is older than the one that is there.
pub(crate) fn take<K: kube::Resource>(shelf: &mut BTreeMap<PodName, K>, name: PodName, object: K) {
    let newer =
        |old: &K| version(object.meta()) >= version(old.meta()) || object.meta().uid != old.meta().uid;
    if shelf.get(&name).is_none_or(newer) {
        shelf.insert(name, object);
    }
}

impl Book {
    /// The writes that are due.
    pub(crate) fn due(&mut self, now: Timestamp, real_now: Timestamp) -> Vec<Write> {
        let mut due = Vec::new();
        self.injected.retain(|name, _| self.notebooks.contains_key(name));
        self.idle_since.retain(|name, _| self.notebooks.contains_key(name));
        self.reconciled.retain(|name, _| self.notebooks.contains_key(name));
        for name in self.notebooks.keys().cloned().collect::<Vec<_>>() {
            self.set_due(&name, &mut due);
            self.status_due(&name, real_now, &mut due);
            self.restart_due(&name, &mut due);
            self.cull_due(&name, now, real_now, &mut due);
        }
        let said_again = self.reissued.due(&self.notebooks, &self.pods, real_now);
        due.extend(said_again.map(|(of, event)| Write::Reissue(of, Box::new(event))));
        due
    }

    /// An event of a pod or a set came.
    pub(crate) fn heard(&mut self, event: Event) {
        self.reissued.heard(event, &self.notebooks, &self.pods);
    }

    /// The status of a Notebook was written.
    pub(crate) fn reconciled(&mut self, name: PodName, of: String) {
        self.reconciled.insert(name, of);
    }

    /// When something is due without anybody writing, in virtual time.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        let idle = self.culling.idle?;
        self.idle_since.values().map(|since| *since + idle).min()
    }

    fn set_due(&mut self, name: &PodName, due: &mut Vec<Write>) {
        let Some((digest, injected)) = self.injection(name) else { return };
        let object = &self.notebooks[name];
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        let stopped = annotation(object, STOPPED).is_some();
        let replicas = i32::from(!stopped);
        match self.sets.get(&set_name(name)) {
            None => due.push(Write::CreateSet(Box::new(set(object, replicas, &digest, &injected)))),
            Some(have) => {
                let mut patch = json!({});
                let spec = have.spec.as_ref();
                if spec.and_then(|spec| spec.replicas) != Some(replicas) {
                    patch["spec"]["replicas"] = json!(replicas);
                }
                if have.metadata.annotations.as_ref().and_then(|a| a.get(TEMPLATE)) != Some(&digest) {
                    patch["metadata"]["annotations"][TEMPLATE] = json!(digest);
                    patch["spec"]["template"]["spec"] = injected.spec;
                }
                if patch != json!({}) {
                    due.push(Write::PatchSet(set_name(name), patch));
                }
            }
        }
    }

    /// What the webhook made of the Notebook when it was last written, with a
    /// digest. Nothing when the webhook would have refused it.
    fn injection(&mut self, name: &PodName) -> Option<(String, Injected)> {
        let object = self.notebooks.get(name)?;
        let written = written(object);
        if self.injected.get(name).is_none_or(|(at, _)| *at != written) {
            let find = |namespace: &str, profile: &str| {
                self.profiles.get(&PodName::new(namespace, profile)).cloned()
            };
            let injected = match review(newest(), serde_json::to_value(object).ok()?, None, find) {
                Ok(reviewed) => Injected {
                    spec: reviewed.notebook["spec"]["template"]["spec"].clone(),
                    queue: reviewed.notebook["metadata"]["labels"][QUEUE].as_str().map(str::to_owned),
                },
                // A stale reference is let through; a new one is not.
                Err(_) => self.injected.get(name).map(|(_, before)| before.clone())?,
            };
            self.injected.insert(name.clone(), (written, injected));
        }
        let (_, injected) = &self.injected[name];
        Some((digest(&injected.spec.to_string()), injected.clone()))
    }

    /// The controller writes the status whenever it looks at a workbench, also where nothing of it has changed: then
    /// only the time is another one. It looks when the Notebook, its set or its pod changes.
    fn status_due(&self, name: &PodName, real_now: Timestamp, due: &mut Vec<Write>) {
        let pod = self.pods.get(&pod_name(name));
        let Some(set) = self.sets.get(&set_name(name)) else { return };
        let object = &self.notebooks[name];
        let versions = [pod.map(|pod| version(&pod.metadata)), Some(version(&set.metadata))];
        let looked_at = digest(&json!([written(object), versions]).to_string());
        if self.reconciled.get(name) == Some(&looked_at) {
            return;
        }
        let wanted = mirrored(&name.name, pod, set, &whole_seconds(real_now));
        let mut patch = json!({ "status": wanted });
        for state in ["waiting", "running", "terminated"] {
            // A merge patch keeps what it does not name.
            let said = wanted["containerState"].get(state).cloned();
            patch["status"]["containerState"][state] = said.unwrap_or(Value::Null);
        }
        due.push(Write::PatchStatus(name.clone(), patch, looked_at));
    }

    fn restart_due(&self, name: &PodName, due: &mut Vec<Write>) {
        if annotation(&self.notebooks[name], RESTART) != Some("true") {
            return;
        }
        if self.pods.contains_key(&pod_name(name)) {
            due.push(Write::DeletePod(pod_name(name)));
        }
        let patch = json!({"metadata": {"annotations": {RESTART: null}}});
        due.push(Write::PatchNotebook(name.clone(), patch));
    }

    fn cull_due(&mut self, name: &PodName, now: Timestamp, real_now: Timestamp, due: &mut Vec<Write>) {
        let running = self.pods.get(&pod_name(name)).is_some_and(|pod| {
            crate::pod_object::phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none()
        });
        let stopped = annotation(&self.notebooks[name], STOPPED).is_some();
        let Some(idle) = self.culling.idle.filter(|_| running && !stopped) else {
            self.idle_since.remove(name);
            return;
        };
        let since = *self.idle_since.entry(name.clone()).or_insert(now);
        if since + idle <= now {
            let at = whole_seconds(real_now);
            let patch = json!({"metadata": {"annotations": {
                STOPPED: at, CHECKED: null, api::foreign::notebook::LAST_ACTIVITY: null}}});
            due.push(Write::PatchNotebook(name.clone(), patch));
        } else if annotation(&self.notebooks[name], CHECKED).is_none() {
            let at = whole_seconds(real_now);
            let patch = json!({"metadata": {"annotations": {
                CHECKED: at, api::foreign::notebook::LAST_ACTIVITY: at}}});
            due.push(Write::PatchNotebook(name.clone(), patch));
        }
    }
}

/// All of a Notebook but its status.
fn written(object: &DynamicObject) -> String {
    json!([object.metadata.annotations, object.metadata.labels, object.data["spec"]]).to_string()
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn pod_name(notebook: &PodName) -> PodName {
    let PodName { namespace, name } = set_name(notebook);
    PodName::new(&namespace, &format!("{name}-0"))
}

/// How long the name of a StatefulSet may be that its pods' labels can carry.
const LONGEST_SET: usize = 52;

/// The StatefulSet of a Notebook has its name. For one that is too long the API
/// server makes one up, which begins with `nb-`; here it is made of the name, so
/// that it is found again.
fn set_name(notebook: &PodName) -> PodName {
    if notebook.name.len() <= LONGEST_SET {
        return notebook.clone();
    }
    let digest = digest(&notebook.name);
    PodName::new(&notebook.namespace, &format!("nb-{}", &digest[..5]))
}

fn set(notebook: &DynamicObject, replicas: i32, digest: &str, injected: &Injected) -> StatefulSet {
    let full = name_of(&notebook.metadata);
    let set_name = set_name(&full).name;
    let PodName { namespace, name } = full;
    let mut labels = notebook.metadata.labels.clone().unwrap_or_default();
    for (key, value) in
        [("notebook-name", &*name), ("statefulset", &*name), ("opendatahub.io/workbenches", "true")]
    {
        labels.insert(key.to_owned(), value.to_owned());
    }
    if let Some(queue) = &injected.queue {
        labels.insert(QUEUE.to_owned(), queue.clone());
    }
    // From the Notebook to the pod go annotations that are not of either's tools.
    let annotations: BTreeMap<&String, &String> = notebook
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| !key.contains("notebook") && !key.contains("kubectl") && *key != STOPPED)
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": set_name, "namespace": namespace, "labels": labels, "annotations": {TEMPLATE: digest},
            "ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": name,
                "uid": notebook.metadata.uid, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "replicas": replicas, "serviceName": set_name, "selector": {"matchLabels": {"statefulset": name}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": injected.spec},
        },
    }))
    .unwrap_or_default()
}

/// The status of a Notebook: its pod's conditions as they are. Where the pod does not say when, it is now.
fn mirrored(name: &str, pod: Option<&Pod>, set: &StatefulSet, now: &str) -> Value {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let conditions: Vec<Value> = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten()
        .map(|condition| {
            let when = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
                time.map_or_else(|| json!(now), |time| json!(time))
            };
            let mut mirror = json!({"type": condition.type_, "status": condition.status,
                "lastProbeTime": when(condition.last_probe_time.as_ref()),
                "lastTransitionTime": when(condition.last_transition_time.as_ref())});
            for (key, text) in [("reason", &condition.reason), ("message", &condition.message)] {
                if let Some(text) = text {
                    mirror[key] = json!(text);
                }
            }
            mirror
        })
        .collect();
    let states = status.and_then(|status| status.container_statuses.as_ref());
    let container = states.into_iter().flatten().find(|container| container.name == name);
    let state = container.and_then(|container| container.state.as_ref()).map_or(json!({}), |s| json!(s));
    let ready = set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    json!({"conditions": conditions, "containerState": state, "readyReplicas": ready})
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-22T08:00:00Z";

    fn at(minutes: i64) -> Timestamp {
        NOW.parse::<Timestamp>().expect("a time") + SignedDuration::from_mins(minutes)
    }

    fn lab() -> PodName {
        PodName::new("a", "lab")
    }

    /// A book with one Notebook, and what the API server makes of its writes.
    struct Desk {
        book: Book,
        version: u64,
    }

    impl Desk {
        fn new(annotations: Value) -> Self {
            let mut desk = Self { book: Book::default(), version: 0 };
            desk.write(&json!({
                "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
                "metadata": {"name": "lab", "namespace": "a", "uid": "n", "annotations": annotations,
                    "labels": {"app": "lab"}},
                "spec": {"template": {"spec": {"containers": [{"name": "lab", "image": "lab:1"}]}}},
            }));
            desk
        }

        fn write(&mut self, notebook: &Value) {
            self.version += 1;
            let mut notebook = notebook.clone();
            notebook["metadata"]["resourceVersion"] = json!(self.version.to_string());
            let object: DynamicObject = serde_json::from_value(notebook).expect("an object");
            take(&mut self.book.notebooks, lab(), object);
        }

        fn annotate(&mut self, key: &str, value: Option<&str>) {
            let mut notebook = serde_json::to_value(&self.book.notebooks[&lab()]).expect("data");
            notebook["metadata"]["annotations"][key] = json!(value);
            if value.is_none() {
                let annotations = notebook["metadata"]["annotations"].as_object_mut().expect("a map");
                annotations.remove(key);
            }
            self.write(&notebook);
        }

        fn pod_runs(&mut self) {
            let pod = json!({
                "metadata": {"name": "lab-0", "namespace": "a", "uid": "p", "resourceVersion": "1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{"name": "lab", "ready": true, "restartCount": 0, "image": "",
                        "imageID": "", "state": {"running": {"startedAt": NOW}}}]},
            });
            self.book.pods.insert(PodName::new("a", "lab-0"), serde_json::from_value(pod).expect("a pod"));
        }

        /// Takes its own StatefulSet in, and the status as it patched it.
        fn settle(&mut self, now: Timestamp) -> Vec<Write> {
            let due = self.book.due(now, now);
            for write in &due {
                match write {
                    Write::CreateSet(set) => drop(self.book.sets.insert(lab(), (**set).clone())),
                    Write::PatchStatus(name, patch, of) => {
                        self.book.reconciled(name.clone(), of.clone());
                        let mut notebook = serde_json::to_value(&self.book.notebooks[&lab()]).expect("data");
                        let mut status = patch["status"].clone();
                        let state = status["containerState"].as_object_mut().expect("a map");
                        state.retain(|_, value| !value.is_null());
                        notebook["status"] = status;
                        self.write(&notebook);
                    }
                    Write::PatchSet(_, patch) => {
                        let set = self.book.sets.get_mut(&lab()).expect("it was made");
                        let replicas = patch["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok());
                        set.spec.get_or_insert_default().replicas = replicas;
                    }
                    Write::PatchNotebook(..) | Write::DeletePod(_) | Write::Reissue(..) => {}
                }
            }
            due
        }
    }

    #[test]
    fn a_notebook_becomes_a_set_whose_pod_has_its_labels_and_its_own_annotations_only() {
        let mut desk = Desk::new(json!({"team": "vision", "notebooks.opendatahub.io/x": "1"}));
        let due = desk.settle(at(0));
        let Some(Write::CreateSet(set)) = due.first() else { panic!("{due:?}") };
        let set = serde_json::to_value(set).expect("data");
        assert_eq!(set["spec"]["replicas"], 1);
        let template = &set["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], json!({"team": "vision"}));
        assert_eq!(
            template["metadata"]["labels"],
            json!({"app": "lab", "notebook-name": "lab", "statefulset": "lab", "opendatahub.io/workbenches": "true"})
        );
        desk.pod_runs();
        let due = desk.settle(at(0));
        assert!(matches!(&due[..], [Write::PatchStatus(..)]), "{due:?}");
        assert_eq!(desk.settle(at(0)), [], "nothing has changed since");
    }

    /// A controller of others that writes without need, to which the operator must not answer with writes.
    #[test]
    fn the_status_is_written_at_each_look_with_the_time_of_it() {
        let mut desk = Desk::new(json!({}));
        desk.pod_runs();
        desk.settle(at(0));
        desk.settle(at(0));
        desk.annotate("notebooks.kubeflow.org/last-activity", Some(NOW));
        let due = desk.settle(at(1));
        let [Write::PatchStatus(_, patch, _)] = &due[..] else { panic!("{due:?}") };
        assert_eq!(patch["status"]["conditions"][0]["lastProbeTime"], "2026-11-22T08:01:00Z");
        assert_eq!(patch["status"]["readyReplicas"], 0);
        assert_eq!(desk.settle(at(2)), []);
    }

    #[test]
    fn what_is_said_on_the_pod_is_said_again_on_the_notebook() {
        let mut desk = Desk::new(json!({}));
        desk.pod_runs();
        desk.settle(at(0));
        desk.settle(at(0));
        let event = json!({"metadata": {"name": "lab-0.1", "namespace": "a", "resourceVersion": "7"},
            "involvedObject": {"kind": "Pod", "namespace": "a", "name": "lab-0"},
            "type": "Normal", "reason": "SliceComing", "message": "n1 is changed for it"});
        desk.book.heard(serde_json::from_value(event).expect("an event"));
        let due = desk.settle(at(1));
        let [Write::Reissue(of, again)] = &due[..] else { panic!("{due:?}") };
        assert_eq!(again.message.as_deref(), Some("Reissued from pod/lab-0: n1 is changed for it"));
        desk.book.reissued.said(of);
        assert_eq!(desk.settle(at(1)), []);
    }

    #[test]
    fn a_long_name_makes_a_set_and_a_pod_with_names_of_their_own() {
        let long = PodName::new("a", &"n".repeat(60));
        let notebook: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": long.name, "namespace": "a", "uid": "n", "resourceVersion": "1"},
            "spec": {"template": {"spec": {"containers": [{"name": long.name}]}}},
        }))
        .expect("an object");
        let mut book = Book::default();
        take(&mut book.notebooks, long.clone(), notebook);
        let due = book.due(at(0), at(0));
        let [Write::CreateSet(set)] = &due[..] else { panic!("{due:?}") };
        let name = set.metadata.name.clone().expect("a name");
        assert!(name.starts_with("nb-") && name.len() == 8, "{name}");
        assert_eq!(set.metadata.labels.as_ref().expect("labels")["notebook-name"], long.name);
        take(&mut book.sets, name_of(&set.metadata), (**set).clone());
        let due = book.due(at(0), at(0));
        assert!(!due.iter().any(|write| matches!(write, Write::CreateSet(_))), "it is found again: {due:?}");
        assert_eq!(pod_name(&long).name, format!("{name}-0"));
    }

    #[test]
    fn the_stop_annotation_scales_the_set_and_a_restart_deletes_the_pod() {
        let mut desk = Desk::new(json!({}));
        desk.pod_runs();
        desk.settle(at(0));
        desk.settle(at(0));
        desk.annotate(STOPPED, Some(NOW));
        let due = desk.settle(at(1));
        assert!(due.contains(&Write::PatchSet(lab(), json!({"spec": {"replicas": 0}}))), "{due:?}");
        desk.annotate(STOPPED, None);
        let due = desk.settle(at(2));
        assert!(due.contains(&Write::PatchSet(lab(), json!({"spec": {"replicas": 1}}))), "{due:?}");
        desk.annotate(RESTART, Some("true"));
        let due = desk.settle(at(3));
        assert!(due.contains(&Write::DeletePod(PodName::new("a", "lab-0"))), "{due:?}");
    }

    #[test]
    fn a_profile_that_is_missing_leaves_a_new_notebook_without_a_pod_and_a_later_one_changes_nothing() {
        let named = json!({api::foreign::notebook::PROFILE_NAME: "slice"});
        let mut desk = Desk::new(named);
        assert_eq!(desk.settle(at(0)), []);
        let profile = |count: &str| -> HardwareProfile {
            serde_json::from_value(json!({"spec": {"identifiers": [
                {"identifier": "cpu", "displayName": "cpu", "defaultCount": count}]}}))
            .expect("a profile")
        };
        desk.book.profiles.insert(PodName::new("a", "slice"), profile("1"));
        assert!(matches!(&desk.settle(at(0))[..], [Write::CreateSet(_), ..]));
        desk.settle(at(0));
        desk.book.profiles.insert(PodName::new("a", "slice"), profile("2"));
        assert_eq!(desk.settle(at(0)), [], "only a write to the Notebook asks the webhook again");
        desk.annotate("touched", Some("yes"));
        let due = desk.settle(at(0));
        assert!(
            matches!(&due[..], [Write::PatchSet(..), Write::PatchStatus(..)]),
            "which then restarts it: {due:?}"
        );
    }

    #[test]
    fn culling_stops_what_nobody_used_and_only_when_it_is_on() {
        let mut desk = Desk::new(json!({}));
        desk.pod_runs();
        desk.settle(at(0));
        desk.settle(at(0));
        assert_eq!(desk.book.next_event(), None);
        let data = [("ENABLE_CULLING", "true"), ("CULL_IDLE_TIME", "30")];
        desk.book.culling =
            Culling::from_data(&data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        desk.settle(at(10));
        assert_eq!(desk.book.next_event(), Some(at(40)));
        let stops = |due: &[Write]| {
            due.iter().any(|write| {
                matches!(write, Write::PatchNotebook(_, patch)
                if patch["metadata"]["annotations"][STOPPED].is_string())
            })
        };
        assert!(!stops(&desk.settle(at(39))));
        assert!(stops(&desk.settle(at(40))));
    }
}
