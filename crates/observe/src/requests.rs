//! The requests that are not bound yet: one per root owner and ordinal, whatever the number of objects that
//! describe it. Evidence, strongest first: a bound pod (no request: it has its slice), a pending pod, a
//! queued Workload, a Notebook that should run and has no pod yet.

mod brief;
mod clock;
pub mod constraints;
mod elsewhere;
mod in_namespace;
mod kept;
mod queued;
mod queued_workloads;
mod speakers;
mod workbench;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::{Metadata, Workload};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use mig::ProfileName;
use planner::demand::{Evidence, Refusal, Request};
use planner::eligible::{Eligibility, Judge};
use planner::inventory::{Hold, Inventory};
use planner::names::{NodeName, RequestId};

use crate::apart::Rule;
use crate::free::free_slices;
use crate::objects::{Key, Objects, title};
use crate::problem::{Problem, Severity};
use crate::{Settings, apart, names, owners, pods, promised, volumes};
pub(crate) use brief::Briefs;
use clock::Clock;
use in_namespace::Around;
pub(crate) use kept::NamespaceReadings;
pub use queued::{POD_GROUP, POD_SET};
pub use queued_workloads::{QueuedCheck, QueuedSet, QueuedWorkload, QueuedWorkloads};
pub(crate) use speakers::Speakers;
pub use workbench::NO_CONTAINER;

/// What is asked for and not bound.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Every request, by id.
    pub requests: Vec<Request>,
    /// Since when each workbench that should run has had no pod.
    pub starting: BTreeMap<Key, Timestamp>,
    /// The workloads of Kueue that have their quota and a check of ours.
    pub queued: QueuedWorkloads,
    /// What was promised to owners of whom nothing is heard, by node, while queues cannot be read.
    pub unheard: Vec<(NodeName, RequestId)>,
    /// Which pod speaks for which request.
    pub(crate) speakers: Speakers,
}

/// What was read of those who ask, in the round before.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    /// Of single objects.
    pub(crate) briefs: Briefs,
    /// Of namespaces.
    pub(crate) namespaces: NamespaceReadings,
}

