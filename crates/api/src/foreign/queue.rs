//! What we read of Kueue's queues: which resources a cluster queue covers, how much of each it gives by
//! flavor, how much of it is reserved, and which cluster queue stands behind a local one.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// The quota that the workloads of some local queues share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterQueue {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it gives.
    #[serde(default)]
    pub spec: ClusterQueueSpec,
    /// What of it is taken.
    #[serde(default)]
    pub status: ClusterQueueStatus,
}

/// What a cluster queue gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueSpec {
    /// The cohort, whose queues lend each other what they do not use. `v1beta1`
    /// calls the field `cohort`.
    #[serde(default, alias = "cohort", skip_serializing_if = "Option::is_none")]
    pub cohort_name: Option<String>,
    /// Resources whose quota is of the same flavors.
    #[serde(default)]
    pub resource_groups: Vec<ResourceGroup>,
    /// The checks that its workloads have to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_checks_strategy: Option<AdmissionChecksStrategy>,
    /// The same for all flavors, as `v1beta1` may say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admission_checks: Vec<String>,
    /// `Hold` or `HoldAndDrain` where nothing is admitted; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<String>,
    /// `StrictFIFO`, where nobody passes one who waits for quota; otherwise
    /// `BestEffortFIFO`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queueing_strategy: Option<String>,
    /// From whom its workloads may take quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

/// From whom the workloads of a queue may take quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// From others in the queue: `LowerPriority` or
    /// `LowerOrNewerEqualPriority`; otherwise `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_cluster_queue: Option<String>,
}

/// Resources whose quota is of the same flavors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGroup {
    /// The resources.
    #[serde(default)]
    pub covered_resources: Vec<String>,
    /// Their quota, by flavor.
    #[serde(default)]
    pub flavors: Vec<FlavorQuotas>,
}

/// The quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlavorQuotas {
    /// The flavor.
    #[serde(default)]
    pub name: String,
    /// How much of each resource.
    #[serde(default)]
    pub resources: Vec<ResourceQuota>,
}

/// How much there is of one resource in one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// The resource.
    #[serde(default)]
    pub name: String,
    /// The queue's own.
    #[serde(default, deserialize_with = "amount")]
    pub nominal_quota: Quantity,
    /// How much it may borrow from its cohort; absent: without a limit.
    #[serde(default, deserialize_with = "maybe_amount", skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,
}

/// The checks of a cluster queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionChecksStrategy {
    /// Each with the flavors for which it holds.
    #[serde(default)]
    pub admission_checks: Vec<CheckOfQueue>,
}

/// A check that is on a cluster queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckOfQueue {
    /// The check.
    #[serde(default)]
    pub name: String,
    /// The flavors for which it holds; empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_flavors: Vec<String>,
}

/// What of a cluster queue is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueStatus {
    /// `Active`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The quota that workloads have, admitted or not yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flavors_reservation: Vec<FlavorUsage>,
}

/// What of one flavor is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlavorUsage {
    /// The flavor.
    #[serde(default)]
    pub name: String,
    /// How much of each resource.
    #[serde(default)]
    pub resources: Vec<ResourceUsage>,
}

/// How much of one resource is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// The resource.
    #[serde(default)]
    pub name: String,
    /// All of it, what is borrowed included.
    #[serde(default, deserialize_with = "amount")]
    pub total: Quantity,
}

impl ClusterQueue {
    /// The checks that it names, each with its flavors (none: all of them).
    pub fn checks(&self) -> impl Iterator<Item = (&str, &[String])> {
        let strategy = self.spec.admission_checks_strategy.iter().flat_map(|all| &all.admission_checks);
        let by_flavor = strategy.map(|check| (check.name.as_str(), check.on_flavors.as_slice()));
        by_flavor.chain(self.spec.admission_checks.iter().map(|name| (name.as_str(), &[][..])))
    }

    /// Whether nobody passes one who waits for quota.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.spec.queueing_strategy.as_deref() == Some("StrictFIFO")
    }

    /// Whether a resource is in one of its groups.
    #[must_use]
    pub fn covers(&self, resource: &str) -> bool {
        self.spec.resource_groups.iter().any(|group| group.covered_resources.iter().any(|r| r == resource))
    }

    /// The quota that its workloads have of a resource in a flavor.
    #[must_use]
    pub fn reserved(&self, flavor: &str, resource: &str) -> Option<&Quantity> {
        let found = self.status.flavors_reservation.iter().find(|usage| usage.name == flavor)?;
        found.resources.iter().find(|usage| usage.name == resource).map(|usage| &usage.total)
    }
}

/// A quantity as people write it into an object that the API server keeps as it
/// is: `16` is a number there, and not a text.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    maybe_amount(deserializer).map(Option::unwrap_or_default)
}

fn maybe_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Quantity>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(Quantity(text))),
        Value::Number(number) => Ok(Some(Quantity(number.to_string()))),
        other => {
            Err(de::Error::custom(format!("`{other}` is not a quantity; write a number such as 7 or 64Gi")))
        }
    }
}

/// The queue of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalQueue {
    /// Its name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Where it leads.
    #[serde(default)]
    pub spec: LocalQueueSpec,
}

/// Where a local queue leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// The cluster queue whose quota its workloads get.
    #[serde(default)]
    pub cluster_queue: String,
    /// `Hold` or `HoldAndDrain` where nothing is admitted; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_queue_is_read_in_both_versions_and_with_numbers_as_people_write_them() {
        let of = |cohort: &str| {
            json!({
                "metadata": {"name": "default"},
                "spec": {cohort: "ai", "resourceGroups": [{
                    "coveredResources": ["cpu", "nvidia.com/gpu"],
                    "flavors": [{"name": "nvidia-gpu-flavor", "resources": [
                        {"name": "cpu", "nominalQuota": "96"},
                        {"name": "nvidia.com/gpu", "nominalQuota": 16, "borrowingLimit": 0}]}],
                }]},
                "status": {"flavorsReservation": [{"name": "nvidia-gpu-flavor", "resources": [
                    {"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}]}]},
            })
        };
        for version in ["cohort", "cohortName"] {
            let queue: ClusterQueue = serde_json::from_value(of(version)).unwrap();
            assert_eq!(queue.spec.cohort_name.as_deref(), Some("ai"));
            let quota = &queue.spec.resource_groups[0].flavors[0].resources[1];
            assert_eq!(
                (quota.nominal_quota.0.as_str(), quota.borrowing_limit.as_ref()),
                ("16", Some(&Quantity("0".to_owned())))
            );
            assert!(queue.covers("nvidia.com/gpu") && !queue.covers("nvidia.com/mig-1g.10gb"));
            assert_eq!(
                queue.reserved("nvidia-gpu-flavor", "nvidia.com/gpu"),
                Some(&Quantity("3".to_owned()))
            );
            assert_eq!(queue.reserved("default-flavor", "nvidia.com/gpu"), None);
        }
    }

    #[test]
    fn checks_are_read_where_either_version_has_them() {
        let read = |spec| -> Vec<(String, usize)> {
            let queue: ClusterQueue = serde_json::from_value(json!({"spec": spec})).unwrap();
            queue.checks().map(|(name, flavors)| (name.to_owned(), flavors.len())).collect()
        };
        let strategy = json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}, {"name": "b"}]}});
        assert_eq!(read(strategy), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        assert_eq!(read(json!({"admissionChecks": ["a"]})), [("a".to_owned(), 0)]);
    }
}
