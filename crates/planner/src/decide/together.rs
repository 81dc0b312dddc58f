//! Pods that start together, and pods that have to be in one part of the cluster (a zone, a rack, a node).
//!
//! The program knows neither: it plans request by request. What it is asked here is one question for each part. All that
//! have to be together are kept off the nodes of all other parts, the fleet is planned, and of the parts in which a gang
//! is served whole the one with the best plan is taken, if that is no worse than the plan in which nobody of the gang
//! is served. Each of these plans is as exact as any, so for one gang the choice is exact as well, as long as every part
//! was looked at; `Budget` says how many are. Several gangs are decided one after another, the highest priority first, then
//! the oldest.
//!
//! A plan without such rules bounds all others, so it is made first. Where it has everybody in one part already, or
//! a part comes up to it, no other part is looked at.
//!
//! Whatever was found, the plan that comes of it is looked at once more: a gang that it would serve in part gets nothing.
//! So nothing is cut for pods that could not start.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::explain::most_of;
use super::formulate::{Counted, Level};
use super::group::is_planned;
use super::memo::Memo;
use super::{Advised, Decision, each_alone};
use crate::demand::{Apart, Request, Together};
use crate::eligible::Judge;
use crate::inventory::{Inventory, Node};
use crate::names::{NodeName, RequestId};
use crate::offered::Offered;
use crate::plan::UnderWay;
use crate::policy::{LayoutPolicy, Order, Policy};
use crate::report::{Help, Outcome, Report, Why};
use crate::solver::SolveError;

/// The values that a part of the cluster has of the labels that a rule is about, by label.
type Part = Vec<String>;

/// How many parts are named to who asks.
const MOST_NAMED: usize = 3;

/// How many plans may be made. On large fleets a plan takes a second, and a round has few of them.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// For one gang.
    each: usize,
    /// For all of them.
    all: usize,
}

impl Budget {
    /// By the number of nodes.
    fn of(inventory: &Inventory) -> Self {
        let each = (4_096 / inventory.nodes.len().max(1)).clamp(3, 12);
        Self { each, all: each * 4 }
    }
}

/// Whether anybody has to be with anybody.
pub(super) fn are_any(requests: &[Request]) -> bool {
    requests.iter().any(is_tied)
}

fn is_tied(request: &Request) -> bool {
    !request.together.rules.is_empty() && is_planned(request)
}

/// Requests that are decided about at once: a gang, or those without one that have the same rules.
struct Unit<'a> {
    is_gang: bool,
    /// Positions of its requests.
    members: Vec<usize>,
    /// The same, for each combination of rules that some of them have.
    blocks: BTreeMap<&'a BTreeMap<String, String>, Vec<usize>>,
}

/// A gang that is not served.
struct Out {
    members: BTreeSet<usize>,
    why: Why,
    help: Vec<Help>,
}

/// Decides, with everybody where they have to be.
///
/// # Errors
/// If there is no plan at all.
pub(super) fn decide(
    fleet: (&Inventory, &[Request], &[Policy]),
    under_way: &UnderWay,
    memo: &mut Memo,
) -> Result<Decision, SolveError> {
    let (inventory, requests, _) = fleet;
    let mut choice = Choice {
        fleet,
        under_way,
        memo,
        restricted: requests.to_vec(),
        fixed: BTreeMap::new(),
        out: Vec::new(),
        budget: Budget::of(inventory),
    };
    let units = units(requests);
    let mut now = choice.plan(Advised::No)?;
    for unit in &units {
        now = choice.place(unit, now)?;
    }
    // Every round takes one gang out, so there is an end.
    let mut decision = choice.plan(Advised::Yes)?;
    while let Some(unit) = units.iter().find(|unit| choice.is_broken(unit, &decision.report)) {
        choice.leave_out(unit, Why::AllUsed, Vec::new());
        decision = choice.plan(Advised::Yes)?;
    }
    let Choice { out, .. } = choice;
    for Out { members, why, help } in out {
        let ids: BTreeSet<&RequestId> = members.iter().map(|at| &requests[*at].id).collect();
        for report in decision.report.requests.iter_mut().filter(|report| ids.contains(&report.id)) {
            if matches!(report.outcome, Outcome::Unserved { .. }) {
                report.outcome = Outcome::Unserved { why: why.clone(), help: help.clone() };
            }
        }
    }
    for unit in &units {
        let ids: BTreeSet<&RequestId> = unit.members.iter().map(|at| &requests[*at].id).collect();
        for report in decision.report.requests.iter_mut().filter(|report| ids.contains(&report.id)) {
            if let Outcome::Unserved { help, .. } = &mut report.outcome {
                // What would serve one of them was tried, and not what would serve all of them in one part.
                help.retain(|help| matches!(help, Help::ChangeRequest { .. }));
            }
        }
    }
    Ok(decision)
}

