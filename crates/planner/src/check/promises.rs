//! What was promised is kept: the slices of a promise are there and nobody else gets them, and nothing on
//! the node changes until the pod has one. Stated here from the fleet as it was seen; what the planner kept
//! is not looked at.
//!
//! Only a higher priority breaks a promise that can be kept. So a step on such a node is wrong, unless
//! somebody of a higher priority waits. Pods that start together and have to be in one part of the cluster have one promise: what
//! is left of it does not hold them where the rest of it is gone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::note::{Note, Problem};
use super::serves::{exceeds, wants};
use super::supply::{free_after, free_now};
use super::winner;
use crate::demand::Request;
use crate::eligible::judge;
use crate::inventory::{Inventory, Node, Room};
use crate::names::{NodeName, RequestId};
use crate::offered::Offered;
use crate::plan::Plan;
use crate::policy::{Drain, LayoutPolicy, Policy};
use crate::predicted_labels::LabelsAfter;
use crate::report::{Broken, Outcome, RequestReport};
use crate::selector;

/// The promises that the fleet as it was seen can keep, with their nodes; those
/// to a higher priority first, then the older ones.
pub(super) fn keepable<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &[Policy],
) -> Vec<(&'a Request, &'a NodeName)> {
    let mut promised: Vec<(&Request, &NodeName)> =
        requests.iter().filter(|r| waits(r)).filter_map(|r| Some((r, r.promised.as_ref()?))).collect();
    promised.sort_by_key(|(request, _)| (Reverse(request.priority), request.since, &request.id));
    let mut left: BTreeMap<&NodeName, (Room, BTreeMap<Offered, u32>)> = BTreeMap::new();
    promised.retain(|(request, name)| {
        let Some(node) = inventory.nodes.get(name) else { return false };
        let policy = winner(node, policies);
        let counts = policy.is_none_or(|policy| match &policy.layout {
            LayoutPolicy::DemandDriven { namespaces, .. } => {
                selector::matches(namespaces, &request.namespace_labels)
            }
            LayoutPolicy::Static { .. } => true,
        });
        // There, even who runs has to go.
        let evicts = policy.is_some_and(|policy| {
            matches!(policy.layout, LayoutPolicy::Static { .. }) && policy.drain == Drain::Evict
        });
        let may = judge(request, name, node, &LabelsAfter::predict(node)).is_yes();
        if !node.schedulable || !counts || evicts && node.hold.is_none() || !may {
            return false;
        }
        let (room, taken) = left.entry(*name).or_insert_with(|| (node.room, BTreeMap::new()));
        let free = |(offered, n): (Offered, u32)| {
            taken.get(&offered).copied().unwrap_or(0) + n <= free_now(node, offered)
        };
        let fits = !exceeds(&request.takes, room) && wants(request).all(free);
        if fits {
            *room = room.plus(request.takes, -1);
            wants(request).for_each(|(offered, n)| *taken.entry(offered).or_default() += n);
        }
        fits
    });
    promised
}

/// Whether a request waits for slices that can be planned for.
pub(super) fn waits(request: &Request) -> bool {
    let is_seat = |offered: &Offered| matches!(offered, Offered::SharedSlice(_));
    let for_slices =
        request.slices.values().any(|n| *n > 0) || request.shared.iter().any(|(of, n)| is_seat(of) && *n > 0);
    request.blocked_elsewhere.is_none()
        && request.refused.is_none()
        && request.finds.is_none()
        && request.shared.keys().all(is_seat)
        && for_slices != (request.whole_gpus > 0)
}

/// Whether somebody of a higher priority waits, who may get what was promised to this one.
pub(super) fn may_yield(promised: &Request, requests: &[Request]) -> bool {
    requests.iter().any(|request| waits(request) && request.priority > promised.priority)
}

