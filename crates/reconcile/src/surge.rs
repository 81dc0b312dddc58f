//! The answer to an update that waits for its own older pods: only older pods of the same set are in the way of
//! the new ones, and they end only after a new one runs. That it would help if they ended is proved by a
//! plan for their nodes without them.

use std::collections::{BTreeMap, BTreeSet};

use observe::surge::{OldPod, Set, Update, updates};
use observe::{ClusterView, Objects};
use planner::decide::decide;
use planner::inventory::{Inventory, Node, Use};
use planner::names::{PodRef, RequestId};
use planner::policy::{LayoutPolicy, Policy};
use planner::report::{Help, Outcome, Report, Why};

/// How many updates are looked into in one round: each is a plan of its own,
/// though of a few nodes only. Those of the first names come first; the others
/// are answered like everybody else.
const MOST_UPDATES: usize = 8;

/// Adds to the answers of updates that wait for themselves why that is, and
/// both ways out, before what else would help.
pub fn explain(objects: &Objects, view: &ClusterView, report: &mut Report) {
    let unserved: BTreeSet<&RequestId> = report
        .requests
        .iter()
        .filter(|request| match &request.outcome {
            Outcome::Unserved { why, .. } => may_be_an_update(why),
            Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => false,
        })
        .map(|request| &request.id)
        .collect();
    if unserved.is_empty() {
        return;
    }
    let found = updates(objects, &unserved);
    let proved: Vec<(Set, Update)> = found
        .into_iter()
        .take(MOST_UPDATES)
        .filter(|(_, update)| would_be_served_without(update, view, &unserved))
        .collect();
    for (set, update) in proved {
        let ways = ways_out(&set, &update, view);
        for request in report.requests.iter_mut().filter(|request| update.requests.contains(&request.id)) {
            let Outcome::Unserved { why: _, help } = &mut request.outcome else { continue };
            let is_own = |pod: &PodRef| update.old.iter().any(|old| old.pod == *pod);
            help.retain(|help| !matches!(help, Help::PodEnds { pod, .. } if is_own(pod)));
            help.splice(0..0, ways.clone());
        }
    }
}

/// Whether slices of older pods can be what is missing.
const fn may_be_an_update(why: &Why) -> bool {
    match why {
        Why::AllUsed
        | Why::NoIdleNode
        | Why::NotItsTurn { .. }
        | Why::Fragmented
        | Why::NoRoom
        | Why::IdlenessNotProvable { .. }
        | Why::PolicyForbids { .. } => true,
        Why::WholeGpu
        | Why::Elsewhere { .. }
        | Why::SeatsHeld { .. }
        | Why::OtherName { .. }
        | Why::SeveralKinds
        | Why::NoPolicy
        | Why::NoEligibleNode
        | Why::NoSuchProfile { .. }
        | Why::NeverCut { .. }
        | Why::TooLarge { .. }
        | Why::Held { .. }
        | Why::BlockedElsewhere { .. }
        | Why::Refused { .. }
        | Why::NoDomain { .. }
        | Why::NoPlan { .. } => false,
    }
}

/// Whether the new pods would all get what they ask for on the nodes of the
/// older ones if these ended, although everybody else waits, too.
fn would_be_served_without(update: &Update, view: &ClusterView, unserved: &BTreeSet<&RequestId>) -> bool {
    let mut inventory = Inventory { namespaces: view.inventory.namespaces.clone(), ..Inventory::default() };
    for old in &update.old {
        if !inventory.nodes.contains_key(&old.node) {
            let Some(node) = view.inventory.nodes.get(&old.node) else { return false };
            inventory.nodes.insert(old.node.clone(), node.clone());
        }
        if let Some(node) = inventory.nodes.get_mut(&old.node) {
            release(node, old);
        }
    }
    let requests: Vec<_> =
        view.requests.iter().filter(|request| unserved.contains(&request.id)).cloned().collect();
    let decision = decide(&inventory, &requests, &view.policies);
    let served = |id: &RequestId| {
        let report = decision.report.requests.iter().find(|report| report.id == *id);
        report.is_some_and(|report| !matches!(report.outcome, Outcome::Unserved { .. }))
    };
    update.requests.iter().all(served)
}

/// The node as it would be without a pod.
fn release(node: &mut Node, old: &OldPod) {
    let OldPod { pod, node: _, slices, takes } = old;
    for used in node.gpus.values_mut().flat_map(|gpu| gpu.slices.uses_mut()) {
        match used {
            Use::InUse { by } if by == pod => *used = Use::Idle,
            Use::MaybeInUse { by } => by.retain(|holder| holder != pod),
            Use::Idle | Use::InUse { .. } => {}
        }
    }
    for (profile, n) in slices {
        if let Some(allocated) = node.allocated.get_mut(profile) {
            *allocated = allocated.saturating_sub(*n);
        }
    }
    node.held.remove(pod);
    node.room = node.room.plus(*takes, 1);
}

/// What ends such a wait: the set ends an old pod first, or the policy keeps a
/// slice for updates.
fn ways_out(set: &Set, update: &Update, view: &ClusterView) -> Vec<Help> {
    let Set { kind, key: (namespace, name) } = set;
    let field = match kind.as_str() {
        "Deployment" => {
            "spec.strategy.rollingUpdate (of an InferenceService, spec.predictor.deploymentStrategy.rollingUpdate)"
        }
        "LeaderWorkerSet" => "spec.rolloutStrategy.rollingUpdateConfiguration",
        _ => "its update strategy",
    };
    let old: Vec<String> =
        update.old.iter().take(3).map(|old| format!("{} on {}", old.pod, old.node)).collect();
    let more = match update.old.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let surge = Help::ChangeRequest {
        advice: format!(
            "this is an update of {kind} {namespace}/{name}, and only its own older pods are in the way ({}{more}), \
             which end only after a new one runs: set maxSurge: 0 and maxUnavailable: 1 in {field}",
            old.join(", ")
        ),
    };
    let mut ways = vec![surge];
    let policy_of = planner::assign::policy_of(&view.inventory, &view.policies).policy_of;
    let policy = update.old.iter().find_map(|old| {
        let name = policy_of.get(&old.node)?;
        view.policies.iter().find(|policy| policy.name == *name)
    });
    if let Some(Policy { name, layout: LayoutPolicy::DemandDriven { slices, .. }, .. }) = policy {
        let new = view.requests.iter().filter(|request| update.requests.contains(&request.id));
        let mut asked = BTreeMap::new();
        for (profile, n) in new.flat_map(|request| &request.slices) {
            *asked.entry(*profile).or_insert(0u32) += n;
        }
        for (profile, n) in asked {
            let bounds = slices.get(&profile).copied().unwrap_or_default();
            // Where a bound is what is missing, more of it cannot be kept.
            if bounds.max.is_some() {
                continue;
            }
            ways.push(Help::ChangePolicy {
                policy: name.clone(),
                field: format!("spec.layout.demandDriven.slices[{profile}].spareCount"),
                to: format!("{}, so that the next update finds a free slice", bounds.spare.saturating_add(n)),
            });
        }
    }
    ways
}
