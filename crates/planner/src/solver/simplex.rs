//! The linear relaxation: a dual simplex with generalised upper bounds.
//!
//! In every block one basic column is its *key* and takes what the block's
//! other basic columns leave; the basis that has to be inverted is then only
//! as large as the number of rows, whatever the number of blocks. Prices that
//! are zero make the cheapest column of every block its key and every slack
//! basic, which is a dual feasible start: there is no first phase.
//!
//! The step length passes over blocks that merely change their key (a long
//! step), so that the number of pivots depends on the rows and hardly on the
//! blocks.
//!
//! Costs and right-hand sides are perturbed (see [`Program`]): the optimal
//! basis is unique, hence the same from whatever basis the search started.
//! Floating point guides the search; nothing is proved here.

mod factored;
mod invert;
mod leaving;
mod pricing;
mod readout;

pub(super) use self::factored::Factored;
use self::invert::subtract;
use self::leaving::{Leaving, products};
use super::basis::{Basis, Cut, End, Var};
use super::program::{Program, relaxation};
use super::work::{self, Allowance};

const PIVOT: f64 = 1e-7;
const FEASIBLE: f64 = 1e-9;
const REFACTOR_EVERY: usize = 40;

/// The simplex over one program and the cuts added to it.
pub(super) struct Simplex<'a> {
    program: &'a Program,
    pub(super) cuts: Vec<Cut>,
    key: Vec<u32>,
    working: Vec<Var>,
    /// How many working columns each block has.
    working_in: Vec<u16>,
    /// The inverse of the working basis, row by row.
    inverse: Vec<f64>,
    /// What the keys leave of the right-hand sides, perturbed.
    residual: Vec<f64>,
    values: Vec<f64>,
    prices: Vec<f64>,
    pub(super) pivots: u64,
    /// Whether the basis is in its one form; see `canonicalise`.
    canonical: bool,
    /// Whether everything is as `refactor` would compute it.
    is_fresh: bool,
    // Kept between pivots to save allocations.
    alpha: Vec<f64>,
    reduced: Vec<f64>,
    can_enter: Vec<u32>,
    events: Vec<Event>,
    infeasible: Vec<(f64, Leaving)>,
    left_for_keys: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: f64,
    alpha: f64,
    var: Var,
}

impl<'a> Simplex<'a> {
    /// Starts where all slacks are basic and every block's key is its
    /// cheapest column.
    pub(super) fn new(program: &'a Program) -> Self {
        let key = (0..program.blocks())
            .map(|b| {
                let cheapest = program
                    .block(b)
                    .min_by(|i, j| program.cost_perturbed[*i].total_cmp(&program.cost_perturbed[*j]));
                cheapest.expect("a block has columns") as u32
            })
            .collect();
        let working = (0..program.rows.len()).map(|r| Var::Slack(r as u32)).collect();
        Self::with_basis(program, Basis { key, working })
    }

    /// Starts from a basis that was optimal for a program with other counts,
    /// right-hand sides, or blocks: it need not be feasible, but for the dual.
    /// Nothing, if it is not even that.
    pub(super) fn from_another(program: &'a Program, basis: Basis) -> Option<Self> {
        let mut simplex = Self::with_basis(program, basis);
        simplex.reduce_all();
        // A block without working columns takes part in the basis by its key
        // alone, so that it can have another one.
        for b in 0..program.blocks() {
            let reduced = |j: usize| simplex.reduced[j];
            let key = simplex.key[b] as usize;
            let least = program.block(b).min_by(|i, j| reduced(*i).total_cmp(&reduced(*j)))?;
            if simplex.working_in[b] == 0 {
                simplex.key[b] = least as u32;
            } else if reduced(least) < reduced(key) - FEASIBLE {
                return None;
            }
        }
        let is_priced = |r: usize| -simplex.prices[r] * simplex.slack(r) >= -FEASIBLE;
        if !(0..simplex.rows()).all(is_priced) {
            return None;
        }
        simplex.refactor();
        Some(simplex)
    }

    pub(super) fn with_basis(program: &'a Program, basis: Basis) -> Self {
        let mut simplex = Self::unfactored(program, basis);
        simplex.refactor();
        simplex
    }

    /// Nothing is computed yet.
    fn unfactored(program: &'a Program, basis: Basis) -> Self {
        let Basis { key, working } = basis;
        Self {
            program,
            cuts: Vec::new(),
            key,
            working,
            working_in: Vec::new(),
            inverse: Vec::new(),
            residual: Vec::new(),
            values: Vec::new(),
            prices: Vec::new(),
            pivots: 0,
            canonical: false,
            is_fresh: false,
            alpha: Vec::new(),
            reduced: Vec::new(),
            can_enter: Vec::new(),
            events: Vec::new(),
            infeasible: Vec::new(),
            left_for_keys: Vec::new(),
        }
    }

