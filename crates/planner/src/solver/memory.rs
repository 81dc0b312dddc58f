//! What is kept from one instance to the next one of the same kind: the columns that matter of every class,
//! and the optimal basis of every level's relaxation.
//!
//! The result is the same with and without it, byte by byte, where every level is proved. What is kept of a class
//! follows from its columns alone; the optimal basis of a perturbed relaxation is unique, so it does not matter from
//! which basis the search for it starts; and the last choice only spares the search at levels of which no more than the
//! value is used. Where the effort would be used up without it, it may prove a level that could not be proved else.

use std::collections::HashMap;
use std::sync::Arc;

use super::basis::{Basis, Var};
use super::carried::Carried;
use super::instance::{Choice, Column, Instance, Same, Sense};
use super::program::{Draft, Program};

/// What is kept between instances. Whoever solves one instance after another
/// keeps it, and hands in unchanged classes as the same [`Arc`]s: they are
/// recognised by that.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// How many rows and levels instances have.
    shape: (usize, usize),
    levels: Vec<Kept>,
    carried: Carried,
}

impl Memory {
    /// Forgets everything where instances have another number of rows or levels.
    pub(super) fn begin(&mut self, instance: &Instance) {
        let shape = (instance.rows.len(), instance.levels);
        if self.shape != shape {
            *self = Self { shape, ..Self::default() };
        }
    }

    /// Whether a class was part of an instance before, and so keeps the rules.
    pub(super) fn knows(&self, columns: &Arc<[Column]>) -> bool {
        let same = Same(Arc::clone(columns));
        self.levels.first().is_some_and(|kept| kept.classes.contains_key(&same))
    }

    /// The last choice, as one of this instance.
    pub(super) fn choice(&self, instance: &Instance) -> Option<Choice> {
        self.carried.choice(instance)
    }

    /// Keeps the choice that came of an instance.
    pub(super) fn keep_choice(&mut self, instance: &Instance, classes: &[Vec<(usize, u32)>]) {
        self.carried.keep(instance, classes);
    }

    /// What is kept of a level, if its rows are of the same kinds; and room
    /// for so many classes.
    pub(super) fn of_level(&mut self, level: usize, senses: &[Sense], classes: usize) -> &mut Kept {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Kept::default);
        }
        let kept = &mut self.levels[level];
        if kept.senses != senses || kept.classes.len() > 4 * classes + 1_024 {
            *kept = Kept { senses: senses.to_vec(), ..Kept::default() };
        }
        kept
    }
}

/// What is kept of one level.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Of its rows, those of earlier levels included.
    senses: Vec<Sense>,
    /// The block of each class, and the columns that those of the block stand for.
    classes: HashMap<Same, (usize, Arc<[usize]>)>,
    /// The blocks that were met, by number.
    blocks: Vec<Arc<[Draft]>>,
    /// Their numbers. Columns have no tags here: a tag follows from the block.
    numbers: HashMap<Arc<[Draft]>, usize>,
    basis: Option<KeptBasis>,
    /// The last program: the numbers of its blocks, and its extras.
    program: Option<(Vec<usize>, Vec<Draft>, Program)>,
}

/// A basis in terms of blocks by number, and of extras by position.
#[derive(Clone, Debug)]
struct KeptBasis {
    extras: usize,
    /// By block, the position of its key; and whether it has working columns.
    keys: HashMap<usize, u32>,
    /// By extra, the position of its key.
    extra_keys: Vec<u32>,
    working: Vec<KeptVar>,
}

#[derive(Clone, Copy, Debug)]
enum KeptVar {
    Slack(u32),
    Column { block: usize, position: u32 },
    Extra { extra: usize, position: u32 },
}

