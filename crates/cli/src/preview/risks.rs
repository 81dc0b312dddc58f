//! Risks and existing problems: the part of a preview that is read first.

use observe::problem::Severity;
use planner::decide::Decision;
use reconcile::answers::plural;
use serde::Serialize;

use super::compare::Compared;
use super::{is_applied, selects_nothing};
use crate::question::Question;

/// One thing that can go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// `violation`, `blocked`, `eviction`, `loss`, `wait`, `warning` or `note`.
    pub kind: &'static str,
    /// One sentence.
    pub message: String,
}

/// The risks of a decision, the worst first.
pub(super) fn risks(question: &Question, decision: &Decision, compared: Option<&Compared>) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut risk = |kind, message: String| risks.push(Risk { kind, message });
    for report in &decision.report.policies {
        let policy = &report.policy;
        for unmet in &report.unmet {
            risk("violation", format!("policy {policy}: {unmet}"));
        }
        for unknown in report.unknown_profiles.iter().filter(|unknown| unknown.everywhere) {
            let (profile, models) = (unknown.profile, unknown.lacking.join(", "));
            risk("violation", format!("policy {policy}: none of its models has {profile} ({models})"));
        }
        if report.nodes.is_empty() {
            risk("blocked", format!("policy {policy}: {}", selects_nothing::why(question, report)));
        }
    }
    for step in decision.plan.steps.iter().filter(|step| !step.evicts.is_empty()) {
        let pods: Vec<String> = step.evicts.iter().map(ToString::to_string).collect();
        let evicted = plural(pods.len(), "pod");
        if !is_applied(question, &step.policy) {
            let (node, policy, pods) = (&step.node, &step.policy, pods.join(", "));
            let message = format!(
                "{node}: {evicted} would be evicted, if policy {policy} were in mode Enforce: {pods}"
            );
            risk("warning", message);
            continue;
        }
        let are = if pods.len() == 1 { "is" } else { "are" };
        risk("eviction", format!("{}: {evicted} {are} evicted: {}", step.node, pods.join(", ")));
    }
    if let Some(compared) = compared {
        for change in &compared.modes {
            risk("warning", change.message());
        }
        for lost in &compared.lose {
            risk("loss", format!("{lost} is served under the previous policies, but not under the new ones"));
        }
        for waits in &compared.wait {
            risk(
                "wait",
                format!(
                    "{waits} is served with existing slices under the previous policies, but has to wait for a change under the new ones"
                ),
            );
        }
        for left in compared.nodes.iter().filter(|node| node.after.is_none()) {
            let before = left.before.as_ref().map(ToString::to_string).unwrap_or_default();
            risk(
                "warning",
                format!(
                    "{} has no policy any more (before: {before}): it keeps its layout, and is not changed",
                    left.node
                ),
            );
        }
    }
    let frozen = &decision.report.frozen_in_doubt;
    if !frozen.is_empty() {
        let message = match frozen.len() {
            1 => "1 GPU is not changed only because it is not known which of its slices pods hold".to_owned(),
            n => format!(
                "{n} GPUs are not changed only because it is not known which of their slices pods hold"
            ),
        };
        risk("note", message);
    }
    for problem in &question.problems {
        let kind = if problem.severity == Severity::Note { "note" } else { "warning" };
        risk(kind, problem.to_string());
    }
    risks
}