    fn rows(&self) -> usize {
        self.program.rows.len() + self.cuts.len()
    }

    fn at_least(&self, row: usize) -> bool {
        match row.checked_sub(self.program.rows.len()) {
            None => self.program.rows[row].at_least,
            Some(cut) => self.cuts[cut].at_least,
        }
    }

    fn slack(&self, row: usize) -> f64 {
        if self.at_least(row) { -1.0 } else { 1.0 }
    }

    /// The right-hand side of a row, scaled, not perturbed.
    fn rhs(&self, row: usize) -> f64 {
        match row.checked_sub(self.program.rows.len()) {
            None => self.program.rows[row].rhs as f64 * self.program.rows[row].scale,
            Some(cut) => self.cuts[cut].rhs as f64,
        }
    }

    /// Adds `factor` times a column to a vector over the rows.
    fn add_column(&self, column: u32, factor: f64, to: &mut [f64]) {
        for t in self.program.terms(column as usize) {
            to[self.program.term_row[t] as usize] += factor * self.program.term_scaled[t];
        }
        for (c, cut) in self.cuts.iter().enumerate() {
            if cut.counts(column) {
                to[self.program.rows.len() + c] += factor;
            }
        }
    }

    /// What the keys leave of right-hand sides, with all units of each block in its key.
    fn less_keys(&self, mut residual: Vec<f64>) -> Vec<f64> {
        for (key, count) in self.key.iter().zip(&self.program.count) {
            for t in self.program.terms(*key as usize) {
                residual[self.program.term_row[t] as usize] -= *count as f64 * self.program.term_scaled[t];
            }
        }
        for (cut, left) in self.cuts.iter().zip(&mut residual[self.program.rows.len()..]) {
            *left = self.less_keys_of(cut, *left);
        }
        residual
    }

    /// The same of a cut: blocks in their order, as it is with every row.
    fn less_keys_of(&self, cut: &Cut, mut left: f64) -> f64 {
        for j in &cut.columns {
            let block = self.program.block_of[*j as usize] as usize;
            if self.key[block] == *j {
                left -= self.program.count[block] as f64;
            }
        }
        left
    }

    /// What the working basis has in place of a column: the column less its block's key, by row, ascending. `nothing`:
    /// zeros, one for each row.
    fn basis_column(&self, column: u32, nothing: &mut [f64], terms: &mut Vec<(usize, f64)>) {
        let key = self.key[self.program.block_of[column as usize] as usize];
        self.add_column(column, 1.0, nothing);
        self.add_column(key, -1.0, nothing);
        terms.clear();
        let mut take = |row: usize| {
            let a = std::mem::take(&mut nothing[row]);
            if a != 0.0 {
                terms.push((row, a));
            }
        };
        for j in [column, key] {
            self.program.terms(j as usize).for_each(|t| take(self.program.term_row[t] as usize));
        }
        (self.program.rows.len()..self.rows()).for_each(take);
        terms.sort_unstable_by_key(|(row, _)| *row);
    }

    fn perturbed_cost(&self, var: Var) -> f64 {
        match var {
            Var::Slack(_) => 0.0,
            Var::Column(j) => {
                let key = self.key[self.program.block_of[j as usize] as usize];
                self.program.cost_perturbed[j as usize] - self.program.cost_perturbed[key as usize]
            }
        }
    }

    /// Computes everything that depends on the basis anew. Deterministic in
    /// the order of keys and working variables.
    fn refactor(&mut self) {
        let m = self.rows();
        self.count_refactor();
        self.working_in.clear();
        self.working_in.resize(self.program.blocks(), 0);
        for var in &self.working {
            if let Var::Column(j) = var {
                self.working_in[self.program.block_of[*j as usize] as usize] += 1;
            }
        }
        let Some(inverse) = self.inverted() else {
            // A singular basis: fall back to the start, which is not.
            self.reset();
            return;
        };
        self.inverse = inverse;
        self.residual =
            self.less_keys((0..m).map(|r| self.rhs(r) + relaxation(r, self.at_least(r))).collect());
        self.reprice();
        self.is_fresh = true;
    }

