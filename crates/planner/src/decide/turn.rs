//! Whose turn it is, once that is known: `turns` finds it, the program is formulated with it.

use std::cmp::Reverse;

use crate::solver::Copy;

/// Whose turn it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// By group, whether its requests are served in turn.
    pub(super) in_turn: Vec<bool>,
    /// By group, how many of its oldest are to be served.
    pub(super) served: Vec<i64>,
    /// Each priority at which somebody is served in turn, highest first.
    pub(super) queues: Vec<Queue>,
    /// What each node does in the best answer that was found node by node, if any was: where the plan starts.
    pub(super) start: Vec<Vec<Copy>>,
}

/// The requests of one priority that are served in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) priority: Reverse<i32>,
    /// Oldest first; of equally old ones the first name.
    pub(super) turns: Vec<Turn>,
}

/// What was decided of one request. It depends on what was decided before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) group: usize,
    pub(super) served: bool,
    /// It is proved that nothing better can be done for it.
    pub(super) proved: bool,
}
