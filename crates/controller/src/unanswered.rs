//! Takes back that our admission checks are answered, when the operator is stopped for good. A queue whose check
//! says that it is active gives quota to workloads, and these would wait for an answer that never comes.

use api::foreign::AdmissionCheck;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;

use crate::calls::{CallError, Calls};
use crate::publish::kueue;
use crate::store::Foreign;

/// Says of every check of ours that nobody answers it, and returns the names of
/// those that said otherwise. Without Kueue there are none.
///
/// # Errors
/// When the checks cannot be read, or one cannot be written.
pub async fn withdraw(calls: &Calls, now: Timestamp) -> Result<Vec<String>, CallError> {
    let (group, kind, plural, versions) = Foreign::AdmissionCheck.names();
    for version in versions {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::all_with(calls.client(), &resource);
        let found = match calls.list(&api, plural, &ListParams::default()).await {
            // This version is not served.
            Err(error) if error.is_not_found() => continue,
            found => found?,
        };
        let mut withdrawn = Vec::new();
        for object in found {
            let name = object.name_any();
            // One that nobody can read is none of ours.
            let Some(check) = read(object).filter(AdmissionCheck::is_ours) else { continue };
            let Some(condition) = kueue::inactive(&check, now) else { continue };
            kueue::say_active(calls, version, &check, &condition).await?;
            withdrawn.push(name);
        }
        return Ok(withdrawn);
    }
    Ok(Vec::new())
}

fn read(object: DynamicObject) -> Option<AdmissionCheck> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}
