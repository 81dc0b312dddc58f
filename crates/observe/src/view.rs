//! One reading of the cluster. The code that plans, changes nodes or reports on
//! them reads these facts; no later step reads an object's labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mig::GpuResource;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::{NodeName, PolicyName, RequestId};
use planner::plan::UnderWay;
use planner::policy::Policy;
use rollout::fleet::PolicyRollout;
use rollout::observed::{Listing, MapSeen, Observed, Refusal};
use rollout::{GpuLayout, Method, PluginConfig, SharingWanted};

use crate::agent::Agent as AgentOfNode;
use crate::hardware::Models;
use crate::host::Host;
use crate::idle::IdleHolders;
use crate::memory::Memory;
use crate::objects::Key;
use crate::problem::Problem;
use crate::quota::Drift;
use crate::requests::QueuedWorkloads;
use crate::shared::SharedNode;

/// Everything that the planner and the rollout need to know, and what could
/// not be made sense of.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// The nodes that have GPUs, or of which something is remembered.
    pub nodes: BTreeMap<NodeName, Arc<NodeView>>,
    /// All nodes as machines, those without GPUs included.
    pub hosts: BTreeMap<NodeName, Host>,
    /// What is remembered of nodes that are not there.
    pub gone: BTreeMap<NodeName, Memory>,
    /// Our map of layouts, as the API server has it.
    pub our_map: MapSeen,
    /// What the planner reads of the nodes that have GPUs: what each is cut
    /// into, who holds what, and whether it may change. One that is past the
    /// point of return is there as it will be.
    pub inventory: Inventory,
    /// What is asked for and not bound, by id.
    pub requests: Vec<Request>,
    /// The workbenches that should run and have no pod, since when: to be
    /// handed in again with the objects of the next round.
    pub starting: BTreeMap<Key, Timestamp>,
    /// The workloads of Kueue that have their quota and a check of ours.
    pub queued: QueuedWorkloads,
    /// What was promised to owners of whom nothing is heard while queues cannot be read: it is kept.
    pub unheard: Vec<(NodeName, RequestId)>,
    /// Where the quota of Kueue's queues does not fit the fleet, or who asks.
    pub drifts: Vec<Drift>,
    /// The workbenches that hold slices and have been idle for a while.
    pub idle: IdleHolders,
    /// The policies, by name. One that makes no sense is there as `Paused`,
    /// so that its nodes do not fall to another policy by a typing error.
    pub policies: Vec<Policy>,
    /// How each policy rolls out.
    pub rollouts: BTreeMap<PolicyName, PolicyRollout>,
    /// The plan that is being carried out: it goes on unless another one is
    /// better by proof.
    pub under_way: UnderWay,
    /// What is wrong or worth knowing, errors first.
    pub problems: Vec<Problem>,
}

impl ClusterView {
    /// A node that has GPUs, or of which something is remembered.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&NodeView> {
        self.nodes.get(name).map(Arc::as_ref)
    }
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The uid of the Node.
    pub uid: String,
    /// How it may be changed, and by whom.
    pub actuator: Actuator,
    /// Its GPUs, as far as they are known.
    pub models: Models,
    /// What our own work has done.
    pub memory: Memory,
    /// The policy that shares its GPUs, or leaves them whole, if one does.
    pub shared: Option<SharedNode>,
    /// What the rollout reads of it: who else works on it, what it offers, who
    /// is on it, what its operands say. How the caller came by it is added by
    /// [`NodeView::as_read`].
    facts: Observed,
}

/// Who changes the layout of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actuator {
    /// NVIDIA's operands, told by a label: we take the node through a rollout.
    Operands,
    /// An agent on the node, told by `spec.change`: single slices, beside those
    /// that are in use.
    Agent,
}

impl Actuator {
    /// Who changes a node: this line is where a way of changing nodes is chosen.
    /// The agent, where it lives and may; it keeps what was handed over to it when
    /// it is away, and what it has begun also when it only reports from now on.
    /// What MIG manager has begun it ends.
    /// Where MIG is off on a GPU, MIG manager switches it on first; and what it
    /// made before a reboot, it makes again. MIG manager gets a node where
    /// somebody wants it back, or where devices are, or are to be, shared: the
    /// agent pauses the device plugin, whose configuration changes then, and it
    /// compares what is offered with its slices, one for one.
    pub(crate) fn choose(
        agent: Option<&AgentOfNode<'_>>,
        memory: &Memory,
        facts: &Observed,
        is_mig_off: bool,
        is_shared: bool,
    ) -> Self {
        let target = memory.progress.target.as_ref();
        // Of a change whose target is not remembered, the agent knows. Nobody else ends it, and until it is ended the
        // operands stay paused.
        let goes_on = target.is_none() && agent.is_some_and(AgentOfNode::is_at_work);
        let begun = goes_on || target.is_some_and(|target| target.slices.is_some());
        let handed = facts.operands.config.as_deref() == Some(rollout::names::HANDED_TO_AGENT);
        // It rebooted before the agent knew its slices by their places: MIG manager makes them by their number.
        let is_unknown = memory.progress.verified.as_ref().is_some_and(|verified| verified.slices.is_empty())
            && Self::has_to_be_brought_back(memory, facts);
        let is_mig_managers = is_mig_off || is_shared || Self::has_to_be_brought_back(memory, facts);
        let is_kept = handed && !is_unknown && !is_shared;
        match (agent, target) {
            (Some(agent), _) if begun || agent.changes && is_kept && !agent.gives_back => Self::Agent,
            (Some(agent), None) if agent.changes && agent.alive && !agent.gives_back && !is_mig_managers => {
                Self::Agent
            }
            _ => Self::Operands,
        }
    }