    /// Counts what computing everything anew takes, whether it is done or known: whoever stops after so much work stops at the
    /// same place.
    fn count_refactor(&self) {
        let m = self.rows();
        // The basic columns over the rows without a basic slack are inverted, and the slacks' rows follow.
        let columns = self.working.iter().filter(|var| matches!(var, Var::Column(_))).count();
        work::count(m * m + columns * columns * (columns + m) + self.program.term.len());
    }

    fn reset(&mut self) {
        let fresh = Self::new(self.program);
        self.key = fresh.key;
        self.working = (0..self.rows()).map(|r| Var::Slack(r as u32)).collect();
        self.refactor();
    }

    fn reprice(&mut self) {
        let m = self.rows();
        self.prices.clear();
        self.prices.resize(m, 0.0);
        for i in 0..m {
            let cost = self.perturbed_cost(self.working[i]);
            if cost != 0.0 {
                let row = &self.inverse[i * m..(i + 1) * m];
                self.prices.iter_mut().zip(row).for_each(|(price, a)| *price += cost * a);
            }
        }
    }

    /// Optimises. The basis has to be dual feasible, as every one is that
    /// this simplex, or a change of right-hand sides and counts, leaves.
    pub(super) fn optimise(&mut self) -> End {
        self.optimise_within(Allowance::of(u64::MAX))
    }

    /// The same, until the work is used up: it is lost then, with prices that prove something all the same.
    pub(super) fn optimise_within(&mut self, work: Allowance) -> End {
        let limit = self.pivots + 2_000 + 50 * self.rows() as u64;
        let mut since_refactor = 0;
        loop {
            let m = self.rows();
            products(self.inverse.chunks_exact(m.max(1)), &self.residual, &mut self.values);
            let Some(leaving) = self.leaving() else {
                if self.canonical {
                    return End::Optimal;
                }
                if self.canonicalise() {
                    return End::Optimal;
                }
                since_refactor = 0;
                continue;
            };
            self.canonical = false;
            self.is_fresh = false;
            self.pivots += 1;
            // The inverse is gone over four times, and every column is priced.
            work::count(4 * m * m + self.program.term.len() + self.program.columns());
            if self.pivots > limit || work.is_used_up() {
                return End::Lost;
            }
            let i = match leaving {
                Leaving::Working(i) => i,
                Leaving::Key(block) => self.swap_key(block),
            };
            if let Some(end) = self.pivot(i) {
                if since_refactor == 0 {
                    return end;
                }
                // Ask again with fresh numbers before a claim.
                self.refactor();
                since_refactor = 0;
                continue;
            }
            since_refactor += 1;
            if since_refactor == REFACTOR_EVERY {
                self.refactor();
                since_refactor = 1;
            }
        }
    }

    fn is_in(&self, var: Var, block: u32) -> bool {
        matches!(var, Var::Column(j) if self.program.block_of[j as usize] == block)
    }

    /// Makes a working column of the block its key, and the key a working
    /// column. Returns the position of the latter.
    fn swap_key(&mut self, block: u32) -> usize {
        let m = self.rows();
        let members: Vec<usize> = (0..m).filter(|i| self.is_in(self.working[*i], block)).collect();
        // The largest takes over: it is far from leaving in turn.
        let i = *members
            .iter()
            .max_by(|a, b| self.values[**a].total_cmp(&self.values[**b]))
            .expect("a key without working columns has the block's count, which is not negative");
        let Var::Column(new) = self.working[i] else { unreachable!("members are columns") };
        let old = std::mem::replace(&mut self.key[block as usize], new);
        self.working[i] = Var::Column(old);
        for r in 0..m {
            let sum: f64 = members.iter().map(|k| self.inverse[k * m + r]).sum();
            self.inverse[i * m + r] = -sum;
        }
        let count = self.program.count[block as usize] as f64;
        let mut residual = std::mem::take(&mut self.residual);
        self.add_column(old, count, &mut residual);
        self.add_column(new, -count, &mut residual);
        self.residual = residual;
        self.values[i] = (0..m).map(|r| self.inverse[i * m + r] * self.residual[r]).sum();
        i
    }

