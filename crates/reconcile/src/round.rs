//! The round: what is seen and remembered, to what is due and what is said.

use std::collections::BTreeMap;

use api::GpuPartitionPolicyStatus;
use jiff::Timestamp;
use planner::inventory::Hold;
use planner::names::{NodeName, PolicyName};
use rollout::{Advance, Outlook, Progress};

use crate::advance::advance;
use crate::answers::{self, Answer};
use crate::conditions::{About, conditions};
use crate::gpu_node::{WantedGpuNode, gpu_nodes};
use crate::input::Input;
use crate::think::{Thought, think};

/// What one round found, decided and says.
#[must_use]
#[derive(Clone, Debug)]
pub struct Round {
    /// What was observed, decided and checked.
    pub thought: Thought,
    /// What is due, for every node that we look after.
    pub nodes: BTreeMap<NodeName, NodeRound>,
    /// The status of every policy, as it should be.
    pub policies: BTreeMap<PolicyName, GpuPartitionPolicyStatus>,
    /// The `GpuNode` of every node that has GPUs, as it should be.
    pub gpu_nodes: BTreeMap<NodeName, WantedGpuNode>,
    /// What everybody who asked for slices is told, in the order of the report.
    pub answers: Vec<Answer>,
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
    let thought = think(input);
    let advances = advance(input, &thought);
    let policies = policies(input, &thought, &advances);
    let gpu_nodes = gpu_nodes(input, &thought, &advances);
    let answers =
        thought.report.requests.iter().map(|r| answers::answer(r, input, &thought, &advances)).collect();
    let wake_at = wake_at(input, &thought, &advances);
    let nodes = advances
        .into_iter()
        .map(|(name, advance)| {
            let before = thought.progress_of(&name);
            (name, NodeRound { before, advance })
        })
        .collect();
    Round { thought, nodes, policies, gpu_nodes, answers, wake_at }
}

fn policies(
    input: &Input<'_>,
    thought: &Thought,
    advances: &BTreeMap<NodeName, Advance>,
) -> BTreeMap<PolicyName, GpuPartitionPolicyStatus> {
    let mut statuses = BTreeMap::new();
    for policy in &thought.policies {
        let Some(object) = input.objects.policies.get(&policy.name.0) else { continue };
        let mine = |node: &NodeName| thought.policy_of.get(node) == Some(&policy.name);
        let title = format!("GpuPartitionPolicy {}", policy.name);
        let about = About {
            policy,
            report: thought.report.policies.iter().find(|r| r.policy == policy.name),
            requests: thought
                .report
                .requests
                .iter()
                .filter(|r| r.policy.as_ref() == Some(&policy.name))
                .collect(),
            errors: thought
                .problems
                .iter()
                .filter(|p| p.object == title && p.severity == observe::Severity::Error)
                .map(|p| {
                    if p.field.is_empty() { p.message.clone() } else { format!("{}: {}", p.field, p.message) }
                })
                .collect(),
            outlooks: advances
                .iter()
                .filter(|(node, a)| mine(node) && a.outlook != Outlook::Idle)
                .map(|(node, a)| (node, &a.outlook))
                .collect(),
            left_alone: thought
                .inventory
                .nodes
                .iter()
                .filter(|(name, _)| mine(name))
                .filter_map(|(name, node)| match &node.hold {
                    Some(hold @ Hold::NotEstablished { .. }) => Some(format!("{name}: {hold}")),
                    _ => None,
                })
                .collect(),
        };
        let generation = object.metadata.generation.unwrap_or(1);
        let mut status = object.status.clone().unwrap_or_default();
        for wanted in conditions(&about) {
            api::condition::set(&mut status.conditions, wanted, generation, input.now);
        }
        statuses.insert(policy.name.clone(), status);
    }
    statuses
}

/// When something becomes due by time alone.
fn wake_at(
    input: &Input<'_>,
    thought: &Thought,
    advances: &BTreeMap<NodeName, Advance>,
) -> Option<Timestamp> {
    let steps = advances.values().filter_map(|advance| advance.wake_at);
    // A request becomes BlockedElsewhere by time alone.
    let blocked = thought
        .requests
        .iter()
        .filter(|request| request.since <= input.now)
        .map(|_| input.now + input.settings.observe.blocked_after);
    let cooling = thought.inventory.nodes.values().filter_map(|node| match &node.hold {
        Some(Hold::CoolingDown { until }) => Some(*until),
        _ => None,
    });
    steps.chain(blocked).chain(cooling).min()
}