    /// Whether the node has booted since its slices were verified, and has a MIG
    /// manager that makes them again. An agent that took it over before that
    /// would make them where its policy's budget and window allow.
    fn has_to_be_brought_back(memory: &Memory, facts: &Observed) -> bool {
        let Some(verified) = &memory.progress.verified else { return false };
        let booted = !facts.boot_id.is_empty() && verified.boot_id != facts.boot_id;
        let had_slices = verified.layout.0.values().any(GpuLayout::is_mig);
        let has_manager = facts.operands.has_manager || memory.progress.stood_down;
        booted && had_slices && has_manager
    }
}

/// How the caller came by what it knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How its pods were read.
    pub listing: Listing,
    /// The evictions that were refused since the last round.
    pub refusals: Vec<Refusal>,
    /// Our map, and when we changed it last, if that is known.
    pub map: MapSeen,
}

impl NodeView {
    pub(crate) const fn new(
        uid: String,
        actuator: Actuator,
        models: Models,
        memory: Memory,
        facts: Observed,
    ) -> Self {
        Self { uid, actuator, models, memory, shared: None, facts }
    }

    pub(crate) fn shared(self, shared: Option<SharedNode>) -> Self {
        Self { shared, ..self }
    }

    /// How its GPUs are shared, in one line, where a policy says how.
    #[must_use]
    pub fn sharing_in_words(&self) -> Option<String> {
        let shared = self.shared.as_ref()?;
        Some(crate::shared::in_words(shared, &self.facts))
    }

    /// Its GPUs, in one line, where a policy shares them or leaves them whole,
    /// and it is known how.
    #[must_use]
    pub fn shared_gpus(&self) -> Option<(u64, PluginConfig)> {
        self.shared.as_ref().filter(|shared| shared.never_cut)?;
        Some((self.facts.sharing.gpus?, self.facts.shared_as()?))
    }

    /// What of the way in which its policy shares its devices does not work on
    /// its cards, or is a risk, a sentence each. Of what a policy wants, and of
    /// what is so while it wants nothing.
    #[must_use]
    pub fn sharing_warnings(
        &self,
        labels: &BTreeMap<String, String>,
        seen: Option<&planner::inventory::Node>,
    ) -> Vec<String> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let config = match &shared.wanted {
            Some(SharingWanted::As(config)) => Some(config.clone()),
            Some(_) | None => self.facts.shared_as(),
        };
        let config = config.unwrap_or_default();
        crate::sharing::warnings(labels, seen, &config, &shared.policy)
    }

    /// How its devices are shared now, whoever said so; `None` where that is
    /// not known for certain.
    #[must_use]
    pub fn shared_as(&self) -> Option<PluginConfig> {
        self.facts.shared_as()
    }

    /// How its devices are to be shared: as its policy wants it, or as they are where the policy wants nothing else or
    /// cannot have it. `None` where that is not known.
    #[must_use]
    pub fn to_be_shared_as(&self) -> Option<PluginConfig> {
        let remembered = self.memory.progress.shared_as.as_ref();
        match self.shared.as_ref().and_then(|shared| shared.wanted.as_ref()) {
            Some(SharingWanted::As(config)) if !self.facts.sharing.is_somebody_elses(remembered, config) => {
                Some(config.clone())
            }
            Some(SharingWanted::As(_) | SharingWanted::Unknown | SharingWanted::Refused(_)) | None => {
                self.facts.shared_as()
            }
        }
    }

    /// By what its GPUs are shared, as GPU feature discovery says it.
    #[must_use]
    pub fn shares_gpus_by(&self) -> Method {
        let label = self.facts.sharing.by.get(GpuResource::GPU).map(String::as_str);
        if label == Some(Method::Mps.label()) { Method::Mps } else { Method::TimeSlicing }
    }

    /// The node as the rollout takes it.
    #[must_use]
    pub fn as_read(&self, reading: Reading) -> Observed {
        let Reading { listing, refusals, map } = reading;
        Observed { listing, refusals, map, ..self.facts.clone() }
    }

    /// Whether its agent is uninstalled, and MIG manager has the node, so that
    /// what the agent has reported is of no more use.
    #[must_use]
    pub fn is_without_agent(&self) -> bool {
        let handed = self.facts.operands.config.as_deref() == Some(rollout::names::HANDED_TO_AGENT);
        let has_left = self.facts.report.as_ref().is_some_and(|report| report.has_left);
        self.memory.progress.agent_gone && has_left && !handed
    }

    /// How its slices are offered.
    #[must_use]
    pub const fn strategy(&self) -> rollout::Strategy {
        self.facts.operator.strategy
    }
}
