//! Instances in which some parts occur several times: nodes that are alike, each with rows of its own.
//!
//! The instance has each part once, for all of its copies together: its optimum is a bound for every plan.
//! The decision for every single copy is found by patterns of whole copies. Column generation makes those
//! that the relaxation needs ([`master`]); patterns that it uses a whole number of times are taken, and the
//! few remaining copies are decided together, then in halves until every copy is decided by itself
//! ([`split`]). Little is lost in this order: whole patterns lose nothing, and the remainder is small.
//! Copies that have become equal at these levels are one kind ([`shape`]), and only at the end each copy of
//! a kind gets its decision, with the later levels in view ([`settle`]).

mod alike;
mod anew;
mod asked;
mod dearest;
mod decisions;
mod divide;
mod everyone;
mod fill;
mod guide;
mod master;
mod merged;
mod model;
mod order;
#[cfg(test)]
mod packing;
mod price;
mod proof;
mod refill;
mod refute;
mod refute_each;
mod regain;
mod repair;
mod settle;
mod shape;
mod split;
mod steady;

use std::collections::BTreeMap;

pub use self::alike::MANY_THINGS;
pub use self::asked::{Asked, InTurn, Known};
use self::decisions::{Decisions, Span};
use self::fill::Filling;
use self::guide::Guide;
use self::master::{Pool, relax};
pub use self::merged::{MANY_PARTS, Merged, are_many};
use self::model::Model;
pub use self::order::Orders;
use self::proof::{Proof, is_best, is_last};
use self::regain::{Gap, regain};
use self::repair::{Goal, repair};
use self::split::{Open, State};
use super::instance::{Choice, Effort, Instance, Level, RowIndex, SolveError, Solved};
use super::lexicographic::Levels;
use super::memory::Memory;
use super::work::Allowance;

/// A part of an instance of which there are several copies. The instance has
/// the sums over all of them: right-hand sides, counts and upper bounds are
/// `copies` times those of one copy.
///
/// A part's extras are things that can be done less often without breaking a
/// row of the part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// How many copies.
    pub copies: u32,
    /// Rows that only its classes and extras touch.
    pub rows: Vec<RowIndex>,
    /// What each of these counts: rows of several parts that have the same number here count the same.
    pub counts: Vec<u64>,
    /// Its classes.
    pub classes: Vec<usize>,
    /// Its extras.
    pub extras: Vec<usize>,
}

/// What one copy does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copy {
    /// For each class of the part, how many GPUs of the copy take which column.
    pub classes: Vec<Vec<(usize, u32)>>,
    /// The value of each extra of the part.
    pub extras: Vec<i64>,
}

/// A choice for the instance, and for every copy of each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parted {
    /// The sums over all copies.
    pub solved: Solved,
    /// For each part, what each of its copies does.
    pub copies: Vec<Vec<Copy>>,
}

/// Nodes of a search among few copies, per level.
const FEW: Effort = Effort { nodes: 400 };
/// Nodes of a search for a pattern.
const PATTERN: u64 = 400;
/// Searches among some copies for something better, at all levels together; and as many for one level alone.
const REPAIRS: usize = 60;
/// So many levels are decided when copies are, from the one on that is looked at, and those before it at which nothing is lost
/// count as one. Otherwise, with many priorities, most of the work would be for those that are met anyhow, and for those that
/// a later decision makes anew.
const DECIDED: usize = 4;
/// So many levels are looked at without that.
const FEW_LEVELS: usize = 2;
/// Operations ([`work`](super::work)) for them at each level. Whatever they find, they mostly find
/// in half as many, and where the bound is out of reach all of them are for nothing.
const REPAIRS_OF_A_LEVEL: u64 = 950_000_000;
/// The same at each level, where some come first.
const REPAIRS_IN_TURN: u64 = 600_000_000;
/// Operations ([`work`](super::work)) that a level may take beyond that, while it is not at its bound.
const REFILL: u64 = 400_000_000;
/// Beyond so many kinds of things to do, patterns take too long where the program for all copies together has
/// not found the best already: copies are filled one by one then, and a few again and again.
const KINDS: usize = 40;
/// Beyond so many, the program for all copies together takes too long as well.
pub const MANY_KINDS: usize = 64;
/// Beyond so many it is not asked who can be served beside whom: each question would be such a program.
pub const KINDS_IN_TURN: usize = KINDS;

/// What is decided of somebody who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Whether it is served, beside everybody of whom that was decided before.
    pub served: bool,
    /// Whether nothing better can be decided of it.
    pub proved: bool,
}

