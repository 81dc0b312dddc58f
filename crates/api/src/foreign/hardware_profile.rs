//! `infrastructure.opendatahub.io` `HardwareProfile`, v1 and v1alpha1 (one schema): the choices that
//! OpenShift AI offers to users.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

/// The annotation that hides a profile from the dashboard.
pub const DISABLED: &str = "opendatahub.io/disabled";

/// A hardware profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HardwareProfile {
    /// Name, namespace, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it offers.
    #[serde(default)]
    pub spec: HardwareProfileSpec,
}

/// What a hardware profile offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HardwareProfileSpec {
    /// The resources.
    #[serde(default)]
    pub identifiers: Vec<Identifier>,
    /// Where it runs.
    #[serde(default)]
    pub scheduling: Option<Scheduling>,
    /// Dynamic resource allocation: belongs to the DRA driver, not to us.
    #[serde(default)]
    pub dra: Option<serde_json::Value>,
}

/// One resource of a hardware profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identifier {
    /// The resource's name, such as `nvidia.com/mig-1g.10gb`.
    pub identifier: String,
    /// The name that people see.
    #[serde(default)]
    pub display_name: String,
    /// The least that the dashboard lets people choose.
    #[serde(default)]
    pub min_count: Option<IntOrString>,
    /// What is injected.
    #[serde(default)]
    pub default_count: Option<IntOrString>,
    /// The most that the dashboard lets people choose.
    #[serde(default)]
    pub max_count: Option<IntOrString>,
    /// `CPU`, `Memory` or `Accelerator`.
    #[serde(default)]
    pub resource_type: Option<String>,
}

impl Identifier {
    /// The default count as a number; `None` when it is none (`8Gi`).
    #[must_use]
    pub fn default_number(&self) -> Option<i64> {
        match self.default_count.as_ref()? {
            IntOrString::Int(n) => Some(i64::from(*n)),
            IntOrString::String(text) => text.parse().ok(),
        }
    }
}

/// Where a hardware profile's workloads run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduling {
    /// `Queue` or `Node`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// With `Queue`.
    #[serde(default)]
    pub kueue: Option<Kueue>,
    /// With `Node`.
    #[serde(default)]
    pub node: Option<NodeScheduling>,
}

/// The queue of a hardware profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kueue {
    /// The local queue.
    #[serde(default)]
    pub local_queue_name: String,
}

/// The nodes of a hardware profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScheduling {
    /// Labels that the node must have.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are borne.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
}

impl HardwareProfile {
    /// Whether the dashboard hides it.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.metadata.annotations.as_ref().and_then(|a| a.get(DISABLED)).is_some_and(|v| v == "true")
    }
}
