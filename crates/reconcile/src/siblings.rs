//! Pods that keep apart from pods like them, where the plan has put two of them on one node, or in one zone.

use std::collections::{BTreeMap, BTreeSet};

use observe::apart;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::{NodeName, RequestId};
use planner::report::{Outcome, Report};

/// The part of the cluster to which a node belongs: it has one value of the label.
pub(crate) fn part_of<'a>(inventory: &'a Inventory, node: &'a NodeName, label: &str) -> Option<&'a str> {
    let value = inventory.nodes.get(node)?.labels.get(label);
    // Each node is a part by itself, also where nobody has labelled it.
    value.map(String::as_str).or(apart::is_by_node(label).then_some(node.0.as_str()))
}

/// Requests whose pods may not share the node that is planned for them, or its zone, with a pod like them, which comes first there: who
/// has a promise, then who has waited longer. The planner plans pods one by one, and the scheduler puts one of them there.
pub(crate) fn behind(requests: &[Request], report: &Report, inventory: &Inventory) -> BTreeSet<RequestId> {
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
        for (rule, label) in &request.keeps_apart {
            // Where a node has no such label, it is in no part of the cluster, and the rule does not touch it.
            let Some(part) = part_of(inventory, node, label) else { continue };
            if !first.insert((part, rule)) {
                behind.insert(request.id.clone());
            }
        }
    }
    behind
}