/// Everything that is asked for. What was read of namespaces is kept in `kept`.
pub(crate) fn all(
    objects: &Objects,
    kept: &mut Readings,
    inventory: &Inventory,
    settings: &Settings,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Demand {
    let Readings { briefs, namespaces } = kept;
    briefs.update(objects);
    let around = Around { objects, settings, most: Counted::most_of(inventory) };
    namespaces.begin(&around, now);
    let by_namespace = in_namespace::by_namespace(objects, briefs);
    let mut demand = Demand::default();
    let mut read = Vec::with_capacity(by_namespace.len());
    for (name, own) in &by_namespace {
        let of = namespaces.read(name, own, objects, || in_namespace::read(own, &around, now));
        problems.extend(of.problems.iter().cloned());
        demand.requests.extend(of.requests.iter().cloned());
        demand.starting.extend(of.starting.iter().map(|(key, since)| (key.clone(), *since)));
        demand.speakers.insert(name, Arc::clone(&of.speakers));
        demand.queued.insert(name, &of.queued);
        read.push(of);
    }
    namespaces.forget_others(&by_namespace);
    let waiting: BTreeMap<&RequestId, &Waits> = read.iter().flat_map(|of| &of.waiting).collect();
    let most_each: BTreeMap<&RequestId, &BTreeMap<String, u64>> =
        read.iter().flat_map(|of| &of.most_each).collect();
    let to_come: BTreeMap<&RequestId, &BTreeSet<Rule>> = read.iter().flat_map(|of| &of.to_come).collect();
    let Demand { requests, starting: _, queued, unheard, speakers } = &mut demand;
    requests.sort_by(|one, other| one.id.cmp(&other.id));
    let apart = apart::mark(requests, |id| speakers.get(id), &to_come, objects, inventory);
    queued::tie(requests, queued);
    blocked(requests, &waiting, objects, inventory, settings, now);
    elsewhere::find(requests, inventory);
    elsewhere::refuse_several(requests, &most_each, inventory);
    let is_placed = |id: &RequestId| speakers.get(id).is_some_and(|pod| pods::life(pod) == pods::Life::Bound);
    let promises = promised::read(&objects.gpu_nodes);
    let behind = queued::behind(objects, queued.keys(), promises.keys());
    *unheard = promised::mark(requests, is_placed, inventory, promises, &behind);
    apart::keep_promises(requests, &apart, inventory);
    if objects.unread_queues.is_empty() {
        unheard.clear();
    }
    demand
}

/// How long the name of a workbench may be so that its StatefulSet has the same: with a longer one the notebook
/// controller lets the API server make up a name that begins with `nb-`.
const LONGEST_NAME_OF_A_SET: usize = 52;

/// Who waits, and what keeps it waiting once its slice is there.
#[derive(Debug)]
struct Waits {
    since: Timestamp,
    says: String,
}

/// What a request is taken to ask for at most. It is far more than any node
/// has, so that nothing depends on how much more it is, and little enough that
/// the numbers of all profiles together are a number, too.
const MOST_ASKED: u32 = 65_535;

/// The highest priority that a class may give that people make; above it are
/// the cluster's own.
const HIGHEST_PRIORITY: i32 = 1_000_000_000;

/// How many requests are made in a namespace of counts that people write. A pod is an object
/// that the API server took in; a number is not, and would cost nothing. No
/// namespace gets more requests by numbers than the fleet has room for slices.
struct Counted {
    most: u32,
    left: u32,
}

impl Counted {
    const fn new(most: u32) -> Self {
        Self { most, left: most }
    }

    fn most_of(inventory: &Inventory) -> u32 {
        let gpus: usize = inventory.nodes.values().map(|node| node.gpus.len()).sum();
        // No GPU has more than seven slices. A fleet that is not known yet has some.
        u32::try_from(gpus.saturating_mul(7)).unwrap_or(u32::MAX).clamp(64, 10_000)
    }

    /// How many of the pods of a set that nobody has made yet are planned for: at
    /// least one, so that it is told what becomes of it.
    fn bounded(&mut self, workload: &Workload, count: u32, problems: &mut Vec<Problem>) -> u32 {
        let taken = count.min(self.left.max(1));
        self.left = self.left.saturating_sub(taken);
        if taken < count {
            let message = format!(
                "requests {count} pods at once, of which {taken} are planned: the queued workloads of a namespace together get at most {} requests, the capacity of the fleet",
                self.most
            );
            problems.push(Problem::new(Severity::Note, title("Workload", &workload.metadata), message));
        }
        taken
    }
}

/// The kind of workbenches.
const NOTEBOOK: &str = "Notebook";

fn notebook_id((namespace, name): &Key) -> RequestId {
    RequestId { kind: NOTEBOOK.to_owned(), namespace: namespace.clone(), name: name.clone(), ordinal: 0 }
}

/// Every pod with its owner and ordinal: who speaks for a request. Pods of one
/// owner that have no number of their own are numbered by age, then name, so
/// that a younger one changes no number.
#[must_use]
pub fn speakers(objects: &Objects) -> BTreeMap<RequestId, Arc<Pod>> {
    speakers_among(objects, objects.pods.values())
}

/// The same among these pods, which are all that their owners have.
fn speakers_among<'a>(
    objects: &Objects,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
) -> BTreeMap<RequestId, Arc<Pod>> {
    let age = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let rank = |pod: &Pod| (pods::life(pod) == pods::Life::Ended, age(pod));
    let mut by_owner: Vec<(RequestId, &Arc<Pod>)> =
        pods.map(|pod| (owners::root(objects, pod), pod)).collect();
    // Ended pods (a rejected one beside its successor) speak for nobody when another pod of the same ordinal is there.
    by_owner.sort_by(|(owner, pod), (other, its)| {
        owner.cmp(other).then_with(|| rank(pod).cmp(&rank(its))).then_with(|| name_of(pod).cmp(&name_of(its)))
    });
    let ordinals: Vec<Option<u32>> =
        by_owner.chunk_by(|(owner, _), (other, _)| owner == other).flat_map(ordinals).collect();
    let numbered = by_owner.into_iter().zip(ordinals);
    let found = numbered
        .filter_map(|((id, pod), ordinal)| Some((RequestId { ordinal: ordinal?, ..id }, Arc::clone(pod))));
    found.collect()
}

