//! Unused labels of nodes. A node with GPUs has some hundred labels, and most of them, such as the features
//! of its processor or the number of engines of a slice, matter only to a selector that names them. They
//! are stored separately, shared by all nodes with the same labels, and restored when a selector names
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::{HardwareProfile, Notebook, ResourceFlavor, Workload};
use api::selector::Selector;
use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, PodSpec};
use observe::objects::Key;
use observe::read_labels::{MANY, is_read};

use super::{Foreign, Source, Store};

/// Labels, by key.
type Labels = BTreeMap<String, String>;

/// What is laid aside, and what somebody named.
#[derive(Debug, Default)]
pub(super) struct SharedLabels {
    of: BTreeMap<String, Arc<Labels>>,
    /// Every set of labels, once.
    sets: BTreeSet<Arc<Labels>>,
    /// Keys that selectors name. One that was named once stays, until there are
    /// too many: then those stay that somebody names now.
    named: BTreeSet<String>,
    /// How many were named when that was last done.
    last: usize,
}

/// So many names are never too many.
const FEW: usize = 4096;

impl SharedLabels {
    /// Lays aside what nobody reads of a node.
    pub(super) fn lay(&mut self, name: &str, node: &mut Node) {
        let all = node.metadata.labels.take().unwrap_or_default();
        let (kept, unread): (Labels, Labels) =
            all.into_iter().partition(|(key, value)| is_read(key, value) || self.named.contains(key));
        node.metadata.labels = (!kept.is_empty()).then_some(kept);
        if self.of.get(name).is_some_and(|before| **before == unread) {
            return;
        }
        self.forget(name);
        if unread.is_empty() {
            return;
        }
        let shared = match self.sets.get(&unread) {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(unread),
        };
        self.sets.insert(Arc::clone(&shared));
        self.of.insert(name.to_owned(), shared);
    }

    /// A node is gone, or has other labels.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(before) = self.of.remove(name) else { return };
        // This one, and that among the sets.
        if Arc::strong_count(&before) == 2 {
            self.sets.remove(&before);
        }
    }

    /// Somebody names these keys: says which of them no node shows yet.
    pub(super) fn name(&mut self, keys: BTreeSet<String>) -> BTreeSet<String> {
        // Of no other writer is anything laid aside.
        let theirs = |key: &String| MANY.iter().any(|prefix| key.starts_with(prefix));
        let new: BTreeSet<String> =
            keys.into_iter().filter(|key| theirs(key) && !self.named.contains(key)).collect();
        self.named.extend(new.iter().cloned());
        new
    }

    /// Puts labels of these keys back.
    pub(super) fn restore(&self, keys: &BTreeSet<String>, nodes: &mut BTreeMap<String, Arc<Node>>) {
        for (name, shared_labels) in &self.of {
            let Some(node) = nodes.get_mut(name) else { continue };
            let found: Labels =
                keys.iter().filter_map(|key| shared_labels.get_key_value(key)).map(owned).collect();
            if !found.is_empty() {
                Arc::make_mut(node).metadata.labels.get_or_insert_default().extend(found);
            }
        }
    }

    /// Whether so many keys were named that some of them may be forgotten.
    fn has_too_many(&self) -> bool {
        self.named.len() > FEW.max(2 * self.last)
    }

    /// How many sets of labels there are.
    #[cfg(test)]
    pub(super) fn sets(&self) -> usize {
        self.sets.len()
    }
}

impl Store {
    /// A store that keeps of nodes only what is read.
    #[must_use]
    pub fn sparing() -> Self {
        Self { shared_labels: Some(SharedLabels::default()), ..Self::default() }
    }

