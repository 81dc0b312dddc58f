//! Whether the API server keeps each node agent to the `GpuNode` of its own node. Rights cannot say that; a
//! ValidatingAdmissionPolicy and its binding do, which the chart installs with the agents. The operator reads these two
//! by their name, and no others: it does not see whether a policy of another name does the same.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::Api;
use rollout::names::AGENTS_POLICY;
use serde::de::DeserializeOwned;

use crate::calls::{CallError, Calls};

/// How long an answer is taken to be true: a round that is begun later asks anew.
const TRUE_FOR: Duration = Duration::from_secs(10);

const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// What was seen last.
#[derive(Debug)]
pub(crate) struct Guard {
    looked: Option<Instant>,
    /// Why agents are not kept to their nodes; empty where they are.
    pub(crate) why_not: Option<String>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            looked: None,
            why_not: Some("the operator has not looked for their admission policy yet".to_owned()),
        }
    }
}

impl Guard {
    fn due(&self) -> Option<Instant> {
        self.looked.map(|looked| looked + TRUE_FOR)
    }

    /// Whether to look now: before a round, and at rest only while they are missing, since at rest nothing is acted upon.
    pub(crate) fn is_to_look(&self, is_round_due: bool, now: Instant) -> bool {
        let is_used = is_round_due || self.why_not.is_some();
        is_used && self.due().is_none_or(|at| now >= at)
    }

    /// When to look again although nothing else happens: where reports of agents are there and are not acted upon.
    pub(crate) fn wakes_at(&self, agents_report: impl FnOnce() -> bool) -> Option<Instant> {
        self.due().filter(|_| self.why_not.is_some() && agents_report())
    }

    /// Takes an answer in; says whether it is news. What was seen holds while the API server does not answer, as with
    /// everything else that is known of the cluster.
    pub(crate) fn take(&mut self, answer: Result<Option<String>, CallError>, now: Instant) -> bool {
        self.looked = Some(now);
        let Ok(why_not) = answer else { return false };
        let is_news = self.why_not != why_not;
        self.why_not = why_not;
        is_news
    }
}

/// Why agents are not kept to their nodes, as far as can be seen; nothing where they are.
///
/// # Errors
/// When the API server gives no usable answer. That the operator may not ask is an answer: it does not see them.
pub async fn why_not(calls: &Calls) -> Result<Option<String>, CallError> {
    match missing(calls).await {
        Err(error) if error.is_forbidden() => {
            Ok(Some(format!("the operator's account may not get the {}", error.what().object)))
        }
        answer => answer,
    }
}

/// The same for whoever only wants to know what the operator sees, and may not ask himself.
///
/// # Errors
/// When the API server gives no usable answer, or refuses one.
pub async fn missing(calls: &Calls) -> Result<Option<String>, CallError> {
    let policy: ValidatingAdmissionPolicy = match get(calls, POLICY).await? {
        Ok(found) => found,
        Err(why_not) => return Ok(Some(why_not)),
    };
    let binding: ValidatingAdmissionPolicyBinding = match get(calls, BINDING).await? {
        Ok(found) => found,
        Err(why_not) => return Ok(Some(why_not)),
    };
    Ok(without_effect(&policy, &binding))
}

async fn get<K>(calls: &Calls, kind: &str) -> Result<Result<K, String>, CallError>
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::all(calls.client());
    match calls.get(&api, &format!("{kind} {AGENTS_POLICY}"), AGENTS_POLICY).await {
        Ok(Some(found)) => Ok(Ok(found)),
        Ok(None) => Ok(Err(format!("the {kind} {AGENTS_POLICY} does not exist"))),
        Err(error) => Err(error),
    }
}

/// Why the two refuse nothing, although they are there.
fn without_effect(
    policy: &ValidatingAdmissionPolicy,
    binding: &ValidatingAdmissionPolicyBinding,
) -> Option<String> {
    let spec = binding.spec.as_ref();
    let named = spec.and_then(|spec| spec.policy_name.as_deref());
    let actions = spec.and_then(|spec| spec.validation_actions.as_deref()).unwrap_or_default();
    let validates =
        policy.spec.as_ref().is_some_and(|spec| spec.validations.as_ref().is_some_and(|all| !all.is_empty()));
    if named != Some(AGENTS_POLICY) {
        Some(format!("the {BINDING} {AGENTS_POLICY} is for another policy"))
    } else if !actions.iter().any(|action| action == "Deny") {
        Some(format!("the {BINDING} {AGENTS_POLICY} does not deny anything (`validationActions`)"))
    } else if !validates {
        Some(format!("the {POLICY} {AGENTS_POLICY} validates nothing"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn refused() -> CallError {
        let what = crate::calls::What { verb: crate::calls::Verb::Get, object: "it".to_owned() };
        CallError::NoAnswer { what, after: Duration::from_secs(1) }
    }

    #[test]
    fn nothing_is_believed_before_the_first_answer_and_what_was_seen_holds_while_there_is_none() {
        let now = clock::instant();
        let mut guard = Guard::default();
        assert!(guard.why_not.is_some() && guard.due().is_none());
        assert!(!guard.take(Err(refused()), now));
        assert!(guard.why_not.is_some(), "no answer is no reason to believe anybody");
        assert!(guard.take(Ok(None), now));
        assert!(!guard.take(Err(refused()), now) && guard.why_not.is_none());
        assert!(guard.take(Ok(Some("it does not exist".to_owned())), now) && guard.why_not.is_some());
        assert_eq!(guard.due(), Some(now + TRUE_FOR));
    }

    #[test]
    fn it_is_looked_for_before_a_round_and_at_rest_only_while_it_is_missing_and_every_ten_seconds_at_most() {
        let now = clock::instant();
        let mut guard = Guard::default();
        assert!(guard.is_to_look(false, now), "nobody has looked yet");
        assert_eq!(guard.wakes_at(|| true), None, "the first look comes with whatever comes first");
        guard.take(Ok(Some("it does not exist".to_owned())), now);
        assert_eq!(guard.wakes_at(|| true), Some(now + TRUE_FOR));
        assert_eq!(guard.wakes_at(|| false), None, "no agent has reported");
        let almost = now + TRUE_FOR - Duration::from_millis(1);
        assert!(!guard.is_to_look(true, almost) && !guard.is_to_look(false, almost));
        assert!(guard.is_to_look(false, now + TRUE_FOR));
        guard.take(Ok(None), now);
        assert_eq!(guard.wakes_at(|| true), None, "at rest nobody looks");
        assert!(!guard.is_to_look(false, now + TRUE_FOR));
        assert!(!guard.is_to_look(true, almost));
        assert!(guard.is_to_look(true, now + TRUE_FOR), "a round may act upon a report");
    }
}
