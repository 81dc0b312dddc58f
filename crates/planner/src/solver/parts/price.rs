//! The best pattern of one copy at given prices, and a proof that none is better.

use super::shape::{Kind, Place, Shape};
use crate::solver::basis::End;
use crate::solver::bound::Bound;
use crate::solver::program::{Draft, Program, ProgramRow};
use crate::solver::simplex::Simplex;
use crate::solver::solution::Solution;
use crate::solver::tree::{Branching, Tree, Wanted};

/// Fractional bits of fixed-point prices.
pub(super) const BITS: u32 = 16;

/// What a unit of each shared row, and of each level, is worth: fixed-point.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    pub(super) rows: Vec<i64>,
    /// What a unit of each level costs; the level that is minimised: 1.
    pub(super) levels: Vec<i64>,
}

/// The price of a row of a program in whole units, nothing if it has the wrong sign.
pub(super) fn in_whole_units(price: f64, row: &ProgramRow) -> i64 {
    let price = (price * f64::from(1u32 << BITS)).round() as i64;
    if row.allows_price(i128::from(price)) { price } else { 0 }
}

impl Prices {
    /// What a column or extra costs after what the shared rows pay.
    pub(super) fn cost(&self, draft: &Draft, place: impl Fn(usize) -> Place) -> i64 {
        let term = |(row, a): &(usize, i64)| match place(*row) {
            Place::Own(_) => 0,
            Place::Shared(row) => -(self.rows[row].saturating_mul(*a)),
            Place::Level(level) => self.levels[level].saturating_mul(*a),
        };
        draft.terms.iter().map(term).fold(0, i64::saturating_add)
    }
}

/// What one copy does: how many GPUs of each block take which column, and the
/// value of each extra.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pattern {
    pub(super) blocks: Vec<Vec<(usize, i64)>>,
    pub(super) extras: Vec<i64>,
}

impl Pattern {
    /// Nothing is done.
    pub(super) fn idle(shape: &Shape) -> Self {
        let blocks = shape.blocks.iter().map(|block| vec![(block.idle, block.count)]).collect();
        Self { blocks, extras: vec![0; shape.extras.len()] }
    }

    /// What it gives to the shared rows, and what it costs at the levels.
    pub(super) fn sums(&self, shape: &Shape, rows: usize, levels: usize) -> (Vec<(usize, i64)>, Vec<i64>) {
        let (mut shared, mut costs) = (vec![0_i64; rows], vec![0_i64; levels]);
        self.add_to(shape, &mut shared, &mut costs);
        (shared.into_iter().enumerate().filter(|(_, a)| *a != 0).collect(), costs)
    }

    /// Adds what it gives to the shared rows, and what it costs at the levels.
    pub(super) fn add_to(&self, shape: &Shape, shared: &mut [i64], costs: &mut [i64]) {
        let rows = shared.len();
        let mut add = |draft: &Draft, n: i64| {
            for (row, a) in draft.terms.iter().filter(|_| n != 0) {
                match shape.place(*row, rows) {
                    Place::Own(_) => {}
                    Place::Shared(row) => shared[row] += a * n,
                    Place::Level(level) => costs[level] += a * n,
                }
            }
        };
        for (block, chosen) in shape.blocks.iter().zip(&self.blocks) {
            chosen.iter().for_each(|(j, n)| add(&block.drafts[*j], *n));
        }
        shape.extras.iter().zip(&self.extras).for_each(|(extra, n)| add(&extra.draft, *n));
    }
}

/// What pricing found.
pub(super) struct Priced {
    /// Patterns, each better than the one before; all cost less than was asked.
    pub(super) patterns: Vec<Pattern>,
    /// No pattern costs less.
    pub(super) bound: i64,
}

/// Looks for patterns that cost less than `below`. Whatever is found within the
/// effort, `bound` holds.
pub(super) fn price(kind: &Kind, rows: usize, prices: &Prices, below: i64, slack: i64, nodes: u64) -> Priced {
    let shape = &kind.shape;
    let program = program(shape, rows, prices);
    let mut simplex = Simplex::new(&program);
    let (bound, start) = match simplex.optimise() {
        End::Optimal => (Bound::at(&program, &[], &simplex.true_prices()), Some(simplex.factored())),
        End::Infeasible(_) | End::Lost => (Bound::at(&program, &[], &vec![0.0; program.rows.len()]), None),
    };
    let relaxed = bound.value(&program);
    let target = below.saturating_sub(slack.max(1));
    if relaxed > target {
        return Priced { patterns: vec![], bound: relaxed };
    }
    let mut tree = Tree::new(&program, Some(target), nodes, Branching::Nearest, Wanted::Least(slack));
    tree.run(start.as_ref());
    let bound = match (tree.proof, tree.target) {
        (true, Some(target)) => relaxed.max(target.saturating_add(1)),
        _ => relaxed,
    };
    let patterns =
        tree.before.iter().chain(&tree.found).map(|found| pattern(shape, &program, found)).collect();
    Priced { patterns, bound }
}

/// One copy as a program, with what the shared rows pay taken off the costs.
fn program(shape: &Shape, rows: usize, prices: &Prices) -> Program {
    let (mut program, map) = Program::new(&shape.rows);
    let mut tag = 0;
    let mut priced = |draft: &Draft| {
        tag += 1;
        let cost = prices.cost(draft, |row| shape.place(row, rows));
        let terms = draft.terms.iter().filter(|(row, _)| *row < shape.rows.len()).copied().collect();
        Draft { cost, terms, tag }
    };
    for block in &shape.blocks {
        for draft in block.drafts.iter() {
            program.push_column(&priced(draft), &map);
        }
        program.end_block(block.count);
    }
    let first_extra = program.blocks();
    for extra in &shape.extras {
        program.push_column(&Draft { cost: 0, terms: vec![], tag: 0 }, &map);
        program.push_column(&priced(&extra.draft), &map);
        program.end_block(extra.upper);
    }
    program.extra = (0..program.blocks()).map(|b| b >= first_extra).collect();
    program.finish();
    program
}

fn pattern(shape: &Shape, program: &Program, found: &Solution) -> Pattern {
    let mut pattern =
        Pattern { blocks: vec![vec![]; shape.blocks.len()], extras: vec![0; shape.extras.len()] };
    for (column, n) in found {
        let block = program.block_of[*column as usize] as usize;
        let j = *column as usize - program.block(block).start;
        match block.checked_sub(shape.blocks.len()) {
            None => pattern.blocks[block].push((j, *n)),
            Some(extra) if j == 1 => pattern.extras[extra] = *n,
            Some(_) => {}
        }
    }
    pattern
}
