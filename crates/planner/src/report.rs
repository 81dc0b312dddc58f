//! The report: demand, supply, decisions, and the reasons why no more is possible. Conditions, events,
//! `explain`, the pull-request comment and metrics are projections of it and use its words.

use std::collections::BTreeMap;

use mig::ProfileName;
use serde::{Deserialize, Serialize};

use crate::inventory::Hold;
use crate::names::{GpuId, GpuIndex, NodeName, PodRef, PolicyName, RequestId};
pub use crate::offered::Offered;

/// The result of planning: who is served, and why not more.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Every request, served or not, highest priority first, then oldest.
    pub requests: Vec<RequestReport>,
    /// Every policy, by name.
    pub policies: Vec<PolicyReport>,
    /// GPUs that cannot change only because it is not known which of their slices pods hold.
    pub frozen_in_doubt: Vec<GpuId>,
    /// How good the plan is, level by level, in the order of the objective.
    pub certificate: Vec<LevelCertificate>,
    /// Why there is no plan, where the planner gave up: nothing changes then, and nobody is promised anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
}

/// One request's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    /// Who asks.
    pub id: RequestId,
    /// The policy that answers it, if one does.
    pub policy: Option<PolicyName>,
    /// The answer.
    pub outcome: Outcome,
    /// The promise to it that this plan does not keep, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<BrokenPromise>,
}

/// A promise that is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenPromise {
    /// The node whose slices were promised.
    pub node: NodeName,
    /// Why they are not kept.
    pub why: Broken,
}

/// Why a promise is not kept: something is not as it was, or a higher priority
/// needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broken {
    /// The node does not exist.
    NodeGone,
    /// Pods cannot bind to the node.
    Unschedulable,
    /// The request may not use the node any more.
    NotEligible {
        /// Why; it goes on from "the node".
        reason: String,
    },
    /// The policy of the node does not count it any more.
    NoPolicy,
    /// The node gets a static layout, for which pods are evicted.
    Layout {
        /// By this policy.
        policy: PolicyName,
    },
    /// The node has no slice for it any more.
    NoSlice {
        /// Of this profile.
        profile: Offered,
    },
    /// Somebody of a higher priority could not be served otherwise.
    HigherPriority {
        /// Who.
        to: RequestId,
    },
}

