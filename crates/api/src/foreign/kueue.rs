//! What we read of Kueue's cluster-wide kinds: checks that workloads have to
//! pass, and flavors, which say on which nodes a quota holds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The controller that our checks name: ourselves.
pub const CONTROLLER: &str = "slicewright.io/slices";

/// The versions of Kueue's kinds that are read here, best first.
pub const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// A check that workloads have to pass before they are admitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdmissionCheck {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Whose it is.
    #[serde(default)]
    pub spec: AdmissionCheckSpec,
    /// Whether somebody answers it.
    #[serde(default)]
    pub status: AdmissionCheckStatus,
}

/// Whose a check is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckSpec {
    /// The controller that answers it.
    #[serde(default)]
    pub controller_name: String,
    /// What that controller wants to know beside. Ours wants nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// Whether somebody answers a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdmissionCheckStatus {
    /// `Active`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl AdmissionCheck {
    /// Whether we are to answer it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.spec.controller_name == CONTROLLER
    }
}

/// A kind of node for which quota is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceFlavor {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which nodes.
    #[serde(default)]
    pub spec: ResourceFlavorSpec,
}

/// Which nodes a flavor is for. Pods that get it select and tolerate them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorSpec {
    /// Labels that these nodes have.
    #[serde(default)]
    pub node_labels: BTreeMap<String, String>,
    /// Taints that these nodes have, as its author says: Kueue gives the flavor only to pods that tolerate them, by
    /// themselves or by the tolerations below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_taints: Vec<Taint>,
    /// Taints that pods come to tolerate.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// The topology by which Kueue places its pods, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
}
