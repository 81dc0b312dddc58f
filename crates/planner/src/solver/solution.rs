//! An integer solution of a program, and its cost.

use super::program::Program;

/// Integer values of the columns that are not zero, ascending by column.
pub(super) type Solution = Vec<(u32, i64)>;

/// Whether an integer solution meets all rows and counts, exactly; its cost.
pub(super) fn evaluate(program: &Program, solution: &Solution) -> Option<i64> {
    let mut sums = vec![0i64; program.rows.len()];
    let mut counts = vec![0i64; program.blocks()];
    let mut cost = 0i64;
    for (j, n) in solution {
        let j = *j as usize;
        if *n < 0 {
            return None;
        }
        counts[program.block_of[j] as usize] += n;
        cost += program.cost[j] * n;
        for t in program.terms(j) {
            sums[program.term_row[t] as usize] += program.term[t] * n;
        }
    }
    let met = (program.rows.iter().zip(&sums))
        .all(|(row, sum)| if row.at_least { *sum >= row.rhs } else { *sum <= row.rhs });
    (met && counts == program.count).then_some(cost)
}