/// Whether a request gets its slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// From slices that are there and free.
    ServedNow {
        /// Where.
        node: NodeName,
        /// On which GPUs, with the model that serves it; none named where no
        /// GPU of the node is cut.
        gpus: Vec<(GpuId, String, Offered)>,
    },
    /// From slices that the plan creates.
    ServedByPlan {
        /// Where.
        node: NodeName,
        /// On which GPUs, with the model that serves it.
        gpus: Vec<(GpuId, String, Offered)>,
    },
    /// Not.
    Unserved {
        /// The main reason.
        why: Why,
        /// What would help: each was proved by planning with that change,
        /// except advice on the request itself, which says what could be
        /// served at all.
        help: Vec<Help>,
    },
}

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// It asks for whole GPUs, and no policy that may serve it offers any: GPUs with MIG off serve them.
    WholeGpu,
    /// No policy counts its namespace or selects a node that it may use.
    NoPolicy,
    /// No node fits its selector, affinity, tolerations, volumes and other resources.
    NoEligibleNode,
    /// No GPU of the nodes that it may use has this profile.
    NoSuchProfile {
        /// The profile.
        profile: ProfileName,
    },
    /// The GPUs of the nodes that it may use are never cut, by policy or since their cards know no MIG.
    NeverCut {
        /// The profile that it asks for.
        profile: ProfileName,
        /// These nodes, with their cards.
        nodes: Vec<(NodeName, String)>,
    },
    /// It asks for more slices than any node that it may use could ever have.
    TooLarge {
        /// The most that one such node can have.
        most: u32,
        /// Of this profile.
        profile: Offered,
    },
    /// No node that it may use could ever have all of this at the same time.
    NeverTogether {
        /// The slices that it asks for, by profile.
        slices: Vec<(ProfileName, u32)>,
    },
    /// Nodes that it may use lack CPU, memory, ephemeral storage or pod slots.
    NoRoom,
    /// Every seat that it could have is held, or is planned for requests that come first.
    SeatsHeld {
        /// What it asks for.
        asks: Offered,
        /// The nodes that it may use, with who holds their seats.
        nodes: Vec<HeldSeats>,
    },
    /// Nobody offers what it asks for under this name.
    OtherName {
        /// What it asks for.
        asks: Offered,
        /// Under which name the nodes that it may use offer the same, if any does.
        offered: Option<Offered>,
    },
    /// It asks for GPUs that are not cut and for slices at once, or for GPUs
    /// that it shares and others that it does not: nothing is planned for it.
    SeveralKinds,
    /// It asks for whole GPUs, and a node that is not planned for has them.
    Elsewhere {
        /// The node.
        node: NodeName,
    },
    /// Every slice that could serve it is used, or is planned for requests that come first.
    AllUsed,
    /// No node has as many whole GPUs free, and none on which MIG could be
    /// switched off is idle, or these go to requests before it.
    NoIdleNode,
    /// Who is older, or of a higher priority, gets what could serve it.
    NotItsTurn {
        /// The policy that serves the oldest first.
        policy: PolicyName,
    },
    /// Its pods start together and have to be in one part of the cluster, and none has slices for all of them.
    NoDomain {
        /// The label of nodes, or the labels, by which the cluster has parts.
        topology: String,
        /// How many pods.
        pods: u32,
        /// For how many of them some parts have slices: the best of them, best first.
        fits: Vec<(String, u32)>,
        /// How many parts that may do were not looked at.
        unseen: u32,
    },
    /// The pods of its workload start together, and the nodes that they may use could never have what all of them ask for.
    NeverWhole {
        /// How much of it they ask for.
        asks: u32,
        /// The most that these nodes could have at the same time.
        most: u32,
        /// Of this profile.
        profile: Offered,
    },
    /// There is enough free memory and compute, but in pieces.
    Fragmented,
    /// GPUs that could serve it may not change now.
    Held {
        /// The nodes and why.
        nodes: Vec<(NodeName, Hold)>,
    },
    /// GPUs that could serve it may be idle, and nobody can prove it.
    IdlenessNotProvable {
        /// Which GPUs.
        gpus: Vec<GpuId>,
    },
    /// The policy's bounds or its static layout do not allow it.
    PolicyForbids {
        /// The policy.
        policy: PolicyName,
        /// The field, such as `spec.layout.demandDriven.slices[1g.10gb].maxCount`.
        field: String,
    },
    /// Its slice is there, and something else keeps it from running.
    BlockedElsewhere {
        /// What the scheduler says.
        message: String,
    },
    /// There is no plan at all: the planner gave up.
    NoPlan {
        /// Why.
        why: String,
    },
    /// It cannot come to run, whatever is cut.
    Refused {
        /// What is wrong.
        why: String,
    },
}

/// The seats of a node, and who holds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSeats {
    /// The node.
    pub node: NodeName,
    /// How many pods have one GPU: 1 is one for itself.
    pub replicas: u32,
    /// How many seats it has.
    pub total: u32,
    /// How many of them pods hold.
    pub held: u32,
    /// These pods.
    pub by: Vec<PodRef>,
}

/// The smallest thing that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Help {
    /// This pod has to end (or move): the one that holds the least of those
    /// whose end would help.
    PodEnds {
        /// The pod.
        pod: PodRef,
        /// The GPU that it is on.
        gpu: GpuId,
        /// The slice it holds; none when MIG is off and it holds the GPU.
        profile: Option<ProfileName>,
    },
    /// This pod has to end (or move): it holds seats of a node of which no GPU is cut.
    HolderEnds {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: NodeName,
        /// What it holds there.
        holds: Offered,
    },
    /// So many more GPUs, each on a node like one that it may use, are enough
    /// for everybody who waits for the same resource at its priority or above.
    EnoughSeats {
        /// How many.
        count: u32,
        /// Of which card.
        card: String,
        /// How many pods have each of them.
        replicas: u32,
        /// What they are asked for as.
        asks: Offered,
    },
    /// The hold of a node has to end.
    HoldEnds {
        /// The node.
        node: NodeName,
        /// What holds it.
        hold: Hold,
    },
    /// A field of a policy has to change.
    ChangePolicy {
        /// The policy.
        policy: PolicyName,
        /// The field.
        field: String,
        /// To what: the smallest change of the field that helps.
        to: String,
    },
    /// More GPUs are needed, each on a node like those that it may use: the
    /// fewest with which everybody who asks for the same is served.
    MoreGpus {
        /// How many.
        count: u32,
        /// Of which model.
        model: String,
    },
    /// So many more GPUs, each on a node like those that it may use, are enough
    /// for everybody who waits at its priority or above. On a large fleet it is
    /// not known whether fewer would do.
    EnoughGpus {
        /// How many.
        count: u32,
        /// Of which model.
        model: String,
    },
    /// It could ask for another slice, not larger: one is there, and free, and
    /// nobody else gets it. The profile is the one most like what it asks for. (How many
    /// are free is not said: people would be told again with each that goes.)
    FreeNow {
        /// Which profile.
        profile: ProfileName,
    },
    /// This serves only others, who ask for the same and come first: not yet the one that is told of it.
    ForOthers {
        /// What does.
        help: Box<Self>,
    },
    /// The request itself has to ask differently.
    ChangeRequest {
        /// What to write instead.
        advice: String,
    },
}

