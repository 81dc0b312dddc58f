//! A basis with all that follows from it, so that nothing is inverted twice: a search goes back to most bases that it
//! leaves, and a row that is added with its slack basic changes next to nothing.

use super::Simplex;
use super::invert::subtract;
use crate::solver::basis::{Basis, Cut, Var};
use crate::solver::program::{Program, relaxation};

/// What `refactor` computes of a basis; or the basis alone.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Factored {
    basis: Basis,
    computed: Option<Computed>,
}

#[derive(Clone, Debug)]
struct Computed {
    working_in: Vec<u16>,
    inverse: Vec<f64>,
    residual: Vec<f64>,
    prices: Vec<f64>,
}

impl Factored {
    /// How many numbers its inverse has.
    pub(in crate::solver) fn numbers(&self) -> usize {
        self.computed.as_ref().map_or(0, |computed| computed.inverse.len())
    }

    /// The same in a program that has only some of the columns, as [`Basis::among`]: what is computed depends on basic
    /// columns only.
    pub(in crate::solver) fn among(&self, columns: &[u32]) -> Option<Self> {
        Some(Self { basis: self.basis.among(columns)?, computed: self.computed.clone() })
    }

    pub(in crate::solver) fn into_basis(self) -> Basis {
        self.basis
    }

    pub(in crate::solver) const fn basis(&self) -> &Basis {
        &self.basis
    }
}

impl<'a> Simplex<'a> {
    pub(in crate::solver) fn basis(&self) -> Basis {
        Basis { key: self.key.clone(), working: self.working.clone() }
    }

    /// The basis of an optimum, with what is computed of it.
    pub(in crate::solver) fn factored(&self) -> Factored {
        self.factored_up_to(usize::MAX)
    }

    /// The same with the basis alone, if its inverse has more than so many numbers.
    pub(in crate::solver) fn factored_up_to(&self, most: usize) -> Factored {
        let is_kept = self.is_fresh && self.inverse.len() <= most;
        let computed = is_kept.then(|| Computed {
            working_in: self.working_in.clone(),
            inverse: self.inverse.clone(),
            residual: self.residual.clone(),
            prices: self.prices.clone(),
        });
        Factored { basis: self.basis(), computed }
    }

    /// Goes on where a simplex over the same program ended, without cuts.
    pub(in crate::solver) fn from_factored(program: &'a Program, factored: &Factored) -> Self {
        let Factored { basis, computed } = factored.clone();
        let mut simplex = Self::unfactored(program, basis);
        match computed {
            Some(computed) => {
                simplex.count_refactor();
                simplex.resume(computed);
            }
            None => simplex.refactor(),
        }
        simplex
    }

    /// Goes back to a basis with so many of the cuts, of which the basis is. Nothing is computed: that is for whoever
    /// branches there.
    pub(in crate::solver) fn go_back(&mut self, factored: Factored, cuts: usize) {
        let Factored { basis: Basis { key, working }, computed } = factored;
        self.cuts.truncate(cuts);
        (self.key, self.working) = (key, working);
        self.is_fresh = false;
        if let Some(computed) = computed {
            self.resume(computed);
        }
    }

    fn resume(&mut self, computed: Computed) {
        let Computed { working_in, inverse, residual, prices } = computed;
        (self.working_in, self.inverse) = (working_in, inverse);
        (self.residual, self.prices) = (residual, prices);
        self.is_fresh = true;
    }

    /// Adds a cut; its slack becomes basic, so that the basis stays dual feasible.
    pub(in crate::solver) fn branch(&mut self, cut: Cut) {
        self.cuts.push(cut);
        self.working.push(Var::Slack((self.rows() - 1) as u32));
        if self.is_fresh {
            self.count_refactor();
            self.extend();
        } else {
            self.refactor();
        }
    }

