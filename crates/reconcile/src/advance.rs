//! The next safe step of every node, whoever changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use observe::NodeView;
use observe::memory::Memory;
use planner::check::CheckedPlan;
use planner::names::{NodeName, PolicyName};
use planner::plan::NodeStep;
use planner::policy::{Drain, LayoutPolicy, Policy};
use rollout::fleet::{Member, step};
use rollout::observed::Observed;
use rollout::{
    Action, Advance, NodeLayout, Outlook, Phase, Progress, SharingWanted, StartBlocker, WantedSlices,
};

use crate::input::{Input, RefusedWrite};
use crate::planned_round::PlannedRound;
use crate::seen::NodeReader;
use crate::wanted::{wanted, wanted_slices};

/// What is due for every node of which something is known or remembered.
///
/// When the checker found the plan wrong, nothing that it asks for is begun,
/// what can be taken back is taken back, and a node past the point of return
/// waits where it is.
#[must_use]
pub fn advance(input: &Input<'_>, planned: &PlannedRound) -> BTreeMap<NodeName, Advance> {
    let reader = NodeReader::new(input, planned);
    let plan = planned.plan.checked();
    let steps = plan.map(CheckedPlan::steps).unwrap_or_default();
    let nodes: Vec<Known> =
        names(planned).into_iter().filter_map(|name| Known::read(name, &steps, planned, &reader)).collect();
    let members: Vec<Member<'_>> = nodes
        .iter()
        .map(|known| {
            let policy = policy_of(&known.name, &known.progress, input, planned);
            Member {
                node: known.name.clone(),
                drain: drain(planned, policy.as_ref(), steps.get(&known.name).copied()),
                policy,
                seen: &known.seen,
                wanted: known.wanted.as_ref(),
                slices: known.slices.as_ref(),
                sharing: known.sharing.as_ref(),
                progress: &known.clocked,
            }
        })
        .collect();
    let settings = &input.settings.rollout;
    let mut advances = match plan {
        Some(plan) => step(&members, &planned.view.rollouts, &plan.order(), settings, input.now),
        None => {
            let mut policies = planned.view.rollouts.clone();
            policies.values_mut().for_each(|policy| policy.enforce = false);
            let mut advances = step(&members, &policies, &[], settings, input.now);
            nodes.iter().for_each(|known| begin_nothing(&mut advances, known));
            advances
        }
    };
    for known in &nodes {
        let Some(advance) = advances.get_mut(&known.name) else { continue };
        if let Some(hold) = stands_still(input) {
            stand_still(advance, known, hold);
        } else if let Some(hold) = kept_from_writing(known, advance, input) {
            wait_for_leave(advance, known, hold);
        }
    }
    advances
}

/// Without a plan that may be acted upon, a node waits where it is rather than
/// that anybody loses something.
fn begin_nothing(advances: &mut BTreeMap<NodeName, Advance>, known: &Known) {
    if let Some(advance) = advances.get_mut(&known.name)
        && advance.actions.iter().any(Action::is_disruptive)
    {
        advance.progress = known.progress.clone();
        advance.actions.clear();
        advance.change = known.change();
    }
}

/// What is due for a node and cannot be written: the API server refuses to take
/// it, or somebody else undoes it.
fn kept_from_writing(known: &Known, advance: &Advance, input: &Input<'_>) -> Option<StartBlocker> {
    let local = input.local.get(&known.name);
    let needs_map = || advance.actions.iter().any(|action| matches!(action, Action::EnsureMapEntry { .. }));
    let needs_plugin_map =
        || advance.actions.iter().any(|action| matches!(action, Action::EnsurePluginConfig { .. }));
    let refused = local
        .and_then(|local| local.refused.clone())
        .or_else(|| input.obstacles.map.clone().filter(|_| needs_map()))
        .or_else(|| input.obstacles.plugin_map.clone().filter(|_| needs_plugin_map()));
    let refused = refused.map(|RefusedWrite { write, words }| StartBlocker::WriteRefused { write, words });
    let undone = || {
        let what = format!("the status of GpuNode {}", known.name);
        local.and_then(|local| local.undone).map(|times| StartBlocker::WriteUndone { what, times })
    };
    refused.or_else(undone)
}

/// While what we write is refused or undone, the same write is tried again and
/// the node's clock stands still: a refusal is no observation that did not come
/// in time, and no deadline moves.
fn wait_for_leave(advance: &mut Advance, known: &Known, hold: StartBlocker) {
    if advance.progress.phase == known.progress.phase {
        advance.progress.since = known.progress.since;
    }
    if matches!(advance.outlook, Outlook::Working { .. } | Outlook::Idle) {
        advance.outlook = Outlook::Holding(hold);
    }
}

/// What keeps anything from being done to a node, whatever is due.
fn stands_still(input: &Input<'_>) -> Option<StartBlocker> {
    input.obstacles.settling(input.now).map(|until| StartBlocker::Settling { until })
}

/// Nothing is done to a node, and nothing is remembered of what would be: it
/// is where it was.
fn stand_still(advance: &mut Advance, known: &Known, hold: StartBlocker) {
    advance.progress = known.progress.clone();
    advance.actions.clear();
    advance.change = known.change();
    // What holds the node anyway, or failed, is told as ever.
    if matches!(advance.outlook, Outlook::Working { .. }) {
        advance.outlook = Outlook::Holding(hold);
    }
}