impl Kept {
    /// The block of a class, and the columns that those of the block stand for.
    pub(super) fn class(
        &mut self,
        columns: &Arc<[Column]>,
        make: impl FnOnce() -> (Vec<Draft>, Vec<usize>),
        tagged: impl FnOnce(Vec<Draft>) -> Vec<Draft>,
    ) -> (usize, Arc<[usize]>) {
        let same = Same(Arc::clone(columns));
        if let Some(known) = self.classes.get(&same) {
            return known.clone();
        }
        let (drafts, original) = make();
        let block = match self.numbers.get(drafts.as_slice()) {
            Some(block) => *block,
            None => {
                let block = self.blocks.len();
                self.numbers.insert(drafts.clone().into(), block);
                self.blocks.push(tagged(drafts).into());
                block
            }
        };
        let known = (block, original.into());
        self.classes.insert(same, known.clone());
        known
    }

    /// The columns of a block.
    pub(super) fn block(&self, number: usize) -> &Arc<[Draft]> {
        &self.blocks[number]
    }

    /// A program of these blocks and extras: the last one with other counts, if
    /// it is of the same. `rows` begins a program, which `make` fills.
    pub(super) fn program(
        &mut self,
        numbers: &[usize],
        extras: Vec<Draft>,
        rows: Program,
        make: impl FnOnce(&Self, &[Draft], Program) -> Program,
    ) -> Program {
        if let Some((of, with, last)) = &self.program
            && of == numbers
            && *with == extras
            && last.rows.len() == rows.rows.len()
        {
            let mut program = last.clone();
            program.rows.iter_mut().zip(&rows.rows).for_each(|(row, now)| row.rhs = now.rhs);
            return program;
        }
        let program = make(self, &extras, rows);
        self.program = Some((numbers.to_vec(), extras, program.clone()));
        program
    }

    /// Keeps an optimal basis of a program that has these blocks and then extras.
    pub(super) fn keep(&mut self, program: &Program, numbers: &[usize], basis: &Basis) {
        let position = |j: u32| {
            let block = program.block_of[j as usize] as usize;
            (block, j - program.block_start[block])
        };
        let working = basis.working.iter().map(|var| match var {
            Var::Slack(row) => KeptVar::Slack(*row),
            Var::Column(j) => {
                let (block, position) = position(*j);
                match numbers.get(block) {
                    Some(number) => KeptVar::Column { block: *number, position },
                    None => KeptVar::Extra { extra: block - numbers.len(), position },
                }
            }
        });
        let (keys, extra_keys) = basis.key.split_at(numbers.len());
        self.basis = Some(KeptBasis {
            extras: extra_keys.len(),
            keys: numbers.iter().copied().zip(keys.iter().map(|j| position(*j).1)).collect(),
            extra_keys: extra_keys.iter().map(|j| position(*j).1).collect(),
            working: working.collect(),
        });
    }

    /// The kept basis in a program that has these blocks and then extras: the
    /// keys of new blocks are still to be chosen. Nothing, if a working column is gone.
    pub(super) fn start(&self, program: &Program, numbers: &[usize]) -> Option<Basis> {
        let kept = self.basis.as_ref()?;
        if kept.extras + numbers.len() != program.blocks() {
            return None;
        }
        let place: HashMap<usize, u32> =
            numbers.iter().zip(&program.block_start).map(|(number, first)| (*number, *first)).collect();
        let of_extra = |extra: usize| program.block_start[numbers.len() + extra];
        let keys = numbers.iter().zip(&program.block_start);
        let keys = keys.map(|(number, first)| first + kept.keys.get(number).copied().unwrap_or(0));
        let extra_keys = kept.extra_keys.iter().enumerate().map(|(extra, key)| of_extra(extra) + key);
        let working = kept.working.iter().map(|var| {
            Some(match var {
                KeptVar::Slack(row) => Var::Slack(*row),
                KeptVar::Column { block, position } => Var::Column(place.get(block)? + position),
                KeptVar::Extra { extra, position } => Var::Column(of_extra(*extra) + position),
            })
        });
        Some(Basis { key: keys.chain(extra_keys).collect(), working: working.collect::<Option<_>>()? })
    }
}
