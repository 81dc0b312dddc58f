//! What every status of ours keeps, whatever it says, and that all judges
//! understand the same.

use std::fmt;

use serde_json::Value;

use crate::argocd::Script;
use crate::flux::Expressions;
use crate::kstatus::{self, Verdict, is_behind};
use crate::{conditions, root, text};

/// The conditions that are there only while they hold.
const ABNORMAL: &[&str] = &["Reconciling", "Stalled", "Degraded"];
/// The conditions of a policy that are always there once somebody looked.
const OF_POLICIES: &[&str] = &["Accepted", "Planned", "Ready"];
/// The condition of everything else.
const OF_OTHERS: &[&str] = &["Ready"];

/// What users are given for Flux and Argo CD.
#[derive(Clone, Debug)]
pub struct Judges {
    /// The gate of the Kustomization: the policy is accepted.
    pub flux: Expressions,
    /// The health script.
    pub argocd: Script,
}

/// The Kustomization of policies that users start from.
pub const KUSTOMIZATION: &str = "examples/gitops/flux/policies.yaml";
/// The folder that Argo CD's repository takes as it is.
pub const CUSTOMIZATION: &str = "deploy/argocd/resource_customizations/slicewright.io/GpuPartitionPolicy";

impl Judges {
    /// Those of this repository.
    ///
    /// # Panics
    /// When a file is not there or makes no sense: a test that needs it fails.
    #[must_use]
    pub fn shipped() -> Self {
        let read = |path: String| {
            std::fs::read_to_string(root().join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&read(KUSTOMIZATION.to_owned())).expect("the Kustomization is YAML");
        let kustomization = documents.iter().find(|document| document["kind"] == "Kustomization");
        let kustomization = kustomization.expect("the file has a Kustomization");
        Self {
            flux: Expressions::from_kustomization(kustomization, "GpuPartitionPolicy")
                .unwrap_or_else(|error| panic!("{error}")),
            argocd: Script::new(read(format!("{CUSTOMIZATION}/health.lua"))),
        }
    }
}

/// One thing that is wrong with a status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The verdict of kstatus on one of our objects, and everything in which its
/// status breaks the contract or the judges disagree.
#[must_use]
pub fn judged(judges: &Judges, object: &Value) -> (Verdict, Vec<Problem>) {
    let verdict = kstatus::verdict(object);
    let mut problems = form(object);
    if verdict == Verdict::Current {
        problems.extend(done(object));
    }
    if text(object, "/kind") == "GpuPartitionPolicy" && verdict != Verdict::Terminating {
        problems.extend(agreement(judges, object, verdict));
    }
    (verdict, problems.into_iter().map(Problem).collect())
}

/// The condition of a type.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).find(|condition| text(condition, "/type") == kind)
}

fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "/status") == "True")
}

/// Whether nobody has looked at the object yet: its status is the default
/// that the CRD gives it.
fn is_untouched(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| {
        text(ready, "/reason") == "Pending" && text(ready, "/lastTransitionTime").starts_with("1970-")
    })
}

/// The form of a status.
fn form(object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let policy = text(object, "/kind") == "GpuPartitionPolicy";
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if is_untouched(object) {
        if kstatus::verdict(object) != Verdict::InProgress {
            problems.push("a new object does not read as on its way".to_owned());
        }
        return problems;
    }
    if observed.is_none() && policy {
        problems.push("status.observedGeneration is missing".to_owned());
    }
    let always = if policy { OF_POLICIES } else { OF_OTHERS };
    for kind in always {
        if condition(object, kind).is_none() {
            problems.push(format!("there is no condition {kind}"));
        }
    }
    let mut seen = Vec::new();
    for one in conditions(object) {
        let (kind, status, reason) = (text(one, "/type"), text(one, "/status"), text(one, "/reason"));
        if seen.contains(&kind) {
            problems.push(format!("{kind} is there twice"));
        }
        seen.push(kind);
        if !ABNORMAL.contains(&kind) && !always.contains(&kind) {
            problems.push(format!("{kind} is none of the conditions that we have"));
        }
        if ABNORMAL.contains(&kind) && status != "True" {
            problems.push(format!("{kind} is there though it is {status}"));
        }
        let first = reason.chars().next();
        if !first.is_some_and(char::is_uppercase) || !reason.chars().all(char::is_alphanumeric) {
            problems.push(format!("{kind} has the reason {reason:?}, which is no word in CamelCase"));
        }
        if text(one, "/message").is_empty() {
            problems.push(format!("{kind} has no message"));
        }
        if policy && one.pointer("/observedGeneration").and_then(Value::as_i64) != observed {
            problems.push(format!("{kind} is not about the generation that the status is about"));
        }
    }
    // Which of the two comes first in the list would decide what kstatus says.
    if holds(object, "Reconciling") && holds(object, "Stalled") {
        problems.push("it is Reconciling and Stalled at once".to_owned());
    }
    problems
}

