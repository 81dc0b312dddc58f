//! One level as a mixed-integer program of the `microlp` library.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::instance::{Effort, Instance, Level, Sense, SolveError, Solved};

/// Solves all levels, one after the other.
pub(super) fn solve(instance: &Instance, effort: Effort) -> Result<Solved, SolveError> {
    let mut fixed: Vec<i64> = Vec::new();
    let mut best = None;
    for level in 0..instance.levels.max(1) {
        let (classes, extras) = solve_level(instance, level, &fixed, effort)?;
        fixed.push(instance.values(&classes, &extras).get(level).copied().unwrap_or(0));
        best = Some((classes, extras));
    }
    let (classes, extras) = best.expect("at least one level was solved");
    let levels = instance
        .values(&classes, &extras)
        .into_iter()
        .enumerate()
        .map(|(level, value)| Level { value, bound: trivial_bound(instance, level) })
        .collect();
    Ok(Solved { classes, extras, levels })
}

/// What a level cannot go below when the rows are forgotten.
fn trivial_bound(instance: &Instance, level: usize) -> i64 {
    let chosen: i64 = instance
        .classes
        .iter()
        .map(|class| {
            let least = class.columns.iter().map(|c| Instance::cost(&c.costs, level)).min();
            least.unwrap_or(0) * i64::from(class.count)
        })
        .sum();
    let other: i64 = instance.extras.iter().map(|e| (Instance::cost(&e.costs, level) * e.upper).min(0)).sum();
    chosen + other
}

type Choice = (Vec<Vec<(usize, u32)>>, Vec<i64>);

fn solve_level(
    instance: &Instance,
    level: usize,
    fixed: &[i64],
    effort: Effort,
) -> Result<Choice, SolveError> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let columns: Vec<Vec<Variable>> = instance
        .classes
        .iter()
        .map(|class| {
            let upper = i32::try_from(class.count).unwrap_or(i32::MAX);
            class
                .columns
                .iter()
                .map(|c| problem.add_integer_var(Instance::cost(&c.costs, level) as f64, (0, upper)))
                .collect()
        })
        .collect();
    let extras: Vec<Variable> = instance
        .extras
        .iter()
        .map(|e| {
            let upper = i32::try_from(e.upper).unwrap_or(i32::MAX);
            problem.add_integer_var(Instance::cost(&e.costs, level) as f64, (0, upper))
        })
        .collect();
    let mut rows: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); instance.rows.len()];
    let mut levels: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); fixed.len()];
    let mut add = |variable: Variable, coefficients: &[(usize, i32)], costs: &[i64]| {
        for (row, a) in coefficients {
            rows[*row].push((variable, f64::from(*a)));
        }
        for (k, terms) in levels.iter_mut().enumerate() {
            if Instance::cost(costs, k) != 0 {
                terms.push((variable, Instance::cost(costs, k) as f64));
            }
        }
    };
    for (class, variables) in instance.classes.iter().zip(&columns) {
        for (column, variable) in class.columns.iter().zip(variables) {
            add(*variable, &column.coefficients, &column.costs);
        }
    }
    for (extra, variable) in instance.extras.iter().zip(&extras) {
        add(*variable, &extra.coefficients, &extra.costs);
    }
    for (class, variables) in instance.classes.iter().zip(&columns) {
        let terms: Vec<_> = variables.iter().map(|v| (*v, 1.0)).collect();
        problem.add_constraint(terms.as_slice(), ComparisonOp::Eq, f64::from(class.count));
    }
    for (row, terms) in instance.rows.iter().zip(&rows) {
        let op = match row.sense {
            Sense::AtLeast => ComparisonOp::Ge,
            Sense::AtMost => ComparisonOp::Le,
            Sense::Equal => ComparisonOp::Eq,
        };
        problem.add_constraint(terms.as_slice(), op, row.rhs as f64);
    }
    for (value, terms) in fixed.iter().zip(&levels) {
        problem.add_constraint(terms.as_slice(), ComparisonOp::Le, *value as f64);
    }
    let outcome = match problem.solve() {
        Ok(outcome) => outcome,
        Err(microlp::Error::Infeasible) => return Err(SolveError::Infeasible),
        Err(_) => return Err(SolveError::NotFound { nodes: effort.nodes }),
    };
    let solution = outcome.into_solution().map_err(|_| SolveError::NotFound { nodes: effort.nodes })?;
    let classes: Vec<Vec<(usize, u32)>> = columns
        .iter()
        .map(|variables| {
            variables
                .iter()
                .enumerate()
                .map(|(j, v)| (j, solution.var_value(*v).round() as u32))
                .filter(|(_, n)| *n > 0)
                .collect()
        })
        .collect();
    let extras: Vec<i64> = extras.iter().map(|v| solution.var_value(*v).round() as i64).collect();
    if !instance.is_met_by(&classes, &extras) {
        return Err(SolveError::NotFound { nodes: effort.nodes });
    }
    Ok((classes, extras))
}
