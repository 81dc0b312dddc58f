//! Amounts of quota: how much a queue has left, how much a workload takes of it. Only what is a GPU or a part of
//! one is counted; of CPU and memory nothing is known.

use std::collections::BTreeMap;

use api::foreign::kueue::ResourceFlavorSpec;
use api::foreign::queue::ResourceGroup;
use api::foreign::workload::PodSetAssignment;
use api::foreign::{ClusterQueue, TemplateSpec, Workload};
use k8s_openapi::api::core::v1::{PodSpec, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use observe::requests::constraints;
use observe::{Objects, pods};
use planner::demand::Term;
use planner::selector;

/// How much there is of each resource in each flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room(BTreeMap<(String, String), u64>);

impl Room {
    /// What of a queue's own quota nobody has. In a cohort others may have
    /// borrowed it, so that nothing is certain.
    pub(super) fn left(queue: &ClusterQueue) -> Self {
        let in_cohort = queue.spec.cohort_name.as_ref().is_some_and(|cohort| !cohort.is_empty());
        let mut room = Self::default();
        for flavor in queue.spec.resource_groups.iter().flat_map(|group| &group.flavors) {
            for quota in flavor.resources.iter().filter(|_| !in_cohort) {
                let amount = |quantity: &Quantity| {
                    u64::try_from(pods::amount(&quota.name, quantity).unwrap_or_default()).unwrap_or_default()
                };
                let held = queue.reserved(&flavor.name, &quota.name).map_or(0, amount);
                let left = amount(&quota.nominal_quota).saturating_sub(held);
                room.add((flavor.name.clone(), quota.name.clone()), left);
            }
        }
        room
    }

    /// What a workload holds.
    pub(super) fn held(workload: &Workload) -> Self {
        let mut room = Self::default();
        for set in &workload.spec.pod_sets {
            let Some(assignment) = workload.assignment_of(set) else { continue };
            for (resource, n) in taken(&set.template.spec, workload.count_of(set)) {
                if let Some(flavor) = assignment.flavors.get(&resource) {
                    room.add((flavor.clone(), resource), n);
                }
            }
        }
        room
    }

    fn add(&mut self, of: (String, String), n: u64) {
        let amount = self.0.entry(of).or_default();
        *amount = amount.saturating_add(n);
    }

    /// Both together.
    pub(super) fn and(mut self, other: &Self) -> Self {
        for (of, n) in &other.0 {
            self.add(of.clone(), *n);
        }
        self
    }

    /// Takes what a workload asks for out of it, if all of that is there: the
    /// first flavor of each group that has enough. Says which flavors these are.
    pub(super) fn take(
        &mut self,
        objects: &Objects,
        queue: &ClusterQueue,
        workload: &Workload,
    ) -> Option<Vec<PodSetAssignment>> {
        let mut left = self.clone();
        let mut assignments = Vec::new();
        for set in &workload.spec.pod_sets {
            let asks = taken(&set.template.spec, set.count);
            let mut flavors = BTreeMap::new();
            for group in &queue.spec.resource_groups {
                let of_group: Vec<_> =
                    asks.iter().filter(|(resource, _)| group.covered_resources.contains(resource)).collect();
                if of_group.is_empty() {
                    continue;
                }
                let of = |flavor: &str, resource: &str| (flavor.to_owned(), resource.to_owned());
                let has_all = |flavor: &str| {
                    of_group.iter().all(|(r, n)| left.0.get(&of(flavor, r)).is_some_and(|left| left >= n))
                };
                let flavor = group.flavors.iter().find(|flavor| {
                    may_use(objects, group, &flavor.name, set.template.spec.shape()) && has_all(&flavor.name)
                })?;
                for (resource, n) in of_group {
                    flavors.insert(resource.clone(), flavor.name.clone());
                    *left.0.get_mut(&of(&flavor.name, resource))? -= n;
                }
            }
            if flavors.len() < asks.len() {
                return None;
            }
            assignments.push(PodSetAssignment { name: set.name.clone(), flavors, count: Some(set.count) });
        }
        *self = left;
        Some(assignments)
    }
}

/// What pods take of GPUs.
fn taken(template: &TemplateSpec, count: i32) -> BTreeMap<String, u64> {
    let count = u64::try_from(count).unwrap_or_default();
    let gpus = pods::gpus_of_template(template).into_iter();
    gpus.map(|(resource, n)| (resource, n.saturating_mul(count))).filter(|(_, n)| *n > 0).collect()
}

/// Whether Kueue may give a pod this flavor of a group. Where it looks for allocatable
/// slices itself (a topology), nobody can say.
fn may_use(objects: &Objects, group: &ResourceGroup, flavor: &str, spec: &PodSpec) -> bool {
    let Some(found) = objects.resource_flavors.get(flavor) else { return false };
    let ResourceFlavorSpec { node_labels, node_taints, tolerations, topology_name } = &found.spec;
    let is_known = |key: &str| {
        let mut all = group.flavors.iter().filter_map(|of| objects.resource_flavors.get(&of.name));
        all.any(|flavor| flavor.spec.node_labels.contains_key(key))
    };
    topology_name.is_none()
        && selects(spec, node_labels, is_known)
        && node_taints.iter().all(|taint| is_tolerated(taint, spec, tolerations))
}

/// Whether a pod selects nodes with these labels, as Kueue looks at it: it asks only for labels that a flavor of the group has.
/// From some release on these are the labels of the one flavor. Whoever may have it by all of them may have it by these.
fn selects(spec: &PodSpec, labels: &BTreeMap<String, String>, is_known: impl Fn(&str) -> bool) -> bool {
    let is_had = |(key, value): (&String, &String)| !is_known(key) || labels.get(key) == Some(value);
    let affinity = constraints::affinity(spec);
    let is_met = |term: &Term| {
        let known: Vec<_> = term.labels.iter().filter(|wanted| is_known(&wanted.key)).cloned().collect();
        selector::matches(&known, labels)
    };
    spec.node_selector.iter().flatten().all(is_had) && (affinity.is_empty() || affinity.iter().any(is_met))
}

/// Whether a taint keeps no pod with these tolerations away, by which its flavor adds to its own.
fn is_tolerated(taint: &Taint, spec: &PodSpec, by_flavor: &[Toleration]) -> bool {
    let taint = constraints::taint(taint);
    let keeps_away = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let mut all = spec.tolerations.iter().flatten().chain(by_flavor).map(constraints::toleration);
    !keeps_away || all.any(|toleration| toleration.tolerates(&taint))
}
