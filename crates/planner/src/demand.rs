//! The requests that are not yet bound. Bound pods are in the inventory, as the use of slices.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mig::ProfileName;
use serde::{Deserialize, Serialize};

use crate::inventory::{Room, Taint};
use crate::names::{NodeName, RequestId};
use crate::offered::Offered;

/// One request: a pod, or a pod to be, that wants slices on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks.
    pub id: RequestId,
    /// How many slices of each profile; all on one node.
    pub slices: BTreeMap<ProfileName, u32>,
    /// How many whole GPUs (`nvidia.com/gpu`) it asks for; all on one node.
    /// Nothing is planned for a pod that asks for slices as well.
    #[serde(default)]
    pub whole_gpus: u32,
    /// How many seats it asks for of GPUs or slices that several pods share
    /// under a name of its own, such as `nvidia.com/gpu.shared`; all on one node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<Offered, u32>,
    /// The pod priority; higher is served first.
    #[serde(default)]
    pub priority: i32,
    /// Since when it has been waiting; older is served first among equals.
    pub since: Timestamp,
    /// Labels of its namespace, which policies select by.
    #[serde(default)]
    pub namespace_labels: BTreeMap<String, String>,
    /// Which nodes it may use.
    #[serde(default)]
    pub constraints: Constraints,
    /// CPU, memory, ephemeral storage and pod slots that it takes.
    pub takes: Room,
    /// Where we know of it from.
    pub evidence: Evidence,
    /// Its slice has been schedulable for two minutes and it still does not
    /// run: something else is in its way, and its slice may be reused.
    #[serde(default)]
    pub blocked_elsewhere: Option<String>,
    /// What it asks for cannot come to run, whatever is cut: nothing is planned
    /// for it, and who asks is told so.
    #[serde(default)]
    pub refused: Option<Refusal>,
    /// The node that was promised to it: a time was told at which its slices
    /// are ready there, or a queue let it go because they are. They are kept
    /// for it until its pod has a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<NodeName>,
    /// A node that is not planned for, since its GPUs have no MIG, and that has
    /// as many GPUs free as it asks for: no MIG is switched off for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finds: Option<NodeName>,
    /// Rules by which it keeps apart from others that have them: no two of them may be on nodes with one value of a
    /// label. The label, by the name of the rule, which has the namespace in it if the rule is about that alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keeps_apart: BTreeMap<String, String>,
    /// With whom it has to start, and where.
    #[serde(default, skip_serializing_if = "Together::is_nothing")]
    pub together: Together,
}

/// What ties a request to others: they start together, or have to be in one part of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Together {
    /// All requests with this name start together, or none of them does. It is said only of those of whom some have to
    /// be in one part of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
    /// The workload of a queue that it is of, with others of whom none has a node yet: all of them start, or nobody does. It is
    /// said of every such request, wherever its pods may be. Nothing is planned for a workload that can never be complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Labels of nodes, by the name of a rule: the nodes of all requests with this rule have one value of the label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, String>,
}

impl Together {
    /// Whether it is tied to nobody.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.gang.is_none() && self.workload.is_none() && self.rules.is_empty()
    }

    /// The labels of nodes by which the cluster has parts for it.
    #[must_use]
    pub fn labels(&self) -> BTreeSet<&str> {
        self.rules.values().map(String::as_str).collect()
    }
}

impl Request {
    /// What it asks for, and how much of each.
    pub fn wants(&self) -> impl Iterator<Item = (Offered, u32)> {
        let slices = self.slices.iter().map(|(profile, n)| (Offered::Slice(*profile), *n));
        let whole = (self.whole_gpus > 0).then_some((Offered::WholeGpu, self.whole_gpus));
        slices.chain(whole).chain(self.shared.iter().map(|(offered, n)| (*offered, *n)))
    }

