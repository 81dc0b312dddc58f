//! Which nodes a request may use: node selector, required node affinity,
//! taints, volumes, other resources, pods that it keeps apart from, and free CPU, memory, ephemeral storage and pod slots.
//!
//! Labels that follow the layout are considered with the values that they will have when the request has
//! its slices there, under strategy `mixed`: the possible layouts of a node count, not its present layout.
//! Where a value is not determined (the future number of slices of a profile, the MiB that the driver will
//! report), an expression holds if it can hold.
//!
//! Other resources, such as network interfaces and huge pages, are compared with what is free now, for each
//! request by itself: of several that find the same ones, those that get none are planned elsewhere in a later
//! round. CPU, memory, ephemeral storage and pod slots are planned together.
//!
//! Pods that keep apart from pods like them (anti-affinity, topology spread) are kept off the nodes where such pods are
//! now. Of several that wait, those that find one of them in their way are planned elsewhere in a later round.
//!
//! This module does not consider whether a node has a free slice, may change, or is cordoned; nor rules about pods of
//! another kind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use mig::ProfileName;

use crate::demand::{Apart, Constraints, Expression, Operator, Request, Term, Volume};
use crate::inventory::{Inventory, Node, Room, Sharing, Taint, mebibytes_up};
use crate::names::NodeName;
use crate::offered::Offered;
use crate::predicted_labels::{self, LabelsAfter};
use crate::selector::{Label, matches_label};

/// Taints that say what `Node::schedulable` and `Node::hold` say already, and
/// that go away by themselves.
const OWN_WORDS: [&str; 3] =
    ["node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Whether a request may use a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// It may.
    Yes,
    /// It may not.
    No {
        /// The first reason. Many nodes have the same one, and many requests have it of the same node.
        reason: Arc<Ineligible>,
    },
}

impl Eligibility {
    /// Whether it may.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// Why it may not.
    #[must_use]
    pub fn reason(&self) -> Option<&Ineligible> {
        match self {
            Self::Yes => None,
            Self::No { reason } => Some(reason),
        }
    }

    /// Whether it may not, only because the node is full.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        matches!(self.reason(), Some(Ineligible::NoRoom { .. }))
    }
}

/// Why a request may not use a node. Prints as a clause: "the node …".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ineligible {
    /// Pods like it keep it off. It comes first, since all else that it asks of a node is met there.
    KeptOff {
        /// By which rule.
        rule: Apart,
    },
    /// The node runs MIG strategy `single`, where slices are `nvidia.com/gpu`
    /// and a profile's own resource does not exist.
    SingleStrategy,
    /// It asks for whole GPUs, and several pods share each whole GPU of the node.
    SharesGpus {
        /// How.
        sharing: Sharing,
    },
    /// The selector names a label as it is written under strategy `single`
    /// (`nvidia.com/gpu.product: …-MIG-1g.5gb`); under `mixed` no node has it.
    SingleForm {
        /// The label's key.
        key: String,
        /// The value that is wanted.
        wanted: String,
        /// What to select by instead.
        instead: (String, String),
    },
    /// A volume of it is where the node cannot have it.
    Volume {
        /// The volume's claim.
        claim: String,
        /// The first expression that fails, term by term.
        unmet: Vec<Expression>,
    },
    /// The node has too little of a resource that is neither a GPU's nor in [`Room`].
    Lacks {
        /// Its name.
        resource: String,
        /// What it takes.
        wanted: i64,
        /// What is free.
        free: i64,
    },
    /// A label of `nodeSelector` is not there, or has another value.
    NodeSelector {
        /// Its key.
        key: String,
        /// What is wanted.
        wanted: String,
        /// What the node has, or will have; `None` when there is no such label.
        found: Option<String>,
    },
    /// No term of the required node affinity matches.
    Affinity {
        /// The first expression that fails, term by term; a term without any
        /// expression fails by itself and adds none.
        unmet: Vec<Expression>,
    },
    /// A taint that it does not tolerate.
    Taint {
        /// The taint.
        taint: Taint,
    },
    /// The node lacks room for it.
    NoRoom {
        /// Of what.
        what: Resource,
        /// What it takes.
        wanted: i64,
        /// What is free.
        free: i64,
    },
}

/// What a node can run out of beside slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPU, in thousandths of a core.
    Cpu,
    /// Memory, in bytes.
    Memory,
    /// Ephemeral storage, in bytes.
    Storage,
    /// Pod slots.
    Pods,
}

