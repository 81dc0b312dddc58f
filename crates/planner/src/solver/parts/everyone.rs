//! Patterns of every copy, where there are very many kinds: hardly two copies can do the same, so each kind has patterns
//! of its own.
//!
//! The relaxation over them has a row for each thing to do, and none for a kind. So it uses one pattern of nearly every
//! copy: no more copies are divided between two patterns than there are rows, whatever the number of copies. Of 1,000
//! nodes some thirty are, and they alone have to be decided anew.

use super::guide::Guide;
use super::master::{Pool, Relaxed};
use super::model::Model;
use super::order::InOrder;
use super::price::{BITS, Pattern, Prices};
use super::refill;
use super::shape::Kind;
use super::split::State;
use super::steady::relax;
use crate::solver::instance::RowIndex;
use crate::solver::work::Allowance;

/// Beyond so many kinds there are more operations for patterns, and fewer for filling copies: what the patterns come to
/// is near the best already, and of so many copies a search among a few moves little.
const LARGE: usize = 256;
/// Operations for patterns, at each level.
const PATTERNS: u64 = 400_000_000;
/// The same for so many kinds.
const PATTERNS_OF_LARGE: u64 = 1_000_000_000;

/// The patterns of all kinds.
pub(super) struct Everyone<'m> {
    model: &'m Model<'m>,
    pool: Pool,
}

/// What the patterns say about a level.
pub(super) struct Found {
    /// No choice goes below it.
    pub(super) bound: i64,
    /// Where a choice loses something.
    pub(super) guide: Guide,
    /// How often each pattern is used, by kind.
    used: Vec<Vec<(Pattern, f64)>>,
}

impl<'m> Everyone<'m> {
    pub(super) fn new(model: &'m Model<'m>) -> Self {
        Self { model, pool: Pool::new(model) }
    }

    pub(super) fn is_large(&self) -> bool {
        self.model.kinds.len() > LARGE
    }

    /// The relaxation of the level after those that are held. `state`: what the copies do now; `prices`: what rows are
    /// worth, about, if that is known; `least`: what the level comes to at least.
    pub(super) fn relaxed(
        &mut self,
        held: &[i64],
        state: &State,
        (prices, least): (Option<Prices>, i64),
    ) -> Option<Found> {
        for piece in &state.pieces {
            self.pool.add(self.model, piece.kind, piece.does.clone());
        }
        let prices = prices.unwrap_or_else(|| self.nothing_is_worth_anything(held.len()));
        let work = Allowance::of(if self.is_large() { PATTERNS_OF_LARGE } else { PATTERNS });
        let Relaxed { used, bound, prices } = relax(self.model, &mut self.pool, held, (prices, least, work))?;
        Some(Found { bound, guide: Guide::new(&self.pool, prices), used })
    }

    fn nothing_is_worth_anything(&self, level: usize) -> Prices {
        let mut levels = vec![0; self.model.levels];
        levels[level] = 1 << BITS;
        Prices { rows: vec![0; self.model.instance.rows.len()], levels }
    }

    /// Every copy does what the relaxation has it do, as far as that is asked for: those first of which it is sure, and
    /// of several patterns the one that is used most. What is left over is done by the first that can. `wanted`: how much
    /// of each row.
    pub(super) fn followed(
        &self,
        found: &Found,
        copies: &[usize],
        wanted: &[i64],
    ) -> Option<(State, Vec<i64>)> {
        let mut fit = InOrder::new(self.model, refill::nothing(self.model), copies);
        let mut of_kind: Vec<Vec<usize>> = vec![vec![]; self.model.kinds.len()];
        fit.state.pieces.iter().enumerate().for_each(|(p, piece)| of_kind[piece.kind].push(p));
        for (kind, pattern) in surest_first(&found.used) {
            let Some(piece) = of_kind[kind].pop() else { continue };
            for row in self.rows_of(&self.model.kinds[kind], pattern) {
                fit.have(piece, row);
            }
        }
        let order = fit.dearest_first(wanted);
        order.iter().for_each(|row| {
            fit.first_fit(*row);
        });
        let values = fit.state.values(self.model)?;
        Some((fit.state, values))
    }

    /// What a pattern does, a row for each unit.
    fn rows_of(&self, kind: &Kind, pattern: &Pattern) -> Vec<RowIndex> {
        let done = |(extra, n): (usize, &i64)| {
            let rows = refill::done_by(self.model, &kind.shape, extra);
            let n = usize::try_from(*n).unwrap_or(0);
            rows.into_iter().flat_map(move |row| std::iter::repeat_n(row, n))
        };
        pattern.extras.iter().enumerate().flat_map(done).collect()
    }
}

/// Kinds and their patterns, one for each copy and some more: what is used whole, then the largest fractions.
fn surest_first(used: &[Vec<(Pattern, f64)>]) -> impl Iterator<Item = (usize, &Pattern)> {
    let mut all: Vec<(f64, usize, &Pattern)> = Vec::new();
    for (kind, used) in used.iter().enumerate() {
        for (pattern, times) in used {
            let whole = (times + 1e-6).floor();
            all.extend((0..whole as usize).map(|_| (1.0, kind, pattern)));
            if times - whole > 1e-6 {
                all.push((times - whole, kind, pattern));
            }
        }
    }
    all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    all.into_iter().map(|(_, kind, pattern)| (kind, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the first kind does one thing twice as often as another one; of the second kind, all do the same.
    #[test]
    fn what_is_used_whole_comes_first_and_then_what_is_used_most() {
        let pattern = |n: i64| Pattern { blocks: vec![], extras: vec![n] };
        let used = vec![vec![(pattern(1), 1.0 / 3.0), (pattern(2), 2.0 / 3.0)], vec![(pattern(3), 2.0)]];
        let order: Vec<_> = surest_first(&used).map(|(kind, pattern)| (kind, pattern.extras[0])).collect();
        assert_eq!(order, [(1, 3), (1, 3), (0, 2), (0, 1)]);
    }
}
