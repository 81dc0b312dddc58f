//! Which parts of the cluster may do, the likeliest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Choice;
use super::units::{Part, Placed, part_of};
use crate::decide::most::most_of;
use crate::demand::Request;
use crate::eligible::Judge;
use crate::inventory::Node;
use crate::names::NodeName;
use crate::offered::Offered;

/// A part that may do.
pub(super) struct Candidate {
    pub(super) part: Part,
    /// Its nodes that some of them may use.
    pub(super) nodes: BTreeSet<NodeName>,
    /// Whether a node of it is promised to one of those who have to be there.
    pub(super) is_promised: bool,
}

impl Choice<'_, '_> {
    /// The parts that may have what all of them ask for, those first that are the likeliest. This says only where to look, and
    /// where first, so too much may be thought of a part: who may be where is asked of each request when the part is planned.
    pub(super) fn candidates(
        &self,
        rules: &BTreeMap<String, String>,
        members: &[usize],
        placed: &Placed,
    ) -> Vec<Candidate> {
        let (inventory, requests, _) = self.fleet;
        let mut judge = Judge::new(inventory);
        let kinds = self.kinds(members);
        let mut parts: BTreeMap<Part, (Vec<u64>, u64, BTreeSet<NodeName>)> = BTreeMap::new();
        for (kind, (request, _)) in kinds.iter().enumerate() {
            let eligible = judge.nodes_for(request);
            for ((name, node), _) in
                inventory.nodes.iter().zip(eligible.iter()).filter(|(_, may)| may.is_yes())
            {
                let Some(part) = part_of(node, rules).filter(|part| self.agrees(rules, part)) else {
                    continue;
                };
                let nothing = || (vec![0; kinds.len()], 0, BTreeSet::new());
                let (has, free, nodes) = parts.entry(part).or_insert_with(nothing);
                nodes.insert(name.clone());
                has[kind] += u64::from(most(node, request));
                *free += if kind == 0 { idle(node) } else { 0 };
            }
        }
        let count = |nodes: Vec<&NodeName>| {
            let mut count: BTreeMap<Part, usize> = BTreeMap::new();
            let of = nodes.into_iter().filter_map(|node| part_of(inventory.nodes.get(node)?, rules));
            of.for_each(|part| *count.entry(part).or_default() += 1);
            count
        };
        // What could not be kept is no promise any more.
        let is_kept =
            |at: &usize| requests[*at].promised.as_ref().filter(|node| placed.0[*at].as_ref() == Some(*node));
        let promised = count(members.iter().filter_map(is_kept).collect());
        let planned = count(placed.nodes(members).collect());
        let is_gang = members.iter().any(|at| requests[*at].together.gang.is_some());
        // For a gang, those that have too little even when they are empty are out of the question.
        let may_do = |has: &[u64]| has.iter().zip(&kinds).all(|(has, (_, n))| *has >= *n);
        let mut found: Vec<_> = parts
            .into_iter()
            .filter(|(_, (has, ..))| !is_gang || may_do(has))
            .map(|(part, (_, free, nodes))| {
                let of = |count: &BTreeMap<Part, usize>| Reverse(count.get(&part).copied().unwrap_or(0));
                (of(&promised), of(&planned), Reverse(free), part, nodes)
            })
            .collect();
        found.sort();
        let candidate =
            |(Reverse(promised), _, _, part, nodes)| Candidate { part, nodes, is_promised: promised > 0 };
        found.into_iter().map(candidate).collect()
    }

    /// One of each kind of these requests, and how many there are of it.
    fn kinds(&self, members: &[usize]) -> Vec<(&Request, u64)> {
        let mut kinds: Vec<(&Request, u64)> = Vec::new();
        for at in members {
            let request = &self.restricted[*at];
            let is_like = |known: &Request| {
                known.constraints == request.constraints
                    && known.wants().eq(request.wants())
                    && known.takes == request.takes
            };
            match kinds.iter_mut().find(|(known, _)| is_like(known)) {
                Some((_, n)) => *n += 1,
                None => kinds.push((request, 1)),
            }
        }
        kinds
    }
}

/// How many requests like this one an empty node could serve.
fn most(node: &Node, request: &Request) -> u32 {
    let of = |(offered, n): (Offered, u32)| match offered {
        Offered::WholeGpu | Offered::SharedGpu => u32::try_from(node.gpus.len()).unwrap_or(u32::MAX) / n,
        Offered::Slice(_) | Offered::SharedSlice(_) => most_of(node, offered) / n,
    };
    request.wants().filter(|(_, n)| *n > 0).map(of).min().unwrap_or(0)
}

/// How many compute slices of a node nobody uses.
fn idle(node: &Node) -> u64 {
    let of_all: u64 = node.gpus.values().map(|gpu| u64::from(gpu.geometry.compute())).sum();
    let held: u64 = node.held.values().map(|n| u64::from(*n)).sum();
    if node.schedulable { of_all.saturating_sub(held) } else { 0 }
}