impl Ineligible {
    /// What the request could ask for instead, where that is clear.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::SingleForm { instead: (key, value), .. } => Some(format!("select by `{key}: {value}`")),
            Self::SingleStrategy => Some("ask for `nvidia.com/gpu`, which is a slice there".to_owned()),
            Self::SharesGpus { sharing } if sharing.renamed => Some(format!(
                "ask for {}, if it may share the GPU with others",
                Offered::SharedGpu.resource_name()
            )),
            Self::SharesGpus { .. }
            | Self::KeptOff { .. }
            | Self::Volume { .. }
            | Self::Lacks { .. }
            | Self::NodeSelector { .. }
            | Self::Affinity { .. }
            | Self::Taint { .. }
            | Self::NoRoom { .. } => None,
        }
    }
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SingleStrategy => {
                write!(f, "has MIG strategy single, where slices are nvidia.com/gpu and have no own resource")
            }
            Self::SharesGpus { sharing } => {
                let offered = if sharing.renamed { Offered::SharedGpu } else { Offered::WholeGpu };
                write!(
                    f,
                    "shares each of its whole GPUs between {} pods, as {}",
                    sharing.replicas,
                    offered.resource_name()
                )
            }
            Self::SingleForm { key, wanted, .. } => {
                write!(f, "never has label {key}={wanted} under MIG strategy mixed")
            }
            Self::NodeSelector { key, wanted, found: None } => {
                write!(f, "has no label {key} (wanted: {wanted})")
            }
            Self::NodeSelector { key, wanted, found: Some(found) } => {
                write!(f, "has label {key}={found} (wanted: {wanted})")
            }
            Self::Affinity { unmet } if unmet.is_empty() => {
                write!(f, "cannot match a node affinity without any expression")
            }
            Self::Affinity { unmet } => {
                write!(f, "does not match the node affinity: ")?;
                in_turn(f, unmet)
            }
            Self::Volume { claim, unmet } if unmet.is_empty() => {
                write!(f, "cannot have the volume of claim {claim}, which no node can")
            }
            Self::Volume { claim, unmet } => {
                write!(f, "cannot have the volume of claim {claim}, which is on nodes with ")?;
                in_turn(f, unmet)
            }
            Self::KeptOff { rule: Apart::AntiAffinity { topology: None } } => {
                write!(f, "has a pod of the same kind, from which its anti-affinity keeps it apart")
            }
            Self::KeptOff { rule: Apart::AntiAffinity { topology: Some(topology) } } => {
                write!(
                    f,
                    "has the same {topology} as a pod of the same kind, from which its anti-affinity keeps it apart"
                )
            }
            Self::KeptOff { rule: Apart::Spread { topology, max_skew } } => {
                write!(
                    f,
                    "has more pods of the same kind than its topology spread constraint allows (maxSkew {max_skew} by {topology})"
                )
            }
            Self::KeptOff { rule: Apart::Affinity { topology } } => {
                write!(
                    f,
                    "is not where its pod affinity wants it: by {topology}, with the pods of the same kind"
                )
            }
            Self::KeptOff { rule: Apart::Exclusive { topology: None } } => {
                write!(
                    f,
                    "has pods of another group, and one of the two groups is to have the node alone (exclusive placement)"
                )
            }
            Self::KeptOff { rule: Apart::Exclusive { topology: Some(topology) } } => {
                write!(
                    f,
                    "has the same {topology} as pods of another group, and one of the two groups is to have it alone \
                     (exclusive placement)"
                )
            }
            Self::KeptOff { rule: Apart::Elsewhere { topology } } => {
                write!(
                    f,
                    "has another {topology} than the one that is planned for all pods that have to be together"
                )
            }
            Self::Lacks { resource, wanted, free } => {
                write!(f, "has {free} of {resource} free (wanted: {wanted})")
            }
            Self::Taint { taint: Taint { key, value, effect } } => {
                let equals = if value.is_empty() { "" } else { "=" };
                write!(f, "has taint {key}{equals}{value}:{effect}, which is not tolerated")
            }
            Self::NoRoom { what: Resource::Cpu, wanted, free } => {
                write!(f, "has {free}m CPU free (wanted: {wanted}m)")
            }
            Self::NoRoom { what: what @ (Resource::Memory | Resource::Storage), wanted, free } => {
                let what = if *what == Resource::Memory { "memory" } else { "ephemeral storage" };
                let (free, wanted) = (free >> 20, mebibytes_up(*wanted));
                write!(f, "has {free} MiB {what} free (wanted: {wanted} MiB)")
            }
            Self::NoRoom { what: Resource::Pods, free, .. } => write!(f, "has {free} pod slots free"),
        }
    }
}

