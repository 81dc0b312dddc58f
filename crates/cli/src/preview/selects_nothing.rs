//! Why a policy has no node, as far as labels tell.

use std::collections::BTreeSet;

use planner::demand::{Expression, Operator};
use planner::policy::Policy;
use planner::report::PolicyReport;
use planner::selector;

use crate::question::Question;

/// Values of a label that are named at most; more do not help to see a misspelt one.
const MOST: usize = 6;

/// One sentence that goes on from the name of the policy.
pub(super) fn why(question: &Question, report: &PolicyReport) -> String {
    if let Some((node, winner)) = report.lost.first() {
        return format!(
            "every node that it selects belongs to a policy of higher priority (or earlier name), such as {node} to {winner}"
        );
    }
    let none = "its nodeSelector selects no node with GPUs that can be partitioned";
    let policy = question.seen.policies.iter().find(|policy| policy.name == report.policy);
    match policy.and_then(|policy| unmatched(question, policy)) {
        Some(why) => format!("{none}: {why}"),
        None => none.to_owned(),
    }
}

fn unmatched(question: &Question, policy: &Policy) -> Option<String> {
    let nodes = &question.snapshot.objects.nodes;
    if nodes.is_empty() {
        return Some("the fleet has no node".to_owned());
    }
    let labels = || nodes.values().map(|node| node.metadata.labels.clone().unwrap_or_default());
    let alone = |expression: &&Expression| {
        labels().any(|labels| selector::matches(std::slice::from_ref(*expression), &labels))
    };
    let expression = policy.nodes.iter().find(|expression| !alone(expression))?;
    let Expression { key, operator, values } = expression;
    let there: BTreeSet<String> = labels().filter_map(|mut labels| labels.remove(key)).collect();
    if there.is_empty() {
        return Some(format!("no node has the label {key}"));
    }
    let wanted = match operator {
        Operator::In => values.join(" or "),
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist | Operator::Gt | Operator::Lt => {
            return Some(format!("no node fulfils its condition on {key}"));
        }
    };
    let mut listed: Vec<&str> = there.iter().map(String::as_str).take(MOST).collect();
    if there.len() > MOST {
        listed.push("...");
    }
    Some(format!("no node has {key}={wanted}; the values there are: {}", listed.join(", ")))
}
