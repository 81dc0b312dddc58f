//! One copy of a part, as far as it matters at the present levels: columns that another one replaces are
//! dropped, classes that have become equal are merged, and parts that have become equal are one kind.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::Part;
use crate::solver::instance::{Column, Instance, Row, RowIndex, Sense};
use crate::solver::program::Draft;
use crate::solver::project::{dominates, drop_dominated};

/// Copies that can be used alike, whichever part they are of.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) shape: Shape,
    pub(super) copies: u32,
    pub(super) members: Vec<Member>,
}

/// A part of a kind.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) part: usize,
    /// For each block of the shape, the classes of the part (by position) that
    /// it stands for, how many GPUs of one copy are in each, and the column of
    /// the instance that each of the block's columns is.
    pub(super) blocks: Members,
    /// By class of the part, the column of its block that does no less than each of the class's own.
    pub(super) stands_for: Vec<Rc<Vec<usize>>>,
}

/// One copy. Rows of terms: first the copy's own, then those of the instance,
/// then the levels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) rows: Vec<(Sense, i64)>,
    pub(super) blocks: Vec<Block>,
    pub(super) extras: Vec<CopyExtra>,
}

/// GPUs that are interchangeable.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) count: i64,
    pub(super) drafts: Rc<Vec<Draft>>,
    /// The column that does for nobody less than the class's first one.
    pub(super) idle: usize,
}

/// Which column is idle is of no account: parts that start from different
/// layouts can become the same.
impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        (self.count, &self.drafts) == (other.count, &other.drafts)
    }
}

impl Eq for Block {}

impl std::hash::Hash for Block {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.count, &self.drafts).hash(state);
    }
}

/// An extra of one copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyExtra {
    pub(super) upper: i64,
    pub(super) draft: Draft,
}

/// How the rows of an instance are numbered in a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Own(usize),
    Shared(RowIndex),
    Level(usize),
}

impl Shape {
    /// What a row of a term is, in an instance of so many rows.
    pub(super) fn place(&self, row: usize, rows: usize) -> Place {
        match row.checked_sub(self.rows.len()) {
            None => Place::Own(row),
            Some(shared) if shared < rows => Place::Shared(shared),
            Some(beyond) => Place::Level(beyond - rows),
        }
    }
}

/// The parts in kinds, with the first `levels` levels looked at.
pub(super) fn kinds(instance: &Instance, parts: &[Part], levels: usize) -> Vec<Kind> {
    let mut reduced = Known::new();
    let mut found: HashMap<Shape, usize> = HashMap::new();
    let mut kinds: Vec<Kind> = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        let (shape, blocks, stands_for) = shape(instance, part, levels, &mut reduced);
        let member = Member { part: position, blocks, stands_for };
        match found.get(&shape) {
            Some(kind) => {
                kinds[*kind].copies += part.copies;
                kinds[*kind].members.push(member);
            }
            None => {
                found.insert(shape.clone(), kinds.len());
                kinds.push(Kind { shape, copies: part.copies, members: vec![member] });
            }
        }
    }
    kinds
}

/// The columns of a class that are worth choosing, and where they were; and for each column of the class, which of them
/// does for nobody less.
pub(super) type Reduced = (Rc<Vec<Draft>>, Rc<Vec<usize>>, Rc<Vec<usize>>);
/// What was reduced before: of these rows, these columns.
type Known = HashMap<(Vec<(Sense, i64)>, Vec<Draft>), Reduced>;
/// The classes that stand behind each block.
pub(super) type Members = Vec<Behind>;
/// Of one block: class, GPUs of one copy, columns.
type Behind = Vec<(usize, i64, Rc<Vec<usize>>)>;

