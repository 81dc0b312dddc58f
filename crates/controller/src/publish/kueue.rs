//! The parts of Kueue's objects that we write: the entry of our check in the status of a workload, and
//! whether a check is active. No other part is ours.

use std::collections::BTreeSet;

use api::foreign::AdmissionCheck;
use api::foreign::Workload;
use api::foreign::workload::AdmissionCheckState;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use reconcile::CheckAnswer;
use reconcile::admission::gist;
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

/// Whether a check says something else of a workload than it should. A time
/// that moves is no news.
#[must_use]
pub fn is_news(now: &Workload, answer: &CheckAnswer) -> bool {
    now.check(&answer.check)
        .is_some_and(|check| check.state != answer.state.name() || gist(&check.message) != answer.gist)
}

/// Says of a workload what our checks say, if the workload still is what
/// that was decided on. `ours` are the names of all checks of ours: what is said already by those without news is said
/// again as it is. All of it is one field manager's, and what that leaves out of a later text is taken from the workload:
/// the API server refuses an entry that is left without its state.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn answer(
    calls: &Calls,
    version: &str,
    now: &Workload,
    answers: &[CheckAnswer],
    ours: &BTreeSet<&str>,
    at: Timestamp,
) -> Result<Subject, CallError> {
    let kind = resource(Foreign::Workload, version);
    let key =
        (now.metadata.namespace.clone().unwrap_or_default(), now.metadata.name.clone().unwrap_or_default());
    let (namespace, name) = &key;
    let api: Api<DynamicObject> = Api::namespaced_with(calls.client(), namespace, &kind);
    let body = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": now.metadata.resource_version},
        "status": {"admissionChecks": entries(now, answers, ours, at)},
    });
    let title = format!("Workload {namespace}/{name}");
    let written = calls.apply(&api, &title, &managers::KUEUE, Target::Status, name, &body).await?;
    Ok(Subject::Version {
        source: Source::Foreign(Foreign::Workload),
        key,
        version: written.metadata.resource_version.unwrap_or_default(),
    })
}

/// The entries of our checks, in their order.
fn entries(now: &Workload, answers: &[CheckAnswer], ours: &BTreeSet<&str>, at: Timestamp) -> Vec<Value> {
    let there = now.status.admission_checks.iter();
    there
        .filter_map(|check| match answers.iter().find(|answer| answer.check == check.name) {
            Some(answer) => Some(entry(now, answer, at)),
            None => ours.contains(check.name.as_str()).then(|| as_it_is(check)),
        })
        .collect()
}

/// An entry without news. What Kueue counts in it is Kueue's.
fn as_it_is(check: &AdmissionCheckState) -> Value {
    json!(AdmissionCheckState { retry_count: None, ..check.clone() })
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
    condition(check, (status, reason, message), at)
}

/// Why nobody answers a check of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The operator is stopped for good.
    Stopped,
    /// It runs, and was told not to answer.
    SwitchedOff,
}

/// The condition of a check of ours that nobody answers any more, if it says
/// something else.
#[must_use]
pub fn inactive(check: &AdmissionCheck, why: Unanswered, at: Timestamp) -> Option<Condition> {
    let (reason, message) = match why {
        Unanswered::Stopped => (
            "OperatorStopped",
            "Slicewright is stopped, and nobody answers this check: take it off the queues that name it \
             (spec.admissionChecksStrategy of the ClusterQueue), or start the operator with --kueue=admission-check",
        ),
        Unanswered::SwitchedOff => (
            "SwitchedOff",
            "Slicewright runs without --kueue=admission-check, and nobody answers this check: take it off the queues \
             that name it (spec.admissionChecksStrategy of the ClusterQueue), or set --kueue=admission-check",
        ),
    };
    condition(check, ("False", reason, message), at)
}

/// A condition of a check, if it is not there yet.
fn condition(
    check: &AdmissionCheck,
    (status, reason, message): (&str, &str, &str),
    at: Timestamp,
) -> Option<Condition> {
    let before = check.status.conditions.iter().find(|condition| condition.type_ == ACTIVE);
    let generation = check.metadata.generation;
    let same = |before: &&Condition| {
        before.status == status
            && before.reason == reason
            && before.message == message
            && before.observed_generation == generation
    };
    if before.is_some_and(|before| same(&before)) {
        return None;
    }
    let since =
        before.filter(|before| before.status == status).map_or(at, |before| before.last_transition_time.0);
    Some(Condition {
        type_: ACTIVE.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since),
    })
}

