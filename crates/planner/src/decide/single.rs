//! The answer to who asks for `nvidia.com/gpu` where that is a slice: on nodes with MIG strategy `single`. The
//! scheduler alone gives those slices away, and what can be said is why none of them is for this request.

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
        // A node that changes is in the inventory as it will be.
        let is_there = (comes.is_none() || comes == has) && !matches!(node.hold, Some(Hold::Changing));
        judged.push((name, node, is_there, judge(request, name, node, &after)));
    }
    if judged.is_empty() {
        return None;
    }
    let may = || judged.iter().filter(|(_, _, _, eligible)| eligible.is_yes());
    if may().next().is_none() {
        // It means other nodes, of which something else has to be said.
        let mut others = world.inventory.nodes.iter().filter(|(_, node)| !node.single_strategy);
        let is_yes = |(name, node): (&NodeName, &Node)| {
            judge(request, name, node, &LabelsAfter::predict(node)).is_yes()
        };
        if others.any(is_yes) {
            return None;
        }
        return Some(no_node(judged.iter().map(|(name, .., eligible)| (*name, eligible))));
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

#[cfg(test)]
mod tests {
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
        let inventory = fleet().node("n1", node).build();
        let asks = request("vectoradd").asks_whole_gpus(1).selects(PRODUCT, product).build();
        let sevenths = policy("research").fixed(&[], &[("1g.5gb", 7)]).build();
        let report = decide(&inventory, &[asks], &[sevenths]).report;
        match report.requests.into_iter().next().map(|request| request.outcome) {
            Some(Outcome::Unserved { why, help }) => (why, help),
            served => panic!("nothing is planned for it: {served:?}"),
        }
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
        assert_eq!(unserved(single("1g.5gb", 7), wanted), (Why::AllUsed, vec![]));
        let changes = Why::Held { nodes: vec![("n1".into(), Hold::Changing)] };
        assert_eq!(unserved(single("7g.40gb", 1), wanted), (changes.clone(), vec![]));
        assert_eq!(unserved(single("1g.5gb", 7).held(Hold::Changing), wanted), (changes, vec![]));
    }
}
