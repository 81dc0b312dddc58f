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
    /// The operand that offers GPUs to pods.
    #[serde(default, skip_serializing_if = "DevicePlugin::is_default")]
    pub device_plugin: DevicePlugin,
}

/// The operand that offers GPUs to pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DevicePlugin {
    /// Its map of configurations.
    #[serde(default)]
    pub config: Option<DevicePluginConfig>,
}

impl DevicePlugin {
    /// Whether nothing is said of it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The map of the device plugin's configurations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DevicePluginConfig {
    /// The name of a `ConfigMap` beside the operator; empty: none.
    #[serde(default)]
    pub name: String,
    /// The key that nodes without a label use; empty: none.
    #[serde(default)]
    pub default: String,
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
