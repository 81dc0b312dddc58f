//! Parts of the cluster that are planned by themselves: what a part can do for a gang is found there, and everybody whom
//! the plan so far serves elsewhere stays where they are. So a look at a part takes as long as a plan of its few nodes.
//!
//! A gang that takes a place from nobody has its part at once. Where all parts are short, the one in which the least is
//! lost is planned together with the nodes that the gang leaves, with the gang and without it: who waits may be worth more
//! than the gang, and what it leaves may be enough for whom it pushes out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::likely::Candidate;
use super::units::{Part, Placed, Unit, in_words};
use super::{Choice, Lacks, is_tied};
use crate::decide::group::is_planned;
use crate::decide::world::{Grain, World};
use crate::decide::{Decision, service};
use crate::demand::{Apart, Request};
use crate::inventory::{Inventory, Nodes};
use crate::names::{NodeName, RequestId};
use crate::policy::{Bounds, LayoutPolicy, Policy};
use crate::report::Why;
use crate::solver::SolveError;

/// Nodes that have to be looked at one by one, times kinds of requests: beyond it, plans of the whole fleet take too long to make
/// one for each part. On 12 nodes, with 40 kinds, three gangs took 2 to 21 s. Where no CPU and memory run out, such a plan takes milliseconds.
const BY_PLANS: usize = 256;

/// How many parts are looked at for one gang at most. A cluster has more zones and racks than this only where a "part" is one node.
const MOST_SEEN: usize = 64;
/// How many are looked at for all of them: each has as many, and two at least, if they are many.
const SEEN: usize = 256;
/// So many plans of parts are made in all. Each takes some hundredths of a second where all pods differ.
const LOOKS: usize = 384;

/// Of how many parts it is asked what comes of them with the nodes that a gang leaves for them.
const WEIGHED: usize = 3;

/// How many of those who wait are thought of when it is decided whether they are worth more than a gang.
const WAITING: usize = 128;

/// Whether parts are planned by themselves.
pub(super) fn is_large(choice: &mut Choice<'_, '_>) -> bool {
    let (inventory, _, policies) = choice.fleet;
    let world = World::new(inventory, &choice.restricted, policies, Grain::Alike, &mut choice.memo.targets);
    let one_by_one = world.cells.iter().filter(|cell| cell.one_by_one);
    let nodes: usize = one_by_one.map(|cell| cell.nodes.len()).sum();
    nodes.saturating_mul(world.groups.len()) > BY_PLANS
}

/// Finds a part for each of the rules of each unit. `now`: the plan without any.
///
/// # Errors
/// If there is no plan at all.
pub(super) fn place(
    choice: &mut Choice<'_, '_>,
    units: &[Unit<'_>],
    now: &Decision,
) -> Result<(), SolveError> {
    let (inventory, requests, policies) = choice.fleet;
    let mut near = Near {
        placed: choice.placed(now),
        costs: Costs::new(inventory, requests, choice.is_in_turn()),
        policies: policies.iter().map(of_few_nodes).collect(),
        each: (SEEN / units.len().max(1)).clamp(2, MOST_SEEN),
        looks: LOOKS,
        choice,
    };
    for unit in units {
        near.place(unit)?;
    }
    Ok(())
}

/// Parts that are planned by themselves.
struct Near<'c, 'a, 'm> {
    choice: &'c mut Choice<'a, 'm>,
    /// Where everybody is so far.
    placed: Placed,
    costs: Costs<'a>,
    /// The policies, for a few nodes.
    policies: Vec<Policy>,
    /// How many parts are looked at for one gang.
    each: usize,
    /// How many plans are left.
    looks: usize,
}

/// What was found of one part.
struct Seen<'c> {
    candidate: &'c Candidate,
    /// Where everybody is who was asked about.
    here: Vec<(usize, Option<NodeName>)>,
    /// Who of them is not served.
    lost: Vec<usize>,
}

impl Seen<'_> {
    /// How many of some requests are served.
    fn fits(&self, members: &[usize]) -> usize {
        members.iter().filter(|at| !self.lost.contains(at)).count()
    }

    /// Whether all are served, and nobody loses anything by it.
    fn is_free(&self) -> bool {
        self.lost.is_empty()
    }
}

/// What was found of all that were looked at.
struct Looked<'c> {
    /// The likeliest to do first.
    seen: Vec<Seen<'c>>,
    /// For how many of those in question each has slices.
    fits: Vec<(Part, usize)>,
}

