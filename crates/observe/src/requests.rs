//! The requests that are not bound yet: one per root owner and ordinal, whatever the number of objects that
//! describe it. Evidence, strongest first: a bound pod (no request: it has its slice), a pending pod, a
//! queued Workload, a Notebook that should run and has no pod yet.

mod brief;
mod constraints;
mod elsewhere;
mod queued;
mod workbench;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use api::foreign::{Metadata, Workload};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use mig::ProfileName;
use planner::demand::{Evidence, Refusal, Request};
use planner::eligible::{Eligibility, Judge};
use planner::inventory::{Hold, Inventory};
use planner::names::{NodeName, RequestId};

use crate::free::free_slices;
use crate::in_step::InStep;
use crate::objects::{Key, Objects, title};
use crate::problem::{Problem, Severity};
use crate::{Settings, apart, names, owners, pods, promised, volumes};
pub(crate) use brief::Briefs;
use queued::Queues;
pub use queued::{POD_GROUP, POD_SET, QueuedCheck, QueuedSet, QueuedWorkload};

/// What is asked for and not bound.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Every request, by id.
    pub requests: Vec<Request>,
    /// Since when each workbench that should run has had no pod.
    pub starting: BTreeMap<Key, Timestamp>,
    /// The workloads of Kueue that have their quota and a check of ours.
    pub queued: BTreeMap<Key, QueuedWorkload>,
    /// What was promised to owners of whom nothing is heard, by node, while queues cannot be read.
    pub unheard: Vec<(NodeName, RequestId)>,
}

