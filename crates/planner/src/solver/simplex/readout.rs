//! The content of an optimal basis: values, prices, and rows of the tableau, without the perturbation.

use super::super::basis::Var;
use super::Simplex;
use super::leaving::products;

impl Simplex<'_> {
    /// The value of every basic column that is not zero, by column; not
    /// perturbed. To be called at an optimum.
    pub(in crate::solver) fn solution(&self) -> Vec<(u32, f64)> {
        let m = self.rows();
        let residual = self.less_keys((0..m).map(|r| self.rhs(r)).collect());
        let mut key_value: Vec<f64> = self.program.count.iter().map(|n| *n as f64).collect();
        let mut found = Vec::new();
        let columns = || (0..m).filter(|i| matches!(self.working[*i], Var::Column(_)));
        let rows = columns().map(|i| &self.inverse[i * m..(i + 1) * m]);
        let mut values = Vec::new();
        products(rows, &residual, &mut values);
        for (i, value) in columns().zip(values) {
            if let Var::Column(j) = self.working[i] {
                key_value[self.program.block_of[j as usize] as usize] -= value;
                found.push((j, value));
            }
        }
        found.extend(self.key.iter().zip(key_value).map(|(key, value)| (*key, value)));
        found.retain(|(_, value)| value.abs() > 1e-7);
        found.sort_unstable_by_key(|(j, _)| *j);
        found
    }

    /// The key of every block.
    pub(in crate::solver) fn keys(&self) -> &[u32] {
        &self.key
    }

    /// For every basic variable whose value is not an integer, how much of
    /// each (unscaled) row its row of the tableau is made of.
    pub(in crate::solver) fn fractional_rows(&self) -> Vec<Vec<f64>> {
        let m = self.rows();
        let residual = self.less_keys((0..m).map(|r| self.rhs(r)).collect());
        let sum_of = |row: &[f64]| row.iter().zip(&residual).map(|(a, r)| a * r).sum::<f64>();
        let mut values = Vec::new();
        products(self.inverse.chunks_exact(m.max(1)), &residual, &mut values);
        let is_fractional = |x: f64| (x - x.round()).abs() > 1e-5;
        let unscaled = |row: &[f64], own: f64| -> Vec<f64> {
            row.iter().enumerate().map(|(r, a)| a * self.row_scale(r) / own).collect()
        };
        let mut found = Vec::new();
        let mut blocks: Vec<u32> = Vec::new();
        let rows = self.inverse.chunks_exact(m.max(1));
        for ((row, var), value) in rows.zip(&self.working).zip(values) {
            let own = match *var {
                Var::Slack(r) => self.row_scale(r as usize),
                Var::Column(j) => {
                    blocks.push(self.program.block_of[j as usize]);
                    1.0
                }
            };
            if is_fractional(value / own) {
                found.push(unscaled(row, own));
            }
        }
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            let mut sum = vec![0.0; m];
            for i in (0..m).filter(|i| self.is_in(self.working[*i], block)) {
                for (s, a) in sum.iter_mut().zip(&self.inverse[i * m..(i + 1) * m]) {
                    *s -= a;
                }
            }
            if is_fractional(sum_of(&sum)) {
                found.push(unscaled(&sum, 1.0));
            }
        }
        found
    }

    /// What a unit of each row is worth at this basis, by the costs that are
    /// not perturbed; unscaled: costs per unit of the row.
    pub(in crate::solver) fn true_prices(&self) -> Vec<f64> {
        let m = self.rows();
        let cost = |j: u32| self.program.cost[j as usize] as f64;
        let mut prices = vec![0.0; m];
        for i in 0..m {
            if let Var::Column(j) = self.working[i] {
                let c = cost(j) - cost(self.key[self.program.block_of[j as usize] as usize]);
                for (p, a) in prices.iter_mut().zip(&self.inverse[i * m..(i + 1) * m]) {
                    *p += c * a;
                }
            }
        }
        for (r, p) in prices.iter_mut().enumerate() {
            *p *= self.row_scale(r);
        }
        prices
    }
}
