//! What a fleet is worth: the levels of the objective, in their order.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use planner::demand::Request;
use planner::eligible::{LabelsAfter, judge};
use planner::inventory::{Inventory, Node};
use planner::names::NodeName;
use planner::policy::{Bounds, LayoutPolicy, Policy, Unrequested};
use planner::selector;

use super::{Choice, apply};

/// The levels of the objective; lower is better, and the first that differs decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Values {
    /// Slices missing to `minCount`.
    pub(crate) floors: u32,
    /// Compute slices unserved, by priority, highest first.
    pub(crate) unserved: Vec<u32>,
    /// Ranks of the unserved; the youngest of all that wait has rank 1.
    pub(crate) age: u32,
    /// Slices missing to `spareCount`.
    pub(crate) spare: u32,
    /// GPUs that are not one full-size slice where the policy wants that.
    pub(crate) not_whole: u32,
    /// GPUs changed.
    pub(crate) changed: u32,
    /// Compute slices without a slice on GPUs that change as a whole.
    pub(crate) stranded: u32,
    /// Slices created and destroyed.
    pub(crate) operations: u32,
}

/// A request, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// The position of its priority, highest first.
    level: usize,
    compute: u32,
    rank: u32,
    slices: Vec<u32>,
    /// Which nodes it may use.
    may: Vec<bool>,
}

/// Who wants what where.
pub(crate) struct Demand<'a> {
    /// The profiles that matter to anybody.
    pub(crate) profiles: Vec<ProfileName>,
    nodes: Vec<(&'a NodeName, &'a Node)>,
    owner: BTreeMap<&'a NodeName, &'a Policy>,
    /// Highest priority first.
    wishes: Vec<Wish>,
    levels: usize,
    /// `(nodes, profile, bounds, how many there are now)`.
    bounds: Vec<(Vec<bool>, usize, Bounds, u32)>,
}

pub(crate) fn distinct(profiles: &[ProfileName]) -> BTreeSet<ProfileName> {
    profiles.iter().copied().collect()
}

impl<'a> Demand<'a> {
    pub(crate) fn new(inventory: &'a Inventory, requests: &'a [Request], policies: &'a [Policy]) -> Self {
        let nodes: Vec<_> = inventory.nodes.iter().collect();
        let owner: BTreeMap<&NodeName, &Policy> = nodes
            .iter()
            .filter_map(|(name, node)| {
                let mut selecting: Vec<&Policy> =
                    policies.iter().filter(|p| selector::matches(&p.nodes, &node.labels)).collect();
                selecting.sort_by_key(|p| (std::cmp::Reverse(p.priority), &p.name));
                Some((*name, *selecting.first()?))
            })
            .collect();
        let counted: Vec<&Request> =
            requests.iter().filter(|r| r.whole_gpus == 0 && r.blocked_elsewhere.is_none()).collect();
        let mut profiles: BTreeSet<ProfileName> =
            counted.iter().flat_map(|r| r.slices.keys().copied()).collect();
        for policy in policies {
            if let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout {
                profiles.extend(slices.keys());
            }
        }
        let profiles: Vec<ProfileName> = profiles.into_iter().collect();
        let priorities: BTreeSet<_> = counted.iter().map(|r| std::cmp::Reverse(r.priority)).collect();
        let mut by_age = counted.clone();
        by_age.sort_by_key(|r| std::cmp::Reverse((r.since, r.id.clone())));
        let mut wishes: Vec<Wish> = counted
            .iter()
            .map(|request| {
                let level = priorities.iter().position(|p| p.0 == request.priority).expect("collected");
                let slices: Vec<u32> =
                    profiles.iter().map(|p| request.slices.get(p).copied().unwrap_or(0)).collect();
                let compute = request.slices.iter().map(|(p, n)| u32::from(p.compute) * n).sum();
                let may = |(name, node): &(&NodeName, &Node)| {
                    let counts = owner.get(name).is_none_or(|policy| match &policy.layout {
                        LayoutPolicy::DemandDriven { namespaces, .. } => {
                            selector::matches(namespaces, &request.namespace_labels)
                        }
                        LayoutPolicy::Static { .. } => true,
                    });
                    counts && node.schedulable && judge(request, name, node, &LabelsAfter::of(node)).is_yes()
                };
                let rank = 1 + by_age.iter().position(|r| r.id == request.id).expect("sorted");
                let rank = u32::try_from(rank).expect("few");
                Wish { level, compute, rank, slices, may: nodes.iter().map(may).collect() }
            })
            .collect();
        wishes.sort();
        let mut bounds = Vec::new();
        for policy in policies {
            let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout else { continue };
            let mine: Vec<bool> = nodes
                .iter()
                .map(|(name, _)| owner.get(name).is_some_and(|o| o.name == policy.name))
                .collect();
            for (profile, bound) in slices {
                let index = profiles.iter().position(|p| p == profile).expect("collected");
                let of_node = |(_, node): &(&NodeName, &Node)| -> usize {
                    node.gpus.values().flat_map(apply::profiles).filter(|p| p == profile).count()
                };
                let now: usize =
                    nodes.iter().zip(&mine).filter(|(_, mine)| **mine).map(|(n, _)| of_node(n)).sum();
                bounds.push((mine.clone(), index, *bound, u32::try_from(now).expect("few")));
            }
        }
        let levels = priorities.len();
        Self { profiles, nodes, owner, wishes, levels, bounds }
    }

