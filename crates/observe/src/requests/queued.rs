//! The requests in Kueue's queues: workloads that have quota and a check of ours, from that moment until
//! their pods have nodes.
//!
//! A workload that waits for quota is not a request: it may never get it. A workload with our answer
//! `Ready` is still a request, so that its slices are not planned for others before its pods are bound.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use api::foreign::Workload;
use api::foreign::workload::PodSet;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use planner::demand::{Evidence, Request};
use planner::names::RequestId;

use super::brief;
use super::clock::Clock;
use super::queued_workloads::{QueuedCheck, QueuedSet, QueuedWorkload, QueuedWorkloads};
use super::{Asked, Counted, HIGHEST_PRIORITY, priority_of};
use crate::apart::{self, Rule};
use crate::controllers::Named;
use crate::names;
use crate::objects::{Key, Objects};
use crate::owners;
use crate::placed_alone;
use crate::pods::{self, Life};
use crate::problem::Problem;

/// The label by which a pod says to which pod set it belongs.
pub const POD_SET: &str = "kueue.x-k8s.io/podset";
/// The label by which a pod names its workload, where pods are queued as a group.
pub const POD_GROUP: &str = "kueue.x-k8s.io/pod-group-name";

/// The requests that are somebody's already: a workload may share its owner
/// with others, and each has its own pods.
#[derive(Default)]
struct Taken {
    /// Of pods that are there, by their number.
    pods: BTreeSet<usize>,
    /// Of pods that nobody has made yet.
    not_made: BTreeSet<RequestId>,
    /// By which rules those of them keep apart that do.
    apart: BTreeMap<RequestId, BTreeSet<Rule>>,
    /// The next number to look at, by owner.
    next: BTreeMap<RequestId, u32>,
}

/// A pod that is there, with its request.
#[derive(Clone, Copy)]
struct Member<'a> {
    /// Which of all it is, by the order of their requests: of thousands, numbers are compared sooner than names.
    number: usize,
    id: &'a RequestId,
    pod: &'a Pod,
}

/// A workload, with its key and what is asked of it.
pub(super) type Of<'a> = (&'a Key, &'a Arc<Workload>, &'a brief::Queued);

/// A workload that may have something to wait for.
#[derive(Clone, Copy)]
struct Due<'a> {
    key: &'a Key,
    workload: &'a Workload,
    brief: &'a brief::Queued,
}

/// Everything that is read of the workloads of a namespace.
pub(super) struct Queues<'a> {
    objects: &'a Objects,
    /// All of the namespace, in their order.
    workloads: &'a [Of<'a>],
    siblings: &'a BTreeMap<RequestId, Arc<Pod>>,
    /// Each controller of a kind that owns a workload, with the pods below it, the pods included: those of one controller
    /// stand together, in the order of their requests.
    members: Vec<(Named<'a>, Member<'a>)>,
    /// Where those of each controller stand. It is only asked for names, so that its own order does not matter.
    below: HashMap<Named<'a>, Range<usize>>,
    /// Whether a pod has a node, and it is not known who stands behind it.
    unfollowed: bool,
    /// How long the pods of an admitted workload may take to be made.
    made_within: SignedDuration,
    clock: &'a Clock,
}

