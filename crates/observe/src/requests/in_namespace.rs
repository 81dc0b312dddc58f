//! What is asked for in one namespace. Owners, pods, workbenches and workloads of one namespace know nothing of those of
//! another, so each is read by itself.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::{Notebook, Workload};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use planner::demand::{Evidence, Request};
use planner::names::RequestId;

use super::brief::{self, Briefs};
use super::clock::Clock;
use super::queued::Queues;
use super::queued_workloads;
use super::{
    Asked, Counted, LONGEST_NAME_OF_A_SET, Waits, elsewhere, notebook_id, speakers, speakers_among, workbench,
};
use crate::Settings;
use crate::apart::Rule;
use crate::in_step::InStep;
use crate::objects::{Key, Objects};
use crate::pods;
use crate::problem::{Problem, Severity};

/// The objects of one namespace, in their order.
#[derive(Default)]
pub(super) struct Own<'a> {
    pub(super) pods: Vec<&'a Arc<Pod>>,
    pub(super) workbenches: Vec<(&'a Key, &'a Arc<Notebook>, &'a brief::Workbench)>,
    pub(super) workloads: Vec<(&'a Key, &'a Arc<Workload>, &'a brief::Queued)>,
}

/// The objects of each namespace that has any.
pub(super) fn by_namespace<'a>(objects: &'a Objects, briefs: &'a Briefs) -> BTreeMap<&'a str, Own<'a>> {
    let mut all: BTreeMap<&'a str, Own<'a>> = BTreeMap::new();
    let pods: Vec<_> = objects.pods.iter().collect();
    for own in pods.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
        all.entry(own[0].0.0.as_str()).or_default().pods = own.iter().map(|(_, pod)| *pod).collect();
    }
    let workbenches: Vec<_> = briefs.workbenches(objects).collect();
    for own in workbenches.chunk_by(|((one, _), ..), ((other, _), ..)| one == other) {
        all.entry(own[0].0.0.as_str()).or_default().workbenches = own.to_vec();
    }
    let workloads: Vec<_> = briefs.workloads(objects).collect();
    for own in workloads.chunk_by(|((one, _), ..), ((other, _), ..)| one == other) {
        all.entry(own[0].0.0.as_str()).or_default().workloads = own.to_vec();
    }
    all
}

/// What a namespace is read by beside its own objects.
pub(super) struct Around<'a> {
    pub(super) objects: &'a Objects,
    pub(super) settings: &'a Settings,
    /// How many requests a namespace gets at most by numbers that people write.
    pub(super) most: u32,
}

/// What is asked for in a namespace and not bound, before it is looked at beside what others ask for.
#[derive(Debug, Default)]
pub(super) struct InNamespace {
    /// Which pod speaks for which request.
    pub(super) speakers: Arc<speakers::OfNamespace>,
    /// Every request, by id.
    pub(super) requests: Vec<Request>,
    /// Who waits, and what keeps it waiting once its slice is there.
    pub(super) waiting: BTreeMap<RequestId, Waits>,
    /// The most of each resource that one container of a request asks for.
    pub(super) most_each: BTreeMap<RequestId, BTreeMap<String, u64>>,
    /// Since when each workbench that should run has had no pod.
    pub(super) starting: BTreeMap<Key, Timestamp>,
    /// The workloads that have their quota and a check of ours.
    pub(super) queued: Arc<queued_workloads::OfNamespace>,
    /// By which rules those keep apart that nobody has made yet.
    pub(super) to_come: BTreeMap<RequestId, BTreeSet<Rule>>,
    /// What was wrong with its objects.
    pub(super) problems: Vec<Problem>,
    /// From when on it may read otherwise, by time alone.
    pub(super) turns_at: Option<Timestamp>,
}