/// Expressions none of which is met.
fn in_turn(f: &mut fmt::Formatter<'_>, unmet: &[Expression]) -> fmt::Result {
    for (i, Expression { key, operator, values }) in unmet.iter().enumerate() {
        let or = if i > 0 { "; nor " } else { "" };
        write!(f, "{or}{key} {}", operator.name())?;
        if !values.is_empty() {
            write!(f, " ({})", values.join(", "))?;
        }
    }
    Ok(())
}

/// Whether a request may use a node. `after` is [`LabelsAfter::predict`] the node.
#[must_use]
pub fn judge(request: &Request, name: &NodeName, node: &Node, after: &LabelsAfter) -> Eligibility {
    match obstacle(request, name, node, after).or_else(|| lack_of_room(&request.takes, node)) {
        None => Eligibility::Yes,
        Some(reason) => Eligibility::No { reason: Arc::new(reason) },
    }
}

/// The first obstacle but a lack of room, which is the last one.
fn obstacle(request: &Request, name: &NodeName, node: &Node, after: &LabelsAfter) -> Option<Ineligible> {
    let Constraints { node_selector, affinity, tolerations, volumes, other_resources, kept_off } =
        &request.constraints;
    let is_single = after.is_single();
    if node.single_strategy && !is_single && request.wants().next().is_some() {
        return Some(Ineligible::SingleStrategy);
    }
    if let Some(sharing) = node.whole_shared.filter(|_| request.whole_gpus > 0) {
        return Some(Ineligible::SharesGpus { sharing });
    }
    let other_form = |key: &str, value: &str| if is_single { None } else { single_form(key, value) };
    for (key, wanted) in node_selector {
        let expression =
            Expression { key: key.clone(), operator: Operator::In, values: vec![wanted.clone()] };
        let label = after.label(request, node, key);
        if !matches_label(&expression, &label) {
            return Some(other_form(key, wanted).unwrap_or_else(|| Ineligible::NodeSelector {
                key: key.clone(),
                wanted: wanted.clone(),
                found: in_words(&label),
            }));
        }
    }
    let unmet_of = |terms: &[Term]| unmet(terms, request, name, node, after);
    if !affinity.is_empty()
        && let Some(unmet) = unmet_of(affinity)
    {
        let only_form = match unmet.as_slice() {
            [Expression { key, operator: Operator::In, values }] => {
                values.first().and_then(|value| other_form(key, value))
            }
            _ => None,
        };
        return Some(only_form.unwrap_or(Ineligible::Affinity { unmet }));
    }
    let intolerable = node.taints.iter().find(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !OWN_WORDS.contains(&taint.key.as_str())
            && !tolerations.iter().any(|t| t.tolerates(taint))
    });
    if let Some(taint) = intolerable {
        return Some(Ineligible::Taint { taint: taint.clone() });
    }
    for Volume { claim, nodes } in volumes {
        if let Some(unmet) = unmet_of(nodes) {
            return Some(Ineligible::Volume { claim: claim.clone(), unmet });
        }
    }
    for (resource, wanted) in other_resources {
        let free = node.other_resources.get(resource).copied().unwrap_or(0);
        if *wanted > free {
            return Some(Ineligible::Lacks { resource: resource.clone(), wanted: *wanted, free });
        }
    }
    kept_off.get(name).map(|rule| Ineligible::KeptOff { rule: rule.clone() })
}

fn lack_of_room(takes: &Room, node: &Node) -> Option<Ineligible> {
    let Room { cpu_milli, memory_bytes, storage_bytes, pods } = *takes;
    [
        (Resource::Cpu, cpu_milli, node.room.cpu_milli),
        (Resource::Memory, memory_bytes, node.room.memory_bytes),
        (Resource::Storage, storage_bytes, node.room.storage_bytes),
        (Resource::Pods, pods, node.room.pods),
    ]
    .into_iter()
    .find(|(_, wanted, free)| *wanted > 0 && wanted > free)
    .map(|(what, wanted, free)| Ineligible::NoRoom { what, wanted, free })
}

/// The first expression that fails of each of some terms, where none of them matches a node. A term without any
/// expression matches nothing, and has none that fails.
fn unmet(
    terms: &[Term],
    request: &Request,
    name: &NodeName,
    node: &Node,
    after: &LabelsAfter,
) -> Option<Vec<Expression>> {
    let name = Label::Is(name.0.clone());
    let mut unmet = Vec::new();
    for term in terms {
        let labels = term.labels.iter().find(|e| !matches_label(e, &after.label(request, node, &e.key)));
        let fields = term.fields.iter().find(|e| e.key != "metadata.name" || !matches_label(e, &name));
        match labels.or(fields) {
            None if term.labels.is_empty() && term.fields.is_empty() => {}
            None => return None,
            Some(first) => unmet.push(first.clone()),
        }
    }
    Some(unmet)
}