/// Who is served of those who come first, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// What is decided of each, in their order.
    pub decided: Vec<Decided>,
    /// What copies do for it, for each part.
    pub copies: Vec<Vec<Copy>>,
}

/// Finds a good choice for every copy, and the bounds that hold for it.
///
/// The way depends on how many kinds of things there are to do. With [`MANY_KINDS`], or with [very many parts](are_many), copies are
/// filled, and nothing else is done. Otherwise the program for all copies together is solved and split; where that does not reach its bounds, the
/// first levels are looked at copy by copy: by patterns, or by filling if there are more than some forty kinds.
///
/// Deterministic: the result depends on nothing but the arguments.
///
/// # Errors
/// If the instance is malformed, cannot be met, or no solution was found
/// within the effort. It cannot be met either where it is proved that no choice is as good as is wanted.
pub fn solve_parts(
    instance: &Instance,
    parts: &[Part],
    asked: Asked<'_>,
    effort: Effort,
) -> Result<Parted, SolveError> {
    instance.validate()?;
    let Asked { first, bounded, orders, reached, .. } = asked;
    let first = first.min(instance.levels);
    let kinds = if asked.filled_within.is_some() { 0 } else { MANY_KINDS };
    if let Some(parted) = filled(instance, parts, kinds, asked) {
        return Ok(parted);
    }
    if are_many(instance, parts) {
        // Anything else would take minutes.
        return Err(SolveError::NotFound { nodes: effort.nodes });
    }
    let mut memory = Memory::default();
    let mut together = Levels::new(instance, effort, &mut memory);
    if parts.is_empty() {
        together.up_to(instance.levels)?;
        return Ok(Parted { solved: together.solved(), copies: vec![] });
    }
    together.up_to(first)?;
    let is_out_of_reach = |held: &[i64], bound: i64| {
        reached.get(..held.len()) == Some(held) && reached.get(held.len()).is_some_and(|most| *most < bound)
    };
    let values: Vec<i64> = (0..first).map(|k| together.level(k).value).collect();
    if (0..first).any(|k| is_out_of_reach(&values[..k], together.level(k).bound)) {
        return Err(SolveError::Infeasible);
    }
    // What is not proved for all copies together is not worth dividing.
    let is_whole = (0..first).all(|k| together.level(k).is_proven());
    let mut best = if is_whole { split_in_one_go(instance, parts, &mut together)? } else { None };
    let mut proved: Vec<Proof> = Vec::new();
    let is_proved = |best: &Option<Settled>, together: &Levels<'_>, proved: &[Proof]| {
        best.as_ref().is_some_and(|best| is_best(&best.values[..first], together, proved))
    };
    if !is_proved(&best, &together, &proved) {
        if let Some(mut filled) = filled(instance, parts, KINDS, asked) {
            let of_filled = filled.solved.levels.iter().map(|level| level.value);
            if best.as_ref().is_none_or(|best| of_filled.lt(best.values.iter().copied())) {
                if let Some(level) = filled.solved.levels.first_mut() {
                    level.bound = level.bound.max(together.level(0).bound).min(level.value);
                }
                return Ok(filled);
            }
        } else {
            let known = best.as_ref().map(|best| best.values[..first].to_vec());
            let served =
                serve_by_patterns((instance, parts, first), &together, (known, asked), &is_out_of_reach);
            if let Some((settled, proofs)) = served {
                let is_out = proofs.iter().any(|proof| is_out_of_reach(&proof.held, proof.bound));
                if is_out && !asked.is_question {
                    return Err(SolveError::Infeasible);
                }
                proved = proofs;
                best = better(best, settled);
            }
            if !is_proved(&best, &together, &proved) {
                let in_order = in_order(instance, parts, (first, orders), best.as_ref());
                best = better(best, in_order);
            }
        }
    }
    let best = match best {
        Some(best) => Some(best),
        None => split_in_one_go(instance, parts, &mut together)?,
    };
    let Settled { choice: (classes, extras), values, copies } =
        best.ok_or(SolveError::NotFound { nodes: effort.nodes })?;
    let levels = bounds(instance, &mut together, &proved, &values, bounded)?;
    Ok(Parted { solved: Solved { classes, extras, levels }, copies })
}

/// The better of two; of equals the first.
fn better(one: Option<Settled>, other: Option<Settled>) -> Option<Settled> {
    [one, other].into_iter().flatten().min_by(|a, b| a.values.cmp(&b.values))
}

