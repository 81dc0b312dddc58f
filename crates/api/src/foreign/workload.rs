//! The fields of Kueue's `Workload` that we read: a workload that waits in a queue.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::{Metadata, Shared, StringMap, TemplateSpec};

/// The annotation of a workload that Kueue makes when an elastic job grows: namespace and name of the one whose place it
/// takes, with all of its pods. That one ends once this one has its quota, and for a moment both have it.
pub const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";

/// Something that waits in a queue, or was admitted from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name, namespace, owners.
    #[serde(default)]
    pub metadata: Metadata,
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
    /// The local queue in which it waits.
    #[serde(default)]
    pub queue_name: String,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether it may run; absent: it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// A set of equal pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How many.
    #[serde(default)]
    pub count: i32,
    /// What each is like.
    #[serde(default)]
    pub template: PodTemplate,
    /// Where they have to be, as far as Kueue places them by a topology: it is what the annotations
    /// `kueue.x-k8s.io/podset-required-topology` and its like on the template said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_request: Option<Box<TopologyRequest>>,
}

/// Where the pods of a set have to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// The label of nodes of which all of them need one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
}

/// What a pod of a set is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// Its labels, and what is noted of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<Metadata>>,
    /// Its spec.
    #[serde(default)]
    pub spec: TemplateSpec,
}

/// Where a workload is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// `QuotaReserved`, `Admitted`, `Finished` and others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The quota that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Shared<Admission>>,
    /// Checks that have to pass before it is admitted.
    #[serde(default)]
    pub admission_checks: Vec<AdmissionCheckState>,
    /// What Kueue counts of it, as it last looked at it without giving quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_requests: Vec<Counted>,
    /// The other cluster that runs it (MultiKueue).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// When it may get quota again, if it was sent back into its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_state: Option<RequeueState>,
}

/// What Kueue counts of a pod set: not always what its pods ask for, since it may be told to count something else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Which pod set.
    #[serde(default)]
    pub name: String,
    /// How much of each resource.
    #[serde(default)]
    pub resources: BTreeMap<String, Quantity>,
}

/// When a workload that was sent back into its queue may get quota again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequeueState {
    /// Not before then; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_at: Option<Time>,
}

/// The quota that a workload has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// The cluster queue that gives it.
    #[serde(default)]
    pub cluster_queue: String,
    /// Of each pod set.
    #[serde(default)]
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

/// The quota of a pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodSetAssignment {
    /// Which pod set.
    #[serde(default)]
    pub name: String,
    /// The flavor of each resource.
    #[serde(default)]
    pub flavors: BTreeMap<String, String>,
    /// For how many pods; absent: for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// What a check says of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckState {
    /// The name of the check.
    #[serde(default)]
    pub name: String,
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    #[serde(default)]
    pub state: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// Since when it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// What pods of each set get when they start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_set_updates: Vec<PodSetUpdate>,
    /// How long Kueue is to wait before it tries again, with `Retry`; seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i32>,
    /// How often in a row it has said `Retry`, as Kueue counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
}

/// What pods of a set get when they start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetUpdate {
    /// Which pod set.
    #[serde(default)]
    pub name: String,
    /// Labels of nodes that they may use.
    #[serde(default, skip_serializing_if = "StringMap::is_empty")]
    pub node_selector: StringMap,
    /// Taints that they come to tolerate. Ours adds none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

impl PodSet {
    /// The label of nodes of which all of its pods need one value, if Kueue places them by a topology.
    #[must_use]
    pub fn required_topology(&self) -> Option<&String> {
        self.topology_request.as_ref()?.required.as_ref()
    }
}

impl Workload {
    /// Whether a condition is true.
    #[must_use]
    pub fn is(&self, condition: &str) -> bool {
        self.status.conditions.iter().any(|c| c.type_ == condition && c.status == "True")
    }

    /// Since when a condition is true.
    #[must_use]
    pub fn since(&self, condition: &str) -> Option<Timestamp> {
        let found = self.status.conditions.iter().find(|c| c.type_ == condition && c.status == "True");
        found.map(|condition| condition.last_transition_time.0)
    }

    /// Whether checks may be answered, and count: it has its quota, may run
    /// here, and has not ended. While it is being evicted an answer would stay
    /// for ever (kueue#3543).
    #[must_use]
    pub fn has_quota(&self) -> bool {
        let is_elsewhere = self.status.cluster_name.as_ref().is_some_and(|name| !name.is_empty());
        self.is("QuotaReserved")
            && !self.is("Finished")
            && !self.is("Evicted")
            && self.spec.active != Some(false)
            && self.metadata.deletion_timestamp.is_none()
            && !is_elsewhere
    }

    /// What a check says of it.
    #[must_use]
    pub fn check(&self, name: &str) -> Option<&AdmissionCheckState> {
        self.status.admission_checks.iter().find(|check| check.name == name)
    }

    /// For how many pods of a set it has its quota. An elastic job that shrinks asks for fewer than it was given.
    #[must_use]
    pub fn count_of(&self, set: &PodSet) -> i32 {
        let given = self.assignment_of(set).and_then(|assignment| assignment.count);
        given.map_or(set.count, |given| given.min(set.count))
    }

    /// Whether Kueue counts a resource that its pods ask for; `None` where it has not said so. It may count another one
    /// instead (`resources.transformations` in its configuration), or none.
    #[must_use]
    pub fn counts(&self, resource: &str) -> Option<bool> {
        let given = self.status.admission.as_ref().filter(|_| self.is("QuotaReserved"));
        if let Some(given) =
            given.map(|admission| &admission.pod_set_assignments).filter(|sets| !sets.is_empty())
        {
            return Some(given.iter().any(|set| set.flavors.contains_key(resource)));
        }
        let seen = &self.status.resource_requests;
        (!seen.is_empty()).then(|| seen.iter().any(|set| set.resources.contains_key(resource)))
    }

    /// Namespace and name of the workload whose place it takes, if it takes one's: that of the same job.
    #[must_use]
    pub fn replaces(&self) -> Option<(&str, &str)> {
        self.metadata.annotations.get(REPLACES)?.split_once('/')
    }

    /// The quota of a pod set.
    #[must_use]
    pub fn assignment_of(&self, set: &PodSet) -> Option<&PodSetAssignment> {
        let assignments = &self.status.admission.as_ref()?.pod_set_assignments;
        assignments.iter().find(|assignment| assignment.name == set.name)
    }
}
