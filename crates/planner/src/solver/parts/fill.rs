//! Copies that are filled one by one, and a few again and again: the way for so many kinds of things to do, or of copies,
//! that patterns, and then the program for all copies together, take too long.

use super::everyone::Everyone;
use super::guide::Guide;
use super::model::Model;
use super::order::{InOrder, Orders};
use super::price::Prices;
use super::refute::Refuter;
use super::settle::settle;
use super::shape::Place;
use super::split::{State, Together};
use super::{Copy, Decided, Known, Part, Parted, Proof, Settled, are_many, dearest, refill};
use crate::solver::instance::{Instance, Level, RowIndex, Solved};
use crate::solver::work::Allowance;

/// Operations for filling copies, at each level; and at all levels together.
const FILL: u64 = 1_200_000_000;
const FILL_ALL: u64 = 2_400_000_000;
/// Operations for those who come first, and for each level beside them: who is served is found out before it is
/// planned, so that the same work is done twice.
const IN_TURN: u64 = 1_000_000_000;

/// So many times as much for those who come first at a later priority: what is left for them is scattered.
const LATER: u64 = 2;

/// The same for this one. With many priorities, each with hundreds of kinds, all of them together have as much as filling has.
fn work_in_turn(model: &Model<'_>) -> u64 {
    match &model.alike {
        Some(_) => IN_TURN.min(FILL_ALL / model.levels.max(1) as u64),
        None => IN_TURN,
    }
}

/// A choice in the making.
pub(super) struct Filling<'m> {
    model: &'m Model<'m>,
    orders: &'m Orders,
    together: Together,
    /// The patterns of all copies, where there are very many kinds of them.
    everyone: Option<Everyone<'m>>,
    /// What comes of the best of the orders, or of what is worth most for its size, if that is better than nothing.
    start: Option<(State, Vec<i64>)>,
    /// A choice that is known, where some come first: a start.
    known: Option<(State, Vec<i64>)>,
    /// Whether the state goes on with that: then it does things that are looked at later.
    goes_on: bool,
    /// So many of the first levels are not searched for any more.
    searched: usize,
    state: State,
    values: Vec<i64>,
    proved: Vec<Proof>,
    /// Operations for each level, if it would take more.
    most: u64,
}

impl<'m> Filling<'m> {
    /// Nothing is done yet, or what is known. `within`: so many operations for each level, if it would take more.
    pub(super) fn new(
        model: &'m Model<'m>,
        parts: &[Part],
        (orders, Known { copies, searched }): (&'m Orders, Known<'_>),
        within: Option<u64>,
    ) -> Option<Self> {
        let is_free = orders.turns.is_empty();
        let with_values = |state: State| state.values(model).map(|values| (state, values));
        let known = (!is_free).then(|| State::from_copies(model, copies)).flatten().and_then(with_values);
        let ((state, values), known, searched) = match known {
            Some(known) if searched > 0 => (known, None, searched),
            known => (with_values(refill::nothing(model))?, known, 0),
        };
        let dearest = || is_free.then(|| dearest::first(model, &orders.copies)).flatten();
        let starts = [start(model, orders), dearest()].into_iter().flatten();
        let start = starts.min_by(|(_, a), (_, b)| a.cmp(b)).filter(|(_, of_start)| *of_start < values);
        let everyone = model.are_many.then(|| Everyone::new(model));
        let together = Together::new(model, parts);
        // Nobody wants to know a bound of the levels that were searched for before.
        let proved = (0..searched).map(|level| {
            let (held, bound) = (values[..level].to_vec(), model.instance.least(level));
            Proof { held, bound, is_tightened: false }
        });
        let (goes_on, proved) = (false, proved.collect());
        Some(Self {
            model,
            orders,
            together,
            everyone,
            start,
            known,
            goes_on,
            searched,
            state,
            values,
            proved,
            most: within.unwrap_or(u64::MAX),
        })
    }

