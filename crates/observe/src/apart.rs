//! Pods that keep apart from pods like them, or together: replicas of a server of which no two may be on one node, or
//! which are spread over zones; and pods of a job that have to be in one zone. The scheduler puts none of them elsewhere,
//! whatever slices are free there; so no slice is planned there either.
//!
//! Three kinds of rules are read: required affinity and anti-affinity, and topology spread constraints with
//! `DoNotSchedule`, each where the pod itself is among those that the rule is about. That is what the replicas of a
//! Deployment, a StatefulSet or a model server say. Pods that say the same are alike: a digest of the rule is noted on each, so that nobody has to keep
//! the labels of all pods. Rules about other pods are not read, and a node is only ruled out where the scheduler would
//! rule it out: of the pods and the nodes that the scheduler counts, some are not known here, and all of them could only
//! rule out more.
//!
//! Source: Kubernetes' documentation of affinity and anti-affinity between pods, and of topology spread constraints.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::Metadata;
use api::foreign::workload::PodTemplate;
use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use planner::demand::{Apart, Expression, Operator, Request, Together};
use planner::eligible::{Eligibility, Ineligible, Judge};
use planner::inventory::Inventory;
use planner::names::{NodeName, RequestId};
use planner::selector;

use crate::names::HOSTNAME;
use crate::objects::Objects;
use crate::pods::{self, Life};

/// The annotation in which the rules of a pod stand where its labels are not kept. Whoever keeps objects writes it in
/// the place of what stood there.
pub const NOTE: &str = "slicewright.io/keeps-apart";

/// How many rules of one pod are read. Pods have one or two.
const MOST_RULES: usize = 4;

/// How long one rule may be where it is noted: a digest, a number, and the key of a label.
const LONGEST_RULE: usize = 400;

/// What a rule says of pods that have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
enum Kind {
    /// Each part of the cluster may have one of them: anti-affinity.
    Apart,
    /// How many more of them one part of the cluster may have than the one with the fewest.
    Spread(u32),
    /// One part of the cluster has all of them: affinity.
    Together,
}

/// One rule, by which a pod keeps apart from pods that have the same, or together with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// A digest of all that the rule says.
    digest: String,
    kind: Kind,
    /// The label of nodes that makes them parts of the cluster, such as a zone.
    topology: String,
}

impl Rule {
    fn new<T: serde::Serialize>(topology: &str, kind: Kind, says: &T) -> Option<Self> {
        // The two signs stand between rules, and between what a rule says.
        let is_readable = !topology.is_empty() && topology.len() < 320 && !topology.contains([',', ' ']);
        let said = serde_json::to_vec(&(topology, kind, says)).ok()?;
        is_readable.then(|| Self {
            digest: planner::plan::digest(&said),
            kind,
            topology: topology.to_owned(),
        })
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_RULE {
            return None;
        }
        let mut parts = text.splitn(3, ' ');
        let (digest, kind, topology) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = match kind {
            "-" => Kind::Apart,
            "+" => Kind::Together,
            max_skew => Kind::Spread(max_skew.parse().ok()?),
        };
        Some(Self { digest: digest.to_owned(), kind, topology: topology.to_owned() })
    }

    fn noted(&self) -> String {
        let kind = match self.kind {
            Kind::Apart => "-".to_owned(),
            Kind::Together => "+".to_owned(),
            Kind::Spread(max_skew) => max_skew.to_string(),
        };
        format!("{} {kind} {}", self.digest, self.topology)
    }

    /// The label of nodes that it is about.
    #[must_use]
    pub fn topology(&self) -> &str {
        &self.topology
    }

    /// Whether it keeps pods together.
    #[must_use]
    pub fn is_together(&self) -> bool {
        self.kind == Kind::Together
    }

    /// The rule under another name, which tells nothing of what it says.
    pub(crate) fn renamed(self, numbers: &BTreeMap<String, usize>) -> Self {
        let number = numbers.get(&self.digest).copied().unwrap_or_default();
        Self { digest: format!("rule-{number}"), ..self }
    }
}

/// Whether this label makes each node a part of the cluster by itself.
#[must_use]
pub fn is_by_node(topology: &str) -> bool {
    topology == HOSTNAME
}

