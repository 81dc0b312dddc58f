//! What users are told about a node: why it may not change, what it waits for
//! and until when, or why it failed and what an administrator should do.

mod words;

use std::collections::BTreeMap;

use jiff::Timestamp;
use planner::names::{NodeName, PodRef};
use serde::{Deserialize, Serialize};

use crate::layout::{LayoutRefused, NodeLayout};

/// What a sentence goes on with where the API server refused an eviction.
pub const EVICTION: &str = "; eviction";

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It has what it should have.
    Idle,
    /// It should change, and does not start.
    Holding(StartBlocker),
    /// It is on its way.
    Working {
        /// What it waits for.
        waits_for: WaitsFor,
        /// When the wait is called trouble.
        until: Timestamp,
    },
    /// A human has to look.
    Failed(Failure),
}

/// Why a node does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartBlocker {
    /// The policy is `Paused` or only previews.
    NotEnforced,
    /// As many nodes as the policy allows are unavailable.
    Budget {
        /// So many are.
        unavailable: usize,
        /// So many may be.
        allowed: usize,
        /// Which ones are.
        nodes: Vec<NodeName>,
    },
    /// No window is open.
    Window {
        /// When the next opens; `None` when none does.
        opens: Option<Timestamp>,
    },
    /// It changed a moment ago.
    Cooldown {
        /// Until when.
        until: Timestamp,
    },
    /// An earlier attempt was taken back or rolled back.
    BackedOff {
        /// When it is tried again.
        until: Timestamp,
        /// Why.
        why: Trouble,
    },
    /// Pods hold, or may hold, a slice that would go, and may not be evicted.
    PodsInTheWay {
        /// Which ones.
        pods: Vec<PodRef>,
    },
    /// Somebody else cordoned the node.
    CordonedByOthers,
    /// The node is not ready.
    NotReady,
    /// The label has a value that we did not write.
    ForeignLayout {
        /// The value; `None` when the label was removed.
        found: Option<String>,
        /// What we wrote.
        ours: String,
    },
    /// The label of the device plugin's configuration has a value that we did
    /// not write.
    ForeignSharing {
        /// The value; `None` when the label was removed.
        found: Option<String>,
        /// What we wrote, if anything.
        ours: Option<String>,
    },
    /// `ClusterPolicy` does not point the device plugin to our map.
    PluginMapNotOurs,
    /// A pod of the node still mounts the map that `ClusterPolicy` named before.
    PluginPodOfBefore {
        /// Which.
        pod: PodRef,
    },
    /// The GPUs of the node cannot be shared.
    SharingRefused {
        /// Why not, and what helps.
        why: String,
    },
    /// GPU feature discovery does not say which GPUs the node has.
    SharingUnknown,
    /// GPU feature discovery counts other devices than the node offers, which
    /// nobody shares.
    SharingMiscounted {
        /// What it counts.
        expected: BTreeMap<String, u64>,
        /// What the node offers.
        found: BTreeMap<String, u64>,
    },
    /// GPUs would change between one pod and several, and pods hold some.
    GpusHeld {
        /// Which ones.
        pods: Vec<PodRef>,
    },
    /// Somebody else works on the node.
    ForeignWork {
        /// Who.
        who: String,
    },
    /// Another system manages the node's devices.
    HandsOff {
        /// Which.
        who: String,
    },
    /// There is no `ClusterPolicy`.
    NoClusterPolicy,
    /// MIG manager is switched off, for the cluster or for the node.
    ManagerDisabled,
    /// MIG manager's pod does not exist or is not ready.
    ManagerNotReady,
    /// `ClusterPolicy` does not use our map.
    MapNotOurs,
    /// MIG manager is at work, and not for us.
    RunInProgress {
        /// The state that it shows.
        state: String,
    },
    /// The layout cannot be applied.
    LayoutRefused(LayoutRefused),
    /// The node offers something else than was verified, without a reboot.
    NotAsVerified {
        /// What should be offered.
        expected: BTreeMap<String, u64>,
        /// What is.
        found: BTreeMap<String, u64>,
    },
    /// The node offers something else than its agent reports, without a change
    /// of ours.
    NotAsReported {
        /// What the GPUs have, by the agent.
        expected: BTreeMap<String, u64>,
        /// What is offered.
        found: BTreeMap<String, u64>,
    },
    /// The agent changes the node's slices, and it is not there.
    AgentAway,
    /// Nothing keeps the agent of another node from reporting for this one.
    AgentUnguarded,
    /// The agent does not report a GPU as one that it can change.
    AgentCannot {
        /// The UUID of the GPU.
        gpu: String,
    },
    /// MIG manager is being switched off, for the agent.
    HandingOver,
    /// The node is being given back to MIG manager, since no agent changes it.
    HandingBack,
    /// A human ended the rollout with `slicewright release`.
    Released,
    /// The API's data went back in time a moment ago.
    Settling {
        /// Until when nothing is done.
        until: Timestamp,
    },
    /// The API server refuses what we write, and a human has to allow it.
    WriteRefused {
        /// What was to be written, such as `patch Node a1`.
        write: String,
        /// The refuser's own words.
        words: String,
    },
    /// Somebody else changes what we write, each time that we have written it.
    WriteUndone {
        /// What is written, such as `the status of GpuNode a1`.
        what: String,
        /// How often in a row.
        times: u32,
    },
}