/// What requests have in common that are decided about at once: their gang, or their rules.
type Common<'a> = (Option<&'a String>, Option<&'a BTreeMap<String, String>>);

/// Who is decided about at once, in the order in which it is done.
fn units(requests: &[Request]) -> Vec<Unit<'_>> {
    let tied = requests.iter().filter(|request| is_tied(request));
    let gangs: BTreeSet<&String> = tied.filter_map(|request| request.together.gang.as_ref()).collect();
    let mut by: BTreeMap<Common<'_>, Unit<'_>> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate().filter(|(_, request)| is_planned(request)) {
        let Together { gang, rules } = &request.together;
        let gang = gang.as_ref().filter(|gang| gangs.contains(gang));
        if gang.is_none() && rules.is_empty() {
            continue;
        }
        let key = (gang, gang.is_none().then_some(rules));
        let unit = by.entry(key).or_insert_with(|| Unit {
            is_gang: gang.is_some(),
            members: Vec::new(),
            blocks: BTreeMap::new(),
        });
        unit.members.push(at);
        if !rules.is_empty() {
            unit.blocks.entry(rules).or_default().push(at);
        }
    }
    let mut units: Vec<Unit<'_>> = by.into_values().collect();
    let first = |unit: &Unit<'_>| {
        let keys = unit.members.iter().map(|at| &requests[*at]);
        keys.map(|request| (Reverse(request.priority), request.since, request.id.clone())).min()
    };
    units.sort_by_cached_key(first);
    units
}

/// The nodes of those of some requests that are served.
fn served<'r>(report: &'r Report, requests: &[Request], members: &[usize]) -> Vec<&'r NodeName> {
    let ids: BTreeSet<&RequestId> = members.iter().map(|at| &requests[*at].id).collect();
    let of = report.requests.iter().filter(|report| ids.contains(&report.id));
    of.filter_map(|report| match &report.outcome {
        Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some(node),
        Outcome::Unserved { .. } => None,
    })
    .collect()
}

/// The part to which a node belongs, if it has all labels.
fn part_of(node: &Node, rules: &BTreeMap<String, String>) -> Option<Part> {
    labels(rules).into_iter().map(|label| node.labels.get(label).cloned()).collect()
}

fn labels(rules: &BTreeMap<String, String>) -> BTreeSet<&String> {
    rules.values().collect()
}

fn in_words(rules: &BTreeMap<String, String>) -> String {
    let labels: Vec<&str> = labels(rules).into_iter().map(String::as_str).collect();
    labels.join(" and ")
}

/// What is decided so far.
struct Choice<'a, 'm> {
    fleet: (&'a Inventory, &'a [Request], &'a [Policy]),
    under_way: &'a UnderWay,
    memo: &'m mut Memo,
    /// The requests, kept off the nodes where they may not be.
    restricted: Vec<Request>,
    /// The value of its label, by the name of a rule that is decided.
    fixed: BTreeMap<String, String>,
    out: Vec<Out>,
    budget: Budget,
}

/// A part that may do.
struct Candidate {
    part: Part,
    /// Whether a node of it is promised to one of those who have to be there.
    is_promised: bool,
}

/// What was found of one part.
struct Tried {
    part: Part,
    decision: Decision,
    /// How many of those that have to be there are served.
    fits: usize,
}

impl Choice<'_, '_> {
    fn plan(&mut self, advised: Advised) -> Result<Decision, SolveError> {
        self.plan_for(None, advised)
    }

