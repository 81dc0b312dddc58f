//! Pods that keep apart from pods like them, or together: replicas of a server of which no two may be on one node, or
//! which are spread over zones; and pods of a job that have to be in one zone. The scheduler puts none of them elsewhere,
//! whatever slices are free there; so no slice is planned there either.
//!
//! Three kinds of rules are read: required affinity and anti-affinity, and topology spread constraints with
//! `DoNotSchedule`, each where the pod itself is among those that the rule is about. That is what the replicas of a
//! Deployment, a StatefulSet or a model server say. Pods that say the same are alike: a digest of the rule is noted on each, so that nobody has to keep
//! the labels of all pods. Of rules about other pods, one is read: that a group of pods has a part of the cluster to itself
//! (`exclusive`). A node is only ruled out where the scheduler would
//! rule it out: of the pods and the nodes that the scheduler counts, some are not known here, and all of them could only
//! rule out more.
//!
//! Source: Kubernetes' documentation of affinity and anti-affinity between pods, and of topology spread constraints.

mod exclusive;

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

pub(crate) use exclusive::of_job_to_come;

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
    /// Pods of no other group may be in its part of the cluster; other groups of all namespaces, or of its own.
    Alone { everywhere: bool },
    /// It is of a group, without which others may want to be.
    Grouped,
}

/// One rule, by which a pod keeps apart from pods that have the same, or together with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// A digest of all that the rule says.
    digest: String,
    kind: Kind,
    /// The label of nodes that makes them parts of the cluster, such as a zone; [`NO_TOPOLOGY`] where it is about none.
    topology: String,
    /// A digest of the group that it is of; nothing where it is of none.
    group: String,
}

/// In the place of the label of nodes, where a rule is about none.
const NO_TOPOLOGY: &str = "*";

impl Rule {
    fn new<T: serde::Serialize>(topology: &str, kind: Kind, says: &T) -> Option<Self> {
        let said = serde_json::to_vec(&(topology, kind, says)).ok()?;
        is_readable(topology).then(|| Self {
            digest: planner::plan::digest(&said),
            kind,
            topology: topology.to_owned(),
            group: String::new(),
        })
    }

    /// One about groups: all that name their groups in the same way have its digest.
    fn of_group<T: serde::Serialize>(topology: &str, kind: Kind, says: &T, group: &str) -> Option<Self> {
        let said = serde_json::to_vec(says).ok()?;
        is_readable(topology).then(|| Self {
            digest: planner::plan::digest(&said),
            kind,
            topology: topology.to_owned(),
            group: planner::plan::digest(group.as_bytes()),
        })
    }

    /// What it is called by pods of a namespace: by others too, if it is about theirs.
    fn name_in(&self, namespace: &str) -> String {
        match self.kind {
            Kind::Alone { everywhere: true } => self.digest.clone(),
            _ => format!("{namespace} {}", self.digest),
        }
    }

    /// Whether it is about groups, and not about pods like its own.
    const fn is_about_groups(&self) -> bool {
        matches!(self.kind, Kind::Alone { .. } | Kind::Grouped)
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_RULE {
            return None;
        }
        let mut parts = text.splitn(3, ' ');
        let (digest, kind, topology) = (parts.next()?, parts.next()?, parts.next()?);
        let of_group = [
            ("!", Kind::Alone { everywhere: true }),
            ("^", Kind::Alone { everywhere: false }),
            ("=", Kind::Grouped),
        ];
        let of_group = of_group.into_iter().find_map(|(sign, of)| Some((of, kind.strip_prefix(sign)?)));
        let (kind, group) = match (kind, of_group) {
            (_, Some(of_group)) => of_group,
            ("-", None) => (Kind::Apart, ""),
            ("+", None) => (Kind::Together, ""),
            (max_skew, None) => (Kind::Spread(max_skew.parse().ok()?), ""),
        };
        let (digest, topology, group) = (digest.to_owned(), topology.to_owned(), group.to_owned());
        Some(Self { digest, kind, topology, group })
    }

    fn noted(&self) -> String {
        let kind = match self.kind {
            Kind::Apart => "-".to_owned(),
            Kind::Together => "+".to_owned(),
            Kind::Spread(max_skew) => max_skew.to_string(),
            Kind::Alone { everywhere: true } => format!("!{}", self.group),
            Kind::Alone { everywhere: false } => format!("^{}", self.group),
            Kind::Grouped => format!("={}", self.group),
        };
        format!("{} {kind} {}", self.digest, self.topology)
    }

