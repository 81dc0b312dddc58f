//! One node as the API server shows it: plain data that the caller fills in.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mig::GpuResource;
use planner::names::{GpuIndex, PodRef};

use crate::agent_seen::{AgentSeen, Report};
use crate::cordon_owner::CordonOwner;
use crate::layout::{NodeLayout, Strategy};
use crate::names::RESOURCE_GPU;
use crate::neighbours::{OtherManager, OtherWork};
use crate::operand::Operand;
use crate::sharing::{PluginConfig, Resources, SharingSeen, unrenamed};

/// One node, its pods, our map, and the GPU Operator's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Of the Node; each write to the node carries it, so that a write that
    /// was decided on something older fails.
    pub resource_version: String,
    /// What the operands of the node are told, and what they answer.
    pub operands: OperandLabels,
    /// Our mark is on the node, as it is with every cordon of ours.
    pub is_marked: bool,
    /// Who else works on the node.
    pub work: Option<OtherWork>,
    /// Who else manages its devices.
    pub manager: Option<OtherManager>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Who set it, by the node's managed fields.
    pub cordon_owner: CordonOwner,
    /// The condition `Ready`.
    pub ready: bool,
    /// `status.nodeInfo.bootID`.
    pub boot_id: String,
    /// The extended resources in `status.allocatable`, of which those of GPUs
    /// are read. Kubelet keeps keys with zero.
    pub allocatable: BTreeMap<String, u64>,
    /// All pods bound to the node, those of the Operator included.
    pub pods: Vec<Pod>,
    /// How the pods were read.
    pub listing: Listing,
    /// Evictions that the API server refused since the last call.
    pub refusals: Vec<Refusal>,
    /// Our `ConfigMap`.
    pub map: MapSeen,
    /// What the entry that the node's label names means for this node's GPUs
    /// (see [`crate::map`]); `None` when there is no label, or no such entry.
    pub label_layout: Option<NodeLayout>,
    /// The GPU Operator's settings.
    pub operator: Operator,
    /// The agent that changes the node, where one does.
    pub agent: Option<AgentSeen>,
    /// What any agent has reported of the node; `None` where none ever did.
    pub report: Option<Report>,
    /// How its GPUs are shared.
    pub sharing: SharingSeen,
}

/// A pod bound to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub pod: PodRef,
    /// Its uid: the precondition of its eviction or deletion.
    pub uid: String,
    /// What it does for the GPU Operator, if it is one of its pods.
    pub operand: Option<Operand>,
    /// How far it is.
    pub phase: PodPhase,
    /// It has a deletion timestamp. It holds its slices until it is gone.
    pub terminating: bool,
    /// Its condition `Ready`.
    pub ready: bool,
    /// Whether a DaemonSet owns it: eviction only makes it come again.
    pub daemon_set: bool,
    /// What it asks of extended resources, all containers summed up. Those of
    /// GPUs are read.
    pub requests: BTreeMap<String, u64>,
    /// The GPUs that its slices are on, when an agent says so.
    pub gpus: Option<BTreeSet<GpuIndex>>,
    /// The uid by which kubelet knows it: that of a static pod is another one.
    pub kubelet_uid: String,
    /// What each container asks of GPUs, init containers included.
    pub containers: Vec<(String, BTreeMap<String, u64>)>,
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Bound, and not started: kubelet may still give it any free slice.
    Pending,
    /// Its slices are allocated.
    Started,
    /// Succeeded or failed: its slices are free again.
    Ended,
}

impl Pod {
    /// Whether it holds, or may come to hold, a GPU or a slice. The Operator's
    /// own checks do not count: MIG manager removes them itself.
    #[must_use]
    pub fn holds_gpu(&self) -> bool {
        self.phase != PodPhase::Ended
            && self.operand != Some(Operand::Validator)
            && self.resources().next().is_some()
    }

    /// Whether eviction is in vain: its DaemonSet, or kubelet from a file of the
    /// node (the API server has a mirror of such a pod), brings it back.
    pub(crate) fn comes_back(&self) -> bool {
        self.daemon_set || !self.kubelet_uid.is_empty() && self.kubelet_uid != self.uid
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &String> {
        self.requests.iter().filter(|(name, n)| **n > 0 && GpuResource::is_one(name)).map(|(name, _)| name)
    }

    /// Whether a slice that goes when the node changes is, or may be, this
    /// pod's. When it is not known what the node has, it may be any.
    #[must_use]
    pub fn may_lose(&self, from: Option<&NodeLayout>, to: &NodeLayout, strategy: Strategy) -> bool {
        if !self.holds_gpu() {
            return false;
        }
        let Some(from) = from else { return true };
        if to.changes_mode_of(from) {
            return true;
        }
        let changed = to.changed_from(from);
        if let Some(gpus) = &self.gpus {
            return !gpus.is_disjoint(&changed);
        }
        let all = from.0.keys().copied().collect();
        let (goes, has) = (from.resources_of(&changed, strategy), from.resources_of(&all, strategy));
        // A share is a share of some slice of its profile: which one, nobody knows.
        let mut devices = self.resources().map(|name| unrenamed(name));
        !changed.is_empty() && devices.any(|name| goes.contains(name) || !has.contains(name))
    }
}

/// How the pods were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// From a watch: may lag behind.
    Cached,
    /// A consistent read that began then (the caller's clock, the same as `now`).
    Consistent {
        /// When the read began.
        at: Timestamp,
    },
}

