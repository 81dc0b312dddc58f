//! The statuses of policies.

use api::{GpuPartitionPolicy, GpuPartitionPolicyStatus};
use kube::api::Api;
use serde_json::json;

use crate::calls::{CallError, Calls, Target, managers};
use crate::store::Source;
use crate::store::awaited::Subject;

/// Makes the status of a policy what it should be. Nothing is written when it is.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn write(
    calls: &Calls,
    now: &GpuPartitionPolicy,
    wanted: &GpuPartitionPolicyStatus,
) -> Result<Option<Subject>, CallError> {
    if now.status.as_ref() == Some(wanted) {
        return Ok(None);
    }
    let api: Api<GpuPartitionPolicy> = Api::all(calls.client());
    let name = now.metadata.name.clone().unwrap_or_default();
    let body = json!({
        "apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy",
        "metadata": {"name": name, "resourceVersion": now.metadata.resource_version},
        "status": wanted,
    });
    let title = format!("GpuPartitionPolicy {name}");
    let written: GpuPartitionPolicy =
        calls.apply(&api, &title, &managers::STATUS, Target::Status, &name, &body).await?;
    Ok(Some(Subject::Version {
        source: Source::Policies,
        key: (String::new(), name),
        version: written.metadata.resource_version.unwrap_or_default(),
    }))
}