fn name_of(pod: &Pod) -> Option<&str> {
    pod.metadata.name.as_deref()
}

/// The numbers of the pods of one owner; `None` for one that has ended beside another with its number.
fn ordinals(pods: &[(RequestId, &Arc<Pod>)]) -> Vec<Option<u32>> {
    let own = |(owner, pod): &(RequestId, &Arc<Pod>)| owners::number(pod, owner);
    // Nearly all are the only ones of their owner.
    if let [one] = pods {
        return vec![Some(own(one).unwrap_or(0))];
    }
    let mut taken = BTreeSet::new();
    let mut ordinals: Vec<Option<u32>> =
        pods.iter().map(|pod| own(pod).filter(|ordinal| taken.insert(*ordinal))).collect();
    let mut free = (0..).filter(|ordinal| !taken.contains(ordinal));
    for (ordinal, pod) in ordinals.iter_mut().zip(pods).filter(|(ordinal, _)| ordinal.is_none()) {
        // Two pods that live are two, whatever their labels say.
        if own(pod).is_none() || pods::life(pod.1) != pods::Life::Ended {
            *ordinal = free.next();
        }
    }
    ordinals
}

/// What an object asks for.
struct Asked<'a> {
    object: String,
    created: Option<Timestamp>,
    /// What is noted of its claims, where its volumes are not kept.
    claims: Option<&'a str>,
    /// What its pod is called. Of a template nobody knows.
    pod: Option<&'a str>,
    spec: Cow<'a, PodSpec>,
    /// The priority that somebody admitted. What a template says of itself is
    /// its author's wish, which nobody has looked at: there, the class counts.
    priority: Option<i32>,
    /// Why it cannot come to run.
    refused: Option<Refusal>,
    /// Whether it may ask for more than is known.
    is_unknown: bool,
}

impl<'a> Asked<'a> {
    fn of_pod(pod: &'a Pod, spec: &'a PodSpec) -> Self {
        Self {
            object: title("Pod", &pod.metadata),
            created: pod.metadata.creation_timestamp.as_ref().map(|at| at.0),
            claims: volumes::noted_on(pod.metadata.annotations.as_ref()),
            pod: pod.metadata.name.as_deref(),
            spec: Cow::Borrowed(spec),
            priority: None,
            refused: None,
            is_unknown: false,
        }
    }

    /// What the pods of an object will be made from.
    fn of_template(kind: &str, metadata: &'a Metadata, spec: PodSpec) -> Self {
        Self {
            object: title(kind, metadata),
            created: metadata.creation_timestamp.as_ref().map(|at| at.0),
            claims: metadata.annotations.get(volumes::CLAIMS),
            pod: None,
            spec: Cow::Owned(spec),
            priority: None,
            refused: None,
            is_unknown: false,
        }
    }