/// What a node on its way waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The map's entry to be written.
    MapWrite,
    /// Kubelet to bring the entry to MIG manager.
    MapMount,
    /// The device plugin's configuration to be written into our map.
    PluginMapWrite,
    /// Kubelet to bring it to the device plugin.
    PluginMapMount,
    /// What makes the GPUs usable as they are to be shared.
    SharingProof(Unproven),
    /// The cordon to be written, and noticed by the scheduler.
    Cordon,
    /// A consistent list of the node's pods.
    PodList,
    /// Bound pods to start, fail or go.
    PodsStarting {
        /// Which ones.
        pods: Vec<PodRef>,
    },
    /// Pods in the way to be gone.
    PodsGoing {
        /// Which ones.
        pods: Vec<PodRef>,
        /// Evictions that were refused, with what the API server said.
        refused: Vec<(PodRef, String)>,
    },
    /// The label to be written.
    Label,
    /// MIG manager to take up the change.
    Pickup,
    /// MIG manager to finish.
    Change,
    /// The node to come back from a reboot.
    Reboot,
    /// What makes the slices schedulable.
    Proof(Unproven),
    /// MIG manager's new pod.
    ManagerPod,
    /// Somebody else's work on the node.
    ForeignWork {
        /// Who.
        who: String,
    },
    /// What the agent and the list of pods have to show before a slice may go.
    AgentProof {
        /// What is missing.
        missing: String,
    },
    /// The agent to take the change over.
    Claim,
    /// The driver to answer about a GPU that had slices before the reboot.
    Driver {
        /// The UUID of the GPU.
        gpu: String,
    },
    /// The agent to finish.
    AgentChange {
        /// Whether it puts back what it destroyed.
        restoring: bool,
    },
    /// The agent's order to be withdrawn.
    Withdrawal,
    /// The cordon to be lifted.
    Uncordon,
}

/// What is still missing before slices are proved schedulable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unproven {
    /// The node is not ready.
    NotReady,
    /// MIG manager does not say success.
    State,
    /// Operands are parked.
    OperandsPaused,
    /// There is no device plugin of after the change that is ready.
    PluginPod,
    /// GPU feature discovery's pod is there, and not ready.
    DiscoveryPod,
    /// The node offers something else.
    Allocatable {
        /// What should be offered.
        expected: BTreeMap<String, u64>,
        /// What is.
        found: BTreeMap<String, u64>,
    },
    /// MPS's control daemon is not ready: the device plugin offers nothing
    /// without it, and asks every 30 seconds.
    MpsDaemon,
    /// MPS's control daemon is still there, although nobody shares through it any
    /// more: until it ends, a GPU takes no process but those of its server.
    MpsDaemonLeft,
    /// Its devices are shared, so that it offers multiples of slices, maybe
    /// under other names: nothing that is tried changes that.
    Shared {
        /// The label that says so, with its value.
        label: String,
    },
    /// GPU feature discovery's labels still count something else.
    CountLabels,
    /// A label of GPU feature discovery does not say yet how a resource is shared.
    SharingLabel {
        /// Which.
        label: String,
        /// What it should say.
        expected: String,
    },
    /// `ClusterPolicy` points the device plugin to another map since the change
    /// began, and the key of the node is in ours.
    PluginMapElsewhere,
    /// A pod of the node mounts another map than ours, which has the key of the node.
    PluginPodOfBefore {
        /// Which.
        pod: PodRef,
    },
    /// The map does not have the key of the node any more.
    PluginKeyGone {
        /// The key.
        key: String,
    },
    /// Kubelet does not have exactly the devices that the GPUs have, by the agent.
    Offered,
    /// Everything is there, and has to stay so for a moment.
    Stability,
}

