//! The findings of the checker.

use std::fmt;

use mig::ProfileName;

use crate::eligible::Ineligible;
use crate::inventory::Hold;
use crate::names::{GpuIndex, NodeName, PodRef, PolicyName, RequestId};
use crate::offered::Offered;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How wrong.
    pub severity: Severity,
    /// On which node, if on one.
    pub node: Option<NodeName>,
    /// On which GPU of it, if on one.
    pub gpu: Option<GpuIndex>,
    /// What.
    pub problem: Problem,
}

/// How wrong something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The plan is right, and could be better.
    Warning,
    /// The plan breaks a rule: nothing of it may be applied.
    Fatal,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Two steps for one node.
    NodeTwice,
    /// The inventory has no such node.
    UnknownNode,
    /// The node has no such GPU.
    UnknownGpu,
    /// The node does not belong to the policy that the step names.
    WrongPolicy {
        /// The policy of the step.
        named: PolicyName,
        /// Whose it is.
        owner: Option<PolicyName>,
    },
    /// A step that changes no GPU.
    EmptyStep,
    /// The policy is paused and starts nothing.
    PolicyPaused,
    /// The node or GPU is held.
    Held {
        /// By what.
        hold: Hold,
    },
    /// The GPUs of a step are not in ascending order, each once.
    GpusOutOfOrder,
    /// `enable_mig` is not what the GPUs need.
    MigMode {
        /// What the step says.
        enable_mig: bool,
    },
    /// MIG is switched on for the node, but this GPU stays off.
    LeftOff,
    /// The step names another model than the GPU is.
    WrongModel {
        /// The model of the step.
        named: String,
        /// The GPU's.
        model: String,
    },
    /// The precondition is not what the inventory says.
    WrongBefore,
    /// The target is what the GPU has.
    NoChange,
    /// The target has no slice at all.
    NoSlice,
    /// MIG would be switched off by an agent, which does not do that.
    AgentSwitches,
    /// The slices of the target are not in ascending order of start and profile.
    SlicesOutOfOrder,
    /// The model has no such profile.
    UnknownProfile {
        /// The profile.
        profile: ProfileName,
    },
    /// The profile cannot start there.
    IllegalStart {
        /// The profile.
        profile: ProfileName,
        /// The start.
        start: u8,
    },
    /// Two slices want the same memory.
    Overlap {
        /// The first memory unit that both want.
        unit: u8,
    },
    /// The slices need more compute slices than there are.
    TooMuchCompute {
        /// What they need.
        needed: u32,
        /// What there is.
        available: u32,
    },
    /// The slices want the same media engines.
    MediaEngines,
    /// A slice goes that is, or may be, in use.
    InUseDestroyed {
        /// The slice; `None` for a whole GPU with MIG off.
        profile: Option<ProfileName>,
        /// Where, if that is known.
        start: Option<u8>,
        /// Who holds it or may hold it.
        by: Vec<PodRef>,
    },
    /// The actuator cannot change this much while this pod is there.
    ScopeExceeded {
        /// The GPU of the node that is not idle.
        busy: GpuIndex,
        /// Who holds it or may hold it.
        by: Vec<PodRef>,
    },
    /// The policy does not allow eviction here.
    MayNotEvict {
        /// Who would be evicted.
        pod: PodRef,
    },
    /// The pod is not in the way.
    NotInTheWay {
        /// Who would be evicted.
        pod: PodRef,
    },
    /// A pod is evicted twice.
    EvictedTwice {
        /// The pod.
        pod: PodRef,
    },
    /// Not what the static layout says of this GPU.
    NotTheStaticLayout,
    /// The order does not create what the target adds.
    WrongCreations,
    /// The driver's own placements lead elsewhere.
    OrderLeadsElsewhere {
        /// Where to.
        to: Vec<(ProfileName, u8)>,
    },
    /// The driver finds no place for this one.
    OrderFails {
        /// The profile.
        profile: ProfileName,
    },
    /// An order exists, and the step names none.
    OrderExists {
        /// One that leads to the target.
        order: Vec<ProfileName>,
    },
    /// There is no such request.
    UnknownRequest {
        /// The request.
        request: RequestId,
    },
    /// A request is served twice.
    ServedTwice {
        /// The request.
        request: RequestId,
    },
    /// The request asks for whole GPUs, and nothing may be planned for it there.
    WholeGpu {
        /// The request.
        request: RequestId,
    },
    /// The policy does not count the request's namespace.
    NotCounted {
        /// The request.
        request: RequestId,
    },
    /// The request may not use the node.
    NotEligible {
        /// The request.
        request: RequestId,
        /// Why.
        reason: Ineligible,
    },
    /// Pods cannot bind to the node.
    Unschedulable {
        /// The request.
        request: RequestId,
    },
    /// Nothing that the step creates serves the request.
    NotByNewSlices {
        /// The request.
        request: RequestId,
    },
    /// Requests that the step serves need more slices than will be free.
    SupplyExceeded {
        /// Of this profile.
        profile: Offered,
        /// How many they need.
        needed: u32,
        /// How many there will be.
        free: u32,
    },
    /// Requests that are served on the node take more CPU, memory, ephemeral storage or pod slots
    /// together than are free: those of a step, or everybody who is told to be served there.
    RoomExceeded,
    /// The request cannot come to run, whatever is cut.
    Refused {
        /// The request.
        request: RequestId,
    },
    /// The request's slice was there, and something else is in its way.
    BlockedElsewhere {
        /// The request.
        request: RequestId,
    },
    /// More slices than `maxCount` allows, and more than there were.
    AboveMax {
        /// The policy.
        policy: PolicyName,
        /// Of this profile.
        profile: Offered,
        /// The bound.
        max: u32,
        /// How many there would be.
        after: u32,
    },
    /// `minCount` was met, and the plan breaks it.
    BreaksMin {
        /// The policy.
        policy: PolicyName,
        /// Of this profile.
        profile: Offered,
        /// The bound.
        min: u32,
        /// How many there would be.
        after: u32,
    },
    /// All floors together miss more slices than before.
    FloorsWorse {
        /// Slices missing now.
        before: u32,
        /// Slices missing after the plan.
        after: u32,
    },
    /// A level of the certificate claims to be better than it can be.
    BelowBound {
        /// The level.
        level: String,
        /// What is claimed.
        value: i64,
        /// What nothing goes below.
        bound: i64,
    },
    /// The certificate says something else than can be counted in the plan.
    Miscounted {
        /// The level.
        level: String,
        /// What it says.
        value: i64,
        /// What there is.
        counted: usize,
    },
    /// A request is served, and an older one of its priority is not, though it
    /// could have exactly what this one gets.
    OutOfTurn {
        /// Who is not served.
        older: RequestId,
        /// Who is.
        younger: RequestId,
    },
    /// Requests that have to be in one part of the cluster are planned for several, or for a node without the label.
    Scattered {
        /// One of them.
        request: RequestId,
        /// The label by which the cluster has parts.
        label: String,
    },
    /// Some of those who start together are served, and this one is not.
    Halved {
        /// Who is not.
        request: RequestId,
    },
    /// What was promised on the node is not kept, though it could be and nobody
    /// of a higher priority needs it.
    PromiseBroken {
        /// To whom it was promised.
        request: RequestId,
    },
    /// Somebody would have more compute slices than their share, and gets some.
    AboveShare {
        /// The policy.
        policy: PolicyName,
        /// Its field.
        field: String,
        /// The bound.
        max: i64,
        /// How many they would have.
        after: i64,
    },
    /// A bound that anybody can see to be higher.
    LooseBound {
        /// The level.
        level: String,
        /// What it says.
        bound: i64,
        /// What it is at least.
        fewest: i64,
    },
}

