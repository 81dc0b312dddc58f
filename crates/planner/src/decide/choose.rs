//! The program that is solved, and its solution: node by node if few nodes and few kinds of requests have
//! to be considered, otherwise by groups of equal nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::formulate::{Counted, Level, Program, Question, formulate};
use super::memo::Memo;
use super::turn::Turns;
use super::turns::{Compared, Limits};
use super::world::{Grain, World};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::plan::UnderWay;
use crate::policy::Policy;
use crate::solver::{self, Asked, Copy, Effort, MANY_KINDS, Merged, Sense, SolveError, Solved, are_many};

/// Nodes per level for all nodes that are alike together.
const TOGETHER: Effort = Effort { nodes: 60 };

/// What finding out whose turn it is may cost a plan.
const TURNS: Limits =
    Limits { effort: TOGETHER, questions: 600, by_node: 40, work: 3_500_000_000, filled_within: None };

/// Operations for each level where only who is served is looked for.
const SERVICE: u64 = 100_000_000;

/// A program with its solution, and what it is about.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) world: World<'a>,
    pub(super) turns: Turns,
    pub(super) program: Program,
    pub(super) solved: Solved,
    /// What each copy of each part does.
    pub(super) copies: Vec<Vec<Copy>>,
}

impl Chosen<'_> {
    /// The levels, with what is certain whatever is planned.
    pub(super) fn levels(&self) -> Vec<solver::Level> {
        let levels = self.solved.levels.iter().zip(&self.program.constants);
        levels
            .map(|(level, constant)| solver::Level {
                value: level.value + constant,
                bound: level.bound + constant,
            })
            .collect()
    }

    /// Whether it is proved who is served, and what is changed for it.
    fn is_proven(&self) -> bool {
        let levels = self.program.levels.iter().zip(&self.solved.levels);
        let mut deciding = levels.filter(|(level, _)| **level <= Level::Changed);
        deciding.all(|(_, solved)| solved.is_proven()) && self.turns.is_proven()
    }

    /// The levels that decide whether what is under way goes on.
    fn deciding(&self) -> BTreeMap<Level, solver::Level> {
        let levels = self.program.levels.iter().copied().zip(self.levels());
        levels.filter(|(level, _)| *level <= Level::Changed).collect()
    }

    /// Whether it is better, by proof, than anything that the other one could
    /// have come to. Of who is served and how much, what was found is enough as
    /// long as nothing is under way.
    fn is_better_than(&self, other: &Self, nothing_under_way: bool) -> bool {
        let (mine, theirs) = (self.deciding(), other.deciding());
        let nothing = solver::Level { value: 0, bound: 0 };
        let levels: BTreeSet<Level> = mine.keys().chain(theirs.keys()).copied().collect();
        for level in levels {
            let mine = mine.get(&level).unwrap_or(&nothing);
            let theirs = theirs.get(&level).unwrap_or(&nothing);
            if let Level::Unserved(priority, Counted::Turns) = level {
                match self.turns.compared(&other.turns, priority).replaces(nothing_under_way) {
                    None => continue,
                    Some(replaces) => return replaces,
                }
            }
            if mine.value != theirs.value {
                // With nothing under way, nothing is given up for who can be served: a bound that is too weak to prove it
                // would leave them waiting for ever.
                let is_found_enough = nothing_under_way && level < Level::Age;
                return mine.value < if is_found_enough { theirs.value } else { theirs.bound };
            }
        }
        false
    }

    /// What was proved of every plan, as far as this one is as good at the
    /// levels before: what was proved of the plan under way says nothing about others.
    fn with_bounds_of(mut self, fresh: &Self) -> Self {
        let known = fresh.deciding();
        let mut as_good = true;
        let is_same = |priority| self.turns.compared(&fresh.turns, priority) == Compared::Same;
        for ((level, solved), constant) in
            self.program.levels.iter().zip(&mut self.solved.levels).zip(&self.program.constants)
        {
            let known = known.get(level).filter(|_| as_good);
            solved.bound = known.map_or(-constant, |known| known.bound - constant).min(solved.value);
            as_good = match level {
                Level::Unserved(priority, Counted::Turns) => as_good && is_same(*priority),
                _ => known.is_some_and(|known| known.value == solved.value + constant),
            };
        }
        self.turns = self.turns.with_proofs_of(&fresh.turns);
        self
    }

    /// How many of a group are served: its oldest.
    pub(super) fn served(&self, group: usize) -> usize {
        let unserved = usize::try_from(self.program.unserved[group].count(&self.solved));
        self.world.groups[group].requests.len().saturating_sub(unserved.unwrap_or(usize::MAX))
    }

    /// With what becomes of those whose turn it was.
    fn seen(mut self) -> Self {
        let served: Vec<usize> = (0..self.world.groups.len()).map(|g| self.served(g)).collect();
        self.turns = self.turns.seen(|group, place| place < served[group]);
        // It is known who is served, so it is known how much is.
        for (level, solved) in self.program.levels.iter().zip(&mut self.solved.levels) {
            if let Level::Unserved(priority, Counted::Slices) = level
                && self.turns.settle(&self.world, *priority)
            {
                solved.bound = solved.value;
            }
        }
        self
    }

    /// What the first levels of another program come to if it is as good: as many as both have and are numbers alone.
    fn values_for(&self, program: &Program) -> Vec<i64> {
        let levels = program.levels.iter().zip(&self.program.levels);
        let same = levels.take_while(|(a, b)| a == b && **a <= Level::Changed && !a.counts_turns()).count();
        let values = self.levels().into_iter().zip(&program.constants).take(same);
        values.map(|(level, constant)| level.value - constant).collect()
    }

    /// What counts when two choices are compared.
    fn worth(&self) -> Vec<(Level, i64)> {
        let values = self.levels().into_iter().map(|level| level.value);
        let worth = self.program.levels.iter().copied().zip(values);
        worth.filter(|(level, _)| level.is_reported()).collect()
    }
}

