//! What is written of Kueue: the entry of our check in the status of a
//! workload, and whether a check is active. Nothing else of Kueue's objects is
//! ours.

use api::foreign::AdmissionCheck;
use api::foreign::Workload;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use reconcile::CheckAnswer;
use serde_json::{Value, json};

use crate::calls::{CallError, Calls, Target, managers};
use crate::store::awaited::Subject;
use crate::store::{Foreign, Source};

/// The group of Kueue's kinds.
const GROUP: &str = "kueue.x-k8s.io";
/// The condition that says whether somebody answers a check. A queue whose
/// check nobody answers admits nothing.
const ACTIVE: &str = "Active";
/// How long a message of a check may be, as the API server wants it.
const LONGEST_MESSAGE: usize = 32 << 10;

/// A kind of Kueue, in the version that is served here.
fn resource(foreign: Foreign, version: &str) -> ApiResource {
    let (_, kind, plural, _) = foreign.names();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
}

/// Says of a workload what a check of ours says, if the workload still is what
/// that was decided on.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn answer(
    calls: &Calls,
    version: &str,
    now: &Workload,
    answer: &CheckAnswer,
    at: Timestamp,
) -> Result<Subject, CallError> {
    let kind = resource(Foreign::Workload, version);
    let (namespace, name) = &answer.workload;
    let api: Api<DynamicObject> = Api::namespaced_with(calls.client(), namespace, &kind);
    let body = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": now.metadata.resource_version},
        "status": {"admissionChecks": [entry(now, answer, at)]},
    });
    let title = format!("Workload {namespace}/{name}");
    let written = calls.apply(&api, &title, &managers::KUEUE, Target::Status, name, &body).await?;
    Ok(Subject::Version {
        source: Source::Foreign(Foreign::Workload),
        key: answer.workload.clone(),
        version: written.metadata.resource_version.unwrap_or_default(),
    })
}

/// The entry of a check. Its time moves when its state does.
fn entry(now: &Workload, answer: &CheckAnswer, at: Timestamp) -> Value {
    let before = now.check(&answer.check).filter(|check| check.state == answer.state.name());
    let since = before.and_then(|check| check.last_transition_time.as_ref()).map_or(at, |time| time.0);
    let mut entry = json!({
        "name": answer.check,
        "state": answer.state.name(),
        "message": crate::store::bounds::cut(answer.message.clone(), LONGEST_MESSAGE - '…'.len_utf8()),
        "lastTransitionTime": format!("{since:.0}"),
    });
    if !answer.updates.is_empty() {
        entry["podSetUpdates"] = json!(answer.updates);
    }
    if let Some(seconds) = answer.retry_after {
        entry["requeueAfterSeconds"] = json!(seconds);
    }
    entry
}

/// What the condition of a check of ours should be, if it is not.
#[must_use]
pub fn active(check: &AdmissionCheck, at: Timestamp) -> Option<Condition> {
    let (status, reason, message) = match &check.spec.parameters {
        None => ("True", "Active", "Slicewright answers this check"),
        Some(_) => (
            "False",
            "ParametersNotSupported",
            "spec.parameters: this check takes no parameters; make a check without them, since they cannot be changed",
        ),
    };
    let before = check.status.conditions.iter().find(|condition| condition.type_ == ACTIVE);
    let generation = check.metadata.generation;
    let same = |before: &&Condition| {
        before.status == status && before.reason == reason && before.message == message
            && before.observed_generation == generation
    };
    if before.is_some_and(|before| same(&before)) {
        return None;
    }
    let since = before.filter(|before| before.status == status).map_or(at, |before| before.last_transition_time.0);
    Some(Condition {
        type_: ACTIVE.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since),
    })
}

/// Says that a check is answered, or why not.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn say_active(
    calls: &Calls,
    version: &str,
    now: &AdmissionCheck,
    condition: &Condition,
) -> Result<Subject, CallError> {
    let kind = resource(Foreign::AdmissionCheck, version);
    let name = now.metadata.name.clone().unwrap_or_default();
    let api: Api<DynamicObject> = Api::all_with(calls.client(), &kind);
    let body = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name, "resourceVersion": now.metadata.resource_version},
        "status": {"conditions": [condition]},
    });
    let title = format!("AdmissionCheck {name}");
    let written = calls.apply(&api, &title, &managers::KUEUE, Target::Status, &name, &body).await?;
    Ok(Subject::Version {
        source: Source::Foreign(Foreign::AdmissionCheck),
        key: (String::new(), name),
        version: written.metadata.resource_version.unwrap_or_default(),
    })
}