    /// The label of nodes that it is about, if it is about one.
    #[must_use]
    pub fn topology(&self) -> Option<&str> {
        Some(self.topology.as_str()).filter(|label| *label != NO_TOPOLOGY)
    }

    /// Whether it keeps pods together.
    #[must_use]
    pub fn is_together(&self) -> bool {
        self.kind == Kind::Together
    }

    /// The rule under another name, which tells nothing of what it says.
    pub(crate) fn renamed(self, numbers: &BTreeMap<String, usize>) -> Self {
        let number = |digest| numbers.get(digest).copied().unwrap_or_default();
        let digest = format!("rule-{}", number(&self.digest));
        let is_grouped = self.is_about_groups();
        let group = if is_grouped { format!("group-{}", number(&self.group)) } else { String::new() };
        Self { digest, group, ..self }
    }
}

/// Whether a label of nodes can stand in a note: the two signs stand between rules, and between what a rule says.
fn is_readable(topology: &str) -> bool {
    !topology.is_empty() && topology.len() < 320 && !topology.contains([',', ' '])
}

/// Whether this label makes each node a part of the cluster by itself.
#[must_use]
pub fn is_by_node(topology: &str) -> bool {
    topology == HOSTNAME
}

/// By which rules a pod keeps apart from pods like it, or together with them: what it says, and what is noted on it.
#[must_use]
pub fn rules(pod: &Pod) -> BTreeSet<Rule> {
    let noted = pod.metadata.annotations.as_ref().and_then(|all| all.get(NOTE));
    let noted = noted.into_iter().flat_map(|text| text.split(',')).filter_map(Rule::parse);
    noted.chain(said_by(pod)).take(MOST_RULES).collect()
}

/// The same by what a pod says alone. What somebody else wrote where we note rules, the scheduler does not know.
#[must_use]
pub fn said_by(pod: &Pod) -> BTreeSet<Rule> {
    let spec = pod.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.affinity.as_ref());
    let near = affinity.and_then(|all| {
        all.pod_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
    });
    let near = near.into_iter().flatten().filter_map(|term| of_term(pod, term, Kind::Together));
    let anti = affinity
        .and_then(|all| all.pod_anti_affinity.as_ref())
        .and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    let anti = anti.into_iter().flatten();
    let anti =
        anti.filter_map(|term| of_term(pod, term, Kind::Apart).or_else(|| exclusive::of_term(pod, term)));
    let spread = spec.and_then(|spec| spec.topology_spread_constraints.as_ref());
    let spread = spread.into_iter().flatten().filter_map(|constraint| of_spread(pod, constraint));
    near.chain(anti).chain(spread).chain(exclusive::groups(pod)).take(MOST_RULES).collect()
}

/// By which rules the pods that are made from a template will keep apart from each other.
#[must_use]
pub fn of_template(template: &PodTemplate) -> BTreeSet<Rule> {
    pod_of(template).as_ref().map(rules).unwrap_or_default()
}

/// The same by what the template says alone.
#[must_use]
pub fn said_by_template(template: &PodTemplate) -> BTreeSet<Rule> {
    pod_of(template).as_ref().map(said_by).unwrap_or_default()
}

/// A pod that is made from a template, if there is anything to read of rules.
fn pod_of(template: &PodTemplate) -> Option<Pod> {
    let shape = template.spec.shape();
    let is_of_pods =
        shape.affinity.as_ref().is_some_and(|a| a.pod_anti_affinity.is_some() || a.pod_affinity.is_some());
    if template.metadata.is_none() && !is_of_pods && shape.topology_spread_constraints.is_none() {
        return None;
    }
    let metadata = template.metadata.as_deref().map(Metadata::whole).unwrap_or_default();
    Some(Pod { metadata, spec: Some(template.spec.whole()), status: None })
}

