//! Pods of one workload in a queue that keep apart from each other. The planner plans pods one by one, and may plan two
//! of them for one node. Of other pods one is bound or promised a slice then, and the others are planned elsewhere in the
//! next round. These start together or not at all, so that no such round would come: they are planned apart at once.

use std::collections::BTreeMap;

use observe::ClusterView;
use observe::objects::Key;
use planner::demand::Apart;
use planner::names::{NodeName, RequestId};
use planner::report::{Outcome, Report};

use crate::siblings::behind;

/// How many plans are made for it in one round. Each finds a node for one more pod of each workload; of a workload with
/// more pods that keep apart, the others wait.
pub(crate) const MOST_PLANS: usize = 8;

/// Keeps pods off nodes that are planned for another pod of their own workload, which comes first there. Says whether
/// there are such pods: then another plan is needed.
pub(crate) fn keep_apart(view: &mut ClusterView, report: &Report) -> bool {
    let behind = behind(&view.requests, report);
    if behind.is_empty() {
        return false;
    }
    let of: BTreeMap<&RequestId, &Key> = view
        .queued
        .iter()
        .flat_map(|(key, workload)| {
            workload.sets.iter().flat_map(move |set| set.requests.iter().map(move |id| (id, key)))
        })
        .collect();
    let planned: Vec<(&RequestId, &NodeName)> = report
        .requests
        .iter()
        .filter_map(|report| match &report.outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some((&report.id, node)),
            Outcome::Unserved { .. } => None,
        })
        .collect();
    let first: Vec<(&Key, &NodeName)> = planned
        .iter()
        .filter(|(id, _)| !behind.contains(*id))
        .filter_map(|(id, node)| Some((*of.get(*id)?, *node)))
        .collect();
    let off: BTreeMap<RequestId, NodeName> = planned
        .iter()
        .filter(|(id, node)| {
            behind.contains(*id) && of.get(*id).is_some_and(|of| first.contains(&(*of, *node)))
        })
        .map(|(id, node)| ((*id).clone(), (*node).clone()))
        .collect();
    for request in &mut view.requests {
        if let Some(node) = off.get(&request.id) {
            let rule = Apart::AntiAffinity { topology: None };
            request.constraints.kept_off.insert(node.clone(), rule);
        }
    }
    !off.is_empty()
}
