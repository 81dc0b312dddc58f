//! What whole patterns lose against the bound is looked for again among a few copies at a time.
//!
//! Where the relaxation has prices, they say which copies lose, and those are filled again until it is found. Where it
//! serves everybody it has none, so that nothing says where to look: either way may find at once what the other one gets
//! lost in, so they take turns.

use super::decisions::Decisions;
use super::guide::Guide;
use super::model::Model;
use super::refill;
use super::repair::{Goal, repair};
use super::split::State;
use crate::solver::work::Allowance;

/// Operations for filling a few copies again and again as soon as the patterns are split. To split them in a second
/// way costs as much as most of this, and finds less.
const FILLING: u64 = 300_000_000;
/// Where nothing says which copies to fill, one part in so many comes before a few copies are decided anew, and the rest
/// after it.
const SHARE: u64 = 16;

/// How a state is above its bound.
pub(super) struct Gap<'g> {
    /// What the levels before come to.
    pub(super) held: &'g [i64],
    /// What the next level comes to at least.
    pub(super) bound: i64,
    /// At so many of the levels before it is proved that no choice is better.
    pub(super) best_at: usize,
    /// The prices at which it was proved.
    pub(super) guide: &'g Guide,
    /// Whether they say nothing of where to look, and everybody may be served yet.
    pub(super) is_blind: bool,
}

/// The state, nearer to the bound if that is found. `limits`: for deciding copies anew.
pub(super) fn regain(
    model: &Model<'_>,
    state: State,
    gap: &Gap<'_>,
    limits: (&mut usize, Allowance, &mut Decisions),
) -> State {
    if !gap.is_blind {
        return filled(model, state, gap, FILLING);
    }
    let mut state = filled(model, state, gap, FILLING / SHARE);
    if gap.is_open(model, &state) {
        // So who is left out meanwhile, which later levels are about, is of no account.
        let level = gap.held.len();
        let goal = Goal { level, bound: gap.bound, best_at: gap.best_at, needed: level + 1 };
        repair(model, &mut state, goal, limits);
    }
    let again = filled(model, state.clone(), gap, FILLING - FILLING / SHARE);
    // Filling may make a later level worse.
    let is_better =
        again.values(model).is_some_and(|again| state.values(model).is_none_or(|now| again < now));
    if is_better { again } else { state }
}

impl Gap<'_> {
    fn is_open(&self, model: &Model<'_>, state: &State) -> bool {
        let level = self.held.len();
        state.values(model).is_some_and(|values| values[..level] == *self.held && values[level] > self.bound)
    }
}

/// The state with a few copies filled again and again, until it is at the bound or so many operations are done.
fn filled(model: &Model<'_>, mut state: State, gap: &Gap<'_>, operations: u64) -> State {
    if gap.is_open(model, &state) {
        let limits = (Allowance::of(operations), Some(gap.guide));
        refill::refill(model, &mut state, (gap.held.len(), gap.bound), limits);
        state.trim(model);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::instance::{Class, Column, Extra, Instance, Row, Sense};
    use crate::solver::parts::Part;
    use crate::solver::parts::master::{Pool, relax};
    use crate::solver::work;
    use crate::testing::generate::Numbers;

    /// What one copy has of two things.
    const ROOM: [i32; 2] = [8, 10];
    /// How many things fill one copy.
    const EACH: usize = 3;

    /// Copies, and things that fill all of them to the last, if they are placed as they were cut, and so many more;
    /// whatever is not done costs one.
    fn cut(copies: u32, seed: u64, more: usize) -> (Instance, Vec<Part>) {
        let mut numbers = Numbers::new(seed);
        let mut sizes: Vec<[i32; 2]> = vec![[1, 1]; more];
        for _ in 0..copies {
            let first = sizes.len();
            sizes.extend([[1, 1]; EACH]);
            for (of, room) in ROOM.into_iter().enumerate() {
                for _ in EACH as i32..room {
                    sizes[first + numbers.below(EACH as u64) as usize][of] += 1;
                }
            }
        }
        let all = i64::from(copies);
        let mut rows = vec![Row { sense: Sense::AtLeast, rhs: 0 }];
        rows.push(Row { sense: Sense::AtMost, rhs: i64::from(ROOM[1]) * all });
        let (mut extras, mut undone) = (Vec::new(), Vec::new());
        for size in &sizes {
            let row = rows.len();
            rows.push(Row { sense: Sense::Equal, rhs: 1 });
            let coefficients = vec![(0, -size[0]), (1, size[1]), (row, 1)];
            extras.push(Extra { upper: all, coefficients, costs: vec![] });
            undone.push(Extra { upper: 1, coefficients: vec![(row, 1)], costs: vec![1] });
        }
        let of_copy = (0..extras.len()).collect();
        extras.extend(undone);
        let column = Column { coefficients: vec![(0, ROOM[0])], costs: vec![] };
        let classes = vec![Class { count: copies, columns: [column].into() }];
        let part = Part { copies, rows: vec![0, 1], counts: vec![0, 1], classes: vec![0], extras: of_copy };
        (Instance { rows, classes, extras, levels: 1 }, vec![part])
    }

    /// What the relaxation of all patterns says.
    fn guide(model: &Model<'_>) -> Guide {
        let mut pool = Pool::new(model);
        let relaxed =
            relax(model, &mut pool, &[], (400, Allowance::of(u64::MAX))).expect("it has an optimum");
        Guide::new(&pool, relaxed.prices)
    }

    /// What is left undone, and the operations that it takes.
    fn regained(model: &Model<'_>, guide: &Guide, is_blind: bool) -> (i64, u64) {
        let before = work::done();
        let gap = Gap { held: &[], bound: 0, best_at: 0, guide, is_blind };
        let mut repairs = 60;
        let limits = (&mut repairs, Allowance::of(u64::MAX), &mut Decisions::new(false));
        let state = regain(model, refill::nothing(model), &gap, limits);
        (state.values(model).expect("nothing has to be done")[0], work::done() - before)
    }

    #[test]
    fn where_everybody_can_be_served_nothing_has_a_price() {
        for (more, is_silent) in [(0, true), (1, false)] {
            let (instance, parts) = cut(4, 1, more);
            assert_eq!(guide(&Model::new(&instance, &parts, 1)).is_silent(), is_silent, "{more} more");
        }
    }

    #[test]
    fn where_nothing_has_a_price_filling_is_not_all_that_is_tried() {
        let (instance, parts) = cut(8, 42, 0);
        let model = Model::new(&instance, &parts, 1);
        let guide = guide(&model);
        let (left_by_filling, _) = regained(&model, &guide, false);
        assert!(left_by_filling > 0, "filling alone finds it, so this says nothing");
        let (left, work) = regained(&model, &guide, true);
        assert_eq!(left, 0);
        assert!(work < FILLING, "{work} operations: no less than for all of the filling");
    }
}
