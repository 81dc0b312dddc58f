//! The simulated cluster: its objects, its nodes, and the controllers of
//! Kubernetes and OpenShift AI that act on them, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use api::{GpuNode, GpuPartitionPolicy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, PodCondition};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;

use crate::asks::is_over;
use crate::entry::{Entry, Who};
use crate::host::{Host, Life};
use crate::notebooks::{self, Step};
use crate::scheduler::{self, Verdict};
use crate::store::{Revision, Shelf, key_of};

/// How long a pod takes to end once it was told to.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// The simulated cluster.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) revision: Revision,
    pub(crate) nodes: Shelf<Node>,
    pub(crate) pods: Shelf<Pod>,
    pub(crate) notebooks: Shelf<DynamicObject>,
    pub(crate) profiles: Shelf<DynamicObject>,
    pub(crate) namespaces: Shelf<Namespace>,
    pub(crate) maps: Shelf<ConfigMap>,
    pub(crate) budgets: Shelf<PodDisruptionBudget>,
    pub(crate) priorities: Shelf<PriorityClass>,
    pub(crate) policies: Shelf<GpuPartitionPolicy>,
    pub(crate) gpu_nodes: Shelf<GpuNode>,
    pub(crate) hosts: BTreeMap<String, Host>,
    /// The strategy of the cluster's device plugins, once there is a node.
    pub(crate) single: Option<bool>,
    /// How many pods were evicted.
    pub(crate) evictions: usize,
    /// Who was told what.
    pub(crate) told: Vec<(String, String)>,
    /// The gist of what each was told last.
    pub(crate) gists: BTreeMap<String, String>,
    /// When pods that were told to end are gone.
    going: BTreeMap<String, Timestamp>,
    /// When the work of pods ends.
    working: BTreeMap<String, Timestamp>,
    /// How long pods work once they run.
    works: BTreeMap<String, SignedDuration>,
    /// Pods that open their slices as soon as they run.
    opens: BTreeSet<String>,
    log: Vec<Entry>,
}

impl World {
    /// An empty cluster at a moment.
    pub(crate) fn starting(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// Writes a line into the log.
    pub(crate) fn say(&mut self, who: Who, text: impl Into<String>) {
        self.log.push(Entry::Happened { at: self.now, who, text: text.into() });
    }

    /// What was written into the log since this was last asked.
    pub(crate) fn take_log(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.log)
    }

