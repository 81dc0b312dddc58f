//! An instance with parts, at its first levels: what is shared, and what one
//! copy of each kind can do.

use super::price::Pattern;
use super::shape::{Block, CopyExtra, Kind, Place, Shape, draft, kinds, reduce, terms};
use super::{Part, are_many};
use crate::divisor::common_divisor;
use crate::solver::instance::{Extra, Instance, RowIndex, Sense};
use crate::solver::program::Draft;

/// What is solved.
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    pub(super) instance: &'a Instance,
    pub(super) levels: usize,
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
            let (drafts, originals, idle) = reduce(&all, &senses);
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
            kinds,
            rest,
            rest_extras,
            made_up,
            rest_classes,
            shared,
            coverable,
            are_many: are_many(instance, parts),
            steps,
        };
        model.survey();
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
