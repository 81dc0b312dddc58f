//! What columns cost at the prices of a basis, and which of them can enter it.

use super::{Event, PIVOT, Simplex};
use crate::solver::basis::Var;

impl Simplex<'_> {
    /// How the reduced costs of all columns change along a row of the inverse.
    pub(super) fn price_columns(&mut self, row: &[f64]) {
        let program = self.program;
        let mut alpha = std::mem::take(&mut self.alpha);
        alpha.clear();
        alpha.extend((0..program.columns()).map(|j| {
            let terms = program.terms(j);
            let terms = program.term_row[terms.clone()].iter().zip(&program.term_scaled[terms]);
            terms.fold(0.0, |sum, (r, a)| sum + row[*r as usize] * a)
        }));
        for (cut, along) in self.cuts.iter().zip(&row[program.rows.len()..]) {
            cut.columns.iter().for_each(|j| alpha[*j as usize] += along);
        }
        self.alpha = alpha;
    }

    /// The reduced costs of all columns.
    pub(super) fn reduce_all(&mut self) {
        let mut reduced = std::mem::take(&mut self.reduced);
        reduced.clear();
        reduced.extend((0..self.program.columns()).map(|j| self.reduced_by_rows(j)));
        self.reduced = reduced;
        self.reduce_by_cuts();
    }

    /// The reduced costs of the keys, and of the columns that become cheaper than their block's key along the row that
    /// columns were priced by. Nobody asks for the others, which are most: a key that a step passes is
    /// replaced by one of these, and so is the next.
    pub(super) fn reduce_what_can_enter(&mut self) {
        let program = self.program;
        let mut reduced = std::mem::take(&mut self.reduced);
        self.can_enter.clear();
        reduced.resize(program.columns(), 0.0);
        for (b, key) in self.key.iter().enumerate() {
            let of_key = self.alpha[*key as usize];
            let mut can_enter = false;
            for j in program.block(b) {
                if self.alpha[j] - of_key < -PIVOT {
                    reduced[j] = self.reduced_by_rows(j);
                    can_enter = true;
                }
            }
            if can_enter {
                self.can_enter.push(b as u32);
                reduced[*key as usize] = self.reduced_by_rows(*key as usize);
            }
        }
        self.reduced = reduced;
        self.reduce_by_cuts();
    }

    fn reduced_by_rows(&self, j: usize) -> f64 {
        let terms = self.program.terms(j);
        let terms = self.program.term_row[terms.clone()].iter().zip(&self.program.term_scaled[terms]);
        terms.fold(self.program.cost_perturbed[j], |cost, (r, a)| cost - self.prices[*r as usize] * a)
    }

    fn reduce_by_cuts(&mut self) {
        for (cut, price) in self.cuts.iter().zip(&self.prices[self.program.rows.len()..]) {
            cut.columns.iter().for_each(|j| self.reduced[*j as usize] -= price);
        }
    }

    /// Where along the step a column of the block becomes cheaper than the key.
    pub(super) fn next_event(&self, block: usize, key: u32) -> Option<Event> {
        let (base_alpha, base) = (self.alpha[key as usize], self.reduced[key as usize]);
        let mut best: Option<Event> = None;
        for j in self.program.block(block) {
            let alpha = self.alpha[j] - base_alpha;
            if alpha < -PIVOT {
                let at = (self.reduced[j] - base) / -alpha;
                if best.is_none_or(|b| at < b.at || at == b.at && alpha < b.alpha - base_alpha) {
                    best = Some(Event { at: at.max(0.0), alpha: self.alpha[j], var: Var::Column(j as u32) });
                }
            }
        }
        best
    }
}
