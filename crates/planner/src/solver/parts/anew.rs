//! Everything that is wanted, done anew by copies that do nothing yet: the largest first, each by the copy that is
//! fullest then. It is done again and again, with other measures of what is large and full.
//!
//! Whoever is served in the order of age takes the first copy that has room, and copies become full of gaps. A search
//! among a few of them moves little. To begin again with what is large costs less than such a search, and leaves the
//! gaps to what is small.

use super::model::Model;
use super::price::Pattern;
use super::refill;
use super::shape::Shape;
use super::split::State;
use crate::solver::instance::{RowIndex, Sense};
use crate::solver::program::mix;

/// All of a copy, in the unit that shares of it are counted in.
const ALL: i64 = 1 << 20;
/// How much larger than it is something may seem, by turns, in the same unit.
const SHAKEN: [i64; 4] = [0, ALL / 10, ALL / 5, 2 * ALL / 5];
/// As many ways measure everything as it is, and the others weigh what copies have.
const AS_IT_IS: u64 = 12;

/// What of a copy's own things each of its extras takes: a share of each row that limits it, and one of what the copy
/// can become.
pub(super) struct Shares {
    /// By kind of copy and extra.
    of: Vec<Vec<Vec<i64>>>,
    /// By row, on average of the copies that can do it. Nothing for a row that copies do not do one by one.
    of_row: Vec<Vec<i64>>,
}

impl Shares {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let of: Vec<Vec<Vec<i64>>> = model.kinds.iter().map(|kind| of_copy(&kind.shape)).collect();
        let rows = model.instance.rows.len();
        let mut sums: Vec<(Vec<i64>, i64)> = vec![(vec![], 0); rows];
        for (kind, of) in model.kinds.iter().zip(&of) {
            let copies = i64::from(kind.copies);
            for (e, shares) in of.iter().enumerate() {
                for row in refill::done_by(model, &kind.shape, e) {
                    let (sum, all) = &mut sums[row];
                    sum.resize(sum.len().max(shares.len()), 0);
                    sum.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share * copies);
                    *all += copies;
                }
            }
        }
        let mean = |(sum, all): (Vec<i64>, i64)| sum.into_iter().map(|share| share / all.max(1)).collect();
        Self { of, of_row: sums.into_iter().map(mean).collect() }
    }

    /// What one more of an extra takes of a copy.
    pub(super) fn of(&self, kind: usize, extra: usize) -> &[i64] {
        &self.of[kind][extra]
    }
}

fn of_copy(shape: &Shape) -> Vec<Vec<i64>> {
    let limits: Vec<usize> =
        (0..shape.rows.len()).filter(|row| matches!(shape.rows[*row], (Sense::AtMost, 1..))).collect();
    // What a copy has of each row at most, whatever it becomes.
    let mut most: Vec<i64> =
        shape.rows.iter().map(|(sense, rhs)| if *sense == Sense::AtLeast { -rhs } else { 0 }).collect();
    for block in &shape.blocks {
        let mut of_block = vec![0; most.len()];
        for (row, a) in block.drafts.iter().flat_map(|draft| &draft.terms) {
            if let Some(most) = of_block.get_mut(*row) {
                *most = (*a).max(*most);
            }
        }
        most.iter_mut().zip(of_block).for_each(|(most, of_block)| *most += of_block * block.count);
    }
    let extras = shape.extras.iter().map(|extra| {
        let mut shares = vec![0; limits.len() + 1];
        for (row, a) in extra.draft.terms.iter().filter(|(row, _)| *row < shape.rows.len()) {
            match limits.binary_search(row) {
                Ok(limit) => shares[limit] += a.max(&0) * ALL / shape.rows[*row].1,
                Err(_) => shares[limits.len()] += (-a).max(0) * ALL / most[*row].max(1),
            }
        }
        shares
    });
    extras.collect()
}

/// A measure of what is large, and of what is full.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    way: u64,
}

impl Measure {
    pub(super) fn new(way: u64) -> Self {
        Self { way }
    }

    /// So much of each row, a row for each unit: the largest first.
    pub(super) fn largest_first(self, shares: &Shares, wanted: &[i64]) -> Vec<RowIndex> {
        self.in_order(shares, wanted, |_, size| (0, -size))
    }

    /// The same: what is worth most for its size first. Of a row that is worth something at an earlier level all comes
    /// before. `worth`: what one unit of each row saves at the levels.
    pub(super) fn dearest_first(self, shares: &Shares, wanted: &[i64], worth: &[Vec<i64>]) -> Vec<RowIndex> {
        self.in_order(shares, wanted, |row, size| {
            let level = worth[row].iter().position(|worth| *worth > 0);
            level.map_or((usize::MAX, size), |level| (level, size * 64 / worth[row][level]))
        })
    }

    fn in_order(
        self,
        shares: &Shares,
        wanted: &[i64],
        rank: impl Fn(RowIndex, i64) -> (usize, i64),
    ) -> Vec<RowIndex> {
        let all = wanted.iter().enumerate().filter(|(row, n)| **n > 0 && !shares.of_row[*row].is_empty());
        let mut all: Vec<_> =
            all.map(|(row, _)| (rank(row, self.size(row, &shares.of_row[row])), row)).collect();
        all.sort_unstable();
        let times = |row: RowIndex| usize::try_from(wanted[row]).unwrap_or(0);
        all.into_iter().flat_map(|(_, row)| std::iter::repeat_n(row, times(row))).collect()
    }

    fn size(self, row: RowIndex, shares: &[i64]) -> i64 {
        let weighed = shares.iter().zip(0..).map(|(share, of)| share * self.weight(of) / ALL);
        let size = if self.by_sum() { weighed.sum::<i64>() } else { weighed.max().unwrap_or(0) };
        let shaken =
            SHAKEN[self.way as usize % SHAKEN.len()] * below(self.way << 32 | row as u64, 1024) / 1024;
        size + size * shaken / ALL
    }

    fn weight(self, of: u64) -> i64 {
        if self.way < AS_IT_IS { ALL } else { ALL / 2 + below(mix(self.way) ^ of, ALL) }
    }

    fn by_sum(self) -> bool {
        self.way / 4 % 3 == 1
    }

    /// How much is left of a copy of which this is taken, in all; by turns also how unequally it is left.
    pub(super) fn left(self, taken: &[i64], more: &[i64]) -> i64 {
        let left = || taken.iter().zip(more).map(|(taken, more)| ALL - taken - more);
        let sum: i64 = left().sum();
        if self.way / 4 % 3 < 2 {
            return sum;
        }
        left().max().unwrap_or(0) - left().min().unwrap_or(0) + 3 * sum / 10
    }
}

/// A number from nothing to this, always the same for the same seed.
fn below(seed: u64, end: i64) -> i64 {
    i64::try_from(mix(seed) % end.unsigned_abs().max(1)).unwrap_or(0)
}

/// The state with every copy idle.
pub(super) fn idle(model: &Model<'_>, state: &State) -> State {
    let mut idle = state.clone();
    idle.pieces.iter_mut().for_each(|piece| piece.does = Pattern::idle(&model.kinds[piece.kind].shape));
    idle
}
