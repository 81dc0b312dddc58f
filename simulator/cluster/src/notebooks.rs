//! A replacement for both notebook controllers: a StatefulSet for each Notebook, the stop annotation and the lock, the
//! restart annotation, culling, the mirror of the pod's conditions, and what is said on the pod once more.
//! Pure: [`Book`] has the observed state, [`Book::due`] returns the resulting writes; the StatefulSet controller,
//! which is real, creates the pod.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::HardwareProfile;
use api::foreign::notebook::{LOCK, STOPPED};
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
use workbenches::profile::{Workload, newest, review};

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

/// A Notebook as it was written last, and what the webhook made of it. The real webhook stores what it makes, so that
/// the next writer changes that; this one leaves the Notebook as it was written, and keeps here what would be stored.
struct Injected {
    written: String,
    plain: Value,
    stored: Value,
}

impl Injected {
    /// The pod's spec.
    fn spec(&self) -> &Value {
        &self.stored["spec"]["template"]["spec"]
    }

    /// What is stored when the Notebook is written as it is now.
    fn with_what_changed(&self, now: &Value) -> Value {
        carried(Some(&self.plain), Some(&self.stored), Some(now)).unwrap_or_default()
    }

    /// The local queue, for the label.
    fn queue(&self) -> Option<&str> {
        self.stored["metadata"]["labels"][QUEUE].as_str()
    }
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
    injected: BTreeMap<PodName, Injected>,
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
            self.unlock_due(&name, &mut due);
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
        self.review(name);
        let Some(injected) = self.injected.get(name) else { return };
        let digest = digest(&injected.spec().to_string());
        let object = &self.notebooks[name];
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        // Whatever it says: the lock, too.
        let stopped = annotation(object, STOPPED).is_some();
        let replicas = i32::from(!stopped);
        match self.sets.get(&set_name(name)) {
            None => due.push(Write::CreateSet(Box::new(set(object, replicas, &digest, injected)))),
            Some(have) => {
                let mut patch = json!({});
                let spec = have.spec.as_ref();
                if spec.and_then(|spec| spec.replicas) != Some(replicas) {
                    patch["spec"]["replicas"] = json!(replicas);
                }
                if have.metadata.annotations.as_ref().and_then(|a| a.get(TEMPLATE)) != Some(&digest) {
                    patch["metadata"]["annotations"][TEMPLATE] = json!(digest);
                    patch["spec"]["template"]["spec"] = injected.spec().clone();
                }
                if patch != json!({}) {
                    due.push(Write::PatchSet(set_name(name), patch));
                }
            }
        }
    }

    /// Asks the webhook what it makes of a Notebook that was written. One that it refuses is as it was before: such a
    /// write would not have been stored.
    fn review(&mut self, name: &PodName) {
        let Some(object) = self.notebooks.get(name) else { return };
        let written = written(object);
        // Another of the same name begins anew.
        let uid = json!(object.metadata.uid);
        let before = self.injected.get(name).filter(|before| before.plain["metadata"]["uid"] == uid);
        if before.is_some_and(|before| before.written == written) {
            return;
        }
        let Ok(plain) = serde_json::to_value(object) else { return };
        let find =
            |namespace: &str, profile: &str| self.profiles.get(&PodName::new(namespace, profile)).cloned();
        let asked = before.map_or_else(|| plain.clone(), |before| before.with_what_changed(&plain));
        let stored = before.map(|before| &before.stored);
        let is_new = before.is_none();
        match review(newest(), Workload::Notebook, asked, stored, find) {
            Ok(reviewed) => {
                self.injected.insert(name.clone(), Injected { written, plain, stored: reviewed.object });
            }
            Err(_) if is_new => drop(self.injected.remove(name)),
            Err(_) => {
                if let Some(before) = self.injected.get_mut(name) {
                    before.written = written;
                }
            }
        }
    }

    /// Whoever makes a workbench meets odh-notebook-controller's webhook, which locks it: it is as stopped until its
    /// service account, its routes and the like are there. Here these are the set without a pod, and the first status.
    /// Between this look and the write a user may have stopped it, so the lock goes only from what was looked at; the
    /// real controller does not make sure of that.
    fn unlock_due(&self, name: &PodName, due: &mut Vec<Write>) {
        let object = &self.notebooks[name];
        let is_locked = annotation(object, STOPPED) == Some(LOCK);
        if is_locked && self.sets.contains_key(&set_name(name)) && self.reconciled.contains_key(name) {
            let patch = json!({"metadata": {
                "resourceVersion": object.metadata.resource_version, "annotations": {STOPPED: null}}});
            due.push(Write::PatchNotebook(name.clone(), patch));
        }
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

/// What is stored of a part of an object after a write: what the webhook had made of it stays where the writer changed
/// nothing.
fn carried(plain: Option<&Value>, stored: Option<&Value>, now: Option<&Value>) -> Option<Value> {
    if plain == now {
        return stored.cloned();
    }
    match (plain, stored, now) {
        (Some(Value::Object(plain)), Some(Value::Object(stored)), Some(Value::Object(now))) => {
            let keys: BTreeSet<&String> = stored.keys().chain(now.keys()).collect();
            let part =
                |key: &String| Some((key.clone(), carried(plain.get(key), stored.get(key), now.get(key))?));
            Some(Value::Object(keys.into_iter().filter_map(part).collect()))
        }
        (Some(Value::Array(plain)), Some(Value::Array(stored)), Some(Value::Array(now)))
            if plain.len() == now.len() && stored.len() == now.len() =>
        {
            let part = |n: usize| carried(plain.get(n), stored.get(n), now.get(n)).unwrap_or_default();
            Some(Value::Array((0..now.len()).map(part).collect()))
        }
        _ => now.cloned(),
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
    if let Some(queue) = injected.queue() {
        labels.insert(QUEUE.to_owned(), queue.to_owned());
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
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": injected.spec()},
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
mod tests;