    /// Somebody's selector names these labels: nodes show them from now on.
    pub(super) fn name_labels(&mut self, keys: impl FnOnce() -> BTreeSet<String>) {
        let Some(shared_labels) = &mut self.shared_labels else { return };
        let new = shared_labels.name(keys());
        if !new.is_empty() {
            shared_labels.restore(&new, &mut self.objects.nodes);
            shared_labels.restore(&new, &mut self.waiting);
        }
        if shared_labels.has_too_many() {
            let objects = &self.objects;
            let waits = |pod: &&Arc<Pod>| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none());
            let pods = objects.pods.values().filter(waits).map(|pod| of_pod(pod));
            let policies = objects.policies.values().map(|policy| of_selector(&policy.spec.node_selector));
            let workbenches = objects.notebooks.values().map(|notebook| of_notebook(notebook));
            let workloads = objects.workloads.values().map(|workload| of_workload(workload));
            let profiles = objects.hardware_profiles.values().map(of_profile);
            let flavors = objects.resource_flavors.values().map(of_flavor);
            let volumes = objects.volumes.labels().cloned();
            let live = pods
                .chain(policies)
                .chain(workbenches)
                .chain(workloads)
                .chain(profiles)
                .chain(flavors)
                .flatten();
            let live = live.chain(volumes).chain(objects.placed_alone.values().cloned());
            // What is being named now is not kept yet.
            shared_labels.named = live.filter(|key| shared_labels.named.contains(key)).chain(new).collect();
            shared_labels.last = shared_labels.named.len();
        }
    }

    /// The labels by which jobs are placed exclusively, as was found out about what stands above their pods.
    pub fn name_labels_of_placed_alone(&mut self) {
        let labels: BTreeSet<String> = self.objects.placed_alone.values().cloned().collect();
        self.name_labels(|| labels);
    }

    /// The labels that an object of ours or of a foreign kind names.
    pub(super) fn name_labels_of(&mut self, source: &Source, key: &Key) {
        let objects = &self.objects;
        let named = match source {
            Source::Policies => {
                objects.policies.get(&key.1).map(|policy| of_selector(&policy.spec.node_selector))
            }
            Source::Foreign(Foreign::Notebook) => {
                objects.notebooks.get(key).map(|notebook| of_notebook(notebook))
            }
            Source::Foreign(Foreign::Workload) => {
                objects.workloads.get(key).map(|workload| of_workload(workload))
            }
            Source::Foreign(Foreign::HardwareProfile) => objects.hardware_profiles.get(key).map(of_profile),
            Source::Foreign(Foreign::ResourceFlavor) => objects.resource_flavors.get(&key.1).map(of_flavor),
            _ => None,
        };
        if let Some(named) = named {
            self.name_labels(|| named);
        }
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// The keys that a policy names.
pub(super) fn of_selector(selector: &Selector) -> BTreeSet<String> {
    let Selector { match_labels, match_expressions } = selector;
    let expressions = match_expressions.iter().map(|requirement| &requirement.key);
    match_labels.keys().chain(expressions).cloned().collect()
}

/// The keys that a pod names.
pub(super) fn of_pod(pod: &Pod) -> BTreeSet<String> {
    let mut keys = pod.spec.as_ref().map(of_spec).unwrap_or_default();
    keys.extend(observe::apart::rules(pod).iter().filter_map(|rule| rule.topology().map(str::to_owned)));
    keys
}

/// The keys that what is said of a pod to be names.
fn of_spec(spec: &PodSpec) -> BTreeSet<String> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let mut keys = required.map(|selector| of_terms(&selector.node_selector_terms)).unwrap_or_default();
    keys.extend(spec.node_selector.iter().flat_map(BTreeMap::keys).cloned());
    keys
}

/// The keys that a node selector names.
pub(super) fn of_terms(terms: &[NodeSelectorTerm]) -> BTreeSet<String> {
    terms.iter().flat_map(|term| term.match_expressions.iter().flatten()).map(|e| e.key.clone()).collect()
}

/// The keys that a workbench names.
pub(super) fn of_notebook(notebook: &Notebook) -> BTreeSet<String> {
    of_spec(notebook.spec.template.spec.shape())
}

/// The keys that a workload names, whose pods nobody has made yet: in their
/// templates, and by what checks have added to them.
pub(super) fn of_workload(workload: &Workload) -> BTreeSet<String> {
    let sets = &workload.spec.pod_sets;
    let mut keys: BTreeSet<String> = sets.iter().flat_map(|set| of_spec(set.template.spec.shape())).collect();
    let rules = sets.iter().flat_map(|set| observe::apart::of_template(&set.template));
    keys.extend(rules.filter_map(|rule| rule.topology().map(str::to_owned)));
    keys.extend(sets.iter().filter_map(|set| set.required_topology().cloned()));
    let updates = workload.status.admission_checks.iter().flat_map(|check| &check.pod_set_updates);
    keys.extend(updates.flat_map(|update| update.node_selector.iter()).map(|(key, _)| key.to_owned()));
    keys
}

/// The keys that a hardware profile names.
pub(super) fn of_profile(profile: &HardwareProfile) -> BTreeSet<String> {
    let node = profile.spec.scheduling.as_ref().and_then(|scheduling| scheduling.node.as_ref());
    node.map(|node| node.node_selector.keys().cloned().collect()).unwrap_or_default()
}

/// The keys that a flavor names.
pub(super) fn of_flavor(flavor: &ResourceFlavor) -> BTreeSet<String> {
    flavor.spec.node_labels.keys().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)]) -> Node {
        let mut node = Node::default();
        node.metadata.labels = Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        node
    }

    #[test]
    fn nodes_with_the_same_share_it_and_it_goes_with_the_last_of_them() {
        let avx = ("feature.node.kubernetes.io/cpu-cpuid.AVX2", "true");
        let mut shared_labels = SharedLabels::default();
        for name in ["a", "b"] {
            shared_labels.lay(name, &mut node(&[avx, ("kubernetes.io/hostname", name)]));
        }
        assert_eq!(shared_labels.sets(), 1);
        shared_labels.lay("b", &mut node(&[("feature.node.kubernetes.io/cpu-cpuid.AVX2", "false")]));
        assert_eq!(shared_labels.sets(), 2);
        shared_labels.forget("a");
        assert_eq!(shared_labels.sets(), 1);
        shared_labels.lay("b", &mut node(&[]));
        assert_eq!(shared_labels.sets(), 0);
    }
}