/// Chooses, and says how good the choice is. What is under way goes on, unless
/// something is better by proof at a level up to the number of GPUs changed: a
/// search that ends differently is no reason to change one's mind. With nothing
/// under way, it is enough that nobody found as much service with the fleet as it is.
///
/// # Errors
/// If there is no solution at all: a bug of ours.
pub(super) fn choose<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &'a [Policy],
    under_way: &UnderWay,
    memo: &mut Memo,
) -> Result<Chosen<'a>, SolveError> {
    let fresh = choose_with((inventory, requests, policies), None, None, memo)?;
    // With nothing under way, what goes on is the fleet as it is.
    if under_way.gpus.is_empty() && fresh.is_proven() {
        return Ok(fresh);
    }
    if is_better_than_any_that_goes_on(&fresh, (inventory, requests, policies), under_way, memo) {
        return Ok(fresh);
    }
    match choose_with((inventory, requests, policies), Some(under_way), Some(&fresh), memo) {
        Ok(going_on) if !fresh.is_better_than(&going_on, under_way.gpus.is_empty()) => {
            Ok(going_on.with_bounds_of(&fresh))
        }
        Ok(_) | Err(_) => Ok(fresh),
    }
}

/// Whether already what is certain of all that goes on says that the choice is
/// better: then nobody has to know which of it would be the best. It is looked
/// at up to the first level at which what goes on has a choice, with all nodes
/// that are alike together: what cannot be had so cannot be had node by node.
fn is_better_than_any_that_goes_on(
    fresh: &Chosen<'_>,
    (inventory, requests, policies): (&Inventory, &[Request], &[Policy]),
    under_way: &UnderWay,
    memo: &mut Memo,
) -> bool {
    let Memo { targets, answers, .. } = memo;
    let world = World::held_to(inventory, requests, policies, Grain::Alike, Some(under_way), targets);
    let mut program = formulate(&world, &fresh.turns.clone().until_unproved(), Question::Plan);
    let kinds = program.kinds();
    if kinds > MANY_KINDS {
        // Whoever could serve more than is asked for could serve less, and one row is less work than two.
        program.demand.iter().flatten().for_each(|row| program.instance.rows[*row].sense = Sense::AtLeast);
    }
    // Of very many kinds of nodes, those that are alike are taken as one.
    let are_many = are_many(&program.instance, &program.parts);
    let merged = |levels: usize| {
        let is_asked = |row| program.demand.contains(&Some(row));
        Merged::new(&program.instance, &program.parts, levels, is_asked).instance
    };
    let known = fresh.deciding();
    let mut held: Vec<i64> = Vec::new();
    let of_both: BTreeSet<Level> = known.keys().chain(&program.levels).copied().collect();
    for level in of_both.into_iter().filter(|level| *level <= Level::Changed) {
        let value = match level {
            // These are served, as far as it is proved that they come first.
            Level::Unserved(_, Counted::Turns) => 0,
            _ => known.get(&level).map_or(0, |solved| solved.value),
        };
        let Some(k) = program.levels.iter().position(|l| *l == level) else {
            if value == 0 { continue } else { return false }
        };
        let value = value - program.constants[k];
        let Some(certain) = program.instance.certain_value(k) else {
            // With many kinds even the relaxation takes long; mostly the slices alone say it.
            if !are_many
                && kinds > MANY_KINDS
                && value < answers.bound_of(&program.without_rooms(&world, k + 1), &held)
            {
                return true;
            }
            let bound = match are_many {
                true => answers.bound_of(&merged(k + 1), &held),
                false => answers.bound_of(&program.instance, &held),
            };
            // Gangs that have their part are few, and come first: mostly all that goes on can serve them as well.
            if value == bound && matches!(level, Level::Unserved(_, Counted::Gangs)) {
                held.push(value);
                continue;
            }
            return value < bound;
        };
        if value != certain {
            return value < certain;
        }
        held.push(certain);
    }
    false
}