    /// What is worth creating under a policy: what it lists, what is asked for
    /// on its nodes, and what is in use there; never what it caps at nothing.
    pub(crate) fn menu(&self, policy: &Policy) -> BTreeSet<ProfileName> {
        let mine = |name: &NodeName| self.policy_of(name).is_some_and(|p| p.name == policy.name);
        let mut menu = BTreeSet::new();
        for (i, (_, node)) in self.nodes.iter().enumerate().filter(|(_, (name, _))| mine(name)) {
            for wish in self.wishes.iter().filter(|wish| wish.may[i]) {
                menu.extend(self.profiles.iter().zip(&wish.slices).filter(|(_, n)| **n > 0).map(|(p, _)| *p));
            }
            menu.extend(node.allocated.iter().filter(|(_, n)| **n > 0).map(|(p, _)| *p));
        }
        if let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout {
            menu.extend(slices.keys());
            menu.retain(|profile| slices.get(profile).is_none_or(|bounds| bounds.max != Some(0)));
        }
        menu
    }

    pub(crate) fn policy_of(&self, node: &NodeName) -> Option<&'a Policy> {
        self.owner.get(node).copied()
    }

    /// Leaves out what is never better: no more slices at no lower cost. Where
    /// a profile has a ceiling, more is not always better.
    pub(crate) fn undominated(&self, choices: BTreeMap<Vec<u32>, Choice>) -> Vec<Choice> {
        let capped: Vec<bool> = (0..self.profiles.len())
            .map(|p| self.bounds.iter().any(|(_, index, bound, _)| *index == p && bound.max.is_some()))
            .collect();
        let choices: Vec<Choice> = choices.into_values().collect();
        let beats = |a: &Choice, b: &Choice| {
            a != b
                && a.cost <= b.cost
                && (0..capped.len())
                    .all(|p| if capped[p] { a.counts[p] == b.counts[p] } else { a.counts[p] >= b.counts[p] })
        };
        choices.iter().filter(|b| !choices.iter().any(|a| beats(a, b))).cloned().collect()
    }

    /// The values of a fleet with so many slices of each profile on each node,
    /// if it is allowed and better than `limit`.
    pub(crate) fn values(&self, counts: &[&[u32]], cost: [u32; 4], limit: Option<&Values>) -> Option<Values> {
        let mut floors = 0;
        let mut spare_missing = Vec::new();
        for (mine, profile, bound, now) in &self.bounds {
            let on_mine =
                |of: &dyn Fn(usize) -> u32| -> u32 { (0..counts.len()).filter(|n| mine[*n]).map(of).sum() };
            let total = on_mine(&|node| counts[node][*profile]);
            if bound.max.is_some_and(|max| total > max.max(*now)) {
                return None;
            }
            floors += bound.min.saturating_sub(total);
            spare_missing.push((mine, *profile, bound.spare));
        }
        if limit.is_some_and(|limit| floors > limit.floors) {
            return None;
        }
        let mut free: Vec<Vec<u32>> = counts
            .iter()
            .zip(&self.nodes)
            .map(|(counts, (_, node))| {
                let held = |p: &ProfileName| node.allocated.get(p).copied().unwrap_or(0);
                counts.iter().zip(&self.profiles).map(|(n, p)| n.saturating_sub(held(p))).collect()
            })
            .collect();
        let mut best = None;
        self.hand_out(0, &mut free, &mut vec![0; self.levels], 0, &spare_missing, &mut best);
        let (unserved, age, spare) = best.expect("serving nobody is possible");
        let [not_whole, changed, stranded, operations] = cost;
        let values = Values { floors, unserved, age, spare, not_whole, changed, stranded, operations };
        limit.is_none_or(|limit| values < *limit).then_some(values)
    }

    /// Hands slices to one request after the other, in every possible way.
    fn hand_out(
        &self,
        next: usize,
        free: &mut [Vec<u32>],
        unserved: &mut Vec<u32>,
        age: u32,
        spares: &[(&Vec<bool>, usize, u32)],
        best: &mut Option<(Vec<u32>, u32, u32)>,
    ) {
        let Some(Wish { level, compute, rank, slices, may }) = self.wishes.get(next) else {
            let missing = spares
                .iter()
                .map(|(mine, profile, spare)| {
                    let left: u32 = (0..free.len())
                        .filter(|n| mine[*n] && self.nodes[*n].1.schedulable)
                        .map(|n| free[n][*profile])
                        .sum();
                    spare.saturating_sub(left)
                })
                .sum();
            let found = (unserved.clone(), age, missing);
            if best.as_ref().is_none_or(|best| found < *best) {
                *best = Some(found);
            }
            return;
        };
        if best.as_ref().is_some_and(|(best, _, _)| *unserved > *best) {
            return;
        }
        for node in 0..free.len() {
            if may[node] && slices.iter().zip(&free[node]).all(|(wanted, free)| wanted <= free) {
                free[node].iter_mut().zip(slices).for_each(|(free, n)| *free -= n);
                self.hand_out(next + 1, free, unserved, age, spares, best);
                free[node].iter_mut().zip(slices).for_each(|(free, n)| *free += n);
            }
        }
        unserved[*level] += compute;
        self.hand_out(next + 1, free, unserved, age + rank, spares, best);
        unserved[*level] -= compute;
    }

    /// What a plan is worth, whoever made it: its fleet afterwards, with slices
    /// handed out as well as possible.
    pub(crate) fn values_after(
        &self,
        after: &Inventory,
        [changed, stranded, operations]: [u32; 3],
    ) -> Option<Values> {
        let (mut counts, mut not_whole) = (Vec::new(), 0);
        for (name, node) in &after.nodes {
            let all: Vec<ProfileName> = node.gpus.values().flat_map(apply::profiles).collect();
            counts.push(self.profiles.iter().map(|p| super::count(&all, *p)).collect::<Vec<u32>>());
            let whole = self.owner.get(name).is_some_and(|policy| {
                matches!(policy.layout, LayoutPolicy::DemandDriven { unrequested: Unrequested::Whole, .. })
            });
            if whole {
                let full = |gpu: &&planner::inventory::Gpu| match apply::profiles(gpu).as_slice() {
                    [only] => only.compute == gpu.geometry.compute(),
                    _ => false,
                };
                not_whole += u32::try_from(node.gpus.values().filter(|gpu| !full(gpu)).count()).expect("few");
            }
        }
        let counts: Vec<&[u32]> = counts.iter().map(Vec::as_slice).collect();
        self.values(&counts, [not_whole, changed, stranded, operations], None)
    }
}
