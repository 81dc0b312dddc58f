//! Who cannot be served beside those who come before: refuted for all copies together, by prices.
//!
//! One question differs from the next in how much of each row is wanted, and in nothing else. So prices that refuted
//! one of them are a bound for the others too, and mostly refute them at once.

use std::collections::HashMap;

use super::model::Model;
use super::refute_each::{Patterns, wanted_or_not};
use super::split::State;
use super::{Merged, Part};
use crate::solver::basis::End;
use crate::solver::bound::Bound;
use crate::solver::instance::{Instance, RowIndex, Sense};
use crate::solver::memory::Memory;
use crate::solver::program::Program;
use crate::solver::project::Projection;
use crate::solver::simplex::Simplex;
use crate::solver::work::{Allowance, done};

/// Operations for prices.
const PRICES: u64 = 600_000_000;

/// A program that costs one for each thing wanted that is not done.
pub(super) struct Refuter<'m> {
    program: Program,
    /// By row: the blocks of what is not wanted, and of what is wanted and not done; and how much there is.
    of_row: HashMap<RowIndex, (usize, usize, i64)>,
    prices: Vec<Vec<f64>>,
    /// Operations that are left for prices.
    left: u64,
    /// Whether one program alone may take more than that.
    is_limited: bool,
    /// What patterns say, where the program is one of bunches of copies.
    patterns: Option<Patterns<'m>>,
}

impl<'m> Refuter<'m> {
    /// `held`: the values of the levels before the one that counts what is wanted. Nothing is wanted yet.
    pub(super) fn new(model: &Model<'m>, parts: &[Part], held: &[i64]) -> Self {
        let level = held.len();
        let (instance, of_part) = if model.are_many {
            let Merged { instance, rest, .. } =
                Merged::new(model.instance, parts, level + 1, |row| model.coverable[row]);
            let of_part = (0..instance.extras.len()).map(|extra| extra >= rest).collect();
            (instance, of_part)
        } else {
            let mut instance = Instance { levels: level + 1, ..model.instance.clone() };
            // Whoever could do more than is asked for could do less, and one row is less work than two.
            for (row, _) in instance.rows.iter_mut().zip(&model.coverable).filter(|(_, does)| **does) {
                row.sense = Sense::AtLeast;
            }
            let mut of_part = vec![false; instance.extras.len()];
            parts.iter().flat_map(|part| &part.extras).for_each(|extra| of_part[*extra] = true);
            (instance, of_part)
        };
        let mut memory = Memory::default();
        let (projection, _) = Projection::new(&instance, held, &mut memory);
        // Those of no part stand in the order of the model, whatever their rows have become.
        let of_rest = (0..of_part.len()).filter(|extra| !of_part[*extra]);
        let blocks = of_rest.map(|extra| projection.block_of_extra(extra)).zip(&model.rest_extras);
        let of_row = wanted_or_not(model, level, blocks);
        let patterns = Patterns::new(model, held);
        Self {
            program: projection.program,
            of_row,
            prices: vec![],
            left: PRICES,
            is_limited: model.alike.is_some(),
            patterns,
        }
    }

    /// Whether it is proved that not so much of each row can be done. `state`: what copies do of it.
    pub(super) fn refutes(&mut self, wanted: &[i64], state: &State) -> bool {
        let before = done();
        let is_refuted = self.is_refuted(wanted);
        self.left = self.left.saturating_sub(done().wrapping_sub(before));
        is_refuted || self.patterns.as_mut().is_some_and(|patterns| patterns.refute(wanted, state))
    }

    fn is_refuted(&mut self, wanted: &[i64]) -> bool {
        for (row, (rest, first, asked)) in &self.of_row {
            (self.program.count[*rest], self.program.count[*first]) = (asked - wanted[*row], wanted[*row]);
        }
        let is_refuted =
            |program: &Program, prices: &[f64]| Bound::at(program, &[], prices).value(program) > 0;
        if self.prices.iter().any(|prices| is_refuted(&self.program, prices)) {
            return true;
        }
        if self.left == 0 {
            return false;
        }
        let mut simplex = Simplex::new(&self.program);
        let within = if self.is_limited { self.left } else { u64::MAX };
        if simplex.optimise_within(Allowance::of(within)) != End::Optimal {
            return false;
        }
        let prices = simplex.true_prices();
        let is_proved = is_refuted(&self.program, &prices);
        if is_proved {
            self.prices.push(prices);
        }
        is_proved
    }
}
