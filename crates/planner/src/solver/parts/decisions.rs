//! What was decided of open copies before. Where few copies are left, or many do the same, the same question comes
//! again: a fleet of three nodes whose three are decided anew sixty times asks three questions.

use std::collections::HashMap;

use crate::solver::answers::{Question, digest};
use crate::solver::instance::{Effort, Instance, Solved};
use crate::solver::lexicographic;
use crate::solver::memory::Memory;
use crate::solver::work;

/// Answers by their questions. An answer follows from its question alone, so what is known changes no choice.
pub(super) struct Decisions {
    known: HashMap<Question, (Option<Solved>, u64)>,
    /// Whether somebody stops after so much work: an answer that was known counts as much as one that was not, so that
    /// they stop at the same question.
    counts_work: bool,
}

impl Decisions {
    pub(super) fn new(counts_work: bool) -> Self {
        Self { known: HashMap::new(), counts_work }
    }

    /// The best choice, if one is found.
    pub(super) fn solve(&mut self, instance: &Instance, effort: Effort) -> Option<Solved> {
        let question = digest(&(instance, effort));
        if let Some((answer, operations)) = self.known.get(&question) {
            if self.counts_work {
                work::count(usize::try_from(*operations).unwrap_or(usize::MAX));
            }
            return answer.clone();
        }
        let before = work::done();
        let answer = lexicographic::solve(instance, effort, &mut Memory::default()).ok();
        self.known.insert(question, (answer.clone(), work::done().wrapping_sub(before)));
        answer
    }
}
