//! What we read of `nvidia.com` `ClusterPolicy`, the GPU Operator's settings.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The GPU Operator's settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterPolicy {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The settings.
    #[serde(default)]
    pub spec: ClusterPolicySpec,
}

/// The settings that we read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPolicySpec {
    /// How slices are offered.
    #[serde(default)]
    pub mig: Mig,
    /// The operand that cuts GPUs.
    #[serde(default)]
    pub mig_manager: MigManager,
}

/// How slices are offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mig {
    /// `none`, `single`, `mixed`, or empty.
    #[serde(default)]
    pub strategy: String,
}

/// The operand that cuts GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MigManager {
    /// Whether it runs; absent means yes.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Its map of layouts.
    #[serde(default)]
    pub config: Option<MigManagerConfig>,
}

/// The map of layouts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MigManagerConfig {
    /// The name of a `ConfigMap` beside the operator; empty: generated names.
    #[serde(default)]
    pub name: String,
    /// The name that nodes without a label get; `all-disabled` or empty.
    #[serde(default)]
    pub default: String,
}
