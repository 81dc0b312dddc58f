//! The requests in Kueue's queues: workloads that have quota and a check of ours, from that moment until
//! their pods have nodes.
//!
//! A workload that waits for quota is not a request: it may never get it. A workload with our answer
//! `Ready` is still a request, so that its slices are not planned for others before its pods are bound.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::foreign::Workload;
use api::foreign::workload::{AdmissionCheckState, PodSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use planner::demand::{Evidence, Request};
use planner::names::RequestId;

use super::{Asked, Counted, HIGHEST_PRIORITY};
use crate::objects::{Key, Objects, title};
use crate::owners;
use crate::pods::{self, Life};
use crate::problem::Problem;

/// The label by which a pod says to which pod set it belongs.
pub const POD_SET: &str = "kueue.x-k8s.io/podset";
/// The label that tells nodes apart, by which a workload is kept to one.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A workload that waits for checks of ours, or has passed them and has pods
/// without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedWorkload {
    /// The names of our checks that it has.
    pub checks: Vec<String>,
    /// Its pod sets, in its own order.
    pub sets: Vec<QueuedSet>,
}

/// One of its pod sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedSet {
    /// Its name.
    pub name: String,
    /// The requests of its pods that have no node, by what they ask for.
    pub requests: Vec<RequestId>,
    /// How many of its pods have a node, or have had one.
    pub placed: u32,
    /// Whether somebody has said on which node its pods are to run.
    pub is_kept_to_a_node: bool,
}

/// Everything that is read of the workloads of a cluster.
pub(super) struct Queues<'a> {
    objects: &'a Objects,
    siblings: &'a BTreeMap<RequestId, &'a Pod>,
    /// The requests of the pods below each controller, the pods included.
    below: BTreeMap<(String, Key), Vec<RequestId>>,
    /// How long the pods of an admitted workload may take to be made.
    made_within: SignedDuration,
    now: Timestamp,
}

