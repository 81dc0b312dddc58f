//! Level after level: each is minimised with the earlier ones held at their
//! integer values.

use super::carried::mend;
use super::greedy::complete;
use super::instance::{Choice, Effort, Instance, Level, SolveError, Solved};
use super::memory::Memory;
use super::project::Projection;
use super::search::minimise;
use super::tree::Wanted;

/// Where a level could not be closed, the later ones cannot be expected to
/// be: they get this part of the effort, so that an instance which is hard at
/// every level is not ten times as long in being given up.
const AFTER_AN_OPEN_LEVEL: u64 = 8;

/// A choice that is known before anything is solved.
#[derive(Hash)]
pub(super) struct Known {
    pub(super) choice: Choice,
    /// At so many of the first levels it is proved that nothing is better.
    pub(super) best_at: usize,
    /// Only what is better at so many of the first levels is of use: the later ones are not looked at without it.
    pub(super) needed: usize,
}

pub(super) fn solve(instance: &Instance, effort: Effort, memory: &mut Memory) -> Result<Solved, SolveError> {
    let mut levels = Levels::new(instance, effort, memory);
    levels.up_to(instance.levels)?;
    Ok(levels.solved())
}

/// The same where a choice is known: what is found is better, or as good, or it is that choice. It is one of several
/// equally good ones, and not the one that [`solve`] finds.
pub(super) fn improve(instance: &Instance, effort: Effort, known: Known) -> Result<Solved, SolveError> {
    let mut memory = Memory::default();
    let mut levels = Levels::new(instance, effort, &mut memory);
    let Known { choice, best_at, needed } = known;
    let values = instance.values(&choice.0, &choice.1);
    levels.start_from(choice.clone(), &values[..best_at]);
    if needed < instance.levels {
        levels.up_to(needed)?;
        if levels.fixed[..needed] >= values[..needed] {
            levels.best = Some(choice);
            return Ok(levels.solved());
        }
    }
    levels.up_to(instance.levels)?;
    Ok(levels.solved())
}

/// An instance that is solved as far as somebody asks: what is known of the
/// first levels does not depend on whether the later ones are looked at.
pub(super) struct Levels<'a> {
    instance: &'a Instance,
    memory: &'a mut Memory,
    effort: Effort,
    /// Nodes that the next level may take.
    nodes: u64,
    fixed: Vec<i64>,
    bounds: Vec<i64>,
    best: Option<Choice>,
    /// The choice of the instance before, as one of this instance.
    carried: Option<Choice>,
    /// Whether only what is better than `carried` is of use, also at the last level.
    is_known: bool,
}

impl<'a> Levels<'a> {
    pub(super) fn new(instance: &'a Instance, effort: Effort, memory: &'a mut Memory) -> Self {
        let carried = memory.choice(instance);
        let nodes = effort.nodes;
        Self {
            instance,
            memory,
            effort,
            nodes,
            fixed: vec![],
            bounds: vec![],
            best: None,
            carried,
            is_known: false,
        }
    }

    /// Starts from a choice that is known, after the levels at which nothing is better than these values.
    fn start_from(&mut self, choice: Choice, best: &[i64]) {
        self.fixed = best.to_vec();
        self.bounds.clone_from(&self.fixed);
        self.best = Some(choice.clone());
        self.carried = Some(choice);
        self.is_known = true;
    }

    /// Solves all levels before this one that are not solved yet; the first in any case.
    pub(super) fn up_to(&mut self, end: usize) -> Result<(), SolveError> {
        while self.fixed.len() < end.clamp(1, self.instance.levels.max(1)) {
            self.next()?;
        }
        Ok(())
    }

    /// A level that was solved. The value is that of the best choice when it was.
    pub(super) fn level(&self, level: usize) -> Level {
        Level { value: self.fixed[level], bound: self.bounds[level] }
    }

    /// The levels, all of which were solved, and the choice.
    pub(super) fn solved(&self) -> Solved {
        let (classes, extras) = self.best.clone().expect("at least one level was solved");
        let values = self.instance.values(&classes, &extras);
        let levels = values.into_iter().zip(&self.bounds);
        let levels = levels.map(|(value, bound)| Level { value, bound: *bound }).collect();
        Solved { classes, extras, levels }
    }

