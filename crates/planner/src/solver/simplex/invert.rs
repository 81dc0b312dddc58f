//! The inverse of a basis, from nothing: it once took half of the planning time, since a search changes to
//! another basis after every two pivots.

use super::Simplex;
use crate::solver::basis::Var;

impl Simplex<'_> {
    /// The inverse of the working basis, row by row; nothing, if it is singular.
    ///
    /// A basic slack has a row to itself, so only the part of the basic columns over
    /// the other rows is inverted: half of the rows, mostly, and an eighth of the
    /// work. The slacks' rows follow from it.
    pub(super) fn inverted(&self) -> Option<Vec<f64>> {
        let m = self.rows();
        // By row: the place of its basic slack among the slacks, or its own among the other rows.
        let mut of_slack = vec![usize::MAX; m];
        let mut slacks: Vec<(usize, usize)> = Vec::new();
        for (position, var) in self.working.iter().enumerate() {
            if let Var::Slack(row) = var {
                of_slack[*row as usize] = slacks.len();
                slacks.push((position, *row as usize));
            }
        }
        let rows: Vec<usize> = (0..m).filter(|row| of_slack[*row] == usize::MAX).collect();
        let k = rows.len();
        let mut place = vec![usize::MAX; m];
        rows.iter().enumerate().for_each(|(i, row)| place[*row] = i);
        let mut matrix = vec![0.0; k * k];
        // What columns have in the slacks' rows: the slack, the column, how much.
        let mut beside: Vec<(usize, usize, f64)> = Vec::new();
        let (mut nothing, mut terms) = (vec![0.0; m], Vec::new());
        let mut positions = Vec::with_capacity(k);
        for (position, var) in self.working.iter().enumerate() {
            let Var::Column(j) = var else { continue };
            let i = positions.len();
            if i == k {
                return None;
            }
            positions.push(position);
            self.basis_column(*j, &mut nothing, &mut terms);
            for (row, a) in &terms {
                match of_slack[*row] {
                    usize::MAX => matrix[place[*row] * k + i] = *a,
                    slack => beside.push((slack, i, *a)),
                }
            }
        }
        if positions.len() != k {
            return None;
        }
        let part = invert(matrix, k)?;
        let mut left = vec![0.0; slacks.len() * k];
        for (slack, of, a) in beside {
            subtract(&mut left[slack * k..(slack + 1) * k], a, &part[of * k..(of + 1) * k]);
        }
        let mut inverse = vec![0.0; m * m];
        let mut set = |position: usize, of_rows: &[f64], sign: f64| {
            let to = &mut inverse[position * m..(position + 1) * m];
            rows.iter().zip(of_rows).for_each(|(row, a)| to[*row] = sign * a);
        };
        for (position, of_rows) in positions.iter().zip(part.chunks_exact(k.max(1))) {
            set(*position, of_rows, 1.0);
        }
        for (i, (position, row)) in slacks.iter().enumerate() {
            set(*position, &left[i * k..(i + 1) * k], self.slack(*row));
        }
        for (position, row) in slacks {
            inverse[position * m + row] = self.slack(row);
        }
        Some(inverse)
    }
}

/// The inverse of a square matrix, row by row; nothing, if it is singular.
/// Gauss-Jordan in place, with the largest pivot of each column: a column that is done with would be one of a unit
/// matrix, so what becomes of the unit matrix's own column takes its place.
fn invert(mut matrix: Vec<f64>, k: usize) -> Option<Vec<f64>> {
    // Which row of the unit matrix each column belongs to.
    let mut of: Vec<usize> = (0..k).collect();
    let mut pivot_row = Vec::with_capacity(k);
    for i in 0..k {
        let best =
            (i..k).max_by(|a, b| matrix[a * k + i].abs().total_cmp(&matrix[b * k + i].abs())).unwrap_or(i);
        if best != i {
            let (before, from_best) = matrix.split_at_mut(best * k);
            before[i * k..(i + 1) * k].swap_with_slice(&mut from_best[..k]);
            of.swap(i, best);
        }
        let pivot = matrix[i * k + i];
        if pivot.abs() < 1e-11 {
            return None;
        }
        matrix[i * k + i] = 1.0;
        pivot_row.clear();
        pivot_row.extend(matrix[i * k..(i + 1) * k].iter().map(|a| a / pivot));
        for (r, row) in matrix.chunks_exact_mut(k).enumerate() {
            let factor = std::mem::take(&mut row[i]);
            if r == i {
                row.copy_from_slice(&pivot_row);
            } else if factor != 0.0 {
                subtract(row, factor, &pivot_row);
            }
        }
    }
    let mut inverse = vec![0.0; k * k];
    for (from, to) in matrix.chunks_exact(k.max(1)).zip(inverse.chunks_exact_mut(k.max(1))) {
        of.iter().zip(from).for_each(|(column, a)| to[*column] = *a);
    }
    Some(inverse)
}

/// Subtracts `factor` times a row from another one.
pub(super) fn subtract(from: &mut [f64], factor: f64, row: &[f64]) {
    for (a, b) in from.iter_mut().zip(row) {
        *a -= factor * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
        let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * k + j]).sum();
        (0..k * k).map(|place| at(place / k, place % k)).collect()
    }

    #[test]
    fn a_matrix_times_its_inverse_is_one_and_a_singular_one_has_none() {
        // The first pivot is not in the first row.
        let matrix = vec![0.0, 2.0, 1.0, 4.0, 1.0, 0.0, -1.0, 0.5, 3.0];
        let inverse = invert(matrix.clone(), 3).expect("it has one");
        for (place, a) in times(&matrix, &inverse, 3).iter().enumerate() {
            let one = if place / 3 == place % 3 { 1.0 } else { 0.0 };
            assert!((a - one).abs() < 1e-12, "{place}: {a}");
        }
        assert_eq!(invert(vec![1.0, 2.0, 2.0, 4.0], 2), None);
        assert_eq!(invert(vec![], 0), Some(vec![]));
    }
}
