//! Which basic variable leaves: the values of all of them, and how far each is from what it may be.
//!
//! Sums are added up in one order whatever else is done beside them, so that the vertex that is found is always the same.
//! One addition has to wait for the one before, so several sums are added up beside one another.

use super::{FEASIBLE, Simplex};
use crate::solver::basis::Var;

/// A variable that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    /// The one at this position of the working basis.
    Working(usize),
    /// The key of this block.
    Key(u32),
}

impl Simplex<'_> {
    /// Chooses the infeasible basic variable that is farthest from the
    /// feasible side, measured in the space of prices.
    pub(super) fn leaving(&mut self) -> Option<Leaving> {
        let m = self.rows();
        self.look_for_infeasible();
        let of_working = self.infeasible.iter().filter_map(|(_, leaving)| match leaving {
            Leaving::Working(i) => Some(&self.inverse[i * m..(i + 1) * m]),
            Leaving::Key(_) => None,
        });
        let mut norms = norms(of_working).into_iter();
        let mut best: Option<(f64, Leaving)> = None;
        for (value, leaving) in &self.infeasible {
            let norm = match leaving {
                Leaving::Working(_) => norms.next().unwrap_or(0.0),
                Leaving::Key(block) => self.norm_of_key(*block),
            };
            let score = value * value / norm.max(1e-12);
            if best.as_ref().is_none_or(|(s, _)| score > *s) {
                best = Some((score, *leaving));
            }
        }
        best.map(|(_, leaving)| leaving)
    }

    /// The basic variables that are below zero: each working one, and after the first of a block its key. Most are not,
    /// and only of those that are it has to be known how far.
    fn look_for_infeasible(&mut self) {
        let block_of = |var: &Var| match var {
            Var::Column(j) => Some(self.program.block_of[*j as usize]),
            Var::Slack(_) => None,
        };
        // What the working columns of a block leave for its key.
        let left = &mut self.left_for_keys;
        left.resize(self.program.blocks(), 0.0);
        for block in self.working.iter().filter_map(block_of) {
            left[block as usize] = self.program.count[block as usize] as f64;
        }
        for (var, value) in self.working.iter().zip(&self.values) {
            if let Some(block) = block_of(var) {
                left[block as usize] -= value;
            }
        }
        self.infeasible.clear();
        for (i, (var, value)) in self.working.iter().zip(&self.values).enumerate() {
            if *value < -FEASIBLE {
                self.infeasible.push((*value, Leaving::Working(i)));
            }
            if let Some(block) = block_of(var) {
                let of_key = std::mem::take(&mut left[block as usize]);
                if of_key < -FEASIBLE {
                    self.infeasible.push((of_key, Leaving::Key(block)));
                }
            }
        }
    }

    fn norm_of_key(&self, block: u32) -> f64 {
        let m = self.rows();
        let mut sum = vec![0.0; m];
        for k in (0..m).filter(|k| self.is_in(self.working[*k], block)) {
            let row = &self.inverse[k * m..(k + 1) * m];
            sum.iter_mut().zip(row).for_each(|(s, a)| *s += a);
        }
        sum.iter().map(|a| a * a).sum()
    }
}

/// Each of some rows times a vector.
pub(super) fn products<'r>(mut rows: impl Iterator<Item = &'r [f64]>, x: &[f64], to: &mut Vec<f64>) {
    to.clear();
    while let Some(a) = rows.next() {
        let [b, c, d] = [(); 3].map(|()| rows.next());
        let others = [b, c, d].map(|row| row.unwrap_or(a));
        let mut sums = [-0.0; 4];
        for ((((a, b), c), d), x) in a.iter().zip(others[0]).zip(others[1]).zip(others[2]).zip(x) {
            sums[0] += a * x;
            sums[1] += b * x;
            sums[2] += c * x;
            sums[3] += d * x;
        }
        let rows = 1 + [b, c, d].iter().flatten().count();
        to.extend(&sums[..rows]);
    }
}

/// The square of the length of each of some rows.
fn norms<'r>(mut rows: impl Iterator<Item = &'r [f64]>) -> Vec<f64> {
    let mut norms = Vec::new();
    while let Some(a) = rows.next() {
        let [b, c, d] = [(); 3].map(|()| rows.next().unwrap_or(a));
        let mut sums = [-0.0; 4];
        for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
            sums[0] += a * a;
            sums[1] += b * b;
            sums[2] += c * c;
            sums[3] += d * d;
        }
        norms.extend(sums);
    }
    norms
}