fn shape(
    instance: &Instance,
    part: &Part,
    levels: usize,
    known: &mut Known,
) -> (Shape, Members, Vec<Rc<Vec<usize>>>) {
    let copies = i64::from(part.copies.max(1));
    let own: HashMap<RowIndex, usize> = part.rows.iter().enumerate().map(|(i, r)| (*r, i)).collect();
    let draft = |coefficients: &[(RowIndex, i32)], costs: &[i64]| {
        draft(
            coefficients,
            costs,
            levels,
            |row| own.get(&row).copied().unwrap_or(part.rows.len() + row),
            part.rows.len() + instance.rows.len(),
        )
    };
    let row = |r: &RowIndex| (instance.rows[*r].sense, instance.rows[*r].rhs.div_euclid(copies));
    let rows: Vec<(Sense, i64)> = part.rows.iter().map(row).collect();
    let mut senses = rows.clone();
    senses.extend(instance.rows.iter().map(|Row { sense, rhs }| (*sense, *rhs)));
    senses.extend((0..levels).map(|_| (Sense::AtMost, 0)));
    let mut blocks: BTreeMap<Rc<Vec<Draft>>, (usize, Behind)> = BTreeMap::new();
    let mut all_stand_for = Vec::with_capacity(part.classes.len());
    for (position, class) in part.classes.iter().enumerate() {
        let class = &instance.classes[*class];
        let all: Vec<Draft> =
            class.columns.iter().map(|c: &Column| draft(&c.coefficients, &c.costs)).collect();
        let (drafts, originals, stands_for) = {
            let entry = known.entry((rows.iter().map(|(sense, _)| (*sense, 0)).collect(), all));
            entry.or_insert_with_key(|(_, all)| reduce(all, &senses)).clone()
        };
        let idle = stands_for.first().copied().unwrap_or(0);
        all_stand_for.push(stands_for);
        let (_, members) = blocks.entry(drafts).or_insert_with(|| (idle, vec![]));
        members.push((position, i64::from(class.count) / copies, originals));
    }
    let extra = |e: &usize| {
        let extra = &instance.extras[*e];
        CopyExtra { upper: extra.upper, draft: draft(&extra.coefficients, &extra.costs) }
    };
    let extras = part.extras.iter().map(extra).collect();
    let (blocks, members): (Vec<_>, Vec<_>) = blocks
        .into_iter()
        .map(|(drafts, (idle, members))| {
            (Block { count: members.iter().map(|m| m.1).sum(), drafts, idle }, members)
        })
        .unzip();
    (Shape { rows, blocks, extras }, members, all_stand_for)
}

/// A column or extra in the numbering that `place` gives, its costs as terms
/// of the rows after `first_level`.
pub(super) fn draft(
    coefficients: &[(RowIndex, i32)],
    costs: &[i64],
    levels: usize,
    place: impl Fn(RowIndex) -> usize,
    first_level: usize,
) -> Draft {
    let mut terms: Vec<(RowIndex, i64)> =
        coefficients.iter().filter(|(_, a)| *a != 0).map(|(r, a)| (place(*r), i64::from(*a))).collect();
    let costs = costs.iter().take(levels).enumerate().filter(|(_, cost)| **cost != 0);
    terms.extend(costs.map(|(level, cost)| (first_level + level, *cost)));
    terms.sort_unstable();
    Draft { cost: 0, terms, tag: 0 }
}

/// Drops what another column replaces.
pub(super) fn reduce(all: &[Draft], senses: &[(Sense, i64)]) -> Reduced {
    let mut drafts: Vec<(Draft, usize)> = all.iter().cloned().zip(0..).collect();
    drafts.sort_unstable();
    drafts.dedup_by(|a, b| a.0 == b.0);
    drop_dominated(&mut drafts, senses);
    let instead = |one: &Draft| drafts.iter().position(|(kept, _)| dominates(kept, one, senses)).unwrap_or(0);
    let stands_for = all.iter().map(instead).collect();
    let (drafts, originals): (Vec<_>, Vec<_>) = drafts.into_iter().unzip();
    (Rc::new(drafts), Rc::new(originals), Rc::new(stands_for))
}

/// Terms as an instance has them: coefficients and costs.
pub(super) fn terms(
    draft: &Draft,
    levels: usize,
    place: impl Fn(usize) -> Place,
) -> (Vec<(RowIndex, i32)>, Vec<i64>) {
    let mut costs = vec![0; levels];
    let mut coefficients = Vec::new();
    for (row, a) in &draft.terms {
        match place(*row) {
            Place::Shared(row) => coefficients.push((row, i32::try_from(*a).unwrap_or(i32::MAX))),
            Place::Level(level) => costs[level] = *a,
            Place::Own(_) => {}
        }
    }
    (coefficients, costs)
}
