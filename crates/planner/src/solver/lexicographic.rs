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

pub(super) fn solve(instance: &Instance, effort: Effort, memory: &mut Memory) -> Result<Solved, SolveError> {
    let mut levels = Levels::new(instance, effort, memory);
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
}

impl<'a> Levels<'a> {
    pub(super) fn new(instance: &'a Instance, effort: Effort, memory: &'a mut Memory) -> Self {
        let carried = memory.choice(instance);
        let nodes = effort.nodes;
        Self { instance, memory, effort, nodes, fixed: vec![], bounds: vec![], best: None, carried }
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
        let wanted = if level + 1 < instance.levels { Wanted::Value } else { Wanted::Solution };
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
        let optimum = minimise(&projection.program, wanted, self.nodes, projection.start(kept), has);
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
