//! Where something is lost: what a copy does costs more, at the prices of a relaxation, than the best that a copy of
//! its kind can do. A choice is above the bound by what its copies lose, and mostly a few of a hundred lose all of it,
//! so these are the ones to do anew.

use super::master::{Pool, of_sums};
use super::model::{Model, Piece};
use super::price::Prices;
use crate::solver::program::mix;

/// The prices of a relaxation, and what the best pattern that is known of each kind costs at them.
pub(super) struct Guide {
    prices: Prices,
    least: Vec<i64>,
}

/// What each copy of a state loses.
pub(super) struct Losses<'g> {
    guide: &'g Guide,
    each: Vec<u64>,
}

impl Guide {
    pub(super) fn new(pool: &Pool, prices: Prices) -> Self {
        Self { least: pool.least(&prices), prices }
    }

    /// Whether it cannot tell copies from one another: a relaxation in which everybody is served has no prices.
    pub(super) fn is_silent(&self) -> bool {
        self.prices.rows.iter().all(|price| *price == 0)
    }

    fn loss(&self, model: &Model<'_>, piece: &Piece) -> u64 {
        let shape = &model.kinds[piece.kind].shape;
        let (shared, costs) = piece.does.sums(shape, model.instance.rows.len(), model.levels);
        let costs = of_sums(&self.prices, &shared, &costs);
        u64::try_from(costs.saturating_sub(self.least[piece.kind])).unwrap_or(0)
    }
}

impl<'g> Losses<'g> {
    pub(super) fn new(guide: &'g Guide, model: &Model<'_>, pieces: &[Piece]) -> Self {
        Self { guide, each: pieces.iter().map(|piece| guide.loss(model, piece)).collect() }
    }

    /// Looks at some of the copies again.
    pub(super) fn update(&mut self, model: &Model<'_>, pieces: &[Piece], changed: &[usize]) {
        changed.iter().for_each(|position| self.each[*position] = self.guide.loss(model, &pieces[*position]));
    }

    /// One of the copies, by a number: the more it loses, the more numbers stand for it. Any, if none loses.
    pub(super) fn pick(&self, number: u64) -> usize {
        pick(&self.each, mix(number))
    }
}

/// A position, for which the more numbers stand the greater its share is.
fn pick(shares: &[u64], number: u64) -> usize {
    let all = shares.iter().fold(0, |all: u64, share| all.saturating_add(*share));
    let Some(mut at) = number.checked_rem(all) else { return number as usize % shares.len() };
    let is_there = |share: &u64| {
        let is_there = at < *share;
        at = at.saturating_sub(*share);
        is_there
    };
    shares.iter().position(is_there).unwrap_or(shares.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_a_copy_loses_the_more_often_it_is_picked() {
        let mut picked = [0; 4];
        (0..1_000).for_each(|number| picked[pick(&[0, 3, 0, 1], number)] += 1);
        assert_eq!(picked, [0, 750, 0, 250]);
    }

    #[test]
    fn where_none_loses_each_is_picked() {
        let mut picked = [0; 4];
        (0..1_000).for_each(|number| picked[pick(&[0; 4], number)] += 1);
        assert_eq!(picked, [250; 4]);
    }
}
