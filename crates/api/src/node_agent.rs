//! What the operator and the agent of a node say to each other: `GpuNode.spec.change` (the operator's) and
//! `GpuNode.status.agent` (the agent's). `docs/adr/0013-node-agent.md` says in which order.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use jiff::Timestamp;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wanted::WantedSlice;

mod read;
mod write;

pub use read::{Malformed, account, stage_told, wish};
pub use write::{Card, Identity, TooLarge, agent_status, change, observed};

/// Pods that a permit can name, and containers that can hold one slice or GPU.
pub const MOST_HOLDERS: usize = 1024;

/// A change of single slices that the agent of the node carries out. Written by
/// the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeChange {
    /// The id of this attempt. Another attempt has another id.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// Whether the agent may destroy slices, and by which of its reports. While
    /// it is absent, the agent does not have permission yet; if it is removed
    /// after the agent has claimed the change, the agent reverts the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<ChangePermit>,
    /// The GPUs that change. At most 64.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["uuid".into()]))]
    pub gpus: Vec<ChangedGpu>,
}

/// The permission to destroy the slices of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangePermit {
    /// The number of the agent's report by which the slices were proved free.
    /// A later report makes the permission void.
    #[schemars(range(min = 0))]
    pub report: i64,
    /// The uids of pods that no longer exist and that kubelet's checkpoint
    /// still names: they hold nothing. At most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub gone: Vec<String>,
}

/// A GPU that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedGpu {
    /// Its UUID.
    #[schemars(length(min = 1, max = 128))]
    pub uuid: String,
    /// The slices that it had when this was planned. At most 16.
    #[serde(default)]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub before: Vec<WantedSlice>,
    /// The slices that the GPU will have. At most 16.
    #[serde(default)]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub after: Vec<WantedSlice>,
}

/// The agent of a node. Written by the agent; the operator believes it while
/// the agent's pod exists and is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The uid of the agent's pod.
    pub pod_uid: String,
    /// The boot id of the node, as the agent sees it.
    pub boot_id: String,
    /// The version of the agent.
    pub version: String,
    /// The version of NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether the agent only reports, or also changes slices.
    pub mode: AgentMode,
    /// The number of the last report. It grows with each report, over all
    /// agents that the node ever had.
    #[schemars(range(min = 0))]
    pub report: i64,
    /// When that report was written.
    pub at: Timestamp,
    /// Whether kubelet offers GPU devices, as the agent saw it for a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<AgentGate>,
    /// The change that the agent has claimed, or ended, last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<AgentChange>,
}

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentMode {
    /// It reports slices and the pods that hold them. It changes nothing.
    Report,
    /// It also changes slices, as `spec.change` says.
    Change,
}

/// What the agent saw of kubelet's devices, for one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentGate {
    /// The id of the change.
    pub change: String,
    /// Whether the kubelet can give a GPU device to a pod: `Closed`, no; `Ajar`,
    /// it offers devices, but not those that the GPUs have; `Open`, yes.
    pub state: GateState,
}

/// Whether kubelet can give a slice to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GateState {
    /// No: it has no healthy GPU device.
    Closed,
    /// Perhaps: it has devices, but not those that the GPUs have.
    Ajar,
    /// Yes: its healthy devices are those that the GPUs have.
    Open,
}

/// Where a change is, for the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentChange {
    /// The id of the change.
    pub id: String,
    /// The boot id of the node when the change was claimed or refused.
    pub boot_id: String,
    /// The stage of the change: `Claimed` and `Restoring` while the agent works
    /// on it; `Done`, `Restored`, `Refused` and `Left` when it has ended.
    pub stage: ChangeStage,
    /// Why the agent reverts the change, or could not finish it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<ChangeTrouble>,
}

/// How far a change is, for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangeStage {
    /// The agent works on it. From now on only its outcome ends the change.
    Claimed,
    /// The agent puts back what it has destroyed.
    Restoring,
    /// Ended: the GPUs are as they should be.
    Done,
    /// Ended: something was changed and put back; the GPUs are as before.
    Restored,
    /// Ended: nothing was changed.
    Refused,
    /// Ended: the GPUs are neither as before nor as they should be; see
    /// `status.observed`.
    Left,
}

/// Why a change goes back, or did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeTrouble {
    /// The reason, in one word.
    pub reason: TroubleReason,
    /// The reason, as a sentence.
    pub message: String,
    /// The GPU that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The slice that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<WantedSlice>,
    /// What was found, or what the driver said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why a change goes back, or did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TroubleReason {
    /// `spec.change` names too many GPUs.
    TooManyGpus,
    /// `spec.change` names too many slices of one GPU.
    TooManySlices,
    /// `spec.change` names one GPU twice.
    GpuTwice,
    /// A GPU is not as planned.
    NotAsPlanned,
    /// The driver does not answer about a GPU.
    DriverSilent,
    /// The operator took its permission back.
    CalledBack,
    /// `spec.change` is gone, or it is another change.
    ChangeGone,
    /// The node was rebooted.
    Rebooted,
    /// The driver did not destroy a slice.
    NotDestroyed,
    /// The driver did not create a slice.
    NotCreated,
}

/// A container that holds a device, according to one of kubelet's two books: its
/// pod-resources API knows namespace and name of a pod, its checkpoint the uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The namespace of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The uid of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The container.
    pub container: String,
    /// The device, where the slice has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Where the kubelet's records and the driver disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Doubts {
    /// Why the kubelet's records cannot be read. Then no slice of the node counts as
    /// free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub books_unreadable: Option<String>,
    /// Devices that somebody holds and that the driver does not know. While
    /// there is one, no slice of the node counts as free. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub unknown_devices: Vec<UnknownDevice>,
    /// Devices that two pods hold (kubernetes#137534). At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub held_twice: Vec<String>,
}

/// A device that the driver does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnknownDevice {
    /// Its id.
    pub id: String,
    /// The containers that hold it. At most 64.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub holders: Vec<Holder>,
}