/// What went wrong on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// A write of ours was never seen.
    WriteNotSeen,
    /// Bound pods did not start in time.
    PodsNotStarting {
        /// Which ones.
        pods: Vec<PodRef>,
    },
    /// Pods in the way did not go, or may not be evicted.
    PodsInTheWay {
        /// Which ones.
        pods: Vec<PodRef>,
        /// What the API server said to their eviction.
        refused: Vec<String>,
    },
    /// Somebody lifted our cordon.
    Uncordoned,
    /// MIG manager said nothing.
    NotPickedUp,
    /// MIG manager reported `failed`.
    ManagerFailed,
    /// MIG manager stopped and left operands paused: its known wedge.
    ManagerWedged,
    /// The change took too long.
    TooSlow,
    /// The node did not come back from a reboot.
    NotBack,
    /// MIG manager reported `success`, but the slices did not become schedulable.
    NotSchedulable {
        /// What was missing.
        missing: Unproven,
    },
    /// Pods hold GPUs that would change between one pod and several.
    GpusHeld {
        /// Which ones.
        pods: Vec<PodRef>,
        /// What the API server said to their eviction.
        refused: Vec<String>,
    },
    /// The device plugin did not come to offer the GPUs as they are to be shared.
    NotShared {
        /// What was missing.
        missing: Unproven,
    },
    /// Somebody lifted the cordon or the pause while the agent was to change the node.
    HoldLifted,
    /// It was not proved in time that no pod can lose a slice.
    NotProved {
        /// What was missing.
        missing: String,
    },
    /// The agent did not take the change over.
    NotClaimed,
    /// The agent is gone.
    AgentAway,
    /// The agent did not finish.
    AgentSlow,
    /// Kubelet did not come to offer what the GPUs have.
    NotOffered {
        /// What was missing.
        missing: Unproven,
    },
    /// The agent ended the change without its result.
    AgentEnded {
        /// Its reason.
        said: String,
    },
    /// MIG manager's pod did not come back.
    ManagerGone,
    /// Somebody else's work on the node did not end.
    Interrupted {
        /// Who.
        who: String,
    },
}

/// Why a node waits for a human.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureReason {
    /// The layout could not be reached, and nothing that we know helped.
    ChangeFailed(Trouble),
    /// Neither the layout nor the previous one could be reached.
    RollBackFailed(Trouble),
    /// What was there before a reboot could not be brought back.
    RestoreFailed(Trouble),
    /// Somebody else wrote the label while the node was changing.
    ForeignLayout {
        /// The value; `None` when the label was removed.
        found: Option<String>,
        /// What we wrote.
        ours: String,
    },
    /// Neither the sharing nor that of before could be reached.
    SharingFailed(Trouble),
    /// Somebody else wrote the label of the device plugin's configuration while
    /// the node was changing.
    ForeignSharing {
        /// The value; `None` when the label was removed.
        found: Option<String>,
        /// What we wrote; `None` when it was removed by us.
        ours: Option<String>,
    },
}

/// A failed node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub why: FailureReason,
    /// The layout that was to be reached.
    pub wanted: Option<NodeLayout>,
}

impl Failure {
    /// What a human should do, with the commands for this node.
    #[must_use]
    pub fn help(&self, node: &str) -> String {
        self.why.help(node)
    }
}
