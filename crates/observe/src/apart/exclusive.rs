//! Exclusive placement: each group of pods has a part of the cluster to itself, such as a rack. A JobSet can place its jobs
//! so, and a LeaderWorkerSet its groups: the first pod of a group has a required anti-affinity to all pods with the label
//! of groups whose value is another than its own, and the others follow it by a node selector.
//!
//! Of a group's other pods, the label is known only where one of these two sets it: nobody keeps the labels of all pods.
//!
//! Sources: the webhooks for pods of JobSet v0.10.1 and v0.12.0, and of LeaderWorkerSet v0.7.0 and v0.9.0.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use planner::demand::{Apart, Request};
use planner::inventory::Inventory;
use planner::names::NodeName;

use super::{Kind, NO_TOPOLOGY, Rule, matches};
use crate::names::HOSTNAME;

/// The label by which JobSet knows a job, and the one that says that the job is placed exclusively, and beside which others
/// it may be: those of another priority.
const JOB: &str = "jobset.sigs.k8s.io/job-key";
const PRIORITY: &str = "jobset.sigs.k8s.io/priority";
/// The labels by which LeaderWorkerSet knows groups.
const GROUPS: [&str; 2] =
    ["leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/subgroup-key"];

/// The rule by which the pods of a job of a JobSet will keep other jobs away, before there is any of them. The jobs of one
/// workload count as one: how many there are, it does not say.
pub(crate) fn of_job_to_come(
    topology: &str,
    priority: Option<i32>,
    (namespace, name): &(String, String),
) -> Option<Rule> {
    let same = of_priority(&priority.unwrap_or_default().to_string());
    let group = format!("{namespace}/{name}");
    Rule::of_group(topology, Kind::Alone { everywhere: true }, &(JOB, vec![same]), &group)
}

/// That another job has the same priority.
fn of_priority(priority: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: PRIORITY.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![priority.to_owned()]),
    }
}

/// What a term of an anti-affinity says, if it keeps all groups but the pod's own away.
pub(super) fn of_term(pod: &Pod, term: &PodAffinityTerm) -> Option<Rule> {
    let PodAffinityTerm {
        label_selector,
        match_label_keys,
        mismatch_label_keys,
        namespace_selector,
        namespaces,
        topology_key,
    } = term;
    let has_keys =
        [match_label_keys, mismatch_label_keys].iter().any(|keys| keys.iter().flatten().count() > 0);
    let everywhere = *namespace_selector == Some(LabelSelector::default());
    let is_elsewhere =
        namespaces.iter().flatten().count() > 0 || (namespace_selector.is_some() && !everywhere);
    let LabelSelector { match_expressions, match_labels } = label_selector.as_ref()?;
    if has_keys || is_elsewhere || match_labels.iter().flatten().count() > 0 {
        return None;
    }
    let expressions: Vec<_> = match_expressions.iter().flatten().collect();
    let (key, group) = expressions.iter().find_map(|other| {
        let own = pod.metadata.labels.as_ref()?.get(&other.key)?;
        let is_own = other.operator == "NotIn"
            && other.values.as_ref().is_some_and(|all| all == std::slice::from_ref(own));
        is_own.then_some((&other.key, own))
    })?;
    let (of_key, rest): (Vec<_>, Vec<_>) = expressions.iter().partition(|expression| expression.key == *key);
    let has_key = of_key.iter().any(|expression: &&LabelSelectorRequirement| expression.operator == "Exists");
    let rest: Vec<LabelSelectorRequirement> = rest.into_iter().map(|other| (*other).clone()).collect();
    let of_rest = LabelSelector { match_expressions: Some(rest), match_labels: None };
    let is_exclusive = of_key.len() == 2 && has_key && matches(pod, Some(&of_rest));
    let rest = of_rest.match_expressions.unwrap_or_default();
    is_exclusive.then(|| Rule::of_group(topology_key, Kind::Alone { everywhere }, &(key, rest), group))?
}

/// Of which groups a pod is, as far as others may want to be without them.
pub(super) fn groups(pod: &Pod) -> impl Iterator<Item = Rule> {
    let label = |key: &str| pod.metadata.labels.as_ref()?.get(key);
    let of_job = label(JOB).zip(label(PRIORITY)).and_then(|(job, priority)| {
        Rule::of_group(NO_TOPOLOGY, Kind::Grouped, &(&JOB.to_owned(), vec![of_priority(priority)]), job)
    });
    let none: Vec<LabelSelectorRequirement> = vec![];
    let of_set = GROUPS.into_iter().filter_map(move |key| {
        Rule::of_group(NO_TOPOLOGY, Kind::Grouped, &(&key.to_owned(), none.clone()), label(key)?)
    });
    of_job.into_iter().chain(of_set)
}

