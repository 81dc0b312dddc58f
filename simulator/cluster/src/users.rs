//! Users' pods on one node, as its kubelet treats them: it admits each once, writes its status, lets it
//! end, and removes the object when its containers have stopped. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use operands::{Node, Opens, PodName, PodPhase, PodSpec};
use serde_json::json;

use crate::annotations::said;
use crate::node_object::whole_seconds;
use crate::pod_object::{self, Life};
use crate::resource_version::version;
use crate::write::Write;

/// How long containers take to stop, if the pod does not say.
const STOPS_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// What the kubelet knows of a pod beside the engine.
struct User {
    seen: core::Pod,
    /// Whether it was handed to the engine, ever.
    admitted: bool,
    /// Since when it runs.
    running: Option<Timestamp>,
    /// How it ended, if it did.
    ended: Option<Life>,
    /// When its containers will have stopped, once it is deleted.
    stops: Option<Timestamp>,
    /// Whether they have.
    stopped: bool,
    /// Whether its object is gone.
    dead: bool,
    opens: Opens,
}

/// The users' pods on one node.
#[derive(Default)]
pub(crate) struct Users {
    pods: BTreeMap<PodName, User>,
    breaches_told: usize,
    events: Vec<core::Event>,
}

impl Users {
    /// A pod was seen. One of the same name with another UID replaces it.
    pub(crate) fn saw(&mut self, pod: core::Pod) {
        let name = pod_object::name_of(&pod);
        match self.pods.get_mut(&name) {
            Some(user) if user.seen.metadata.uid == pod.metadata.uid => {
                if version(&pod.metadata) > version(&user.seen.metadata) {
                    user.seen = pod;
                }
            }
            // Late news of the one before.
            Some(user) if version(&pod.metadata) < version(&user.seen.metadata) => {}
            _ => {
                let user = User {
                    seen: pod,
                    admitted: false,
                    running: None,
                    ended: None,
                    stops: None,
                    stopped: false,
                    dead: false,
                    opens: Opens::Never,
                };
                self.pods.insert(name, user);
            }
        }
    }

    /// A pod as it was seen last.
    pub(crate) fn object(&self, name: &PodName) -> Option<&core::Pod> {
        self.pods.get(name).map(|user| &user.seen)
    }

    /// Nothing that was seen is later than what will be; nor is a pod gone for
    /// good that the API server did not know.
    pub(crate) fn api_went_back(&mut self) {
        self.pods.retain(|_, user| !user.dead);
        for user in self.pods.values_mut() {
            user.seen.metadata.resource_version = None;
        }
    }

    /// A pod is no longer there.
    pub(crate) fn lost(&mut self, node: &mut Node, name: &PodName, uid: Option<&str>) {
        if self.pods.get(name).is_some_and(|user| user.seen.metadata.uid.as_deref() == uid) {
            self.pods.remove(name);
            node.end(name);
        }
    }

    /// The API server says that there is no such pod. Until the watch says so
    /// too it is kept, so that older news do not bring it back.
    pub(crate) fn gone(&mut self, node: &mut Node, name: &PodName) {
        if let Some(user) = self.pods.get_mut(name) {
            user.dead = true;
            node.end(name);
        }
    }

    /// An event was written.
    pub(crate) fn told(&mut self, event: &core::Event) {
        self.events.retain(|other| other != event);
    }

    /// What the kubelet does of its own: nothing while the node is down.
    pub(crate) fn advance(&mut self, node: &mut Node, now: Timestamp) {
        if !node.ready() {
            return;
        }
        for (name, user) in self.pods.iter_mut().filter(|(_, user)| !user.dead) {
            user.advance(name, node, now);
        }
        for breach in &node.breaches()[self.breaches_told..] {
            self.events.push(event_of(breach, node.name(), self.breaches_told + self.events.len()));
        }
        self.breaches_told = node.breaches().len();
    }