/// A number for every rule that some pod has, or will have.
pub(crate) fn numbered(objects: &Objects) -> BTreeMap<String, usize> {
    let sets = objects.workloads.values().flat_map(|workload| &workload.spec.pod_sets);
    let to_come = sets.flat_map(|set| of_template(&set.template));
    let all = objects.pods.values().flat_map(|pod| rules(pod)).chain(to_come);
    let named = all.flat_map(|rule| [rule.digest, rule.group]);
    let all: BTreeSet<String> = named.filter(|digest| !digest.is_empty()).collect();
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
    let (placed, groups) = placed(objects, &wanted);
    let mut judge = Judge::new(inventory);
    let none = BTreeMap::new();
    let mut kept_off = Vec::new();
    for (request, rules) in requests.iter().zip(&asked) {
        let mut nodes = BTreeMap::new();
        for rule in rules {
            let here = placed.get(&(request.id.namespace.as_str(), rule.clone())).unwrap_or(&none);
            let (full, why) = match rule.kind {
                Kind::Apart => (taken(inventory, rule, here), apart_by(rule)),
                Kind::Spread(max_skew) => {
                    let full = uneven(inventory, rule, here, max_skew, &judge.nodes_for(request));
                    (full, Apart::Spread { topology: rule.topology.clone(), max_skew })
                }
                Kind::Together => {
                    let topology = rule.topology.clone();
                    (elsewhere(inventory, rule, here), Apart::Affinity { topology })
                }
                Kind::Alone { .. } | Kind::Grouped => {
                    nodes.extend(groups.keep_off(&request.id.namespace, rule, inventory));
                    continue;
                }
            };
            nodes.extend(full.into_iter().map(|node| (node, why.clone())));
        }
        kept_off.push(nodes);
    }
    let one_each = exclusive::one_of_each_group(requests, &asked);
    for ((request, nodes), rules) in requests.iter_mut().zip(kept_off).zip(&asked) {
        request.constraints.kept_off = nodes;
        let named = |rule: &Rule| (rule.name_in(&request.id.namespace), rule.topology.clone());
        let is_one = |rule: &&Rule| one_each.contains(&rule.name_in(&request.id.namespace));
        let apart = rules.iter().filter(|rule| rule.kind == Kind::Apart || is_one(rule)).map(named);
        let near = rules.iter().filter(|rule| rule.is_together()).map(named);
        (request.keeps_apart, request.together) =
            (apart.collect(), Together { rules: near.collect(), ..Together::default() });
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
    exclusive::keep_promises(requests, asked, inventory);
    if promised.is_empty() {
        return;
    }
    for (request, rules) in requests.iter_mut().zip(asked) {
        for rule in rules {
            let Some(of_rule) = promised.get(&(request.id.namespace.clone(), rule)) else { continue };
            let of_another = |part: &String| of_rule.get(part).is_some_and(|id| *id != request.id);
            let full = parts(inventory, rule).filter(|(_, part)| of_another(part));
            request.constraints.kept_off.extend(full.map(|(node, _)| (node.clone(), apart_by(rule))));
        }
    }
}

/// How many pods each node has, by namespace and rule.
type ByRule<'a> = BTreeMap<(&'a str, Rule), BTreeMap<NodeName, OnNode>>;

/// The pods that nodes have of those that the rules are about.
fn placed<'a>(objects: &'a Objects, wanted: &BTreeSet<(&str, Rule)>) -> (ByRule<'a>, exclusive::Groups) {
    let about_groups: BTreeSet<&str> = wanted
        .iter()
        .filter(|(_, rule)| rule.is_about_groups())
        .map(|(_, rule)| rule.digest.as_str())
        .collect();
    let (mut placed, mut groups) = (ByRule::new(), exclusive::Groups::default());
    for ((namespace, _), pod) in &objects.pods {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else { continue };
        if pods::life(pod) != Life::Bound {
            continue;
        }
        for rule in rules(pod) {
            if rule.is_about_groups() {
                if about_groups.contains(rule.digest.as_str()) {
                    groups.add(namespace, &rule, &NodeName(node.clone()));
                }
                continue;
            }
            let key = (namespace.as_str(), rule);
            if !wanted.contains(&key) {
                continue;
            }
            let on = placed.entry(key).or_default().entry(NodeName(node.clone())).or_default();
            on.all += 1;
            on.staying += u32::from(pod.metadata.deletion_timestamp.is_none());
        }
    }
    (placed, groups)
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

/// Why a pod with a rule of anti-affinity is kept off.
fn apart_by(rule: &Rule) -> Apart {
    Apart::AntiAffinity { topology: Some(rule.topology.clone()).filter(|topology| topology != HOSTNAME) }
}
