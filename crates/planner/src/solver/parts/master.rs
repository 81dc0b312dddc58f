//! Patterns of whole copies by column generation: the relaxation over all possible patterns, of which only
//! those are generated that it needs, and the exact bound that its prices prove.

use std::collections::BTreeSet;

use super::model::Model;
use super::price::{BITS, Pattern, Prices, in_whole_units, price};
use super::shape::{Place, Shape};
use crate::solver::basis::End;
use crate::solver::instance::{RowIndex, Sense};
use crate::solver::program::{Draft, Program};
use crate::solver::simplex::Simplex;
use crate::solver::work::Allowance;

/// Rounds of pricing at one level.
const ROUNDS: usize = 80;
/// The patterns' bound is this part of a step less than it could be, so that
/// their search need not tell apart what is almost equal.
const LOSS: i64 = 64;

/// Patterns that were made so far, by kind, and what each gives and costs.
pub(super) struct Pool {
    kinds: Vec<Vec<Known>>,
    seen: BTreeSet<(usize, Pattern)>,
}

#[derive(Clone, Debug)]
struct Known {
    pattern: Pattern,
    shared: Vec<(usize, i64)>,
    costs: Vec<i64>,
}

/// An optimum of the relaxation.
pub(super) struct Relaxed {
    /// How often each pattern is used, by kind.
    pub(super) used: Vec<Vec<(Pattern, f64)>>,
    /// No choice has a lower value at the level.
    pub(super) bound: i64,
    /// What the rows are worth in it.
    pub(super) prices: Prices,
}

impl Pool {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let mut pool = Self { kinds: vec![vec![]; model.kinds.len()], seen: BTreeSet::new() };
        for (k, kind) in model.kinds.iter().enumerate() {
            pool.add(model, k, Pattern::idle(&kind.shape));
        }
        pool
    }

    /// How many patterns there are.
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// What the best pattern of a kind costs at these prices.
    pub(super) fn least_of(&self, kind: usize, prices: &Prices) -> i64 {
        let cost = |known: &Known| of_sums(prices, &known.shared, &known.costs);
        self.kinds[kind].iter().map(cost).min().unwrap_or(0)
    }

    /// The same of each kind.
    pub(super) fn least(&self, prices: &Prices) -> Vec<i64> {
        (0..self.kinds.len()).map(|kind| self.least_of(kind, prices)).collect()
    }

    /// Adds a pattern; says whether it is new.
    pub(super) fn add(&mut self, model: &Model<'_>, kind: usize, pattern: Pattern) -> bool {
        if !self.seen.insert((kind, pattern.clone())) {
            return false;
        }
        let (shared, costs) = pattern.sums(&model.kinds[kind].shape, model.instance.rows.len(), model.levels);
        self.kinds[kind].push(Known { pattern, shared, costs });
        true
    }
}

/// The relaxation at a level, the earlier ones held; `effort` is for each
/// search of a pattern, and with the work done, the best so far is taken. Nothing, if the simplex gets lost.
pub(super) fn relax(
    model: &Model<'_>,
    pool: &mut Pool,
    fixed: &[i64],
    (effort, work): (u64, Allowance),
) -> Option<Relaxed> {
    let level = fixed.len();
    let mut bound = i64::MIN;
    let copies: i64 = model.kinds.iter().map(|kind| i64::from(kind.copies)).sum();
    let slack = ((model.steps[level] << BITS) / (LOSS * copies.max(1))).max(1);
    for round in 0..ROUNDS {
        let master = Master::new(model, pool, fixed);
        let mut simplex = Simplex::new(&master.program);
        if simplex.optimise() != End::Optimal {
            return None;
        }
        let prices = master.prices(model, &simplex.true_prices());
        let (mut total, mut added) = (of_the_rest(model, &prices, fixed), false);
        for (k, kind) in model.kinds.iter().enumerate() {
            let below = pool.least_of(k, &prices);
            let priced = price(kind, model.instance.rows.len(), &prices, below, slack, effort);
            total += i128::from(priced.bound.min(below)) * i128::from(kind.copies);
            for pattern in priced.patterns {
                added |= pool.add(model, k, pattern);
            }
        }
        bound = bound.max(rounded_up(model, level, total));
        if !added || round + 1 == ROUNDS || work.is_used_up() {
            return Some(Relaxed { used: master.used(model, pool, &simplex.solution()), bound, prices });
        }
    }
    None
}

/// The relaxation over the patterns that are known.
pub(super) struct Master {
    pub(super) program: Program,
    /// The rows of the program that stand for each row of the instance, then
    /// those of the levels that are held.
    map: Vec<Vec<u32>>,
    /// The former: the row of the instance that each of them is, or stands for.
    rows: Vec<RowIndex>,
    /// The first block of the kinds.
    first_kind: usize,
    /// The column of the first pattern of each kind.
    first_column: Vec<usize>,
}

