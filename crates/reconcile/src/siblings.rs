//! Pods that keep apart from pods like them, where the plan has put two of them on one node.

use std::collections::{BTreeMap, BTreeSet};

use planner::demand::Request;
use planner::names::{NodeName, RequestId};
use planner::report::{Outcome, Report};

/// Requests whose pods may not share the node that is planned for them with a pod like them, which comes first there: who
/// has a promise, then who has waited longer. The planner plans pods one by one, and the scheduler puts one of them there.
pub(crate) fn behind(requests: &[Request], report: &Report) -> BTreeSet<RequestId> {
    let requests: BTreeMap<&RequestId, &Request> =
        requests.iter().filter(|r| !r.keeps_apart.is_empty()).map(|r| (&r.id, r)).collect();
    let mut placed: Vec<(&Request, &NodeName)> = report
        .requests
        .iter()
        .filter_map(|report| match &report.outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
                Some((*requests.get(&report.id)?, node))
            }
            Outcome::Unserved { .. } => None,
        })
        .collect();
    placed.sort_by_key(|(request, node)| {
        (
            request.promised.as_ref() != Some(*node),
            std::cmp::Reverse(request.priority),
            request.since,
            &request.id,
        )
    });
    let mut first = BTreeSet::new();
    let mut behind = BTreeSet::new();
    for (request, node) in placed {
        for rule in &request.keeps_apart {
            if !first.insert((node, &request.id.namespace, rule)) {
                behind.insert(request.id.clone());
            }
        }
    }
    behind
}
