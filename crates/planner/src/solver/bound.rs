//! The bound that prices prove: the Lagrangian bound, in integers.
//!
//! For any prices of the right signs, no solution costs less than every block at its cheapest column after
//! subtracting what the rows pay, plus what the right-hand sides are worth. The prices come from
//! floating-point arithmetic; they are rounded first, so that the bound is exact.

use super::basis::Cut;
use super::program::Program;

/// Fractional bits of fixed-point prices and bounds.
const BITS: u32 = 30;

/// A bound and the columns' reduced costs at the prices that prove it.
pub(super) struct Bound {
    /// In units of 2^-30.
    total: i128,
    reduced: Vec<i128>,
}

impl Bound {
    /// The bound of these prices (cost per unit of each row, rows then cuts).
    pub(super) fn at(program: &Program, cuts: &[Cut], prices: &[f64]) -> Self {
        Self::compute(program, cuts, prices, true)
    }

    /// Whether these prices show that no solution exists: even without costs,
    /// the rows would pay for more than nothing.
    pub(super) fn refutes(program: &Program, cuts: &[Cut], prices: &[f64]) -> bool {
        Self::compute(program, cuts, prices, false).total > 0
    }

    fn compute(program: &Program, cuts: &[Cut], prices: &[f64], costs: bool) -> Self {
        let fixed: Vec<i128> = (prices.iter().enumerate())
            .map(|(r, price)| {
                let price = (price * f64::from(1u32 << BITS)).round() as i128;
                let allowed = match r.checked_sub(program.rows.len()) {
                    None => program.rows[r].allows_price(price),
                    Some(c) => (price >= 0) == cuts[c].at_least || price == 0,
                };
                if allowed { price } else { 0 }
            })
            .collect();
        // Mostly 64 bits are enough for what any column pays, and take a third of the time.
        let most = program.rows.iter().zip(&fixed).map(|(row, price)| price.abs() * i128::from(row.largest));
        let narrow: Option<Vec<i64>> = (most.sum::<i128>() < i128::from(i64::MAX))
            .then(|| fixed.iter().map(|price| i64::try_from(*price).ok()).collect())
            .flatten();
        let mut reduced: Vec<i128> = (0..program.columns())
            .map(|j| {
                let terms = program.terms(j);
                let terms = program.term_row[terms.clone()].iter().zip(&program.term[terms]);
                let paid: i128 = match &narrow {
                    Some(prices) => terms.map(|(row, a)| prices[*row as usize] * a).sum::<i64>().into(),
                    None => terms.map(|(row, a)| fixed[*row as usize] * i128::from(*a)).sum(),
                };
                let cost = if costs { i128::from(program.cost[j]) << BITS } else { 0 };
                cost - paid
            })
            .collect();
        for (cut, price) in cuts.iter().zip(&fixed[program.rows.len()..]) {
            for j in &cut.columns {
                reduced[*j as usize] -= price;
            }
        }
        let mut total: i128 = 0;
        for (r, row) in program.rows.iter().enumerate() {
            total += fixed[r] * i128::from(row.rhs);
        }
        for (cut, price) in cuts.iter().zip(&fixed[program.rows.len()..]) {
            total += price * i128::from(cut.rhs);
        }
        for b in 0..program.blocks() {
            let least = program.block(b).map(|j| reduced[j]).min().expect("a block has columns");
            total += least * i128::from(program.count[b]);
            for j in program.block(b) {
                reduced[j] -= least;
            }
        }
        Self { total, reduced }
    }

    /// The least multiple of the program's step that a solution can cost.
    pub(super) fn value(&self, program: &Program) -> i64 {
        let step = i128::from(program.step) << BITS;
        let steps = -(-self.total).div_euclid(step);
        i64::try_from(steps).unwrap_or(i64::MIN / program.step) * program.step
    }

    /// The bound before it is rounded up.
    pub(super) fn exact(&self) -> f64 {
        self.total as f64 / f64::from(1u32 << BITS)
    }

    /// Whether a solution that costs no more than `target` can use the column.
    pub(super) fn admits(&self, column: usize, target: i64) -> bool {
        self.total + self.reduced[column] <= i128::from(target) << BITS
    }
}
