//! The status of a `GpuPartitionPolicy`: a projection of the planner's report.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the controller last found and decided for this policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPartitionPolicyStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Accepted` (the spec makes sense), `Planned` (the plan serves what it
    /// can), `Ready` (every node has its layout), and while they hold:
    /// `Reconciling` (on the way), `Stalled` (a human has to act), `Degraded`
    /// (works, but not as it should).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// What the nodes have and how much of it is free, in one line, such as
    /// `12 x 1g.10gb (3 free), 3g.40gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<String>,

    /// Supply and demand, by profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["profile".into()]))]
    pub supply: Vec<ProfileSupply>,

    /// Requests that are not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Unserved>,

    /// How many nodes the policy has, by what they are doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// The digest of the specs of all policies, which are planned together;
    /// `slicewright plan` prints the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<String>,

    /// The digest of the plan in force; `slicewright plan` prints the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,

    /// Whether what was reviewed is what is planned, where an annotation
    /// `slicewright.io/reviewed-plan` says what was reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,

    /// How good the plan is, level by level, in the order of the objective.
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
    /// What was reviewed, as the annotation says it; its first 256 characters.
    #[schemars(length(max = 256))]
    pub reviewed: String,
    /// Whether it is what is planned.
    pub state: ReviewState,
    /// When this was judged.
    pub at: Timestamp,
    /// What moved since the review. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moved: Vec<Moved>,
    /// Nodes that moved, by name. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub nodes: Vec<MovedNode>,
    /// The same in a sentence.
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
    /// How it moved.
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

/// Supply and demand of one profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSupply {
    /// The profile.
    pub profile: String,
    /// The most that some layout could offer, with what is in use left alone.
    pub attainable: i32,
    /// Slices that exist.
    pub present: i32,
    /// Slices that exist and are, or may be, held by pods.
    pub allocated: i32,
    /// Slices that exist and that nobody holds.
    #[serde(default)]
    pub free: i32,
    /// Slices that exist once the plan is done.
    pub planned: i32,
    /// Slices that requests without a slice ask for.
    pub requested: i32,
    /// Of those, how many the plan does not serve.
    pub unserved: i32,
}

/// Requests that are not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unserved {
    /// How many there are; `requests` shows at most 50 of them.
    pub total: i32,
    /// The oldest of them. At most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub requests: Vec<UnservedRequest>,
}

/// A request that is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnservedRequest {
    /// The kind of who asks, such as `Notebook`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it asks for, such as `1 x 3g.40gb`.
    pub slices: String,
    /// Since when it waits.
    pub since: Timestamp,
    /// Why it is not served, in one word.
    pub reason: String,
    /// Why it is not served, and what would help.
    pub message: String,
}

/// Nodes by what they are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All nodes of the policy.
    #[serde(default)]
    pub total: i32,
    /// They have the layout that the plan wants.
    #[serde(default)]
    pub ready: i32,
    /// They wait for their turn: budget, window, cooldown, or pods.
    #[serde(default)]
    pub waiting: i32,
    /// They are on their way.
    #[serde(default)]
    pub changing: i32,
    /// They are left alone, for a reason that `GpuNode` gives.
    #[serde(default)]
    pub held: i32,
    /// A change of theirs failed, and a human has to act.
    #[serde(default)]
    pub failed: i32,
}

/// How good the plan is on one level of the objective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// What is counted.
    pub level: String,
    /// What the plan reaches; lower is better.
    pub value: i64,
    /// What no plan can go below.
    pub bound: i64,
}
