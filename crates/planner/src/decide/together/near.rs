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
use super::units::{Part, Placed, Unit, part_of};
use super::{Choice, Lacks, is_tied};
use crate::decide::group::is_planned;
use crate::decide::{Decision, service};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::{NodeName, RequestId};
use crate::policy::{Bounds, LayoutPolicy, Policy};
use crate::report::Why;
use crate::solver::SolveError;

/// Nodes times kinds of requests: beyond it, plans of the whole fleet take too long to make one for each part. On 12 nodes,
/// with 40 kinds, three gangs took 2 to 21 s.
const BY_PLANS: usize = 256;

/// How many parts are looked at for one gang. It takes a hundredth of a second each, or less; a cluster has more zones and
/// racks than this only where a "part" is one node.
const MOST_SEEN: usize = 64;

/// How many of those who wait are thought of when it is decided whether they are worth more than a gang.
const WAITING: usize = 128;

/// Whether parts are planned by themselves.
pub(super) fn is_large(inventory: &Inventory, requests: &[Request]) -> bool {
    let asks = requests.iter().filter(|request| is_planned(request)).map(|request| {
        let Request { slices, whole_gpus, shared, takes, priority, .. } = request;
        (*priority, slices, *whole_gpus, shared, *takes)
    });
    let kinds = asks.collect::<BTreeSet<_>>().len();
    inventory.nodes.len().saturating_mul(kinds) > BY_PLANS
}

/// What it costs that some are not served, priority by priority, the highest first: where the oldest come first, who they
/// are; and how many compute slices they ask for. Of two, the lesser one is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost<'a>(Vec<(Vec<Who<'a>>, u64)>);

/// Who is not served: of two lists, the one that has the older request where they begin to differ is worse.
type Who<'a> = Reverse<(Timestamp, &'a RequestId)>;

/// What was found of one part.
struct Seen {
    part: Part,
    nodes: BTreeSet<NodeName>,
    /// Where everybody is who was asked about.
    here: Vec<(usize, Option<NodeName>)>,
    /// Who of them is not served.
    lost: Vec<usize>,
}

impl Seen {
    /// How many of some requests are served.
    fn fits(&self, members: &[usize]) -> usize {
        members.iter().filter(|at| !self.lost.contains(at)).count()
    }
}

