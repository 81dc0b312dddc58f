//! What is said of the objects that people know: a workbench, a pod, a workload in a queue, a hardware
//! profile. Each leads to its requests, and the answers are those of the requests.

use std::io::Write;

use api::foreign::{Notebook, Workload};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use observe::objects::{Key, Objects};
use observe::pods::WaitsFor;
use observe::{owners, pods};
use planner::decide::Decision;
use planner::names::RequestId;
use planner::report::{Outcome, RequestReport};
use serde_json::{Value, json};

use super::{only_previewed, unknown};
use crate::exit::Failure;
use crate::question::Question;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A workbench.
    Workbench,
    /// A pod.
    Pod,
    /// A workload in a queue.
    Workload,
    /// A hardware profile.
    Profile,
}

impl Subject {
    /// Its name, for people.
    const fn title(self) -> &'static str {
        match self {
            Self::Workbench => "workbench",
            Self::Pod => "pod",
            Self::Workload => "workload",
            Self::Profile => "hardware profile",
        }
    }

    fn keys(self, objects: &Objects) -> Vec<&Key> {
        match self {
            Self::Workbench => objects.notebooks.keys().collect(),
            Self::Pod => objects.pods.keys().collect(),
            Self::Workload => objects.workloads.keys().collect(),
            Self::Profile => objects.hardware_profiles.keys().collect(),
        }
    }
}

/// What is said of one object.
pub(super) struct Answer<'a> {
    subject: Subject,
    key: &'a Key,
    /// How it stands, in sentences.
    facts: Vec<String>,
    /// The answers to its requests.
    requests: Vec<&'a RequestReport>,
}

/// What is said of the object of this name.
pub(super) fn told<'a>(
    subject: Subject,
    question: &'a Question,
    decision: &'a Decision,
    name: &str,
) -> Result<Answer<'a>, Failure> {
    let objects = &question.snapshot.objects;
    let keys = subject.keys(objects);
    let is_it = |key: &&&Key| format!("{}/{}", key.0, key.1) == name;
    let by_name: Vec<&Key> = keys.iter().copied().filter(|key| key.1 == name).collect();
    let key = match (keys.iter().find(is_it), by_name.as_slice()) {
        (Some(key), _) | (None, [key]) => *key,
        (None, []) => {
            let known = keys.iter().map(|(namespace, name)| format!("{namespace}/{name}"));
            return Err(unknown(subject.title(), name, known));
        }
        (None, several) => {
            let several: Vec<String> = several.iter().map(|key| format!("{}/{}", key.0, key.1)).collect();
            return Err(Failure::Usage(format!(
                "there are several of the name `{name}`: write one of {}",
                several.join(", ")
            )));
        }
    };
    let mut facts = Vec::new();
    let ids = match subject {
        Subject::Workbench => workbench(objects, key, &mut facts),
        Subject::Pod => pod(objects, key, &mut facts),
        Subject::Workload => workload(question, key, &mut facts),
        Subject::Profile => {
            profile(question, key, &mut facts);
            Vec::new()
        }
    };
    let requests: Vec<&RequestReport> =
        decision.report.requests.iter().filter(|report| ids.iter().any(|id| is_of(id, &report.id))).collect();
    let asks_nothing = match subject {
        Subject::Pod => ids.len() == 1,
        Subject::Workload => facts.is_empty() || objects.workloads[key].is("Admitted"),
        Subject::Workbench | Subject::Profile => facts.is_empty(),
    };
    if requests.is_empty() && asks_nothing {
        let waits_first = (subject == Subject::Pod).then(|| waits_first(&objects.pods[key])).flatten();
        facts.push(waits_first.unwrap_or("it requests no slice that it does not have").to_owned());
    }
    Ok(Answer { subject, key, facts, requests })
}

/// Whether a request is one of this owner, whatever its ordinal.
fn is_of(owner: &RequestId, id: &RequestId) -> bool {
    (&owner.kind, &owner.namespace, &owner.name) == (&id.kind, &id.namespace, &id.name)
}

fn owner(kind: &str, (namespace, name): &Key) -> RequestId {
    RequestId { kind: kind.to_owned(), namespace: namespace.clone(), name: name.clone(), ordinal: 0 }
}

