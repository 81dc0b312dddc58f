//! `spec.sharing` of a policy: how many pods share each GPU. Field docs are user documentation: they become
//! `kubectl explain`.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many pods share each GPU, by NVIDIA's device plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == 'None' || has(self.rules)")
        .message("say how many pods share a GPU, such as `rules: [{model: T4, resource: nvidia.com/gpu, replicas: 4}]`, or write `type: None`"),
    validation = Rule::new("self.type != 'None' || !has(self.rules)")
        .message("type is None, so no GPU is shared: remove `rules`, or write `type: TimeSlicing`"),
    validation = Rule::new("!has(self.rules) || self.rules.all(r, self.rules.exists_one(o, o.resource == r.resource && (has(o.model) ? o.model : '') == (has(r.model) ? r.model : '')))")
        .message("two rules are for the same resource of the same model: remove one of them"),
    validation = Rule::new("self.type == 'TimeSlicing' || !has(self.rules) || self.rules.all(r, r.resource == 'nvidia.com/gpu')")
        .message("only time-slicing shares slices: write `resource: nvidia.com/gpu`, or `type: TimeSlicing`")
)]
pub struct Sharing {
    /// How GPUs and slices are shared.
    #[serde(rename = "type")]
    pub type_: SharingType,

    /// Whether shared devices get a resource name of their own,
    /// `nvidia.com/gpu.shared` or `nvidia.com/mig-1g.10gb.shared`. Then nobody shares a device without
    /// having asked for it, and the resource without `.shared` does not exist
    /// on these nodes. If it is false, the names stay as they are.
    #[serde(default = "yes")]
    pub rename: bool,

    /// Whether a container may request only one seat. A second seat gives it no
    /// second GPU and no larger part of one. A container that requests two
    /// fails with `UnexpectedAdmissionError`.
    #[serde(default = "yes")]
    pub one_each: bool,

    /// Rules, in order; of each resource, the first rule that matches the GPUs
    /// of a node applies. A node that no rule matches is not changed. 1 to 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<SharingRule>,
}

const fn yes() -> bool {
    true
}

/// How GPUs are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SharingType {
    /// Pods take turns on a GPU. None has memory of its own.
    TimeSlicing,
    /// Pods run side by side through one server, with equal shares of memory; a
    /// failure of one ends all. Whole GPUs only, beside `layout: {type: None}`,
    /// and only while `spec.mig.strategy` of ClusterPolicy is absent, `none` or
    /// `single`.
    #[serde(rename = "MPS")]
    Mps,
    /// Nothing is shared: the device plugin gets a configuration without
    /// sharing.
    // Not `Off`: YAML reads that word, without quotes, as false.
    None,
    /// Time-slicing of whole GPUs on nodes whose cards have no MIG. Other nodes
    /// are not changed.
    Auto,
}

impl SharingType {
    /// As it is written in a policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeSlicing => "TimeSlicing",
            Self::Mps => "MPS",
            Self::None => "None",
            Self::Auto => "Auto",
        }
    }
}

/// How many pods share each device of a resource on some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.resource == 'nvidia.com/gpu' || self.resource.matches('^nvidia[.]com/mig-[0-9]+g[.][0-9]+gb([.-][a-z.]+)?$') && !self.resource.endsWith('.shared')")
        .message("resource must be nvidia.com/gpu, or that of a whole slice such as nvidia.com/mig-1g.10gb, without `.shared` (`rename` adds it) and not of a compute instance (`1c.…`)"),
    validation = Rule::new("self.replicas != 1")
        .message("one pod for each device is no sharing, and the device plugin does not start with `replicas: 1` (since 0.12): leave the rule out")
)]
pub struct SharingRule {
    /// Only nodes with GPUs of this model, such as `T4`. If it is absent, any
    /// model matches. The device plugin can share only all GPUs of a node, or
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub model: Option<String>,

    /// The resource that is shared: `nvidia.com/gpu`, or that of a slice such
    /// as `nvidia.com/mig-1g.10gb`, of which each slice is shared.
    #[schemars(length(min = 1, max = 63))]
    pub resource: String,

    /// How many pods share each GPU or slice. 2 to 48: one would be no sharing,
    /// and the device plugin does not start with it. For MPS, at most 16 on
    /// cards before compute capability 7.5 (P4, P40, P100, V100).
    #[schemars(range(min = 2, max = 48))]
    pub replicas: i32,
}
