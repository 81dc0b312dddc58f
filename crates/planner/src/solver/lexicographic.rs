//! Level after level: each is minimised with the earlier ones held at their
//! integer values.

use super::instance::{Effort, Instance, Level, SolveError, Solved};
use super::project::{Choice, Projection};
use super::search::minimise;

pub(super) fn solve(instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
    let mut fixed = Vec::new();
    let mut bounds = Vec::new();
    let mut best: Option<Choice> = None;
    for _ in 0..instance.levels.max(1) {
        let level = fixed.len();
        let projection = Projection::new(instance, &fixed);
        let optimum = minimise(&projection.program, None, effort.nodes, &mut None);
        if optimum.infeasible {
            return Err(SolveError::Infeasible);
        }
        let found = optimum.best.map(|(solution, _)| projection.expand(instance, &solution));
        // What an earlier level found still counts when this one found nothing.
        let choice = found.or(best).ok_or(SolveError::NotFound { nodes: effort.nodes })?;
        fixed.push(instance.values(&choice.0, &choice.1).get(level).copied().unwrap_or(0));
        bounds.push(optimum.bound);
        best = Some(choice);
    }
    let (classes, extras) = best.expect("at least one level was solved");
    let levels = (instance.values(&classes, &extras).into_iter().zip(bounds))
        .map(|(value, bound)| Level { value, bound })
        .collect();
    Ok(Solved { classes, extras, levels })
}