/// Chooses who is served, and looks at nothing that comes after it.
///
/// # Errors
/// If there is no solution at all: a bug of ours.
pub(super) fn serve<'a>(
    (inventory, requests, policies): (&'a Inventory, &'a [Request], &'a [Policy]),
    memo: &mut Memo,
) -> Result<Chosen<'a>, SolveError> {
    let Memo { targets, answers, .. } = memo;
    let world = World::new(inventory, requests, policies, Grain::Alike, targets);
    let turns = Turns::new(&world, false, Limits { filled_within: Some(SERVICE), ..TURNS }, answers);
    let program = formulate(&world, &turns, Question::Service);
    let orders = program.orders(&world, &turns);
    let start = turns.start.clone().suited(&program.parts);
    let asked = Asked {
        start: start.known(),
        filled_within: Some(SERVICE),
        ..Asked::new(program.levels.len(), 0, &orders)
    };
    let (parted, _) = answers.solve_parts(&program.instance, &program.parts, asked, TOGETHER);
    let solver::Parted { solved, copies } = parted?;
    Ok(Chosen { world, turns, program, solved, copies }.seen())
}

/// The best choice, or the best of those that go on with what is under way. `rival`: what is chosen if none of these is
/// as good; it is infeasible to be as good where that is proved, and then nothing more is searched for.
fn choose_with<'a>(
    (inventory, requests, policies): (&'a Inventory, &'a [Request], &'a [Policy]),
    under_way: Option<&UnderWay>,
    rival: Option<&Chosen<'_>>,
    memo: &mut Memo,
) -> Result<Chosen<'a>, SolveError> {
    let Memo { targets, answers, by_classes, .. } = memo;
    let world = World::held_to(inventory, requests, policies, Grain::Nodes, under_way, targets);
    let (mut fine, mut known) = (None, None);
    if world.is_small() && !*by_classes {
        let turns = Turns::new(&world, true, Limits { effort: Effort::default(), ..TURNS }, answers);
        let program = formulate(&world, &turns, Question::Plan);
        known = Some(turns.clone());
        let solved = answers.solve(&program.instance, Effort::default())?;
        let chosen = Chosen { world, turns, program, solved, copies: vec![] }.seen();
        if chosen.is_proven() || chosen.program.parts.is_empty() {
            return Ok(chosen);
        }
        fine = Some(chosen);
    }
    let world = World::held_to(inventory, requests, policies, Grain::Alike, under_way, targets);
    let turns = known.unwrap_or_else(|| Turns::new(&world, false, TURNS, answers));
    let program = formulate(&world, &turns, Question::Plan);
    let orders = program.orders(&world, &turns);
    let reached = rival.map_or_else(Vec::new, |rival| rival.values_for(&program));
    let start = turns.start.clone().suited(&program.parts);
    let asked = Asked { reached: &reached, start: start.known(), ..program.asked(&orders) };
    let (alike, _) = answers.solve_parts(&program.instance, &program.parts, asked, TOGETHER);
    if matches!(alike, Err(SolveError::Infeasible)) {
        return Err(SolveError::Infeasible);
    }
    let alike = alike
        .map(|parted| Chosen { world, turns, program, solved: parted.solved, copies: parted.copies }.seen());
    match (alike, fine) {
        (Ok(alike), Some(fine)) if fine.worth() <= alike.worth() => Ok(fine),
        (Ok(alike), _) => Ok(alike),
        (Err(_), Some(fine)) => Ok(fine),
        (Err(error), None) => Err(error),
    }
}
