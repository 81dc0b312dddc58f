//! Updates that wait for themselves: pods of a new revision that ask for slices which older pods of the same
//! set hold. A Deployment that surges starts the new pod before it ends the old one, and the multi-node
//! servers of KServe do so for all of their pods at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use mig::ProfileName;
use planner::inventory::Room;
use planner::names::{NodeName, PodRef, RequestId};

use crate::objects::{Key, Objects};
use crate::owners::LEADER_WORKER_SET;
use crate::pods::{self, Life};
use crate::requests;

/// The label of a `LeaderWorkerSet`'s pods with the revision of its template.
const TEMPLATE_REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";

/// Every label that is read here.
pub const LABELS: [&str; 2] = [LEADER_WORKER_SET, TEMPLATE_REVISION];

/// What has pods of several revisions while it is updated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    /// Its kind, such as `Deployment`.
    pub kind: String,
    /// Its namespace and name.
    pub key: Key,
}

/// A pod of an older revision, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldPod {
    /// The pod.
    pub pod: PodRef,
    /// Its node.
    pub node: NodeName,
    /// The slices that it holds.
    pub slices: BTreeMap<ProfileName, u32>,
    /// CPU, memory and the slot that it takes.
    pub takes: Room,
}

/// An update that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The requests of its new pods.
    pub requests: BTreeSet<RequestId>,
    /// Its older pods that hold a slice of which the new ones ask.
    pub old: Vec<OldPod>,
}

/// The set of a pod and its revision there. Sets that end a pod before they
/// start its successor have none.
fn revision<'a>(objects: &'a Objects, pod: &'a Pod) -> Option<(Set, &'a str)> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).map(String::as_str);
    if let (Some(name), Some(revision)) = (label(LEADER_WORKER_SET), label(TEMPLATE_REVISION)) {
        let key = (namespace, name.to_owned());
        return Some((Set { kind: "LeaderWorkerSet".to_owned(), key }, revision));
    }
    let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true))?;
    if controller.kind != "ReplicaSet" {
        return None;
    }
    let above = objects.owners.get(&controller.kind, &namespace, &controller.name)?;
    Some((Set { kind: above.kind.clone(), key: (namespace, above.name.clone()) }, &controller.name))
}

/// One of the pods of a set.
struct Member<'a> {
    pod: &'a Pod,
    revision: &'a str,
    created: Option<Timestamp>,
}

impl Member<'_> {
    fn is_of(&self, pod: &Pod) -> bool {
        (&self.pod.metadata.namespace, &self.pod.metadata.name)
            == (&pod.metadata.namespace, &pod.metadata.name)
    }
}

/// The updates whose new pods are among these requests and ask for what older
/// pods of the same set hold.
#[must_use]
pub fn updates(objects: &Objects, unserved: &BTreeSet<&RequestId>) -> BTreeMap<Set, Update> {
    let mut sets: BTreeMap<Set, (Vec<Member<'_>>, Vec<Member<'_>>)> = BTreeMap::new();
    for pod in objects.pods.values() {
        let life = pods::life(pod);
        let Some((set, revision)) = revision(objects, pod) else { continue };
        let created = pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let member = Member { pod, revision, created };
        let (waiting, bound) = sets.entry(set).or_default();
        match life {
            Life::Unschedulable | Life::Waiting => waiting.push(member),
            Life::Bound => bound.push(member),
            Life::Ended => {}
        }
    }
    sets.retain(|_, (waiting, bound)| {
        waiting.iter().any(|new| bound.iter().any(|old| new.revision != old.revision))
    });
    if sets.is_empty() {
        return BTreeMap::new();
    }
    let speakers = requests::speakers(objects);
    let mut updates = BTreeMap::new();
    for (set, (waiting, bound)) in sets {
        let mut update = Update::default();
        for new in &waiting {
            let asks = pods::takes(new.pod.spec.as_ref().unwrap_or(&Default::default())).slices;
            let id = speakers.iter().find(|(_, pod)| new.is_of(pod)).map(|(id, _)| id);
            let Some(id) = id.filter(|id| unserved.contains(id) && !asks.is_empty()) else { continue };
            let older = bound.iter().filter(|old| old.revision != new.revision && old.created < new.created);
            for old in older {
                let Some(old) = holds(old.pod, &asks) else { continue };
                update.requests.insert(id.clone());
                if !update.old.contains(&old) {
                    update.old.push(old);
                }
            }
        }
        if !update.requests.is_empty() {
            update.old.sort_by(|a, b| a.pod.cmp(&b.pod));
            updates.insert(set, update);
        }
    }
    updates
}

/// A pod that holds a slice of everything that is asked for.
fn holds(pod: &Pod, asks: &BTreeMap<ProfileName, u32>) -> Option<OldPod> {
    let spec = pod.spec.as_ref()?;
    let takes = pods::takes(spec);
    asks.keys().all(|profile| takes.slices.contains_key(profile)).then(|| OldPod {
        pod: PodRef {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
        },
        node: NodeName(spec.node_name.clone().unwrap_or_default()),
        slices: takes.slices,
        takes: takes.room,
    })
}
