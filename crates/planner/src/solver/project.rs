//! An instance at one level: only the parts that matter there.
//!
//! Later levels' costs are forgotten, columns that another one makes unnecessary are dropped, and classes
//! that have become equal are merged: at the first levels a few dozen blocks remain of a thousand classes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::basis::Basis;
use super::instance::{Choice, Instance, RowIndex, Sense};
use super::memory::{Kept, Memory};
use super::program::{Draft, Program};

/// A level's program, and how its columns come back to the instance.
pub(super) struct Projection {
    pub(super) program: Program,
    /// For each class, its block and the column of the instance that each
    /// column of the block stands for.
    classes: Vec<(usize, Arc<[usize]>)>,
    /// The numbers of its blocks in what is kept of the level.
    numbers: Vec<usize>,
    /// The first block of an extra; they follow in order.
    first_extra: usize,
}

impl Projection {
    /// The program of level `fixed.len()`, with the earlier levels held at
    /// the values `fixed`; and what is kept of the level.
    pub(super) fn new<'m>(
        instance: &Instance,
        fixed: &[i64],
        memory: &'m mut Memory,
    ) -> (Self, &'m mut Kept) {
        let level = fixed.len();
        let first_level_row = instance.rows.len();
        let mut rows: Vec<(Sense, i64)> = instance.rows.iter().map(|r| (r.sense, r.rhs)).collect();
        rows.extend(fixed.iter().map(|value| (Sense::AtMost, *value)));
        let (program, row_map) = Program::new(&rows);
        let senses: Vec<Sense> = rows.iter().map(|(sense, _)| *sense).collect();
        let kept = memory.of_level(level, &senses, instance.classes.len());
        let draft = |coefficients: &[(RowIndex, i32)], costs: &[i64]| {
            let mut terms: Vec<(RowIndex, i64)> =
                coefficients.iter().filter(|(_, a)| *a != 0).map(|(r, a)| (*r, i64::from(*a))).collect();
            terms.sort_unstable();
            for k in 0..level {
                let cost = Instance::cost(costs, k);
                if cost != 0 {
                    terms.push((first_level_row + k, cost));
                }
            }
            // What costs nothing at any level is preferred among equals.
            let tag = u64::from(costs.iter().any(|c| *c != 0));
            Draft { cost: Instance::cost(costs, level), terms, tag }
        };
        let mut blocks: Vec<(usize, i64)> = Vec::new();
        let mut known: HashMap<usize, usize> = HashMap::new();
        let mut classes = Vec::new();
        for class in &instance.classes {
            let make = || {
                let mut drafts: Vec<(Draft, usize)> = (class.columns.iter().enumerate())
                    .map(|(j, c)| (draft(&c.coefficients, &c.costs), j))
                    .collect();
                drafts.sort_unstable();
                drafts.dedup_by(|a, b| a.0.cost == b.0.cost && a.0.terms == b.0.terms);
                drop_dominated(&mut drafts, &rows);
                drafts.into_iter().unzip()
            };
            let (number, original) = kept.class(&class.columns, make, |drafts| tagged(drafts, level));
            let block = *known.entry(number).or_insert_with(|| {
                blocks.push((number, 0));
                blocks.len() - 1
            });
            blocks[block].1 += i64::from(class.count);
            classes.push((block, original));
        }
        let first_extra = blocks.len();
        let (numbers, mut counts): (Vec<usize>, Vec<i64>) = blocks.into_iter().unzip();
        let extras = instance.extras.iter().map(|extra| {
            let mut used = draft(&extra.coefficients, &extra.costs);
            used.tag = content(&(&used.terms, used.cost)) | 1;
            used
        });
        let make = |kept: &Kept, extras: &[Draft], mut program: Program| {
            for number in &numbers {
                kept.block(*number).iter().for_each(|draft| program.push_column(draft, &row_map));
                program.end_block(0);
            }
            for used in extras {
                program.push_column(&Draft { cost: 0, terms: Vec::new(), tag: 0 }, &row_map);
                program.push_column(used, &row_map);
                program.end_block(0);
            }
            program.extra = (0..program.blocks()).map(|b| b >= first_extra).collect();
            program.finish();
            program
        };
        let mut program = kept.program(&numbers, extras.collect(), program, make);
        counts.extend(instance.extras.iter().map(|extra| extra.upper));
        program.count = counts;
        (Self { program, classes, numbers, first_extra }, kept)
    }

    /// The block of an extra.
    pub(super) fn block_of_extra(&self, extra: usize) -> usize {
        self.first_extra + extra
    }

    /// The basis that was optimal for the level when it was last looked at.
    pub(super) fn start(&self, kept: &Kept) -> Option<Basis> {
        kept.start(&self.program, &self.numbers)
    }

    /// Keeps the basis that is optimal now.
    pub(super) fn keep(&self, kept: &mut Kept, basis: &Basis) {
        kept.keep(&self.program, &self.numbers, basis);
    }

    /// Spreads the units of each block over the classes that it stands for,
    /// first come first served in the order of classes and columns.
    pub(super) fn expand(&self, instance: &Instance, solution: &[(u32, i64)]) -> Choice {
        let mut left: Vec<Vec<(usize, i64)>> = vec![Vec::new(); self.program.blocks()];
        for (j, n) in solution.iter().rev() {
            let block = self.program.block_of[*j as usize] as usize;
            left[block].push((*j as usize - self.program.block(block).start, *n));
        }
        let classes = (instance.classes.iter().zip(&self.classes))
            .map(|(class, (block, original))| {
                let mut open = i64::from(class.count);
                let mut chosen: Vec<(usize, u32)> = Vec::new();
                while open > 0 {
                    let Some((column, n)) = left[*block].last_mut() else { break };
                    let taken = open.min(*n);
                    chosen
                        .push((original[*column], u32::try_from(taken).expect("at most the class's count")));
                    open -= taken;
                    *n -= taken;
                    if *n == 0 {
                        left[*block].pop();
                    }
                }
                chosen.sort_unstable();
                chosen
            })
            .collect();
        let extras = (0..instance.extras.len())
            .map(|e| {
                let used = self.program.block(self.first_extra + e).start + 1;
                solution.iter().find(|(j, _)| *j as usize == used).map_or(0, |(_, n)| *n)
            })
            .collect();
        (classes, extras)
    }
}

