//! The answer to who asks for `nvidia.com/gpu` where that is a slice: on nodes with MIG strategy `single`. The
//! scheduler alone gives those slices away, and what can be said is why none of them is for this request.

use std::sync::Arc;

use mig::ProfileName;

use super::group::counts;
use super::ineligible::no_node;
use super::supply::hold;
use super::world::World;
use crate::demand::Request;
use crate::eligible::{Eligibility, judge};
use crate::inventory::{Hold, Node};
use crate::names::NodeName;
use crate::policy::{LayoutPolicy, Policy, rule_for};
use crate::predicted_labels::LabelsAfter;
use crate::report::{Help, Why};

/// `None` where no policy that covers the request has such a node.
pub(super) fn answer(world: &World<'_>, request: &Request) -> Option<(Why, Vec<Help>)> {
    let mut judged: Vec<(&NodeName, &Node, bool, Eligibility)> = Vec::new();
    for (name, node) in world.inventory.nodes.iter().filter(|(_, node)| node.single_strategy) {
        let policy = world.assignment.policy_of.get(name);
        let policy = policy.and_then(|of| world.policies.iter().find(|policy| policy.name == *of));
        let Some(policy) = policy.filter(|policy| counts(policy, request)) else { continue };
        let (has, comes) = (profile_of(node), profile_to_be(policy, node));
        let after = LabelsAfter::predict_single(node, comes.or(has));
        judged.push((name, node, comes.is_none() || comes == has, judge(request, name, node, &after)));
    }
    if judged.is_empty() {
        return None;
    }
    let may = || judged.iter().filter(|(_, _, _, eligible)| eligible.is_yes());
    if may().next().is_none() {
        let eligible: Arc<[Eligibility]> = judged.iter().map(|(.., eligible)| eligible.clone()).collect();
        return Some(no_node(&eligible));
    }
    if may().any(|(_, _, is_there, _)| *is_there) {
        return Some((Why::AllUsed, vec![]));
    }
    let held = |(name, node, ..): &(&NodeName, &Node, bool, Eligibility)| {
        ((*name).clone(), hold(node).cloned().unwrap_or(Hold::Changing))
    };
    Some((Why::Held { nodes: may().map(held).collect() }, vec![]))
}

/// What all GPUs of a node are cut into now, if it is the same.
fn profile_of(node: &Node) -> Option<ProfileName> {
    let mut all = node.gpus.values().flat_map(|gpu| gpu.slices.profiles());
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// What a static layout cuts them into. Under `single` it is one profile on all GPUs of a node.
fn profile_to_be(policy: &Policy, node: &Node) -> Option<ProfileName> {
    let LayoutPolicy::Static { gpus: rules } = &policy.layout else { return None };
    let (index, gpu) = node.gpus.iter().next()?;
    let rule = rule_for(rules, &gpu.model, *index)?;
    rule.cut.slices().map(|(profile, _)| profile).next()
}