    /// When something happens by itself next.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        let hosts = self.hosts.values().filter_map(|host| host.next_event(self.now));
        hosts.chain(self.going.values().copied()).chain(self.working.values().copied()).min()
    }

    /// Lets time pass up to a moment at which something happens; nothing may
    /// be due before.
    pub(crate) fn advance(&mut self, to: Timestamp) {
        self.now = self.now.max(to);
        for (name, host) in &mut self.hosts {
            for (at, text) in host.advance(self.now) {
                self.log.push(Entry::Happened { at, who: Who::Node(name.clone()), text });
            }
        }
        let due = |times: &BTreeMap<String, Timestamp>, now| {
            times.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        for key in due(&self.going, self.now) {
            self.gone(&key);
        }
        for key in due(&self.working, self.now) {
            self.end_pod(&key);
        }
    }

    /// Lets every controller act until none has anything to do. Says whether
    /// anything changed.
    pub(crate) fn settle(&mut self) -> bool {
        let before = self.revision;
        // Each round follows from the one before (a pod comes, is bound, is
        // known to its kubelet); they end since nothing here undoes another's.
        for _ in 0..64 {
            let round = self.revision;
            self.publish_hosts();
            self.run_notebooks();
            self.run_scheduler();
            self.run_kubelets();
            notebooks::mirror(&mut self.notebooks, &self.pods, &mut self.revision);
            if self.revision == round {
                break;
            }
        }
        self.revision != before
    }

    /// The nodes' own view of themselves, written into the API.
    pub(crate) fn publish_hosts(&mut self) {
        for (name, host) in &self.hosts {
            if self.nodes.get(name).is_none() {
                self.nodes.put(host.as_node(), self.now, &mut self.revision);
            } else {
                self.nodes.edit(name, &mut self.revision, |node| host.write_status(node));
            }
            let mut here = BTreeSet::new();
            for pod in host.operand_pods() {
                let key = key_of(&pod);
                if self.pods.get(&key).is_none() {
                    self.pods.put(pod.clone(), self.now, &mut self.revision);
                }
                self.pods.edit(&key, &mut self.revision, |stored| {
                    stored.status.clone_from(&pod.status);
                    stored.metadata.deletion_timestamp.clone_from(&pod.metadata.deletion_timestamp);
                });
                here.insert(key);
            }
            let stale: Vec<String> = self
                .pods
                .iter()
                .filter(|(key, pod)| {
                    crate::host::is_operand(pod)
                        && pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(name)
                        && !here.contains(*key)
                })
                .map(|(key, _)| key.to_owned())
                .collect();
            for key in stale {
                self.pods.remove(&key, &mut self.revision);
            }
        }
    }

    fn run_notebooks(&mut self) {
        for step in notebooks::steps(&self.notebooks, &self.pods) {
            match step {
                Step::Create(pod) => self.create_pod(*pod),
                Step::Delete(key) => self.delete_pod(&key),
            }
        }
    }

    fn run_scheduler(&mut self) {
        for (key, verdict) in scheduler::schedule(self.nodes.values(), self.pods.values()) {
            let now = self.now;
            match verdict {
                Verdict::Bound(node) => {
                    self.pods.edit(&key, &mut self.revision, |pod| {
                        pod.spec.get_or_insert_default().node_name = Some(node.clone());
                        condition(pod, "PodScheduled", true, None, now);
                    });
                    self.say(Who::Cluster, format!("{key} is bound to {node}"));
                }
                Verdict::Unschedulable(why) => {
                    let said = why.clone();
                    let news = self.pods.get(&key).is_some_and(|p| !is_unschedulable(p));
                    let changed = self.pods.edit(&key, &mut self.revision, |pod| {
                        pod.status.get_or_insert_default().phase = Some("Pending".to_owned());
                        condition(pod, "PodScheduled", false, Some(("Unschedulable", said)), now);
                    });
                    if changed && news {
                        let short = why.split(". preemption").next().unwrap_or(&why).to_owned();
                        self.say(Who::Cluster, format!("{key} is unschedulable: {short}"));
                    }
                }
            }
        }
    }

    /// Pods that are bound become known to their kubelet; what it makes of
    /// them becomes their status.
    fn run_kubelets(&mut self) {
        for key in self.pods.keys() {
            let Some(pod) = self.pods.get(&key).filter(|p| !crate::host::is_operand(p) && !is_over(p)) else {
                continue;
            };
            let node = pod.spec.as_ref().and_then(|s| s.node_name.clone());
            let Some(host) = node.and_then(|n| self.hosts.get_mut(&n)) else { continue };
            let opens = self.opens.contains(&key);
            if !host.knows(&key) && pod.metadata.deletion_timestamp.is_none() {
                host.bind(pod, opens);
            }
            let now = self.now;
            let life = host.life(&key);
            let changed = self.pods.edit(&key, &mut self.revision, |pod| write_life(pod, &life, now));
            if !changed {
                continue;
            }
            match life {
                Life::Running => {
                    let devices = host.held_by(&key);
                    if let Some(works) = self.works.get(&key) {
                        self.working.insert(key.clone(), now + *works);
                    }
                    let with = if devices.is_empty() {
                        String::new()
                    } else {
                        format!(" with {}", devices.join(", "))
                    };
                    self.say(Who::Cluster, format!("{key} runs{with}"));
                }
                Life::Failed { reason, message } => {
                    self.say(Who::Cluster, format!("{key} failed: {reason}: {message}"));
                }
                Life::Starting | Life::Unknown => {}
            }
        }
    }

    /// Whether pods are on their way out.
    pub(crate) fn pods_going(&self) -> bool {
        !self.going.is_empty()
    }

    /// A pod comes.
    pub(crate) fn create_pod(&mut self, mut pod: Pod) {
        let class = pod.spec.as_ref().and_then(|s| s.priority_class_name.clone());
        if let Some(class) = class.and_then(|name| self.priorities.get(&name)) {
            pod.spec.get_or_insert_default().priority.get_or_insert(class.value);
        }
        pod.status.get_or_insert_default().phase.get_or_insert_with(|| "Pending".to_owned());
        self.pods.put(pod, self.now, &mut self.revision);
    }

    /// How a bare pod behaves once it runs.
    pub(crate) fn behaves(&mut self, key: &str, works: Option<SignedDuration>, opens: bool) {
        works.map(|works| self.works.insert(key.to_owned(), works));
        if opens {
            self.opens.insert(key.to_owned());
        }
    }

    /// A pod is told to end. One that no kubelet knows is gone at once.
    pub(crate) fn delete_pod(&mut self, key: &str) {
        let Some(pod) = self.pods.get(key) else { return };
        let bound = pod.spec.as_ref().and_then(|s| s.node_name.as_ref()).is_some();
        if !bound || is_over(pod) {
            self.gone(key);
        } else if !self.going.contains_key(key) {
            let now = self.now;
            self.pods.edit(key, &mut self.revision, |pod| {
                pod.metadata.deletion_timestamp = Some(Time(now + GRACE));
            });
            self.going.insert(key.to_owned(), self.now + GRACE);
        }
    }

    /// A pod's work is done: it stays as an object, and holds nothing.
    pub(crate) fn end_pod(&mut self, key: &str) {
        self.working.remove(key);
        self.forget(key);
        let ended = self.pods.edit(key, &mut self.revision, |pod| {
            pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
            pod.status.get_or_insert_default().conditions = None;
        });
        if ended {
            self.say(Who::Person(key.to_owned()), "its work is done");
        }
    }

    fn gone(&mut self, key: &str) {
        self.going.remove(key);
        self.working.remove(key);
        self.forget(key);
        if self.pods.remove(key, &mut self.revision).is_some() {
            self.say(Who::Cluster, format!("{key} is gone"));
        }
    }

    /// Its kubelet forgets a pod, and frees what it held.
    fn forget(&mut self, key: &str) {
        for host in self.hosts.values_mut() {
            host.remove(key);
        }
    }
}