impl<'a> Queues<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        siblings: &'a BTreeMap<RequestId, &'a Pod>,
        made_within: SignedDuration,
        now: Timestamp,
    ) -> Self {
        let mut below: BTreeMap<(String, Key), Vec<RequestId>> = BTreeMap::new();
        if !objects.workloads.is_empty() {
            for (id, pod) in siblings {
                for of in owners::chain(objects, pod) {
                    below.entry(of).or_default().push(id.clone());
                }
            }
        }
        Self { objects, siblings, below, made_within, now }
    }

    /// Adds the requests of the pods of all workloads to those that are known
    /// of pods, and says of which workload they are.
    pub(super) fn read(
        &self,
        counted: &mut Counted,
        requests: &mut BTreeMap<RequestId, Request>,
        problems: &mut Vec<Problem>,
    ) -> BTreeMap<Key, QueuedWorkload> {
        let mut queued = BTreeMap::new();
        for (key, workload) in &self.objects.workloads {
            let checks = self.checks_of(workload);
            if !checks.is_empty() && workload.has_quota() {
                let sets = self.sets_of(key, workload, &checks, counted, requests, problems);
                let checks = checks.iter().map(|check| check.name.clone()).collect();
                queued.insert(key.clone(), QueuedWorkload { checks, sets });
            }
        }
        queued
    }

    /// What checks of ours say of it, where they may still say something.
    fn checks_of<'w>(&self, workload: &'w Workload) -> Vec<&'w AdmissionCheckState> {
        let is_ours = |check: &&AdmissionCheckState| {
            let found = self.objects.admission_checks.get(&check.name);
            found.is_some_and(api::foreign::AdmissionCheck::is_ours)
                && matches!(check.state.as_str(), "Pending" | "Ready")
        };
        workload.status.admission_checks.iter().filter(is_ours).collect()
    }

    fn sets_of(
        &self,
        key: &Key,
        workload: &Workload,
        checks: &[&AdmissionCheckState],
        counted: &mut Counted,
        requests: &mut BTreeMap<RequestId, Request>,
        problems: &mut Vec<Problem>,
    ) -> Vec<QueuedSet> {
        let members = self.members(key, workload);
        let mut taken: BTreeSet<RequestId> = BTreeSet::new();
        let mut sets = Vec::new();
        for set in &workload.spec.pod_sets {
            let mut queued = QueuedSet { name: set.name.clone(), ..QueuedSet::default() };
            let spec = self.as_it_will_run(workload, set, checks);
            queued.is_kept_to_a_node =
                spec.node_selector.as_ref().is_some_and(|labels| labels.contains_key(HOSTNAME));
            let mut asked =
                Asked::new(&set.template.spec, &workload.metadata, title("Workload", &workload.metadata));
            asked.spec = Cow::Owned(spec);
            asked.priority = workload.spec.priority.map(|priority| priority.min(HIGHEST_PRIORITY));
            let of_this_set = members.iter().filter(|id| self.may_be_of(id, workload, set));
            let of_this_set: Vec<_> = of_this_set.filter(|id| !taken.contains(id)).cloned().collect();
            let count = counted.bounded(workload, workload.count_of(set), problems);
            let count = usize::try_from(count).unwrap_or_default();
            let mut ids = Vec::new();
            for id in of_this_set.into_iter().take(count) {
                taken.insert(id.clone());
                match pods::life(self.siblings[&id]) {
                    Life::Bound | Life::Ended => queued.placed += 1,
                    Life::Unschedulable | Life::Waiting => ids.push(id),
                }
            }
            if self.may_be_made(workload) {
                let missing = count.saturating_sub(ids.len() + queued.placed as usize);
                ids.extend(self.not_made_yet(key, workload, missing, &mut taken));
            }
            for id in ids {
                let known = requests.contains_key(&id);
                let request = if known {
                    None
                } else {
                    asked.request(id.clone(), Evidence::QueuedWorkload, self.objects, self.now, problems)
                };
                if known || request.is_some() {
                    queued.requests.push(id.clone());
                }
                requests.extend(request.map(|request| (id, request)));
            }
            sets.push(queued);
        }
        sets
    }

    /// The pods that are there, by their requests.
    fn members(&self, (namespace, _): &Key, workload: &Workload) -> Vec<RequestId> {
        let owners = workload.metadata.owner_references.iter().flatten();
        let found: BTreeSet<RequestId> = owners
            .filter_map(|owner| {
                self.below.get(&(owner.kind.clone(), (namespace.clone(), owner.name.clone())))
            })
            .flatten()
            .cloned()
            .collect();
        found.into_iter().collect()
    }

    /// Whether a pod of a workload belongs to this set, as far as it says so.
    fn may_be_of(&self, id: &RequestId, workload: &Workload, set: &PodSet) -> bool {
        let labels = self.siblings.get(id).and_then(|pod| pod.metadata.labels.as_ref());
        let said = labels.and_then(|labels| labels.get(POD_SET));
        let is_a_set = |name: &String| workload.spec.pod_sets.iter().any(|set| set.name == *name);
        said.filter(|name| is_a_set(name)).is_none_or(|name| *name == set.name)
    }

    /// Whether pods that are not there are still to come. Those of an admitted
    /// workload are made within moments: after that nothing is kept for them.
    fn may_be_made(&self, workload: &Workload) -> bool {
        let admitted =
            workload.status.conditions.iter().find(|c| c.type_ == "Admitted" && c.status == "True");
        admitted.is_none_or(|admitted| admitted.last_transition_time.0 + self.made_within > self.now)
    }

    /// Requests of pods that nobody has made yet: they are named after the
    /// owner, by numbers that none of its pods has.
    fn not_made_yet(
        &self,
        key: &Key,
        workload: &Workload,
        count: usize,
        taken: &mut BTreeSet<RequestId>,
    ) -> Vec<RequestId> {
        let root = self.owner(key, workload);
        let mut ids = Vec::new();
        let mut ordinal = 0;
        while ids.len() < count {
            let id = RequestId { ordinal, ..root.clone() };
            ordinal += 1;
            if !self.siblings.contains_key(&id) && taken.insert(id.clone()) {
                ids.push(id);
            }
        }
        ids
    }

    /// Who stands behind a workload. The owners of a group of pods are none of
    /// them its controller: there the one that is no pod counts.
    fn owner(&self, (namespace, name): &Key, workload: &Workload) -> RequestId {
        let owners = || workload.metadata.owner_references.iter().flatten();
        let owner = owners()
            .find(|owner| owner.controller == Some(true))
            .or_else(|| owners().find(|owner| owner.kind != "Pod"));
        let (kind, name) =
            owner.map_or(("Workload", name.as_str()), |owner| (owner.kind.as_str(), owner.name.as_str()));
        owners::topmost(self.objects, namespace, kind, name)
    }

    /// A pod of a set as Kueue will start it: with the labels and tolerations
    /// of its flavors, and the node to which we have kept it.
    fn as_it_will_run(&self, workload: &Workload, set: &PodSet, checks: &[&AdmissionCheckState]) -> PodSpec {
        let mut spec = set.template.spec.clone();
        let mut labels = spec.node_selector.take().unwrap_or_default();
        let mut tolerations = spec.tolerations.take().unwrap_or_default();
        let flavors: BTreeSet<&String> = workload
            .assignment_of(set)
            .map(|assigned| assigned.flavors.values().collect())
            .unwrap_or_default();
        for flavor in flavors.into_iter().filter_map(|name| self.objects.resource_flavors.get(name)) {
            labels.extend(flavor.spec.node_labels.clone());
            tolerations.extend(flavor.spec.tolerations.clone());
        }
        for check in checks.iter().filter(|check| check.state == "Ready") {
            let updates = check.pod_set_updates.iter().filter(|update| update.name == set.name);
            labels.extend(updates.flat_map(|update| update.node_selector.clone()));
        }
        spec.node_selector = Some(labels).filter(|labels| !labels.is_empty());
        spec.tolerations = Some(tolerations).filter(|tolerations| !tolerations.is_empty());
        spec
    }
}