/// Everything that is asked for, where these pods speak for their requests.
pub(crate) fn all(
    objects: &Objects,
    briefs: &Briefs,
    siblings: &BTreeMap<RequestId, &Pod>,
    inventory: &Inventory,
    settings: &Settings,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Demand {
    let mut requests: BTreeMap<RequestId, Request> = BTreeMap::new();
    let mut waiting: BTreeMap<RequestId, Waits> = BTreeMap::new();
    let mut most_each = BTreeMap::new();
    for (id, pod) in siblings {
        let life = pods::life(pod);
        if life == pods::Life::Ended {
            continue;
        }
        let Some(spec) = pod.spec.as_ref().filter(|_| life == pods::Life::Unschedulable) else { continue };
        let mut asked = Asked::of_pod(pod, spec);
        // The API server has admitted the pod, and its priority with it.
        asked.priority = spec.priority;
        if spec.resource_claims.iter().flatten().next().is_some() {
            let message = "requests devices through resource claims, which another driver serves (dynamic resource allocation): nothing is planned for them";
            problems.push(Problem::new(Severity::Note, asked.object.clone(), message));
        }
        if let Some(request) = asked.request(id.clone(), Evidence::PendingPod, objects, now, problems) {
            let message = pods::scheduler_says(pod).unwrap_or_default();
            let waits = Waits { since: request.since, says: format!("the scheduler says: {message}") };
            waiting.insert(id.clone(), waits);
            most_each.insert(id.clone(), elsewhere::most_each(&pods::containers(spec)));
            requests.insert(id.clone(), request);
        }
    }
    let mut counted = Counted::new(inventory);
    let queues = Queues::new(objects, briefs, siblings, settings.blocked_after, now);
    // A part of them would be misread: a flavor that is not known has labels and taints.
    let (queued, to_come) = match objects.unread_queues.is_empty() {
        true => queues.read(&mut counted, &mut requests, problems),
        false => (BTreeMap::new(), BTreeMap::new()),
    };
    // Whoever has a pod that has not ended, whatever its state, or a workload.
    let in_sets: BTreeSet<&RequestId> =
        queued.values().flat_map(|workload| &workload.sets).flat_map(|set| &set.requests).collect();
    // They are in the order of the workbenches.
    let mut speaking =
        InStep::new(of_workbenches(siblings).filter(|(_, pod)| pods::life(pod) != pods::Life::Ended));
    let mut starting = BTreeMap::new();
    let in_queues = LazyCell::new(|| queues.owners());
    for (key, notebook, brief) in briefs.workbenches(objects) {
        if !brief.should_run {
            continue;
        }
        let found_at =
            |(id, _): &(&RequestId, _)| (&id.namespace, &id.name, id.ordinal).cmp(&(&key.0, &key.1, 0));
        if speaking.find(found_at).is_some() {
            continue;
        }
        let id = notebook_id(key);
        if in_sets.contains(&id) {
            continue;
        }
        let asked = workbench::asks(notebook, objects, problems);
        if let Some(request) = asked.request(id.clone(), Evidence::StartingNotebook, objects, now, problems) {
            let since = objects.starting_since.get(key).copied().unwrap_or(now);
            starting.insert(key.clone(), since);
            let unmade = objects.unmade.get(key);
            // In a queue it asks by its workload: its pod, when it comes, waits for quota. Nothing is begun for it
            // that would have to be taken back then. Whose pod can never come, or has not come for long although no
            // workload waits for it, is told so all the same.
            let may_come = unmade.is_none() && request.refused.is_none();
            let comes_soon =
                || notebook.queue().is_some() && now.duration_since(since) < settings.blocked_after;
            if may_come && (in_queues.contains(&id) || comes_soon()) {
                continue;
            }
            let (namespace, name) = key;
            let says = match unmade {
                Some(words) => format!("its StatefulSet cannot create its pod: \"{words}\""),
                // The notebook controller makes up a name for its set then.
                None if name.len() > LONGEST_NAME_OF_A_SET => format!(
                    "its StatefulSet has created no pod, for example because of a quota of the namespace: `kubectl get events -n {namespace} --field-selector involvedObject.kind=StatefulSet,reason=FailedCreate` says why (the set has another name than the workbench, which is too long for it)"
                ),
                None => format!(
                    "its StatefulSet has created no pod, for example because of a quota of the namespace: `kubectl describe statefulset {name} -n {namespace}` says why"
                ),
            };
            waiting.insert(id.clone(), Waits { since, says });
            most_each.insert(id.clone(), elsewhere::most_each(&pods::containers(&asked.spec)));
            requests.insert(id, request);
        }
    }
    let mut requests: Vec<Request> = requests.into_values().collect();
    let apart = apart::mark(&mut requests, siblings, &to_come, objects, inventory);
    queued::tie(&mut requests, &queued);
    blocked(&mut requests, &waiting, objects, inventory, settings, now);
    elsewhere::find(&mut requests, inventory);
    elsewhere::refuse_several(&mut requests, &most_each, inventory);
    let is_placed = |id: &RequestId| siblings.get(id).is_some_and(|pod| pods::life(pod) == pods::Life::Bound);
    let promises = promised::read(&objects.gpu_nodes);
    let behind = queues.behind(queued.keys(), promises.keys());
    let mut unheard = promised::mark(&mut requests, is_placed, inventory, promises, &behind);
    apart::keep_promises(&mut requests, &apart, inventory);
    if objects.unread_queues.is_empty() {
        unheard.clear();
    }
    Demand { requests, starting, queued, unheard }
}

/// How long the name of a workbench may be so that its StatefulSet has the same: with a longer one the notebook
/// controller lets the API server make up a name that begins with `nb-`.
const LONGEST_NAME_OF_A_SET: usize = 52;

/// Who waits, and what keeps it waiting once its slice is there.
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

/// How many requests are made of counts that people write. A pod is an object
/// that the API server took in; a number is not, and would cost nothing. No
/// namespace gets more requests by numbers than the fleet has room for slices.
struct Counted {
    most: u32,
    left: BTreeMap<String, u32>,
}

impl Counted {
    fn new(inventory: &Inventory) -> Self {
        let gpus: usize = inventory.nodes.values().map(|node| node.gpus.len()).sum();
        // No GPU has more than seven slices. A fleet that is not known yet has some.
        let most = u32::try_from(gpus.saturating_mul(7)).unwrap_or(u32::MAX).clamp(64, 10_000);
        Self { most, left: BTreeMap::new() }
    }

    /// How many of the pods of a set that nobody has made yet are planned for: at
    /// least one, so that it is told what becomes of it.
    fn bounded(&mut self, workload: &Workload, count: u32, problems: &mut Vec<Problem>) -> u32 {
        let namespace = workload.metadata.namespace.clone().unwrap_or_default();
        let left = self.left.entry(namespace).or_insert(self.most);
        let taken = count.min((*left).max(1));
        *left = left.saturating_sub(taken);
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

/// The pods of workbenches, in the order of namespace, name and number.
pub(crate) fn of_workbenches<'a>(
    speakers: &'a BTreeMap<RequestId, &'a Pod>,
) -> impl Iterator<Item = (&'a RequestId, &'a Pod)> {
    let first = notebook_id(&Key::default());
    let from_there = speakers.range(first..).map(|(id, pod)| (id, *pod));
    from_there.take_while(|(id, _)| id.kind == NOTEBOOK)
}

/// Every pod with its owner and ordinal: who speaks for a request. Pods of one
/// owner that have no number of their own are numbered by age, then name, so
/// that a younger one changes no number.
#[must_use]
pub fn speakers(objects: &Objects) -> BTreeMap<RequestId, &Pod> {
    let age = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let rank = |pod: &Pod| (pods::life(pod) == pods::Life::Ended, age(pod));
    let all = objects.pods.values();
    let mut by_owner: Vec<(RequestId, &Pod)> =
        all.map(|pod| (owners::root(objects, pod), pod.as_ref())).collect();
    // Ended pods (a rejected one beside its successor) speak for nobody when another pod of the same ordinal is there.
    by_owner.sort_by(|(owner, pod), (other, its)| {
        owner.cmp(other).then_with(|| rank(pod).cmp(&rank(its))).then_with(|| name_of(pod).cmp(&name_of(its)))
    });
    let ordinals: Vec<Option<u32>> =
        by_owner.chunk_by(|(owner, _), (other, _)| owner == other).flat_map(ordinals).collect();
    let numbered = by_owner.into_iter().zip(ordinals);
    numbered.filter_map(|((id, pod), ordinal)| Some((RequestId { ordinal: ordinal?, ..id }, pod))).collect()
}

fn name_of(pod: &Pod) -> Option<&str> {
    pod.metadata.name.as_deref()
}

/// The numbers of the pods of one owner; `None` for one that has ended beside another with its number.
fn ordinals(pods: &[(RequestId, &Pod)]) -> Vec<Option<u32>> {
    let own = |(owner, pod): &(RequestId, &Pod)| owners::number(pod, owner);
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
        now: Timestamp,
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
        let class = || {
            let class = objects.priority_classes.get(self.spec.priority_class_name.as_deref()?)?;
            Some(class.value)
        };
        let default_class =
            || objects.priority_classes.values().find(|c| c.global_default == Some(true)).map(|c| c.value);
        let priority = self.priority.or_else(class).or_else(default_class);
        Some(Request {
            slices: takes.slices.into_iter().map(|(profile, n)| (profile, n.min(MOST_ASKED))).collect(),
            whole_gpus: takes.whole_gpus.min(MOST_ASKED),
            shared: takes.shared.into_iter().map(|(offered, n)| (offered, n.min(MOST_ASKED))).collect(),
            priority: priority.unwrap_or(0),
            since: self.created.unwrap_or(now),
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
    waiting: &BTreeMap<RequestId, Waits>,
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
