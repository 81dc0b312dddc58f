//! Decides a few copies anew, again and again: the search for something better among whole copies where the patterns
//! that a relaxation uses do not reach its bound.
//!
//! What the copies do now is known, and mostly nothing is better. So only what is better is searched for: where the
//! relaxation of the few proves that there is nothing, they go on as they are, and a level at which nothing is better
//! for all copies together is not looked at again.

use super::decisions::Decisions;
use super::model::Model;
use super::split::State;
use crate::solver::instance::Effort;
use crate::solver::program::mix;
use crate::solver::work::Allowance;

/// Nodes of a search, per level.
const REPAIR: Effort = Effort { nodes: 80 };
/// How many copies a search decides anew.
const TOGETHER: usize = 3;

/// What copies are decided anew for.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    /// The level that is above its bound.
    pub(super) level: usize,
    pub(super) bound: i64,
    /// At so many of the first levels it is proved that no choice is better.
    pub(super) best_at: usize,
    /// Only what is better at so many of the first levels is of use.
    pub(super) needed: usize,
}

/// Decides a few copies anew, again and again, while the level is above its bound.
pub(super) fn repair(
    model: &Model<'_>,
    state: &mut State,
    Goal { level, bound, best_at, needed }: Goal,
    (left, work, decisions): (&mut usize, Allowance, &mut Decisions),
) {
    let Some(mut values) = state.values(model) else { return };
    let mut numbers = 0;
    while *left > 0 && !work.is_used_up() && values[level] > bound && state.pieces.len() > 1 {
        *left -= 1;
        let mut next = state.clone();
        let mut open = Vec::new();
        for _ in 0..TOGETHER.min(next.pieces.len()) {
            numbers += 1;
            let position = mix(numbers) as usize % next.pieces.len();
            open.push(next.pieces.swap_remove(position));
        }
        if next.improve(model, (&open, best_at, needed), (REPAIR, decisions)).is_none() {
            continue;
        }
        next.trim(model);
        if let Some(now) = next.values(model).filter(|now| *now <= values) {
            values = now;
            *state = next;
        }
    }
}