fn content(value: &impl Hash) -> u64 {
    // `DefaultHasher::new` has fixed keys: the same bytes give the same hash.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A block's columns with their names: each follows from all of the block's columns.
fn tagged(mut drafts: Vec<Draft>, level: usize) -> Vec<Draft> {
    let name = content(&drafts);
    for draft in &mut drafts {
        if draft.tag != 0 || level == 0 && !draft.terms.is_empty() {
            draft.tag = content(&(name, &draft.terms, draft.cost)) | 1;
        }
    }
    drafts
}

/// Drops every column that another one replaces in any solution: at least as
/// good for each row, and no dearer.
pub(super) fn drop_dominated(drafts: &mut Vec<(Draft, usize)>, rows: &[(Sense, i64)]) {
    let mut dropped = vec![false; drafts.len()];
    for a in 0..drafts.len() {
        dropped[a] =
            (0..drafts.len()).any(|b| a != b && !dropped[b] && dominates(&drafts[b].0, &drafts[a].0, rows));
    }
    let mut position = 0;
    drafts.retain(|_| {
        position += 1;
        !dropped[position - 1]
    });
}

pub(super) fn dominates(b: &Draft, a: &Draft, rows: &[(Sense, i64)]) -> bool {
    if b.cost > a.cost {
        return false;
    }
    // Both lists ascend by row: walk them together.
    let (mut i, mut k) = (0, 0);
    while i < a.terms.len() || k < b.terms.len() {
        let (ra, rb) =
            (a.terms.get(i).map_or(usize::MAX, |t| t.0), b.terms.get(k).map_or(usize::MAX, |t| t.0));
        let row = ra.min(rb);
        let (mut in_a, mut in_b) = (0, 0);
        if ra == row {
            in_a = a.terms[i].1;
            i += 1;
        }
        if rb == row {
            in_b = b.terms[k].1;
            k += 1;
        }
        let as_good = match rows[row].0 {
            Sense::AtLeast => in_b >= in_a,
            Sense::AtMost => in_b <= in_a,
            Sense::Equal => in_b == in_a,
        };
        if !as_good {
            return false;
        }
    }
    true
}
