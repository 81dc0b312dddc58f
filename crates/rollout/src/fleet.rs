//! Decides over all nodes which may start now, and states for the others why not and when.
//!
//! A node applies when only the budget prevents it from starting; only nodes that apply use up the budget,
//! so a node that waits for a pod does not delay the nodes behind it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use planner::names::{NodeName, PolicyName};
use planner::policy::Drain;

use crate::advance::{Advance, advance_sharing, advance_slices};
use crate::agent_seen::WantedSlices;
use crate::layout::NodeLayout;
use crate::observed::Observed;
use crate::outlook::{Outlook, StartBlocker};
use crate::progress::{Phase, Progress};
use crate::rules::{Admission, NodeRules, RolloutRules, Settings};
use crate::sharing::SharingWanted;
use crate::window;

/// One node of the fleet.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub node: NodeName,
    /// Its policy. A node belongs to it until its rollout ends.
    pub policy: Option<PolicyName>,
    /// What is seen of it.
    pub seen: &'a Observed,
    /// The layout that it should have.
    pub wanted: Option<&'a NodeLayout>,
    /// The slices that it should have, where its agent changes them.
    pub slices: Option<&'a WantedSlices>,
    /// How its GPUs should be shared, where its policy says so.
    pub sharing: Option<&'a SharingWanted>,
    /// What is remembered of its rollout.
    pub progress: &'a Progress,
    /// Whether this change may evict: the policy's `drain` for static layouts
    /// and onboarding, else `Never`.
    pub drain: Drain,
}

/// What a policy says of rollouts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRollout {
    /// Its rules.
    pub rules: RolloutRules,
    /// Whether it is in force (`mode: Enforce`).
    pub enforce: bool,
}

impl Member<'_> {
    /// Down for any reason: not ready, cordoned by anybody, or on its way.
    #[must_use]
    pub fn unavailable(&self) -> bool {
        !self.seen.ready || self.seen.unschedulable || self.progress.phase.disrupts()
    }
}

/// The next step of every node. `order` is the plan's: earlier nodes are worth
/// more; nodes that it does not name come after, by name.
#[must_use]
pub fn step(
    members: &[Member<'_>],
    policies: &BTreeMap<PolicyName, PolicyRollout>,
    order: &[NodeName],
    settings: &Settings,
    now: Timestamp,
) -> BTreeMap<NodeName, Advance> {
    let ask = StartBlocker::Budget { unavailable: 0, allowed: 0, nodes: Vec::new() };
    let asks: Vec<_> = members
        .iter()
        .filter(|member| {
            let held = Admission::Held(ask.clone());
            let answer = run(member, policies, held, settings, now);
            let ready = answer.progress.phase == Phase::Mapping || member.seen.agent.is_some();
            ready && answer.outlook == Outlook::Holding(ask.clone())
        })
        .map(|member| member.node.clone())
        .collect();
    let admissions = admit(members, &asks, policies, order, now);
    members
        .iter()
        .map(|member| {
            let admission = admissions.get(&member.node).cloned();
            let admission = admission.unwrap_or(Admission::Held(StartBlocker::NotEnforced));
            (member.node.clone(), run(member, policies, admission, settings, now))
        })
        .collect()
}

fn run(
    member: &Member<'_>,
    policies: &BTreeMap<PolicyName, PolicyRollout>,
    admission: Admission,
    settings: &Settings,
    now: Timestamp,
) -> Advance {
    let policy = member.policy.as_ref().and_then(|name| policies.get(name));
    let enforced = policy.is_some_and(|policy| policy.enforce);
    let rests = |how_long: &dyn Fn(&RolloutRules) -> SignedDuration| {
        policy.map_or(SignedDuration::ZERO, |policy| how_long(&policy.rules))
    };
    let rules = NodeRules {
        admission: if enforced { admission } else { Admission::Held(StartBlocker::NotEnforced) },
        drain: member.drain,
        cooldown: rests(&|rules| rules.cooldown(member.seen.agent.is_some())),
        cooldown_of_sharing: rests(&RolloutRules::cooldown_of_sharing),
        settings: *settings,
    };
    match &member.seen.agent {
        Some(_) => advance_slices(member.seen, member.slices, &rules, member.progress, now),
        None => advance_sharing(member.seen, member.wanted, member.sharing, &rules, member.progress, now),
    }
}

/// Who may start, of those that ask; nodes that have started go on while
/// their window is open. Every member gets an answer.
#[must_use]
pub fn admit(
    members: &[Member<'_>],
    asks: &[NodeName],
    policies: &BTreeMap<PolicyName, PolicyRollout>,
    order: &[NodeName],
    now: Timestamp,
) -> BTreeMap<NodeName, Admission> {
    let mut answers = BTreeMap::new();
    for (name, policy) in policies {
        let mine: Vec<_> = members.iter().filter(|member| member.policy.as_ref() == Some(name)).collect();
        let windows = &policy.rules.windows;
        let held = if !policy.enforce {
            Some(StartBlocker::NotEnforced)
        } else if window::is_open(windows, now) {
            None
        } else {
            Some(StartBlocker::Window { opens: window::next_open(windows, now) })
        };
        if let Some(hold) = held {
            answers.extend(mine.iter().map(|member| (member.node.clone(), Admission::Held(hold.clone()))));
            continue;
        }
        let allowed = policy.rules.max_unavailable.scaled_to(mine.len());
        let mut down: Vec<_> =
            mine.iter().filter(|member| member.unavailable()).map(|member| member.node.clone()).collect();
        down.sort();
        let mut queue: Vec<_> = mine.iter().map(|member| &member.node).collect();
        queue.sort_by_key(|node| {
            let place = order.iter().position(|other| other == *node).unwrap_or(order.len());
            (place, (*node).clone())
        });
        for node in queue {
            let started = mine.iter().any(|member| member.node == *node && member.progress.phase.disrupts());
            let admission = if started {
                Admission::Admitted
            } else if asks.contains(node) && down.len() < allowed {
                down.push(node.clone());
                Admission::Admitted
            } else {
                Admission::Held(StartBlocker::Budget {
                    unavailable: down.len(),
                    allowed,
                    nodes: down.clone(),
                })
            };
            answers.insert(node.clone(), admission);
        }
    }
    answers
}

/// A change as the estimate needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The node.
    pub node: NodeName,
    /// Its policy.
    pub policy: PolicyName,
    /// MIG goes on or off: all GPUs of the node are reset.
    pub mode_change: bool,
    /// How many pods are evicted.
    pub evicts: usize,
}

/// When nodes are expected to change: those of one wave at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wave {
    /// The nodes, in the plan's order.
    pub nodes: Vec<NodeName>,
    /// When it starts; `None` when no window opens, or the budget is zero.
    pub starts: Option<Timestamp>,
    /// When its last node is open again.
    pub ends: Option<Timestamp>,
}