/// Reads a namespace.
pub(super) fn read(own: &Own<'_>, around: &Around<'_>, now: Timestamp) -> InNamespace {
    let Around { objects, settings, most } = *around;
    let clock = Clock::new(now);
    let mut problems = Vec::new();
    let mut requests: BTreeMap<RequestId, Request> = BTreeMap::new();
    let mut waiting: BTreeMap<RequestId, Waits> = BTreeMap::new();
    let mut most_each = BTreeMap::new();
    let speakers = Arc::new(speakers_among(objects, own.pods.iter().copied()));
    for (id, pod) in speakers.iter() {
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
        if let Some(request) = asked.request(id.clone(), Evidence::PendingPod, objects, &clock, &mut problems)
        {
            let message = pods::scheduler_says(pod).unwrap_or_default();
            let waits = Waits { since: request.since, says: format!("the scheduler says: {message}") };
            waiting.insert(id.clone(), waits);
            most_each.insert(id.clone(), elsewhere::most_each(&pods::containers(spec)));
            requests.insert(id.clone(), request);
        }
    }
    let mut counted = Counted::new(most);
    let queues = Queues::new(objects, &own.workloads, &speakers, settings.blocked_after, &clock);
    // A part of them would be misread: a flavor that is not known has labels and taints.
    let (queued, to_come) = match objects.unread_queues.is_empty() {
        true => queues.read(&mut counted, &mut requests, &mut problems),
        false => (BTreeMap::new(), BTreeMap::new()),
    };
    // Whoever has a pod that has not ended, whatever its state, or a workload.
    let in_sets: BTreeSet<&RequestId> =
        queued.values().flat_map(|workload| &workload.sets).flat_map(|set| &set.requests).collect();
    // They are in the order of the workbenches.
    let of_workbenches = speakers::of_workbenches(&speakers);
    let mut speaking = InStep::new(of_workbenches.filter(|(_, pod)| pods::life(pod) != pods::Life::Ended));
    let mut starting = BTreeMap::new();
    let in_queues = LazyCell::new(|| queues.owners());
    for (key, notebook, brief) in &own.workbenches {
        if !brief.should_run {
            continue;
        }
        let found_at = |(id, _): &(&RequestId, _)| (&id.name, id.ordinal).cmp(&(&key.1, 0));
        if let Some((_, pod)) = speaking.find(found_at) {
            // Its pod says what it wants. Who gets nothing of its hardware profile is told on the pod, too.
            if workbench::has_no_container(notebook) && !pod.spec.as_ref().is_some_and(pods::asks_for_gpus) {
                // Hardware profiles are not among what a reading is kept by.
                let _ = clock.now();
                problems.extend(workbench::without_its_profile(notebook, objects));
            }
            continue;
        }
        let id = notebook_id(key);
        if in_sets.contains(&id) {
            continue;
        }
        // What is remembered of it, and what its hardware profile says, is not among what a reading is kept by.
        let now = clock.now();
        let asked = workbench::asks(notebook, objects, &mut problems);
        let request = asked.request(id.clone(), Evidence::StartingNotebook, objects, &clock, &mut problems);
        if let Some(request) = request {
            let since = objects.starting_since.get(*key).copied().unwrap_or(now);
            starting.insert((*key).clone(), since);
            let unmade = objects.unmade.get(*key);
            // In a queue it asks by its workload: its pod, when it comes, waits for quota. Nothing is begun for it
            // that would have to be taken back then. Whose pod can never come, or has not come for long although no
            // workload waits for it, is told so all the same.
            let may_come = unmade.is_none() && request.refused.is_none();
            let comes_soon =
                || notebook.queue().is_some() && now.duration_since(since) < settings.blocked_after;
            if may_come && (in_queues.contains(&id) || comes_soon()) {
                continue;
            }
            let (namespace, name) = *key;
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
    InNamespace {
        requests: requests.into_values().collect(),
        waiting,
        most_each,
        starting,
        queued: Arc::new(queued),
        to_come,
        problems,
        turns_at: clock.turns_at(),
        speakers: Arc::clone(&speakers),
    }
}
