//! Pods that start together, and pods that have to be in one part of the cluster (a zone, a rack, a node).
//!
//! The program knows no parts: it plans request by request. So all that have to be together are kept off the nodes of all
//! other parts, for one part after another, and the best of what comes of it is taken, if that is no worse than what comes of
//! serving nobody of the gang. Several gangs are decided one after another, the highest priority first, then the oldest.
//!
//! A plan without such rules bounds all others, so it is made first. Where it has everybody in one part already, or
//! a part comes up to it, no other part is looked at.
//!
//! How parts are looked at depends on the fleet. On a small one each is a plan of the whole fleet ([`plans`]): as exact as
//! any, so for one gang the choice is exact as well, as long as every part was looked at; `Budget` says how many are. On a larger one
//! a plan may take seconds, so a part is planned by itself with those whom the first plan serves there ([`near`]), and
//! everybody else stays where they are. What comes of all decisions is a plan of the whole fleet.
//!
//! All of a gang that has its part are served before all others of their priority (`Counted::Gangs`): whether they should
//! be was decided before, and one of them less is as bad as none of them.
//!
//! Whatever was found, the plan that comes of it is looked at once more: a gang that it would serve in part gets nothing.
//! So nothing is cut for pods that could not start.

mod likely;
mod near;
mod plans;
mod units;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use self::plans::Budget;
use self::units::{Part, Placed, Unit, in_words, labels, part_of, units};
use super::group::is_planned;
use super::memo::Memo;
use super::{Advised, Decision, each_alone};
use crate::demand::{Apart, Request};
use crate::inventory::{Inventory, Node};
use crate::names::{NodeName, RequestId};
use crate::plan::UnderWay;
use crate::policy::Policy;
use crate::report::{Broken, Help, Outcome, Report, Why};
use crate::solver::SolveError;

/// How many parts are named to who asks.
const MOST_NAMED: usize = 3;

/// Whether anybody has to be with anybody.
pub(super) fn are_any(requests: &[Request]) -> bool {
    requests.iter().any(is_tied)
}

fn is_tied(request: &Request) -> bool {
    !request.together.rules.is_empty() && is_planned(request)
}

/// The requests, of whom nobody is of a gang that has its part: what is planned puts those first.
pub(super) fn without_parts(requests: &[Request]) -> Cow<'_, [Request]> {
    if requests.iter().all(|request| request.together.gang.is_none()) {
        return Cow::Borrowed(requests);
    }
    let mut requests = requests.to_vec();
    requests.iter_mut().for_each(|request| request.together.gang = None);
    Cow::Owned(requests)
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
        restricted: without_parts(requests).into_owned(),
        fixed: BTreeMap::new(),
        whole: BTreeSet::new(),
        out: Vec::new(),
        budget: Budget::of(inventory),
    };
    let units = units(requests);
    let now = choice.plan(Advised::No)?;
    let broken = broken_in(&now.report);
    if choice.memo.by_parts || near::is_large(&mut choice) {
        near::place(&mut choice, &units, &now)?;
    } else {
        choice.place_by_plans(&units, now)?;
    }
    // Every round takes one gang out, so there is an end.
    let mut decision = choice.plan(Advised::Yes)?;
    while let Some(unit) = units.iter().rev().find(|unit| choice.is_broken(unit, &choice.placed(&decision))) {
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
    for unit in units.iter().filter(|unit| unit.is_gang) {
        say_who_needs_it(unit, requests, &broken, &mut decision.report);
    }
    Ok(decision)
}

/// Why promises are broken, by whom they were made to.
fn broken_in(report: &Report) -> BTreeMap<RequestId, Broken> {
    let of = report.requests.iter().filter_map(|report| Some((report.id.clone(), report.broken.as_ref()?)));
    of.map(|(id, promise)| (id, promise.why.clone())).collect()
}

