//! Pods of one workload in a queue that keep apart from each other. The planner plans pods one by one, and may plan two
//! of them for one node. Of other pods one is bound or promised a slice then, and the others are planned elsewhere in the
//! next round. These start together or not at all, so that no such round would come: they are planned apart at once.

use std::collections::{BTreeMap, BTreeSet};

use observe::ClusterView;
use observe::apart;
use observe::objects::Key;
use planner::demand::{Apart, Request};
use planner::names::{NodeName, RequestId};
use planner::report::{Outcome, Report};

use crate::siblings::{behind, part_of};

/// How many plans are made for it in one round. Each finds a node for one more pod of each workload; of a workload with
/// more pods that keep apart, the others wait.
pub(crate) const MOST_PLANS: usize = 8;

/// Keeps pods off nodes that are planned for another pod of their own workload, which comes first there. Says whether
/// there are such pods: then another plan is needed.
pub(crate) fn keep_apart(view: &mut ClusterView, report: &Report) -> bool {
    let behind = behind(&view.requests, report, &view.inventory);
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
    let asks: BTreeMap<&RequestId, &Request> = view.requests.iter().map(|r| (&r.id, r)).collect();
    // The workload, the rule, and the part of the cluster that one of its pods has by it.
    let parts = |id: &RequestId, node: &NodeName| -> Vec<(Key, String, String)> {
        let (Some(of), Some(request)) = (of.get(id), asks.get(id)) else { return Vec::new() };
        let part = |(rule, label): (&String, &String)| {
            Some(((*of).clone(), rule.clone(), part_of(&view.inventory, node, label)?.to_owned()))
        };
        request.keeps_apart.iter().filter_map(part).collect()
    };
    let first: BTreeSet<(Key, String, String)> = planned
        .iter()
        .filter(|(id, _)| !behind.contains(*id))
        .flat_map(|(id, node)| parts(id, node))
        .collect();
    let is_theirs = |id: &RequestId, node: &NodeName| parts(id, node).iter().any(|part| first.contains(part));
    let off: BTreeMap<RequestId, NodeName> = planned
        .iter()
        .filter(|(id, node)| behind.contains(*id) && is_theirs(id, node))
        .map(|(id, node)| ((*id).clone(), (*node).clone()))
        .collect();
    let ClusterView { requests, inventory, .. } = view;
    for request in requests {
        let Some(node) = off.get(&request.id) else { continue };
        for label in request.keeps_apart.values() {
            let Some(part) = part_of(inventory, node, label) else { continue };
            let topology = Some(label.clone()).filter(|label| !apart::is_by_node(label));
            let same = inventory.nodes.keys().filter(|of| part_of(inventory, of, label) == Some(part));
            let rule = |node: &NodeName| (node.clone(), Apart::AntiAffinity { topology: topology.clone() });
            request.constraints.kept_off.extend(same.map(rule));
        }
    }
    !off.is_empty()
}