    /// Makes the next levels better, up to this one.
    pub(super) fn up_to(&mut self, end: usize) -> Option<()> {
        let operations = match self.orders.turns.is_empty() {
            // What the patterns come to is near the best already, and to find it takes most of the work.
            true if self.everyone.as_ref().is_some_and(Everyone::is_large) => FILL / 2,
            true => FILL.min(FILL_ALL / self.model.levels.max(1) as u64),
            false => work_in_turn(self.model),
        };
        let operations = operations.min(self.most);
        for level in self.proved.len()..end {
            let order = self.orders.turns.iter().find(|(of, _)| *of == level);
            if let Some((_, order)) = order {
                self.in_turn(level, order, None)?;
            }
            // If an earlier level becomes better later, its new value is what the later bounds hold for.
            let held = self.values[..level].to_vec();
            let least = self.model.instance.least(level);
            let is_least = self.values[level] <= least;
            let together = (!is_least).then(|| self.together.relaxed(&held, self.model.levels)).flatten();
            let (mut bound, prices) = together.unwrap_or((least, None));
            let mut guide = None;
            if let Some((of_patterns, of_prices)) = self.follow_the_patterns(level, &held, (prices, bound)) {
                bound = bound.max(of_patterns);
                guide = Some(of_prices);
            }
            let limits = (Allowance::of(operations), guide.as_ref());
            self.values = refill::refill(self.model, &mut self.state, (level, bound), limits)?;
            // Now the one start is better, now the other.
            let is_first = self.proved.iter().all(|proof| self.values[proof.held.len()] <= proof.bound);
            if self.values[level] > bound
                && is_first
                && level < self.model.worth
                && let Some((start, _)) = &self.start
            {
                let mut state = start.clone();
                let allowance = Allowance::of(operations);
                let values = refill::refill(self.model, &mut state, (level, bound), (allowance, None))?;
                if values[..=level] < self.values[..=level] {
                    (self.state, self.values) = (state, values);
                }
            }
            self.proved.push(Proof { held, bound, is_tightened: false });
        }
        Some(())
    }

    /// Where there are very many kinds of copies, what a level comes to at least by the patterns of all of them, and where
    /// something is lost at their prices; and what comes of doing as they do is taken if it is better. What is
    /// worth less is left as it is. `prices` and `least`: what is known of the level without patterns.
    fn follow_the_patterns(
        &mut self,
        level: usize,
        held: &[i64],
        (prices, least): (Option<Prices>, i64),
    ) -> Option<(i64, Guide)> {
        let everyone = self.everyone.as_mut()?;
        // The better of the two starts is enough: to fill so many copies takes long.
        if let Some((state, values)) = self.start.take_if(|(_, values)| *values < self.values) {
            (self.state, self.values) = (state, values);
        }
        if self.values[level] <= least || level >= self.model.worth {
            return None;
        }
        let found = everyone.relaxed(held, &self.state, (prices, least))?;
        if self.orders.turns.is_empty() {
            let rows = self.model.instance.rows.iter().zip(&self.model.coverable);
            let wanted: Vec<i64> = rows.map(|(row, is_asked)| if *is_asked { row.rhs } else { 0 }).collect();
            let followed = everyone.followed(&found, &self.orders.copies, &wanted);
            if let Some((state, values)) = followed.filter(|(_, values)| *values < self.values) {
                (self.state, self.values) = (state, values);
            }
        }
        Some((found.bound, found.guide))
    }

    /// What copies do, for each part.
    pub(super) fn copies(&self, parts: &[Part]) -> Vec<Vec<Copy>> {
        self.state.copies(self.model, parts)
    }

    /// What the levels before this one come to.
    pub(super) fn held(&self, level: usize) -> &[i64] {
        &self.values[..level]
    }

    /// Serves those who come first at a level, in their order.
    pub(super) fn in_turn(
        &mut self,
        level: usize,
        order: &[RowIndex],
        refuter: Option<&mut Refuter<'_>>,
    ) -> Option<Vec<Decided>> {
        // As long as no level before is better without it: so nobody is passed over whom it serves.
        let is_as_good = |(_, values): &&(State, Vec<i64>)| values[..level] <= self.values[..level];
        if let Some((known, values)) = self.known.as_ref().filter(is_as_good) {
            (self.state, self.values, self.goes_on) = (known.clone(), values.clone(), true);
        }
        let state = std::mem::replace(&mut self.state, State::empty(self.model));
        let needed = self.without_others(&state, level);
        let sums = needed.sums(self.model, true);
        let state = if self.goes_on { state } else { needed };
        let mut queue = InOrder::new(self.model, state, &self.orders.copies);
        let times = if self.searched > 0 { LATER } else { 1 };
        let allowance = Allowance::of((times * work_in_turn(self.model)).min(self.most));
        let decided = queue.in_turn((level, sums), order, (allowance, refuter));
        self.state = queue.state;
        self.values = self.state.values(self.model)?;
        Some(decided)
    }

