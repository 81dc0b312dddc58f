//! The reasons why a node is not changed, apart from its policy.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use planner::inventory::Hold;
use rollout::observed::{ManagerState, Observed};
use rollout::{OtherManager, Phase};

use crate::memory::Memory;
use crate::objects::Objects;
use crate::{names, node_labels};

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Who else manages the node's devices.
pub(crate) fn manager(node: &Node, objects: &Objects) -> Option<OtherManager> {
    let none = BTreeMap::new();
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let resources = capacity.into_iter().chain(allocatable).flatten().map(|(resource, _)| resource);
    node_labels::manager(objects.gpu_cluster, node.metadata.labels.as_ref().unwrap_or(&none), resources)
}

/// Whether a node is cordoned, for the planner. Our own cordon on a node that
/// can still be taken back is no reason to plan around it.
pub(crate) fn is_cordoned(facts: &Observed, memory: &Memory) -> bool {
    let progress = &memory.progress;
    facts.unschedulable && !(progress.phase.can_return() && facts.cordoned_by_us(progress))
}

/// The first reason to leave a node alone. The order is that of how long it
/// will probably last, the longest first.
pub(crate) fn first_hold(node: &Node, facts: &Observed, memory: &Memory, now: Timestamp) -> Option<Hold> {
    let Memory { progress, unreadable, swapped: _ } = memory;
    if let Some(error) = unreadable {
        return Some(Hold::NotEstablished { why: error.to_string() });
    }
    let other_manager = facts.manager.map(|who| Hold::HandsOff { who: who.to_string() });
    other_manager
        .or_else(|| failed(memory))
        .or_else(|| {
            let found = facts.operands.config.as_deref().unwrap_or_default();
            // That one nobody else writes: it says that the agent has the node.
            let is_foreign = found != names::HANDED_TO_AGENT
                && progress.applied.as_deref().is_some_and(|ours| ours != found);
            is_foreign.then(|| Hold::ForeignLayout { label: found.to_owned() })
        })
        .or_else(|| facts.work.as_ref().map(|work| Hold::ForeignWork { who: work.to_string() }))
        .or_else(|| is_changing(node, facts, memory).then_some(Hold::Changing))
        .or_else(|| {
            let theirs = is_cordoned(facts, memory);
            theirs.then(|| Hold::Cordoned { by: "somebody else".to_owned() })
        })
        .or_else(|| (!facts.ready).then_some(Hold::NotReady))
        .or_else(|| offers_otherwise(facts, memory, now))
        .or_else(|| {
            let until = progress.cooldown_until.filter(|until| *until > now)?;
            Some(Hold::CoolingDown { until })
        })
}

/// Kubelet does not offer what the agent reports: a request that counts on one of the slices would wait for good. As long
/// as a plugin's restart may be the reason, the report is believed.
pub(crate) fn offers_otherwise(facts: &Observed, memory: &Memory, now: Timestamp) -> Option<Hold> {
    let alive = facts.agent.as_ref().is_some_and(|agent| agent.alive);
    let since = memory.progress.offers_otherwise_since.filter(|_| alive)?;
    let lasts = now >= since + rollout::Settings::default().stable_for;
    lasts.then(|| Hold::NotEstablished {
        why: "it offers other slices than its agent reports, so that nobody can say which a pod may get"
            .to_owned(),
    })
}

/// When another of these reasons holds by time alone, or no longer holds.
pub(crate) fn turns_at(memory: &Memory, now: Timestamp) -> Option<Timestamp> {
    let Memory { progress, .. } = memory;
    let doubted =
        progress.offers_otherwise_since.map(|since| since + rollout::Settings::default().stable_for);
    progress.cooldown_until.into_iter().chain(doubted).filter(|at| *at > now).min()
}

fn failed(memory: &Memory) -> Option<Hold> {
    let progress = &memory.progress;
    let why = match progress.phase {
        Phase::Failed => {
            let failed = progress.failed.as_ref().map(ToString::to_string);
            let last = || progress.last_error.as_ref().map(ToString::to_string);
            failed.or_else(last).unwrap_or_else(|| "a change of it failed".to_owned())
        }
        Phase::Released => "an administrator ended its rollout".to_owned(),
        _ => return None,
    };
    Some(Hold::Failed { why })
}

/// Whether a node is between two layouts, by our doing or somebody else's, so
/// that it cannot be taken back.
fn is_changing(node: &Node, facts: &Observed, memory: &Memory) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&none);
    !memory.progress.phase.can_return()
        || is_busy(labels, &facts.operands.state)
        || is_cordoned(facts, memory) && node_labels::has_any_mark(labels, annotations)
}

/// Whether the operands of a node are at work, or parked for somebody's.
pub(crate) fn is_busy(labels: &BTreeMap<String, String>, state: &ManagerState) -> bool {
    matches!(state, ManagerState::Pending | ManagerState::Rebooting)
        || node_labels::has_parked_operand(labels)
}
