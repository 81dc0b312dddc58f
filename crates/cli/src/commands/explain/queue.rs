//! What is said of a queue of Kueue: whether a check of ours is on it, what of its quota does not fit the
//! fleet or who asks, and who waits in it for what.

use std::cmp::Reverse;
use std::io::Write;

use api::foreign::{ClusterQueue, Workload};
use observe::objects::{Key, Objects};
use observe::pods;
use observe::quota::{self, Drift, What};
use planner::decide::Decision;
use planner::report::RequestReport;
use serde_json::{Value, json};

use super::unknown;
use crate::exit::Failure;
use crate::question::Question;

/// How many that wait are shown; how many there are is said.
const MOST_SHOWN: usize = 50;

/// What is said of one queue.
pub(super) struct Answer<'a> {
    title: String,
    /// The cluster queue that it is, or to which it leads.
    cluster_queue: &'a str,
    /// How it stands, in sentences.
    facts: Vec<String>,
    drifts: Vec<&'a Drift>,
    waiting: Vec<Waits<'a>>,
}

/// A workload that is not admitted.
struct Waits<'a> {
    key: &'a Key,
    /// Why, in one sentence.
    why: String,
    /// The answers to its requests, where it has quota.
    requests: Vec<&'a RequestReport>,
}

/// What the name says: a cluster queue, or a local one.
enum Named<'a> {
    Cluster(&'a str),
    Local(&'a Key),
}

/// What is said of the queue of this name.
pub(super) fn told<'a>(
    question: &'a Question,
    decision: &'a Decision,
    name: &str,
) -> Result<Answer<'a>, Failure> {
    let objects = &question.snapshot.objects;
    let named = find(objects, name)?;
    let mut facts = Vec::new();
    let (title, cluster_queue, only) = match named {
        Named::Cluster(name) => (format!("cluster queue {name}"), name, None),
        Named::Local(key) => {
            let queue = &objects.local_queues[key];
            facts.push(format!("it gives the quota of the cluster queue {}", queue.spec.cluster_queue));
            if let Some(stopped) = stopped(queue.spec.stop_policy.as_deref()) {
                facts.push(stopped);
            }
            let title = format!("local queue {}/{}", key.0, key.1);
            (title, queue.spec.cluster_queue.as_str(), Some(key))
        }
    };
    let drifts = question.seen.drifts.iter().filter(|drift| drift.queue == cluster_queue).collect();
    match objects.cluster_queues.get(cluster_queue) {
        Some(queue) => of_cluster_queue(objects, queue, &mut facts),
        None => facts.push(format!(
            "there is no cluster queue {cluster_queue}, so that nothing is admitted; correct spec.clusterQueue, or create it"
        )),
    }
    Ok(Answer {
        title,
        cluster_queue,
        facts,
        drifts,
        waiting: waiting(question, decision, cluster_queue, only),
    })
}

fn find<'a>(objects: &'a Objects, name: &str) -> Result<Named<'a>, Failure> {
    if let Some((namespace, local)) = name.split_once('/') {
        let key = (namespace.to_owned(), local.to_owned());
        let known = objects.local_queues.keys().map(|(namespace, name)| format!("{namespace}/{name}"));
        let found = objects.local_queues.get_key_value(&key);
        return found.map(|(key, _)| Named::Local(key)).ok_or_else(|| unknown("local queue", name, known));
    }
    if let Some((name, _)) = objects.cluster_queues.get_key_value(name) {
        return Ok(Named::Cluster(name));
    }
    let local: Vec<&Key> = objects.local_queues.keys().filter(|key| key.1 == name).collect();
    match local.as_slice() {
        [key] => Ok(Named::Local(key)),
        [] => {
            let local = objects.local_queues.keys().map(|(namespace, name)| format!("{namespace}/{name}"));
            Err(unknown("queue", name, objects.cluster_queues.keys().cloned().chain(local)))
        }
        several => {
            let several: Vec<String> = several.iter().map(|key| format!("{}/{}", key.0, key.1)).collect();
            Err(Failure::Usage(format!(
                "there are several local queues of the name `{name}`: write one of {}",
                several.join(", ")
            )))
        }
    }
}

fn stopped(policy: Option<&str>) -> Option<String> {
    let policy = policy.filter(|policy| !matches!(*policy, "" | "None"))?;
    Some(format!("it admits nothing, since its spec.stopPolicy is {policy}"))
}

