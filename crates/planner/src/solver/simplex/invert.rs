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
        let mut is_slack = vec![false; m];
        for var in &self.working {
            if let Var::Slack(row) = var {
                is_slack[*row as usize] = true;
            }
        }
        // (its position, its terms)
        let columns: Vec<(usize, Vec<f64>)> = (self.working.iter().enumerate())
            .filter(|(_, var)| matches!(var, Var::Column(_)))
            .map(|(i, var)| (i, self.basis_column(*var)))
            .collect();
        let rows: Vec<usize> = (0..m).filter(|r| !is_slack[*r]).collect();
        let k = rows.len();
        if columns.len() != k {
            return None;
        }
        let mut matrix = vec![0.0; k * k];
        for (i, (_, column)) in columns.iter().enumerate() {
            for (place, row) in rows.iter().enumerate() {
                matrix[place * k + i] = column[*row];
            }
        }
        let part = invert(matrix, k)?;
        let mut inverse = vec![0.0; m * m];
        for ((position, _), of_column) in columns.iter().zip(part.chunks_exact(k.max(1))) {
            for (row, a) in rows.iter().zip(of_column) {
                inverse[position * m + row] = *a;
            }
        }
        for (position, var) in self.working.iter().enumerate() {
            let Var::Slack(row) = var else { continue };
            let row = *row as usize;
            let mut left = vec![0.0; m];
            left[row] = 1.0;
            for (of, column) in columns.iter().filter(|(_, column)| column[row] != 0.0) {
                subtract(&mut left, column[row], &inverse[of * m..(of + 1) * m]);
            }
            let slack = self.slack(row);
            inverse[position * m..(position + 1) * m]
                .iter_mut()
                .zip(left)
                .for_each(|(to, a)| *to = slack * a);
        }
        Some(inverse)
    }
}

/// The inverse of a square matrix, row by row; nothing, if it is singular.
/// Gauss-Jordan on [A | 1], with the largest pivot of each column.
fn invert(mut matrix: Vec<f64>, k: usize) -> Option<Vec<f64>> {
    let mut inverse = vec![0.0; k * k];
    for i in 0..k {
        inverse[i * k + i] = 1.0;
    }
    let (mut pivot_row, mut pivot_inverse) = (Vec::with_capacity(k), Vec::with_capacity(k));
    for i in 0..k {
        let best =
            (i..k).max_by(|a, b| matrix[a * k + i].abs().total_cmp(&matrix[b * k + i].abs())).unwrap_or(i);
        if best != i {
            for j in 0..k {
                matrix.swap(i * k + j, best * k + j);
                inverse.swap(i * k + j, best * k + j);
            }
        }
        let pivot = matrix[i * k + i];
        if pivot.abs() < 1e-11 {
            return None;
        }
        // Columns before this one are done with: only what is right of it, and
        // of the inverse, is used again.
        pivot_row.clear();
        pivot_row.extend(matrix[i * k + i..(i + 1) * k].iter().map(|a| a / pivot));
        matrix[i * k + i..(i + 1) * k].copy_from_slice(&pivot_row);
        pivot_inverse.clear();
        pivot_inverse.extend(inverse[i * k..(i + 1) * k].iter().map(|a| a / pivot));
        inverse[i * k..(i + 1) * k].copy_from_slice(&pivot_inverse);
        for r in (0..k).filter(|r| *r != i) {
            let factor = matrix[r * k + i];
            if factor != 0.0 {
                subtract(&mut matrix[r * k + i..(r + 1) * k], factor, &pivot_row);
                subtract(&mut inverse[r * k..(r + 1) * k], factor, &pivot_inverse);
            }
        }
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