    fn next(&mut self) -> Result<(), SolveError> {
        let Self { instance, effort, fixed, memory, .. } = self;
        let level = fixed.len();
        let is_as_good_before = |(classes, extras): &Choice| {
            instance.values(classes, extras).iter().zip(&*fixed).all(|(value, fixed)| value <= fixed)
        };
        let value =
            |(classes, extras): &Choice| instance.values(classes, extras).get(level).copied().unwrap_or(0);
        self.carried = self.carried.take().filter(is_as_good_before);
        let (projection, kept) = Projection::new(instance, fixed, memory);
        // Of the earlier levels only the value is of use.
        let is_last = level + 1 == instance.levels;
        let wanted = if is_last && !self.is_known { Wanted::Solution } else { Wanted::Value };
        let known = self.carried.as_ref().filter(|_| self.is_known).map(value);
        let carried = &mut self.carried;
        let has = |relaxed: &[(u32, f64)], proved: i64| {
            if carried.as_ref().is_some_and(|choice| value(choice) <= proved) {
                return true;
            }
            // A hair below a whole number, or below zero, is rounding errors.
            let whole = relaxed.iter().map(|(j, x)| (*j, (x + 1e-6).floor() as i64));
            let whole: Vec<(u32, i64)> = whole.filter(|(_, n)| *n > 0).collect();
            let rounded = mend(instance, projection.expand(instance, &whole).0);
            let Some(rounded) = rounded.filter(is_as_good_before) else { return false };
            let is_enough = value(&rounded) <= proved;
            if is_enough {
                *carried = Some(rounded);
            }
            is_enough
        };
        let optimum = minimise(&projection.program, (wanted, known), self.nodes, projection.start(kept), has);
        if let Some(basis) = &optimum.basis {
            projection.keep(kept, basis);
        }
        if optimum.infeasible {
            return Err(SolveError::Infeasible);
        }
        let unchanged = optimum.is_open().then(|| unchanged(instance)).flatten().filter(is_as_good_before);
        let found = optimum.best.map(|(solution, _)| projection.expand(instance, &solution));
        // What an earlier level found, or no search, counts only when this one found nothing as good.
        let before = self.best.take().into_iter().chain(unchanged).chain(self.carried.clone());
        let choice = found.into_iter().chain(before).min_by_key(value);
        let choice = choice.ok_or(SolveError::NotFound { nodes: effort.nodes })?;
        if value(&choice) > optimum.bound {
            self.nodes = (effort.nodes / AFTER_AN_OPEN_LEVEL).max(1);
        }
        self.fixed.push(value(&choice));
        self.bounds.push(optimum.bound);
        self.best = Some(choice);
        Ok(())
    }
}

