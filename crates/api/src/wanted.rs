//! The layout that a node should have: `GpuNode.spec.gpus`, and the slices that a change of its agent names.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The layout that is wanted on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedGpu {
    /// The index of the GPU on its node.
    #[schemars(range(min = 0, max = 255))]
    pub index: i32,
    /// Its model, such as `A100-80GB`.
    pub model: String,
    /// Its slices, by start. At most 16. If the list is empty, MIG is switched off.
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