/// Whether a promise that could be kept serves nobody, since what goes with it is gone: another pod of the gang has no promise that
/// can be kept, or those that have to be in one part of the cluster were promised nodes in two.
fn is_torn(
    request: &Request,
    kept: &[(&Request, &NodeName)],
    requests: &[Request],
    inventory: &Inventory,
) -> bool {
    let has_none = |of: &Request| kept.iter().all(|(kept, _)| kept.id != of.id);
    let gang = request.together.gang.as_ref();
    if gang.is_some() {
        let members = || requests.iter().filter(|of| of.together.gang.as_ref() == gang && waits(of));
        // Of a gang without such a rule each pod is planned by itself.
        let is_tied = members().any(|of| !of.together.rules.is_empty());
        if is_tied && members().any(has_none) {
            return true;
        }
    }
    request.together.rules.iter().any(|(rule, label)| {
        let with_it = kept.iter().filter(|(of, _)| of.together.rules.contains_key(rule));
        let value = |node: &NodeName| inventory.nodes.get(node)?.labels.get(label);
        with_it.map(|(_, node)| value(node)).collect::<BTreeSet<_>>().len() > 1
    })
}

/// Says where a plan changes a node that was promised to somebody.
pub(super) fn check(
    plan: &Plan,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
    notes: &mut Vec<Note>,
) {
    if plan.steps.is_empty() {
        return;
    }
    let kept = keepable(inventory, requests, policies);
    for &(request, node) in &kept {
        let changes = plan.steps.iter().any(|step| step.node == *node);
        if changes && !may_yield(request, requests) && !is_torn(request, &kept, requests, inventory) {
            notes.push(Problem::PromiseBroken { request: request.id.clone() }.on(node));
        }
    }
}

/// Says which promises are not kept though they could be, as the answers tell
/// it; and where more is given away than there is beside them: slices, CPU,
/// memory, ephemeral storage, or pod slots.
#[must_use]
pub fn check_promises(
    plan: &Plan,
    reports: &[RequestReport],
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
) -> Vec<Note> {
    let by_id: BTreeMap<&RequestId, &Request> = requests.iter().map(|r| (&r.id, r)).collect();
    let answers: BTreeMap<&RequestId, &RequestReport> = reports.iter().map(|r| (&r.id, r)).collect();
    let is_served = |id: &RequestId| {
        answers.get(id).is_some_and(|report| !matches!(report.outcome, Outcome::Unserved { .. }))
    };
    let mut notes = Vec::new();
    let kept = keepable(inventory, requests, policies);
    for &(request, name) in &kept {
        let Some(report) = answers.get(&request.id) else { continue };
        let is_kept = matches!(&report.outcome, Outcome::ServedNow { node, .. } if node == name);
        let yields = match &report.broken {
            Some(broken) => match &broken.why {
                Broken::HigherPriority { to } => {
                    is_served(to) && by_id.get(to).is_some_and(|to| to.priority > request.priority)
                }
                _ => false,
            },
            None => false,
        };
        if !is_kept && !yields && !is_torn(request, &kept, requests, inventory) {
            notes.push(Problem::PromiseBroken { request: request.id.clone() }.on(name));
        }
    }
    // Seats of nodes that are not cut are the scheduler's to give.
    for (name, node) in inventory.nodes.iter().filter(|(name, _)| !inventory.seating.contains_key(*name)) {
        notes.extend(over(name, node, plan, reports, &by_id));
    }
    notes
}

/// Whether what is given away on a node is more than is there, or will be when its step is done and who is evicted
/// has gone. Everybody who is told to be served there counts: at once, by the step, or by a promise.
fn over(
    name: &NodeName,
    node: &Node,
    plan: &Plan,
    reports: &[RequestReport],
    by_id: &BTreeMap<&RequestId, &Request>,
) -> Vec<Note> {
    let mut needed: BTreeMap<Offered, u32> = BTreeMap::new();
    let mut takes = Room::ZERO;
    for report in reports {
        if let Outcome::ServedNow { node: on, .. } | Outcome::ServedByPlan { node: on, .. } = &report.outcome
            && on == name
            && let Some(request) = by_id.get(&report.id)
        {
            wants(request).for_each(|(offered, n)| *needed.entry(offered).or_default() += n);
            takes = takes.plus(request.takes, 1);
        }
    }
    let step = plan.steps.iter().find(|step| step.node == *name);
    let over = needed.into_iter().filter_map(|(profile, needed)| {
        let free = step.map_or_else(|| free_now(node, profile), |step| free_after(step, node, profile));
        (needed > free).then(|| Problem::SupplyExceeded { profile, needed, free }.on(name))
    });
    // Whoever is evicted gives its CPU back too, and no plan counts on that.
    let crowded = exceeds(&takes, &node.room).then(|| Problem::RoomExceeded.on(name));
    over.chain(crowded).collect()
}