/// What was promised to a gang is kept for all of it or for nobody. So where a higher priority needs a part of it, that is why
/// the rest of it is not kept either. `broken`: the promises that are broken where each of the gang is planned by itself.
fn say_who_needs_it(
    unit: &Unit<'_>,
    requests: &[Request],
    broken: &BTreeMap<RequestId, Broken>,
    report: &mut Report,
) {
    let ids: BTreeSet<&RequestId> = unit.members.iter().map(|at| &requests[*at].id).collect();
    let gets_it = |of: &RequestId| {
        let report = report.requests.iter().find(|report| report.id == *of);
        report.is_some_and(|report| !matches!(report.outcome, Outcome::Unserved { .. }))
    };
    let needed = ids
        .iter()
        .filter_map(|id| broken.get(id))
        .find(|why| matches!(why, Broken::HigherPriority { to } if gets_it(to)));
    let Some(why) = needed else { return };
    for report in report.requests.iter_mut().filter(|report| ids.contains(&report.id)) {
        let is_another =
            broken.get(&report.id).is_some_and(|why| !matches!(why, Broken::HigherPriority { .. }));
        if let Some(promise) = report.broken.as_mut().filter(|_| !is_another) {
            promise.why.clone_from(why);
        }
    }
}

/// What is decided so far.
struct Choice<'a, 'm> {
    fleet: (&'a Inventory, &'a [Request], &'a [Policy]),
    under_way: &'a UnderWay,
    memo: &'m mut Memo,
    /// The requests, kept off the nodes where they may not be. Those of gangs that have their part name their gang.
    restricted: Vec<Request>,
    /// The value of its label, by the name of a rule that is decided.
    fixed: BTreeMap<String, String>,
    /// Positions of those whose gang has its part.
    whole: BTreeSet<usize>,
    out: Vec<Out>,
    budget: Budget,
}

/// What was found where nobody can be served: for how many pods some parts have slices, of how many, and how many parts
/// were not looked at.
struct Lacks<'u> {
    rules: &'u BTreeMap<String, String>,
    pods: usize,
    fits: Vec<(Part, usize)>,
    unseen: usize,
}

impl Choice<'_, '_> {
    fn plan(&mut self, advised: Advised) -> Result<Decision, SolveError> {
        let (inventory, _, policies) = self.fleet;
        each_alone((inventory, &self.restricted, policies), self.under_way, advised, self.memo)
    }

    /// Where a plan has everybody.
    fn placed(&self, decision: &Decision) -> Placed {
        Placed::by(&decision.report, self.fleet.1)
    }

