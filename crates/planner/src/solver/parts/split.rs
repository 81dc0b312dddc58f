//! Decides some copies again together, while all others stay as they are: the remainder of the relaxation,
//! halves of copies that were decided together, and a few copies at a time that are improved.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decisions::{Decisions, Span};
use super::model::{Model, Piece};
use super::price::{BITS, Pattern, Prices, in_whole_units};
use super::shape::Block;
use super::shape::{Place, terms};
use super::{Copy, Merged, Part};
use crate::solver::greedy;
use crate::solver::instance::{Choice, Class, Column, Effort, Extra, Instance, Row, RowIndex, Sense, Solved};
use crate::solver::lexicographic::Known;
use crate::solver::memory::Memory;
use crate::solver::program::Draft;
use crate::solver::project::Projection;
use crate::solver::search::relaxed;

/// Extras that count the same thing at slightly different costs are counted
/// as so many at most, while copies are decided.
const SHADES: usize = 8;

/// Everything decided: pieces, and the classes that are of no part.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) pieces: Vec<Piece>,
    pub(super) rest: Vec<Vec<(usize, i64)>>,
}

/// Which of a state's decisions are open.
pub(super) struct Open<'o> {
    /// Kinds and how many copies of them.
    pub(super) pieces: &'o [(usize, i64)],
    /// The classes that are of no part.
    pub(super) rest: bool,
}

impl State {
    /// Nothing decided, and classes of no part idle.
    pub(super) fn empty(model: &Model<'_>) -> Self {
        let rest = model.rest.blocks.iter().map(|block| vec![(block.idle, block.count)]).collect();
        Self { pieces: vec![], rest }
    }

    /// What was decided for all copies together, a piece for each kind;
    /// nothing, if a column was chosen that is not looked at here.
    pub(super) fn from_solved(model: &Model<'_>, parts: &[Part], solved: &Solved) -> Option<Self> {
        let mut state = Self { pieces: vec![], rest: vec![] };
        let reduced = |chosen: &[(usize, u32)], originals: &[usize]| -> Option<Vec<(usize, i64)>> {
            let place = |(j, n): &(usize, u32)| Some((originals.iter().position(|o| o == j)?, i64::from(*n)));
            chosen.iter().map(place).collect()
        };
        for (class, originals) in &model.rest_classes {
            state.rest.push(reduced(&solved.classes[*class], originals)?);
        }
        for (k, kind) in model.kinds.iter().enumerate() {
            let mut does = Pattern {
                blocks: vec![vec![]; kind.shape.blocks.len()],
                extras: vec![0; kind.shape.extras.len()],
            };
            for member in &kind.members {
                let part = &parts[member.part];
                for (block, behind) in does.blocks.iter_mut().zip(&member.blocks) {
                    for (class, _, originals) in behind {
                        block.extend(reduced(&solved.classes[part.classes[*class]], originals)?);
                    }
                }
                let extras = does.extras.iter_mut().zip(&part.extras);
                extras.for_each(|(sum, extra)| *sum += solved.extras[*extra]);
            }
            for block in &mut does.blocks {
                block.sort_unstable();
                block.dedup_by(|b, a| {
                    let same = a.0 == b.0;
                    a.1 += if same { b.1 } else { 0 };
                    same
                });
            }
            state.pieces.push(Piece { kind: k, copies: i64::from(kind.copies), does });
        }
        Some(state)
    }

    /// What single copies do, by part, with no more of anything than is asked for: in place of a column that is not looked
    /// at here, another one that does no less. Nothing, if it is not known of each copy.
    pub(super) fn from_copies(model: &Model<'_>, copies: &[Vec<Copy>]) -> Option<Self> {
        if copies.is_empty() {
            return None;
        }
        let mut state = Self::empty(model);
        for (k, kind) in model.kinds.iter().enumerate() {
            for member in &kind.members {
                for copy in copies.get(member.part)? {
                    let mut does = Pattern {
                        blocks: vec![vec![]; kind.shape.blocks.len()],
                        extras: (copy.extras.len() == kind.shape.extras.len())
                            .then(|| copy.extras.clone())?,
                    };
                    for (block, behind) in does.blocks.iter_mut().zip(&member.blocks) {
                        let mut sums: BTreeMap<usize, i64> = BTreeMap::new();
                        for (class, ..) in behind {
                            for (column, n) in copy.classes.get(*class)? {
                                let place = member.stands_for.get(*class)?.get(*column)?;
                                *sums.entry(*place).or_default() += i64::from(*n);
                            }
                        }
                        *block = sums.into_iter().collect();
                    }
                    state.pieces.push(Piece { kind: k, copies: 1, does });
                }
            }
            let mine = state.pieces.iter().filter(|piece| piece.kind == k).count();
            if mine != kind.copies as usize {
                return None;
            }
        }
        state.trim(model);
        Some(state)
    }