/// By which rules a pod keeps apart from pods like it, or together with them.
#[must_use]
pub fn rules(pod: &Pod) -> BTreeSet<Rule> {
    let noted = pod.metadata.annotations.as_ref().and_then(|all| all.get(NOTE));
    let noted = noted.into_iter().flat_map(|text| text.split(',')).filter_map(Rule::parse);
    let spec = pod.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.affinity.as_ref());
    let near = affinity.and_then(|all| {
        all.pod_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
    });
    let near = near.into_iter().flatten().filter_map(|term| of_term(pod, term, Kind::Together));
    let anti = affinity
        .and_then(|all| all.pod_anti_affinity.as_ref())
        .and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    let anti = anti.into_iter().flatten().filter_map(|term| of_term(pod, term, Kind::Apart));
    let spread = spec.and_then(|spec| spec.topology_spread_constraints.as_ref());
    let spread = spread.into_iter().flatten().filter_map(|constraint| of_spread(pod, constraint));
    noted.chain(near).chain(anti).chain(spread).take(MOST_RULES).collect()
}

/// By which rules the pods that are made from a template will keep apart from each other.
#[must_use]
pub fn of_template(template: &PodTemplate) -> BTreeSet<Rule> {
    let shape = template.spec.shape();
    let is_of_pods =
        shape.affinity.as_ref().is_some_and(|a| a.pod_anti_affinity.is_some() || a.pod_affinity.is_some());
    if template.metadata.is_none() && !is_of_pods && shape.topology_spread_constraints.is_none() {
        return BTreeSet::new();
    }
    let metadata = template.metadata.as_deref().map(Metadata::whole).unwrap_or_default();
    rules(&Pod { metadata, spec: Some(template.spec.whole()), status: None })
}

/// A number for every rule that some pod has, or will have.
pub(crate) fn numbered(objects: &Objects) -> BTreeMap<String, usize> {
    let sets = objects.workloads.values().flat_map(|workload| &workload.spec.pod_sets);
    let to_come = sets.flat_map(|set| of_template(&set.template));
    let all = objects.pods.values().flat_map(|pod| rules(pod)).chain(to_come).map(|rule| rule.digest);
    let all: BTreeSet<String> = all.collect();
    all.into_iter().zip(1..).collect()
}

/// The rules as an annotation; none where there are none.
#[must_use]
pub fn noted(rules: &BTreeSet<Rule>) -> Option<(String, String)> {
    let text: Vec<String> = rules.iter().map(Rule::noted).collect();
    (!text.is_empty()).then(|| (NOTE.to_owned(), text.join(",")))
}

/// The rules as the metadata of a template, in place of its labels.
#[must_use]
pub fn noted_on_template(rules: &BTreeSet<Rule>) -> Option<Box<Metadata>> {
    let annotations = BTreeMap::from([noted(rules)?]).into();
    Some(Box::new(Metadata { annotations, ..Metadata::default() }))
}

fn of_term(pod: &Pod, term: &PodAffinityTerm, kind: Kind) -> Option<Rule> {
    let PodAffinityTerm {
        label_selector,
        match_label_keys,
        mismatch_label_keys,
        namespace_selector,
        namespaces,
        topology_key,
    } = term;
    let own = pod.metadata.namespace.as_deref().unwrap_or_default();
    let named = namespaces.iter().flatten();
    let is_of_all = |selector: &LabelSelector| *selector == LabelSelector::default();
    let is_about_own = match namespace_selector {
        None if named.clone().next().is_none() => true,
        selector => named.clone().any(|name| name == own) || selector.as_ref().is_some_and(is_of_all),
    };
    let is_about_others = mismatch_label_keys.iter().flatten().next().is_some();
    let is_about_itself = is_about_own && !is_about_others && matches(pod, label_selector.as_ref());
    let values = values_of(pod, match_label_keys.as_deref().unwrap_or_default());
    is_about_itself.then(|| Rule::new(topology_key, kind, &(label_selector, values)))?
}

fn of_spread(pod: &Pod, constraint: &TopologySpreadConstraint) -> Option<Rule> {
    let TopologySpreadConstraint {
        label_selector,
        match_label_keys,
        max_skew,
        node_taints_policy,
        topology_key,
        when_unsatisfiable,
        ..
    } = constraint;
    // Pods on cordoned and tainted nodes are then not counted, and here they would be.
    let leaves_out_nodes = node_taints_policy.as_deref() == Some("Honor") && topology_key != HOSTNAME;
    let is_a_rule = when_unsatisfiable == "DoNotSchedule" && !leaves_out_nodes;
    let is_about_itself = is_a_rule && matches(pod, label_selector.as_ref());
    let values = values_of(pod, match_label_keys.as_deref().unwrap_or_default());
    let max_skew = u32::try_from(*max_skew).ok().filter(|skew| *skew > 0)?;
    is_about_itself.then(|| Rule::new(topology_key, Kind::Spread(max_skew), &(label_selector, values)))?
}