fn workbench(objects: &Objects, key: &Key, facts: &mut Vec<String>) -> Vec<RequestId> {
    let notebook = &objects.notebooks[key];
    if let api::foreign::notebook::Intent::Stopped { since } = notebook.intent() {
        facts.push(format!("it is stopped (since {since}), so it requests nothing"));
    }
    let own = owner("Notebook", key);
    let pods = || objects.pods.values().filter(|pod| is_of(&own, &owners::root(objects, pod)));
    for pod in pods() {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let spec = pod.spec.as_ref();
        if let Some(node) = spec.and_then(|spec| spec.node_name.as_deref()) {
            facts.push(format!("its pod {name} runs on {node}"));
        } else if let Some(gate) = spec.and_then(|spec| spec.scheduling_gates.as_ref()?.first()) {
            facts.push(format!("its pod {name} waits: scheduling gate {} is not removed yet", gate.name));
        }
    }
    if notebook.intent() == api::foreign::notebook::Intent::Run && pods().next().is_none() {
        let waits = notebook
            .queue()
            .map_or_else(String::new, |queue| format!("; its pod will wait for quota in queue {queue}"));
        facts.push(format!("it has no pod yet{waits}"));
    }
    let template = notebook.spec.template.spec.whole();
    let pod = pods().next();
    let spec = pod.and_then(|pod| pod.spec.as_ref()).unwrap_or(&template);
    facts.extend(several(objects, spec, Some(notebook)));
    vec![own]
}

/// That several containers ask for slices, and why they may do so without
/// anybody having wanted it.
fn several(objects: &Objects, spec: &PodSpec, notebook: Option<&Notebook>) -> Vec<String> {
    let profile = notebook.and_then(Notebook::hardware_profile);
    let profile = profile.and_then(|key| objects.hardware_profiles.get(&key));
    let told = |(resource, containers): (String, Vec<String>)| {
        let names = containers.join(", ");
        let n = containers.len();
        let offered = profile.is_some_and(|profile| {
            profile.spec.identifiers.iter().any(|identifier| identifier.identifier == resource)
        });
        let why = if offered {
            format!(
                ". Its hardware profile offers it, which OpenShift AI up to 3.3 writes into every container that does not \
                 name it, and from 3.4 on only into the workbench's own; write {resource}: \"0\" into requests and limits of \
                 the other containers"
            )
        } else {
            String::new()
        };
        format!(
            "{n} of its containers ask for {resource} ({names}), so that its pod needs {n} on one node{why}"
        )
    };
    pods::asked_by_several(spec).into_iter().map(told).collect()
}

fn pod(objects: &Objects, key: &Key, facts: &mut Vec<String>) -> Vec<RequestId> {
    let pod = &objects.pods[key];
    if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
        facts.push(format!("it has a node: {node}"));
        return Vec::new();
    }
    let root = owners::root(objects, pod);
    let notebook = objects.notebooks.get(&(root.namespace.clone(), root.name.clone()));
    let notebook = notebook.filter(|_| root.kind == "Notebook").map(AsRef::as_ref);
    facts.extend(several(objects, pod.spec.as_ref().unwrap_or(&PodSpec::default()), notebook));
    facts.push(format!("it belongs to {} {}/{}", root.kind, root.namespace, root.name));
    vec![root]
}

/// What a pod waits for before it is planned for, where it asks for something and has no node.
fn waits_first(pod: &Pod) -> Option<&'static str> {
    let asks = pod.spec.as_ref().is_some_and(pods::asks_for_gpus);
    if !asks || pods::life(pod) != pods::Life::Waiting {
        return None;
    }
    Some(match pods::waits_for(pod)? {
        WaitsFor::Deletion => "it is being deleted, so nothing is planned for it",
        WaitsFor::Gates => {
            "it has scheduling gates (spec.schedulingGates), so nothing is planned for it before they are removed"
        }
        WaitsFor::Nominated => {
            "the scheduler frees a node for it (status.nominatedNodeName), so nothing is planned for it"
        }
        WaitsFor::Scheduler => {
            "the scheduler has not said that it finds no node for it (condition PodScheduled), so nothing is planned for it"
        }
    })
}

/// Whether a workload is a request depends on its quota and on our check.
fn workload(question: &Question, key: &Key, facts: &mut Vec<String>) -> Vec<RequestId> {
    let workload = &question.snapshot.objects.workloads[key];
    for check in &workload.status.admission_checks {
        let message = if check.message.is_empty() { String::new() } else { format!(": {}", check.message) };
        facts.push(format!("its admission check {} is {}{message}", check.name, check.state));
    }
    if workload.spec.active == Some(false) {
        facts.push(
            "it is deactivated, so it requests nothing; somebody has to set spec.active to true".to_owned(),
        );
    } else if !workload.is("QuotaReserved") {
        facts.push(format!(
            "it waits for quota in the queue {}: no slice is made for it before it has its quota",
            workload.spec.queue_name
        ));
    }
    let objects = &question.snapshot.objects;
    for set in &workload.spec.pod_sets {
        let spec = set.template.spec.whole();
        facts.extend(several(objects, &spec, workbench_of(objects, key, workload)));
    }
    let queued = question.seen.queued.get(key);
    let queued: Vec<RequestId> =
        queued.into_iter().flat_map(|queued| &queued.sets).flat_map(|set| set.requests.clone()).collect();
    if !queued.is_empty() {
        return queued;
    }
    // Once it runs, or where no check of ours is on its queue, its pods are the requests.
    owners::behind(objects, workload).into_iter().collect()
}

