//! One level of an instance as the simplex sees it: flat columns in blocks,
//! inequality rows, and integer data beside its scaled floating-point image.

use super::instance::{RowIndex, Sense};
use crate::divisor::common_divisor;

/// `sum of coefficients x columns <= rhs`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoundedRow {
    /// The columns with a coefficient, ascending.
    pub(super) terms: Vec<(u32, i64)>,
    pub(super) rhs: i64,
}

/// A row that the simplex sees: an inequality.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramRow {
    pub(super) at_least: bool,
    pub(super) rhs: i64,
    /// A power of two that brings the row's coefficients near 1.
    pub(super) scale: f64,
    /// The largest of its coefficients, without its sign.
    pub(super) largest: u64,
}

impl ProgramRow {
    /// The multiplier of this sign would let the bound count on a row that
    /// does not hold that way.
    pub(super) const fn allows_price(&self, price: i128) -> bool {
        if self.at_least { price >= 0 } else { price <= 0 }
    }
}

/// Columns in blocks: `count` units of a block are spread over its columns.
/// An extra is a block of two columns, one of them empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) rows: Vec<ProgramRow>,
    /// The first column of each block, and the end of the last.
    pub(super) block_start: Vec<u32>,
    pub(super) count: Vec<i64>,
    pub(super) block_of: Vec<u32>,
    /// Whether a block is an extra.
    pub(super) extra: Vec<bool>,
    /// The first term of each column, and the end of the last.
    pub(super) term_start: Vec<u32>,
    pub(super) term_row: Vec<u32>,
    pub(super) term: Vec<i64>,
    /// `term`, scaled.
    pub(super) term_scaled: Vec<f64>,
    pub(super) cost: Vec<i64>,
    /// The cost that the simplex sees: scaled, and perturbed so that no two
    /// solutions are equally good. Proofs use `cost`.
    pub(super) cost_perturbed: Vec<f64>,
    /// A power of two that brings costs near 1.
    pub(super) cost_scale: f64,
    /// Every value of the objective is a multiple of this.
    pub(super) step: i64,
}

/// How far costs and right-hand sides are moved so that the best vertex, and
/// its prices, are unique. Large against rounding errors (1e-14), small
/// against the distance between different vertices (the coefficients are
/// small integers).
const PERTURBATION: f64 = 1.0 / 16384.0;

/// A column on its way into a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Draft {
    pub(super) cost: i64,
    pub(super) terms: Vec<(RowIndex, i64)>,
    /// Names the column in any instance where it occurs: the perturbation of
    /// its cost. 0 for what costs nothing.
    pub(super) tag: u64,
}

impl Program {
    /// An empty program over these rows; an equality becomes two rows.
    /// `row_map[i]` tells which rows stand for row `i`.
    pub(super) fn new(rows: &[(Sense, i64)]) -> (Self, Vec<Vec<u32>>) {
        let mut program = Self { block_start: vec![0], term_start: vec![0], ..Self::default() };
        let mut map = Vec::new();
        for (sense, rhs) in rows {
            let first = program.rows.len() as u32;
            let row = |at_least| ProgramRow { at_least, rhs: *rhs, scale: 1.0, largest: 1 };
            match sense {
                Sense::AtLeast => program.rows.push(row(true)),
                Sense::AtMost => program.rows.push(row(false)),
                Sense::Equal => program.rows.extend([row(true), row(false)]),
            }
            map.push((first..program.rows.len() as u32).collect());
        }
        (program, map)
    }

    pub(super) fn push_column(&mut self, draft: &Draft, row_map: &[Vec<u32>]) {
        for (row, a) in &draft.terms {
            for r in &row_map[*row] {
                self.term_row.push(*r);
                self.term.push(*a);
            }
        }
        self.term_start.push(self.term_row.len() as u32);
        self.cost.push(draft.cost);
        // Between 0.5 and 1.5 of the perturbation, by the column's name.
        let spread = (mix(draft.tag) >> 11) as f64 / (1u64 << 53) as f64;
        self.cost_perturbed.push(if draft.tag == 0 { 0.0 } else { PERTURBATION * (0.5 + spread) });
        self.block_of.push(self.count.len() as u32);
    }

    /// Ends the block whose columns were pushed since the last one.
    pub(super) fn end_block(&mut self, count: i64) {
        self.count.push(count);
        self.block_start.push(self.cost.len() as u32);
    }