    fn plan_for(&mut self, others: Option<&[Request]>, advised: Advised) -> Result<Decision, SolveError> {
        let (inventory, _, policies) = self.fleet;
        let requests = others.unwrap_or(&self.restricted);
        each_alone((inventory, requests, policies), self.under_way, advised, self.memo)
    }

    /// Finds a part for each of the rules of a unit. `now`: the plan so far. The plan after it.
    fn place(&mut self, unit: &Unit<'_>, now: Decision) -> Result<Decision, SolveError> {
        if let Some(parts) = self.parts_in(unit, &now.report) {
            for (rules, part) in parts {
                self.keep_to(rules, &unit.blocks[rules], &part);
            }
            return Ok(now);
        }
        if served(&now.report, self.fleet.1, &unit.members).is_empty() {
            // Not even one by one; why is known better without a part.
            return Ok(now);
        }
        let mut best = now;
        let mut told = None;
        for (rules, members) in &unit.blocks {
            let candidates = self.candidates(rules, members, &best.report);
            let tried = self.try_parts(rules, members, &candidates, &best)?;
            if let (false, [], Some(likeliest)) = (unit.is_gang, tried.as_slice(), candidates.first()) {
                // No plan is left to be made for it, and who starts alone loses nothing for good.
                self.keep_to(rules, members, &likeliest.part);
                best = self.plan(Advised::No)?;
                continue;
            }
            let whole = |tried: &Tried| !unit.is_gang || tried.fits == members.len();
            let fits = fits(&tried);
            let unseen = candidates.len() - tried.len();
            let found = tried
                .into_iter()
                .filter(whole)
                .reduce(|a, b| if self.compare(&b.decision, &a.decision).is_lt() { b } else { a });
            let Some(Tried { part, decision, .. }) = found else {
                told = Some((rules, members, fits, unseen));
                break;
            };
            self.keep_to(rules, members, &part);
            best = decision;
        }
        if let Some((rules, members, fits, unseen)) = told {
            return self.give_up(unit, (rules, members.len()), fits, unseen);
        }
        if unit.is_gang {
            // Whoever is before it in the objective may lose by it.
            let without = self.without(unit);
            let without = self.plan_for(Some(&without), Advised::No)?;
            let is_whole = served(&best.report, self.fleet.1, &unit.members).len() == unit.members.len();
            if !is_whole || self.compare(&without, &best).is_lt() {
                self.leave_out(unit, Why::AllUsed, Vec::new());
                return Ok(without);
            }
        }
        Ok(best)
    }

    /// The part of each of its rules, where this plan has the unit as it has to be.
    fn parts_in<'u>(
        &self,
        unit: &Unit<'u>,
        report: &Report,
    ) -> Option<Vec<(&'u BTreeMap<String, String>, Part)>> {
        let (inventory, requests, _) = self.fleet;
        if unit.is_gang && served(report, requests, &unit.members).len() < unit.members.len() {
            return None;
        }
        let mut parts = Vec::new();
        for (rules, members) in &unit.blocks {
            let nodes = served(report, requests, members);
            let of = nodes.into_iter().map(|node| part_of(inventory.nodes.get(node)?, rules));
            let of: BTreeSet<Part> = of.collect::<Option<_>>()?;
            let mut of = of.into_iter();
            let part = match (of.next(), of.next()) {
                (None, _) => continue,
                (Some(part), None) if self.agrees(rules, &part) => part,
                _ => return None,
            };
            parts.push((*rules, part));
        }
        Some(parts)
    }

    /// Whether a plan has a gang in part, or anybody in several parts of the cluster.
    fn is_broken(&self, unit: &Unit<'_>, report: &Report) -> bool {
        let nobody = served(report, self.fleet.1, &unit.members).is_empty();
        !nobody && self.parts_in(unit, report).is_none()
    }

    /// Whether a part is the one that is decided for those who have the same rules.
    fn agrees(&self, rules: &BTreeMap<String, String>, part: &Part) -> bool {
        let value = |label: &String| {
            labels(rules).into_iter().position(|of| of == label).and_then(|position| part.get(position))
        };
        rules.iter().all(|(rule, label)| self.fixed.get(rule).is_none_or(|fixed| value(label) == Some(fixed)))
    }