impl Master {
    pub(super) fn new(model: &Model<'_>, pool: &Pool, fixed: &[i64]) -> Self {
        let (level, rows) = (fixed.len(), model.instance.rows.len());
        let shared = model.relaxed_rows();
        let mut senses: Vec<(Sense, i64)> = shared.iter().map(|(r, rhs)| (model.sense(*r), *rhs)).collect();
        senses.extend(fixed.iter().map(|value| (Sense::AtMost, *value)));
        let mut position = vec![usize::MAX; rows];
        shared.iter().enumerate().for_each(|(i, (r, _))| position[*r] = i);
        let position = |row: usize| position[model.first_of(row)];
        let (mut program, map) = Program::new(&senses);
        let first_level = shared.len();
        let mut tag = 0;
        let mut sum = |terms: &mut dyn Iterator<Item = (Place, i64)>| {
            tag += 1;
            let mut draft = Draft { cost: 0, terms: vec![], tag };
            for (place, a) in terms {
                match place {
                    Place::Shared(row) => draft.terms.push((position(row), a)),
                    Place::Level(l) if l < level => draft.terms.push((first_level + l, a)),
                    Place::Level(l) if l == level => draft.cost += a,
                    Place::Own(_) | Place::Level(_) => {}
                }
            }
            if model.alike.is_some() {
                added_up(&mut draft.terms);
            }
            draft
        };
        let mut of = |shape: &Shape, draft: &Draft| {
            sum(&mut draft.terms.iter().map(|(row, a)| (shape.place(*row, rows), *a)))
        };
        for block in &model.rest.blocks {
            for draft in block.drafts.iter() {
                program.push_column(&of(&model.rest, draft), &map);
            }
            program.end_block(block.count);
        }
        let extras: Vec<Draft> = model.rest.extras.iter().map(|e| of(&model.rest, &e.draft)).collect();
        let first_kind = program.blocks();
        let mut first_column = Vec::new();
        for (kind, known) in model.kinds.iter().zip(&pool.kinds) {
            first_column.push(program.columns());
            for known in known {
                let shared = known.shared.iter().map(|(row, a)| (Place::Shared(*row), *a));
                let costs = known.costs.iter().enumerate().map(|(l, c)| (Place::Level(l), *c));
                program.push_column(&sum(&mut shared.chain(costs.filter(|(_, c)| *c != 0))), &map);
            }
            program.end_block(i64::from(kind.copies));
        }
        for (extra, draft) in model.rest.extras.iter().zip(extras) {
            program.push_column(&Draft { cost: 0, terms: vec![], tag: 0 }, &map);
            program.push_column(&draft, &map);
            program.end_block(extra.upper);
        }
        let last_kind = first_kind + model.kinds.len();
        program.extra = (0..program.blocks()).map(|b| b >= last_kind).collect();
        program.finish();
        let rows = shared.into_iter().map(|(row, _)| row).collect();
        Self { program, map, rows, first_kind, first_column }
    }

    /// Prices in whole units, of the right signs.
    pub(super) fn prices(&self, model: &Model<'_>, prices: &[f64]) -> Prices {
        let price = |rows: &[u32]| -> i64 {
            let fixed = |r: &u32| in_whole_units(prices[*r as usize], &self.program.rows[*r as usize]);
            rows.iter().map(fixed).sum()
        };
        let mut all = vec![0; model.instance.rows.len()];
        self.rows.iter().zip(&self.map).for_each(|(row, rows)| all[*row] = price(rows));
        model.shared.iter().for_each(|row| all[*row] = all[model.first_of(*row)]);
        let held = self.map[self.rows.len()..].iter().map(|rows| -price(rows));
        let mut levels: Vec<i64> = held.collect();
        levels.push(1 << BITS);
        levels.resize(model.levels, 0);
        Prices { rows: all, levels }
    }

    /// How often each pattern is used, by kind.
    pub(super) fn used(
        &self,
        model: &Model<'_>,
        pool: &Pool,
        values: &[(u32, f64)],
    ) -> Vec<Vec<(Pattern, f64)>> {
        let mut used = vec![vec![]; model.kinds.len()];
        for (column, value) in values {
            let block = self.program.block_of[*column as usize] as usize;
            let Some(kind) = block.checked_sub(self.first_kind).filter(|k| *k < used.len()) else { continue };
            let known = &pool.kinds[kind][*column as usize - self.first_column[kind]];
            used[kind].push((known.pattern.clone(), *value));
        }
        used
    }
}

/// Terms of the same row as one.
fn added_up(terms: &mut Vec<(usize, i64)>) {
    terms.sort_unstable();
    terms.dedup_by(|(row, a), (before, sum)| {
        let is_same = row == before;
        *sum += if is_same { *a } else { 0 };
        is_same
    });
}

/// What the right-hand sides are worth, and what is of no part costs at least.
pub(super) fn of_the_rest(model: &Model<'_>, prices: &Prices, fixed: &[i64]) -> i128 {
    let rows = model.instance.rows.len();
    let mut total: i128 = 0;
    for row in &model.shared {
        total += i128::from(prices.rows[*row]) * i128::from(model.instance.rows[*row].rhs);
    }
    for (price, value) in prices.levels.iter().zip(fixed) {
        total -= i128::from(*price) * i128::from(*value);
    }
    let cost = |draft: &Draft| prices.cost(draft, |row| model.rest.place(row, rows));
    for block in &model.rest.blocks {
        let least = block.drafts.iter().map(cost).min().unwrap_or(0);
        total += i128::from(least) * i128::from(block.count);
    }
    for extra in &model.rest.extras {
        total += i128::from(cost(&extra.draft).min(0)) * i128::from(extra.upper);
    }
    total
}

/// The least value of a level that is no less than this, which is fixed-point.
pub(super) fn rounded_up(model: &Model<'_>, level: usize, total: i128) -> i64 {
    let step = i128::from(model.steps[level]) << BITS;
    let proved = -(-total).div_euclid(step) * i128::from(model.steps[level]);
    i64::try_from(proved).unwrap_or(i64::MIN)
}

/// What a pattern costs after what the shared rows pay.
pub(super) fn of_sums(prices: &Prices, shared: &[(usize, i64)], costs: &[i64]) -> i64 {
    let shared = shared.iter().map(|(row, a)| prices.rows[*row].saturating_mul(*a));
    let costs = costs.iter().zip(&prices.levels).map(|(c, p)| c.saturating_mul(*p));
    costs.sum::<i64>() - shared.sum::<i64>()
}