/// A pod that has a node, or will have it: its namespace, its rule, and the node.
type Placed = (String, Rule, NodeName);

/// Pods of groups, and where they are.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By what the rule is about: those that want to be alone, and the others.
    placed: BTreeMap<String, (Vec<Placed>, Vec<Placed>)>,
}

impl Groups {
    fn keep_off_all(
        &self,
        namespace: &str,
        rules: &[Rule],
        inventory: &Inventory,
    ) -> BTreeMap<NodeName, Apart> {
        rules.iter().flat_map(|rule| self.keep_off(namespace, rule, inventory)).collect()
    }

    pub(super) fn add(&mut self, namespace: &str, rule: &Rule, node: &NodeName) {
        let (alone, others) = self.placed.entry(rule.digest.clone()).or_default();
        let placed = (namespace.to_owned(), rule.clone(), node.clone());
        if matches!(rule.kind, Kind::Alone { .. }) { alone } else { others }.push(placed);
    }

    /// The nodes from which a pod with this rule is kept off: in their part of the cluster is another group, and
    /// one of the two wants to be alone there.
    pub(super) fn keep_off(
        &self,
        namespace: &str,
        rule: &Rule,
        inventory: &Inventory,
    ) -> BTreeMap<NodeName, Apart> {
        let Some((alone, others)) = self.placed.get(&rule.digest) else { return BTreeMap::new() };
        let mut parts: BTreeSet<(&str, &str)> = BTreeSet::new();
        // Two pods that only are of groups have nothing against each other.
        let others = others.iter().filter(|_| rule.kind != Kind::Grouped);
        for (their_namespace, theirs, node) in alone.iter().chain(others) {
            if theirs.group == rule.group {
                continue;
            }
            let is_about = |kind: &Kind| match kind {
                Kind::Alone { everywhere } => *everywhere || their_namespace == namespace,
                _ => false,
            };
            let Some(node) = inventory.nodes.get(node) else { continue };
            for rule in [rule, theirs].into_iter().filter(|rule| is_about(&rule.kind)) {
                parts.extend(
                    node.labels.get(&rule.topology).map(|part| (rule.topology.as_str(), part.as_str())),
                );
            }
        }
        let mut off = BTreeMap::new();
        // Mostly nobody wants to be alone, and a fleet is large.
        if parts.is_empty() {
            return off;
        }
        for (name, node) in &inventory.nodes {
            let shared =
                parts.iter().find(|(label, part)| node.labels.get(*label).is_some_and(|l| l == part));
            if let Some((label, _)) = shared {
                let topology = Some((*label).to_owned()).filter(|label| label != HOSTNAME);
                off.insert(name.clone(), Apart::Exclusive { topology });
            }
        }
        off
    }
}

/// The rules, by name, of which no group has more than one pod that waits: the pods that have it are of
/// different groups, so that no two of them can be in one part of the cluster.
pub(super) fn one_of_each_group(requests: &[Request], asked: &[BTreeSet<Rule>]) -> BTreeSet<String> {
    let mut many: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (request, rules) in requests.iter().zip(asked) {
        for rule in rules.iter().filter(|rule| matches!(rule.kind, Kind::Alone { .. })) {
            let of_rule = many.entry(rule.name_in(&request.id.namespace)).or_default();
            *of_rule.entry(&rule.group).or_default() += 1;
        }
    }
    many.retain(|_, groups| groups.values().all(|pods| *pods == 1));
    many.into_keys().collect()
}

/// What was promised to a pod of a group keeps other groups off, as if the pod were there already. Of two promises that
/// cannot both be kept, the first by name is.
pub(super) fn keep_promises(requests: &mut [Request], asked: &[BTreeSet<Rule>], inventory: &Inventory) {
    let about_groups = |rules: &'_ BTreeSet<Rule>| {
        rules.iter().filter(|rule| rule.is_about_groups()).cloned().collect::<Vec<_>>()
    };
    let mut promised = Groups::default();
    for (request, rules) in requests.iter_mut().zip(asked) {
        let Some(node) = request.promised.clone() else { continue };
        let rules = about_groups(rules);
        let off = promised.keep_off_all(&request.id.namespace, &rules, inventory);
        if off.contains_key(&node) {
            continue;
        }
        for rule in &rules {
            promised.add(&request.id.namespace, rule, &node);
        }
    }
    if promised.placed.is_empty() {
        return;
    }
    for (request, rules) in requests.iter_mut().zip(asked) {
        let off = promised.keep_off_all(&request.id.namespace, &about_groups(rules), inventory);
        request.constraints.kept_off.extend(off);
    }
}