/// An eviction that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The pod.
    pub pod: PodRef,
    /// What the API server said, such as which disruption budget.
    pub message: String,
}

/// Our `ConfigMap`, as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapSeen {
    /// Its resource version; `None` when it is not there.
    pub resource_version: Option<String>,
    /// The names of its entries.
    pub entries: BTreeSet<String>,
    /// When we last changed it, if known.
    pub changed_at: Option<Timestamp>,
}

/// What the GPU Operator is told to do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator {
    /// There is a `ClusterPolicy`.
    pub cluster_policy: bool,
    /// `spec.migManager.enabled`.
    pub mig_manager: bool,
    /// `spec.migManager.config.name` is our map.
    pub uses_our_map: bool,
    /// How it offers slices on this node.
    pub strategy: Strategy,
}

impl Default for Operator {
    fn default() -> Self {
        Self { cluster_policy: true, mig_manager: true, uses_our_map: true, strategy: Strategy::Mixed }
    }
}

/// What the operands of a node are told, and what they answer: by its labels,
/// which `observe` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandLabels {
    /// The layout that MIG manager is told: a key of the map, never empty.
    pub config: Option<String>,
    /// What MIG manager says of it.
    pub state: ManagerState,
    /// The labels of the operands that MIG manager has parked.
    pub parked: Vec<String>,
    /// Whether MIG manager is to run there.
    pub has_manager: bool,
    /// The labels of the operands that we have paused for the agent.
    pub held: Vec<String>,
    /// The labels of the operands that we would pause, and that run.
    pub pausable: Vec<String>,
    /// How many of each GPU resource GPU feature discovery counts; `None` where
    /// its label is no number.
    pub counts: BTreeMap<String, Option<u64>>,
    /// The label that says that devices are shared, with its value.
    pub shared: Option<String>,
}

/// What MIG manager says of the layout that it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ManagerState {
    /// Nothing.
    #[default]
    Absent,
    /// It works.
    Pending,
    /// It has the node rebooted.
    Rebooting,
    /// It is done.
    Success,
    /// It could not.
    Failed,
    /// A word that is not known here.
    Other(String),
}

impl Observed {
    pub(crate) fn label(&self) -> Option<&str> {
        self.operands.config.as_deref()
    }

    pub(crate) fn state(&self) -> ManagerState {
        self.operands.state.clone()
    }

    /// Operand labels that MIG manager parked.
    pub(crate) fn paused(&self) -> &[String] {
        &self.operands.parked
    }

    /// The cordon carries our mark.
    pub(crate) const fn marked(&self) -> bool {
        self.is_marked
    }

    /// The newest pod of an operand that is not on its way out.
    pub(crate) fn operand(&self, operand: Operand) -> Option<&Pod> {
        self.pods
            .iter()
            .find(|pod| pod.operand == Some(operand) && !pod.terminating && pod.phase != PodPhase::Ended)
    }

    /// Who else has begun to work on the node.
    pub(crate) fn work_under_way(&self) -> Option<String> {
        self.work.as_ref().filter(|work| work.is_under_way()).map(ToString::to_string)
    }

    /// The devices of the node under a strategy, as they are without sharing;
    /// `None` where that is not known.
    #[must_use]
    pub fn devices(&self, strategy: Strategy) -> Option<Resources> {
        match &self.sharing.layout {
            Some(layout) => Some(layout.offers(strategy)),
            None if self.sharing.is_cut => None,
            None => self.sharing.gpus.map(|gpus| Resources::from([(RESOURCE_GPU.to_owned(), gpus)])),
        }
    }

    /// How the devices are shared that the node offers; `None` where that is
    /// not known for certain.
    #[must_use]
    pub fn shared_as(&self) -> Option<PluginConfig> {
        self.sharing.in_effect(&self.offers(), self.devices(self.operator.strategy).as_ref())
    }

    /// What the node offers with these devices, if its device plugin does what
    /// it is told.
    pub(crate) fn offered_with(&self, devices: Resources) -> Resources {
        match &self.sharing.config {
            Some(config) => config.offers(&devices),
            None => devices,
        }
    }

    /// The GPUs and slices that the node offers, without zeros: kubelet keeps
    /// keys of resources that went.
    #[must_use]
    pub fn offers(&self) -> BTreeMap<String, u64> {
        self.allocatable
            .iter()
            .filter(|(name, n)| **n > 0 && GpuResource::is_one(name))
            .map(|(name, n)| (name.clone(), *n))
            .collect()
    }
}