/// Whether the scheduler has said so before.
fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"))
}

fn write_life(pod: &mut Pod, life: &Life, now: Timestamp) {
    match life {
        Life::Unknown => {}
        Life::Starting => pod.status.get_or_insert_default().phase = Some("Pending".to_owned()),
        Life::Running => {
            pod.status.get_or_insert_default().phase = Some("Running".to_owned());
            condition(pod, "Ready", true, None, now);
        }
        Life::Failed { reason, message } => {
            let status = pod.status.get_or_insert_default();
            status.phase = Some("Failed".to_owned());
            status.reason = Some(reason.clone());
            status.message = Some(message.clone());
            condition(pod, "Ready", false, Some(("PodFailed", String::new())), now);
        }
    }
}

/// Sets a condition of a pod; its transition time moves only with its status.
fn condition(pod: &mut Pod, kind: &str, holds: bool, why: Option<(&str, String)>, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    let old = conditions.iter().position(|c| c.type_ == kind);
    let since = old
        .map(|at| &conditions[at])
        .filter(|c| c.status == status)
        .and_then(|c| c.last_transition_time.clone())
        .unwrap_or(Time(now));
    let (reason, message) =
        why.map_or((None, None), |(reason, message)| (Some(reason.to_owned()), Some(message)));
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: Some(since),
        ..PodCondition::default()
    };
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