    /// The request; `None` when it asks for no GPU.
    fn request(
        &self,
        id: RequestId,
        evidence: Evidence,
        objects: &Objects,
        clock: &Clock,
        problems: &mut Vec<Problem>,
    ) -> Option<Request> {
        let takes = pods::takes(&self.spec);
        for resource in &takes.unreadable {
            problems.push(Problem::new(
                Severity::Warning,
                self.object.clone(),
                format!("requests {resource}, which is not the resource of a profile (such resources are named like nvidia.com/mig-1g.10gb); nothing is planned for it"),
            ));
        }
        let misspelt = takes.unreadable.first().map(|resource| Refusal {
            why: format!(
                "it asks for {resource}, which is not the resource of a profile, so that no layout can serve it"
            ),
            advice: "ask for a resource that is named like nvidia.com/mig-1g.10gb".to_owned(),
        });
        let mut constraints = constraints::from_pod_spec(&self.spec);
        constraints.volumes = {
            let claims = volumes::claims(&self.spec, self.claims, self.pod);
            constraints::of_volumes(&objects.volumes, &id.namespace, claims)
        };
        constraints.other_resources = takes.other_resources;
        let too_long =
            constraints.affinity.iter().flat_map(|term| &term.labels).any(|e| e.key == names::TOO_LONG);
        let too_long = too_long.then(|| Refusal {
            why: "its node selector and affinity are too long to be evaluated, alone or together with those of the other pods of its namespace"
                .to_owned(),
            advice: "select nodes by a few labels".to_owned(),
        });
        let asks = !takes.slices.is_empty() || takes.whole_gpus > 0 || !takes.shared.is_empty();
        if !asks && misspelt.is_none() && !self.is_unknown {
            return None;
        }
        let priority = self.priority.or_else(|| priority_of(&self.spec, objects));
        Some(Request {
            slices: takes.slices.into_iter().map(|(profile, n)| (profile, n.min(MOST_ASKED))).collect(),
            whole_gpus: takes.whole_gpus.min(MOST_ASKED),
            shared: takes.shared.into_iter().map(|(offered, n)| (offered, n.min(MOST_ASKED))).collect(),
            priority: priority.unwrap_or(0),
            since: self.created.unwrap_or_else(|| clock.now()),
            namespace_labels: namespace_labels(objects, &id.namespace),
            constraints,
            takes: takes.room,
            evidence,
            blocked_elsewhere: None,
            promised: None,
            finds: None,
            keeps_apart: BTreeMap::new(),
            together: planner::demand::Together::default(),
            refused: self.refused.clone().or(misspelt).or(too_long),
            id,
        })
    }
}

/// The priority that a pod has by its class.
fn priority_of(spec: &PodSpec, objects: &Objects) -> Option<i32> {
    let named = spec.priority_class_name.as_deref().and_then(|name| objects.priority_classes.get(name));
    let default = || objects.priority_classes.values().find(|class| class.global_default == Some(true));
    Some(named.or_else(default)?.value)
}

/// The labels of a namespace; its name is always one of them, as the API
/// server makes sure.
#[must_use]
pub fn namespace_labels(objects: &Objects, namespace: &str) -> BTreeMap<String, String> {
    let found = objects.namespaces.get(namespace).and_then(|ns| ns.metadata.labels.clone());
    let mut labels = found.unwrap_or_default();
    labels.entry(names::NAMESPACE_NAME.to_owned()).or_insert_with(|| namespace.to_owned());
    labels
}

/// Marks requests whose slices have been free and schedulable on a node that
/// they may use for so long that something else must be in their way.
fn blocked(
    requests: &mut [Request],
    waiting: &BTreeMap<&RequestId, &Waits>,
    objects: &Objects,
    inventory: &Inventory,
    settings: &Settings,
    now: Timestamp,
) {
    let since: Vec<BTreeMap<ProfileName, Timestamp>> = inventory
        .nodes
        .keys()
        .map(|name| {
            let status = objects.gpu_nodes.get(&name.0).and_then(|node| node.status.as_ref());
            let since = status.and_then(|status| status.rollout.as_ref()).map(|r| &r.schedulable_since);
            since.into_iter().flatten().filter_map(|(p, at)| Some((p.parse().ok()?, *at))).collect()
        })
        .collect();
    if since.iter().all(BTreeMap::is_empty) {
        return;
    }
    let mut judge = Judge::new(inventory);
    for request in requests.iter_mut().filter(|request| !request.slices.is_empty()) {
        // A queued workload has no pod on purpose.
        let Some(waits) = waiting.get(&request.id) else { continue };
        let eligible = judge.nodes_for(request);
        let long_enough = |free: &BTreeMap<ProfileName, Timestamp>| {
            request.slices.keys().all(|profile| {
                free.get(profile)
                    .is_some_and(|at| now.duration_since((*at).max(waits.since)) >= settings.blocked_after)
            })
        };
        let there = inventory.nodes.values().zip(&since).zip(eligible.iter());
        let blocked = there.into_iter().any(|((node, free), eligibility)| {
            // What a node on its way will have is not there yet.
            *eligibility == Eligibility::Yes
                && node.schedulable
                && node.hold != Some(Hold::Changing)
                && long_enough(free)
                && request.slices.iter().all(|(profile, n)| free_slices(node, *profile) >= *n)
        });
        if blocked {
            request.blocked_elsewhere = Some(waits.says.clone());
        }
    }
}
