//! What we read of Kueue's `Workload`: what a queue would like to start.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

/// Something that waits in a queue, or was admitted from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name, namespace, owners.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The pods that it wants.
    #[serde(default)]
    pub spec: WorkloadSpec,
    /// Where it is.
    #[serde(default)]
    pub status: WorkloadStatus,
}

/// The pods that a workload wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// Sets of equal pods.
    #[serde(default)]
    pub pod_sets: Vec<PodSet>,
    /// Its priority.
    #[serde(default)]
    pub priority: Option<i32>,
}

/// A set of equal pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodSet {
    /// How many.
    #[serde(default)]
    pub count: i32,
    /// What each is like.
    #[serde(default)]
    pub template: PodTemplate,
}

/// What a pod of a set is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// Its spec.
    #[serde(default)]
    pub spec: PodSpec,
}

/// Where a workload is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// `QuotaReserved`, `Admitted`, `Finished` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Checks that have to pass before it is admitted.
    #[serde(default)]
    pub admission_checks: Vec<AdmissionCheck>,
}

/// A check that has to pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdmissionCheck {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    #[serde(default)]
    pub state: String,
}

impl Workload {
    /// Whether a condition is true.
    #[must_use]
    pub fn is(&self, condition: &str) -> bool {
        self.status.conditions.iter().any(|c| c.type_ == condition && c.status == "True")
    }

    /// Whether it has its quota and waits for a check: demand, now. One that
    /// waits for quota is not: the quota may never come.
    #[must_use]
    pub fn waits_for_a_check(&self) -> bool {
        self.is("QuotaReserved")
            && !self.is("Admitted")
            && !self.is("Finished")
            && self.status.admission_checks.iter().any(|check| check.state == "Pending")
    }
}