impl<'a> Queues<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        workloads: &'a [Of<'a>],
        siblings: &'a BTreeMap<RequestId, Arc<Pod>>,
        made_within: SignedDuration,
        clock: &'a Clock,
    ) -> Self {
        let mut members: Vec<(Named<'a>, Member<'a>)> = Vec::with_capacity(siblings.len());
        let mut unfollowed = false;
        let owners = workloads.iter().flat_map(|(_, workload, _)| &workload.metadata.owner_references);
        let kinds: BTreeSet<&str> = owners.map(|owner| owner.kind.as_str()).collect();
        // Where there is no workload, no pod is below the owner of one. One that nobody owns yet has pods all the same.
        if !workloads.is_empty() {
            for (number, (id, pod)) in siblings.iter().enumerate() {
                let chain = owners::chain(objects, pod);
                if owners::is_open(objects, &chain) && pods::life(pod) == Life::Bound {
                    unfollowed = true;
                }
                // The others own no workload, above all most pods.
                for of in chain.into_iter().filter(|(kind, ..)| kinds.contains(kind)) {
                    members.push((of, Member { number, id, pod }));
                }
            }
        }
        // Mostly they are in this order already.
        members.sort_by_key(|(of, _)| *of);
        let mut below = HashMap::with_capacity(members.len());
        let mut start = 0;
        for together in members.chunk_by(|(of, _), (other, _)| of == other) {
            let end = start + together.len();
            below.insert(together[0].0, start..end);
            start = end;
        }
        Self { objects, workloads, siblings, members, below, unfollowed, made_within, clock }
    }

    /// Adds the requests of the pods of all workloads to those that are known
    /// of pods, and says of which workload they are; and by which rules those
    /// keep apart that nobody has made yet.
    pub(super) fn read(
        &self,
        counted: &mut Counted,
        requests: &mut BTreeMap<RequestId, Request>,
        problems: &mut Vec<Problem>,
    ) -> (BTreeMap<Key, QueuedWorkload>, BTreeMap<RequestId, BTreeSet<Rule>>) {
        let mut queued = BTreeMap::new();
        let mut taken = Taken::default();
        let workloads = self.workloads.iter().filter(|(_, _, brief)| brief.has_quota);
        let due = workloads.map(|(key, workload, brief)| Due { key, workload, brief });
        let mut due: Vec<Due<'_>> = due.collect();
        let replaced = self.replaced(&due);
        due.retain(|of| !replaced.contains(of.key));
        // The oldest first: one that comes takes no number of those that are there.
        due.sort_by_key(|of| (of.brief.created, of.key));
        for of in due {
            let checks: Vec<QueuedCheck> = self.checks_of(of.brief).cloned().collect();
            if !checks.is_empty() {
                let sets = self.sets_of(&of, &mut taken, counted, requests, problems);
                let is_admitted = of.brief.admitted.is_some();
                let may_run_unseen = self.may_run_unseen(&of);
                queued.insert(of.key.clone(), QueuedWorkload { checks, sets, is_admitted, may_run_unseen });
            }
        }
        (queued, taken.apart)
    }

    /// Those whose place another one takes, which has its quota and a check of ours as well: it speaks for all pods of
    /// their job, and the one of before is about to end.
    fn replaced(&self, due: &[Due<'_>]) -> BTreeSet<Key> {
        let replacing = due.iter().filter(|of| of.brief.replaces);
        let before = replacing.filter_map(|Due { key, workload, brief }| {
            let (namespace, name) = workload.replaces()?;
            let before = (namespace.to_owned(), name.to_owned());
            let found = self.objects.workloads.get(&before).filter(|_| before != **key)?;
            self.checks_of(brief).next()?;
            // Anybody may write the annotation: it counts within one job only.
            let is_same_job = root(self.objects, &before, found) == root(self.objects, key, workload);
            is_same_job.then_some(before)
        });
        before.collect()
    }

    /// Who stands behind the workloads that have not ended. Their pods wait for quota, also those that are not made
    /// yet, or not made anew since Kueue took them back.
    pub(super) fn owners(&self) -> BTreeSet<RequestId> {
        let workloads = self.workloads.iter().filter(|(_, _, brief)| !brief.is_finished);
        workloads.map(|(key, workload, _)| root(self.objects, key, workload)).collect()
    }

    /// What checks of ours say of it, where they may still say something.
    fn checks_of<'b>(&self, brief: &'b brief::Queued) -> impl Iterator<Item = &'b QueuedCheck> {
        let found = |name: &str| self.objects.admission_checks.get(name);
        brief
            .checks
            .iter()
            .filter(move |check| found(&check.name).is_some_and(api::foreign::AdmissionCheck::is_ours))
    }

    fn sets_of(
        &self,
        of: &Due<'_>,
        taken: &mut Taken,
        counted: &mut Counted,
        requests: &mut BTreeMap<RequestId, Request>,
        problems: &mut Vec<Problem>,
    ) -> Vec<QueuedSet> {
        let Due { key, workload, brief: _ } = *of;
        let members = self.members(of);
        let alone = owners::of_workload(workload).and_then(|owner| {
            let named = (owner.kind.clone(), (key.0.clone(), owner.name.clone()));
            let topology = self.objects.placed_alone.get(&named)?;
            Some((owner.kind.as_str(), topology.as_str()))
        });
        let mut sets = Vec::new();
        for set in &workload.spec.pod_sets {
            let mut queued = QueuedSet { name: set.name.clone(), ..QueuedSet::default() };
            let count = usize::try_from(workload.count_of(set)).unwrap_or_default();
            let mut ids = Vec::new();
            let mut found = 0;
            for Member { number, id, pod } in &members {
                let is_full = found == count;
                if is_full || !may_be_of(pod, workload, set) || !taken.pods.insert(*number) {
                    continue;
                }
                found += 1;
                match pods::life(pod) {
                    Life::Bound => {
                        queued.placed += 1;
                        queued.running += u32::from(pod.metadata.deletion_timestamp.is_none());
                    }
                    Life::Ended => queued.placed += 1,
                    Life::Unschedulable | Life::Waiting => ids.push((*id).clone()),
                }
            }
            let mut missing = count.saturating_sub(ids.len() + queued.placed as usize);
            if missing > 0 && !self.may_be_made(of, !members.is_empty()) {
                missing = 0;
            }
            // Of thousands that run, nobody asks what they asked for.
            if ids.is_empty() && missing == 0 {
                sets.push(queued);
                continue;
            }
            let spec = self.as_it_will_run(workload, set);
            if missing > 0 && pods::asks_for_gpus(&spec) {
                let missing = u32::try_from(missing).unwrap_or(u32::MAX);
                let planned = counted.bounded(workload, missing, problems);
                queued.unplanned = missing - planned;
                let to_come = self.not_made_yet(key, workload, planned as usize, taken);
                let mut rules = apart::of_template(&set.template);
                // Once the first pod is there, it says for itself where it may be.
                let alone = alone.filter(|(kind, _)| *kind == placed_alone::JOB_SET && members.is_empty());
                let priority = spec.priority.or_else(|| priority_of(&spec, self.objects));
                rules.extend(alone.and_then(|(_, topology)| apart::of_job_to_come(topology, priority, key)));
                if !rules.is_empty() {
                    taken.apart.extend(to_come.iter().map(|id| (id.clone(), rules.clone())));
                }
                ids.extend(to_come);
            }
            let is_chosen =
                |label: &str| spec.node_selector.as_ref().is_some_and(|all| all.contains_key(label));
            let by_topology = self.is_placed_by_topology(workload, set);
            // Where other jobs are by then, only the first pod of each job says: no selector of ours may say otherwise.
            queued.is_kept_to_a_node = is_chosen(names::HOSTNAME) || by_topology || alone.is_some();
            if by_topology {
                queued.topology = set.required_topology().cloned();
            } else {
                let rules = apart::of_template(&set.template);
                let labels = rules.iter().filter(|rule| rule.is_together()).filter_map(Rule::topology);
                queued.one_of_each =
                    labels.filter(|label| !is_chosen(label)).map(ToOwned::to_owned).collect();
            }
            queued.is_misspelt = !pods::takes(&spec).unreadable.is_empty();
            let mut asked = Asked::of_template("Workload", &workload.metadata, spec);
            asked.priority = workload.spec.priority.map(|priority| priority.min(HIGHEST_PRIORITY));
            for id in ids {
                let known = requests.contains_key(&id);
                let request = if known {
                    None
                } else {
                    asked.request(id.clone(), Evidence::QueuedWorkload, self.objects, self.clock, problems)
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

    /// The pods that are there, in the order of their requests. A pod that names another
    /// workload is not among them: the groups of a `LeaderWorkerSet` are
    /// workloads of one owner.
    fn members(&self, of: &Due<'_>) -> Vec<Member<'a>> {
        let Due { key: (namespace, own_name), workload, brief } = of;
        let owners = workload.metadata.owner_references.iter();
        let below = owners.filter_map(|owner| {
            self.below.get(&(owner.kind.as_str(), namespace.as_str(), owner.name.as_str())).cloned()
        });
        let below = below.flat_map(|range| &self.members[range]).map(|(_, member)| *member);
        let is_its_own =
            |member: &Member<'_>| label_of(member.pod, POD_GROUP).is_none_or(|group| group == own_name);
        let is_of_before = |member: &Member<'_>| is_of_an_earlier_run(workload, brief, member.pod);
        let own = below.filter(is_its_own).filter(|member| !is_of_before(member));
        let mut members: Vec<Member<'a>> = own.collect();
        // A pod may be below several of its owners.
        members.sort_by_key(|member| member.number);
        members.dedup_by_key(|member| member.number);
        members
    }

    /// Whether pods that are not there are still to come. Those of an admitted
    /// workload are made within moments: after that nothing is kept for them, whatever clock dated it. Where nobody
    /// knows who makes them, they may run already, and whoever took the workload back then would end them.
    fn may_be_made(&self, of: &Due<'_>, has_pods: bool) -> bool {
        let Some(admitted) = of.brief.admitted else { return true };
        let owner = owners::of_workload(of.workload);
        let is_followed = owner.is_none_or(|owner| owners::leads_to_pods(&owner.kind));
        if !has_pods && !is_followed || self.may_run_unseen(of) {
            return false;
        }
        self.clock.is_within(self.made_within, admitted)
    }

    /// Whether pods that run may be its own although nobody takes them for that.
    fn may_run_unseen(&self, of: &Due<'_>) -> bool {
        of.brief.admitted.is_some() && self.unfollowed
    }

    /// Requests of pods that nobody has made yet: they are named after the
    /// owner, by numbers that none of its pods has.
    fn not_made_yet(
        &self,
        key: &Key,
        workload: &Workload,
        count: usize,
        taken: &mut Taken,
    ) -> Vec<RequestId> {
        let root = root(self.objects, key, workload);
        let Taken { pods: _, not_made, apart: _, next } = taken;
        let ordinal = next.entry(root.clone()).or_default();
        let mut found = Vec::new();
        while found.len() < count {
            let id = RequestId { ordinal: *ordinal, ..root.clone() };
            *ordinal += 1;
            if !self.siblings.contains_key(&id) && not_made.insert(id.clone()) {
                found.push(id);
            }
        }
        found
    }

    /// Whether Kueue places the pods of a set itself: it adds the labels of a
    /// rack or a host to each pod, and a node of ours could be in another one.
    fn is_placed_by_topology(&self, workload: &Workload, set: &PodSet) -> bool {
        let flavors = workload.assignment_of(set).into_iter().flat_map(|assigned| assigned.flavors.values());
        let mut flavors = flavors.filter_map(|name| self.objects.resource_flavors.get(name));
        flavors.any(|flavor| flavor.spec.topology_name.is_some())
    }

    /// A pod of a set as Kueue will start it: with the labels and tolerations
    /// of its flavors, and with those that checks have added, whoever answers
    /// them: ours has the node to which we have kept it.
    fn as_it_will_run(&self, workload: &Workload, set: &PodSet) -> PodSpec {
        let mut spec = set.template.spec.whole();
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
        let passed = workload.status.admission_checks.iter().filter(|check| check.state == "Ready");
        for update in passed.flat_map(|check| &check.pod_set_updates).filter(|update| update.name == set.name)
        {
            labels.extend(BTreeMap::from(update.node_selector.clone()));
            tolerations.extend(update.tolerations.clone());
        }
        spec.node_selector = Some(labels).filter(|labels| !labels.is_empty());
        spec.tolerations = Some(tolerations).filter(|tolerations| !tolerations.is_empty());
        spec
    }
}

/// Who stands behind these workloads, by what else their requests may have been called: the workload itself, before
/// somebody took it for a job, and its owner, before it was known who stands above that. Only where something was
/// promised by that name.
pub(super) fn behind<'k>(
    objects: &Objects,
    workloads: impl Iterator<Item = &'k Key>,
    promised: impl Iterator<Item = &'k RequestId>,
) -> BTreeMap<RequestId, RequestId> {
    let promised: BTreeSet<Named<'k>> =
        promised.map(|id| (id.kind.as_str(), id.namespace.as_str(), id.name.as_str())).collect();
    let mut behind = BTreeMap::new();
    if promised.is_empty() {
        return behind;
    }
    for key in workloads {
        let Some(workload) = objects.workloads.get(key) else { continue };
        let owner = owners::of_workload(workload).map(|owner| (owner.kind.as_str(), owner.name.as_str()));
        for (kind, name) in owner.into_iter().chain([("Workload", key.1.as_str())]) {
            if !promised.contains(&(kind, key.0.as_str(), name)) {
                continue;
            }
            let before = RequestId {
                kind: kind.to_owned(),
                namespace: key.0.clone(),
                name: name.to_owned(),
                ordinal: 0,
            };
            let root = root(objects, key, workload);
            if before != root {
                behind.insert(before, root);
            }
        }
    }
    behind
}

/// Who stands behind a workload.
fn root(objects: &Objects, (namespace, name): &Key, workload: &Workload) -> RequestId {
    let (kind, name) = owners::of_workload(workload)
        .map_or(("Workload", name.as_str()), |owner| (owner.kind.as_str(), owner.name.as_str()));
    owners::topmost(objects, namespace, kind, name)
}

/// Whether a pod of a workload belongs to this set, as far as it says so.
fn may_be_of(pod: &Pod, workload: &Workload, set: &PodSet) -> bool {
    // Of its only set, whatever a pod says.
    if workload.spec.pod_sets.len() == 1 {
        return true;
    }
    let said = label_of(pod, POD_SET);
    let is_a_set = |name: &String| workload.spec.pod_sets.iter().any(|set| set.name == *name);
    said.filter(|name| is_a_set(name)).is_none_or(|name| *name == set.name)
}

fn label_of<'p>(pod: &'p Pod, label: &str) -> Option<&'p String> {
    pod.metadata.labels.as_ref()?.get(label)
}

/// Says of the requests of each workload that they start together, or not at all, and of which workload they are; not where some
/// of its pods have a node already. Those are a gang whose pods have to be in one part of the cluster. And what Kueue's
/// topologies want of them.
pub(super) fn tie(requests: &mut [Request], queued: &QueuedWorkloads) {
    if queued.is_empty() {
        return;
    }
    let mut of: BTreeMap<RequestId, &mut Request> =
        requests.iter_mut().map(|request| (request.id.clone(), request)).collect();
    for ((namespace, name), workload) in queued.iter() {
        for set in &workload.sets {
            let Some(label) = &set.topology else { continue };
            let rule = format!("{namespace}/{name} {}", set.name);
            for id in &set.requests {
                if let Some(request) = of.get_mut(id) {
                    request.together.rules.insert(rule.clone(), label.clone());
                }
            }
        }
        let ids = || workload.sets.iter().flat_map(|set| &set.requests);
        if workload.sets.iter().any(|set| set.placed > 0) {
            continue;
        }
        // One alone waits for nobody, and those who may run have started.
        let is_one_of_several = ids().nth(1).is_some() && !workload.may_run_unseen;
        let is_tied = ids().any(|id| of.get(id).is_some_and(|request| !request.together.rules.is_empty()));
        let key = format!("{namespace}/{name}");
        for id in ids() {
            if let Some(request) = of.get_mut(id) {
                request.together.gang = is_tied.then(|| key.clone());
                request.together.workload = is_one_of_several.then(|| key.clone());
            }
        }
    }
}

/// Whether a pod is of the time before its workload got the quota that it has: Kueue took the workload back, and starts
/// it again. Such pods have ended, or come to their end, and others are made in their place.
fn is_of_an_earlier_run(workload: &Workload, brief: &brief::Queued, pod: &Pod) -> bool {
    // What is let go may have pods that came to nothing since.
    let is_let_go = brief.admitted.is_some();
    match pods::life(pod) {
        Life::Ended => match pods::ready_changed(pod).zip(workload.since("QuotaReserved")) {
            Some((ended, reserved)) => ended < reserved,
            None => !is_let_go,
        },
        Life::Bound => pod.metadata.deletion_timestamp.is_some() && !is_let_go,
        Life::Unschedulable | Life::Waiting => false,
    }
}