/// The first levels by patterns of whole copies. What is known already has to be beaten.
fn serve_by_patterns(
    (instance, parts, first): (&Instance, &[Part], usize),
    together: &Levels<'_>,
    (known, asked): (Option<Vec<i64>>, Asked<'_>),
    is_out_of_reach: &dyn Fn(&[i64], i64) -> bool,
) -> Option<(Option<Settled>, Vec<Proof>)> {
    let model = Model { worth: asked.worth, ..Model::new(instance, parts, first) };
    let given = State::from_copies(&model, asked.start.copies);
    let given = given.and_then(|state| state.values(&model).map(|values| (state, values)));
    // Mostly first fit serves all of the first ones of many priorities, and nothing has to be searched for them.
    let first_fit = || (model.levels > FEW_LEVELS).then(|| fill::start(&model, asked.orders)).flatten();
    let start = given.or_else(first_fit);
    let start = start.filter(|(_, values)| known.as_ref().is_none_or(|known| values < known));
    let (found, best) = match start {
        Some((state, values)) => (Some(state), Some(values)),
        None => (None, known),
    };
    // Where some come first, all the questions about them are searched for, too.
    let repairs =
        if asked.is_question || !asked.orders.turns.is_empty() { REPAIRS_IN_TURN } else { u64::MAX };
    let begin = Begin { best, found, repairs, is_question: asked.is_question };
    let (state, proofs) = serve(&model, together, begin, is_out_of_reach)?;
    Some((state.and_then(|state| settle::settle(&model, parts, &state)), proofs))
}

/// What is done one by one, in the best of the orders, if that is better than what is known.
fn in_order(
    instance: &Instance,
    parts: &[Part],
    (first, orders): (usize, &Orders),
    known: Option<&Settled>,
) -> Option<Settled> {
    let model = Model::new(instance, parts, first);
    let (state, values) = fill::start(&model, orders)?;
    let is_better = known.is_none_or(|known| values[..] < known.values[..first]);
    is_better.then(|| settle::settle(&model, parts, &state))?
}

/// An instance of more than so many kinds of things to do: copies are filled one by one, and again.
fn filled(instance: &Instance, parts: &[Part], kinds: usize, asked: Asked<'_>) -> Option<Parted> {
    let Asked { first, worth, orders, .. } = asked;
    let first = first.min(instance.levels);
    let model = Model { worth, ..fill::suited(instance, parts, (first, kinds))? };
    let mut filling = Filling::new(&model, parts, (orders, asked.start), asked.filled_within)?;
    filling.up_to(first)?;
    filling.parted(parts)
}

/// Who is served, where those at a level come first and there are too many kinds of them to ask about all copies
/// together: of each of the queue, whether it is served beside those before it. Nothing, where filling does not suit
/// the instance, or there are few kinds.
///
/// Each row of the queue has two extras: what of it is not wanted, which costs nothing at the level, and what is
/// wanted, which costs 1 there.
///
/// `known`: what came of the levels before.
#[must_use]
pub fn serve_in_turn(
    instance: &Instance,
    parts: &[Part],
    (orders, known): (&Orders, Known<'_>),
    InTurn { level, queue, filled_within }: InTurn<'_>,
) -> Option<Served> {
    instance.validate().ok()?;
    let kinds = if filled_within.is_some() { 0 } else { KINDS_IN_TURN };
    let model = fill::suited(instance, parts, (level + 1, kinds))?;
    let mut filling = Filling::new(&model, parts, (orders, known), filled_within)?;
    filling.up_to(level)?;
    let proofs = filled_within.is_none();
    let mut refuter = proofs.then(|| refute::Refuter::new(&model, parts, filling.held(level)));
    let decided = filling.in_turn(level, queue, refuter.as_mut())?;
    Some(Served { decided, copies: filling.copies(parts) })
}

/// A choice for every copy, and what it comes to.
#[derive(Debug)]
struct Settled {
    choice: Choice,
    values: Vec<i64>,
    copies: Vec<Vec<Copy>>,
}

/// The choice for all copies together, split half by half at all levels: where
/// there is room enough, nothing is lost.
fn split_in_one_go(
    instance: &Instance,
    parts: &[Part],
    together: &mut Levels<'_>,
) -> Result<Option<Settled>, SolveError> {
    together.up_to(instance.levels)?;
    let model = Model::new(instance, parts, instance.levels);
    let Some(mut state) = State::from_solved(&model, parts, &together.solved()) else { return Ok(None) };
    if halve(&model, &mut state, &mut Decisions::new(true)).is_none() {
        return Ok(None);
    }
    state.trim(&model);
    Ok(settle::settle(&model, parts, &state))
}

/// Halves every piece until each is one copy.
fn halve(model: &Model<'_>, state: &mut State, decisions: &mut Decisions) -> Option<()> {
    while let Some(position) = state.pieces.iter().position(|piece| piece.copies > 1) {
        let piece = state.pieces.swap_remove(position);
        let half = piece.copies / 2;
        if let Some(half) = piece.evenly() {
            state.pieces.extend([half.clone(), half]);
            continue;
        }
        let open = [(piece.kind, half), (piece.kind, piece.copies - half)];
        state.decide(model, &Open { pieces: &open, rest: false }, (FEW, decisions))?;
    }
    Some(())
}

/// Where looking copy by copy begins.
struct Begin {
    /// What is known already and has to be beaten.
    best: Option<Vec<i64>>,
    /// The state that it comes of, if it is of single copies.
    found: Option<State>,
    /// Operations for deciding a few copies anew.
    repairs: u64,
    is_question: bool,
}

/// The first levels, copy by copy. It ends with the first proof that what is wanted is out of reach.
fn serve(
    model: &Model<'_>,
    together: &Levels<'_>,
    begin: Begin,
    is_out_of_reach: &dyn Fn(&[i64], i64) -> bool,
) -> Option<(Option<State>, Vec<Proof>)> {
    let mut pool = Pool::new(model);
    let Begin { mut best, mut found, repairs: work, is_question } = begin;
    if let Some(state) = &found {
        state.pieces.iter().for_each(|piece| {
            pool.add(model, piece.kind, piece.does.clone());
        });
    }
    let mut proofs: Vec<Proof> = Vec::new();
    let counts_work = work != u64::MAX;
    let mut decisions = Decisions::new(counts_work);
    let mut guides: BTreeMap<usize, Guide> = BTreeMap::new();
    let (mut level, mut refilled) = (0, false);
    let (mut repairs, mut repairs_alone) = (REPAIRS, REPAIRS);
    let allowance = || Allowance::of(work.min(REPAIRS_OF_A_LEVEL));
    let is_long = model.levels > FEW_LEVELS;
    let least: Vec<i64> = (0..model.levels).map(|level| model.instance.least(level)).collect();
    loop {
        if level == model.levels {
            // Only what all of this leaves open is searched for in another way, so that what it proves stays as
            // it is; but not for what is worth less.
            let open = proofs.iter_mut().find(|p| {
                let k = p.held.len();
                k < model.worth && best.as_ref().is_some_and(|best| best[k] > p.bound)
            });
            let (Some(open), Some(state), Some(before), false) = (open, &found, &best, refilled) else {
                break;
            };
            open.tighten(model.instance);
            if before[open.held.len()] <= open.bound {
                continue;
            }
            refilled = true;
            let (k, mut state) = (open.held.len(), state.clone());
            let limits = (Allowance::of(REFILL), guides.get(&k));
            let now = refill::refill(model, &mut state, (k, open.bound), limits);
            let Some(now) = now.filter(|now| now[..=k] < before[..=k]) else { break };
            (best, found, level) = (Some(now), Some(state), k);
            proofs.retain(|proof| proof.held.len() < k);
        }
        let held: Vec<i64> = match &best {
            Some(best) => best[..level].to_vec(),
            None if level == 0 => vec![],
            None => return None,
        };
        if is_long {
            let as_one = held.iter().zip(&least).take_while(|(value, least)| value <= least).count();
            decisions.span = Span { as_one, end: level + DECIDED };
        }
        let agrees = (0..level).all(|k| together.level(k).value == held[k]);
        let mut bound = if agrees { together.level(level).bound } else { i64::MIN };
        if best.as_ref().is_some_and(|best| best[level] <= bound) {
            level += 1;
            continue;
        }
        let relaxed = relax(model, &mut pool, &held, (PATTERN, Allowance::of(u64::MAX)))?;

        bound = bound.max(relaxed.bound);
        let mut proof = Proof { held: held.clone(), bound, is_tightened: false };
        // A bound that is too low at one level is so at all levels after it, and each is searched for nothing.
        if is_long && best.as_ref().is_some_and(|best| best[level] > bound) {
            proof.tighten(model.instance);
            bound = proof.bound;
        }
        let guide = Guide::new(&pool, relaxed.prices.clone());
        let is_out = is_out_of_reach(&held, bound);
        if is_out && !is_question {
            proofs.push(proof);
            break;
        }
        let is_at_bound = |best: &Option<Vec<i64>>| {
            best.as_ref().is_some_and(|best| best[..level] == held[..] && best[level] <= bound)
        };
        let mut better = false;
        let mut consider = |state: State, best: &mut Option<Vec<i64>>, found: &mut Option<State>| {
            if let Some(values) = state.values(model)
                && best.as_ref().is_none_or(|best| values < *best)
            {
                *best = Some(values);
                *found = Some(state);
                better = true;
            }
        };
        if !is_at_bound(&best)
            && let Some(state) = whole_patterns(model, &relaxed, &mut decisions)
        {
            consider(state.clone(), &mut best, &mut found);
            if !is_out && level < model.worth && !is_at_bound(&best) {
                let best_at =
                    (0..=level).rev().find(|k| is_best(&held[..*k], together, &proofs)).unwrap_or(0);
                // Where some come first, nought is the bound of each question, and mostly it cannot be reached.
                let is_blind = guide.is_silent() && !counts_work;
                let gap = Gap { held: &held, bound, best_at, guide: &guide, is_blind };
                let limits = (&mut repairs_alone, allowance(), &mut decisions);
                consider(regain(model, state, &gap, limits), &mut best, &mut found);
            }
        }
        guides.insert(level, guide);
        if is_out {
            proofs.push(proof);
            break;
        }
        if !counts_work
            && !agrees
            && best.as_ref().is_some_and(|best| is_last(best, &proof, together, &proofs))
        {
            proof.tighten(model.instance);
        }
        if let Some(state) = &found
            && let Some(values) = &best
            && values[level] > proof.bound
        {
            let mut state = state.clone();
            let best_at = (0..=level).rev().find(|k| is_best(&values[..*k], together, &proofs)).unwrap_or(0);
            let goal = Goal { level, bound, best_at, needed: model.levels };
            repair(model, &mut state, goal, (&mut repairs, allowance(), &mut decisions));
            consider(state, &mut best, &mut found);
        }
        if let Some(state) = &found {
            for piece in &state.pieces {
                pool.add(model, piece.kind, piece.does.clone());
            }
        }
        let now = best.as_ref()?;
        if now[..level] == proof.held[..] {
            proofs.push(proof);
            level += 1;
        } else {
            // Something before this level has become better: what was proved after it says nothing.
            level = (0..level).find(|k| now[*k] != proof.held[*k]).unwrap_or(level);
            proofs.retain(|proof| proof.held.len() <= level);
        }
    }
    Some((found, proofs))
}

/// As many patterns as the relaxation uses whole; what is left over is decided
/// together and halved.
fn whole_patterns(model: &Model<'_>, relaxed: &master::Relaxed, decisions: &mut Decisions) -> Option<State> {
    let mut state = State::empty(model);
    let mut open = Vec::new();
    for (k, kind) in model.kinds.iter().enumerate() {
        let mut left = i64::from(kind.copies);
        for (pattern, value) in &relaxed.used[k] {
            let whole = ((value + 1e-6).floor() as i64).clamp(0, left);
            let piece = model::Piece { kind: k, copies: 1, does: pattern.clone() };
            state.pieces.extend((0..whole).map(|_| piece.clone()));
            left -= whole;
        }
        if left > 0 {
            open.push((k, left));
        }
    }
    state.trim(model);
    state.decide(model, &Open { pieces: &open, rest: true }, (FEW, decisions))?;
    halve(model, &mut state, decisions)?;
    state.trim(model);
    Some(state)
}

/// What is proved of each level, given the values of the levels before; of
/// those that nobody asks about, what is certain of any choice.
fn bounds(
    instance: &Instance,
    together: &mut Levels<'_>,
    proved: &[Proof],
    values: &[i64],
    bounded: usize,
) -> Result<Vec<Level>, SolveError> {
    let mut levels = Vec::with_capacity(values.len());
    let mut as_together = true;
    for (k, value) in values.iter().enumerate() {
        let held = &values[..k];
        if k >= bounded {
            levels.push(Level { value: *value, bound: instance.least(k).min(*value) });
            continue;
        }
        let patterns = || proved.iter().filter(|proof| proof.held == *held);
        let of_patterns = patterns().map(|proof| proof.bound).fold(i64::MIN, i64::max);
        let mut bound = if as_together {
            together.up_to(k + 1)?;
            as_together = together.level(k).value == *value;
            together.level(k).bound
        } else if of_patterns < *value && !patterns().any(|proof| proof.is_tightened) {
            super::bound_of(instance, held)
        } else {
            of_patterns
        };
        bound = bound.max(of_patterns);
        levels.push(Level { value: *value, bound: bound.min(*value) });
    }
    Ok(levels)
}