/// Labels of a pod whose values belong to a selector.
fn values_of<'a>(pod: &'a Pod, keys: &'a [String]) -> BTreeMap<&'a String, &'a String> {
    let labels = pod.metadata.labels.as_ref();
    keys.iter().filter_map(|key| Some((key, labels?.get(key)?))).collect()
}

/// Whether a selector of pods matches a pod. None at all matches nothing, an empty one everything.
fn matches(pod: &Pod, selector: Option<&LabelSelector>) -> bool {
    let Some(LabelSelector { match_expressions, match_labels }) = selector else { return false };
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    let expression = |operator: &str| match operator {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        _ => None,
    };
    let holds = |key: &String, operator: &str, values: Vec<String>| {
        expression(operator).is_some_and(|operator| {
            selector::matches(&[Expression { key: key.clone(), operator, values }], labels)
        })
    };
    match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && match_expressions
            .iter()
            .flatten()
            .all(|e| holds(&e.key, &e.operator, e.values.clone().unwrap_or_default()))
}

/// Pods that have a node, of one namespace and with one rule: how many each node has.
#[derive(Clone, Copy, Debug, Default)]
struct OnNode {
    all: u32,
    /// Those that are not being deleted, which alone count where pods are spread.
    staying: u32,
}

/// Notes on each request the nodes that pods like its own keep it off, and says by which rules each keeps apart.
/// `to_come`: the rules of pods that nobody has made yet.
pub(crate) fn mark<'p>(
    requests: &mut [Request],
    pod_of: impl Fn(&RequestId) -> Option<&'p Pod>,
    to_come: &BTreeMap<&RequestId, &BTreeSet<Rule>>,
    objects: &Objects,
    inventory: &Inventory,
) -> Vec<BTreeSet<Rule>> {
    let of_request = |request: &Request| match pod_of(&request.id) {
        Some(pod) => rules(pod),
        None => to_come.get(&request.id).copied().cloned().unwrap_or_default(),
    };
    let asked: Vec<BTreeSet<Rule>> = requests.iter().map(of_request).collect();
    let wanted: BTreeSet<(&str, Rule)> = (requests.iter().zip(&asked))
        .flat_map(|(request, rules)| rules.iter().map(|rule| (request.id.namespace.as_str(), rule.clone())))
        .collect();
    if wanted.is_empty() {
        return asked;
    }
    let placed = placed(objects, &wanted);
    let mut judge = Judge::new(inventory);
    let none = BTreeMap::new();
    let mut kept_off = Vec::new();
    for (request, rules) in requests.iter().zip(&asked) {
        let mut nodes = BTreeMap::new();
        for rule in rules {
            let here = placed.get(&(request.id.namespace.as_str(), rule.clone())).unwrap_or(&none);
            let full = match rule.kind {
                Kind::Apart => taken(inventory, rule, here),
                Kind::Spread(max_skew) => uneven(inventory, rule, here, max_skew, &judge.nodes_for(request)),
                Kind::Together => elsewhere(inventory, rule, here),
            };
            nodes.extend(full.into_iter().map(|node| (node, why(rule))));
        }
        kept_off.push(nodes);
    }
    for ((request, nodes), rules) in requests.iter_mut().zip(kept_off).zip(&asked) {
        request.constraints.kept_off = nodes;
        let of = |kind| {
            let named = |rule: &Rule| (rule.digest.clone(), rule.topology.clone());
            rules.iter().filter(move |rule| rule.kind == kind).map(named)
        };
        request.keeps_apart = of(Kind::Apart).collect();
        let namespace = request.id.namespace.clone();
        let near = of(Kind::Together).map(|(digest, topology)| (format!("{namespace} {digest}"), topology));
        request.together = Together { gang: None, rules: near.collect() };
    }
    asked
}

/// What was promised to one of several that wait and keep apart keeps the others off, as if it were there already. Of two
/// promises that cannot both be kept, the first by name is.
pub(crate) fn keep_promises(requests: &mut [Request], asked: &[BTreeSet<Rule>], inventory: &Inventory) {
    let mut promised: BTreeMap<(String, &Rule), BTreeMap<&String, RequestId>> = BTreeMap::new();
    for (request, rules) in requests.iter().zip(asked) {
        let Some(node) = request.promised.as_ref().and_then(|name| inventory.nodes.get(name)) else {
            continue;
        };
        for rule in rules.iter().filter(|rule| rule.kind == Kind::Apart) {
            let Some(part) = node.labels.get(&rule.topology) else { continue };
            let of_rule = promised.entry((request.id.namespace.clone(), rule)).or_default();
            of_rule.entry(part).or_insert_with(|| request.id.clone());
        }
    }
    if promised.is_empty() {
        return;
    }
    for (request, rules) in requests.iter_mut().zip(asked) {
        for rule in rules {
            let Some(of_rule) = promised.get(&(request.id.namespace.clone(), rule)) else { continue };
            let of_another = |part: &String| of_rule.get(part).is_some_and(|id| *id != request.id);
            let full = parts(inventory, rule).filter(|(_, part)| of_another(part));
            request.constraints.kept_off.extend(full.map(|(node, _)| (node.clone(), why(rule))));
        }
    }
}