/// A selector that only strategy `single` could meet.
fn single_form(key: &str, wanted: &str) -> Option<Ineligible> {
    let instead = predicted_labels::instead_of_single(key, wanted)?;
    Some(Ineligible::SingleForm { key: key.to_owned(), wanted: wanted.to_owned(), instead })
}

fn in_words(label: &Label) -> Option<String> {
    match label {
        Label::Absent => None,
        Label::Is(value) => Some(value.clone()),
        Label::Either(one, other) => Some(format!("{one} or {other}")),
        Label::Between(low, high) => Some(format!("{low} to {high}")),
        Label::Any => Some("any value".to_owned()),
    }
}

/// Judges many requests over one inventory: requests that ask alike are
/// judged once, and those that differ only in the room that they take once for all else.
#[derive(Debug)]
pub struct Judge<'a> {
    nodes: Vec<(&'a NodeName, &'a Node, LabelsAfter)>,
    /// Why a request may not use a node, if not for its room.
    obstacles: HashMap<Alike, Vec<Option<Arc<Ineligible>>>>,
    known: HashMap<(Alike, Room), Arc<[Eligibility]>>,
}

/// All of a request that [`judge`] looks at, but the room that it takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Alike {
    slices: BTreeMap<ProfileName, u32>,
    shared: BTreeMap<Offered, u32>,
    is_whole: bool,
    constraints: Constraints,
}

impl Alike {
    fn of(request: &Request) -> Self {
        // Which other profiles it asks for matters only to selectors on them.
        let Constraints { node_selector, affinity, volumes, .. } = &request.constraints;
        let mut keys: BTreeSet<&str> = node_selector.keys().map(String::as_str).collect();
        let terms = affinity.iter().chain(volumes.iter().flat_map(|volume| &volume.nodes));
        keys.extend(terms.flat_map(|term| &term.labels).map(|e| e.key.as_str()));
        let slices = match keys.into_iter().any(predicted_labels::is_of_a_profile) {
            true => request.slices.clone(),
            false => request.slices.keys().take(1).map(|profile| (*profile, 1)).collect(),
        };
        Self {
            slices,
            shared: request.shared.clone(),
            is_whole: request.whole_gpus > 0,
            constraints: request.constraints.clone(),
        }
    }
}

impl<'a> Judge<'a> {
    /// Prepares the nodes.
    #[must_use]
    pub fn new(inventory: &'a Inventory) -> Self {
        let nodes = inventory.nodes.iter().map(|(name, node)| (name, node, LabelsAfter::predict(node)));
        Self { nodes: nodes.collect(), obstacles: HashMap::new(), known: HashMap::new() }
    }

    /// The eligibility of every node, in the order of `Inventory::nodes`.
    /// Requests that are alike get the same `Arc`, so that callers can group
    /// them by pointer.
    pub fn nodes_for(&mut self, request: &Request) -> Arc<[Eligibility]> {
        let Self { nodes, obstacles, known } = self;
        let of = (Alike::of(request), request.takes);
        if let Some(known) = known.get(&of) {
            return Arc::clone(known);
        }
        let obstacles = obstacles.entry(of.0.clone()).or_insert_with(|| {
            let of = nodes.iter().map(|(name, node, after)| obstacle(request, name, node, after));
            of.map(|obstacle| obstacle.map(Arc::new)).collect()
        });
        // Of a thousand nodes that are full, most have as much left as others.
        let mut full: HashMap<Ineligible, Arc<Ineligible>> = HashMap::new();
        let mut judge = |obstacle: &Option<Arc<Ineligible>>, node: &Node| {
            let reason = obstacle.as_ref().map(Arc::clone).or_else(|| {
                let lacks = lack_of_room(&request.takes, node)?;
                Some(Arc::clone(full.entry(lacks).or_insert_with_key(|lacks| Arc::new(lacks.clone()))))
            });
            reason.map_or(Eligibility::Yes, |reason| Eligibility::No { reason })
        };
        let all: Arc<[_]> = obstacles.iter().zip(nodes).map(|(of, (_, node, _))| judge(of, node)).collect();
        known.insert(of, Arc::clone(&all));
        all
    }
}