/// Those of a unit who have the same rules.
#[derive(Clone, Copy)]
struct Block<'u> {
    unit: &'u Unit<'u>,
    rules: &'u BTreeMap<String, String>,
    members: &'u [usize],
}

impl<'a> Near<'_, 'a, '_> {
    fn place(&mut self, unit: &Unit<'_>) -> Result<(), SolveError> {
        // Who is not served one by one has no part either, and why is known better without one.
        if self.choice.stays(unit, &self.placed) || self.placed.count(&unit.members) == 0 {
            return Ok(());
        }
        let mut is_placed = true;
        for (rules, members) in &unit.blocks {
            is_placed = is_placed && self.place_block(Block { unit, rules, members })?;
        }
        if is_placed && self.choice.is_broken(unit, &self.placed) {
            // Some of it may be anywhere, and are nowhere.
            self.choice.leave_out(unit, Why::AllUsed, Vec::new());
            is_placed = false;
        }
        if !is_placed {
            unit.members.iter().for_each(|at| self.placed.0[*at] = None);
        }
        Ok(())
    }

    /// Finds a part; whether there is one.
    fn place_block(&mut self, block: Block<'_>) -> Result<bool, SolveError> {
        let Block { unit, rules, members } = block;
        let candidates = self.choice.candidates(rules, members, &self.placed);
        let Looked { seen, fits } = self.look(block, &candidates)?;
        let best = match seen.first() {
            None => {
                if let (false, Some(likeliest)) = (unit.is_gang, candidates.first()) {
                    // No look is left for it, and who starts alone loses nothing for good.
                    self.choice.keep_to(unit, rules, &likeliest.part);
                    return Ok(true);
                }
                None
            }
            Some(best) if !unit.is_gang || best.is_free() => seen.into_iter().next(),
            Some(_) => self.worth_it(block, seen)?,
        };
        match &best {
            Some(best) => {
                self.choice.keep_to(unit, rules, &best.candidate.part);
                self.placed.move_to(&best.here);
            }
            None if fits.iter().any(|(_, n)| *n == members.len()) => {
                self.choice.leave_out(unit, Why::AllUsed, Vec::new());
            }
            None => {
                let unseen = candidates.len() - fits.len();
                self.choice.give_up(unit, Lacks { rules, pods: members.len(), fits, unseen });
            }
        }
        Ok(best.is_some())
    }