    /// The state without what was done of things that no level before this one counts, so that nobody who comes later
    /// is in the way of those whose turn it is; as it is, if a level before needs it.
    fn without_others(&self, state: &State, level: usize) -> State {
        let model = self.model;
        let mut counts = vec![false; model.instance.rows.len()];
        for extra in &model.rest_extras {
            if let [(row, 1)] = extra.coefficients[..] {
                counts[row] |= extra.costs[..level].iter().any(|cost| *cost != 0);
            }
        }
        let mut cleared = state.clone();
        for piece in &mut cleared.pieces {
            let shape = &model.kinds[piece.kind].shape;
            for (extra, n) in shape.extras.iter().zip(&mut piece.does.extras) {
                let does =
                    extra.draft.terms.iter().filter_map(|(row, _)| match shape.place(*row, counts.len()) {
                        Place::Shared(row) if model.coverable[row] => Some(row),
                        _ => None,
                    });
                if does.into_iter().any(|row| !counts[row]) {
                    *n = 0;
                }
            }
        }
        let is_as_good = |values: &Vec<i64>| values[..level] <= self.values[..level];
        if cleared.values(model).as_ref().is_some_and(is_as_good) { cleared } else { state.clone() }
    }

    /// The choice, with what is proved of it.
    pub(super) fn parted(mut self, parts: &[Part]) -> Option<Parted> {
        let instance = self.model.instance;
        if let Some((state, _)) = self.start.take_if(|(_, values)| *values < self.values) {
            self.state = state;
        }
        let settled = settle(self.model, parts, &self.state);
        // What is found copy by copy may break a row where copies are settled; that nothing is done breaks none.
        let settled = settled.or_else(|| settle(self.model, parts, &refill::nothing(self.model)))?;
        let Settled { choice: (classes, extras), values, copies } = settled;
        let levels = (0..).zip(&values).map(|(k, value)| {
            let bound = match self.proved.get(k) {
                Some(proof) if proof.held[..] == values[..k] => proof.bound,
                // An earlier level became better later.
                Some(_) => {
                    self.together.relaxed(&values[..k], k + 1).map_or(instance.least(k), |(bound, _)| bound)
                }
                None => instance.least(k),
            };
            Level { value: *value, bound: bound.min(*value) }
        });
        Some(Parted { solved: Solved { classes, extras, levels: levels.collect() }, copies })
    }
}

/// What an instance with many kinds of things to do is filled in, or with very many parts; nothing, if there are no more
/// than so many, or if filling does not suit it.
pub(super) fn suited<'a>(
    instance: &'a Instance,
    parts: &[Part],
    (levels, kinds): (usize, usize),
) -> Option<Model<'a>> {
    // A model of few kinds and few parts would be made for nothing.
    if parts.is_empty() || levels == 0 || instance.rows.len() <= kinds && !are_many(instance, parts) {
        return None;
    }
    let model = Model::new(instance, parts, levels);
    let things = model.coverable.iter().filter(|is_coverable| **is_coverable).count();
    (model.are_many || things > kinds && refill::suits(&model)).then_some(model)
}

/// The best of what the orders come to, with its values. Where some come first, they are served at their level, and
/// nobody before.
pub(super) fn start(model: &Model<'_>, orders: &Orders) -> Option<(State, Vec<i64>)> {
    let starts = orders.starts.iter().filter(|_| orders.turns.is_empty()).filter_map(|order| {
        let mut fit = InOrder::new(model, refill::nothing(model), &orders.copies);
        order.iter().for_each(|row| {
            fit.first_fit(*row);
        });
        let values = fit.state.values(model)?;
        Some((fit.state, values))
    });
    starts.min_by(|(_, a), (_, b)| a.cmp(b))
}
