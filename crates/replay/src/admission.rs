//! Which nodes ask for their turn, and which of them may start, by the rollout's own rules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use planner::names::{NodeName, PolicyName};
use planner::policy::Drain;
use rollout::fleet::{Member, PolicyRollout, admit};
use rollout::{Admission, CordonOwner, Listing, MapSeen, Observed, OperandLabels, Operator, Progress};

use crate::fleet::Fleet;
use crate::stage::Stage;
use crate::world::World;

/// The nodes that ask for their turn at `now`.
pub(crate) fn asking(world: &World, now: i64) -> Vec<usize> {
    let asks =
        |node: &usize| matches!(&world.nodes[*node].stage, Stage::Mapping { ready, .. } if *ready <= now);
    (0..world.nodes.len()).filter(asks).collect()
}

/// Which of those that ask may start, by the rollout's own rules: the budget
/// of nodes that are unavailable, and the windows. `order` is the plan's.
pub(crate) fn admitted(
    world: &World,
    fleet: &Fleet,
    asks: &[usize],
    order: &[usize],
    policy: &PolicyName,
    rollout: &PolicyRollout,
    now: Timestamp,
) -> Vec<usize> {
    let seen: Vec<Observed> = world.nodes.iter().map(|node| observed(!node.stage.is_open())).collect();
    let progress: Vec<Progress> = world
        .nodes
        .iter()
        .map(|node| Progress { phase: node.stage.phase(), ..Progress::default() })
        .collect();
    let member = |at: usize| Member {
        node: fleet.nodes[at].name.clone(),
        policy: Some(policy.clone()),
        seen: &seen[at],
        wanted: None,
        slices: None,
        sharing: None,
        progress: &progress[at],
        drain: Drain::Never,
    };
    let members: Vec<Member<'_>> = (0..world.nodes.len()).map(member).collect();
    let names =
        |nodes: &[usize]| -> Vec<NodeName> { nodes.iter().map(|at| fleet.nodes[*at].name.clone()).collect() };
    let policies = BTreeMap::from([(policy.clone(), rollout.clone())]);
    let answers = admit(&members, &names(asks), &policies, &names(order), now);
    let may = |at: &usize| answers.get(&fleet.nodes[*at].name) == Some(&Admission::Admitted);
    asks.iter().copied().filter(may).collect()
}

/// A node in order, as far as admission looks at it.
fn observed(unschedulable: bool) -> Observed {
    Observed {
        resource_version: String::new(),
        operands: OperandLabels::default(),
        is_marked: false,
        work: None,
        manager: None,
        unschedulable,
        cordon_owner: CordonOwner::Us,
        ready: true,
        boot_id: String::new(),
        allocatable: BTreeMap::new(),
        pods: Vec::new(),
        listing: Listing::Cached,
        refusals: Vec::new(),
        map: MapSeen { resource_version: None, entries: BTreeSet::new(), changed_at: None },
        label_layout: None,
        operator: Operator::default(),
        agent: None,
        report: None,
        sharing: rollout::SharingSeen::default(),
    }
}
