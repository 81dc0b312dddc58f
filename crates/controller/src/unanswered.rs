//! Marks our admission checks as not active, when the operator is stopped for good or told not to answer. A
//! queue whose check says that it is active gives quota to workloads, and these would wait for an answer that never comes.

use api::foreign::AdmissionCheck;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;

use crate::calls::{CallError, Calls, managers};
use crate::own_rights::is_allowed;
use crate::publish::kueue::{self, Unanswered};
use crate::store::Foreign;

/// The same as [`withdraw`] for an operator that was told not to answer. With
/// that, its rights may have gone: it asks for nothing that they do not allow.
///
/// # Errors
/// When it is not known whether there is Kueue, and as for [`withdraw`].
pub async fn withdraw_where_allowed(calls: &Calls, now: Timestamp) -> Result<Vec<String>, CallError> {
    let (group, _, plural, _) = Foreign::AdmissionCheck.names();
    let served = calls.ask("the groups of kinds", calls.client().list_api_groups()).await?;
    if !served.groups.iter().any(|found| found.name == group) {
        return Ok(Vec::new());
    }
    for (verb, subresource) in [("list", None), ("patch", Some("status"))] {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        if is_allowed(calls, managers::KUEUE.name, attributes).await != Some(true) {
            return Ok(Vec::new());
        }
    }
    withdraw(calls, Unanswered::SwitchedOff, now).await
}

/// Says of every check of ours that nobody answers it, and returns the names of
/// those that said otherwise. Without Kueue there are none.
///
/// # Errors
/// When the checks cannot be read, or one cannot be written.
pub async fn withdraw(calls: &Calls, why: Unanswered, now: Timestamp) -> Result<Vec<String>, CallError> {
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
            let Some(condition) = kueue::inactive(&check, why, now) else { continue };
            kueue::say_whether_active(calls, version, &check, &condition).await?;
            withdrawn.push(name);
        }
        return Ok(withdrawn);
    }
    Ok(Vec::new())
}

fn read(object: DynamicObject) -> Option<AdmissionCheck> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}