    /// Keeps requests to the nodes of one part.
    fn keep_to(&mut self, rules: &BTreeMap<String, String>, members: &[usize], part: &Part) {
        self.restricted = self.kept_to(rules, members, part);
        for (rule, label) in rules {
            let position = labels(rules).into_iter().position(|of| of == label);
            if let Some(value) = position.and_then(|position| part.get(position)) {
                self.fixed.insert(rule.clone(), value.clone());
            }
        }
    }

    fn kept_to(&self, rules: &BTreeMap<String, String>, members: &[usize], part: &Part) -> Vec<Request> {
        let topology = in_words(rules);
        let inside = |node: &Node| part_of(node, rules).as_ref() == Some(part);
        self.kept_off(members, &topology, |node| !inside(node))
    }

    /// The requests, with nobody of a unit on any node.
    fn without(&self, unit: &Unit<'_>) -> Vec<Request> {
        let topology = unit.blocks.keys().next().map(|rules| in_words(rules)).unwrap_or_default();
        self.kept_off(&unit.members, &topology, |_| true)
    }

    fn kept_off(&self, members: &[usize], topology: &str, off: impl Fn(&Node) -> bool) -> Vec<Request> {
        let mut requests = self.restricted.clone();
        let nodes = self.fleet.0.nodes.iter().filter(|(_, node)| off(node));
        let rule = Apart::Elsewhere { topology: topology.to_owned() };
        let off: Vec<(NodeName, Apart)> = nodes.map(|(name, _)| (name.clone(), rule.clone())).collect();
        for at in members {
            let kept_off = &mut requests[*at].constraints.kept_off;
            for (node, rule) in &off {
                kept_off.entry(node.clone()).or_insert_with(|| rule.clone());
            }
        }
        requests
    }