    /// What copies do that are decided one by one, by part.
    pub(super) fn copies(&self, model: &Model<'_>, parts: &[Part]) -> Vec<Vec<Copy>> {
        let mut copies: Vec<Vec<Copy>> = vec![vec![]; parts.len()];
        for (k, kind) in model.kinds.iter().enumerate() {
            let mut pieces = self.pieces.iter().filter(|piece| piece.kind == k && piece.copies == 1);
            for member in &kind.members {
                let part = &parts[member.part];
                for piece in pieces.by_ref().take(part.copies as usize) {
                    let mut classes = vec![vec![]; part.classes.len()];
                    for (chosen, behind) in piece.does.blocks.iter().zip(&member.blocks) {
                        let mut units = chosen.iter().flat_map(|(j, n)| std::iter::repeat_n(*j, *n as usize));
                        for (class, gpus, originals) in behind {
                            let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
                            units
                                .by_ref()
                                .take(*gpus as usize)
                                .for_each(|j| *counts.entry(originals[j]).or_default() += 1);
                            classes[*class] = counts.into_iter().collect();
                        }
                    }
                    copies[member.part].push(Copy { classes, extras: piece.does.extras.clone() });
                }
            }
        }
        copies
    }

    /// What the pieces, and with them the classes of no part, give to the rows.
    pub(super) fn sums(&self, model: &Model<'_>, with_rest: bool) -> Vec<i64> {
        self.sums_without(model, &[], with_rest).0
    }

    /// The same without some of the pieces, by position; and what comes of it at the levels.
    pub(super) fn sums_without(
        &self,
        model: &Model<'_>,
        without: &[usize],
        with_rest: bool,
    ) -> (Vec<i64>, Vec<i64>) {
        let (mut sums, mut costs) = (vec![0; model.instance.rows.len()], vec![0; model.levels]);
        for (_, piece) in self.pieces.iter().enumerate().filter(|(p, _)| !without.contains(p)) {
            piece.does.add_to(&model.kinds[piece.kind].shape, &mut sums, &mut costs);
        }
        for (block, chosen) in model.rest.blocks.iter().zip(&self.rest).filter(|_| with_rest) {
            for (j, n) in chosen {
                for (row, a) in &block.drafts[*j].terms {
                    match model.rest.place(*row, sums.len()) {
                        Place::Shared(row) => sums[row] += a * n,
                        Place::Level(level) => costs[level] += a * n,
                        Place::Own(_) => {}
                    }
                }
            }
        }
        (sums, costs)
    }

    /// What each level comes to, extras filled in; nothing, if a row cannot be met.
    pub(super) fn values(&self, model: &Model<'_>) -> Option<Vec<i64>> {
        let (sums, costs) = self.sums_without(model, &[], true);
        Self::values_of(model, sums, costs)
    }

    /// The same of what is given to the rows, and what that costs.
    pub(super) fn values_of(model: &Model<'_>, mut sums: Vec<i64>, mut values: Vec<i64>) -> Option<Vec<i64>> {
        for row in model.shared.iter().filter(|row| model.coverable[**row]) {
            sums[*row] = sums[*row].min(model.instance.rows[*row].rhs);
        }
        let filled = greedy::fill(&model.instance.rows, &model.rest_extras, &mut sums);
        for (extra, n) in model.rest_extras.iter().zip(filled).filter(|(_, n)| *n != 0) {
            values.iter_mut().zip(&extra.costs).for_each(|(value, cost)| *value += cost * n);
        }
        let met = model.shared.iter().all(|row| {
            let Row { sense, rhs } = model.instance.rows[*row];
            match sense {
                Sense::AtLeast => sums[*row] >= rhs,
                Sense::AtMost => sums[*row] <= rhs,
                Sense::Equal => sums[*row] == rhs,
            }
        });
        met.then_some(values)
    }

    /// The same with some pieces doing something else, by position.
    pub(super) fn with(&self, does: Vec<(usize, Pattern)>) -> Self {
        let mut with = self.clone();
        does.into_iter().for_each(|(position, does)| with.pieces[position].does = does);
        with
    }

