//! The answer to an update that waits for its own older pods: only older pods of the same set are in the way of
//! the new ones, and they end only after a new one runs. That it would help if they ended is proved by a
//! plan for their nodes without them, and that one at a time is enough by a plan for each of them.

use std::collections::{BTreeMap, BTreeSet};

use observe::surge::{OldPod, Set, Update, updates};
use observe::{ClusterView, Objects};
use planner::decide::decide;
use planner::demand::Request;
use planner::inventory::{Inventory, Node, Use};
use planner::names::{PodRef, RequestId};
use planner::policy::{LayoutPolicy, Policy};
use planner::report::{Help, Outcome, Report, Why};

/// How many updates are looked into in one round: each is a plan of its own,
/// though of a few nodes only. Those of the first names come first; the others
/// are answered like everybody else.
const MOST_UPDATES: usize = 8;

/// Of an update with more older pods than these it is not asked whether it is enough that one at a time ends: that is a
/// plan of one node for each of them.
const MOST_OLD: usize = 8;

/// Adds to the answers of updates that wait for themselves why that is, and
/// the way out, before what else would help.
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
    let waiting: Vec<Request> =
        view.requests.iter().filter(|request| unserved.contains(&request.id)).cloned().collect();
    let found = updates(objects, &unserved);
    let proved: Vec<(Set, Update, Ends)> = found
        .into_iter()
        .take(MOST_UPDATES)
        .filter_map(|(set, update)| Some((ends(&update, view, &waiting)?, set, update)))
        .map(|(ends, set, update)| (set, update, ends))
        .collect();
    for (set, update, ends) in proved {
        let way = way_out(&set, &update, ends, view);
        for request in report.requests.iter_mut().filter(|request| update.requests.contains(&request.id)) {
            let Outcome::Unserved { why: _, help } = &mut request.outcome else { continue };
            let is_own = |pod: &PodRef| update.old.iter().any(|old| old.pod == *pod);
            help.retain(|help| !matches!(help, Help::PodEnds { pod, .. } if is_own(pod)));
            help.insert(0, way.clone());
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

/// How many of the older pods have to end before new ones can run, as far as it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Whichever of them ends alone, a new one gets what it asks for.
    OneAtATime,
    /// That is proved only of all of them.
    AllAtOnce,
}

/// What has to end so that the new pods get what they ask for, although everybody else waits, too; `None` where they would not
/// all get it on the nodes of the older ones if all of these ended.
fn ends(update: &Update, view: &ClusterView, waiting: &[Request]) -> Option<Ends> {
    let all: Vec<&OldPod> = update.old.iter().collect();
    if served_without(&all, update, view, waiting) < update.requests.len() {
        return None;
    }
    let is_enough = |old: &OldPod| served_without(&[old], update, view, waiting) > 0;
    let [_] = all.as_slice() else {
        let one_at_a_time = all.len() <= MOST_OLD && update.old.iter().all(is_enough);
        return Some(if one_at_a_time { Ends::OneAtATime } else { Ends::AllAtOnce });
    };
    Some(Ends::OneAtATime)
}

/// How many of the new pods would get what they ask for on the nodes of these older ones, if these ended.
fn served_without(old: &[&OldPod], update: &Update, view: &ClusterView, waiting: &[Request]) -> usize {
    let mut inventory = Inventory { namespaces: view.inventory.namespaces.clone(), ..Inventory::default() };
    for old in old {
        if !inventory.nodes.contains_key(&old.node) {
            let Some(node) = view.inventory.nodes.get(&old.node) else { return 0 };
            inventory.nodes.insert(old.node.clone(), node.clone());
        }
        if let Some(node) = inventory.nodes.get_mut(&old.node) {
            release(node, old);
        }
    }
    let decision = decide(&inventory, waiting, &view.policies);
    let served = decision.report.requests.iter().filter(|report| {
        update.requests.contains(&report.id) && !matches!(report.outcome, Outcome::Unserved { .. })
    });
    served.count()
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

/// What ends such a wait: the set ends old pods first. A slice that the policy keeps for updates is named beside it: it is none
/// of what would help, since it would be kept only after the update that waits, and where there is room for it.
fn way_out(set: &Set, update: &Update, ends: Ends, view: &ClusterView) -> Help {
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
    let unavailable = match ends {
        Ends::OneAtATime => "maxUnavailable: 1",
        Ends::AllAtOnce => {
            "a maxUnavailable by which all of them may end at once (that fewer are enough is not proved)"
        }
    };
    Help::ChangeRequest {
        advice: format!(
            "this is an update of {kind} {namespace}/{name}, and only its own older pods are in the way ({}{more}), \
             which end only after a new one runs: set maxSurge: 0 and {unavailable} in {field}{}",
            old.join(", "),
            for_later_updates(update, view)
        ),
    }
}

/// The field of the policy by which later updates find a free slice.
fn for_later_updates(update: &Update, view: &ClusterView) -> String {
    let policy_of = planner::assign::policy_of(&view.inventory, &view.policies).policy_of;
    let policy = update.old.iter().find_map(|old| {
        let name = policy_of.get(&old.node)?;
        view.policies.iter().find(|policy| policy.name == *name)
    });
    let Some(Policy { name, layout: LayoutPolicy::DemandDriven { slices, .. }, .. }) = policy else {
        return String::new();
    };
    let new = view.requests.iter().filter(|request| update.requests.contains(&request.id));
    let mut asked = BTreeMap::new();
    for (profile, n) in new.flat_map(|request| &request.slices) {
        *asked.entry(*profile).or_insert(0u32) += n;
    }
    let spares = asked.into_iter().filter_map(|(profile, n)| {
        let bounds = slices.get(&profile).copied().unwrap_or_default();
        // Where a bound is what is missing, more of it cannot be kept.
        let spare = bounds.spare.saturating_add(n);
        bounds
            .max
            .is_none()
            .then(|| format!("spec.layout.demandDriven.slices[{profile}].spareCount to {spare}"))
    });
    let spares: Vec<String> = spares.collect();
    if spares.is_empty() {
        return String::new();
    }
    format!(
        " (for later updates, not for this one: policy {name}, set {}; it is kept free where there is room for it)",
        spares.join(" and ")
    )
}
