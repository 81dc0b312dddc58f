//! The relaxation made tighter: rounded rows are added round by round, those
//! that have become slack are dropped again.

use super::basis::{Basis, End, Var};
use super::bound::Bound;
use super::program::{Program, RoundedRow};
use super::rounding::rounded_rows;
use super::simplex::{Factored, Simplex};

/// Rounds of rows at one level.
const ROUNDS: usize = 24;
/// Rounds in which neither the bound nor the relaxation's value moves, before it is given up.
const PATIENCE: usize = 4;
/// Rows that are added in a round.
const ROWS_A_ROUND: usize = 8;

/// A program with rounded rows, and its optimal basis.
pub(super) struct Tightened {
    pub(super) program: Program,
    pub(super) optimum: Factored,
    pub(super) rows: Vec<RoundedRow>,
}

/// Tightens a program whose optimal basis is known and whose relaxation is
/// not integral.
pub(super) fn tighten(
    base: &Program,
    optimum: Factored,
    is_integral: impl Fn(&[(u32, f64)]) -> bool,
) -> Tightened {
    let mut best = Tightened { program: base.clone(), optimum, rows: Vec::new() };
    let mut reached = f64::NEG_INFINITY;
    let mut idle = 0;
    for _ in 0..ROUNDS {
        let simplex = Simplex::from_factored(&best.program, &best.optimum);
        let fresh = rounded_rows(&best.program, &simplex, ROWS_A_ROUND);
        if fresh.is_empty() {
            break;
        }
        let (mut rows, mut basis) = without_slack_rows(base, best.rows.clone(), best.optimum.basis().clone());
        for row in fresh {
            basis.working.push(Var::Slack((base.rows.len() + rows.len()) as u32));
            rows.push(row);
        }
        let program = base.with_rows(&rows);
        let mut simplex = Simplex::with_basis(&program, basis);
        if simplex.optimise() != End::Optimal {
            break;
        }
        let value = Bound::at(&program, &[], &simplex.true_prices()).exact();
        let optimum = simplex.factored();
        let done = is_integral(&simplex.solution());
        best = Tightened { program, optimum, rows };
        idle = if value > reached + 1e-3 * base.step as f64 { 0 } else { idle + 1 };
        reached = reached.max(value);
        if done || idle == PATIENCE {
            break;
        }
    }
    best
}

/// Drops the rounded rows whose slack is basic: they do not bind.
fn without_slack_rows(base: &Program, rows: Vec<RoundedRow>, basis: Basis) -> (Vec<RoundedRow>, Basis) {
    let first = base.rows.len();
    let slack = |r: usize| basis.working.contains(&Var::Slack((first + r) as u32));
    let kept = rows.into_iter().enumerate().filter(|(r, _)| !slack(*r)).map(|(_, row)| row).collect();
    // Of the rows that are kept no slack is basic: nothing is renumbered.
    let mut working = basis.working;
    working.retain(|var| !matches!(var, Var::Slack(r) if *r as usize >= first));
    (kept, Basis { key: basis.key, working })
}