    /// The parts that may have what all of them ask for, those first that are the likeliest.
    fn candidates(
        &self,
        rules: &BTreeMap<String, String>,
        members: &[usize],
        now: &Report,
    ) -> Vec<Candidate> {
        let (inventory, requests, _) = self.fleet;
        let mut judge = Judge::new(inventory);
        let kinds = self.kinds(members);
        let mut parts: BTreeMap<Part, (Vec<u64>, u64)> = BTreeMap::new();
        for (kind, (request, _)) in kinds.iter().enumerate() {
            let eligible = judge.nodes_for(request);
            for (node, _) in inventory.nodes.values().zip(eligible.iter()).filter(|(_, may)| may.is_yes()) {
                let Some(part) = part_of(node, rules).filter(|part| self.agrees(rules, part)) else {
                    continue;
                };
                let (has, free) = parts.entry(part).or_insert_with(|| (vec![0; kinds.len()], 0));
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
        let is_kept = |at: &usize| {
            requests[*at].promised.as_ref().filter(|node| served(now, requests, &[*at]) == [*node])
        };
        let promised = count(members.iter().filter_map(is_kept).collect());
        let planned = count(served(now, requests, members));
        let is_gang = members.iter().any(|at| requests[*at].together.gang.is_some());
        // For a gang, those that have too little even when they are empty are out of the question.
        let may_do = |has: &[u64]| has.iter().zip(&kinds).all(|(has, (_, n))| *has >= *n);
        let mut found: Vec<_> = parts
            .into_iter()
            .filter(|(_, (has, _))| !is_gang || may_do(has))
            .map(|(part, (_, free))| {
                let of = |count: &BTreeMap<Part, usize>| Reverse(count.get(&part).copied().unwrap_or(0));
                (of(&promised), of(&planned), Reverse(free), part)
            })
            .collect();
        found.sort();
        let candidate = |(Reverse(promised), _, _, part)| Candidate { part, is_promised: promised > 0 };
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

    /// Plans with requests kept to one part after another. It ends where one comes up to the plan without such rules, and
    /// in a part in which somebody was promised something, if it serves everybody or they start by themselves: nobody is
    /// moved who was told a node.
    fn try_parts(
        &mut self,
        rules: &BTreeMap<String, String>,
        members: &[usize],
        candidates: &[Candidate],
        bound: &Decision,
    ) -> Result<Vec<Tried>, SolveError> {
        let mut tried: Vec<Tried> = Vec::new();
        for Candidate { part, is_promised } in candidates.iter().take(self.budget.each) {
            if self.budget.all == 0 {
                break;
            }
            self.budget.all -= 1;
            let requests = self.kept_to(rules, members, part);
            let decision = self.plan_for(Some(&requests), Advised::No)?;
            let fits = served(&decision.report, self.fleet.1, members).len();
            let is_whole = fits == members.len();
            let may_stay = is_whole || members.iter().all(|at| self.fleet.1[*at].together.gang.is_none());
            let is_best = *is_promised && may_stay || is_whole && self.compare(&decision, bound).is_le();
            tried.push(Tried { part: part.clone(), decision, fits });
            if is_best {
                break;
            }
        }
        Ok(tried)
    }

    /// Serves nobody of a gang for which no part was found.
    fn give_up(
        &mut self,
        unit: &Unit<'_>,
        (rules, pods): (&BTreeMap<String, String>, usize),
        fits: Vec<(String, u32)>,
        unseen: usize,
    ) -> Result<Decision, SolveError> {
        let help = fits.first().map(|(_, n)| Help::ChangeRequest {
            advice: format!("start at most {n} pods that have to have the same {}", in_words(rules)),
        });
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let why =
            Why::NoDomain { topology: in_words(rules), pods: number(pods), fits, unseen: number(unseen) };
        self.leave_out(unit, why, help.into_iter().collect());
        self.plan(Advised::No)
    }

    fn leave_out(&mut self, unit: &Unit<'_>, why: Why, help: Vec<Help>) {
        self.restricted = self.without(unit);
        self.out.push(Out { members: unit.members.iter().copied().collect(), why, help });
    }

    /// Which of two plans is better by the objective, level by level; it is the lesser one.
    fn compare(&self, one: &Decision, other: &Decision) -> Ordering {
        let (_, requests, policies) = self.fleet;
        let turns: BTreeMap<String, i32> = match policies.iter().any(is_in_turn) {
            true => {
                let priorities: BTreeSet<i32> = requests.iter().map(|request| request.priority).collect();
                let name = |priority| Level::Unserved(Reverse(priority), Counted::Turns).name();
                priorities.into_iter().map(|priority| (name(priority), priority)).collect()
            }
            false => BTreeMap::new(),
        };
        let (ones, others) = (&one.report.certificate, &other.report.certificate);
        let missing = others.iter().filter(|level| ones.iter().all(|one| one.level != level.level));
        for name in ones.iter().chain(missing).map(|level| &level.level) {
            if let Some(priority) = turns.get(name) {
                let unserved = |decision: &Decision| self.unserved(&decision.report, *priority);
                match unserved(one).cmp(&unserved(other)) {
                    Ordering::Equal => continue,
                    differs => return differs,
                }
            }
            let value = |of: &Decision| {
                of.report.certificate.iter().find(|level| level.level == *name).map_or(0, |level| level.value)
            };
            match value(one).cmp(&value(other)) {
                Ordering::Equal => {}
                differs => return differs,
            }
        }
        Ordering::Equal
    }

    /// Of the requests of a priority, oldest first, whether each is not served.
    fn unserved(&self, report: &Report, priority: i32) -> Vec<bool> {
        let of = self.fleet.1.iter().filter(|request| request.priority == priority);
        let of: BTreeSet<&RequestId> = of.map(|request| &request.id).collect();
        let reports = report.requests.iter().filter(|report| of.contains(&report.id));
        reports.map(|report| matches!(report.outcome, Outcome::Unserved { .. })).collect()
    }
}

/// For how many requests each part has slices, the best first.
fn fits(tried: &[Tried]) -> Vec<(String, u32)> {
    let of = |tried: &Tried| (tried.part.join(" and "), u32::try_from(tried.fits).unwrap_or(u32::MAX));
    let mut fits: Vec<(String, u32)> = tried.iter().map(of).filter(|(_, n)| *n > 0).collect();
    fits.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    fits.truncate(MOST_NAMED);
    fits
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

fn is_in_turn(policy: &Policy) -> bool {
    matches!(&policy.layout, LayoutPolicy::DemandDriven { order: Order::OldestFirst, .. })
}
