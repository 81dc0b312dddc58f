//! The solver's answers, kept: who asks the same question again gets the same answer, and nothing is
//! searched. An answer depends on nothing but its question, so whether it was kept is seen in no result.

use std::hash::Hash;

use super::instance::{Effort, Instance, Level, SolveError, Solved};
use super::memory::Memory;
use super::parts::{Asked, Copy, InTurn, Known, Orders, Part, Parted, Served};
use super::question::{Question, digest};
use super::work;
use crate::lasting::Lasting;

/// The numbers that the answers of one turn consist of at most, 16 bytes each: 16 MiB a turn.
const MOST: usize = 1 << 20;
/// What an answer takes beside its numbers, in numbers.
const OVERHEAD: usize = 16;

/// Nodes of a level that is proved with next to no search.
const EASY: u64 = 4;

/// Answers to questions that were asked in this turn or in the one before.
#[derive(Clone, Debug)]
pub struct Answers {
    known: Lasting<Question, Answer>,
    searched: u64,
}

/// What was answered, by kind of question.
#[derive(Clone, Debug)]
enum Answer {
    Solved(Result<Solved, SolveError>),
    /// With the work that it took.
    Parted(Result<Parted, SolveError>, u64),
    InTurn(Option<Served>),
    Reaches(Option<bool>),
    Bound(i64),
}

/// The kind of a question is part of it.
#[derive(Hash)]
enum Kind {
    Solve,
    Values,
    SolveParts,
    InTurn,
    Reaches,
    Bound,
}

impl Default for Answers {
    fn default() -> Self {
        Self { known: Lasting::new(MOST), searched: 0 }
    }
}

impl Answers {
    /// Begins a turn: what is not asked in it is forgotten with the next one.
    pub fn begin(&mut self) {
        self.known.begin();
    }

    /// How many questions were searched for, since they had no answer yet.
    #[must_use]
    pub const fn searched(&self) -> u64 {
        self.searched
    }

    /// [`solve`](super::solve).
    ///
    /// # Errors
    /// As [`solve`](super::solve).
    pub fn solve(&mut self, instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
        let question = digest(&(Kind::Solve, instance, effort));
        if let Some(Answer::Solved(known)) = self.known.get(&question) {
            return known;
        }
        let solved = super::solve(instance, effort);
        let size = solved.as_ref().map_or(0, numbers);
        self.keep(question, Answer::Solved(solved.clone()), size);
        solved
    }

    /// The values of [`solve`](super::solve), after instances that were like this one. They are the same whatever
    /// was remembered; what is chosen where several choices are as good may be another one.
    ///
    /// # Errors
    /// As [`solve`](super::solve).
    pub fn values(
        &mut self,
        (instance, memory): (&Instance, &mut Memory),
        effort: Effort,
    ) -> Result<Solved, SolveError> {
        let question = digest(&(Kind::Values, instance, effort));
        if let Some(Answer::Solved(known)) = self.known.get(&question) {
            return known;
        }
        // A proof that takes next to no search is found from any basis. Whether a long search ends before the
        // effort is used up may depend on where it started: that one starts as ever.
        let easy = Effort { nodes: EASY.min(effort.nodes) };
        let easy = super::solve_alike(instance, easy, memory).ok();
        let proved = easy.filter(|solved| solved.levels.iter().all(Level::is_proven));
        let solved = proved.map_or_else(|| super::solve(instance, effort), Ok);
        let size = solved.as_ref().map_or(0, numbers);
        self.keep(question, Answer::Solved(solved.clone()), size);
        solved
    }

    /// [`solve_parts`](super::solve_parts), and the work that it takes, in operations: as much where the answer was
    /// known, so that who stops after so much work stops at the same question.
    pub fn solve_parts(
        &mut self,
        instance: &Instance,
        parts: &[Part],
        asked: Asked<'_>,
        effort: Effort,
    ) -> (Result<Parted, SolveError>, u64) {
        let question = digest(&(Kind::SolveParts, instance, parts, asked, effort));
        if let Some(Answer::Parted(known, work)) = self.known.get(&question) {
            return (known, work);
        }
        let before = work::done();
        let parted = super::solve_parts(instance, parts, asked, effort);
        let work = work::done().wrapping_sub(before);
        let size = parted.as_ref().map_or(0, |parted| numbers(&parted.solved) + of_copies(&parted.copies));
        self.keep(question, Answer::Parted(parted.clone(), work), size);
        (parted, work)
    }

