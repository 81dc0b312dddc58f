//! The answer to who asks for `nvidia.com/gpu` where that is a slice: on nodes with MIG strategy `single`. The
//! scheduler alone gives those slices away, and what can be said is which of them is free for this request, or why none is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mig::ProfileName;

use super::group::counts;
use super::ineligible::no_node;
use super::supply::hold;
use super::world::World;
use crate::demand::Request;
use crate::eligible::{Eligibility, judge};
use crate::inventory::{Hold, Node};
use crate::names::{NodeName, RequestId};
use crate::policy::{LayoutPolicy, Policy, rule_for};
use crate::predicted_labels::LabelsAfter;
use crate::report::{Help, Why};

/// Who comes first gets what is free: the highest priority, then the oldest, each on the first node that has enough.
/// `waiting`: whoever asks for such slices and takes no part in planning.
pub(super) fn free_for<'r>(
    world: &World<'_>,
    waiting: impl Iterator<Item = &'r Request>,
) -> BTreeMap<&'r RequestId, NodeName> {
    let is_free = |node: &Node| {
        let slices: usize = node.gpus.values().map(|gpu| gpu.slices.profiles().count()).sum();
        let held: u32 = node.allocated.values().sum();
        u32::try_from(slices).unwrap_or(u32::MAX).saturating_sub(held)
    };
    let single = world.inventory.nodes.iter().filter(|(_, node)| node.single_strategy && node.schedulable);
    let mut left: BTreeMap<&NodeName, u32> = single.map(|(name, node)| (name, is_free(node))).collect();
    let mut placed = BTreeMap::new();
    if left.is_empty() {
        return placed;
    }
    let mut waiting: Vec<&Request> = waiting.filter(|request| request.whole_gpus > 0).collect();
    waiting.sort_by_key(|request| (Reverse(request.priority), request.since, &request.id));
    for request in waiting {
        let judged = judged(world, request);
        let mut there = judged.iter().filter(|of| of.is_there && of.eligible.is_yes());
        let node = there.find(|of| left.get(of.name).is_some_and(|left| *left >= request.whole_gpus));
        if let Some(Judged { name, .. }) = node {
            left.entry(*name).and_modify(|left| *left -= request.whole_gpus);
            placed.insert(&request.id, (*name).clone());
        }
    }
    placed
}

/// A node of strategy `single` whose policy covers a request.
struct Judged<'w> {
    name: &'w NodeName,
    node: &'w Node,
    /// Whether it has its layout, and not only will have it.
    is_there: bool,
    eligible: Eligibility,
}

fn judged<'w>(world: &World<'w>, request: &Request) -> Vec<Judged<'w>> {
    let mut judged = Vec::new();
    for (name, node) in world.inventory.nodes.iter().filter(|(_, node)| node.single_strategy) {
        let policy = world.assignment.policy_of.get(name);
        let policy = policy.and_then(|of| world.policies.iter().find(|policy| policy.name == *of));
        let Some(policy) = policy.filter(|policy| counts(policy, request)) else { continue };
        let (has, comes) = (profile_of(node), profile_to_be(policy, node));
        let after = LabelsAfter::predict_single(node, comes.or(has));
        // A node that changes is in the inventory as it will be.
        let is_as_planned = (comes.is_none() || comes == has) && !matches!(node.hold, Some(Hold::Changing));
        let is_there = is_as_planned && node.schedulable;
        judged.push(Judged { name, node, is_there, eligible: judge(request, name, node, &after) });
    }
    judged
}

