//! What is asked of an instance with parts, and what is known before.

use super::{Copy, Orders};
use crate::solver::instance::RowIndex;

/// Which levels of an instance with parts are looked at how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked<'o> {
    /// So many of the first are looked at copy by copy until they are proved,
    /// or the effort is used up; what is left open there shows in the bounds.
    pub first: usize,
    /// So many of the first are worth most: the others decide among what is as good, by who waits longest, and are not
    /// searched for as long.
    pub worth: usize,
    /// So many of the first get a bound that somebody wants to know; of the
    /// others it is only what is certain of any choice.
    pub bounded: usize,
    /// In which order what has to be done can be done one by one.
    pub orders: &'o Orders,
    /// What a choice is of use for: one that is worse than this at the first levels is not wanted. Nothing, if every
    /// choice is.
    pub reached: &'o [i64],
    /// Where the search starts.
    pub start: Known<'o>,
    /// Only whether `reached` can be reached is of interest: a proof that it cannot be ends the search, with a choice
    /// that is not searched for long.
    pub is_question: bool,
    /// So many operations ([`work`](crate::solver::work)) at each level, for filling copies one by one, and nothing else is tried. Nothing, if
    /// a choice is worth what it takes.
    pub filled_within: Option<u64>,
}

impl<'o> Asked<'o> {
    /// Looks at so many of the first levels copy by copy, and bounds so many, with nothing known before. The last of the
    /// first is worth less, if it is not the only one.
    #[must_use]
    pub const fn new(first: usize, bounded: usize, orders: &'o Orders) -> Self {
        let worth = if first > 1 { first - 1 } else { first };
        Self {
            first,
            worth,
            bounded,
            orders,
            reached: &[],
            start: Known::NOTHING,
            is_question: false,
            filled_within: None,
        }
    }
}

/// A choice that is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known<'o> {
    /// What copies do, for each part. Nothing, if none is known.
    pub copies: &'o [Vec<Copy>],
    /// So many of the first levels were searched for when it was found, and are not again. None, if it is only a start: then
    /// it stays as far as no level is better without it.
    pub searched: usize,
}

impl Known<'_> {
    /// Nothing is known.
    pub const NOTHING: Self = Self { copies: &[], searched: 0 };
}

/// Who comes first at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InTurn<'q> {
    /// The level.
    pub level: usize,
    /// The rows of those in question, in their order.
    pub queue: &'q [RowIndex],
    /// So many operations, as in [`Asked::filled_within`]; then nothing is proved of those who are passed over.
    pub filled_within: Option<u64>,
}
