//! Level after level: each is minimised with the earlier ones held at their
//! integer values.

use super::greedy::complete;
use super::instance::{Effort, Instance, Level, SolveError, Solved};
use super::project::{Choice, Projection};
use super::search::minimise;
use super::tree::Wanted;

/// Where a level could not be closed, the later ones cannot be expected to
/// be: they get this part of the effort, so that an instance which is hard at
/// every level is not ten times as long in being given up.
const AFTER_AN_OPEN_LEVEL: u64 = 8;

pub(super) fn solve(instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
    let mut fixed = Vec::new();
    let mut bounds = Vec::new();
    let mut best: Option<Choice> = None;
    let mut nodes = effort.nodes;
    for _ in 0..instance.levels.max(1) {
        let level = fixed.len();
        let projection = Projection::new(instance, &fixed);
        // Of the earlier levels only the value is of use.
        let wanted = if level + 1 < instance.levels { Wanted::Value } else { Wanted::Solution };
        let optimum = minimise(&projection.program, wanted, nodes);
        if optimum.infeasible {
            return Err(SolveError::Infeasible);
        }
        let is_as_good_before = |(classes, extras): &Choice| {
            instance.values(classes, extras).iter().zip(&fixed).all(|(value, fixed)| value <= fixed)
        };
        let unchanged = optimum.is_open().then(|| unchanged(instance)).flatten().filter(is_as_good_before);
        let found = optimum.best.map(|(solution, _)| projection.expand(instance, &solution));
        let value =
            |(classes, extras): &Choice| instance.values(classes, extras).get(level).copied().unwrap_or(0);
        // What an earlier level found, or no search, counts only when this one found nothing as good.
        let choice = found.into_iter().chain(best).chain(unchanged).min_by_key(value);
        let choice = choice.ok_or(SolveError::NotFound { nodes: effort.nodes })?;
        if value(&choice) > optimum.bound {
            nodes = (effort.nodes / AFTER_AN_OPEN_LEVEL).max(1);
        }
        fixed.push(value(&choice));
        bounds.push(optimum.bound);
        best = Some(choice);
    }
    let (classes, extras) = best.expect("at least one level was solved");
    let levels = (instance.values(&classes, &extras).into_iter().zip(bounds))
        .map(|(value, bound)| Level { value, bound })
        .collect();
    Ok(Solved { classes, extras, levels })
}

/// What comes of every class's first column: nothing changes.
fn unchanged(instance: &Instance) -> Option<Choice> {
    complete(instance, instance.classes.iter().map(|class| vec![(0, class.count)]).collect())
}