/// What comes of every class's first column: nothing changes.
fn unchanged(instance: &Instance) -> Option<Choice> {
    complete(instance, instance.classes.iter().map(|class| vec![(0, class.count)]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::instance::{Class, Column, Extra, Row, Sense};
    use super::super::program::mix;
    use super::super::work;
    use super::*;

    /// Three copies that have so much of two things each, and sixteen pods that take of both; who is not served costs
    /// one. At a second level, the later somebody comes the dearer it is.
    fn packing(seed: u64) -> Instance {
        let mut rows = vec![Row { sense: Sense::AtMost, rhs: 20 }; 6];
        let mut extras = Vec::new();
        for pod in 0..16 {
            let row = rows.len();
            rows.push(Row { sense: Sense::Equal, rhs: 1 });
            let takes =
                |of: u64| 3 + i32::try_from(mix(seed << 8 | pod << 1 | of) % 7).expect("it is below seven");
            for copy in 0..3 {
                let coefficients = vec![(2 * copy, takes(0)), (2 * copy + 1, takes(1)), (row, 1)];
                extras.push(Extra { upper: 1, coefficients, costs: vec![] });
            }
            let costs = vec![1, 1 + i64::try_from(pod).expect("there are few")];
            extras.push(Extra { upper: 1, coefficients: vec![(row, 1)], costs });
        }
        let classes = vec![Class { count: 1, columns: [Column::default()].into() }];
        Instance { rows, classes, extras, levels: 2 }
    }

    /// The first of them whose best choice nobody finds without a search.
    fn hard() -> Instance {
        let is_hard = |instance: &Instance| {
            let none = solve(instance, Effort { nodes: 0 }, &mut Memory::default());
            none.map_or(true, |found| values(&found) != values(&best(instance).0))
        };
        (0..20).map(packing).find(is_hard).expect("some of twenty need a search")
    }

    fn of(solved: &Solved) -> Choice {
        (solved.classes.clone(), solved.extras.clone())
    }

    fn values(solved: &Solved) -> Vec<i64> {
        solved.levels.iter().map(|level| level.value).collect()
    }

    /// The best choice, and the operations that it takes to find it.
    fn best(instance: &Instance) -> (Solved, u64) {
        let before = work::done();
        let solved =
            solve(instance, Effort::default(), &mut Memory::default()).expect("nothing has to be done");
        (solved, work::done() - before)
    }

    /// What comes of a choice that is known, and the operations.
    #[track_caller]
    fn improved(instance: &Instance, nodes: u64, choice: Choice, best_at: usize) -> (Solved, u64) {
        improved_at(instance, nodes, Known { choice, best_at, needed: instance.levels })
    }

    /// The same where only what is better at some levels is of use.
    #[track_caller]
    fn improved_at(instance: &Instance, nodes: u64, known: Known) -> (Solved, u64) {
        let before = work::done();
        let solved = improve(instance, Effort { nodes }, known).expect("a choice is known");
        assert!(instance.is_met_by(&solved.classes, &solved.extras));
        (solved, work::done() - before)
    }

    #[test]
    fn of_a_choice_that_is_the_best_only_that_is_proved() {
        let instance = hard();
        let (best, of_search) = best(&instance);
        let (again, of_proof) = improved(&instance, Effort::default().nodes, of(&best), 0);
        assert_eq!(values(&again), values(&best));
        assert!(of_proof * 4 < of_search, "{of_proof} operations, and {of_search} to find it");
        let (again, of_one) = improved(&instance, Effort::default().nodes, of(&best), 1);
        assert_eq!(values(&again), values(&best));
        assert!(of_one < of_proof, "a level at which nothing is better is looked at: {of_one}");
        let (again, of_nothing) = improved(&instance, Effort::default().nodes, of(&best), 2);
        assert_eq!((of(&again), of_nothing), (of(&best), 0));
    }

    #[test]
    fn what_is_better_than_a_known_choice_is_found() {
        let instance = hard();
        let nothing = unchanged(&instance).expect("nothing has to be done");
        let (found, _) = improved(&instance, Effort::default().nodes, nothing.clone(), 0);
        assert_eq!(values(&found), values(&best(&instance).0));
        assert_ne!(values(&found), instance.values(&nothing.0, &nothing.1));
    }

    #[test]
    fn without_what_is_needed_the_later_levels_are_not_looked_at() {
        // As good as can be at the first level, and not at the second, which it knows nothing of.
        let serving = |instance: &Instance| of(&best(&Instance { levels: 1, ..instance.clone() }).0);
        let is_worse = |(instance, (classes, extras), best): &(Instance, Choice, Solved)| {
            let now = instance.values(classes, extras);
            now[0] == best.levels[0].value && now[1] > best.levels[1].value
        };
        let all = (0..60).map(packing).map(|instance| {
            let (served, best) = (serving(&instance), best(&instance).0);
            (instance, served, best)
        });
        let (instance, served, best) = { all }.find(is_worse).expect("it is so of some");
        let needed = |needed| {
            let known = Known { choice: served.clone(), best_at: 0, needed };
            improved_at(&instance, Effort::default().nodes, known)
        };
        let (same, of_one) = needed(1);
        assert_eq!(of(&same), served);
        let (better, of_both) = needed(2);
        assert_eq!(values(&better), values(&best));
        assert!(of_one < of_both, "{of_one} operations, and {of_both} with the second level");
    }

    #[test]
    fn with_what_is_needed_the_later_levels_are_looked_at() {
        let instance = hard();
        let choice = unchanged(&instance).expect("nothing has to be done");
        let known = Known { choice, best_at: 0, needed: 1 };
        let (found, _) = improved_at(&instance, Effort::default().nodes, known);
        assert_eq!(values(&found), values(&best(&instance).0));
    }

    #[test]
    fn however_little_is_searched_nothing_is_worse_than_a_known_choice() {
        let instance = hard();
        let (best, _) = best(&instance);
        assert_eq!(values(&improved(&instance, 0, of(&best), 0).0), values(&best));
    }
}
