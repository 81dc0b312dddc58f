//! Each part of the cluster that is looked at is a plan of the whole fleet.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use super::likely::Candidate;
use super::units::{Part, Unit};
use super::{Choice, Lacks};
use crate::decide::formulate::{Counted, Level};
use crate::decide::{Advised, Decision, each_alone};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::RequestId;
use crate::report::{Outcome, Report, Why};
use crate::solver::SolveError;

/// How many plans may be made. On large fleets a plan takes a second, and a round has few of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// For one gang.
    each: usize,
    /// For all of them.
    all: usize,
}

impl Budget {
    /// By the number of nodes.
    pub(super) fn of(inventory: &Inventory) -> Self {
        let each = (4_096 / inventory.nodes.len().max(1)).clamp(3, 12);
        Self { each, all: each * 4 }
    }
}

/// What was found of one part.
struct Tried {
    part: Part,
    decision: Decision,
    /// How many of those that have to be there are served.
    fits: usize,
    /// Whether all of every gang that had its part before are served.
    keeps_gangs: bool,
}

impl Choice<'_, '_> {
    /// Finds a part for each of the rules of each unit. `now`: the plan without any.
    pub(super) fn place_by_plans(&mut self, units: &[Unit<'_>], mut now: Decision) -> Result<(), SolveError> {
        for unit in units {
            now = self.place(unit, now)?;
        }
        Ok(())
    }

    fn plan_for(&mut self, requests: &[Request]) -> Result<Decision, SolveError> {
        let (inventory, _, policies) = self.fleet;
        each_alone((inventory, requests, policies), self.under_way, Advised::No, self.memo)
    }

    /// Finds a part for each of the rules of a unit. `now`: the plan so far. The plan after it.
    fn place(&mut self, unit: &Unit<'_>, now: Decision) -> Result<Decision, SolveError> {
        let placed = self.placed(&now);
        // Who is not served one by one has no part either, and why is known better without one.
        if self.stays(unit, &placed) || placed.count(&unit.members) == 0 {
            return Ok(now);
        }
        let mut best = now;
        let mut lacks = None;
        for (rules, members) in &unit.blocks {
            let candidates = self.candidates(rules, members, &self.placed(&best));
            let tried = self.try_parts(unit, rules, &candidates, &best)?;
            if let (false, [], Some(likeliest)) = (unit.is_gang, tried.as_slice(), candidates.first()) {
                // No plan is left to be made for it, and who starts alone loses nothing for good.
                self.keep_to(unit, rules, &likeliest.part);
                best = self.plan(Advised::No)?;
                continue;
            }
            let fits = tried.iter().map(|tried| (tried.part.clone(), tried.fits)).collect();
            let unseen = candidates.len() - tried.len();
            let whole = |tried: &Tried| tried.keeps_gangs && (!unit.is_gang || tried.fits == members.len());
            let found = tried
                .into_iter()
                .filter(whole)
                .reduce(|a, b| if self.compare(&b.decision, &a.decision).is_lt() { b } else { a });
            let Some(Tried { part, decision, .. }) = found else {
                lacks = Some(Lacks { rules, pods: members.len(), fits, unseen });
                break;
            };
            self.keep_to(unit, rules, &part);
            best = decision;
        }
        if let Some(lacks) = lacks {
            self.give_up(unit, lacks);
            return self.plan(Advised::No);
        }
        if unit.is_gang {
            // Whoever is before it in the objective may lose by it.
            let mut without = self.restricted.clone();
            self.do_without(&mut without, unit);
            let without = self.plan_for(&without)?;
            let is_whole = self.placed(&best).count(&unit.members) == unit.members.len();
            // Who is not whole would be left out at the end as well. Now those who are decided about later may have its place.
            if !is_whole || self.compare(&without, &best).is_lt() {
                self.leave_out(unit, Why::AllUsed, Vec::new());
                return Ok(without);
            }
        }
        Ok(best)
    }

    /// Plans with requests kept to one part after another. It ends where one comes up to the plan without such rules, and
    /// in a part in which somebody was promised something, if it serves everybody or they start by themselves: nobody is
    /// moved who was told a node.
    fn try_parts(
        &mut self,
        unit: &Unit<'_>,
        rules: &BTreeMap<String, String>,
        candidates: &[Candidate],
        bound: &Decision,
    ) -> Result<Vec<Tried>, SolveError> {
        let members = &unit.blocks[rules];
        let mut tried: Vec<Tried> = Vec::new();
        for Candidate { part, is_promised, .. } in candidates.iter().take(self.budget.each) {
            if self.budget.all == 0 {
                break;
            }
            self.budget.all -= 1;
            let requests = self.kept_to(unit, rules, part);
            let decision = self.plan_for(&requests)?;
            let placed = self.placed(&decision);
            let (fits, keeps_gangs) = (placed.count(members), self.keeps_gangs(&placed));
            let is_whole = fits == members.len();
            let is_best = *is_promised && (is_whole || !unit.is_gang)
                || is_whole && self.compare(&decision, bound).is_le();
            tried.push(Tried { part: part.clone(), decision, fits, keeps_gangs });
            if is_best && keeps_gangs {
                break;
            }
        }
        Ok(tried)
    }

    /// Which of two plans is better by the objective, level by level; it is the lesser one.
    fn compare(&self, one: &Decision, other: &Decision) -> Ordering {
        let turns: BTreeMap<String, i32> = match self.is_in_turn() {
            true => {
                let priorities: BTreeSet<i32> = self.fleet.1.iter().map(|request| request.priority).collect();
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