    /// What there is for all rows but the last, a cut whose slack is basic, goes over to all rows: the part of the basis
    /// that has to be inverted has neither that row nor that slack.
    fn extend(&mut self) {
        let m = self.rows();
        let (row, before) = (m - 1, m - 1);
        self.inverse.resize(m * m, 0.0);
        for i in (0..before).rev() {
            self.inverse.copy_within(i * before..(i + 1) * before, i * m);
            self.inverse[i * m + before] = 0.0;
        }
        let mut left = vec![0.0; m];
        left[row] = 1.0;
        let cut = &self.cuts[self.cuts.len() - 1];
        let counts = |j: u32| f64::from(u8::from(cut.counts(j)));
        for (i, var) in self.working.iter().enumerate() {
            let Var::Column(j) = var else { continue };
            let a = counts(*j) - counts(self.key[self.program.block_of[*j as usize] as usize]);
            if a != 0.0 {
                subtract(&mut left, a, &self.inverse[i * m..(i + 1) * m]);
            }
        }
        let slack = self.slack(row);
        self.inverse[row * m..].iter_mut().zip(left).for_each(|(to, a)| *to = slack * a);
        let residual = self.less_keys_of(cut, self.rhs(row) + relaxation(row, self.at_least(row)));
        self.residual.push(residual);
        self.prices.push(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::basis::End;
    use crate::solver::instance::Sense;
    use crate::solver::program::Draft;
    use crate::solver::work;
    use crate::testing::generate::Numbers;

    /// Three blocks of four columns over four rows of random numbers.
    fn program(numbers: &mut Numbers) -> Program {
        let mut number = |low: i64, high: i64| low + numbers.below((high - low + 1) as u64) as i64;
        let rows = [
            (Sense::AtLeast, number(3, 9)),
            (Sense::AtMost, number(9, 20)),
            (Sense::AtLeast, number(2, 6)),
            (Sense::AtMost, number(9, 20)),
        ];
        let (mut program, map) = Program::new(&rows);
        for count in 2..5 {
            for _ in 0..4 {
                let terms =
                    (0..rows.len()).map(|row| (row, number(-1, 5))).filter(|(_, a)| *a != 0).collect();
                program.push_column(&Draft { cost: number(0, 5), terms, tag: 1 }, &map);
            }
            program.end_block(count);
        }
        program.extra = vec![false; program.blocks()];
        program.finish();
        program
    }

    /// To the bit: a search that goes on from numbers that are almost the same may end elsewhere. And it counts as much
    /// work, so that who stops after so much stops at the same place.
    #[test]
    fn a_cut_added_to_what_is_known_is_what_computing_it_anew_gives() {
        let mut numbers = Numbers::new(3);
        let mut compared = 0;
        for _ in 0..300 {
            let program = program(&mut numbers);
            let mut known = Simplex::new(&program);
            if known.optimise() != End::Optimal {
                continue;
            }
            let parent = known.factored();
            let nothing_known = known.factored_up_to(0);
            assert!(parent.numbers() > 0 && nothing_known.numbers() == 0);
            let mut anew = Simplex::new(&program);
            anew.go_back(nothing_known, 0);
            // Two cuts, so that the second one is added to what came of the first.
            for _ in 0..2 {
                let columns = (0..program.columns() as u32).filter(|_| numbers.below(2) == 1).collect();
                let cut = Cut::new(columns, numbers.below(2) == 1, 1 + numbers.below(3) as i64);
                let before = work::done();
                known.branch(cut.clone());
                let of_known = work::done() - before;
                anew.is_fresh = false;
                anew.branch(cut);
                assert_eq!(work::done() - before, 2 * of_known);
                assert_eq!(known.inverse, anew.inverse);
                assert_eq!(known.residual, anew.residual);
                assert_eq!(known.prices, anew.prices);
                assert_eq!(known.working_in, anew.working_in);
                compared += 1;
            }
            let end = known.optimise();
            assert_eq!(end, anew.optimise());
            assert_eq!((&known.key, &known.working), (&anew.key, &anew.working));
            // And back to where both branched.
            known.go_back(parent.clone(), 0);
            let again = Simplex::from_factored(&program, &parent);
            assert_eq!((&known.inverse, &known.residual), (&again.inverse, &again.residual));
            assert_eq!(again.inverse, Simplex::with_basis(&program, parent.into_basis()).inverse);
        }
        assert!(compared > 200, "only {compared} compared: too few to say anything");
    }
}