    /// Lowers what is served more often than it asks.
    pub(super) fn trim(&mut self, model: &Model<'_>) {
        let mut sums = self.sums(model, true);
        let rows = sums.len();
        for piece in self.pieces.iter_mut().rev() {
            let shape = &model.kinds[piece.kind].shape;
            for (extra, n) in shape.extras.iter().zip(&mut piece.does.extras) {
                for (row, a) in &extra.draft.terms {
                    let Place::Shared(row) = shape.place(*row, rows) else { continue };
                    if model.coverable[row] && *a == 1 {
                        let over = (sums[row] - model.instance.rows[row].rhs).clamp(0, *n);
                        *n -= over;
                        sums[row] -= over;
                    }
                }
            }
        }
    }

    /// Decides what is open anew. What the result's pieces do is in their order.
    pub(super) fn decide(
        &mut self,
        model: &Model<'_>,
        open: &Open<'_>,
        (effort, decisions): (Effort, &mut Decisions),
    ) -> Option<()> {
        let sub = Sub::new(model, self, open).at(decisions.span);
        let solved = decisions.solve(&sub.instance, effort)?;
        self.take(model, open, (&sub, &solved));
        Some(())
    }

    /// Decides pieces anew that are not among the others any more: what they do then is no worse than what they do now. At
    /// `best_at` of the first levels it is known that nothing is better, and only what is better at `needed` of them is of
    /// use.
    pub(super) fn improve(
        &mut self,
        model: &Model<'_>,
        (pieces, best_at, needed): (&[Piece], usize, usize),
        (effort, decisions): (Effort, &mut Decisions),
    ) -> Option<()> {
        let kinds: Vec<(usize, i64)> = pieces.iter().map(|piece| (piece.kind, piece.copies)).collect();
        let open = Open { pieces: &kinds, rest: false };
        let sub = Sub::new(model, self, &open).at(decisions.span);
        let [best_at, needed] = [best_at, needed].map(|levels| decisions.span.first(levels));
        let solved = match sub.choice(pieces) {
            Some(choice) => decisions.improve(&sub.instance, effort, Known { choice, best_at, needed }),
            None => decisions.solve(&sub.instance, effort),
        };
        self.take(model, &open, (&sub, &solved?));
        Some(())
    }

    /// Takes what was decided of what was open.
    fn take(&mut self, model: &Model<'_>, open: &Open<'_>, (sub, solved): (&Sub, &Solved)) {
        let chosen = |class: &Vec<(usize, u32)>| class.iter().map(|(j, n)| (*j, i64::from(*n))).collect();
        let mut classes = solved.classes.iter();
        if open.rest {
            self.rest = classes.by_ref().take(model.rest.blocks.len()).map(chosen).collect();
        }
        let mut extras = solved.extras[sub.first_extra..].iter();
        for (kind, copies) in open.pieces {
            let shape = &model.kinds[*kind].shape;
            let blocks = classes.by_ref().take(shape.blocks.len()).map(chosen).collect();
            let extras = extras.by_ref().take(shape.extras.len()).copied().collect();
            self.pieces.push(Piece { kind: *kind, copies: *copies, does: Pattern { blocks, extras } });
        }
    }
}

/// What is open, as an instance.
pub(super) struct Sub {
    pub(super) instance: Instance,
    /// The first extra that is of a piece.
    first_extra: usize,
}