    /// [`serve_in_turn`](super::serve_in_turn).
    #[must_use]
    pub fn serve_in_turn(
        &mut self,
        instance: &Instance,
        parts: &[Part],
        (orders, known): (&Orders, Known<'_>),
        in_turn: InTurn<'_>,
    ) -> Option<Served> {
        let question = digest(&(Kind::InTurn, instance, parts, orders, known, in_turn));
        if let Some(Answer::InTurn(served)) = self.known.get(&question) {
            return served;
        }
        let served = super::serve_in_turn(instance, parts, (orders, known), in_turn);
        let size = served.as_ref().map_or(0, |served| served.decided.len() + of_copies(&served.copies));
        self.keep(question, Answer::InTurn(served.clone()), size);
        served
    }

    /// [`reaches`](super::reaches), after instances that were like this one.
    #[must_use]
    pub fn reaches(
        &mut self,
        (instance, memory): (&Instance, &mut Memory),
        held: &[i64],
        target: i64,
        effort: Effort,
    ) -> Option<bool> {
        let question = digest(&(Kind::Reaches, instance, held, target, effort));
        if let Some(Answer::Reaches(known)) = self.known.get(&question) {
            return known;
        }
        let reaches = super::reaches_alike(instance, (held, target), effort, memory);
        self.keep(question, Answer::Reaches(reaches), 0);
        reaches
    }

    /// [`bound_of`](super::bound_of).
    #[must_use]
    pub fn bound_of(&mut self, instance: &Instance, held: &[i64]) -> i64 {
        let question = digest(&(Kind::Bound, instance, held));
        if let Some(Answer::Bound(known)) = self.known.get(&question) {
            return known;
        }
        let bound = super::bound_of(instance, held);
        self.keep(question, Answer::Bound(bound), 0);
        bound
    }

    fn keep(&mut self, question: Question, answer: Answer, numbers: usize) {
        self.searched += 1;
        self.known.keep(question, answer, OVERHEAD + numbers);
    }
}

/// The numbers that it takes to say what copies do.
fn of_copies(copies: &[Vec<Copy>]) -> usize {
    let of_copy = |copy: &Copy| {
        OVERHEAD + copy.extras.len() + copy.classes.iter().map(|class| 2 + class.len()).sum::<usize>()
    };
    copies.iter().flatten().map(of_copy).sum()
}

/// The numbers that a solution consists of.
fn numbers(solved: &Solved) -> usize {
    let Solved { classes, extras, levels } = solved;
    classes.iter().map(|class| 2 + class.len()).sum::<usize>() + extras.len() + levels.len()
}

#[cfg(test)]
mod tests {
    use super::super::{Class, Column, Extra, Row, Sense};
    use super::*;

    /// Three GPUs that can each give two slices, of which so many are wanted.
    fn wanted(slices: i64) -> Instance {
        let cut = Column { coefficients: vec![(0, 2)], costs: vec![0, 1] };
        Instance {
            rows: vec![Row { sense: Sense::AtLeast, rhs: slices }],
            classes: vec![Class { count: 3, columns: [Column::default(), cut].into() }],
            extras: vec![Extra { upper: slices, coefficients: vec![(0, 1)], costs: vec![1] }],
            levels: 2,
        }
    }

    #[test]
    fn a_question_is_searched_for_once_and_another_one_by_itself() {
        let mut answers = Answers::default();
        for slices in [5, 4, 5, 4] {
            let solved = answers.solve(&wanted(slices), Effort::default());
            assert_eq!(solved, super::super::solve(&wanted(slices), Effort::default()));
        }
        assert_eq!(answers.searched(), 2);
        let mut memory = Memory::default();
        assert_eq!(answers.reaches((&wanted(7), &mut memory), &[], 0, Effort::default()), Some(false));
        assert_eq!(answers.reaches((&wanted(7), &mut memory), &[], 1, Effort::default()), Some(true));
        assert_eq!(answers.bound_of(&wanted(7), &[]), 1);
        assert_eq!(answers.solve(&wanted(5), Effort { nodes: 3 }).map(|s| s.extras), Ok(vec![0]));
        assert_eq!(answers.searched(), 6, "the target, the kind and the effort are part of a question");
    }

    /// A later question of whose turn it is differs from the one before in how much is wanted: it goes on from there.
    #[test]
    fn what_is_reached_is_the_same_after_other_instances_and_less_work() {
        // Forty layouts of slices of six kinds, so that it is some work to find those that serve everybody.
        let number = |at: usize| i64::try_from(at).unwrap();
        let layout = |at: usize| Column {
            coefficients: (0..6).map(|k| (k, 1 + i32::try_from((at * (k + 3) + k) % 7).unwrap())).collect(),
            costs: vec![0, 1],
        };
        let columns: std::sync::Arc<[Column]> = (0..40).map(layout).collect::<Vec<_>>().into();
        let instance = |slices: [i64; 6]| Instance {
            rows: slices.map(|rhs| Row { sense: Sense::AtLeast, rhs }).into(),
            classes: vec![Class { count: 9, columns: std::sync::Arc::clone(&columns) }],
            extras: (0..6)
                .map(|k| Extra { upper: 99, coefficients: vec![(k, 1)], costs: vec![1 + number(k)] })
                .collect(),
            levels: 2,
        };
        let mut memory = Memory::default();
        let (mut alone, mut after) = (0, 0);
        for slices in 20..60 {
            let instance = instance([slices, 33, 41, 27, slices / 2, 38]);
            let before = work::done();
            let fresh = super::super::reaches(&instance, &[], 0, Effort::default());
            let between = work::done();
            let known = Answers::default().reaches((&instance, &mut memory), &[], 0, Effort::default());
            assert_eq!(known, fresh, "{slices}");
            (alone, after) = (alone + (between - before), after + (work::done() - between));
        }
        assert!(after < alone, "{after} operations, and {alone} by itself");
    }

    #[test]
    fn values_are_the_same_after_other_instances() {
        let (mut answers, mut memory) = (Answers::default(), Memory::default());
        let columns = wanted(0).classes[0].columns.clone();
        for slices in [5, 1, 6, 7, 2, 4] {
            let mut instance = wanted(slices);
            instance.classes[0].columns = std::sync::Arc::clone(&columns);
            let values =
                answers.values((&instance, &mut memory), Effort::default()).map(|solved| solved.levels);
            let fresh = super::super::solve(&instance, Effort::default()).map(|solved| solved.levels);
            assert_eq!(values, fresh, "{slices}");
        }
    }

    #[test]
    fn an_answer_is_forgotten_when_nobody_asked_for_it_in_two_turns() {
        let mut answers = Answers::default();
        let ask = |answers: &mut Answers| {
            let _ = answers.solve(&wanted(5), Effort::default());
            answers.searched()
        };
        assert_eq!(ask(&mut answers), 1);
        answers.begin();
        assert_eq!(ask(&mut answers), 1);
        answers.begin();
        answers.begin();
        assert_eq!(ask(&mut answers), 2);
    }
}
