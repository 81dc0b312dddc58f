//! `GpuPartitionPolicy`: the only object that people write. Field docs are
//! user documentation: they become `kubectl explain`.
#![expect(clippy::duplicated_attributes, reason = "each printcolumn has its own type_")]
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy_status::GpuPartitionPolicyStatus;
use crate::selector::Selector;
pub use crate::sharing::{Sharing, SharingRule, SharingType};

/// The layout of the GPUs of some nodes, and how changes are rolled out.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slicewright.io",
    version = "v1alpha1",
    kind = "GpuPartitionPolicy",
    plural = "gpupartitionpolicies",
    singular = "gpupartitionpolicy",
    shortname = "gpp",
    category = "slicewright",
    doc = "GpuPartitionPolicy defines the MIG layout of the GPUs of the nodes that it selects, and how changes are rolled out. It is the only object of Slicewright that users write.",
    status = "GpuPartitionPolicyStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        description = "Enforce, Preview or Paused"
    ),
    printcolumn(
        name = "Layout",
        type_ = "string",
        json_path = ".spec.layout.type",
        description = "DemandDriven, Static or None"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "integer",
        json_path = ".status.nodes.total",
        description = "Nodes that the policy has"
    ),
    printcolumn(
        name = "Changing",
        type_ = "integer",
        json_path = ".status.nodes.changing",
        description = "Nodes on their way to a new layout"
    ),
    printcolumn(
        name = "Slices",
        type_ = "string",
        json_path = ".status.slices",
        description = "What the nodes have, and how much of it is free"
    ),
    printcolumn(
        name = "Unserved",
        type_ = "integer",
        json_path = ".status.unserved.total",
        description = "Requests that are not served"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether every node has its layout"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why it is, or is not, ready"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        description = "The same in a sentence",
        priority = 1
    ),
    printcolumn(
        name = "Review",
        type_ = "string",
        json_path = ".status.review.state",
        description = "Whether the plan is the one that was reviewed",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "When the policy was created"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.layout.type != 'None' || has(self.sharing)")
        .message("layout.type is None, so the policy cuts no GPU, and without `sharing` it does nothing: write `sharing`, such as `sharing: {type: TimeSlicing, rules: [{model: T4, resource: nvidia.com/gpu, replicas: 4}]}`, or another layout"),
    validation = Rule::new("!has(self.sharing) || self.sharing.type != 'MPS' || self.layout.type == 'None'")
        .message("MPS serves whole GPUs with MIG off only: write `layout: {type: None}`, or `sharing.type: TimeSlicing`, which also shares slices"),
    validation = Rule::new("!has(self.sharing) || self.layout.type != 'None' || !has(self.sharing.rules) || self.sharing.rules.all(r, r.resource == 'nvidia.com/gpu')")
        .message("layout.type is None, so there are no slices to share: write `resource: nvidia.com/gpu`, or a layout that cuts")
)]
pub struct GpuPartitionPolicySpec {
    /// The nodes to which the policy applies. It must not be empty. Use labels
    /// that administrators own, such as `slicewright.io/pool: research`, not
    /// labels that change with the layout (`nvidia.com/gpu.product`,
    /// `nvidia.com/gpu.count`).
    #[x_kube(
        validation = Rule::new("(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)")
            .message("an empty nodeSelector would take every node: name at least one label, such as `matchLabels: {slicewright.io/pool: research}`")
    )]
    pub node_selector: Selector,

    /// Decides which policy applies to a node that several policies select: the
    /// one with the highest priority or, among equals, the first by name.
    #[serde(default)]
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub priority: i32,

    /// Whether the policy changes nodes, only shows what it would do, or starts
    /// no new changes.
    #[serde(default)]
    pub mode: Mode,

    /// What the GPUs are cut into.
    pub layout: Layout,

    /// How many pods share each GPU. If it is absent, the operator does not
    /// touch the configuration of the device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,

    /// How changes are rolled out to the nodes.
    #[serde(default)]
    pub rollout: Rollout,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Plans, reports and changes nodes.
    #[default]
    Enforce,
    /// Plans and reports; writes nothing but status and events.
    Preview,
    /// Starts nothing new. A node that is cordoned already is finished or
    /// uncordoned.
    Paused,
}

