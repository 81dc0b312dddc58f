//! Assigns nodes to policies. A node that several policies select belongs to the one with the highest
//! priority, and among equals to the one whose name sorts first; this is decided before anything is
//! planned.

use std::collections::BTreeMap;

use crate::inventory::Inventory;
use crate::names::{NodeName, PolicyName};
use crate::policy::Policy;
use crate::selector;

/// Which policy has which node, and which policy lost which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The policy of each node that has one.
    pub policy_of: BTreeMap<NodeName, PolicyName>,
    /// For each policy, nodes that it selects and another has: `(node, winner)`.
    pub lost: BTreeMap<PolicyName, Vec<(NodeName, PolicyName)>>,
}

impl Assignment {
    /// The nodes of a policy, by name.
    pub fn nodes_of<'a>(&'a self, policy: &'a PolicyName) -> impl Iterator<Item = &'a NodeName> + 'a {
        self.policy_of.iter().filter(move |(_, p)| *p == policy).map(|(node, _)| node)
    }
}

/// Decides for every node which policy it has. What a policy's mode is plays
/// no part: a paused policy keeps its nodes. A policy without any expression
/// selects nothing, rather than everything by mistake.
#[must_use]
pub fn policy_of(inventory: &Inventory, policies: &[Policy]) -> Assignment {
    let mut ranked: Vec<&Policy> = policies.iter().filter(|p| !p.nodes.is_empty()).collect();
    ranked.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
    let mut assignment = Assignment::default();
    for (name, node) in &inventory.nodes {
        let mut selecting = ranked.iter().filter(|p| selector::matches(&p.nodes, &node.labels));
        let Some(winner) = selecting.next() else { continue };
        assignment.policy_of.insert(name.clone(), winner.name.clone());
        for loser in selecting {
            let lost = assignment.lost.entry(loser.name.clone()).or_default();
            lost.push((name.clone(), winner.name.clone()));
        }
    }
    assignment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::{Expression, Operator};
    use crate::inventory::{ChangeScope, Node, Room};
    use crate::policy::{Drain, LayoutPolicy, Mode, Order, Unrequested};

    fn node(pool: &str) -> Node {
        Node {
            labels: BTreeMap::from([("pool".to_owned(), pool.to_owned())]),
            single_strategy: false,
            shared: BTreeMap::new(),
            whole_held: 0,
            whole_shared: None,
            taints: vec![],
            room: Room::UNLIMITED,
            other_resources: BTreeMap::new(),
            scope: ChangeScope::SliceBySlice,
            hold: None,
            schedulable: true,
            allocated: BTreeMap::new(),
            held: BTreeMap::new(),
            gpus: BTreeMap::new(),
        }
    }

    fn policy(name: &str, priority: i32, pools: &[&str]) -> Policy {
        let values = pools.iter().map(|p| (*p).to_owned()).collect();
        Policy {
            name: name.into(),
            nodes: vec![Expression { key: "pool".into(), operator: Operator::In, values }],
            priority,
            mode: Mode::Enforce,
            layout: LayoutPolicy::DemandDriven {
                namespaces: vec![],
                slices: BTreeMap::new(),
                unrequested: Unrequested::Keep,
                order: Order::MostServed,
                shares: vec![],
                whole_gpus: None,
            },
            drain: Drain::Never,
        }
    }

    #[test]
    fn priority_decides_then_the_name_and_losers_are_told() {
        let nodes = [("blade", "research"), ("tower", "teaching"), ("loner", "none")];
        let inventory = Inventory {
            nodes: nodes.iter().map(|(name, pool)| ((*name).into(), node(pool))).collect(),
            ..Inventory::default()
        };
        let policies = [
            policy("everything", 0, &["research", "teaching"]),
            policy("zeta", 5, &["research"]),
            policy("alpha", 5, &["research"]),
        ];
        let assignment = policy_of(&inventory, &policies);
        let expected: BTreeMap<NodeName, PolicyName> =
            BTreeMap::from([("blade".into(), "alpha".into()), ("tower".into(), "everything".into())]);
        assert_eq!(assignment.policy_of, expected);
        assert_eq!(assignment.lost[&"zeta".into()], [("blade".into(), "alpha".into())]);
        assert_eq!(assignment.lost[&"everything".into()], [("blade".into(), "alpha".into())]);
        assert!(!assignment.lost.contains_key(&"alpha".into()));
        assert_eq!(assignment.nodes_of(&"everything".into()).collect::<Vec<_>>(), [&"tower".into()]);
    }

    #[test]
    fn a_policy_without_a_selector_selects_nothing() {
        let inventory = Inventory {
            nodes: [("blade".into(), node("research"))].into_iter().collect(),
            ..Inventory::default()
        };
        let mut all = policy("careless", 9, &[]);
        all.nodes.clear();
        assert_eq!(policy_of(&inventory, &[all]), Assignment::default());
    }
}