impl Problem {
    fn note(self, severity: Severity, node: Option<&NodeName>, gpu: Option<GpuIndex>) -> Note {
        Note { severity, node: node.cloned(), gpu, problem: self }
    }

    /// Fatal, about the plan as a whole.
    pub(super) fn everywhere(self) -> Note {
        self.note(Severity::Fatal, None, None)
    }

    /// Fatal, about a node.
    pub(super) fn on(self, node: &NodeName) -> Note {
        self.note(Severity::Fatal, Some(node), None)
    }

    /// Fatal, about a GPU.
    pub(super) fn at(self, node: &NodeName, gpu: GpuIndex) -> Note {
        self.note(Severity::Fatal, Some(node), Some(gpu))
    }

    /// Not fatal, about a GPU.
    pub(super) fn warn(self, node: &NodeName, gpu: GpuIndex) -> Note {
        self.note(Severity::Warning, Some(node), Some(gpu))
    }

    /// Not fatal, about a node.
    pub(super) fn warn_on(self, node: &NodeName) -> Note {
        self.note(Severity::Warning, Some(node), None)
    }

    /// Not fatal, about the plan as a whole.
    pub(super) fn warn_everywhere(self) -> Note {
        self.note(Severity::Warning, None, None)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, node, gpu, problem } = self;
        match severity {
            Severity::Fatal => write!(f, "fatal: ")?,
            Severity::Warning => write!(f, "warning: ")?,
        }
        match (node, gpu) {
            (Some(node), Some(gpu)) => write!(f, "{node}/gpu{gpu}: {problem}"),
            (Some(node), None) => write!(f, "{node}: {problem}"),
            (None, _) => write!(f, "{problem}"),
        }
    }
}