impl Sub {
    /// `state` is without the pieces that are open.
    pub(super) fn new(model: &Model<'_>, state: &State, open: &Open<'_>) -> Self {
        let rows = model.instance.rows.len();
        let sums = state.sums(model, !open.rest);
        let shapes = || open.pieces.iter().map(|(kind, _)| &model.kinds[*kind].shape);
        let mut touched = vec![open.rest && !model.rest.blocks.is_empty(); rows];
        for shape in shapes() {
            let drafts = shape.blocks.iter().flat_map(|block| block.drafts.iter());
            for (row, _) in drafts.chain(shape.extras.iter().map(|e| &e.draft)).flat_map(|d| &d.terms) {
                if let Place::Shared(row) = shape.place(*row, rows) {
                    touched[row] = true;
                }
            }
        }
        let rest = rest_extras(model, &mut touched);
        let mut instance = Instance { levels: model.levels, ..Instance::default() };
        let mut position = vec![usize::MAX; rows];
        for row in model.shared.iter().filter(|row| touched[**row]) {
            position[*row] = instance.rows.len();
            let rhs = model.instance.rows[*row].rhs - sums[*row];
            instance.rows.push(Row { sense: model.sense(*row), rhs });
        }
        let left = |row: usize| instance.rows[position[row]].rhs.max(0);
        // What is asked for bounds what one piece can have of it.
        let upper = |shape: &super::shape::Shape, extra: &super::shape::CopyExtra| {
            let asked = extra.draft.terms.iter().filter_map(|(row, a)| match shape.place(*row, rows) {
                Place::Shared(row) if model.coverable[row] && *a == 1 => Some(left(row)),
                _ => None,
            });
            asked.fold(extra.upper, i64::min)
        };
        let uppers: Vec<Vec<i64>> =
            shapes().map(|shape| shape.extras.iter().map(|extra| upper(shape, extra)).collect()).collect();
        for (draft, upper) in rest {
            let (coefficients, costs) =
                terms(&draft, model.levels, |row| match model.rest.place(row, rows) {
                    Place::Shared(row) => Place::Shared(position[row]),
                    other => other,
                });
            instance.extras.push(Extra { upper, coefficients, costs });
        }
        if open.rest {
            for block in &model.rest.blocks {
                instance.classes.push(class(block, 1, model.levels, |row| {
                    match model.rest.place(row, rows) {
                        Place::Shared(row) => Place::Shared(position[row]),
                        other => other,
                    }
                }));
            }
        }
        let first_extra = instance.extras.len();
        for ((kind, copies), uppers) in open.pieces.iter().zip(uppers) {
            let shape = &model.kinds[*kind].shape;
            let first = instance.rows.len();
            let own = |(sense, rhs): &(Sense, i64)| Row { sense: *sense, rhs: rhs * copies };
            instance.rows.extend(shape.rows.iter().map(own));
            let place = |row: usize| match shape.place(row, rows) {
                Place::Own(row) => Place::Shared(first + row),
                Place::Shared(row) => Place::Shared(position[row]),
                level @ Place::Level(_) => level,
            };
            for block in &shape.blocks {
                instance.classes.push(class(block, *copies, model.levels, place));
            }
            for (extra, upper) in shape.extras.iter().zip(uppers) {
                let (coefficients, costs) = terms(&extra.draft, model.levels, place);
                instance.extras.push(Extra { upper, coefficients, costs });
            }
        }
        Self { instance, first_extra }
    }

    /// The same at some of the levels.
    fn at(mut self, span: Span) -> Self {
        if span != Span::ALL {
            let Instance { classes, extras, levels, .. } = &mut self.instance;
            *levels = span.first(*levels);
            let columns = classes.iter_mut().flat_map(|class| Arc::make_mut(&mut class.columns));
            columns.for_each(|column| span.of(&mut column.costs));
            extras.iter_mut().for_each(|extra| span.of(&mut extra.costs));
        }
        self
    }

    /// What these pieces do as a choice of the instance, where they are what is open and what they leave undone is
    /// counted as it is; nothing, if they do more than is asked for.
    fn choice(&self, pieces: &[Piece]) -> Option<Choice> {
        let Self { instance, first_extra } = self;
        let chosen = |block: &Vec<(usize, i64)>| {
            block.iter().map(|(j, n)| u32::try_from(*n).ok().map(|n| (*j, n))).collect::<Option<Vec<_>>>()
        };
        let blocks = pieces.iter().flat_map(|piece| &piece.does.blocks);
        let classes: Vec<Vec<(usize, u32)>> = blocks.map(chosen).collect::<Option<_>>()?;
        let (rest, of_pieces) = instance.extras.split_at(*first_extra);
        let done: Vec<i64> = pieces.iter().flat_map(|piece| &piece.does.extras).copied().collect();
        let mut sums = vec![0; instance.rows.len()];
        for (class, chosen) in instance.classes.iter().zip(&classes) {
            for (j, n) in chosen {
                let given = class.columns.get(*j)?.coefficients.iter();
                given.for_each(|(row, a)| sums[*row] += i64::from(*a) * i64::from(*n));
            }
        }
        for (extra, n) in of_pieces.iter().zip(&done) {
            extra.coefficients.iter().for_each(|(row, a)| sums[*row] += i64::from(*a) * n);
        }
        let mut extras = greedy::fill(&instance.rows, rest, &mut sums);
        extras.extend(done);
        instance.is_met_by(&classes, &extras).then_some((classes, extras))
    }
}

/// What no choice goes below, all copies taken together, where there are very many parts those that are alike as one: a
/// relaxation with a row for each kind of thing to do, and not two as where it has to be done just so often.
pub(super) struct Together {
    instance: Instance,
    /// Where each row of the model's instance is, if there are very many parts.
    rows: Vec<Option<RowIndex>>,
    /// Levels at which the relaxation has the costs of the instance.
    exact: usize,
}

