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