/// The workbench of whose set a workload is.
fn workbench_of<'a>(objects: &'a Objects, (namespace, _): &Key, workload: &Workload) -> Option<&'a Notebook> {
    let mut owners = workload.metadata.owner_references.iter();
    let notebook = owners.find_map(|owner| objects.notebooks.get(&(namespace.clone(), owner.name.clone())));
    notebook.map(AsRef::as_ref)
}

fn profile(question: &Question, key: &Key, facts: &mut Vec<String>) {
    let objects = &question.snapshot.objects;
    let profile = &objects.hardware_profiles[key];
    if profile.is_disabled() {
        facts.push("it is disabled: the dashboard does not offer it".to_owned());
    }
    if profile.is_published() {
        facts.push("the operator has published it".to_owned());
    }
    let offers: Vec<&str> = profile
        .spec
        .identifiers
        .iter()
        .map(|identifier| identifier.identifier.as_str())
        .filter(|resource| mig::GpuResource::is_one(resource))
        .collect();
    if offers.is_empty() {
        facts.push("it offers neither a slice nor a GPU".to_owned());
    }
    let object = format!("HardwareProfile {}/{}", key.0, key.1);
    let problems: Vec<String> = question
        .problems
        .iter()
        .filter(|problem| problem.object == object)
        .map(|problem| format!("it {}", problem.message))
        .collect();
    if problems.is_empty() && !offers.is_empty() && !profile.is_disabled() {
        facts.push(format!("some node can have what it offers ({})", offers.join(", ")));
    }
    facts.extend(problems);
    named_by(objects, key, facts);
}

/// Who names a profile: the operator deletes none that anybody names.
fn named_by(objects: &Objects, key: &Key, facts: &mut Vec<String>) {
    let workbenches = objects
        .notebooks
        .iter()
        .filter(|(_, notebook)| notebook.hardware_profile().as_ref() == Some(key))
        .map(|((namespace, name), _)| format!("{namespace}/{name}"));
    let workbenches: Vec<String> = workbenches.collect();
    let servers = objects
        .model_servers
        .iter()
        .filter(|(_, server)| server.hardware_profile().as_ref() == Some(key))
        .map(|((kind, (namespace, name)), _)| format!("{kind} {namespace}/{name}"));
    let servers: Vec<String> = servers.collect();
    for (what, some) in [("workbenches", &workbenches), ("model servers", &servers)] {
        if !some.is_empty() {
            facts.push(format!("these {what} name it: {}", some.join(", ")));
        }
    }
    if workbenches.is_empty() && servers.is_empty() {
        facts.push("no workbench and no model server names it".to_owned());
    }
}

impl Answer<'_> {
    /// For people.
    pub(super) fn write(&self, question: &Question, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { subject, key: (namespace, name), facts, requests } = self;
        writeln!(out, "{} {namespace}/{name}", subject.title())?;
        for fact in facts {
            writeln!(out, "  {fact}")?;
        }
        for report in requests {
            writeln!(out, "  {}", answer(report))?;
            only_previewed(question, report, out)?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn value(&self) -> Value {
        let Self { subject, key: (namespace, name), facts, requests } = self;
        let requests: Vec<Value> = requests
            .iter()
            .map(|report| {
                json!({
                    "request": report.id.to_string(),
                    "policy": report.policy,
                    "served": !matches!(report.outcome, Outcome::Unserved { .. }),
                    "outcome": report.outcome,
                    "answer": report.answer(),
                })
            })
            .collect();
        json!({
            "kind": subject.title(), "namespace": namespace, "name": name,
            "facts": facts, "requests": requests,
        })
    }
}

/// The answer to a request, with its number where an owner has several.
fn answer(report: &RequestReport) -> String {
    let policy = report.policy.as_ref().map_or(String::new(), |policy| format!(" (policy {policy})"));
    format!("{}{policy}: {}", report.id, report.answer())
}