impl Together {
    pub(super) fn new(model: &Model<'_>, parts: &[Part]) -> Self {
        if model.are_many {
            let merged = Merged::new(model.instance, parts, model.levels, |row| model.coverable[row]);
            return Self { instance: merged.instance, rows: merged.rows, exact: model.levels };
        }
        let all: Vec<(usize, i64)> =
            model.kinds.iter().enumerate().map(|(k, kind)| (k, i64::from(kind.copies))).collect();
        let nothing = State { pieces: vec![], rest: State::empty(model).rest };
        let Sub { instance, .. } = Sub::new(model, &nothing, &Open { pieces: &all, rest: true });
        // At the last level some extras may be counted at a cost that others have.
        let exact =
            if instance.extras.len() < model.instance.extras.len() { model.levels - 1 } else { model.levels };
        Self { instance, rows: vec![], exact }
    }

    /// The bound of the level after those that are held at these values; and what the rows of the model's instance are
    /// worth in it, if there are very many parts.
    pub(super) fn relaxed(&self, held: &[i64], levels: usize) -> Option<(i64, Option<Prices>)> {
        if held.len() >= self.exact {
            return None;
        }
        let mut memory = Memory::default();
        let program = Projection::new(&self.instance, held, &mut memory).0.program;
        let (bound, of_program) = relaxed(&program);
        if self.rows.is_empty() {
            return Some((bound, None));
        }
        let mut of_program =
            of_program.iter().zip(&program.rows).map(|(price, row)| in_whole_units(*price, row));
        // In the program, an equality is two rows.
        let mut of_row = |sense: Sense| -> i64 {
            let rows = if sense == Sense::Equal { 2 } else { 1 };
            of_program.by_ref().take(rows).sum()
        };
        let merged: Vec<i64> = self.instance.rows.iter().map(|row| of_row(row.sense)).collect();
        let mut of_levels: Vec<i64> = held.iter().map(|_| -of_row(Sense::AtMost)).collect();
        of_levels.push(1 << BITS);
        of_levels.resize(levels, 0);
        let rows = self.rows.iter().map(|row| row.map_or(0, |row| merged[row])).collect();
        Some((bound, Some(Prices { rows, levels: of_levels })))
    }
}

/// Terms of a draft.
type Terms = Vec<(usize, i64)>;

/// The extras of no part that touch a row which counts, those that are alike
/// as one; the rows that they touch count too.
fn rest_extras(model: &Model<'_>, touched: &mut [bool]) -> Vec<(Draft, i64)> {
    let rows = model.instance.rows.len();
    // The last level has the shades: who waits longer. At the others, alike is the same.
    let last = model.levels.saturating_sub(1);
    let mut alike: BTreeMap<(Terms, Terms), Vec<(Terms, i64)>> = BTreeMap::new();
    for extra in &model.rest.extras {
        let is_shared = |(row, _): &&(usize, i64)| matches!(model.rest.place(*row, rows), Place::Shared(_));
        let (shared, costs): (Vec<_>, Vec<_>) = extra.draft.terms.iter().partition(is_shared);
        if shared.iter().any(|(row, _)| touched[*row]) {
            let is_last = |(row, _): &&(usize, i64)| matches!(model.rest.place(*row, rows), Place::Level(level) if level == last);
            let before = costs.iter().filter(|term| !is_last(term)).copied().collect();
            alike.entry((shared, before)).or_default().push((costs, extra.upper));
        }
    }
    let mut found = Vec::new();
    for ((shared, _), mut shades) in alike {
        shared.iter().for_each(|(row, _)| touched[*row] = true);
        shades.sort_unstable();
        for some in shades.chunks(shades.len().div_ceil(SHADES)) {
            let middle = &some[some.len() / 2].0;
            let mut terms = shared.clone();
            terms.extend(middle.iter().copied());
            let upper = some.iter().map(|(_, upper)| upper).sum();
            found.push((Draft { cost: 0, terms, tag: 0 }, upper));
        }
    }
    found
}

/// A block as a class of an instance.
pub(super) fn class(block: &Block, copies: i64, levels: usize, place: impl Fn(usize) -> Place) -> Class {
    let columns = block.drafts.iter().map(|draft| {
        let (coefficients, costs) = terms(draft, levels, &place);
        Column { coefficients, costs }
    });
    Class { count: u32::try_from(block.count * copies).unwrap_or(u32::MAX), columns: columns.collect() }
}
