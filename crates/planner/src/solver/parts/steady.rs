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
/// How far from the best prices towards those of the program, in parts of all of the way. On fleets of 1,000 nodes, 3 to 16
/// are hardly different; with all of the way at once, 616 compute slices are left out instead of 611.
const WAY: i64 = 8;
/// Nodes of a search for a pattern, at first: those that are missed are found at other prices, and to prove that there
/// is none takes most of the work.
const SOON: u64 = 20;
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
        if simplex.optimise_within(model.within(work)) != End::Optimal {
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
pub(super) fn asked(
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
pub(super) fn towards(from: &Prices, to: &Prices, way: i64) -> Prices {
    let between = |from: &[i64], to: &[i64]| from.iter().zip(to).map(|(a, b)| a + (b - a) / way).collect();
    Prices { rows: between(&from.rows, &to.rows), levels: between(&from.levels, &to.levels) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::instance::{Class, Column, Extra, Instance, Row, Sense};
    use crate::solver::parts::split::Together;
    use crate::solver::parts::{Part, master};
    use crate::solver::program::mix;

    /// What things take of CPU; as much of each is worth.
    const SIZES: [i32; 6] = [2, 3, 5, 7, 8, 11];

    /// Copies no two of which have the same room, and things of some sizes, more than there is room for; what is not done
    /// costs its size.
    fn at_work(copies: usize) -> (Instance, Vec<Part>) {
        let first = 2 * copies;
        let (mut rows, mut extras, mut classes, mut parts) = (vec![], vec![], vec![], vec![]);
        for copy in 0..copies {
            let row = rows.len();
            rows.push(Row { sense: Sense::AtLeast, rhs: 0 });
            rows.push(Row { sense: Sense::AtMost, rhs: 10 + copy as i64 });
            let of_copy = extras.len();
            for (size, thing) in SIZES.iter().zip(first..) {
                let coefficients = vec![(row, -1), (row + 1, *size), (thing, 1)];
                extras.push(Extra { upper: 9, coefficients, costs: vec![] });
            }
            let slices = 2 + (mix(copy as u64) % 6) as i32;
            let column = Column { coefficients: vec![(row, slices)], costs: vec![] };
            classes.push(Class { count: 1, columns: [column].into() });
            parts.push(Part {
                copies: 1,
                rows: vec![row, row + 1],
                counts: vec![0, 1],
                classes: vec![copy],
                extras: (of_copy..extras.len()).collect(),
            });
        }
        let asked = copies as i64;
        for (size, thing) in SIZES.iter().zip(first..) {
            rows.push(Row { sense: Sense::Equal, rhs: asked });
            let costs = vec![i64::from(*size)];
            extras.push(Extra { upper: asked, coefficients: vec![(thing, 1)], costs });
        }
        (Instance { rows, classes, extras, levels: 1 }, parts)
    }

    /// What copies do together keeps to the sums of their rows, so what each can do by itself proves no less.
    #[test]
    fn at_the_prices_of_bunches_patterns_prove_what_the_bunches_do() {
        let (instance, parts) = at_work(40);
        let model = Model::new(&instance, &parts, 1);
        let (of_bunches, prices) = Together::new(&model, &parts).relaxed(&[], 1).expect("it has an optimum");
        assert!(of_bunches > 0, "everything can be done, so this says nothing");
        let mut pool = Pool::new(&model);
        let limits = (PATTERN, 1, Allowance::of(u64::MAX));
        let total = asked(&model, &mut pool, &[], &prices.expect("there are very many parts"), limits);
        let of_patterns = rounded_up(&model, 0, total.expect("there is no limit"));
        assert!(of_patterns >= of_bunches, "{of_patterns}, and {of_bunches} by the bunches");
    }

    #[test]
    fn from_whichever_prices_it_comes_to_the_same_bound() {
        let (instance, parts) = at_work(40);
        let model = Model::new(&instance, &parts, 1);
        let all = Allowance::of(u64::MAX);
        let relaxed = |prices: Prices| {
            relax(&model, &mut Pool::new(&model), &[], (prices, 0, all)).expect("it has an optimum").bound
        };
        let (_, prices) = Together::new(&model, &parts).relaxed(&[], 1).expect("it has an optimum");
        let nothing = Prices { rows: vec![0; instance.rows.len()], levels: vec![1 << BITS] };
        let column_generation = master::relax(&model, &mut Pool::new(&model), &[], (PATTERN, all));
        let bound = column_generation.expect("it has an optimum").bound;
        assert!(bound > 0, "everything can be done, so this says nothing");
        assert_eq!(relaxed(prices.expect("there are very many parts")), bound);
        assert_eq!(relaxed(nothing), bound);
    }

    /// What is known of copies is used all the same.
    #[test]
    fn where_no_work_is_left_nothing_is_proved() {
        let (instance, parts) = at_work(40);
        let model = Model::new(&instance, &parts, 1);
        let nothing = Prices { rows: vec![0; instance.rows.len()], levels: vec![1 << BITS] };
        let relaxed = relax(&model, &mut Pool::new(&model), &[], (nothing, 0, Allowance::of(0)));
        let relaxed = relaxed.expect("that nothing is done is a choice");
        assert_eq!(relaxed.bound, i64::MIN);
        assert!(relaxed.used.iter().all(|used| used.len() == 1), "each has one pattern");
    }
}