/// Seconds that MIG manager takes to park the operands (5 to 40 are seen).
pub const PARK: SignedDuration = SignedDuration::from_secs(40);
/// Cutting the GPUs of a node anew (1 to 5 are seen).
pub const CUT: SignedDuration = SignedDuration::from_secs(5);
/// Switching MIG on, with the reset (10 to 60 are seen).
pub const SWITCH: SignedDuration = SignedDuration::from_secs(60);
/// From success until kubelet offers the slices (10 to 60 are seen).
pub const OFFER: SignedDuration = SignedDuration::from_secs(60);
/// From there until GPU feature discovery's labels follow (5 to 70 are seen).
pub const LABELS: SignedDuration = SignedDuration::from_secs(70);
/// How long evicted pods take to go: twice the default grace period.
pub const EVICTION: SignedDuration = SignedDuration::from_secs(60);

/// How long one node is expected to be away; the slow end of what is seen.
#[must_use]
pub fn node_time(change: &PlannedChange, settings: &Settings) -> SignedDuration {
    let evict = if change.evicts > 0 { EVICTION } else { SignedDuration::ZERO };
    let cut = if change.mode_change { SWITCH } else { CUT };
    settings.cordon_settle + evict + PARK + cut + OFFER + LABELS + settings.stable_for
}

/// The waves of a plan, per policy, in the plan's order. `unavailable` are
/// nodes that are down already, by policy, and `nodes` how many each has.
#[must_use]
pub fn estimate(
    changes: &[PlannedChange],
    policies: &BTreeMap<PolicyName, PolicyRollout>,
    nodes: &BTreeMap<PolicyName, usize>,
    unavailable: &BTreeMap<PolicyName, usize>,
    settings: &Settings,
    now: Timestamp,
) -> BTreeMap<PolicyName, Vec<Wave>> {
    let mut answer = BTreeMap::new();
    for (name, policy) in policies {
        let mine: Vec<_> = changes.iter().filter(|change| change.policy == *name).collect();
        let total = nodes.get(name).copied().unwrap_or(mine.len());
        let down = unavailable.get(name).copied().unwrap_or(0);
        let room = policy.rules.max_unavailable.scaled_to(total).saturating_sub(down);
        let mut ready = Some(now + settings.map_settle);
        let mut waves = Vec::new();
        for wave in mine.chunks(room.max(1)) {
            let names = wave.iter().map(|change| change.node.clone()).collect();
            let free = ready.filter(|_| room > 0 && policy.enforce);
            let starts = free.and_then(|at| window::next_open(&policy.rules.windows, at));
            let longest = wave.iter().map(|change| node_time(change, settings)).max().unwrap_or_default();
            let ends = starts.map(|at| at + longest);
            ready = ends;
            waves.push(Wave { nodes: names, starts, ends });
        }
        if !waves.is_empty() {
            answer.insert(name.clone(), waves);
        }
    }
    answer
}
