//! Who cannot be served beside those who come before: refuted by patterns of every copy, where bunches of copies are too
//! coarse to tell.
//!
//! What the patterns prove is a sum: what the copies come to at some prices, which no question changes, and what is wanted
//! at these prices, which is little to reckon. So prices that refuted one question are tried for the next ones first.

use std::collections::HashMap;

use super::master::{Master, Pool, of_the_rest};
use super::model::Model;
use super::price::{BITS, Prices};
use super::split::State;
use super::steady::{self, towards};
use crate::solver::basis::End;
use crate::solver::instance::{Extra, Instance, RowIndex};
use crate::solver::simplex::Simplex;
use crate::solver::work::{Allowance, done};

/// Operations for prices.
const PRICES: u64 = 800_000_000;
/// Beyond so many kinds of copies nobody was refuted within that, for up to a quarter more time (1,000 nodes).
const MANY: usize = 512;
/// Rounds of pricing for one question.
const ROUNDS: usize = 12;
/// How far from the best prices towards those of the program, in parts of all of the way.
const WAY: i64 = 2;
/// Nodes of a search for a pattern.
const PATTERN: u64 = 20;
/// The search for a pattern need not tell apart what differs by this part of a step, over all copies.
const LOSS: i64 = 64;

/// What is asked of the patterns, one question after the other.
pub(super) struct Patterns<'m> {
    model: Model<'m>,
    held: Vec<i64>,
    pool: Pool,
    /// By row: the extras of what is not wanted, and of what is wanted and not done; and how much there is.
    of_row: HashMap<RowIndex, (usize, usize, i64)>,
    /// Prices that refuted something, with what no choice of the copies goes below at them.
    known: Vec<(Prices, i128)>,
    /// Operations that are left for prices.
    left: u64,
}

impl<'m> Patterns<'m> {
    /// `held`: the values of the levels before the one that counts what is wanted. Nothing, where there are no bunches, or
    /// too many kinds of copies.
    pub(super) fn new(model: &Model<'m>, held: &[i64]) -> Option<Self> {
        if !model.are_many || model.kinds.len() > MANY {
            return None;
        }
        let of_row = wanted_or_not(model, held.len(), model.rest_extras.iter().enumerate());
        let (model, pool) = (model.clone(), Pool::new(model));
        Some(Self { model, held: held.to_vec(), pool, of_row, known: vec![], left: PRICES })
    }

    /// Whether it is proved that not so much of each row can be done. `state`: what copies do of it.
    pub(super) fn refute(&mut self, wanted: &[i64], state: &State) -> bool {
        let before = done();
        let is_refuted = self.is_refuted(wanted, state, Allowance::of(self.left));
        self.left = self.left.saturating_sub(done().wrapping_sub(before));
        is_refuted
    }

    fn is_refuted(&mut self, wanted: &[i64], state: &State, work: Allowance) -> bool {
        for (row, (rest, first, asked)) in &self.of_row {
            self.model.rest.extras[*rest].upper = asked - wanted[*row];
            self.model.rest.extras[*first].upper = wanted[*row];
        }
        let of_wanted = |model: &Model<'_>, prices: &Prices| of_the_rest(model, prices, &self.held);
        if self.known.iter().rev().any(|(prices, copies)| of_wanted(&self.model, prices) + copies > 0) {
            return true;
        }
        if work.is_used_up() {
            return false;
        }
        for piece in &state.pieces {
            self.pool.add(&self.model, piece.kind, piece.does.clone());
        }
        let copies: i64 = self.model.kinds.iter().map(|kind| i64::from(kind.copies)).sum();
        let slack = ((1 << BITS) / (LOSS * copies.max(1))).max(1);
        let mut best: Option<(Prices, i128)> = None;
        let mut way = 1;
        for _ in 0..ROUNDS {
            let master = Master::new(&self.model, &self.pool, &self.held);
            let mut simplex = Simplex::new(&master.program);
            if simplex.optimise_within(work) != End::Optimal {
                return false;
            }
            let cost = |(column, n): &(u32, f64)| master.program.cost[*column as usize] as f64 * n;
            if simplex.solution().iter().map(cost).sum::<f64>() < 1e-4 {
                return false;
            }
            let of_program = master.prices(&self.model, &simplex.true_prices());
            let prices = match &best {
                Some((best, _)) => towards(best, &of_program, way),
                None => of_program,
            };
            let before = self.pool.len();
            let limits = (PATTERN, slack, work);
            let Some(total) = steady::asked(&self.model, &mut self.pool, &self.held, &prices, limits) else {
                return false;
            };
            if total > 0 {
                let copies = total - of_the_rest(&self.model, &prices, &self.held);
                self.known.push((prices, copies));
                return true;
            }
            if best.as_ref().is_none_or(|(_, proved)| total > *proved) {
                best = Some((prices, total));
            }
            way = match (self.pool.len() > before, way) {
                (true, _) => WAY,
                (false, 1) => return false,
                (false, _) => 1,
            };
        }
        false
    }
}

