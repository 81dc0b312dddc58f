//! What is promised to whom from this round on: the `GpuNode` remembers it, and the next round keeps it.
//!
//! A promise is made when a time is told at which slices are ready (the node is past the point of return),
//! and when a queue lets a workload start because they are. It lasts until the pods have nodes, since from
//! then on nobody asks; until it cannot be kept; or until something else keeps the pod from running.

use std::collections::{BTreeMap, BTreeSet};

use observe::objects::Key;
use planner::names::{NodeName, RequestId};
use planner::report::Outcome;
use rollout::Advance;

use crate::admission::{CheckAnswer, CheckState};
use crate::planned_round::PlannedRound;
use crate::siblings::behind;

/// Who is promised slices of each node, in the order of the report.
pub(crate) fn promises(
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
    checks: &[CheckAnswer],
) -> BTreeMap<NodeName, Vec<RequestId>> {
    let before: BTreeMap<&RequestId, &NodeName> =
        planned.view.requests.iter().filter_map(|r| Some((&r.id, r.promised.as_ref()?))).collect();
    let mut promises: BTreeMap<NodeName, Vec<RequestId>> = BTreeMap::new();
    // Whoever cannot be heard has not given anything back.
    for (node, id) in &planned.view.unheard {
        promises.entry(node.clone()).or_default().push(id.clone());
    }
    // Without a plan nothing is known of what is kept.
    if planned.report.gave_up.is_some() {
        for (id, node) in before {
            promises.entry(node.clone()).or_default().push(id.clone());
        }
        return promises;
    }
    let may_start = may_start(planned, checks);
    let behind = behind(&planned.view.requests, &planned.report, &planned.view.inventory);
    for report in &planned.report.requests {
        let Outcome::ServedNow { node, .. } = &report.outcome else { continue };
        if behind.contains(&report.id) {
            continue;
        }
        let progress = advances.get(node).map_or_else(|| planned.progress_of(node), |a| a.progress.clone());
        let is_told = !progress.phase.can_return();
        if is_told || before.get(&report.id) == Some(&node) || may_start.contains(&report.id) {
            promises.entry(node.clone()).or_default().push(report.id.clone());
        }
    }
    promises
}

/// Requests of workloads whose check says `Ready`, or does so now.
fn may_start<'a>(planned: &'a PlannedRound, checks: &[CheckAnswer]) -> BTreeSet<&'a RequestId> {
    let mut may_start = BTreeSet::new();
    let due: BTreeMap<(&Key, &str), &CheckAnswer> =
        checks.iter().rev().map(|due| ((&due.workload, due.check.as_str()), due)).collect();
    for (key, queued) in planned.view.queued.iter() {
        // Of thousands nobody waits any more.
        if queued.sets.iter().all(|set| set.requests.is_empty()) {
            continue;
        }
        let is_ready = queued.checks.iter().any(|check| match due.get(&(key, check.name.as_str())) {
            Some(due) => due.state == CheckState::Ready,
            None => check.is_ready,
        });
        if is_ready {
            may_start.extend(queued.sets.iter().flat_map(|set| &set.requests));
        }
    }
    may_start
}