impl Mode {
    /// As it is written in a policy, and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "Enforce",
            Self::Preview => "Preview",
            Self::Paused => "Paused",
        }
    }
}

/// What the GPUs are cut into. `type` says which of the other fields is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'DemandDriven' || !has(self.static)")
        .message("type is DemandDriven, so `static` is not used: remove it, or write `type: Static`"),
    validation = Rule::new("self.type != 'Static' || !has(self.demandDriven)")
        .message("type is Static, so `demandDriven` is not used: remove it, or write `type: DemandDriven`"),
    validation = Rule::new("self.type != 'None' || (!has(self.static) && !has(self.demandDriven))")
        .message("type is None, so GPUs are not cut: remove `static` and `demandDriven`, or write the type that they are for"),
    validation = Rule::new("self.type != 'Static' || has(self.static)")
        .message("type is Static: say what the GPUs are cut into, such as `static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}`")
)]
pub struct Layout {
    /// How the layout is determined: from requests, or as a fixed layout.
    /// `None`: GPUs are not cut, and stay as they are.
    #[serde(rename = "type")]
    pub type_: LayoutType,

    /// Used with `type: DemandDriven`. If it is absent, requests of every
    /// namespace count and no profile has bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_driven: Option<DemandDriven>,

    /// Used with `type: Static`.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticLayout>,
}

/// How the layout is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LayoutType {
    /// From what people ask for, within bounds.
    DemandDriven,
    /// Always the same.
    Static,
    /// GPUs are not cut, and stay as they are: for `sharing`.
    None,
}

impl LayoutType {
    /// As it is written in a policy, and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DemandDriven => "DemandDriven",
            Self::Static => "Static",
            Self::None => "None",
        }
    }
}

/// A layout that follows what people ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct DemandDriven {
    /// The namespaces whose requests count. An empty selector means all.
    #[serde(default)]
    pub namespace_selector: Selector,

    /// Bounds by profile, as totals over the nodes of this policy. A profile
    /// that is not listed is allowed and has no bounds. At most 64.
    #[serde(default)]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["profile".into()]))]
    pub slices: Vec<SliceBounds>,

    /// What happens to GPUs that no request needs.
    #[serde(default)]
    pub unrequested: Unrequested,

    /// Who comes first among requests of the same priority, where not all of
    /// them can be served. `MostServed`: as many compute slices as possible are
    /// served, so a later request for a large slice can come before an earlier
    /// one for a small slice. `OldestFirst`: the oldest request that can be
    /// served, then the next oldest that can be served beside it, and so on, as
    /// in a queue. Requests of a higher priority always come first.
    // The default is not written, so that what was reviewed before there was a
    // choice has the digest that it had.
    #[serde(default, skip_serializing_if = "Order::is_default")]
    #[schemars(extend("default" = "MostServed"))]
    pub order: Order,

    /// How many compute slices namespaces have on the nodes of this policy, at
    /// least and at most: those that their pods hold, and those that their
    /// requests get. At most 64.
    // Left out where there are none, for the same reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub shares: Vec<Share>,

    /// Whole GPUs, for requests for `nvidia.com/gpu`. If it is present, such
    /// requests are served: by GPUs on which MIG is off, or by switching MIG off
    /// on GPUs of a node that nobody uses. If it is absent, MIG is never
    /// switched off, and GPUs on which it is off are cut. `{}` has no bounds.
    // Left out where there is none, for the same reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_gpus: Option<WholeGpus>,
}

/// Bounds of whole GPUs: GPUs on which MIG is off. They are totals over the
/// nodes of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.maxCount) || self.minCount <= self.maxCount")
        .message("minCount is more than maxCount: lower minCount, raise maxCount, or remove maxCount"),
    validation = Rule::new("!has(self.maxCount) || self.spareCount <= self.maxCount")
        .message("spareCount is more than maxCount: so many can never be free; lower spareCount, raise maxCount, or remove maxCount")
)]
pub struct WholeGpus {
    /// The smallest number of whole GPUs that should exist, in use or not, if
    /// that is possible.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub min_count: i32,

    /// The number of whole GPUs that should remain free once every request that
    /// can be served has its GPUs.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub spare_count: i32,

    /// The largest number of whole GPUs that may exist, in use or not. If it is
    /// absent, there is no limit. A GPU in use is never cut to meet it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_count: Option<i32>,
}