    /// When something is to be done next.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        self.pods.values().filter(|user| !user.dead).filter_map(User::next_event).min()
    }

    /// The writes that are due.
    pub(crate) fn due(&self, node: &Node, due: &mut Vec<Write>, real_now: Timestamp) {
        due.extend(self.events.iter().map(|event| Write::CreateEvent(Box::new(event.clone()))));
        if !node.ready() {
            return;
        }
        let to_delete = node.pods_to_delete();
        for (name, user) in self.pods.iter().filter(|(_, user)| !user.dead) {
            if to_delete.contains(name) && user.seen.metadata.deletion_timestamp.is_none() {
                let uid = user.seen.metadata.uid.clone().unwrap_or_default();
                due.push(Write::DeletePod { name: name.clone(), uid, grace: None });
            }
            if user.stopped && user.seen.metadata.deletion_timestamp.is_some() {
                let uid = user.seen.metadata.uid.clone().unwrap_or_default();
                due.push(Write::DeletePod { name: name.clone(), uid, grace: Some(0) });
            } else if let Some(life) = user.life(name, node)
                && let Some(patch) = pod_object::status_patch(&user.seen, &life, real_now)
            {
                due.push(Write::PatchPodStatus(name.clone(), patch));
            }
        }
    }
}

impl User {
    fn advance(&mut self, name: &PodName, node: &mut Node, now: Timestamp) {
        let said = said(&self.seen);
        if pod_object::is_over(&self.seen) && !self.admitted {
            // It ended before we knew it.
            self.admitted = true;
            self.stopped = true;
        }
        if self.seen.metadata.deletion_timestamp.is_some() && self.stops.is_none() {
            let grace = self.seen.metadata.deletion_grace_period_seconds.unwrap_or(30);
            let takes = said.stops_after.unwrap_or(STOPS_AFTER).min(SignedDuration::from_secs(grace));
            self.stops = Some(if self.admitted { now + takes } else { now });
        }
        if !self.admitted && self.stops.is_none() {
            self.admitted = true;
            self.opens = said.opens;
            let requests = pod_object::requests(&self.seen);
            let spec = PodSpec { name: name.clone(), requests, opens: said.opens };
            match said.starts_after {
                Some(after) => node.bind_late(spec, after),
                None => node.bind(spec),
            };
        }
        if self.opens != said.opens {
            self.opens = said.opens;
            match said.opens {
                Opens::Never => node.close(name),
                Opens::AtOnce | Opens::After(_) => node.open(name),
            }
        }
        if self.running.is_none() && node.pod(name).is_some_and(|pod| pod.phase == PodPhase::Running) {
            self.running = Some(now);
        }
        if let Some((at, life)) = self.end_of(&said)
            && at <= now
            && self.ended.is_none()
        {
            self.ended = Some(life);
            node.end(name);
        }
        if self.stops.is_some_and(|at| at <= now) && !self.stopped {
            self.stopped = true;
            node.end(name);
        }
    }

    /// When and how it ends by itself.
    fn end_of(&self, said: &crate::annotations::LifeAnnotations) -> Option<(Timestamp, Life)> {
        let since = self.running?;
        let succeeds = said.succeeds_after.map(|after| (since + after, Life::Succeeded));
        let fails = said.fails_after.map(|after| {
            (since + after, Life::Failed("Error".to_owned(), "the annotation says that it fails".to_owned()))
        });
        succeeds.into_iter().chain(fails).min_by_key(|(at, _)| *at)
    }

    fn next_event(&self) -> Option<Timestamp> {
        let stops = self.stops.filter(|_| !self.stopped);
        let ends = if self.ended.is_none() { self.end_of(&said(&self.seen)).map(|(at, _)| at) } else { None };
        stops.into_iter().chain(ends).min()
    }

    /// What its status should say; nothing when we have no opinion.
    fn life(&self, name: &PodName, node: &Node) -> Option<Life> {
        if let Some(ended) = &self.ended {
            return Some(ended.clone());
        }
        if self.stops.is_some() {
            return None;
        }
        Some(match &node.pod(name)?.phase {
            PodPhase::Starting => Life::Starting,
            PodPhase::Running => Life::Running,
            PodPhase::Failed { reason, message } => Life::Failed(reason.clone(), message.clone()),
        })
    }
}

/// The event that tells of a breach, on the pod that lost its slice.
fn event_of(breach: &gpu::Breach, node: &str, number: usize) -> core::Event {
    let (namespace, name) = breach.owner.split_once('/').unwrap_or(("default", &breach.owner));
    let at = whole_seconds(crate::clock::real_now());
    serde_json::from_value(json!({
        "metadata": {"name": format!("breach-{node}-{number}"), "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name},
        "type": "Warning", "reason": "SliceTaken", "message": format!("{node}: {breach}"),
        "source": {"component": "slicewright-sim", "host": node},
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    }))
    .expect("an event is built from the parts of one")
}

/// The names of pods, for a reader of the truth.
impl Users {
    pub(crate) fn names(&self) -> BTreeSet<PodName> {
        self.pods.keys().cloned().collect()
    }
}