    /// Looks at one part after another, up to one in which all are served and nobody loses anything. The likeliest to do first:
    /// those that do, and where the least is lost. And how many each has slices for.
    fn look<'c>(&mut self, block: Block<'_>, candidates: &'c [Candidate]) -> Result<Looked<'c>, SolveError> {
        let (mut all, mut fits): (Vec<Seen<'_>>, Vec<(Part, usize)>) = (Vec::new(), Vec::new());
        for candidate in candidates.iter().take(self.each.min(self.looks)) {
            let who = self.on(&candidate.nodes, block.members).chain(block.members.iter().copied()).collect();
            let seen = self.plan(block, candidate, (&candidate.nodes, who))?;
            fits.push((candidate.part.clone(), seen.fits(block.members)));
            // Nobody is moved who was told a node.
            let is_kept = candidate.is_promised && !self.takes_from_above(block, &seen);
            if seen.is_free() || is_kept && self.may_do(block, &seen) {
                return Ok(Looked { seen: vec![seen], fits });
            }
            all.push(seen);
        }
        all.sort_by_cached_key(|seen| (!self.may_do(block, seen), self.costs.of(&seen.lost)));
        Ok(Looked { seen: all, fits })
    }

    /// Whether all of a gang are served, and nobody has lost a place whose gang has its part.
    fn may_do(&self, block: Block<'_>, seen: &Seen<'_>) -> bool {
        let spares_gangs = seen.lost.iter().all(|at| !self.choice.whole.contains(at));
        spares_gangs && (!block.unit.is_gang || seen.fits(block.members) == block.members.len())
    }

    /// Whether a gang that stays where it was promised something would take a place from a higher priority: then it has to go where
    /// there is another one.
    fn takes_from_above(&self, Block { unit, members, .. }: Block<'_>, seen: &Seen<'_>) -> bool {
        let priority = |at: &usize| self.choice.fleet.1[*at].priority;
        let highest = members.iter().map(priority).max();
        unit.is_gang && seen.lost.iter().any(|at| highest.is_some_and(|highest| priority(at) > highest))
    }

    /// The best of the first parts, each with the nodes that the gang leaves for it, so that whom it pushes out may go there; if
    /// that is no worse than what comes of these nodes without the gang. Where it is worse, everybody is where they are without it.
    fn worth_it<'c>(
        &mut self,
        block: Block<'_>,
        seen: Vec<Seen<'c>>,
    ) -> Result<Option<Seen<'c>>, SolveError> {
        let waiting = self.waiting(block.members);
        let mut best: Option<(Seen<'_>, BTreeSet<NodeName>, Vec<usize>)> = None;
        for Seen { candidate, .. } in seen.into_iter().take(WEIGHED) {
            let mut nodes = candidate.nodes.clone();
            nodes.extend(self.placed.nodes(block.members).cloned());
            let others: Vec<usize> = self.on(&nodes, block.members).chain(waiting.iter().copied()).collect();
            let with_all = others.iter().chain(block.members).copied().collect();
            let with = self.plan(block, candidate, (&nodes, with_all))?;
            let is_better =
                |(best, ..): &(Seen<'_>, _, _)| self.costs.of(&with.lost) < self.costs.of(&best.lost);
            if self.may_do(block, &with) && best.as_ref().is_none_or(is_better) {
                best = Some((with, nodes, others));
            }
        }
        let Some((with, nodes, others)) = best else { return Ok(None) };
        let mut without = self.plan(block, with.candidate, (&nodes, others))?;
        without.lost.extend(block.members);
        if self.costs.of(&with.lost) <= self.costs.of(&without.lost) {
            return Ok(Some(with));
        }
        self.placed.move_to(&without.here);
        Ok(None)
    }

    /// Plans some nodes by themselves, for some of the requests: those of the block in a part of them.
    fn plan<'c>(
        &mut self,
        Block { unit, rules, members }: Block<'_>,
        candidate: &'c Candidate,
        (nodes, who): (&BTreeSet<NodeName>, Vec<usize>),
    ) -> Result<Seen<'c>, SolveError> {
        self.looks = self.looks.saturating_sub(1);
        let (inventory, requests, _) = self.choice.fleet;
        let rule = Apart::Elsewhere { topology: in_words(rules) };
        let off = || nodes.difference(&candidate.nodes).map(|node| (node.clone(), rule.clone()));
        let asks = |at: &usize| {
            let mut request = self.choice.restricted[*at].clone();
            if members.contains(at) {
                request.constraints.kept_off.extend(off());
            }
            if unit.is_gang && unit.members.contains(at) {
                request.together.gang.clone_from(&requests[*at].together.gang);
            }
            request
        };
        let asked: Vec<Request> = who.iter().map(asks).collect();
        let of = nodes.iter().filter_map(|name| Some((name.clone(), inventory.nodes.get(name)?.clone())));
        let nodes: Nodes = of.collect();
        // Shares count what the pods of namespaces hold there.
        let holds = nodes.values().flat_map(|node| node.held.keys()).map(|pod| &pod.namespace);
        let labels = holds.filter_map(|name| Some((name.clone(), inventory.namespaces.get(name)?.clone())));
        let namespaces = labels.collect();
        let few = Inventory { nodes, namespaces, ..Inventory::default() };
        let mut served = service::served((&few, &asked, &self.policies), self.choice.memo)?;
        let here: Vec<(usize, Option<NodeName>)> =
            who.into_iter().zip(&asked).map(|(at, request)| (at, served.remove(&request.id))).collect();
        let lost = here.iter().filter(|(_, node)| node.is_none()).map(|(at, _)| *at).collect();
        Ok(Seen { candidate, here, lost })
    }

    /// Who is served on some nodes, without some members.
    fn on<'n>(&'n self, nodes: &'n BTreeSet<NodeName>, members: &'n [usize]) -> impl Iterator<Item = usize> {
        let is_on = |node: &Option<NodeName>| node.as_ref().is_some_and(|node| nodes.contains(node));
        let of =
            self.placed.0.iter().enumerate().filter(move |(at, node)| is_on(node) && !members.contains(at));
        of.map(|(at, _)| at)
    }

    /// Those who are not served, who come first: without some members, and without whom one place would not help.
    fn waiting(&self, members: &[usize]) -> Vec<usize> {
        let (_, requests, _) = self.choice.fleet;
        let is_open = |at: &usize| {
            let request = &requests[*at];
            let is_alone = !is_tied(request) && request.together.gang.is_none();
            is_planned(request) && is_alone && self.placed.0[*at].is_none() && !members.contains(at)
        };
        let mut waiting: Vec<usize> = (0..requests.len()).filter(is_open).collect();
        waiting.sort_by_key(|at| (Reverse(requests[*at].priority), requests[*at].since, &requests[*at].id));
        waiting.truncate(WAITING);
        waiting
    }
}