    /// The part of each of its rules, where this plan has the unit as it has to be.
    fn parts_in<'u>(
        &self,
        unit: &Unit<'u>,
        placed: &Placed,
    ) -> Option<Vec<(&'u BTreeMap<String, String>, Part)>> {
        if unit.is_gang && placed.count(&unit.members) < unit.members.len() {
            return None;
        }
        let mut parts = Vec::new();
        for (rules, members) in &unit.blocks {
            let of = placed.nodes(members).map(|node| part_of(self.fleet.0.nodes.get(node)?, rules));
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

    /// Keeps a unit where this plan has it, if that is where it has to be.
    fn stays(&mut self, unit: &Unit<'_>, placed: &Placed) -> bool {
        let Some(parts) = self.parts_in(unit, placed) else { return false };
        for (rules, part) in parts {
            self.keep_to(unit, rules, &part);
        }
        true
    }

    /// Whether a plan has a gang in part, or anybody in several parts of the cluster.
    fn is_broken(&self, unit: &Unit<'_>, placed: &Placed) -> bool {
        placed.count(&unit.members) > 0 && self.parts_in(unit, placed).is_none()
    }

    /// Whether a plan serves all of every gang that has its part.
    fn keeps_gangs(&self, placed: &Placed) -> bool {
        self.whole.iter().all(|at| placed.0[*at].is_some())
    }

    /// Whether a part is the one that is decided for those who have the same rules.
    fn agrees(&self, rules: &BTreeMap<String, String>, part: &Part) -> bool {
        let value = |label: &String| {
            labels(rules).into_iter().position(|of| of == label).and_then(|position| part.get(position))
        };
        rules.iter().all(|(rule, label)| self.fixed.get(rule).is_none_or(|fixed| value(label) == Some(fixed)))
    }

    /// Keeps those of a unit who have these rules to the nodes of one part.
    fn keep_to(&mut self, unit: &Unit<'_>, rules: &BTreeMap<String, String>, part: &Part) {
        let mut requests = std::mem::take(&mut self.restricted);
        self.restrict(&mut requests, unit, (rules, part));
        self.restricted = requests;
        if unit.is_gang {
            self.whole.extend(&unit.members);
        }
        for (rule, label) in rules {
            let position = labels(rules).into_iter().position(|of| of == label);
            if let Some(value) = position.and_then(|position| part.get(position)) {
                self.fixed.insert(rule.clone(), value.clone());
            }
        }
    }

    /// The requests, if those of a unit who have these rules were kept to one part.
    fn kept_to(&self, unit: &Unit<'_>, rules: &BTreeMap<String, String>, part: &Part) -> Vec<Request> {
        let mut requests = self.restricted.clone();
        self.restrict(&mut requests, unit, (rules, part));
        requests
    }

    fn restrict(
        &self,
        requests: &mut [Request],
        unit: &Unit<'_>,
        (rules, part): (&BTreeMap<String, String>, &Part),
    ) {
        let inside = |node: &Node| part_of(node, rules).as_ref() == Some(part);
        self.keep_off(requests, &unit.blocks[rules], &in_words(rules), |node| !inside(node));
        for at in unit.members.iter().filter(|_| unit.is_gang) {
            requests[*at].together.gang.clone_from(&self.fleet.1[*at].together.gang);
        }
    }

    /// Keeps everybody of a unit off all nodes.
    fn do_without(&self, requests: &mut [Request], unit: &Unit<'_>) {
        let topology = unit.blocks.keys().next().map(|rules| in_words(rules)).unwrap_or_default();
        self.keep_off(requests, &unit.members, &topology, |_| true);
        unit.members.iter().for_each(|at| requests[*at].together.gang = None);
    }

    fn keep_off(
        &self,
        requests: &mut [Request],
        members: &[usize],
        topology: &str,
        off: impl Fn(&Node) -> bool,
    ) {
        let nodes = self.fleet.0.nodes.iter().filter(|(_, node)| off(node));
        let rule = Apart::Elsewhere { topology: topology.to_owned() };
        let off: Vec<(NodeName, Apart)> = nodes.map(|(name, _)| (name.clone(), rule.clone())).collect();
        for at in members {
            let kept_off = &mut requests[*at].constraints.kept_off;
            for (node, rule) in &off {
                kept_off.entry(node.clone()).or_insert_with(|| rule.clone());
            }
        }
    }

    /// Serves nobody of a gang for which no part was found.
    fn give_up(&mut self, unit: &Unit<'_>, lacks: Lacks<'_>) {
        let Lacks { rules, pods, fits, unseen } = lacks;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let fits = fits.into_iter().filter(|(_, n)| *n > 0);
        let mut fits: Vec<(String, u32)> = fits.map(|(part, n)| (part.join(" and "), number(n))).collect();
        fits.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.cmp(b)));
        fits.truncate(MOST_NAMED);
        let help = fits.first().map(|(_, n)| Help::ChangeRequest {
            advice: format!("start at most {n} pods that have to have the same {}", in_words(rules)),
        });
        let why =
            Why::NoDomain { topology: in_words(rules), pods: number(pods), fits, unseen: number(unseen) };
        self.leave_out(unit, why, help.into_iter().collect());
    }

    fn leave_out(&mut self, unit: &Unit<'_>, why: Why, help: Vec<Help>) {
        let mut requests = std::mem::take(&mut self.restricted);
        self.do_without(&mut requests, unit);
        self.restricted = requests;
        self.whole.retain(|at| !unit.members.contains(at));
        self.out.push(Out { members: unit.members.iter().copied().collect(), why, help });
    }

    /// Whether anybody is served in turn.
    fn is_in_turn(&self) -> bool {
        self.fleet.2.iter().any(|policy| policy.layout.serves_in_turn())
    }
}