    /// Whether another one asks for no more of anything.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has = |profile, n: &u32| self.slices.get(profile).is_some_and(|has| has >= n);
        let seats = |offered, n: &u32| self.shared.get(offered).is_some_and(|has| has >= n);
        self.whole_gpus >= other.whole_gpus
            && other.slices.iter().all(|(profile, n)| has(profile, n))
            && other.shared.iter().all(|(offered, n)| seats(offered, n))
    }

    /// How many slices of a profile, or seats of such slices, it asks for.
    #[must_use]
    pub fn asks_of(&self, profile: ProfileName) -> Option<u32> {
        let seats = self.shared.get(&Offered::SharedSlice(profile));
        let slices = self.slices.get(&profile);
        (slices.is_some() || seats.is_some())
            .then(|| slices.copied().unwrap_or(0).saturating_add(seats.copied().unwrap_or(0)))
    }

    /// What it asks for of GPUs that are not cut, if it asks for nothing else.
    #[must_use]
    pub fn seats(&self) -> Option<(Offered, u32)> {
        let mut wants = self.wants().filter(|(_, n)| *n > 0);
        match (wants.next(), wants.next()) {
            (Some((offered @ (Offered::WholeGpu | Offered::SharedGpu), n)), None) => Some((offered, n)),
            _ => None,
        }
    }
}

/// Why nothing is planned for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong, as a sentence about it.
    pub why: String,
    /// What to do instead.
    pub advice: String,
}

/// Where a request is known from, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Evidence {
    /// A pod that the scheduler calls unschedulable.
    PendingPod,
    /// A queued Workload.
    QueuedWorkload,
    /// A Notebook that should run and has no pod yet.
    StartingNotebook,
}

/// The part of a pod's scheduling constraints that we judge: node selector,
/// required node affinity, tolerations, where its volumes are, the resources
/// beside GPUs, CPU, memory and storage, and pods like it that it keeps apart
/// from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Constraints {
    /// Labels that the node must have.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Required node affinity: one term must match; none means no constraint.
    #[serde(default)]
    pub affinity: Vec<Term>,
    /// Taints that it bears.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// Its volumes that not every node can have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// How much it takes of resources that are neither GPUs nor in [`Room`], such
    /// as network interfaces and huge pages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_resources: BTreeMap<String, i64>,
    /// Nodes that pods like it keep it off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_off: BTreeMap<NodeName, Apart>,
}

/// A rule by which a pod keeps apart from pods like it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Apart {
    /// No two of them on one node, or where a label of nodes has one value:
    /// required anti-affinity.
    AntiAffinity {
        /// The label; none where each node counts by itself.
        topology: Option<String>,
    },
    /// Not so many more of them with one value of this label than with another:
    /// a topology spread constraint.
    Spread {
        /// The label.
        topology: String,
        /// How many more.
        max_skew: u32,
    },
    /// Only where a label of nodes has the value that it has for those that run: required affinity. None of them is
    /// there, or the node has no such label.
    Affinity {
        /// The label.
        topology: String,
    },
    /// Pods of another group are on the node, or where a label of nodes has the same value, and one of the two groups is
    /// to have it alone: exclusive placement of a job.
    Exclusive {
        /// The label; none where each node counts by itself.
        topology: Option<String>,
    },
    /// The plan has another part of the cluster for all that have to be together, or none.
    Elsewhere {
        /// The labels by which the cluster has parts.
        topology: String,
    },
}

/// A volume that only some nodes can have: a local disk, or a disk of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Volume {
    /// The name of its claim.
    pub claim: String,
    /// Which nodes can have it: one term must match.
    pub nodes: Vec<Term>,
}

/// A node selector term: all expressions must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term {
    /// On labels.
    #[serde(default)]
    pub labels: Vec<Expression>,
    /// On the field `metadata.name`.
    #[serde(default)]
    pub fields: Vec<Expression>,
}

/// One expression of a selector, as in `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    #[serde(default)]
    pub values: Vec<String>,
}

/// The operators of node selectors (labels of namespaces know the first four).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no such label.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
}

impl Operator {
    /// As it is written in a selector.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
        }
    }
}

/// A toleration, as Kubernetes defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty with `exists` means every taint.
    #[serde(default)]
    pub key: String,
    /// Whether any value will do.
    #[serde(default)]
    pub exists: bool,
    /// The value, when not.
    #[serde(default)]
    pub value: String,
    /// The effect; empty means every effect.
    #[serde(default)]
    pub effect: String,
}

impl Toleration {
    /// Whether it tolerates the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || self.key.is_empty() && self.exists)
            && (self.exists || self.value == taint.value)
    }
}