/// What it costs that somebody is not served.
struct Costs<'a> {
    requests: &'a [Request],
    /// Highest first.
    priorities: BTreeSet<Reverse<i32>>,
    /// Compute slices that a whole GPU counts for.
    whole: i64,
    is_in_turn: bool,
}

/// What it costs that some are not served, priority by priority, the highest first: where the oldest come first, who they
/// are; and how many compute slices they ask for. Of two, the lesser one is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost<'a>(Vec<(Vec<Who<'a>>, i64)>);

/// Who is not served: of two lists, the one that has the older request where they begin to differ is worse.
type Who<'a> = Reverse<(Timestamp, &'a RequestId)>;

impl<'a> Costs<'a> {
    fn new(inventory: &Inventory, requests: &'a [Request], is_in_turn: bool) -> Self {
        let gpus = inventory.nodes.values().flat_map(|node| node.gpus.values());
        let whole = gpus.map(|gpu| i64::from(gpu.geometry.compute())).max().unwrap_or(0);
        let priorities = requests.iter().map(|request| Reverse(request.priority)).collect();
        Self { requests, priorities, whole, is_in_turn }
    }

    /// What it costs that these are not.
    fn of(&self, lost: &[usize]) -> Cost<'a> {
        let slices = |request: &Request| -> i64 {
            request.wants().map(|(offered, n)| offered.weight(self.whole) * i64::from(n)).sum()
        };
        let of = |priority: &Reverse<i32>| {
            let lost = lost.iter().map(|at| &self.requests[*at]).filter(|r| r.priority == priority.0);
            let in_turn = lost.clone().filter(|_| self.is_in_turn);
            let mut who: Vec<Who<'_>> = in_turn.map(|r| Reverse((r.since, &r.id))).collect();
            who.sort_unstable_by_key(|Reverse(who)| *who);
            (who, lost.map(slices).sum())
        };
        Cost(self.priorities.iter().map(of).collect())
    }
}

/// A policy for a few of its nodes: what it wants to have at least is wanted of all of them together.
fn of_few_nodes(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    if let LayoutPolicy::DemandDriven { slices, shares, whole_gpus, .. } = &mut policy.layout {
        let all = slices.values_mut().chain(whole_gpus);
        all.for_each(|bounds| *bounds = Bounds { min: 0, spare: 0, ..*bounds });
        shares.iter_mut().for_each(|share| share.min = 0);
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    fn costs(requests: &[Request], is_in_turn: bool) -> Costs<'_> {
        let priorities = requests.iter().map(|request| Reverse(request.priority)).collect();
        Costs { requests, priorities, whole: 7, is_in_turn }
    }

    /// Who loses less: the higher priority first; then, in turn, who waits longer; then who asks for more.
    #[test]
    fn what_it_costs_that_some_are_not_served_is_what_the_objective_says() {
        let requests = [
            request("high").asks("1g.10gb", 1).priority(5).build(),
            request("large").asks("7g.80gb", 1).build(),
            request("old").asks("1g.10gb", 1).since(1).build(),
            request("young").asks("2g.20gb", 1).since(9).build(),
        ];
        let most = costs(&requests, false);
        assert!(most.of(&[1, 2, 3]) < most.of(&[0]));
        assert!(most.of(&[2]) < most.of(&[3]));
        assert!(most.of(&[2, 3]) < most.of(&[1]));
        assert!(most.of(&[]) < most.of(&[2]));
        let oldest = costs(&requests, true);
        assert!(oldest.of(&[1, 2, 3]) < oldest.of(&[0]));
        assert!(oldest.of(&[3]) < oldest.of(&[2]));
        assert!(oldest.of(&[2]) < oldest.of(&[2, 3]));
        assert!(oldest.of(&[]) < oldest.of(&[3]));
    }

    #[test]
    fn of_a_few_nodes_nothing_is_wanted_that_is_wanted_of_all() {
        let policy = crate::testing::policy("p").bounds("1g.10gb", 6, 2, Some(9)).build();
        let LayoutPolicy::DemandDriven { slices, .. } = of_few_nodes(&policy).layout else {
            panic!("it is driven by demand")
        };
        assert_eq!(slices.into_values().collect::<Vec<_>>(), [Bounds { min: 0, spare: 0, max: Some(9) }]);
    }
}
