//! A few kinds of copies that stand for all, where there are very many: patterns of the few are generated as ever, and
//! tell what everything is worth. At these prices every kind is then asked for its best pattern, once, which proves a bound
//! for all of them; and the patterns of the few are what copies that are like them do as far as they can.

use super::Part;
use super::master::{Pool, Relaxed, bound_at, relax};
use super::merged::bunches;
use super::model::Model;
use super::order::InOrder;
use super::price::{BITS, Pattern};
use super::refill;
use super::split::State;
use crate::solver::instance::RowIndex;
use crate::solver::work::Allowance;

/// So many kinds stand for all. Each round of prices asks all of them.
const FEW: usize = 64;
/// Beyond so many kinds in all, as many stand for them: of 300 nodes, 64 are too unlike those for which they stand. The plan
/// was 4 % above its bound. Up to here, 64 come as near, with less work.
const LARGE: usize = 256;
/// Nodes of a search for a pattern.
const PATTERN: u64 = 60;
/// Operations for prices, at each level.
const PRICES: u64 = 400_000_000;
/// The same for 256 of them.
const PRICES_OF_LARGE: u64 = 800_000_000;
/// The patterns' bound is this part of the value less than it could be, so that their search need not tell apart what
/// is almost equal: a fifth of what the goal allows.
const LOSS: i64 = 500;

/// Some kinds of a model in place of all.
pub(super) struct Sample<'m> {
    model: &'m Model<'m>,
    few: Model<'m>,
    /// The kinds that each of them stands for.
    of: Vec<Vec<usize>>,
    pool: Pool,
}

/// What the sample says about a level.
pub(super) struct Found {
    /// No choice goes below it.
    pub(super) bound: i64,
    relaxed: Relaxed,
}

impl<'m> Sample<'m> {
    pub(super) fn new(model: &'m Model<'m>, parts: &[Part]) -> Self {
        // Kinds are known by their first part.
        let parts_of: Vec<usize> = model.kinds.iter().map(|kind| kind.members[0].part).collect();
        let kind_of = |part: &usize| parts_of.iter().position(|of| of == part).unwrap_or(0);
        let most = if model.kinds.len() > LARGE { LARGE } else { FEW };
        let of: Vec<Vec<usize>> = bunches(model.instance, parts, parts_of.clone(), most)
            .into_iter()
            .map(|bunch| bunch.iter().map(kind_of).collect())
            .collect();
        // A bunch is in the order of what it was divided by last, and the one in its middle stands for it.
        let few = of.iter().map(|bunch| {
            let mut kind = model.kinds[bunch[bunch.len() / 2]].clone();
            kind.copies = bunch.iter().map(|kind| model.kinds[*kind].copies).sum();
            kind
        });
        let few = Model { kinds: few.collect(), ..model.clone() };
        let pool = Pool::new(&few);
        Self { model, few, of, pool }
    }

    /// Whether there are so many kinds that more of them stand for all.
    pub(super) fn is_large(&self) -> bool {
        self.model.kinds.len() > LARGE
    }

    /// What the level comes to at least, the earlier ones held at these values. `value`: what it comes to now.
    pub(super) fn relaxed(&mut self, held: &[i64], value: i64) -> Option<Found> {
        let work = Allowance::of(if self.is_large() { PRICES_OF_LARGE } else { PRICES });
        let relaxed = relax(&self.few, &mut self.pool, held, (PATTERN, work))?;
        let copies: i64 = self.model.kinds.iter().map(|kind| i64::from(kind.copies)).sum();
        let loss = (value / LOSS).max(self.model.steps[held.len()]) << BITS;
        let slack = (loss / copies.max(1) / 4).max(1);
        let bound = bound_at(self.model, &relaxed.prices, held, (PATTERN, slack));
        Some(Found { bound, relaxed })
    }

    /// Every copy does what the one does that stands for it, as far as it can; what is left over is done by the first
    /// that can. `wanted`: how much of each row.
    pub(super) fn followed(
        &self,
        found: &Found,
        copies: &[usize],
        wanted: &[i64],
    ) -> Option<(State, Vec<i64>)> {
        let mut fit = InOrder::new(self.model, refill::nothing(self.model), copies);
        let mut of_kind: Vec<Vec<usize>> = vec![vec![]; self.model.kinds.len()];
        fit.state.pieces.iter().enumerate().for_each(|(p, piece)| of_kind[piece.kind].push(p));
        for ((used, bunch), kind) in found.relaxed.used.iter().zip(&self.of).zip(&self.few.kinds) {
            let mut pieces = bunch.iter().flat_map(|kind| of_kind[*kind].iter().copied());
            for (pattern, times) in whole(used) {
                let rows = self.rows_of(kind, pattern);
                for piece in pieces.by_ref().take(times) {
                    rows.iter().for_each(|row| {
                        fit.have(piece, *row);
                    });
                }
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
    fn rows_of(&self, kind: &super::shape::Kind, pattern: &Pattern) -> Vec<RowIndex> {
        let done = |(extra, n): (usize, &i64)| {
            let rows = refill::done_by(self.model, &kind.shape, extra);
            let n = usize::try_from(*n).unwrap_or(0);
            rows.into_iter().flat_map(move |row| std::iter::repeat_n(row, n))
        };
        pattern.extras.iter().enumerate().flat_map(done).collect()
    }
}

/// Patterns with how often each is used, in whole numbers: what is used a fraction of a time is used by turns.
fn whole(used: &[(Pattern, f64)]) -> impl Iterator<Item = (&Pattern, usize)> {
    let mut carried = 0.0;
    used.iter().map(move |(pattern, times)| {
        carried += times;
        let whole = (carried + 1e-6).floor();
        carried -= whole;
        (pattern, whole as usize)
    })
}