fn of_cluster_queue(objects: &Objects, queue: &ClusterQueue, facts: &mut Vec<String>) {
    facts.extend(stopped(queue.spec.stop_policy.as_deref()));
    let inactive = queue.status.conditions.iter().find(|c| c.type_ == "Active" && c.status == "False");
    if let Some(inactive) = inactive {
        facts.push(format!("it is not active, so that it admits nothing: {}", inactive.message));
    }
    facts.push(checks(objects, queue));
    if let Some(cohort) = &queue.spec.cohort_name {
        facts.push(format!("it may borrow from the cohort {cohort}; what it borrows is not wrong"));
    }
    let flavors: Vec<&str> = flavors(queue);
    let with_topology: Vec<String> = flavors
        .iter()
        .filter_map(|name| {
            let topology = objects.resource_flavors.get(*name)?.spec.topology_name.as_ref()?;
            Some(format!("{name} (topology {topology})"))
        })
        .collect();
    if !with_topology.is_empty() {
        facts.push(format!(
            "it is topology-aware in {}: there Kueue looks for slices that exist before it asks any check, so a \
             workload whose slices still have to be made is never admitted; keep slices ready by minCount or spareCount \
             in the policy or by a static layout, or give slices a flavor without spec.topologyName",
            with_topology.join(", ")
        ));
    }
    let absent: Vec<&str> =
        flavors.iter().copied().filter(|name| !objects.resource_flavors.contains_key(*name)).collect();
    if !absent.is_empty() {
        facts.push(format!("its flavors {} do not exist; create them", absent.join(", ")));
    }
}

/// The flavors of a queue, each once, in its order.
fn flavors(queue: &ClusterQueue) -> Vec<&str> {
    let mut flavors: Vec<&str> = Vec::new();
    for flavor in queue.spec.resource_groups.iter().flat_map(|group| &group.flavors) {
        if !flavors.contains(&flavor.name.as_str()) {
            flavors.push(&flavor.name);
        }
    }
    flavors
}

/// Whether a check of ours is on it.
fn checks(objects: &Objects, queue: &ClusterQueue) -> String {
    let is_ours =
        |name: &str| objects.admission_checks.get(name).is_some_and(api::foreign::AdmissionCheck::is_ours);
    let ours: Vec<String> = queue
        .checks()
        .filter(|(name, _)| is_ours(name))
        .map(|(name, on_flavors)| match on_flavors {
            [] => name.to_owned(),
            some => format!("{name} (for {})", some.join(", ")),
        })
        .collect();
    match ours.as_slice() {
        [] => "no admission check of Slicewright is on it: a workload is admitted as soon as it has quota, whether \
               its slices exist or not (docs/guides/queues.md says how to add one)"
            .to_owned(),
        some => format!("the admission check of Slicewright is on it: {}", some.join(", ")),
    }
}

/// Who is in a queue and not admitted: the highest priority first, then the
/// oldest, as Kueue orders them.
fn waiting<'a>(
    question: &'a Question,
    decision: &'a Decision,
    cluster_queue: &str,
    only: Option<&Key>,
) -> Vec<Waits<'a>> {
    let objects = &question.snapshot.objects;
    let is_in = |key: &Key, workload: &Workload| {
        quota::cluster_queue(objects, key, workload) == Some(cluster_queue)
            && only.is_none_or(|(namespace, name)| (namespace, name) == (&key.0, &workload.spec.queue_name))
    };
    let workloads = objects.workloads.iter().map(|(key, workload)| (key, workload.as_ref()));
    let in_it = workloads.filter(|(key, workload)| is_in(key, workload));
    let mut waiting: Vec<(&Key, &Workload)> = in_it.filter(|(_, workload)| waits(workload)).collect();
    waiting.sort_by_key(|(key, workload)| {
        let created = workload.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (Reverse(workload.spec.priority.unwrap_or(0)), created, *key)
    });
    waiting
        .into_iter()
        .map(|(key, workload)| {
            let queued = question.seen.queued.get(key);
            let ids: Vec<_> =
                queued.into_iter().flat_map(|queued| &queued.sets).flat_map(|set| &set.requests).collect();
            let requests =
                decision.report.requests.iter().filter(|report| ids.contains(&&report.id)).collect();
            Waits { key, why: why(workload), requests }
        })
        .collect()
}