    /// Computes what depends on all columns. To be called once, at the end.
    pub(super) fn finish(&mut self) {
        let mut largest = vec![1u64; self.rows.len()];
        for (row, a) in self.term_row.iter().zip(&self.term) {
            let slot = &mut largest[*row as usize];
            *slot = (*slot).max(a.unsigned_abs());
        }
        for (row, largest) in self.rows.iter_mut().zip(largest) {
            row.scale = scale_to_small(largest);
            row.largest = largest;
        }
        self.term_scaled = (self.term_row.iter().zip(&self.term))
            .map(|(row, a)| *a as f64 * self.rows[*row as usize].scale)
            .collect();
        self.step = self.cost.iter().fold(0, |step, c| common_divisor(step, c.abs())).max(1);
        self.cost_scale = scale_to_small(self.cost.iter().map(|c| c.unsigned_abs()).max().unwrap_or(1));
        for (perturbed, cost) in self.cost_perturbed.iter_mut().zip(&self.cost) {
            *perturbed += *cost as f64 * self.cost_scale;
        }
    }

    /// The same with more rows, each `sum of terms <= rhs`.
    pub(super) fn with_rows(&self, rows: &[RoundedRow]) -> Self {
        // By row, what is left of its terms: they ascend by column.
        let mut more: Vec<(u32, &[(u32, i64)])> = Vec::with_capacity(rows.len());
        let mut program = Self { rows: self.rows.clone(), term_start: vec![0], ..Self::default() };
        for row in rows {
            let index = program.rows.len() as u32;
            let largest = row.terms.iter().map(|(_, a)| a.unsigned_abs()).max().unwrap_or(1);
            program.rows.push(ProgramRow {
                at_least: false,
                rhs: row.rhs,
                scale: scale_to_small(largest),
                largest,
            });
            more.push((index, &row.terms));
        }
        let terms = self.term.len() + rows.iter().map(|row| row.terms.len()).sum::<usize>();
        program.term_row.reserve(terms);
        program.term.reserve(terms);
        program.term_scaled.reserve(terms);
        program.term_start.reserve(self.columns());
        for j in 0..self.columns() {
            let terms = self.terms(j);
            program.term_row.extend_from_slice(&self.term_row[terms.clone()]);
            program.term.extend_from_slice(&self.term[terms.clone()]);
            program.term_scaled.extend_from_slice(&self.term_scaled[terms]);
            for (row, left) in &mut more {
                let Some(((column, a), rest)) = left.split_first() else { continue };
                if *column as usize == j {
                    *left = rest;
                    program.term_row.push(*row);
                    program.term.push(*a);
                    program.term_scaled.push(*a as f64 * program.rows[*row as usize].scale);
                }
            }
            program.term_start.push(program.term_row.len() as u32);
        }
        Self {
            block_start: self.block_start.clone(),
            count: self.count.clone(),
            block_of: self.block_of.clone(),
            extra: self.extra.clone(),
            cost: self.cost.clone(),
            cost_perturbed: self.cost_perturbed.clone(),
            cost_scale: self.cost_scale,
            step: self.step,
            ..program
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.cost.len()
    }

    pub(super) fn blocks(&self) -> usize {
        self.count.len()
    }

    pub(super) fn block(&self, block: usize) -> std::ops::Range<usize> {
        self.block_start[block] as usize..self.block_start[block + 1] as usize
    }

    pub(super) fn terms(&self, column: usize) -> std::ops::Range<usize> {
        self.term_start[column] as usize..self.term_start[column + 1] as usize
    }
}

/// The largest power of two, at most 1, that brings a number to 8 or less.
fn scale_to_small(largest: u64) -> f64 {
    let mut scale = 1.0;
    while largest as f64 * scale > 8.0 {
        scale *= 0.5;
    }
    scale
}

/// Spreads a number over all 64 bits (the finaliser of splitmix64).
pub(super) const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How far the right-hand side of the `i`-th row is moved, always so that the
/// row becomes easier to meet: what was feasible stays so.
pub(super) fn relaxation(i: usize, at_least: bool) -> f64 {
    let spread = (mix(i as u64) >> 11) as f64 / (1u64 << 53) as f64;
    let size = PERTURBATION * (0.5 + spread) / 16.0;
    if at_least { -size } else { size }
}
