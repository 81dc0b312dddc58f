//! `infrastructure.opendatahub.io` `HardwareProfile`, v1 and v1alpha1 (one schema): the choices that
//! OpenShift AI offers to users.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use super::Metadata;

/// The annotation that hides a profile from the dashboard.
pub const DISABLED: &str = "opendatahub.io/disabled";
/// The label that says which program an object belongs to.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] of profiles that the operator has published.
pub const MANAGER: &str = "slicewright";
/// The annotation of a published profile that says what it offers, and where.
pub const OFFERS: &str = "slicewright.io/offers";
/// The annotation of a published profile with the digest of its spec, which is
/// also the end of its name.
pub const SPEC_DIGEST: &str = "slicewright.io/spec-digest";
/// The annotation of a published profile with the time at which the operator
/// disabled it.
pub const WITHDRAWN: &str = "slicewright.io/withdrawn";
/// The annotation by which a workbench or a model server names its profile.
pub const PROFILE_NAME: &str = "opendatahub.io/hardware-profile-name";
/// The annotation with the namespace of that profile; without it, the one of
/// the object itself.
pub const PROFILE_NAMESPACE: &str = "opendatahub.io/hardware-profile-namespace";

/// Namespace and name of the hardware profile that an object names, if it
/// names one.
#[must_use]
pub fn named_by(metadata: &Metadata) -> Option<(String, String)> {
    let annotation = |key: &str| metadata.annotations.get(key).filter(|text| !text.is_empty());
    let name = annotation(PROFILE_NAME)?;
    let namespace = annotation(PROFILE_NAMESPACE).or(metadata.namespace.as_deref());
    Some((namespace.unwrap_or_default().to_owned(), name.to_owned()))
}

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
        self.annotation(DISABLED) == Some("true")
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether the operator has published it: it has the label, and the name
    /// that the operator gave it. A copy under another name is somebody else's.
    #[must_use]
    pub fn is_published(&self) -> bool {
        let label = self.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let digest = self.annotation(SPEC_DIGEST).filter(|digest| !digest.is_empty());
        label.is_some_and(|manager| manager == MANAGER)
            && self.annotation(OFFERS).is_some()
            && digest.is_some_and(|digest| name.ends_with(&format!("-{digest}")))
    }
}
