//! `GpuNode`: one node's wanted layout, what was seen, and where it is on its
//! way. Written by the controller and the agent, never by people.
#![expect(clippy::duplicated_attributes, reason = "each printcolumn has its own type_")]
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The layout that is wanted for a node. Written by the controller.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slicewright.io",
    version = "v1alpha1",
    kind = "GpuNode",
    plural = "gpunodes",
    singular = "gpunode",
    shortname = "gn",
    category = "slicewright",
    doc = "GpuNode shows one node's GPUs: the layout that is wanted, what the hardware has and who uses it, and where the node is on its way. It is named after its node, owned by it, and never written by people.",
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
    /// The policy that has the node; none when no policy selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// The digest of the plan that wants this layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,

    /// The layout of each GPU that the plan speaks of. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub gpus: Vec<WantedGpu>,
}

/// The layout that is wanted on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedGpu {
    /// The index of the GPU on its node.
    #[schemars(range(min = 0, max = 255))]
    pub index: i32,
    /// Its model, such as `A100-80GB`.
    pub model: String,
    /// Its slices, by start. At most 16.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub slices: Vec<WantedSlice>,
}

/// A slice that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedSlice {
    /// Its profile.
    pub profile: String,
    /// Where it starts, in memory units of the placement grid.
    #[schemars(range(min = 0, max = 15))]
    pub start: i32,
}

/// What was seen on a node, and where it is on its way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodeStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The same conditions as those of a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// What the node has and how much of it is free, in one line, such as
    /// `7 x 1g.10gb (3 free), 3g.40gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<String>,

    /// What the hardware has and who uses it. Written by the agent; by the
    /// controller where no agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,

    /// Where the node is on its way. Written by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<NodeRollout>,
}

/// What the hardware has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Who established it.
    pub by: ObservedBy,
    /// When.
    pub at: Timestamp,
    /// The boot id of the node at that time: after a reboot, what was seen
    /// before says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The labels of GPU feature discovery that the node had. They vanish
    /// during a change; until it has arrived, the node is selected as if it
    /// still had them. At most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub labels: BTreeMap<String, String>,
    /// Its GPUs, by index. Models are remembered here, since the labels that
    /// name them vanish during a change. At most 64.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub gpus: Vec<ObservedGpu>,
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
    /// Its UUID, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// Pods that hold the GPU as a whole, with MIG off. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub held_by: Vec<PodName>,
    /// What is wrong with it, when something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
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
    /// Where it starts; absent where only counts are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 15))]
    pub start: Option<i32>,
    /// Whether it is allocated to a pod.
    pub used: SliceUse,
    /// The pods that hold, or may hold, it. At most 32.
    #[serde(default)]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub by: Vec<PodName>,
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
    /// Since when it is in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How often the change has been tried.
    #[serde(default)]
    pub attempt: i32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The value of `nvidia.com/mig.config` that we wrote last; another value
    /// is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// The value of `nvidia.com/mig.config` that was verified last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_label: Option<String>,
    /// When the last change was verified: the cooldown counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// Until when the node is left alone after its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// Since when a slice of each profile has been free and schedulable on
    /// the node: a request that still waits two minutes later is blocked by
    /// something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(merge_strategy = MapMerge::Granular)]
    pub schedulable_since: BTreeMap<String, Timestamp>,
    /// Everything that the operator has to remember of the rollout, for
    /// itself: the fields above say the same for people. It is read back
    /// after a restart, so do not edit it; `slicewright release` ends a
    /// rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "remembered")]
    pub progress: Option<serde_json::Value>,
}

/// An object that the API server keeps as it is, and replaces as a whole.
fn remembered(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-map-type": "atomic",
    })
}
