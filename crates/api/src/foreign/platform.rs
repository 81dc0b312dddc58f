//! What we read of OpenShift AI itself: where it is installed, and which hardware profiles its model servers
//! name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{Metadata, hardware_profile};

/// `dscinitialization.opendatahub.io` `DSCInitialization`, v1 and v2: how OpenShift AI is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DscInitialization {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Where it is installed.
    #[serde(default)]
    pub spec: DscInitializationSpec,
}

/// Where OpenShift AI is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DscInitializationSpec {
    /// The namespace of its own applications; hardware profiles in it are
    /// offered in all projects.
    #[serde(default)]
    pub applications_namespace: String,
}

/// A model server: `serving.kserve.io` `InferenceService` or
/// `LLMInferenceService`. Only the profile that it names is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelServer {
    /// Name, namespace, annotations.
    #[serde(default)]
    pub metadata: Metadata,
}

impl ModelServer {
    /// Namespace and name of its hardware profile, if it names one.
    #[must_use]
    pub fn hardware_profile(&self) -> Option<(String, String)> {
        hardware_profile::named_by(&self.metadata)
    }
}
