//! Label selectors, as Kubernetes writes them, with bounds.
#![expect(unreachable_pub, reason = "KubeSchema repeats each struct inside a function, `pub` included")]

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Selects objects by their labels. All of `matchLabels` and all of
/// `matchExpressions` must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels that the object must have, with exactly these values. Example:
    /// `{slicewright.io/pool: research}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(merge_strategy = MapMerge::Granular)]
    pub match_labels: BTreeMap<String, String>,

    /// Conditions on labels. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<Requirement>,
}

impl Selector {
    /// Whether it has no condition at all (and so matches everything).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { match_labels, match_expressions } = self;
        match_labels.is_empty() && match_expressions.is_empty()
    }
}

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.operator in ['In', 'NotIn'] ? size(self.values) > 0 : size(self.values) == 0")
        .message("In and NotIn need values; Exists and DoesNotExist take none: write `values: [...]` with the first two, and leave it out with the others")
)]
pub struct Requirement {
    /// The label's key, such as `nvidia.com/gpu.product`.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// How the label is compared with `values`.
    pub operator: RequirementOperator,

    /// The values to compare with: required with `In` and `NotIn`, not allowed
    /// with `Exists` and `DoesNotExist`. At most 64.
    #[serde(default)]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum RequirementOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is not there.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

impl RequirementOperator {
    /// As it is written in a selector.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}