/// Says whether a check is answered, and if not, why.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn say_whether_active(
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

#[cfg(test)]
mod tests {
    use reconcile::CheckState;

    use super::*;

    fn pending(message: &str) -> Workload {
        let mut workload = Workload::default();
        workload.status.admission_checks.push(AdmissionCheckState {
            name: "gpu-slices".to_owned(),
            state: "Pending".to_owned(),
            message: message.to_owned(),
            ..AdmissionCheckState::default()
        });
        workload
    }

    fn comes(message: &str) -> CheckAnswer {
        CheckAnswer {
            workload: ("team".to_owned(), "lab".to_owned()),
            check: "gpu-slices".to_owned(),
            state: CheckState::Pending,
            message: message.to_owned(),
            gist: gist(message).to_owned(),
            updates: Vec::new(),
            retry_after: None,
        }
    }

    #[test]
    fn an_estimate_that_moves_is_no_news_and_another_sentence_or_state_is() {
        let told = pending("1g.10gb will be ready on a1, at about 22:05");
        assert!(!is_news(&told, &comes("1g.10gb will be ready on a1, at about 22:09")));
        assert!(is_news(&told, &comes("1g.10gb will be ready on a2, at about 22:05")));
        let ready = CheckAnswer { state: CheckState::Ready, ..comes("1g.10gb will be ready on a1") };
        assert!(is_news(&told, &ready));
        // A check that was taken off the queue is said nothing of.
        assert!(!is_news(&Workload::default(), &ready));
    }

    #[test]
    fn the_time_of_an_entry_moves_with_its_state_alone() {
        let mut told = pending("");
        let since: Timestamp = "2026-11-24T10:00:00Z".parse().unwrap();
        told.status.admission_checks[0].last_transition_time =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
        let later: Timestamp = "2026-11-24T11:00:00Z".parse().unwrap();
        assert_eq!(entry(&told, &comes("x"), later)["lastTransitionTime"], "2026-11-24T10:00:00Z");
        let retry = CheckAnswer { state: CheckState::Retry, retry_after: Some(30), ..comes("x") };
        let entry = entry(&told, &retry, later);
        assert_eq!(
            (&entry["lastTransitionTime"], &entry["requeueAfterSeconds"]),
            (&json!("2026-11-24T11:00:00Z"), &json!(30))
        );
    }

    #[test]
    fn a_check_is_active_unless_it_has_parameters_and_that_is_said_once() {
        let now = Timestamp::UNIX_EPOCH;
        let mut check = AdmissionCheck::default();
        let condition = active(&check, now).unwrap();
        assert_eq!(condition.status, "True");
        check.status.conditions.push(condition);
        assert_eq!(active(&check, now), None);
        check.spec.parameters = Some(json!({"kind": "ConfigMap", "name": "x", "apiGroup": ""}));
        let refused = active(&check, now).unwrap();
        assert_eq!((refused.status.as_str(), refused.reason.as_str()), ("False", "ParametersNotSupported"));
    }

    #[test]
    fn a_check_that_nobody_answers_says_what_to_do_and_is_active_again_with_the_operator() {
        let now = Timestamp::UNIX_EPOCH;
        let mut check = AdmissionCheck::default();
        check.status.conditions.extend(active(&check, now));
        for (why, reason) in
            [(Unanswered::Stopped, "OperatorStopped"), (Unanswered::SwitchedOff, "SwitchedOff")]
        {
            let silent = inactive(&check, why, now).unwrap();
            assert_eq!((silent.status.as_str(), silent.reason.as_str()), ("False", reason));
            assert!(silent.message.contains("take it off the queues"), "{}", silent.message);
            check.status.conditions = vec![silent];
            assert_eq!(inactive(&check, why, now), None, "it is said once");
            assert_eq!(active(&check, now).map(|condition| condition.status).as_deref(), Some("True"));
        }
    }
}