/// One node, and what is wanted of it.
struct Known {
    name: NodeName,
    seen: Observed,
    wanted: Option<NodeLayout>,
    /// The slices that are wanted, where an agent changes the node.
    slices: Option<WantedSlices>,
    /// How its GPUs should be shared, where a policy says so.
    sharing: Option<SharingWanted>,
    progress: Progress,
    /// The same, with a clock that stands still while a write is refused.
    clocked: Progress,
}

impl Known {
    fn read(
        name: NodeName,
        steps: &BTreeMap<&NodeName, &NodeStep>,
        planned: &PlannedRound,
        reader: &NodeReader<'_>,
    ) -> Option<Self> {
        let seen = reader.node(&name)?;
        let step = steps.get(&name).copied().zip(planned.view.inventory.nodes.get(&name));
        let wanted = step.map(|(step, node)| wanted(step, node, &reader.models(&name)));
        let slices = step.map(|(step, _)| wanted_slices(step));
        let progress = reader.by_the_clock(&name, planned.progress_of(&name));
        let mut clocked = progress.clone();
        if reader.is_refused(&name) && clocked.phase != Phase::Idle {
            clocked.since = Some(reader.now());
        }
        let shared = planned.view.nodes.get(&name).and_then(|node| node.shared.as_ref());
        let sharing = shared.and_then(|shared| shared.wanted.clone());
        Some(Self { name, seen, wanted, slices, sharing, progress, clocked })
    }

    /// What the agent is told now.
    fn change(&self) -> Option<agent::Wish> {
        self.seen.agent.as_ref().and_then(|agent| agent.wish.clone())
    }
}

/// The nodes that we look after: those with GPUs, and those of which a
/// rollout is remembered. One whose memory cannot be read is left alone.
fn names(planned: &PlannedRound) -> Vec<NodeName> {
    let is_ours = |(name, view): &(&NodeName, &Arc<NodeView>)| {
        let Memory { progress, unreadable, swapped: _ } = &view.memory;
        (planned.view.inventory.nodes.contains_key(name) || *progress != Progress::default())
            && unreadable.is_none()
    };
    planned.view.nodes.iter().filter(is_ours).map(|(name, _)| name.clone()).collect()
}

/// The policy of a node. Until its rollout ends a node belongs to the policy
/// that began it, even if its labels change meanwhile.
#[must_use]
pub fn policy_of(
    node: &NodeName,
    progress: &Progress,
    input: &Input<'_>,
    planned: &PlannedRound,
) -> Option<PolicyName> {
    let began = input.objects.gpu_nodes.get(&node.0).and_then(|n| n.spec.policy.clone()).map(PolicyName);
    let began = began.filter(|name| planned.view.policies.iter().any(|p| p.name == *name));
    began.filter(|_| progress.phase.disrupts()).or_else(|| planned.policy_of.get(node).cloned())
}

/// Whether pods may be evicted for the step of a policy.
fn drain(planned: &PlannedRound, policy: Option<&PolicyName>, step: Option<&NodeStep>) -> Drain {
    let policy = policy.and_then(|name| planned.view.policies.iter().find(|p| p.name == *name));
    policy.map_or(Drain::Never, |policy| drain_of(policy, step))
}

/// Static layouts, nodes that are never cut, and onboarding only: where requests decide which GPUs are
/// whole, MIG off is nothing that has to be mended, and who has one keeps it.
fn drain_of(policy: &Policy, step: Option<&NodeStep>) -> Drain {
    let evicts = match &policy.layout {
        LayoutPolicy::Static { .. } => true,
        LayoutPolicy::DemandDriven { whole_gpus, .. } => {
            whole_gpus.is_none() && step.is_some_and(|step| step.enable_mig)
        }
    };
    if evicts { policy.drain } else { Drain::Never }
}

#[cfg(test)]
mod tests {
    use planner::testing::policy;

    use super::*;

    #[test]
    fn pods_are_evicted_for_static_layouts_and_to_bring_nodes_into_use_and_for_no_request() {
        let step = |enable_mig| NodeStep {
            node: "n1".into(),
            policy: "research".into(),
            gpus: vec![],
            enable_mig,
            evicts: vec![],
            serves: vec![],
        };
        let evicts = || policy("research").evicts();
        let always = evicts().fixed(&[], &[("1g.10gb", 7)]).build();
        let on_demand = evicts().build();
        let with_whole = evicts().whole_gpus(0, 0, None).build();
        // `layout: {type: None}`: how its GPUs are shared may be changed so.
        let uncut = Policy { layout: LayoutPolicy::Static { gpus: Vec::new() }, ..evicts().build() };
        assert_eq!(drain_of(&uncut, None), Drain::Evict);
        for (policy, cuts, switches_on) in [
            (&always, Drain::Evict, Drain::Evict),
            (&on_demand, Drain::Never, Drain::Evict),
            (&with_whole, Drain::Never, Drain::Never),
        ] {
            assert_eq!(drain_of(policy, Some(&step(false))), cuts);
            assert_eq!(drain_of(policy, Some(&step(true))), switches_on);
        }
        assert_eq!(drain_of(&on_demand, None), Drain::Never);
    }
}