/// By row: where the extras stand that are of what is not wanted, which cost nothing at the level, and of what is wanted and
/// not done, which cost one; and how much there is of the row.
pub(super) fn wanted_or_not<'e>(
    model: &Model<'_>,
    level: usize,
    extras: impl Iterator<Item = (usize, &'e Extra)>,
) -> HashMap<RowIndex, (usize, usize, i64)> {
    let mut pairs: HashMap<RowIndex, [Option<usize>; 2]> = HashMap::new();
    for (at, extra) in extras {
        if let [(row, 1)] = extra.coefficients[..]
            && model.coverable[row]
            && let cost @ 0..=1 = Instance::cost(&extra.costs, level)
        {
            pairs.entry(row).or_default()[usize::from(cost > 0)] = Some(at);
        }
    }
    let both = pairs.into_iter().filter_map(|(row, pair)| {
        let [Some(rest), Some(first)] = pair else { return None };
        Some((row, (rest, first, model.instance.rows[row].rhs)))
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::instance::{Class, Column, Row, Sense};
    use crate::solver::parts::order::InOrder;
    use crate::solver::parts::{Decided, InTurn, Known, Orders, Part, refill, serve_in_turn};
    use crate::solver::program::mix;

    const COPIES: usize = 40;
    /// The first of the rows of what has to be done.
    const FIRST: RowIndex = 2 * COPIES;

    /// Copies with room for 5 to 9, so that they are looked at in bunches; and so many things of each size.
    fn unlike(sizes: &[i32], things: i64) -> (Instance, Vec<Part>) {
        let (mut rows, mut extras, mut classes, mut parts) = (vec![], vec![], vec![], vec![]);
        for copy in 0..COPIES {
            let row = rows.len();
            rows.push(Row { sense: Sense::AtLeast, rhs: 0 });
            rows.push(Row { sense: Sense::AtMost, rhs: 5 + copy as i64 % 5 });
            let of_copy = extras.len();
            for (size, thing) in sizes.iter().zip(FIRST..) {
                let coefficients = vec![(row, -1), (row + 1, *size), (thing, 1)];
                extras.push(Extra { upper: 9, coefficients, costs: vec![] });
            }
            let column = Column { coefficients: vec![(row, 7)], costs: vec![] };
            classes.push(Class { count: 1, columns: [column].into() });
            parts.push(Part {
                copies: 1,
                rows: vec![row, row + 1],
                counts: vec![0, 1],
                classes: vec![copy],
                extras: (of_copy..extras.len()).collect(),
            });
        }
        for thing in (FIRST..).take(sizes.len()) {
            rows.push(Row { sense: Sense::Equal, rhs: things });
            // What is not wanted costs nothing, and what is wanted and not done costs one.
            for costs in [vec![0], vec![1]] {
                extras.push(Extra { upper: things, coefficients: vec![(thing, 1)], costs });
            }
        }
        (Instance { rows, classes, extras, levels: 1 }, parts)
    }

    /// Whatever was refuted before, and by whichever prices: what is done in some state can be done.
    #[test]
    fn what_can_be_done_is_never_refuted() {
        let (instance, parts) = unlike(&[2, 3, 4, 5], 60);
        let model = Model::new(&instance, &parts, 1);
        let copies: Vec<usize> = (0..COPIES).collect();
        let mut patterns = Patterns::new(&model, &[]).expect("there are many parts");
        let mut refuted = 0;
        for seed in 0..40_u64 {
            let mut fit = InOrder::new(&model, refill::nothing(&model), &copies);
            for turn in 0..400_u64 {
                fit.first_fit(FIRST + mix(seed << 32 | turn) as usize % 4);
            }
            let done = fit.state.sums(&model, false);
            assert!(!patterns.refute(&done, &fit.state), "seed {seed}: {:?} are done", &done[FIRST..]);
            for row in FIRST..FIRST + 4 {
                let mut more = done.clone();
                more[row] += 3;
                refuted += usize::from(more[row] <= 60 && patterns.refute(&more, &fit.state));
            }
        }
        assert!(refuted > 20, "{refuted} were refuted, so this says little");
    }

    /// Whatever is known of what copies can do: here nothing that would do it.
    #[test]
    fn what_can_be_done_is_not_refuted_where_no_state_is_known_that_does_it() {
        let (instance, parts) = unlike(&[2, 3, 4, 5], 60);
        let model = Model::new(&instance, &parts, 1);
        let copies: Vec<usize> = (0..COPIES).collect();
        let nothing = refill::nothing(&model);
        let mut patterns = Patterns::new(&model, &[]).expect("there are many parts");
        for seed in 0..3_u64 {
            let mut fit = InOrder::new(&model, nothing.clone(), &copies);
            for turn in 0..400_u64 {
                fit.first_fit(FIRST + mix(seed << 32 | turn) as usize % 4);
            }
            let done = fit.state.sums(&model, false);
            assert!(!patterns.refute(&done, &nothing), "seed {seed}: {:?} are done", &done[FIRST..]);
        }
    }

    /// Each copy has room for one. Prices that refute one more refute two more at once, and not as many as there is room for.
    #[test]
    fn what_refuted_one_question_refutes_a_larger_one_at_once_and_no_smaller_one() {
        let (instance, parts) = unlike(&[5], COPIES as i64 + 3);
        let model = Model::new(&instance, &parts, 1);
        let nothing = refill::nothing(&model);
        let mut patterns = Patterns::new(&model, &[]).expect("there are many parts");
        let asked = |patterns: &mut Patterns<'_>, things: usize| {
            let mut wanted = vec![0; instance.rows.len()];
            wanted[FIRST] = things as i64;
            let before = done();
            (patterns.refute(&wanted, &nothing), done() - before)
        };
        let (is_refuted, first) = asked(&mut patterns, COPIES + 1);
        assert!(is_refuted);
        let (is_refuted, next) = asked(&mut patterns, COPIES + 2);
        assert!(is_refuted && next < first / 10, "{next} operations, and {first} before");
        assert!(!asked(&mut patterns, COPIES).0);
        // Without what was known before, nobody is refuted either.
        let mut patterns = Patterns::new(&model, &[]).expect("there are many parts");
        assert!(!asked(&mut patterns, COPIES).0);
    }

    /// A row that may not be given more than it asks for is of something else, and so is one of which something costs more than one.
    #[test]
    fn only_what_may_be_done_too_often_and_what_costs_one_is_asked_about() {
        let (mut instance, parts) = unlike(&[5, 5], 9);
        let bounded = instance.rows.len();
        instance.rows.push(Row { sense: Sense::AtMost, rhs: 9 });
        for costs in [vec![0], vec![1]] {
            instance.extras.push(Extra { upper: 9, coefficients: vec![(bounded, 1)], costs });
        }
        let dear = FIRST + 1;
        let of_dear = |extra: &&mut Extra| extra.coefficients == [(dear, 1)] && extra.costs == [1];
        instance.extras.iter_mut().filter(of_dear).for_each(|extra| extra.costs = vec![2]);
        let model = Model::new(&instance, &parts, 1);
        let asked = wanted_or_not(&model, 0, model.rest_extras.iter().enumerate());
        assert_eq!(asked.keys().collect::<Vec<_>>(), [&FIRST]);
    }

    /// To all copies together it looks as if there were room enough.
    #[test]
    fn that_no_copy_has_room_for_one_more_is_proved_copy_by_copy() {
        let things = COPIES as i64 + 3;
        let (instance, parts) = unlike(&[5], things);
        let queue = vec![FIRST; COPIES + 3];
        let orders =
            Orders { copies: (0..COPIES).collect(), starts: vec![], turns: vec![(0, queue.clone())] };
        let decided = serve_in_turn(
            &instance,
            &parts,
            (&orders, Known::NOTHING),
            InTurn { level: 0, queue: &queue, filled_within: None },
        )
        .expect("there are many parts")
        .decided;
        let (served, passed_over) = decided.split_at(COPIES);
        assert!(served.iter().all(|one| one.served), "each copy has room for one");
        assert!(
            passed_over.iter().all(|one| *one == Decided { served: false, proved: true }),
            "{passed_over:?}"
        );
    }
}
