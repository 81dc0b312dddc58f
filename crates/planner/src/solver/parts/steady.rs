//! The relaxation over all patterns where copies are of hundreds of kinds, from prices that are near the best already.
//!
//! Column generation by itself jumps: the prices of a program with few patterns are far from what they become, every
//! kind is asked at them, and what it answers is of no use later. Of 1,000 kinds each such round costs as much as all
//! the rest. But here good prices are known, those of the parts in bunches: what these prove is mostly within a
//! hundredth of the best. So kinds are asked at prices that are a little way from the best so far towards those of the
//! program, and the best so far moves whenever more is proved.

use super::master::{Master, Pool, Relaxed, of_the_rest, rounded_up};
use super::model::Model;
use super::price::{BITS, Prices, price};
use crate::solver::basis::End;
use crate::solver::simplex::Simplex;
use crate::solver::work::Allowance;

/// Rounds of pricing at one level.
const ROUNDS: usize = 80;
/// How far from the best prices towards those of the program, in parts of all of the way. With a third of it, a fleet of
/// 1,000 nodes takes twice as long to come as near.
const WAY: i64 = 8;
/// Nodes of a search for a pattern, at first: those that are missed are found at other prices, and to prove that there
/// is none takes most of the work.
const SOON: u64 = 12;
/// The same, when nothing is found that way any more.
const PATTERN: u64 = 60;
/// The relaxation and its bound need not come nearer than this part of the bound, and the search for a pattern need not
/// tell apart what is almost equal: a fifth of what the goal allows.
const LOSS: i64 = 500;

/// Less than any choice comes to: so much is proved where nobody was asked.
const NOTHING: i128 = i128::MIN / 2;

/// The relaxation at a level, the earlier ones held, from these prices; `least`: what the level comes to at least, about.
/// Its prices are those that prove most. Nothing, if the simplex gets lost.
pub(super) fn relax(
    model: &Model<'_>,
    pool: &mut Pool,
    held: &[i64],
    (mut best, least, work): (Prices, i64, Allowance),
) -> Option<Relaxed> {
    let level = held.len();
    let copies: i64 = model.kinds.iter().map(|kind| i64::from(kind.copies)).sum();
    let loss = (least / LOSS).max(model.steps[level]) << BITS;
    let slack = (loss / copies.max(1) / 4).max(1);
    let mut proved = asked(model, pool, held, &best, (SOON, slack, work)).unwrap_or(NOTHING);
    let (mut way, mut effort, mut is_done) = (WAY, SOON, false);
    for _ in 0..ROUNDS {
        let master = Master::new(model, pool, held);
        let mut simplex = Simplex::new(&master.program);
        if simplex.optimise() != End::Optimal {
            return None;
        }
        let solution = simplex.solution();
        let value = |(column, n): &(u32, f64)| master.program.cost[*column as usize] as f64 * n;
        let value = (solution.iter().map(value).sum::<f64>() * f64::from(1u32 << BITS)) as i128;
        if is_done || value - proved <= i128::from(loss) || work.is_used_up() {
            let used = master.used(model, pool, &solution);
            return Some(Relaxed { used, bound: rounded_up(model, level, proved), prices: best });
        }
        let prices = towards(&best, &master.prices(model, &simplex.true_prices()), way);
        let before = pool.len();
        if let Some(total) = asked(model, pool, held, &prices, (effort, slack, work))
            && total > proved
        {
            (proved, best) = (total, prices);
        }
        // Nothing new: next at the prices of the program itself, then with more effort, and then it is the optimum.
        (way, effort, is_done) = match (pool.len() > before, way, effort) {
            (true, _, effort) => (WAY, effort, false),
            (false, 2.., effort) => (1, effort, false),
            (false, _, SOON) => (WAY, PATTERN, false),
            (false, _, effort) => (WAY, effort, true),
        };
    }
    None
}

/// Asks every kind for patterns that are better than all that are known, and says what no choice goes below at these
/// prices; nothing, if the work is used up before all were asked.
fn asked(
    model: &Model<'_>,
    pool: &mut Pool,
    held: &[i64],
    prices: &Prices,
    (effort, slack, work): (u64, i64, Allowance),
) -> Option<i128> {
    let mut total = of_the_rest(model, prices, held);
    for (k, kind) in model.kinds.iter().enumerate() {
        if work.is_used_up() {
            return None;
        }
        let below = pool.least_of(k, prices);
        let priced = price(kind, model.instance.rows.len(), prices, below, slack, effort);
        total += i128::from(priced.bound.min(below)) * i128::from(kind.copies);
        for pattern in priced.patterns {
            pool.add(model, k, pattern);
        }
    }
    Some(total)
}

/// One part in so many of the way from some prices to others. Where both have the right signs, so has what is between.
fn towards(from: &Prices, to: &Prices, way: i64) -> Prices {
    let between = |from: &[i64], to: &[i64]| from.iter().zip(to).map(|(a, b)| a + (b - a) / way).collect();
    Prices { rows: between(&from.rows, &to.rows), levels: between(&from.levels, &to.levels) }
}
