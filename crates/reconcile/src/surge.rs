//! The answer to an update that waits for its own older pods: only older pods of the same set are in the way of
//! the new ones, and they end only after a new one runs. That it would help if they ended is proved by a
//! plan for their nodes without them, and that one at a time is enough by a plan for each of them. What a policy bounds
//! it bounds on all of its nodes, so the others are in these plans as they are.

use std::collections::{BTreeMap, BTreeSet};

use observe::surge::{OldPod, Set, Update, updates};
use observe::{ClusterView, Objects};
use planner::decide::decide;
use planner::demand::Request;
use planner::inventory::{Hold, Inventory, Node, Use};
use planner::names::{NodeName, PodRef, PolicyName, RequestId};
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
    if found.is_empty() {
        return;
    }
    let beside = beside(view);
    let proved: Vec<(Set, Update, Ends)> = found
        .into_iter()
        .take(MOST_UPDATES)
        .filter_map(|(set, update)| Some((ends(&update, view, &beside, &waiting)?, set, update)))
        .map(|(ends, set, update)| (set, update, ends))
        .collect();
    for (set, update, ends) in proved {
        let way = way_out(&set, &update, ends, view);
        for request in report.requests.iter_mut().filter(|request| update.requests.contains(&request.id)) {
            let Outcome::Unserved { why: _, help } = &mut request.outcome else { continue };
            let is_own = |pod: &PodRef| update.old.iter().any(|old| old.pod == *pod);
            help.retain(|help| !help.pod().is_some_and(is_own));
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
        | Why::NeverTogether { .. }
        | Why::NeverWhole { .. }
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
fn ends(update: &Update, view: &ClusterView, beside: &Inventory, waiting: &[Request]) -> Option<Ends> {
    let all: Vec<&OldPod> = update.old.iter().collect();
    if served_without(&all, update, view, beside, waiting) < update.requests.len() {
        return None;
    }
    let is_enough = |old: &OldPod| served_without(&[old], update, view, beside, waiting) > 0;
    let [_] = all.as_slice() else {
        let one_at_a_time = all.len() <= MOST_OLD && update.old.iter().all(is_enough);
        return Some(if one_at_a_time { Ends::OneAtATime } else { Ends::AllAtOnce });
    };
    Some(Ends::OneAtATime)
}

/// The nodes of policies that bound something, on which nothing changes, and that serve nobody. Of other policies the nodes
/// of the older pods are enough, and a plan for a few nodes is made sooner.
fn beside(view: &ClusterView) -> Inventory {
    let policy_of = planner::assign::policy_of(&view.inventory, &view.policies).policy_of;
    let bounded = view.policies.iter().filter(|policy| has_totals(&policy.layout));
    let bounded: BTreeSet<&PolicyName> = bounded.map(|policy| &policy.name).collect();
    let of_bounded = |name: &NodeName| policy_of.get(name).is_some_and(|policy| bounded.contains(policy));
    let nodes = view.inventory.nodes.iter().filter(|(name, _)| of_bounded(name));
    let as_it_is = |node: &Node| Node { schedulable: false, hold: Some(Hold::NotReady), ..node.clone() };
    Inventory {
        namespaces: view.inventory.namespaces.clone(),
        nodes: nodes.map(|(name, node)| (name.clone(), as_it_is(node))).collect(),
        ..Inventory::default()
    }
}

/// Whether a layout says how much there is on all nodes together.
fn has_totals(layout: &LayoutPolicy) -> bool {
    match layout {
        LayoutPolicy::DemandDriven { slices, shares, whole_gpus, .. } => {
            !slices.is_empty() || !shares.is_empty() || whole_gpus.is_some()
        }
        LayoutPolicy::Static { .. } => false,
    }
}

/// How many of the new pods would get what they ask for on the nodes of these older ones, if these ended.
fn served_without(
    old: &[&OldPod],
    update: &Update,
    view: &ClusterView,
    beside: &Inventory,
    waiting: &[Request],
) -> usize {
    let mut inventory = beside.clone();
    for old in old {
        let Some(node) = view.inventory.nodes.get(&old.node) else { return 0 };
        inventory.nodes.insert(old.node.clone(), node.clone());
    }
    for old in old {
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

#[cfg(test)]
mod tests {
    use planner::inventory::Room;
    use planner::testing::{GpuBuilder, a100, node, pod, profile};

    use super::*;

    /// Everything that the pod holds is free then, and nothing of what others hold.
    #[test]
    fn a_node_is_as_it_would_be_without_the_older_pod() {
        let takes = Room { cpu_milli: 4000, memory_bytes: 1 << 30, storage_bytes: 0, pods: 1 };
        let old = OldPod {
            pod: pod("team/old"),
            node: "n1".into(),
            slices: [(profile("3g.40gb"), 1)].into(),
            takes,
        };
        let with = |gpu: GpuBuilder, held: &[&str]| {
            let n = i64::try_from(held.len()).expect("few");
            let mut node = node().gpu(gpu).room(16_000 - 4000 * n, (8 - n) << 30, 20 - n).build();
            node.held = held.iter().map(|name| (pod(name), 3)).collect();
            node
        };
        let both = ["team/old", "team/other"];
        let cases = [
            (
                a100().used("3g.40gb", 0, both[0]).used("3g.40gb", 4, both[1]),
                a100().idle("3g.40gb", 0).used("3g.40gb", 4, both[1]),
            ),
            (
                a100().maybe("3g.40gb", 0, &both).maybe("3g.40gb", 4, &both),
                a100().maybe("3g.40gb", 0, &both[1..]).maybe("3g.40gb", 4, &both[1..]),
            ),
        ];
        for (before, after) in cases {
            let mut node = with(before, &both);
            release(&mut node, &old);
            assert_eq!(node, with(after, &both[1..]));
        }
    }
}