/// How many compute slices some namespaces have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.maxComputeSlices) || self.minComputeSlices <= self.maxComputeSlices")
        .message("minComputeSlices is more than maxComputeSlices: lower minComputeSlices, raise maxComputeSlices, or remove it"),
    validation = Rule::new("has(self.maxComputeSlices) || self.minComputeSlices > 0")
        .message("the share has no bounds: write minComputeSlices, maxComputeSlices, or both")
)]
pub struct Share {
    /// The namespaces that the share is for. An empty selector means all.
    #[serde(default)]
    pub namespace_selector: Selector,

    /// Whether each of these namespaces has the share by itself. If it is
    /// false, all of them together have it.
    #[serde(default)]
    pub per_namespace: bool,

    /// The smallest number of compute slices that they should have as long as
    /// they ask for them. (A `3g.40gb` has three.) Requests of other namespaces
    /// do not come before it, whatever their priority. No slice in use is taken
    /// away for it.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub min_compute_slices: i32,

    /// The largest number of compute slices that they may have. If it is
    /// absent, there is no limit. Slices that they hold beyond it are not taken
    /// away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_compute_slices: Option<i32>,
}

/// Bounds of one profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.maxCount) || self.minCount <= self.maxCount")
        .message("minCount is more than maxCount: lower minCount, raise maxCount, or remove maxCount"),
    validation = Rule::new("!has(self.maxCount) || self.spareCount <= self.maxCount")
        .message("spareCount is more than maxCount: so many can never be free; lower spareCount, raise maxCount, or remove maxCount")
)]
pub struct SliceBounds {
    /// The profile, as NVIDIA names it: `1g.10gb`, `1g.10gb+me`, `3g.40gb`.
    #[schemars(length(max = 32), regex(pattern = r"^[1-9][0-9]*g\.[0-9]+gb(\+me|\+me\.all|\+gfx|-me)?$"))]
    pub profile: String,

    /// The smallest number of slices that should exist, in use or not, if that
    /// is possible.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub min_count: i32,

    /// The number of slices that should remain free once every request that can
    /// be served has its slice.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub spare_count: i32,

    /// The largest number of slices that may exist, in use or not. If it is
    /// absent, there is no limit. A slice in use is never destroyed to meet it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_count: Option<i32>,
}

/// What happens to GPUs that no request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unrequested {
    /// They stay as they are.
    #[default]
    Keep,
    /// One full-size slice on each GPU that is idle.
    Whole,
}

/// Who comes first among requests of the same priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// As many compute slices as possible are served. A later request for a
    /// large slice can come before an earlier one for a small slice.
    #[default]
    MostServed,
    /// The oldest request that can be served is served, then the next oldest
    /// that can be served beside it, and so on, as in a queue.
    OldestFirst,
}

impl Order {
    /// Whether it is the one that holds where nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A layout that stays the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticLayout {
    /// Rules, in order; the first rule that matches a GPU applies. A GPU that
    /// no rule matches is not changed. 1 to 64.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub gpus: Vec<StaticGpus>,
}

/// What some GPUs are cut into, or that they stay whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.mig) || !has(self.slices)")
        .message("a GPU with `mig: Disabled` has no slices: remove `slices`, or remove `mig`"),
    validation = Rule::new("has(self.mig) || has(self.slices)")
        .message("the rule does not say what becomes of its GPUs: write `slices`, such as `slices: [{profile: 1g.10gb, count: 7}]`, or `mig: Disabled` for whole GPUs")
)]
pub struct StaticGpus {
    /// Only GPUs of this model, such as `A100-80GB`. If it is absent, any model
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub model: Option<String>,

    /// Only GPUs with these indices on their node, counted from 0. If it is
    /// absent, any index matches. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(range(min = 0, max = 255)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub indices: Option<Vec<i32>>,

    /// The slices of each of these GPUs. 1 to 16 profiles. A rule has either
    /// `slices` or `mig: Disabled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["profile".into()]))]
    pub slices: Vec<StaticSlices>,

    /// `Disabled`: MIG is switched off on these GPUs, and each of them is one
    /// `nvidia.com/gpu`. They can be beside GPUs of the same node that are cut.
    /// Switching MIG on or off needs a node on which no pod holds a GPU or a
    /// slice. The MIG strategy of the GPU Operator has to be `mixed`, unless no
    /// GPU of the node is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigMode>,
}