    /// Lets the working variable `i` go, and the variable enter at which the
    /// dual objective stops growing.
    fn pivot(&mut self, i: usize) -> Option<End> {
        let m = self.rows();
        let row: Vec<f64> = self.inverse[i * m..(i + 1) * m].to_vec();
        self.price_columns(&row);
        self.reduce_what_can_enter();
        let leaving_block = match self.working[i] {
            Var::Column(j) => Some(self.program.block_of[j as usize]),
            Var::Slack(_) => None,
        };
        let mut slope = -self.values[i];
        // (block, its new key) for the blocks that were passed.
        let mut flips: Vec<(u32, u32)> = Vec::new();
        self.events.clear();
        for i in 0..self.can_enter.len() {
            let block = self.can_enter[i] as usize;
            let event = self.next_event(block, self.key[block]);
            self.events.extend(event);
        }
        let mut basic = vec![false; m];
        for var in &self.working {
            if let Var::Slack(r) = var {
                basic[*r as usize] = true;
            }
        }
        for r in 0..m {
            let alpha = row[r] * self.slack(r);
            if !basic[r] && alpha < -PIVOT {
                let reduced = (-self.prices[r] * self.slack(r)).max(0.0);
                self.events.push(Event { at: reduced / -alpha, alpha, var: Var::Slack(r as u32) });
            }
        }
        let entering = loop {
            let first = self.events.iter().enumerate().min_by(|(_, a), (_, b)| {
                a.at.total_cmp(&b.at).then(a.alpha.total_cmp(&b.alpha)).then(a.var.cmp(&b.var))
            });
            let Some((position, event)) = first.map(|(p, e)| (p, *e)) else {
                // The prices can grow for ever: the rows contradict one another.
                let ray = (0..m).map(|r| -row[r] * self.row_scale(r)).collect();
                return Some(End::Infeasible(ray));
            };
            let Var::Column(j) = event.var else { break event };
            let block = self.program.block_of[j as usize];
            let others = self.working_in[block as usize] - u16::from(leaving_block == Some(block));
            if others > 0 {
                break event;
            }
            let key = flips.iter().rev().find(|(b, _)| *b == block).map_or(self.key[block as usize], |f| f.1);
            let after =
                slope + self.program.count[block as usize] as f64 * (event.alpha - self.alpha[key as usize]);
            if after <= 0.0 {
                break event;
            }
            slope = after;
            flips.push((block, j));
            match self.next_event(block as usize, j) {
                Some(next) => self.events[position] = next,
                None => {
                    self.events.swap_remove(position);
                }
            }
        };
        let mut residual = std::mem::take(&mut self.residual);
        for (block, new) in flips {
            let count = self.program.count[block as usize] as f64;
            let old = std::mem::replace(&mut self.key[block as usize], new);
            self.add_column(old, count, &mut residual);
            self.add_column(new, -count, &mut residual);
        }
        self.residual = residual;
        self.replace(i, entering.var);
        None
    }

    fn row_scale(&self, row: usize) -> f64 {
        self.program.rows.get(row).map_or(1.0, |r| r.scale)
    }

    /// Replaces a working variable and updates the inverse.
    fn replace(&mut self, i: usize, entering: Var) {
        let m = self.rows();
        if let Var::Column(j) = self.working[i] {
            self.working_in[self.program.block_of[j as usize] as usize] -= 1;
        }
        self.working[i] = entering;
        if let Var::Column(j) = entering {
            self.working_in[self.program.block_of[j as usize] as usize] += 1;
        }
        let mut terms = Vec::new();
        match entering {
            Var::Slack(row) => terms.push((row as usize, self.slack(row as usize))),
            Var::Column(j) => self.basis_column(j, &mut vec![0.0; m], &mut terms),
        }
        let weight = |row: &[f64]| terms.iter().map(|(r, a)| row[*r] * a).sum();
        let weights: Vec<f64> = self.inverse.chunks_exact(m).map(weight).collect();
        let pivot = weights[i];
        let row: Vec<f64> = self.inverse[i * m..(i + 1) * m].iter().map(|a| a / pivot).collect();
        self.inverse[i * m..(i + 1) * m].copy_from_slice(&row);
        for (k, weight) in weights.into_iter().enumerate() {
            if k != i && weight != 0.0 {
                subtract(&mut self.inverse[k * m..(k + 1) * m], weight, &row);
            }
        }
        self.reprice();
    }

    /// Brings the basis into the one form that depends on nothing but the set
    /// of basic variables: the first basic column of a block is its key. Says whether it was, with everything as it is
    /// computed anew.
    fn canonicalise(&mut self) -> bool {
        let mut was = self.is_fresh && self.working.is_sorted();
        for var in &mut self.working {
            if let Var::Column(j) = var {
                let key = &mut self.key[self.program.block_of[*j as usize] as usize];
                if *j < *key {
                    std::mem::swap(j, key);
                    was = false;
                }
            }
        }
        self.canonical = true;
        if was {
            self.count_refactor();
        } else {
            self.working.sort_unstable();
            self.refactor();
        }
        was
    }
}