fn names<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn holders(by: &[PodRef]) -> String {
    if by.is_empty() { "an unknown pod".to_owned() } else { names(by) }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeTwice => write!(f, "two steps for one node"),
            Self::UnknownNode => write!(f, "there is no such node"),
            Self::UnknownGpu => write!(f, "there is no such GPU"),
            Self::WrongPolicy { named, owner: Some(owner) } => {
                write!(f, "the step belongs to policy {named}, but the node to policy {owner}")
            }
            Self::WrongPolicy { named, owner: None } => {
                write!(f, "the step belongs to policy {named}, but the node to none")
            }
            Self::EmptyStep => write!(f, "the step changes no GPU"),
            Self::PolicyPaused => write!(f, "the policy is paused and starts nothing"),
            Self::Held { hold } => write!(f, "it is held: {hold}"),
            Self::GpusOutOfOrder => write!(f, "its GPUs are not in ascending order, each once"),
            Self::MigMode { enable_mig: true } => {
                write!(f, "enable_mig is set, but no changed GPU has MIG off")
            }
            Self::MigMode { enable_mig: false } => {
                write!(f, "a changed GPU has MIG off, but enable_mig is not set")
            }
            Self::LeftOff => write!(f, "MIG is switched on for the node, but this GPU stays off"),
            Self::WrongModel { named, model } => write!(f, "the step says {named}, but the GPU is {model}"),
            Self::WrongBefore => write!(f, "the precondition differs from the inventory"),
            Self::NoChange => write!(f, "the target equals the present layout"),
            Self::NoSlice => write!(f, "the target has no slice"),
            Self::AgentSwitches => write!(f, "MIG would be switched off, which an agent does not do"),
            Self::SlicesOutOfOrder => write!(f, "its slices are not in order of start and profile"),
            Self::UnknownProfile { profile } => write!(f, "the model has no profile {profile}"),
            Self::IllegalStart { profile, start } => write!(f, "{profile} cannot start at {start}"),
            Self::Overlap { unit } => write!(f, "two slices use memory unit {unit}"),
            Self::TooMuchCompute { needed, available } => {
                write!(f, "the slices need {needed} compute slices of {available}")
            }
            Self::MediaEngines => write!(f, "two slices use the same media engines"),
            Self::InUseDestroyed { profile: Some(profile), start: Some(start), by } => {
                write!(f, "{profile}@{start} is destroyed, but is or may be held by {}", holders(by))
            }
            Self::InUseDestroyed { profile: Some(profile), start: None, by } => {
                write!(f, "a {profile} is destroyed, but is or may be held by {}", holders(by))
            }
            Self::InUseDestroyed { profile: None, by, .. } => {
                write!(f, "MIG is switched on, but the GPU is or may be held by {}", holders(by))
            }
            Self::ScopeExceeded { busy, by } => {
                write!(f, "the actuator needs gpu{busy} idle, and {} may hold a slice of it", holders(by))
            }
            Self::MayNotEvict { pod } => write!(f, "{pod} may not be evicted by this policy"),
            Self::NotInTheWay { pod } => write!(f, "{pod} would be evicted, but does not block the change"),
            Self::EvictedTwice { pod } => write!(f, "{pod} would be evicted twice"),
            Self::NotTheStaticLayout => write!(f, "the target differs from the static layout"),
            Self::WrongCreations => {
                write!(f, "the creation order does not create the slices that the target adds")
            }
            Self::OrderLeadsElsewhere { to } => {
                let to: Vec<_> = to.iter().map(|(profile, start)| format!("{profile}@{start}")).collect();
                write!(f, "by itself the driver would place {}", to.join(", "))
            }
            Self::OrderFails { profile } => {
                write!(f, "in this order the driver finds no place for {profile}")
            }
            Self::OrderExists { order } => {
                write!(f, "the driver reaches the target in the order {}", names(order))
            }
            Self::UnknownRequest { request } => write!(f, "there is no request {request}"),
            Self::ServedTwice { request } => write!(f, "{request} is served twice"),
            Self::WholeGpu { request } => {
                write!(f, "{request} asks for whole GPUs, which it may not get there")
            }
            Self::NotCounted { request } => write!(f, "the policy does not count {request}"),
            Self::NotEligible { request, reason } => {
                write!(f, "{request} may not use the node, which {reason}")
            }
            Self::Unschedulable { request } => write!(f, "{request} cannot bind to the node"),
            Self::NotByNewSlices { request } => write!(f, "no new slice serves {request}"),
            Self::SupplyExceeded { profile, needed, free } => {
                write!(f, "its requests need {needed} of {profile}, but only {free} will be free")
            }
            Self::RoomExceeded => {
                write!(f, "its requests take more CPU, memory, ephemeral storage or pod slots than are free")
            }
            Self::Refused { request } => write!(f, "{request} cannot start with any layout"),
            Self::BlockedElsewhere { request } => write!(f, "{request} had its slice and did not run"),
            Self::AboveMax { policy, profile, max, after } => {
                write!(f, "policy {policy} allows {max} of {profile}, but there would be {after}")
            }
            Self::BreaksMin { policy, profile, min, after } => {
                write!(
                    f,
                    "policy {policy} guarantees {min} of {profile} and has them, but there would be {after}"
                )
            }
            Self::BelowBound { level, value, bound } => {
                write!(f, "the certificate says {value} {level}, but gives the lower bound {bound}")
            }
            Self::Miscounted { level, value, counted } => {
                write!(f, "the certificate says {value} {level}, but there are {counted}")
            }
            Self::OutOfTurn { older, younger } => {
                write!(f, "{younger} is served, and {older}, which is older, could have what it gets")
            }
            Self::Scattered { request, label } => {
                write!(
                    f,
                    "{request} has to be where {label} is the same as for others, and is planned elsewhere"
                )
            }
            Self::Halved { request } => {
                write!(f, "others start together with {request} and are served, and it is not")
            }
            Self::PromiseBroken { request } => {
                write!(f, "its slices were promised to {request}, and the plan does not keep them")
            }
            Self::AboveShare { policy, field, max, after } => {
                write!(f, "policy {policy} allows {max} compute slices ({field}), but there would be {after}")
            }
            Self::LooseBound { level, bound, fewest } => {
                write!(f, "the certificate says at least {bound} {level}, but it is at least {fewest}")
            }
            Self::FloorsWorse { before, after } => {
                write!(f, "all minCounts together miss {before} slices now, and would miss {after}")
            }
        }
    }
}