/// `None` where no policy that covers the request has such a node.
pub(super) fn answer(world: &World<'_>, request: &Request) -> Option<(Why, Vec<Help>)> {
    let judged = judged(world, request);
    if judged.is_empty() {
        return None;
    }
    let may = || judged.iter().filter(|of| of.eligible.is_yes());
    if may().next().is_none() {
        // It means other nodes, of which something else has to be said.
        let mut others = world.inventory.nodes.iter().filter(|(_, node)| !node.single_strategy);
        let is_yes = |(name, node): (&NodeName, &Node)| {
            judge(request, name, node, &LabelsAfter::predict(node)).is_yes()
        };
        if others.any(is_yes) {
            return None;
        }
        return Some(no_node(judged.iter().map(|of| (of.name, &of.eligible))));
    }
    if may().any(|of| of.is_there) {
        return Some((Why::AllUsed, vec![]));
    }
    let held = |of: &Judged<'_>| (of.name.clone(), hold(of.node).cloned().unwrap_or(Hold::Changing));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::decide;
    use crate::inventory::Hold;
    use crate::report::{Help, Outcome, Why};
    use crate::testing::{NodeBuilder, a100_40, fleet, node, policy, request};

    const PRODUCT: &str = "nvidia.com/gpu.product";

    /// A node of one GPU under strategy `single`, labelled as it is cut now.
    fn single(profile: &str, slices: usize) -> NodeBuilder {
        let cut = a100_40().counted_maybe(profile, slices, &["a"]);
        let product = format!("NVIDIA-A100-SXM4-40GB-MIG-{profile}");
        node().single_strategy().label(PRODUCT, &product).gpu(cut)
    }

    /// Why somebody who selects a product is not served on such a node, where a policy cuts it into sevenths.
    fn unserved(node: NodeBuilder, product: &str) -> (Why, Vec<Help>) {
        let asks = request("vectoradd").asks_whole_gpus(1).selects(PRODUCT, product).build();
        match outcomes(node, &[asks]).pop() {
            Some(Outcome::Unserved { why, help }) => (why, help),
            served => panic!("nothing is free for it: {served:?}"),
        }
    }

    /// What those who ask are told, from the highest priority and the oldest on.
    fn outcomes(node: NodeBuilder, asking: &[Request]) -> Vec<Outcome> {
        let inventory = fleet().node("n1", node).build();
        let sevenths = policy("research").fixed(&[], &[("1g.5gb", 7)]).build();
        let report = decide(&inventory, asking, &[sevenths]).report;
        report.requests.into_iter().map(|request| request.outcome).collect()
    }

    /// The node as it is with pods that hold some of its slices.
    fn with_held(held: u32) -> NodeBuilder {
        single("1g.5gb", 7).allocated("1g.5gb", held)
    }

    #[test]
    fn what_is_free_is_for_who_comes_first_and_the_next_is_told_that_nothing_is() {
        let now = || Outcome::ServedNow { node: "n1".into(), gpus: vec![] };
        let all_used = || Outcome::Unserved { why: Why::AllUsed, help: vec![] };
        let asks = |name: &str, n: u32, since: i64| request(name).asks_whole_gpus(n).since(since).build();
        assert_eq!(outcomes(with_held(0), &[asks("a", 1, 5)]), [now()]);
        let two = [asks("young", 2, 9), asks("old", 2, 1)];
        assert_eq!(outcomes(with_held(3), &two), [now(), now()]);
        assert_eq!(outcomes(with_held(4), &two), [now(), all_used()]);
        assert_eq!(outcomes(with_held(6), &two), [all_used(), all_used()]);
        let cordoned = with_held(0).unschedulable().held(Hold::Cordoned { by: "admin".to_owned() });
        let [Outcome::Unserved { why: Why::Held { .. }, .. }] = &outcomes(cordoned, &[asks("a", 1, 5)])[..]
        else {
            panic!("nobody can be bound to it");
        };
    }

    #[test]
    fn a_selector_that_no_node_will_match_is_told_with_the_label_that_the_node_will_have() {
        for node in [single("1g.5gb", 7), single("7g.40gb", 1)] {
            let (why, help) = unserved(node, "A100-SXM4-40GB-MIG-1g.5gb");
            assert_eq!(why, Why::NoEligibleNode);
            let [Help::ChangeRequest { advice }] = help.as_slice() else { panic!("{help:?}") };
            let has = "has label nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb (wanted: A100-SXM4-40GB-MIG-1g.5gb)";
            assert!(advice.ends_with(has), "{advice}");
        }
    }

    #[test]
    fn who_selects_what_there_is_waits_for_a_slice_or_for_the_layout() {
        let wanted = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb";
        assert_eq!(unserved(with_held(7), wanted), (Why::AllUsed, vec![]));
        let changes = Why::Held { nodes: vec![("n1".into(), Hold::Changing)] };
        assert_eq!(unserved(single("7g.40gb", 1), wanted), (changes.clone(), vec![]));
        assert_eq!(unserved(single("1g.5gb", 7).held(Hold::Changing), wanted), (changes, vec![]));
    }
}
