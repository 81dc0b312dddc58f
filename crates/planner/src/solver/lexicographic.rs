//! Level after level: each is minimised with the earlier ones held at their
//! integer values.

use super::instance::{Effort, Instance, Level, SolveError, Solved};
use super::project::{Choice, Projection};
use super::search::minimise;
use super::tree::Wanted;

pub(super) fn solve(instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
    let mut fixed = Vec::new();
    let mut bounds = Vec::new();
    let mut best: Option<Choice> = None;
    for _ in 0..instance.levels.max(1) {
        let level = fixed.len();
        let projection = Projection::new(instance, &fixed);
        // Of the earlier levels only the value is of use.
        let wanted = if level + 1 < instance.levels { Wanted::Value } else { Wanted::Solution };
        let optimum = minimise(&projection.program, wanted, effort.nodes);
        if optimum.infeasible {
            return Err(SolveError::Infeasible);
        }
        let found = optimum.best.map(|(solution, _)| projection.expand(instance, &solution));
        let value =
            |(classes, extras): &Choice| instance.values(classes, extras).get(level).copied().unwrap_or(0);
        // What an earlier level found counts only when this one found nothing as good.
        let choice = found.into_iter().chain(best).min_by_key(value);
        let choice = choice.ok_or(SolveError::NotFound { nodes: effort.nodes })?;
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