/// What has to be true of whatever kstatus calls done.
fn done(object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if !holds(object, "Ready") {
        problems.push("it reads as done and is not Ready".to_owned());
    }
    if text(object, "/kind") == "GpuPartitionPolicy" && !holds(object, "Accepted") {
        problems.push("it reads as done and is not Accepted".to_owned());
    }
    for count in ["waiting", "changing", "failed"] {
        let nodes = object.pointer(&format!("/status/nodes/{count}")).and_then(Value::as_i64).unwrap_or(0);
        if nodes > 0 {
            problems.push(format!("it reads as done while {nodes} of its nodes are {count}"));
        }
    }
    problems
}

/// Whether Flux's gate and Argo CD's script understand it as kstatus does.
fn agreement(judges: &Judges, object: &Value, verdict: Verdict) -> Vec<String> {
    let mut problems = Vec::new();
    match judges.argocd.health(object) {
        Ok(health) => {
            let same = match health.status.as_str() {
                "Healthy" => verdict == Verdict::Current,
                "Degraded" => verdict == Verdict::Failed,
                _ => verdict == Verdict::InProgress,
            };
            if !same {
                problems.push(format!("kstatus says {verdict:?}, and Argo CD {}", health.status));
            }
            if health.message.is_empty() {
                problems.push("Argo CD says no reason".to_owned());
            }
        }
        Err(error) => problems.push(format!("Argo CD: {error}")),
    }
    let behind = is_behind(object) || is_untouched(object);
    let gate = if behind {
        Verdict::InProgress
    } else if holds(object, "Stalled") {
        Verdict::Failed
    } else if holds(object, "Accepted") {
        Verdict::Current
    } else {
        Verdict::InProgress
    };
    match judges.flux.verdict(object) {
        Ok(said) if said != gate => problems.push(format!("Flux's gate says {said:?} instead of {gate:?}")),
        Ok(said) if verdict == Verdict::Current && said != Verdict::Current => {
            problems.push("it is done and not through Flux's gate".to_owned());
        }
        Ok(_) => {}
        Err(error) => problems.push(format!("Flux: {error}")),
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "so it is",
               "observedGeneration": 1, "lastTransitionTime": "2026-11-20T08:00:00Z"})
    }

    fn policy(conditions: &[Value]) -> Value {
        json!({"kind": "GpuPartitionPolicy", "metadata": {"generation": 1},
               "status": {"observedGeneration": 1, "conditions": conditions}})
    }

    fn good() -> Value {
        policy(&[
            condition("Accepted", "True", "Valid"),
            condition("Planned", "True", "DemandServed"),
            condition("Ready", "True", "Converged"),
        ])
    }

    #[track_caller]
    fn check(at: &str, value: Value, expected: &[&str]) {
        let mut object = good();
        let (parent, field) = at.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match (parent.as_array_mut(), field) {
            (Some(list), "-") => list.push(value),
            (Some(list), index) => list[index.parse::<usize>().unwrap()] = value,
            (None, field) => parent[field] = value,
        }
        let (_, problems) = judged(&Judges::shipped(), &object);
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_status_that_breaks_the_contract_is_caught() {
        assert_eq!(judged(&Judges::shipped(), &good()), (Verdict::Current, Vec::new()));
        let conditions = "/status/conditions/-";
        check(
            conditions,
            condition("Stalled", "False", "Converged"),
            &["Stalled is there though it is False"],
        );
        check(
            conditions,
            condition("Mood", "True", "Good"),
            &["Mood is none of the conditions that we have"],
        );
        check(
            conditions,
            condition("Degraded", "True", "bound unmet"),
            &["Degraded has the reason \"bound unmet\", which is no word in CamelCase"],
        );
        check(
            "/status/conditions/1",
            condition("Ready", "True", "Converged"),
            &["there is no condition Planned", "Ready is there twice"],
        );
        check(
            "/status/conditions/0",
            condition("Accepted", "False", "NoNodes"),
            &["it reads as done and is not Accepted", "it is done and not through Flux's gate"],
        );
        check(
            "/status/nodes",
            json!({"changing": 2}),
            &["it reads as done while 2 of its nodes are changing"],
        );
        let mut both = good();
        for kind in ["Stalled", "Reconciling"] {
            both["status"]["conditions"].as_array_mut().unwrap().push(condition(kind, "True", "Waiting"));
        }
        let (verdict, problems) = judged(&Judges::shipped(), &both);
        assert_eq!(verdict, Verdict::Failed);
        assert_eq!(problems, [Problem("it is Reconciling and Stalled at once".to_owned())]);
    }

    #[test]
    fn a_status_about_an_older_spec_is_on_its_way_for_all() {
        let mut object = good();
        object["metadata"]["generation"] = json!(2);
        assert_eq!(judged(&Judges::shipped(), &object), (Verdict::InProgress, Vec::new()));
    }
}
