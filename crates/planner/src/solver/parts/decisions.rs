//! What was decided of open copies before. Where few copies are left, or many do the same, the same question comes
//! again: a fleet of three nodes whose three are decided anew sixty times asks three questions.

use std::collections::HashMap;

use crate::solver::instance::{Effort, Instance, Solved};
use crate::solver::lexicographic::{self, Known};
use crate::solver::memory::Memory;
use crate::solver::question::{Question, digest};
use crate::solver::work;

/// Answers by their questions. An answer follows from its question alone, so what is known changes no choice.
pub(super) struct Decisions {
    known: HashMap<Question, (Option<Solved>, u64)>,
    /// Whether somebody stops after so much work: an answer that was known counts as much as one that was not, so that
    /// they stop at the same question.
    counts_work: bool,
    /// The levels that are decided.
    pub(super) span: Span,
}

/// Some of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// So many of the first are taken as one: nothing is lost at any of them yet, so nothing is where their sum is nought.
    pub(super) as_one: usize,
    /// The first that is left out.
    pub(super) end: usize,
}

impl Span {
    /// All levels, each by itself.
    pub(super) const ALL: Self = Self { as_one: 0, end: usize::MAX };

    /// So many of the first levels, where some are taken as one: none of a part of these.
    pub(super) fn first(self, levels: usize) -> usize {
        match levels.min(self.end) {
            levels if self.as_one < 2 => levels,
            levels if levels < self.as_one => 0,
            levels => levels + 1 - self.as_one,
        }
    }

    /// What something costs at the levels of the span.
    pub(super) fn of(self, costs: &mut Vec<i64>) {
        costs.truncate(self.end);
        if self.as_one >= 2 && costs.len() > 1 {
            let first = self.as_one.min(costs.len());
            let sum = costs.drain(..first).sum();
            costs.insert(0, sum);
        }
    }
}

impl Decisions {
    pub(super) fn new(counts_work: bool) -> Self {
        Self { known: HashMap::new(), counts_work, span: Span::ALL }
    }

    /// The best choice, if one is found.
    pub(super) fn solve(&mut self, instance: &Instance, effort: Effort) -> Option<Solved> {
        let solve = || lexicographic::solve(instance, effort, &mut Memory::default()).ok();
        self.answer(digest(&(instance, effort)), solve)
    }

    /// A choice that is better than one that is known, if one is found; else one that is as good.
    pub(super) fn improve(&mut self, instance: &Instance, effort: Effort, known: Known) -> Option<Solved> {
        let question = digest(&(instance, effort, &known));
        self.answer(question, || lexicographic::improve(instance, effort, known).ok())
    }

    fn answer(&mut self, question: Question, solve: impl FnOnce() -> Option<Solved>) -> Option<Solved> {
        if let Some((answer, operations)) = self.known.get(&question) {
            if self.counts_work {
                work::count(usize::try_from(*operations).unwrap_or(usize::MAX));
            }
            return answer.clone();
        }
        let before = work::done();
        let answer = solve();
        self.known.insert(question, (answer.clone(), work::done().wrapping_sub(before)));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::greedy::complete;
    use crate::solver::instance::{Class, Column, Extra, Row, Sense};

    /// Eight GPUs of which each can be cut in one of two ways, for 21 pods of two kinds.
    fn instance() -> Instance {
        let rows = [12, 9].map(|asked| Row { sense: Sense::AtLeast, rhs: asked }).into();
        let cut = |a, b| Column { coefficients: vec![(0, a), (1, b)], costs: vec![0, 1] };
        let columns = [Column::default(), cut(3, 0), cut(1, 1)];
        let unserved = |row, asked| Extra { upper: asked, coefficients: vec![(row, 1)], costs: vec![1] };
        let classes = vec![Class { count: 8, columns: columns.into() }];
        Instance { rows, classes, extras: vec![unserved(0, 12), unserved(1, 9)], levels: 2 }
    }

    /// The answer to a question that is asked twice, and the operations that are counted each time.
    #[track_caller]
    fn asked_twice(counts_work: bool) -> [u64; 2] {
        let mut decisions = Decisions::new(counts_work);
        let mut ask = || {
            let before = work::done();
            let answer =
                decisions.solve(&instance(), Effort { nodes: 60 }).expect("nothing has to be served");
            (answer, work::done() - before)
        };
        let ((first, of_first), (again, of_again)) = (ask(), ask());
        assert_eq!(first, again);
        [of_first, of_again]
    }

    #[test]
    fn levels_that_are_one_cost_what_they_cost_together() {
        let at = |as_one, end| {
            let mut costs = vec![1, 2, 4, 8, 16];
            Span { as_one, end }.of(&mut costs);
            costs
        };
        assert_eq!(at(3, 4), [7, 8]);
        assert_eq!(at(5, 9), [31]);
        assert_eq!([at(0, 2), at(1, 2)], [[1, 2], [1, 2]], "one is what it is");
        let first = |levels| Span { as_one: 3, end: 5 }.first(levels);
        assert_eq!([0, 2, 3, 4, 5, 7].map(first), [0, 0, 1, 2, 3, 3]);
        assert_eq!([0, 1, 3].map(|levels| Span::ALL.first(levels)), [0, 1, 3]);
    }

    #[test]
    fn the_same_question_is_searched_for_once() {
        let [first, again] = asked_twice(false);
        assert!(first > 0);
        assert_eq!(again, 0);
    }

    #[test]
    fn who_stops_after_so_much_work_stops_at_the_same_question() {
        let [first, again] = asked_twice(true);
        assert!(first > 0);
        assert_eq!(again, first);
    }

    #[test]
    fn with_another_effort_it_is_another_question() {
        let mut decisions = Decisions::new(false);
        for nodes in [60, 80] {
            let before = work::done();
            assert!(decisions.solve(&instance(), Effort { nodes }).is_some());
            assert!(work::done() > before, "{nodes} nodes");
        }
    }

    #[test]
    fn with_another_known_choice_it_is_another_question() {
        let instance = instance();
        let mut decisions = Decisions::new(false);
        let mut ask = |column: usize, best_at, needed| {
            let choice = complete(&instance, vec![vec![(column, 8)]]).expect("nothing has to be served");
            let before = work::done();
            let known = Known { choice, best_at, needed };
            assert!(decisions.improve(&instance, Effort { nodes: 60 }, known).is_some());
            work::done() > before
        };
        assert!(ask(0, 0, 2));
        assert!(!ask(0, 0, 2), "the same question");
        assert!(ask(1, 0, 2), "another choice");
        assert!(ask(1, 1, 2), "another proof");
        assert!(ask(1, 0, 1), "another need");
    }
}
