//! The round: from the observed and recorded state to the actions that are due and the messages.

use std::collections::BTreeMap;

use api::GpuPartitionPolicyStatus;
use jiff::Timestamp;
use observe::objects::UnservedQuota;
use planner::inventory::Hold;
use planner::names::{NodeName, PolicyName};
use rollout::{Advance, Progress};

use crate::admission::{CheckAnswer, check_answers};
use crate::advance::advance;
use crate::answers::{self, Answer};
use crate::gpu_node::{WantedGpuNode, gpu_nodes};
use crate::input::Input;
use crate::map::{MapRound, map};
use crate::menu::{MenuRound, menu};
use crate::planned_round::{PlannedRound, plan_next_round};
use crate::plugin_map::{PluginMapRound, plugin_map};
use crate::plugin_pointer;
use crate::policy_status::statuses;
use crate::promises::promises;
use crate::send_back::send_back;
use crate::session::Session;
use crate::siblings::behind;

/// What one round found, decided and says.
#[must_use]
#[derive(Clone, Debug)]
pub struct Round {
    /// What was observed, decided and checked.
    pub planned: PlannedRound,
    /// What is due, for every node that we look after.
    pub nodes: BTreeMap<NodeName, NodeRound>,
    /// The status of every policy, as it should be.
    pub policies: BTreeMap<PolicyName, GpuPartitionPolicyStatus>,
    /// The `GpuNode` of every node that has GPUs, as it should be.
    pub gpu_nodes: BTreeMap<NodeName, WantedGpuNode>,
    /// What everybody who asked for slices is told, in the order of the report.
    pub answers: Vec<Answer>,
    /// What our admission checks are to say of workloads in Kueue's queues.
    pub checks: Vec<CheckAnswer>,
    /// Who holds quota and is not served: to be remembered until the next round.
    pub unserved_quota: UnservedQuota,
    /// The hardware profiles that are published.
    pub menu: MenuRound,
    /// Our map.
    pub map: MapRound,
    /// Our map of the device plugin's configurations.
    pub plugin_map: PluginMapRound,
    /// When to look again at the latest, even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

/// One node's part of a round.
#[derive(Clone, Debug)]
pub struct NodeRound {
    /// What was remembered before.
    pub before: Progress,
    /// What is to be remembered, and done, now. The progress is stored before
    /// any of the actions is done.
    pub advance: Advance,
}

/// One round. Pure and total: the same input gives the same round.
pub fn round(input: &Input<'_>) -> Round {
    next_round(input, &mut Session::default())
}

/// The same round, in less time where the rounds before were like it: what is kept of them is in
/// the session, which its caller keeps. One that is lost costs time and nothing else.
pub fn next_round(input: &Input<'_>, session: &mut Session) -> Round {
    follow(input, plan_next_round(input, session))
}

/// What follows from what was planned for this input.
pub fn follow(input: &Input<'_>, planned: PlannedRound) -> Round {
    let advances = advance(input, &planned);
    let mut map = map(input, &planned, &advances);
    let mut plugin_map = plugin_map(input, &planned, &advances);
    // A map that is to be written first is written by itself.
    if plugin_map.write.is_none() && plugin_map.problem.is_none() {
        let elsewhere = plugin_pointer::elsewhere(input, &planned);
        plugin_map.repoint = elsewhere.and_then(|elsewhere| elsewhere.due(input.now));
    }
    if input.obstacles.settling(input.now).is_some() {
        map.write = None;
        plugin_map.write = None;
        plugin_map.repoint = None;
    }
    let policies = statuses(input, &planned, &advances, &map, &plugin_map);
    let behind = behind(&planned.view.requests, &planned.report, &planned.view.inventory);
    let answer = |request| answers::answer(request, input, &planned, &advances, &behind);
    let answers: Vec<Answer> = planned.report.requests.iter().map(answer).collect();
    let mut checks = check_answers(input, &planned, &answers);
    let sent_back = send_back(input, &planned, &mut checks);
    let promises = promises(&planned, &advances, &checks);
    let gpu_nodes = gpu_nodes(input, &planned, &advances, &promises);
    let menu = menu(input, &planned);
    let wake_at =
        wake_at(input, &planned, &advances).into_iter().chain(menu.wake_at).chain(sent_back.wake_at).min();
    let nodes = advances
        .into_iter()
        .map(|(name, advance)| {
            let before = planned.progress_of(&name);
            (name, NodeRound { before, advance })
        })
        .collect();
    Round {
        planned,
        nodes,
        policies,
        gpu_nodes,
        answers,
        checks,
        unserved_quota: sent_back.remembered,
        menu,
        map,
        plugin_map,
        wake_at,
    }
}

/// When something becomes due by time alone.
fn wake_at(
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
) -> Option<Timestamp> {
    let steps = advances.values().filter_map(|advance| advance.wake_at);
    // A request becomes BlockedElsewhere by time alone.
    let blocked = planned
        .view
        .requests
        .iter()
        .map(|request| request.since)
        // Workbenches without a pod, also those that ask for nothing yet.
        .chain(planned.view.starting.values().copied())
        .filter(|since| *since <= input.now)
        .map(|_| input.now + input.settings.observe.blocked_after);
    let cooling = planned.view.inventory.nodes.values().filter_map(|node| match &node.hold {
        Some(Hold::CoolingDown { until }) => Some(*until),
        _ => None,
    });
    let idle = planned.view.idle.next;
    steps.chain(blocked).chain(cooling).chain(idle).chain(input.obstacles.settling(input.now)).min()
}
