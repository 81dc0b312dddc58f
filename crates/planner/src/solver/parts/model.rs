//! An instance with parts, at its first levels: what is shared, and what one
//! copy of each kind can do.

use std::collections::BTreeMap;

use super::price::Pattern;
use super::shape::{Block, CopyExtra, Kind, Place, Shape, draft, kinds, reduce, terms};
use super::{Part, alike, are_many};
use crate::divisor::common_divisor;
use crate::solver::instance::{Extra, Instance, RowIndex, Sense};
use crate::solver::program::Draft;
use crate::solver::work::Allowance;

/// What is solved.
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    pub(super) instance: &'a Instance,
    pub(super) levels: usize,
    /// So many of them are worth searching for long ([`Asked::worth`](super::Asked)).
    pub(super) worth: usize,
    pub(super) kinds: Vec<Kind>,
    /// What is of no part: classes and extras, without rows of their own.
    pub(super) rest: Shape,
    /// The extras of `rest`, as an instance has them.
    pub(super) rest_extras: Vec<Extra>,
    /// The rows that something of `rest` makes up for without a cost, whatever copies do.
    pub(super) made_up: Vec<bool>,
    /// The classes behind the blocks of `rest`, and their columns.
    pub(super) rest_classes: Vec<(usize, std::rc::Rc<Vec<usize>>)>,
    /// The rows that are of no part.
    pub(super) shared: Vec<RowIndex>,
    /// Whether a row may be given more than it asks for: it is trimmed at the end.
    pub(super) coverable: Vec<bool>,
    /// The first of the rows that each is taken as one with, where relaxations have no row for each ([`alike`]).
    pub(super) alike: Option<Vec<RowIndex>>,
    /// Whether there are [very many parts](are_many).
    pub(super) are_many: bool,
    /// What every value of a level is a multiple of.
    pub(super) steps: Vec<i64>,
}

/// Some copies of a kind, and what they do together.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) kind: usize,
    pub(super) copies: i64,
    pub(super) does: Pattern,
}

impl Piece {
    /// Half of it, if both halves are the same.
    pub(super) fn evenly(&self) -> Option<Self> {
        let half = |n: i64| (n % 2 == 0).then_some(n / 2);
        let column = |(j, n): &(usize, i64)| Some((*j, half(*n)?));
        let blocks = self.does.blocks.iter().map(|block| block.iter().map(column).collect());
        let blocks = blocks.collect::<Option<_>>()?;
        let extras = self.does.extras.iter().map(|n| half(*n)).collect::<Option<_>>()?;
        Some(Self { kind: self.kind, copies: half(self.copies)?, does: Pattern { blocks, extras } })
    }
}

impl<'a> Model<'a> {
    pub(super) fn new(instance: &'a Instance, parts: &[Part], levels: usize) -> Self {
        let kinds = kinds(instance, parts, levels);
        let rows = instance.rows.len();
        let (mut class_of_part, mut extra_of_part, mut own) =
            (vec![false; instance.classes.len()], vec![false; instance.extras.len()], vec![false; rows]);
        for part in parts {
            part.classes.iter().for_each(|c| class_of_part[*c] = true);
            part.extras.iter().for_each(|e| extra_of_part[*e] = true);
            part.rows.iter().for_each(|r| own[*r] = true);
        }
        let mut senses: Vec<(Sense, i64)> = instance.rows.iter().map(|r| (r.sense, r.rhs)).collect();
        senses.extend((0..levels).map(|_| (Sense::AtMost, 0)));
        let mut rest = Shape { rows: vec![], blocks: vec![], extras: vec![] };
        let mut rest_classes = Vec::new();
        for (c, class) in instance.classes.iter().enumerate().filter(|(c, _)| !class_of_part[*c]) {
            let all: Vec<Draft> =
                class.columns.iter().map(|c| draft(&c.coefficients, &c.costs, levels, |r| r, rows)).collect();
            let (drafts, originals, stands_for) = reduce(&all, &senses);
            let idle = stands_for.first().copied().unwrap_or(0);
            rest.blocks.push(Block { count: i64::from(class.count), drafts, idle });
            rest_classes.push((c, originals));
        }
        for (_, extra) in instance.extras.iter().enumerate().filter(|(e, _)| !extra_of_part[*e]) {
            let draft = draft(&extra.coefficients, &extra.costs, levels, |r| r, rows);
            rest.extras.push(CopyExtra { upper: extra.upper, draft });
        }
        let shared = (0..rows).filter(|r| !own[*r]).collect();
        let coverable = (0..rows).map(|r| instance.rows[r].sense == Sense::Equal && !own[r]).collect();
        let rest_extras: Vec<Extra> = rest
            .extras
            .iter()
            .map(|extra| {
                let (coefficients, costs) = terms(&extra.draft, levels, |row| rest.place(row, rows));
                Extra { upper: extra.upper, coefficients, costs }
            })
            .collect();
        let made_up = made_up(instance, &rest_extras);
        let steps = vec![0; levels];
        let mut model = Self {
            instance,
            levels,
            worth: levels,
            kinds,
            rest,
            rest_extras,
            made_up,
            rest_classes,
            shared,
            coverable,
            alike: None,
            are_many: are_many(instance, parts),
            steps,
        };
        model.survey();
        model.alike = alike::alike(instance, parts, levels, |row| model.coverable[row]);
        model
    }