impl Choice<'_, '_> {
    /// Finds a part for each of the rules of each unit. `now`: the plan without any.
    pub(super) fn place_near(&mut self, units: &[Unit<'_>], now: &Decision) -> Result<(), SolveError> {
        let mut placed = self.placed(now);
        for unit in units {
            // Who is not served one by one has no part either, and why is known better without one.
            if self.stays(unit, &placed) || placed.count(&unit.members) == 0 {
                continue;
            }
            let is_placed = unit.blocks.keys().try_fold(true, |is_placed, rules| match is_placed {
                true => self.place_block(unit, rules, &mut placed),
                false => Ok(false),
            })?;
            if is_placed && self.is_broken(unit, &placed) {
                // Some of it may be anywhere, and are nowhere.
                self.leave_out(unit, Why::AllUsed, Vec::new());
            }
            if !is_placed || self.is_broken(unit, &placed) {
                unit.members.iter().for_each(|at| placed.0[*at] = None);
            }
        }
        Ok(())
    }

    /// Finds a part for those of a unit who have these rules; whether there is one.
    fn place_block(
        &mut self,
        unit: &Unit<'_>,
        rules: &BTreeMap<String, String>,
        placed: &mut Placed,
    ) -> Result<bool, SolveError> {
        let members = &unit.blocks[rules];
        let candidates = self.candidates(rules, members, placed);
        let (best, fits) = self.look(unit, rules, &candidates, placed)?;
        let Some(best) = best else {
            let unseen = candidates.len().saturating_sub(MOST_SEEN);
            self.give_up(unit, Lacks { rules, pods: members.len(), fits, unseen });
            return Ok(false);
        };
        if best.lost.is_empty() || !unit.is_gang {
            self.keep_to(unit, rules, &best.part);
            placed.move_to(best.here);
            return Ok(true);
        }
        let (with, without) = self.with_and_without(unit, rules, &best, placed)?;
        let with = with.filter(|with| self.cost(&with.lost) <= self.cost(&without.lost));
        let is_worth_it = with.is_some();
        match with {
            Some(with) => {
                self.keep_to(unit, rules, &best.part);
                placed.move_to(with.here);
            }
            None => {
                self.leave_out(unit, Why::AllUsed, Vec::new());
                placed.move_to(without.here);
            }
        }
        Ok(is_worth_it)
    }

    /// Looks at one part after another. The first in which nobody loses anything, or else the one in which the least is
    /// lost, of those that do; and how many each has slices for.
    fn look(
        &mut self,
        unit: &Unit<'_>,
        rules: &BTreeMap<String, String>,
        candidates: &[Candidate],
        placed: &Placed,
    ) -> Result<(Option<Seen>, Vec<(Part, usize)>), SolveError> {
        let members = &unit.blocks[rules];
        let (mut best, mut fits): (Option<Seen>, Vec<(Part, usize)>) = (None, Vec::new());
        for Candidate { part, is_promised } in candidates.iter().take(MOST_SEEN) {
            let nodes = self.nodes_of(rules, part);
            let who = self.on(&nodes, members, placed).chain(members.iter().copied()).collect();
            let requests = self.kept_to(unit, rules, part);
            let seen = self.plan_near(part, nodes, (who, &requests))?;
            fits.push((part.clone(), seen.fits(members)));
            if !self.may_do(unit, members, &seen) {
                continue;
            }
            // Nobody is moved who was told a node.
            let is_best = seen.lost.is_empty() || *is_promised;
            let is_better = |best: &Seen| self.cost(&seen.lost) < self.cost(&best.lost);
            if is_best || best.as_ref().is_none_or(is_better) {
                best = Some(seen);
            }
            if is_best {
                break;
            }
        }
        Ok((best, fits))
    }

    /// Whether all of a gang are served, and nobody has lost a place whose gang has its part.
    fn may_do(&self, unit: &Unit<'_>, members: &[usize], seen: &Seen) -> bool {
        let spares_gangs = seen.lost.iter().all(|at| !self.whole.contains(at));
        spares_gangs && (!unit.is_gang || seen.fits(members) == members.len())
    }

    /// What comes of a part and of the nodes that a gang leaves for it: with the gang there, if that may do, and
    /// without it.
    fn with_and_without(
        &mut self,
        unit: &Unit<'_>,
        rules: &BTreeMap<String, String>,
        best: &Seen,
        placed: &Placed,
    ) -> Result<(Option<Seen>, Seen), SolveError> {
        let members = &unit.blocks[rules];
        let mut nodes = best.nodes.clone();
        nodes.extend(placed.nodes(members).cloned());
        let others: Vec<usize> =
            self.on(&nodes, members, placed).chain(self.waiting(members, placed)).collect();
        let with_all = others.iter().chain(members).copied().collect();
        let requests = self.kept_to(unit, rules, &best.part);
        let with = self.plan_near(&best.part, nodes.clone(), (with_all, &requests))?;
        let requests = self.restricted.clone();
        let mut without = self.plan_near(&best.part, nodes, (others, &requests))?;
        without.lost.extend(members);
        Ok((Some(with).filter(|with| self.may_do(unit, members, with)), without))
    }

    /// Plans some nodes by themselves, for some of the requests.
    fn plan_near(
        &mut self,
        part: &Part,
        nodes: BTreeSet<NodeName>,
        (who, requests): (Vec<usize>, &[Request]),
    ) -> Result<Seen, SolveError> {
        let (inventory, _, policies) = self.fleet;
        let of = inventory.nodes.iter().filter(|(name, _)| nodes.contains(*name));
        let namespaces = inventory.namespaces.clone();
        let inventory = Inventory {
            nodes: of.map(|(name, node)| (name.clone(), node.clone())).collect(),
            namespaces,
            ..Inventory::default()
        };
        let asked: Vec<Request> = who.iter().map(|at| requests[*at].clone()).collect();
        let policies: Vec<Policy> = policies.iter().map(of_few_nodes).collect();
        let fleet = (&inventory, asked.as_slice(), policies.as_slice());

        let mut served = service::served(fleet, self.memo)?;
        let here: Vec<(usize, Option<NodeName>)> =
            who.into_iter().zip(&asked).map(|(at, request)| (at, served.remove(&request.id))).collect();
        let lost = here.iter().filter(|(_, node)| node.is_none()).map(|(at, _)| *at).collect();
        Ok(Seen { part: part.clone(), nodes, here, lost })
    }

    /// The nodes of a part.
    fn nodes_of(&self, rules: &BTreeMap<String, String>, part: &Part) -> BTreeSet<NodeName> {
        let is_in = |node| part_of(node, rules).as_ref() == Some(part);
        let of = self.fleet.0.nodes.iter().filter(|(_, node)| is_in(node));
        of.map(|(name, _)| name.clone()).collect()
    }

    /// Who is served on some nodes, without the members of a unit.
    fn on<'p>(
        &self,
        nodes: &'p BTreeSet<NodeName>,
        members: &'p [usize],
        placed: &'p Placed,
    ) -> impl Iterator<Item = usize> + use<'p> {
        let is_on = |node: &Option<NodeName>| node.as_ref().is_some_and(|node| nodes.contains(node));
        let of = placed.0.iter().enumerate().filter(move |(at, node)| is_on(node) && !members.contains(at));
        of.map(|(at, _)| at)
    }

    /// Those who are not served, who come first: without the members of a unit, and without whom one place would not help.
    fn waiting(&self, members: &[usize], placed: &Placed) -> Vec<usize> {
        let (_, requests, _) = self.fleet;
        let is_open = |at: &usize| {
            let request = &requests[*at];
            let is_alone = !is_tied(request) && request.together.gang.is_none();
            is_planned(request) && is_alone && placed.0[*at].is_none() && !members.contains(at)
        };
        let mut waiting: Vec<usize> = (0..requests.len()).filter(is_open).collect();
        waiting.sort_by_key(|at| (Reverse(requests[*at].priority), requests[*at].since, &requests[*at].id));
        waiting.truncate(WAITING);
        waiting
    }

    /// What it costs that these are not served.
    fn cost(&self, lost: &[usize]) -> Cost<'_> {
        let (inventory, requests, _) = self.fleet;
        let gpus = inventory.nodes.values().flat_map(|node| node.gpus.values());
        let whole = gpus.map(|gpu| u64::from(gpu.geometry.compute())).max().unwrap_or(0);
        let is_in_turn = self.is_in_turn();
        let slices = |request: &Request| {
            let of = request.wants().map(|(offered, n)| {
                offered.profile().map_or(whole, |profile| u64::from(profile.compute)) * u64::from(n)
            });
            of.sum::<u64>()
        };
        let priorities: BTreeSet<Reverse<i32>> = requests.iter().map(|r| Reverse(r.priority)).collect();
        let of = |priority: Reverse<i32>| {
            let lost = lost.iter().map(|at| &requests[*at]).filter(|r| r.priority == priority.0);
            let in_turn = lost.clone().filter(|_| is_in_turn);
            let mut who: Vec<Who<'_>> = in_turn.map(|r| Reverse((r.since, &r.id))).collect();
            who.sort_unstable_by_key(|Reverse(who)| *who);
            (who, lost.map(slices).sum())
        };
        Cost(priorities.into_iter().map(of).collect())
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