/// Whether a workload that asks for GPUs is not admitted.
fn waits(workload: &Workload) -> bool {
    !workload.is("Admitted") && !workload.is("Finished") && !pods::resources_of_workload(workload).is_empty()
}

/// Why a workload is not admitted.
fn why(workload: &Workload) -> String {
    if workload.spec.active == Some(false) {
        return "it is deactivated; somebody has to set spec.active to true".to_owned();
    }
    if !workload.is("QuotaReserved") {
        let said = workload.status.conditions.iter().find(|c| c.type_ == "QuotaReserved");
        return match said.map(|said| said.message.as_str()).filter(|message| !message.is_empty()) {
            Some(message) => format!("it has no quota; Kueue says: {message}"),
            None => "it has no quota, and Kueue does not say why".to_owned(),
        };
    }
    let pending = workload.status.admission_checks.iter().find(|check| check.state != "Ready");
    match pending {
        Some(check) if check.message.is_empty() => {
            format!("it has its quota, and its admission check {} is {}", check.name, check.state)
        }
        Some(check) => {
            format!(
                "it has its quota, and its admission check {} is {}: {}",
                check.name, check.state, check.message
            )
        }
        None => "it has its quota, and Kueue is about to admit it".to_owned(),
    }
}

impl Answer<'_> {
    /// For people.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { title, cluster_queue: _, facts, drifts, waiting } = self;
        writeln!(out, "{title}")?;
        for fact in facts {
            writeln!(out, "  {fact}")?;
        }
        for drift in drifts {
            writeln!(out, "  quota: {drift}")?;
        }
        if waiting.is_empty() {
            writeln!(out, "  no workload in it requests a GPU or a slice")?;
        }
        for Waits { key: (namespace, name), why, requests } in waiting.iter().take(MOST_SHOWN) {
            writeln!(out, "  {namespace}/{name} waits: {why}")?;
            for report in requests {
                writeln!(out, "    {}: {}", report.id, report.answer())?;
            }
        }
        if let Some(more @ 1..) = waiting.len().checked_sub(MOST_SHOWN) {
            writeln!(out, "  and {more} more")?;
        }
        Ok(())
    }

    /// For programs.
    pub(super) fn value(&self) -> Value {
        let Self { title, cluster_queue, facts, drifts, waiting } = self;
        let drift = |drift: &&Drift| {
            let Drift { queue, flavor, resource, what } = drift;
            let mut value = json!({
                "queue": queue, "flavor": flavor, "resource": resource, "what": what.name(), "by": what.by(),
                "message": drift.to_string(),
            });
            match what {
                What::NotCovered { .. } => {}
                What::MoreThanAnyLayout { quota, offered } => {
                    value["quota"] = json!(quota);
                    value["most"] = json!(offered.most);
                    value["nodes"] = json!(offered.nodes);
                }
                What::MoreTogether { quota, others, offered } => {
                    value["quotaOfAll"] = json!(quota);
                    value["others"] = json!(others);
                    value["most"] = json!(offered.most);
                    value["nodes"] = json!(offered.nodes);
                }
                What::LessThanHeld { quota, borrowable, held } => {
                    value["quota"] = json!(quota);
                    value["borrowable"] = json!(borrowable);
                    value["held"] = json!(held);
                }
            }
            value
        };
        let shown = waiting.iter().take(MOST_SHOWN).map(|Waits { key: (namespace, name), why, requests }| {
            let requests: Vec<Value> = requests
                .iter()
                .map(|report| json!({"request": report.id.to_string(), "outcome": report.outcome, "answer": report.answer()}))
                .collect();
            json!({"namespace": namespace, "name": name, "why": why, "requests": requests})
        });
        json!({
            "kind": title.rsplit_once(' ').map_or("queue", |(kind, _)| kind),
            "name": title.rsplit_once(' ').map_or(title.as_str(), |(_, name)| name),
            "clusterQueue": cluster_queue,
            "facts": facts,
            "drift": drifts.iter().map(drift).collect::<Vec<_>>(),
            "waiting": shown.collect::<Vec<_>>(),
            "waitingTotal": waiting.len(),
        })
    }
}
