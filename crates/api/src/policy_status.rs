//! The status of a `GpuPartitionPolicy`: a projection of the planner's report.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last observations and decisions of the controller for this policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPartitionPolicyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Accepted` (the spec is valid), `Planned` (the plan serves all requests
    /// that it can), and `Ready` (every node has its layout) are always
    /// present. `Reconciling` (nodes are being changed), `Stalled` (an
    /// administrator has to act) and `Degraded` (the policy works, but not as
    /// it should) are present only while they are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The slices of the nodes, and how many of them are free, in one line,
    /// such as `12 x 1g.10gb (3 free), 3g.40gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<String>,

    /// Supply and demand, by profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["profile".into()]))]
    pub supply: Vec<ProfileSupply>,

    /// Supply and demand in seats, by the resource that pods ask for: GPUs that
    /// are not cut, and slices that several pods share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["resource".into()]))]
    pub seats: Vec<SeatSupply>,

    /// Requests that are not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Unserved>,

    /// Workbenches that hold slices of the policy's nodes and that nobody has
    /// used for at least an hour. Absent if there are none. This needs culling
    /// in OpenShift AI: without it, no last activity is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_holders: Option<IdleHolders>,

    /// The number of nodes of the policy, by their state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// The digest of the specs of all policies, since they are planned
    /// together; `slicewright plan` prints the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,

    /// The digest of the present plan; `slicewright plan` prints the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,

    /// Whether the present plan is the reviewed one. Present if the annotation
    /// `slicewright.io/reviewed-plan` names a reviewed plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,

    /// The quality of the plan, for each level of the objective in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub certificate: Vec<Level>,
}

/// Whether what was reviewed is what is planned. It is judged when the
/// cluster's policies have become those that were reviewed, before anything is
/// changed, and stays until the annotation or the policies do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// The value of the annotation; its first 256 characters.
    #[schemars(length(max = 256))]
    pub reviewed: String,
    /// Whether the present plan is the reviewed one.
    pub state: ReviewState,
    /// When the plans were compared.
    pub at: Timestamp,
    /// What has changed since the review. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moved: Vec<Moved>,
    /// Nodes that changed since the review, by name. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub nodes: Vec<MovedNode>,
    /// The result as a sentence.
    #[serde(default)]
    pub message: String,
}

impl Review {
    /// A review of which nothing is said yet.
    #[must_use]
    pub const fn new(reviewed: String, at: Timestamp) -> Self {
        Self {
            reviewed,
            state: ReviewState::Unreadable,
            at,
            moved: Vec::new(),
            nodes: Vec::new(),
            message: String::new(),
        }
    }
}

/// Whether what was reviewed is what is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReviewState {
    /// The plan is the one that was reviewed.
    Same,
    /// It is another one.
    Moved,
    /// The annotation makes no sense.
    Unreadable,
}

/// What moved since a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Moved {
    /// The policies of the cluster are others.
    Policies,
    /// Nodes were added or removed, or have other GPUs or slices.
    Nodes,
    /// What is asked for.
    Demand,
    /// The plan.
    Plan,
}

/// A node that moved since a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovedNode {
    /// Its name.
    pub name: String,
    /// How it changed.
    pub how: HowMoved,
}

/// How a node moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HowMoved {
    /// A policy has it now, and none had.
    Added,
    /// It is gone, or no policy has it any more.
    Removed,
    /// Its GPUs, what they are cut into, whether they are used, or whether it
    /// may change.
    Changed,
}

/// Supply and demand of one profile, or of whole GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSupply {
    /// The profile. `gpu` stands for GPUs with MIG off, each of which is one
    /// `nvidia.com/gpu`; they are listed if the policy has a rule with
    /// `mig: Disabled`.
    pub profile: String,
    /// The largest number of slices that a layout could offer while it keeps
    /// the slices in use.
    pub attainable: i32,
    /// Slices that exist.
    pub present: i32,
    /// Slices that exist and that pods hold, or may hold.
    pub allocated: i32,
    /// Slices that exist and that no pod holds.
    #[serde(default)]
    pub free: i32,
    /// Slices that will exist once the plan is carried out.
    pub planned: i32,
    /// Slices that waiting requests ask for.
    pub requested: i32,
    /// Requested slices that the plan does not provide.
    pub unserved: i32,
}

/// Supply and demand of one resource, in seats. A device, such as a GPU or a
/// slice, has as many seats as pods share it; one that is not shared has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeatSupply {
    /// The resource, such as `nvidia.com/gpu.shared`.
    pub resource: String,
    /// GPUs, or slices, that exist.
    pub devices: i32,
    /// Seats that they have.
    pub total: i32,
    /// Seats that pods hold.
    pub held: i32,
    /// Seats that no pod holds.
    pub free: i32,
    /// Seats that will exist once the plan is carried out.
    pub planned: i32,
    /// Seats that waiting requests ask for.
    pub requested: i32,
    /// Requested seats that are neither free nor provided by the plan.
    pub unserved: i32,
}

/// Requests that are not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unserved {
    /// The number of unserved requests; `requests` shows at most 50 of them.
    pub total: i32,
    /// How many of them no layout could serve, so that somebody has to change
    /// the request, the policy or the fleet. The others wait for slices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cannot_be_served: i32,
    /// The oldest unserved requests. At most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub requests: Vec<UnservedRequest>,
}

/// A request that is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnservedRequest {
    /// The kind of the requesting object, such as `Notebook`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The slices that it requests, such as `1 x 3g.40gb`.
    pub slices: String,
    /// Since when the request has waited.
    pub since: Timestamp,
    /// Why the request is not served, in one word.
    pub reason: String,
    /// Why the request is not served, and what would help.
    pub message: String,
}

/// Workbenches that hold slices and are idle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdleHolders {
    /// The number of idle workbenches; `workbenches` shows at most 50 of them.
    pub total: i32,
    /// Those that have been idle longest. At most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub workbenches: Vec<IdleHolder>,
}

/// A workbench that holds slices and is idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdleHolder {
    /// The namespace of the workbench.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node of its pod.
    pub node: String,
    /// The slices that it holds, such as `1 x 3g.40gb`.
    pub slices: String,
    /// The hour of its last activity, as culling sees it: kernels and
    /// terminals, not the use of the GPU.
    pub last_activity: Timestamp,
}

// serde calls it with a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// Nodes by what they are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All nodes of the policy.
    #[serde(default)]
    pub total: i32,
    /// Nodes that have the planned layout.
    #[serde(default)]
    pub ready: i32,
    /// Nodes that wait for the budget, a window, the cooldown, or pods.
    #[serde(default)]
    pub waiting: i32,
    /// Nodes that are being changed.
    #[serde(default)]
    pub changing: i32,
    /// Nodes that may not be changed; `GpuNode` states the reason.
    #[serde(default)]
    pub held: i32,
    /// Nodes whose change failed, so that an administrator has to act.
    #[serde(default)]
    pub failed: i32,
}

/// How good the plan is on one level of the objective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// The name of the level.
    pub level: String,
    /// The value of the plan; lower is better.
    pub value: i64,
    /// The proved lower bound for every plan.
    pub bound: i64,
}
