//! Whose turn it is, once that is known: `turns` finds it, the program is formulated with it.

use std::cmp::Reverse;

use crate::solver::{Copy, Known, Part};

/// Whose turn it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// By group, whether its requests are served in turn.
    pub(super) in_turn: Vec<bool>,
    /// By group, how many of its oldest are to be served.
    pub(super) served: Vec<i64>,
    /// Each priority at which somebody is served in turn, highest first.
    pub(super) queues: Vec<Queue>,
    /// Where the plan starts.
    pub(super) start: Start,
}

/// What each node does in the best answer that was found node by node, if any was: where what comes after it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) copies: Vec<Vec<Copy>>,
    /// So many of the first levels were searched for in it.
    pub(super) searched: usize,
}

impl Start {
    /// The same for the program of a plan, whose nodes may do more: none does anything of that, and nothing of it counts as
    /// searched for. With the later levels in view, a plan serves a little more than the questions did.
    pub(super) fn suited(mut self, parts: &[Part]) -> Self {
        for (part, copies) in parts.iter().zip(&mut self.copies) {
            copies.iter_mut().for_each(|copy| copy.extras.resize(part.extras.len(), 0));
        }
        Self { searched: 0, ..self }
    }

    /// As the solver is told it.
    pub(super) fn known(&self) -> Known<'_> {
        Known { copies: &self.copies, searched: self.searched }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::turns::Compared;

    const PRIORITY: Reverse<i32> = Reverse(7);

    /// Who is served, the oldest first: `s` who is, `p` who is passed over by proof, `?` who is passed over without one.
    fn turns(who: &str) -> Turns {
        let turn = |(group, what)| Turn { group, served: what == 's', proved: what != '?' };
        let queue =
            Queue { priority: PRIORITY, turns: who.chars().enumerate().map(|(g, w)| turn((g, w))).collect() };
        Turns { queues: vec![queue], ..Turns::default() }
    }

    #[track_caller]
    fn check(mine: &str, goes_on: &str, expected: Compared) {
        assert_eq!(turns(mine).compared(&turns(goes_on), PRIORITY), expected, "{mine} beside {goes_on}");
    }

    #[test]
    fn the_oldest_on_whom_two_answers_differ_decides_and_only_a_proof_makes_one_better() {
        check("ss?", "ss?", Compared::Same);
        check("ssp", "ss?", Compared::Same);
        check("sss", "sps", Compared::Better);
        check("sss", "s?s", Compared::Seems);
        check("sps", "sss", Compared::Worse);
        check("s?s", "sss", Compared::Worse);
        // Whoever is younger than they are does not count, and neither does what is proved of them.
        check("spsss", "ss???", Compared::Worse);
        check("ss???", "s?sss", Compared::Seems);
        check("ss???", "spsss", Compared::Better);
    }

    #[test]
    fn what_nodes_may_do_beyond_the_question_none_of_them_does_at_first() {
        let copy = |extras: &[i64]| Copy { classes: vec![], extras: extras.to_vec() };
        let part = Part { copies: 2, rows: vec![], counts: vec![], classes: vec![], extras: vec![5, 6, 9] };
        let start = Start { copies: vec![vec![copy(&[1, 0]), copy(&[0, 2])]], searched: 3 };
        let suited = start.suited(&[part]);
        assert_eq!(suited.copies, [[copy(&[1, 0, 0]), copy(&[0, 2, 0])]]);
        assert_eq!(suited.searched, 0, "the later levels were not in question");
    }

    #[test]
    fn nobody_waits_at_another_priority() {
        assert_eq!(turns("s").compared(&turns("p"), Reverse(0)), Compared::Same);
    }

    /// A search that ends elsewhere is no reason to change a plan that is being carried out.
    #[test]
    fn what_only_seems_better_replaces_nothing_that_is_under_way() {
        let each = [Compared::Same, Compared::Better, Compared::Seems, Compared::Worse];
        let replaces = |nothing_under_way: bool| each.map(|compared| compared.replaces(nothing_under_way));
        assert_eq!(replaces(false), [None, Some(true), Some(false), Some(false)]);
        assert_eq!(replaces(true), [None, Some(true), Some(true), Some(false)]);
    }
}