    /// Which rows may be given too much, and what values are multiples of.
    fn survey(&mut self) {
        let rows = self.instance.rows.len();
        let shapes: Vec<Shape> =
            self.kinds.iter().map(|k| k.shape.clone()).chain([self.rest.clone()]).collect();
        for shape in &shapes {
            let of_blocks = shape.blocks.iter().flat_map(|block| block.drafts.iter());
            let of_extras = shape.extras.iter().map(|extra| &extra.draft);
            for (draft, is_extra) in of_blocks.map(|d| (d, false)).chain(of_extras.map(|d| (d, true))) {
                for (row, a) in &draft.terms {
                    match shape.place(*row, rows) {
                        Place::Own(_) => {}
                        Place::Shared(row) => self.coverable[row] &= is_extra && *a == 1,
                        Place::Level(level) => self.steps[level] = common_divisor(self.steps[level], a.abs()),
                    }
                }
            }
        }
        self.steps.iter_mut().for_each(|step| *step = (*step).max(1));
    }

    /// The rows that relaxations have of those that are of no part, with what is asked of each.
    pub(super) fn relaxed_rows(&self) -> Vec<(RowIndex, i64)> {
        let Some(alike) = &self.alike else {
            return self.shared.iter().map(|row| (*row, self.instance.rows[*row].rhs)).collect();
        };
        let mut sums: BTreeMap<RowIndex, i64> = BTreeMap::new();
        for row in &self.shared {
            *sums.entry(alike[*row]).or_default() += self.instance.rows[*row].rhs;
        }
        sums.into_iter().collect()
    }

    /// The row that stands for this one in relaxations.
    pub(super) fn first_of(&self, row: RowIndex) -> RowIndex {
        self.alike.as_ref().map_or(row, |alike| alike[row])
    }

    /// What a program over all rows may take. Where there are so many things that some are taken as one, it could take all that
    /// there is, and more.
    pub(super) fn within(&self, work: Allowance) -> Allowance {
        if self.alike.is_some() { work } else { Allowance::of(u64::MAX) }
    }

    /// A row as the patterns see it.
    pub(super) fn sense(&self, row: RowIndex) -> Sense {
        if self.coverable[row] { Sense::AtLeast } else { self.instance.rows[row].sense }
    }
}

fn made_up(instance: &Instance, extras: &[Extra]) -> Vec<bool> {
    let mut made_up = vec![false; instance.rows.len()];
    for extra in extras {
        if let [(row, a)] = extra.coefficients[..]
            && a > 0
            && extra.costs.iter().all(|cost| *cost == 0)
            && instance.rows[row].sense == Sense::AtLeast
        {
            made_up[row] |= extra.upper * i64::from(a) >= instance.rows[row].rhs;
        }
    }
    made_up
}