/// `Disabled`: MIG is switched off on these GPUs, and each of them is one
/// `nvidia.com/gpu`. They can be beside GPUs of the same node that are cut.
/// Switching MIG on or off needs a node on which no pod holds a GPU or a
/// slice. The MIG strategy of the GPU Operator has to be `mixed`, unless no
/// GPU of the node is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MigMode {
    /// MIG is off: pods get the GPU as a whole.
    Disabled,
}

/// How many slices of one profile each GPU gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticSlices {
    /// The profile, as NVIDIA names it: `1g.10gb`, `1g.10gb+me`, `3g.40gb`.
    #[schemars(length(max = 32), regex(pattern = r"^[1-9][0-9]*g\.[0-9]+gb(\+me|\+me\.all|\+gfx|-me)?$"))]
    pub profile: String,

    /// The number of these slices on each GPU, 1 to 16.
    #[schemars(range(min = 1, max = 16))]
    pub count: i32,
}

/// How changes are rolled out to the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many nodes of this policy may be unavailable at once: a number, or a
    /// percentage such as `10%` (rounded down, at least 1). Nodes that are
    /// unavailable for other reasons count too.
    #[serde(default = "default_max_unavailable")]
    #[x_kube(
        validation = Rule::new("type(self) == int ? self >= 1 && self <= 10000 : self.matches('^([1-9][0-9]?|100)%$')")
            .message("maxUnavailable is a number of nodes from 1, or a percentage from \"1%\" to \"100%\"")
    )]
    pub max_unavailable: IntOrString,

    /// What happens to pods that hold, or may hold, a slice that has to be
    /// destroyed, or that are in the way of a change of sharing. This applies only
    /// to layouts of type Static or None, and to nodes on which MIG is still
    /// disabled: a demand-driven policy never destroys a slice that is in use, and
    /// evicts nobody to share it.
    #[serde(default)]
    pub drain: Drain,

    /// How long a node is not changed again after a change, such as `10m` or
    /// `1h30m`. At most 168h. If it is absent, it depends on how the node is
    /// changed: 10 minutes after whole GPUs were changed, 30 seconds after the
    /// agent of the node changed single slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"))]
    #[x_kube(
        validation = Rule::new("self != '' && duration(self) <= duration('168h')")
            .message("cooldown is a duration of hours, minutes and seconds up to 168h, such as 10m or 1h30m")
    )]
    pub cooldown: Option<String>,

    /// The times at which the change of a node may start. If there are none, it
    /// may start at any time. A change that has started is finished even when
    /// the window closes. At most 16.
    #[serde(default)]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub windows: Vec<Window>,
}

fn default_max_unavailable() -> IntOrString {
    IntOrString::Int(1)
}

fn default_time_zone() -> String {
    "UTC".to_owned()
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            max_unavailable: default_max_unavailable(),
            drain: Drain::default(),
            cooldown: None,
            windows: Vec::new(),
        }
    }
}

/// What happens to pods in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drain {
    /// Nothing: the change waits for them to end.
    #[default]
    Never,
    /// They are evicted; disruption budgets are honoured.
    Evict,
}

/// A time during which a node may start to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When the window opens, as five cron fields: minute, hour, day of month,
    /// month, day of week. For example, `0 22 * * 1-5` means at 22:00 from
    /// Monday to Friday.
    #[schemars(length(min = 9, max = 128))]
    pub schedule: String,

    /// How long the window stays open, such as `6h` or `1h30m`. At most 168h.
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"))]
    #[x_kube(
        validation = Rule::new("self != '' && duration(self) >= duration('1m') && duration(self) <= duration('168h')")
            .message("duration is a duration of hours, minutes and seconds from 1m up to 168h, such as 6h or 1h30m")
    )]
    pub duration: String,

    /// The IANA time zone of `schedule`, such as `Asia/Seoul`.
    #[serde(default = "default_time_zone")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_called_in_metrics_what_it_is_called_in_policies() {
        for (mode, word) in [(Mode::Enforce, "Enforce"), (Mode::Preview, "Preview"), (Mode::Paused, "Paused")]
        {
            assert_eq!(mode.name(), word);
            assert_eq!(serde_json::to_value(mode).unwrap(), word);
        }
    }
}