/// How many pods each node has, by namespace and rule.
fn placed<'a>(
    objects: &'a Objects,
    wanted: &BTreeSet<(&str, Rule)>,
) -> BTreeMap<(&'a str, Rule), BTreeMap<NodeName, OnNode>> {
    let mut placed: BTreeMap<(&'a str, Rule), BTreeMap<NodeName, OnNode>> = BTreeMap::new();
    for ((namespace, _), pod) in &objects.pods {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else { continue };
        if pods::life(pod) != Life::Bound {
            continue;
        }
        for rule in rules(pod) {
            let key = (namespace.as_str(), rule);
            if !wanted.contains(&key) {
                continue;
            }
            let on = placed.entry(key).or_default().entry(NodeName(node.clone())).or_default();
            on.all += 1;
            on.staying += u32::from(pod.metadata.deletion_timestamp.is_none());
        }
    }
    placed
}

/// The part of the cluster to which each node belongs, of those that belong to one.
fn parts<'a>(inventory: &'a Inventory, rule: &'a Rule) -> impl Iterator<Item = (&'a NodeName, &'a String)> {
    inventory.nodes.iter().filter_map(|(name, node)| Some((name, node.labels.get(&rule.topology)?)))
}

/// Nodes whose part of the cluster has one already.
fn taken(inventory: &Inventory, rule: &Rule, here: &BTreeMap<NodeName, OnNode>) -> Vec<NodeName> {
    let has = |node: &NodeName| here.get(node).is_some_and(|on| on.all > 0);
    let full: BTreeSet<&String> =
        parts(inventory, rule).filter(|(node, _)| has(node)).map(|(_, part)| part).collect();
    parts(inventory, rule).filter(|(_, part)| full.contains(part)).map(|(node, _)| node.clone()).collect()
}

/// Nodes that are in no part of the cluster, and those of parts that have none of them, if another one has.
fn elsewhere(inventory: &Inventory, rule: &Rule, here: &BTreeMap<NodeName, OnNode>) -> Vec<NodeName> {
    let part = |node: &NodeName| inventory.nodes.get(node)?.labels.get(&rule.topology);
    let theirs: BTreeSet<&String> =
        here.iter().filter(|(_, on)| on.all > 0).filter_map(|(node, _)| part(node)).collect();
    let is_there = |node: &NodeName| part(node).is_some_and(|of| theirs.is_empty() || theirs.contains(of));
    inventory.nodes.keys().filter(|node| !is_there(node)).cloned().collect()
}

/// Nodes whose part of the cluster would have too many more than the one with the fewest. Those nodes count that the
/// pod may use by its selectors and tolerations.
fn uneven(
    inventory: &Inventory,
    rule: &Rule,
    here: &BTreeMap<NodeName, OnNode>,
    max_skew: u32,
    may_use: &[Eligibility],
) -> Vec<NodeName> {
    let counts = |eligibility: &Eligibility| {
        matches!(
            eligibility.reason(),
            None | Some(Ineligible::Volume { .. } | Ineligible::Lacks { .. } | Ineligible::NoRoom { .. })
        )
    };
    let counted: BTreeSet<&NodeName> =
        inventory.nodes.keys().zip(may_use).filter(|(_, may)| counts(may)).map(|(node, _)| node).collect();
    let mut each: BTreeMap<&String, u32> = BTreeMap::new();
    for (node, part) in parts(inventory, rule).filter(|(node, _)| counted.contains(node)) {
        *each.entry(part).or_default() += here.get(node).map_or(0, |on| on.staying);
    }
    let Some(fewest) = each.values().min().copied() else { return Vec::new() };
    let is_full = |part: &String| each.get(part).is_some_and(|n| n + 1 - fewest > max_skew);
    parts(inventory, rule).filter(|(_, part)| is_full(part)).map(|(node, _)| node.clone()).collect()
}

fn why(rule: &Rule) -> Apart {
    let topology = rule.topology.clone();
    match rule.kind {
        Kind::Apart => {
            Apart::AntiAffinity { topology: Some(topology).filter(|topology| topology != HOSTNAME) }
        }
        Kind::Spread(max_skew) => Apart::Spread { topology, max_skew },
        Kind::Together => Apart::Affinity { topology },
    }
}
