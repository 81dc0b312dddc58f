//! `GpuNode`: the wanted layout of one node, its observed state, and the progress of its rollout. The
//! controller and the agent write it, people never do.
#![expect(clippy::duplicated_attributes, reason = "each printcolumn has its own type_")]
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_agent::{AgentStatus, Doubts, Holder, NodeChange};
use crate::wanted::WantedGpu;

/// The planned layout of a node. Written by the controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slicewright.io",
    version = "v1alpha1",
    kind = "GpuNode",
    plural = "gpunodes",
    singular = "gpunode",
    shortname = "gn",
    category = "slicewright",
    doc = "GpuNode shows the GPUs of one node: the planned layout, the present layout, the pods that use it, and the progress of the rollout. It has the name of its node and is owned by it. Users never write it.",
    status = "GpuNodeStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Policy",
        type_ = "string",
        json_path = ".spec.policy",
        description = "The policy that has the node"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether the node has its layout"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why it has it, or has not"
    ),
    printcolumn(
        name = "Slices",
        type_ = "string",
        json_path = ".status.slices",
        description = "What the node has, and how much of it is free"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.rollout.phase",
        description = "Where the node is on its way"
    ),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.rollout.since",
        description = "Since when"
    ),
    printcolumn(
        name = "Seen by",
        type_ = "string",
        json_path = ".status.observed.by",
        description = "Who established what the GPUs have: Agent or Controller",
        priority = 1
    ),
    printcolumn(
        name = "Error",
        type_ = "string",
        json_path = ".status.rollout.lastError",
        description = "What went wrong last",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "When the node was first seen"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodeSpec {
    /// The policy that applies to the node; absent when no policy selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// The digest of the plan that contains this layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,

    /// The layout of each GPU that the plan covers. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub gpus: Vec<WantedGpu>,

    /// The change that the agent of the node should carry out now. Absent where
    /// no agent changes slices, and when nothing is to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<NodeChange>,

    /// Who else works on the driver or the operating system of the node now, in
    /// words, such as `a driver upgrade (pod-deletion-required)`. As long as it is
    /// set and there is no change, the agent does not open the driver: an open
    /// driver cannot be unloaded. The agent is not ready meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub driver_in_use_by: Option<String>,
}

/// The observed state of a node, and the progress of its rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodeStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The same conditions as those of a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The slices of the node, and how many of them are free, in one line, such
    /// as `7 x 1g.10gb (3 free), 3g.40gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<String>,

    /// The observed layout of the GPUs and the pods that use them. Written by
    /// the agent, or by the controller if no agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,

    /// The agent of the node, and its part of a change. Written by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,

    /// The progress of the rollout. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<NodeRollout>,
}

/// What the hardware has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// The component that made the observation.
    pub by: ObservedBy,
    /// The time of the observation.
    pub at: Timestamp,
    /// The boot id of the node at that time. After a reboot, earlier
    /// observations are no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The labels of GPU feature discovery that the node had. They are removed
    /// during a change; until the change has finished, policies select the node
    /// as if it still had them. Written by the controller, whoever writes the
    /// rest. At most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub labels: BTreeMap<String, String>,
    /// Its GPUs, by index. Models are stored here because the labels that name
    /// them are removed during a change. At most 64.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub gpus: Vec<ObservedGpu>,
    /// Where the kubelet's records and the driver disagree. Reported only by an
    /// agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubts: Option<Doubts>,
}

/// Who established what a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ObservedBy {
    /// The agent on the node: exact placements and users.
    Agent,
    /// The controller, from labels, maps and pods: counts.
    Controller,
}

/// One GPU as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedGpu {
    /// The index of the GPU on its node.
    #[schemars(range(min = 0, max = 255))]
    pub index: i32,
    /// Its model, such as `A100-80GB`.
    pub model: String,
    /// Its UUID, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether MIG is enabled.
    pub mig_enabled: bool,
    /// Pods that hold the whole GPU, with MIG disabled. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub held_by: Vec<PodName>,
    /// The containers that hold the whole GPU, as kubelet's books say. Only an
    /// agent knows them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub holders: Vec<Holder>,
    /// The fault of the GPU, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
    /// What the driver says if it does not answer about the GPU. Its slices are
    /// then unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_error: Option<String>,
    /// Its slices, by start. At most 16.
    #[serde(default)]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub slices: Vec<ObservedSlice>,
}

/// A slice as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.used == 'Idle' ? size(self.by) == 0 : true")
        .message("an idle slice has no users: leave `by` empty, or say InUse or MaybeInUse")
)]
pub struct ObservedSlice {
    /// Its profile.
    pub profile: String,
    /// Where it starts; absent if only the number of slices is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub start: Option<i32>,
    /// Whether it is allocated to a pod.
    pub used: SliceUse,
    /// The pods that hold it, or may hold it. At most 32.
    #[serde(default)]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub by: Vec<PodName>,
    /// The UUIDs of what a container can open: one, unless somebody has divided
    /// the slice further. Only an agent knows them. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub devices: Vec<String>,
    /// The containers that hold it, as kubelet's books say. A pod that has
    /// ended may still be among them. Only an agent knows them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub holders: Vec<Holder>,
    /// Whether a process computes on it although neither of kubelet's records names a holder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unexplained: bool,
}

/// Whether a slice is allocated to a pod. Allocation counts, not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SliceUse {
    /// Provably not allocated.
    Idle,
    /// Allocated.
    InUse,
    /// It cannot be proved idle.
    MaybeInUse,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Where a node is on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRollout {
    /// The phase, in one word, such as `Quiescing`.
    #[serde(default)]
    pub phase: String,
    /// The time at which this phase began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How often the change has been tried.
    #[serde(default)]
    pub attempt: i32,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The value of `nvidia.com/mig.config` that the operator wrote last; any
    /// other value was written by someone else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// The value of `nvidia.com/mig.config` that was verified last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_label: Option<String>,
    /// The time at which the last change was verified; the cooldown starts
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// The end of the pause after the last change of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// The time since which a slice of each profile has been free and
    /// schedulable on the node. A request that still waits two minutes later is
    /// blocked by something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(merge_strategy = MapMerge::Granular)]
    pub schedulable_since: BTreeMap<String, Timestamp>,
    /// The requests that were promised slices of this node, because a time was
    /// told at which they are ready, or because a queue let them start. The
    /// slices are kept for them, and nothing on the node changes, until their
    /// pods have a node. At most 128.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub promised: Vec<PromisedTo>,
    /// The complete state of the rollout, for the operator's own use; the
    /// fields above show it to users. The operator reads it after a restart, so
    /// do not edit it; `slicewright release` ends a rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "remembered")]
    pub progress: Option<serde_json::Value>,
}

/// A request: the object that asks, and which of its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromisedTo {
    /// The kind of the object that asks, such as `Notebook` or `Pod`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The number of the pod among the pods of that object, starting at 0.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ordinal: i64,
}

/// The most promises that are remembered of one node.
pub const MOST_PROMISED: usize = 128;

/// An object that the API server keeps as it is, and replaces as a whole.
fn remembered(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-map-type": "atomic",
    })
}
