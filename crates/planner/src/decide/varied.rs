//! The program that is solved: all of demand, or as much of it as can be
//! planned with a proof.
//!
//! Where very many kinds of requests wait at once (combinations of slices, or
//! pods that differ in CPU where it is short), the effort ends before it is
//! proved who can be served at best. A plan that is only the best one found is
//! no plan to act upon step by step: after each step another one is found, and
//! the fleet is cut back and forth. So less is asked, until there is a proof:
//! first requests that differ only in what they take of a node count as taking
//! the most of them; then only some kinds take part, those of the highest
//! priority that have waited longest and could be served if they were alone.
//! When these have what they want, the next ones do. What is planned so never
//! breaks a promise; what is left out is counted as unserved.

use std::cmp::Reverse;

use super::formulate::{Level, Program, Question, formulate, formulate_some};
use super::trial::EFFORT;
use super::world::{Rooms, World};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::policy::Policy;
use crate::solver::{self, Effort, SolveError, Solved, solve};

/// How many kinds are tried, one after the other.
const KINDS: [usize; 3] = [8, 4, 2];
/// Kinds that are looked at to find those that could be served alone: with
/// more that wait in vain before it, a kind has to wait for them.
const LOOKED_AT: usize = 64;

/// A program with its solution, and what it is about.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub(super) world: World<'a>,
    pub(super) program: Program,
    pub(super) solved: Solved,
}

impl Chosen<'_> {
    /// What each level reaches.
    fn values(&self) -> impl Iterator<Item = i64> + '_ {
        self.solved.levels.iter().zip(&self.program.constants).map(|(level, constant)| level.value + constant)
    }
}

/// Whether it is proved who is served, and what is changed for it.
fn is_proven(program: &Program, solved: &Solved) -> bool {
    let levels = program.levels.iter().zip(&solved.levels);
    levels.filter(|(level, _)| **level <= Level::Changed).all(|(_, solved)| solved.is_proven())
}

/// Chooses, and says how good the choice is: each level with its value and
/// with what no plan for the whole of demand goes below.
///
/// # Errors
/// If there is no solution at all: a bug of ours.
pub(super) fn choose<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &'a [Policy],
) -> Result<(Chosen<'a>, Vec<solver::Level>), SolveError> {
    let world = World::of(inventory, requests, policies);
    let program = formulate(&world, Question::Plan);
    let solved = solve(&program.instance, Effort::default())?;
    let all = Chosen { world, program, solved };
    if is_proven(&all.program, &all.solved) {
        let bounds = bounds(&all, &all);
        return Ok((all, bounds));
    }
    let some = with_a_proof(inventory, requests, policies);
    let chosen = some.map(|some| {
        let bounds = bounds(&some, &all);
        (some, bounds)
    });
    Ok(chosen.unwrap_or_else(|| {
        let bounds = bounds(&all, &all);
        (all, bounds)
    }))
}

/// The most of demand that is planned with a proof.
fn with_a_proof<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &'a [Policy],
) -> Option<Chosen<'a>> {
    let world = World::with(inventory, requests, policies, Rooms::Alike);
    let everybody = vec![true; world.groups.len()];
    let mut attempt = attempt(&world, &everybody);
    if attempt.is_none() {
        let kinds = kinds(&world);
        attempt = KINDS.iter().find_map(|most| {
            let mut admitted = vec![false; world.groups.len()];
            kinds.iter().take(*most).for_each(|g| admitted[*g] = true);
            self::attempt(&world, &admitted)
        });
    }
    let (program, solved) = attempt?;
    Some(Chosen { world, program, solved })
}

/// Solves it for some of the groups; nothing without a proof.
fn attempt(world: &World<'_>, admitted: &[bool]) -> Option<(Program, Solved)> {
    let program = formulate_some(world, Question::Plan, admitted);
    let solved = solve(&program.instance, EFFORT).ok()?;
    is_proven(&program, &solved).then_some((program, solved))
}

/// The kinds that could be served if they were alone: the highest priority
/// first, then those of which somebody waits longest.
fn kinds(world: &World<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..world.groups.len()).collect();
    order.sort_by_key(|g| {
        let oldest = world.groups[*g].requests[0];
        (Reverse(world.groups[*g].priority), oldest.since, &oldest.id)
    });
    let most = KINDS.iter().copied().max().unwrap_or_default();
    let could_be_served = |g: &usize| {
        let mut alone = vec![false; world.groups.len()];
        alone[*g] = true;
        let program = formulate_some(world, Question::Served { group: *g }, &alone);
        let asked = i64::try_from(world.groups[*g].requests.len()).unwrap_or(i64::MAX);
        solve(&program.instance, EFFORT).is_ok_and(|solved| program.unserved[*g].count(&solved) < asked)
    };
    order.into_iter().take(LOOKED_AT).filter(could_be_served).take(most).collect()
}

/// The levels of a choice with bounds that hold for the whole of demand: what
/// was proved of it, as long as the choice is as good at the levels before.
/// Beyond that no cost is below nothing.
fn bounds(chosen: &Chosen<'_>, all: &Chosen<'_>) -> Vec<solver::Level> {
    let whole = all.program.levels.iter().zip(all.values());
    let proved = all.solved.levels.iter().zip(&all.program.constants).map(|(l, constant)| l.bound + constant);
    let whole: Vec<(Level, i64, i64)> =
        whole.zip(proved).map(|((l, value), bound)| (*l, value, bound)).collect();
    let mut as_good = true;
    chosen
        .program
        .levels
        .iter()
        .zip(chosen.values())
        .enumerate()
        .map(|(k, (level, value))| {
            let known = whole.get(k).filter(|(same, ..)| as_good && same == level);
            let bound = known.map_or(0, |(_, _, bound)| *bound).min(value);
            as_good = known.is_some_and(|(_, of_all, _)| *of_all == value);
            solver::Level { value, bound }
        })
        .collect()
}