impl Help {
    /// The pod that has to end, whomever that serves.
    #[must_use]
    pub fn pod(&self) -> Option<&PodRef> {
        match self {
            Self::PodEnds { pod, .. } | Self::HolderEnds { pod, .. } => Some(pod),
            Self::ForOthers { help } => help.pod(),
            Self::EnoughSeats { .. }
            | Self::HoldEnds { .. }
            | Self::ChangePolicy { .. }
            | Self::MoreGpus { .. }
            | Self::EnoughGpus { .. }
            | Self::FreeNow { .. }
            | Self::ChangeRequest { .. } => None,
        }
    }
}

/// What a policy has and wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The policy.
    pub policy: PolicyName,
    /// Its nodes.
    pub nodes: Vec<NodeName>,
    /// Nodes that it selects and another policy has: `(node, winner)`.
    pub lost: Vec<(NodeName, PolicyName)>,
    /// Supply and demand by profile.
    pub supply: BTreeMap<ProfileName, Supply>,
    /// The same for GPUs with MIG off, where the policy wants some of them so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_gpus: Option<Supply>,
    /// Supply and demand in seats, by the resource that pods ask for: GPUs that are not cut, and slices that
    /// several pods share.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seats: BTreeMap<Offered, SeatSupply>,
    /// Bounds that the plan does not meet: field, wanted, reached.
    pub unmet: Vec<UnmetBound>,
    /// GPUs that have, and keep, another layout than the one that is always
    /// wanted of them. (A static policy only.)
    pub static_missed: Vec<(NodeName, GpuIndex)>,
    /// Profiles that the policy names and that some, or all, of its models lack.
    pub unknown_profiles: Vec<UnknownProfile>,
}

impl PolicyReport {
    /// Supply and demand of everything that its GPUs offer: by profile, then of whole GPUs.
    pub fn offers(&self) -> impl Iterator<Item = (Offered, Supply)> {
        let slices = self.supply.iter().map(|(profile, supply)| (Offered::Slice(*profile), *supply));
        slices.chain(self.whole_gpus.map(|supply| (Offered::WholeGpu, supply)))
    }
}

/// Supply and demand of one profile, or of whole GPUs, under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supply {
    /// The most that some layout could offer, with what is in use left alone.
    pub attainable: u32,
    /// Slices that exist.
    pub present: u32,
    /// Slices that exist and are, or may be, allocated.
    pub allocated: u32,
    /// Slices that exist once the plan is done.
    pub planned: u32,
    /// Slices asked for by requests that are not bound.
    pub requested: u32,
    /// Of those, how many the plan does not serve.
    pub unserved: u32,
}

/// Supply and demand of one resource in seats, under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatSupply {
    /// GPUs, or slices, that exist.
    pub devices: u32,
    /// Seats that they have.
    pub total: u32,
    /// Seats that pods hold.
    pub held: u32,
    /// Seats once the plan is done.
    pub planned: u32,
    /// Seats asked for by requests that are not bound.
    pub requested: u32,
    /// Of those, how many are neither free nor made free by the plan.
    pub unserved: u32,
}

impl SeatSupply {
    /// Seats that nobody holds.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.total.saturating_sub(self.held)
    }
}

/// A bound that the plan does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetBound {
    /// The field, such as `spec.layout.demandDriven.slices[1g.10gb].minCount`.
    pub field: String,
    /// What the policy wants.
    pub wanted: u32,
    /// What the plan reaches.
    pub reached: u32,
}

/// A profile that a policy names and models lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownProfile {
    /// The profile.
    pub profile: ProfileName,
    /// The models without it.
    pub lacking: Vec<String>,
    /// Whether every model of the policy lacks it: an error, not a warning.
    pub everywhere: bool,
}

/// How good one level of the objective is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelCertificate {
    /// Its name, such as `unserved compute slices at priority 0`.
    pub level: String,
    /// What the plan reaches; lower is better.
    pub value: i64,
    /// What no plan can go below, given the levels before.
    pub bound: i64,
}

impl LevelCertificate {
    /// Whether it is proved that no plan is better.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.value <= self.bound
    }
}
