//! Empties a few copies and fills them again, over and over: the search for a better choice where patterns
//! and bounds do not meet, and the only one where there are so many kinds of things to do that the program
//! for all copies together would take too long.
//!
//! What a copy can have is bounded by what the others leave, so one copy alone needs no rows but its own, and
//! a few need one for each thing that they could do too often together. Such programs are small whatever the
//! instance. Most are refuted by their relaxation at once.

use super::MANY_PARTS;
use super::guide::{Guide, Losses};
use super::model::{Model, Piece};
use super::price::Pattern;
use super::shape::{Place, Shape, terms};
use super::split::{State, class};
use crate::solver::instance::{Column, Extra, Instance, Row, Sense};
use crate::solver::memory::Memory;
use crate::solver::program::mix;
use crate::solver::project::Projection;
use crate::solver::search::find;
use crate::solver::work::{Allowance, count};

/// Nodes of one search.
const NODES: u64 = 60;
/// Nodes of one that looks for another choice that is as good, so that the next searches start elsewhere.
const ASIDE: u64 = 8;
/// How many copies are filled again together, in turn.
const TOGETHER: [usize; 4] = [2, 3, 1, 2];
/// What it costs at least to open copies, as work: it is mostly more, and never nothing, so that a search in which no
/// program is ever solved ends as well.
const OPENING: usize = 5_000;
/// Things that nobody open does yet, of which so many for each open copy are looked at.
const OTHERS: usize = 6;

/// Whether all that counts follows from what copies do and how often: bounds of what there is at least are met
/// by other means, which is not looked at here.
pub(super) fn suits(model: &Model<'_>) -> bool {
    model.rest_extras.iter().all(|extra| {
        let is_uncovered = matches!(extra.coefficients[..], [(row, 1)] if model.coverable[row]);
        is_uncovered || extra.costs.iter().all(|cost| *cost == 0)
    })
}

/// Every copy by itself, and nothing done.
pub(super) fn nothing(model: &Model<'_>) -> State {
    let mut state = State::empty(model);
    for (kind, of) in model.kinds.iter().enumerate() {
        let piece = Piece { kind, copies: 1, does: Pattern::idle(&of.shape) };
        state.pieces.extend((0..of.copies).map(|_| piece.clone()));
    }
    state
}

/// Makes the level better, with nothing before it worse, until it is at its bound or the work is done.
/// Says what the levels come to then. With a guide, every second search is among copies that lose something.
pub(super) fn refill(
    model: &Model<'_>,
    state: &mut State,
    (level, bound): (usize, i64),
    (work, guide): (Allowance, Option<&Guide>),
) -> Option<Vec<i64>> {
    let mut totals = Totals::new(model, state);
    let mut values = totals.values(model)?;
    let mut seed = 0;
    // Says whether others than the open ones may do something else as well.
    let mut fill = |state: &mut State, values: &mut Vec<i64>, open: &[usize]| -> bool {
        seed += 1;
        let search = Search { level, seed, wanted: None };
        let without = totals.without(model, state, open);
        let opened = Opened::new(model, (state, &without.sums), open, search);
        let Some((does, _)) = opened.and_then(Opened::filled) else { return false };
        let mut next = without;
        does.iter().for_each(|(position, does)| next.add(model, state.pieces[*position].kind, does));
        if next.is_too_much(model) {
            let mut trimmed = state.with(does);
            trimmed.trim(model);
            next = Totals::new(model, &trimmed);
            if let Some(now) = next.values(model).filter(|now| now[..=level] <= values[..=level]) {
                (*values, *state, totals) = (now, trimmed, next);
                return true;
            }
        } else if let Some(now) = next.values(model).filter(|now| now[..=level] <= values[..=level]) {
            (*values, totals) = (now, next);
            does.into_iter().for_each(|(position, does)| state.pieces[position].does = does);
        }
        false
    };
    // First each copy by itself: what is idle is filled.
    for position in 0..state.pieces.len() {
        if values[level] > bound && !work.is_used_up() {
            fill(state, &mut values, &[position]);
        }
    }
    let losses_of = |state: &State| guide.map(|guide| Losses::new(guide, model, &state.pieces));
    let mut losses = losses_of(state);
    let (mut numbers, mut is_guided) = (0, true);
    while values[level] > bound && !work.is_used_up() && !state.pieces.is_empty() {
        is_guided = !is_guided;
        let mut open = Vec::new();
        for _ in 0..TOGETHER[numbers as usize / 4 % TOGETHER.len()] {
            numbers += 4;
            let position = match &losses {
                Some(losses) if is_guided => losses.pick(numbers),
                _ => mix(numbers) as usize % state.pieces.len(),
            };
            if !open.contains(&position) {
                open.push(position);
            }
        }
        if fill(state, &mut values, &open) {
            losses = losses_of(state);
        } else if let Some(losses) = &mut losses {
            losses.update(model, &state.pieces, &open);
        }
    }
    Some(values)
}

/// What all copies give to the rows, and what comes of it at the levels, kept from one search to the next: to add it up
/// over a thousand copies takes longer than a search among two of them.
pub(super) struct Totals {
    pub(super) sums: Vec<i64>,
    costs: Vec<i64>,
}

impl Totals {
    pub(super) fn new(model: &Model<'_>, state: &State) -> Self {
        let (sums, costs) = state.sums_without(model, &[], true);
        Self { sums, costs }
    }

    pub(super) fn add(&mut self, model: &Model<'_>, kind: usize, does: &Pattern) {
        does.add_to(&model.kinds[kind].shape, &mut self.sums, &mut self.costs);
    }

    /// The same without some of the pieces.
    pub(super) fn without(&self, model: &Model<'_>, state: &State, open: &[usize]) -> Self {
        let mut of_open = Self { sums: vec![0; self.sums.len()], costs: vec![0; self.costs.len()] };
        open.iter().map(|p| &state.pieces[*p]).for_each(|piece| of_open.add(model, piece.kind, &piece.does));
        let less = |all: &[i64], some: Vec<i64>| all.iter().zip(some).map(|(all, some)| all - some).collect();
        Self { sums: less(&self.sums, of_open.sums), costs: less(&self.costs, of_open.costs) }
    }

    /// Whether more is done of something than is asked for.
    fn is_too_much(&self, model: &Model<'_>) -> bool {
        let rows = self.sums.iter().zip(&model.instance.rows).zip(&model.coverable);
        rows.into_iter().any(|((sum, row), coverable)| *coverable && *sum > row.rhs)
    }

    fn values(&self, model: &Model<'_>) -> Option<Vec<i64>> {
        State::values_of(model, self.sums.clone(), self.costs.clone())
    }
}

/// What copies are opened for.
#[derive(Clone, Copy)]
pub(super) struct Search<'w> {
    /// The level that is to become better; those before it stay as good.
    pub(super) level: usize,
    /// Which of the things are looked at that nobody open does.
    pub(super) seed: u64,
    /// How much of each row is wanted, if that alone counts at the level: so that one thing more of it is done. No
    /// more than that is done of anything.
    pub(super) wanted: Option<&'w [i64]>,
}

/// Some copies that are open, as an instance.
pub(super) struct Opened<'m> {
    model: &'m Model<'m>,
    instance: Instance,
    /// The copies, by position among the state's pieces, and their kinds.
    open: Vec<(usize, usize)>,
    /// For each of them, the extras of its shape that are extras of the instance.
    extras: Vec<Vec<usize>>,
    /// What they do now, at the levels that count.
    now: Vec<i64>,
    level: usize,
}

impl<'m> Opened<'m> {
    pub(super) fn new(
        model: &'m Model<'m>,
        (state, sums): (&State, &[i64]),
        open: &[usize],
        search: Search<'_>,
    ) -> Option<Self> {
        let rows = model.instance.rows.len();
        let Search { level, seed, wanted } = search;
        // What all copies do is kept, and counted as if it were gone over each time, as it was where these figures come from.
        let things = match model.kinds.len() {
            0..=MANY_PARTS => state.pieces.iter().map(|piece| piece.does.extras.len()).sum(),
            _ => 0,
        };
        count(OPENING + 10 * (rows + things));
        let left = |row: usize| match wanted {
            Some(wanted) => wanted[row] - sums[row],
            None => model.instance.rows[row].rhs - sums[row],
        };
        let mut instance = Instance { levels: level + 1, ..Instance::default() };
        // By row of the model: the row of the instance, and for what can be done too often who does it.
        let mut shared: Vec<Option<usize>> = vec![None; rows];
        let mut doers: Vec<Vec<usize>> = vec![vec![]; rows];
        let mut extras: Vec<Vec<usize>> = Vec::new();
        let mut chosen: (Vec<Vec<(usize, u32)>>, Vec<i64>) = Default::default();
        let made_up = &model.made_up;
        let mut saved = savings(model, sums);
        // Where only what is wanted counts, everybody who wants it counts the same.
        let unequal = if wanted.is_some() { vec![vec![]; rows] } else { unequal(model, sums, level) };
        if wanted.is_some() {
            for saved in &mut saved {
                saved.resize(level.max(saved.len()), 0);
                saved.truncate(level);
                saved.push(1);
            }
        }
        // What is wanted is all that counts at its level.
        let counted = |mut costs: Vec<i64>| {
            costs.truncate(level + 1);
            if wanted.is_some() {
                costs.truncate(level);
                costs.resize(level + 1, 0);
            }
            costs
        };
        // What is looked at of what nobody open does.
        let does = |shape: &Shape, e: usize| done_by(model, shape, e);
        let mut done = vec![false; rows];
        for piece in open.iter().map(|p| &state.pieces[*p]) {
            let shape = &model.kinds[piece.kind].shape;
            for e in (0..shape.extras.len()).filter(|e| piece.does.extras[*e] > 0) {
                does(shape, e).into_iter().for_each(|row| done[row] = true);
            }
        }
        let mut more: Vec<usize> =
            (0..rows).filter(|r| model.coverable[*r] && !done[*r] && left(*r) > 0).collect();
        if open.len() > 1 {
            more.sort_unstable_by_key(|row| mix(seed << 20 | *row as u64));
            more.truncate(OTHERS * open.len());
        }
        more.into_iter().for_each(|row| done[row] = true);
        for piece in open.iter().map(|p| &state.pieces[*p]) {
            let shape = &model.kinds[piece.kind].shape;
            let first = instance.rows.len();
            instance.rows.extend(shape.rows.iter().map(|(sense, rhs)| Row { sense: *sense, rhs: *rhs }));
            for (block, chosen_columns) in shape.blocks.iter().zip(&piece.does.blocks) {
                for (row, _) in block.drafts.iter().flat_map(|draft| &draft.terms) {
                    add_row(model, shape, *row, (&mut shared, sums, made_up), &mut instance);
                }
                let mut class = class(block, 1, model.levels, |row| match shape.place(row, rows) {
                    Place::Own(row) => Place::Shared(first + row),
                    Place::Shared(row) => shared[row].map_or(Place::Own(0), Place::Shared),
                    other @ Place::Level(_) => other,
                });
                let columns = class.columns.iter().cloned().map(|mut column: Column| {
                    column.costs = counted(column.costs);
                    column
                });
                class.columns = columns.collect();
                instance.classes.push(class);
                chosen.0.push(chosen_columns.iter().map(|(j, n)| (*j, *n as u32)).collect());
            }
            let mut mine = Vec::new();
            for (e, extra) in shape.extras.iter().enumerate() {
                let of = does(shape, e);
                if of.iter().any(|row| !done[*row]) {
                    continue;
                }
                let upper = of.iter().fold(extra.upper, |upper, row| upper.min(left(*row)));
                if upper <= 0 {
                    continue;
                }
                let mut draft = extra.draft.clone();
                draft.terms.retain(|(row, _)| match shape.place(*row, rows) {
                    Place::Shared(row) => !of.contains(&row),
                    Place::Own(_) | Place::Level(_) => true,
                });
                for (row, _) in &draft.terms {
                    add_row(model, shape, *row, (&mut shared, sums, made_up), &mut instance);
                }
                let (coefficients, costs) = terms(&draft, model.levels, |row| match shape.place(row, rows) {
                    Place::Own(row) => Place::Shared(first + row),
                    Place::Shared(row) => shared[row].map_or(Place::Own(0), Place::Shared),
                    other @ Place::Level(_) => other,
                });
                let mut costs = counted(costs);
                for row in &of {
                    if unequal[*row].is_empty() {
                        costs.iter_mut().zip(&saved[*row]).for_each(|(cost, saved)| *cost -= saved);
                    }
                    doers[*row].push(instance.extras.len());
                }
                instance.extras.push(Extra { upper, coefficients, costs });
                chosen.1.push(piece.does.extras[e]);
                mine.push(e);
            }
            extras.push(mine);
        }
        // What is done in other ways than by one copy is met as it is now, or the search is for nothing.
        for (row, doers) in doers.iter().enumerate().filter(|(_, doers)| doers.len() > 1) {
            if doers.iter().map(|e| instance.extras[*e].upper).sum::<i64>() > left(row) {
                let index = instance.rows.len();
                instance.rows.push(Row { sense: Sense::AtMost, rhs: left(row) });
                doers.iter().for_each(|e| instance.extras[*e].coefficients.push((index, 1)));
            }
        }
        for (doers, unequal) in doers.iter().zip(&unequal).filter(|(doers, _)| !doers.is_empty()) {
            let done = doers.iter().map(|e| chosen.1[*e]).sum();
            add_unequal(&mut instance, &mut chosen.1, (doers, done), unequal);
        }
        let makers = makers(model, &shared);
        for (row, extra) in makers {
            let coefficients: Vec<(usize, i32)> = extra.coefficients.iter().map(|(_, a)| (row, *a)).collect();
            let lacks = instance.rows[row].lacks(instance.sum(row, &chosen));
            let a = coefficients.iter().map(|(_, a)| i64::from(*a)).sum::<i64>().max(1);
            chosen.1.push((lacks + a - 1).div_euclid(a).min(extra.upper));
            instance.extras.push(Extra {
                upper: extra.upper,
                coefficients,
                costs: counted(extra.costs.clone()),
            });
        }
        let now = instance.values(&chosen.0, &chosen.1);
        let is_met = instance.is_met_by(&chosen.0, &chosen.1);
        let open = open.iter().map(|p| (*p, state.pieces[*p].kind)).collect();
        is_met.then_some(Self { model, instance, open, extras, now, level })
    }

    /// What the copies do, filled, by position: better at the level if that is found, else as good. And whether it is
    /// better.
    pub(super) fn filled(self) -> Option<(Vec<(usize, Pattern)>, bool)> {
        let mut memory = Memory::default();
        let (projection, _) = Projection::new(&self.instance, &self.now[..self.level], &mut memory);
        let program = &projection.program;
        let now = self.now[self.level];
        let better = find(program, now - program.step, NODES);
        let is_better = better.is_some();
        let found = better.or_else(|| find(program, now, ASIDE))?;
        let (classes, values) = projection.expand(&self.instance, &found);
        let (mut classes, mut values) = (classes.into_iter(), values.into_iter());
        let does = self.open.iter().zip(&self.extras).map(|((position, kind), extras)| {
            let shape = &self.model.kinds[*kind].shape;
            let blocks = classes.by_ref().take(shape.blocks.len());
            let counts =
                |chosen: Vec<(usize, u32)>| chosen.into_iter().map(|(j, n)| (j, i64::from(n))).collect();
            let mut does =
                Pattern { blocks: blocks.map(counts).collect(), extras: vec![0; shape.extras.len()] };
            extras.iter().zip(values.by_ref()).for_each(|(e, n)| does.extras[*e] = n);
            (*position, does)
        });
        Some((does.collect(), is_better))
    }
}

/// Gives a row that several copies share a place in the instance, if it has none and nothing makes up for it.
fn add_row(
    model: &Model<'_>,
    shape: &Shape,
    row: usize,
    (shared, sums, made_up): (&mut [Option<usize>], &[i64], &[bool]),
    instance: &mut Instance,
) {
    if let Place::Shared(row) = shape.place(row, sums.len())
        && !made_up[row]
    {
        shared[row].get_or_insert_with(|| {
            let Row { sense, rhs } = model.instance.rows[row];
            instance.rows.push(Row { sense, rhs: rhs - sums[row] });
            instance.rows.len() - 1
        });
    }
}

/// Units that cost the same where nobody does them, and how many.
type Tier = (Vec<i64>, i64);

/// For each row that can be covered, what its units cost that nobody does, the cheapest first, if they are of several
/// priorities: then one price for all of them would tell that a unit of a low priority is worth one of a high one. Nothing,
/// where all are of one.
fn unequal(model: &Model<'_>, sums: &[i64], level: usize) -> Vec<Vec<Tier>> {
    let mut left: Vec<i64> = model.instance.rows.iter().zip(sums).map(|(row, sum)| row.rhs - sum).collect();
    let mut tiers: Vec<Vec<Tier>> = vec![vec![]; left.len()];
    for extra in &model.rest_extras {
        if let [(row, 1)] = extra.coefficients[..]
            && model.coverable[row]
            && left[row] > 0
        {
            let units = extra.upper.min(left[row]);
            left[row] -= units;
            match tiers[row].last_mut().filter(|(known, _)| !are_of_two_priorities(known, &extra.costs)) {
                Some((_, known)) => *known += units,
                None => tiers[row].push((extra.costs.clone(), units)),
            }
        }
    }
    tiers.iter_mut().filter(|tiers| tiers.len() < 2).for_each(Vec::clear);
    tiers.iter_mut().flatten().for_each(|(costs, _)| costs.truncate(level + 1));
    tiers
}

/// Whether each of two counts at a level at which the other one does not. Whose turn it is counts at one level more than
/// others of its priority.
fn are_of_two_priorities(one: &[i64], other: &[i64]) -> bool {
    let counts_where = |of: &[i64], not: &[i64]| of.iter().zip(not).any(|(of, not)| *of != 0 && *not == 0);
    counts_where(one, other) && counts_where(other, one)
}

/// Has the instance count what is not done of a row, by what it costs. `doers`: who does it, and how much of it they do now.
fn add_unequal(
    instance: &mut Instance,
    chosen: &mut Vec<i64>,
    (doers, done): (&[usize], i64),
    tiers: &[Tier],
) {
    let counts = |(costs, _): &&Tier| costs.iter().any(|cost| *cost != 0);
    let all: i64 = tiers.iter().filter(counts).map(|(_, units)| units).sum();
    if all == 0 {
        return;
    }
    let row = instance.rows.len();
    instance.rows.push(Row { sense: Sense::AtLeast, rhs: all });
    doers.iter().for_each(|e| instance.extras[*e].coefficients.push((row, 1)));
    let mut lacks = (all - done).max(0);
    for (costs, units) in tiers.iter().filter(counts) {
        let undone = lacks.min(*units);
        lacks -= undone;
        chosen.push(undone);
        instance.extras.push(Extra { upper: *units, coefficients: vec![(row, 1)], costs: costs.clone() });
    }
}

/// What makes up for what rows lack that copies share, at a cost, and the rows of the instance that these are.
fn makers<'m>(model: &'m Model<'_>, shared: &[Option<usize>]) -> Vec<(usize, &'m Extra)> {
    let makes = |extra: &'m Extra| match extra.coefficients[..] {
        [(row, 1..)] if !model.coverable[row] && extra.costs.iter().any(|cost| *cost != 0) => {
            Some((shared[row]?, extra))
        }
        _ => None,
    };
    model.rest_extras.iter().filter_map(makes).collect()
}

/// The rows that an extra covers one by one.
pub(super) fn done_by(model: &Model<'_>, shape: &Shape, extra: usize) -> Vec<usize> {
    let terms = shape.extras[extra].draft.terms.iter();
    terms
        .filter_map(|(row, a)| match shape.place(*row, model.instance.rows.len()) {
            Place::Shared(row) if model.coverable[row] && *a == 1 => Some(row),
            _ => None,
        })
        .collect()
}

/// For each row that can be covered, what is saved at the levels by covering one unit more of it: what the
/// dearest of the extras costs that have to cover it otherwise.
pub(super) fn savings(model: &Model<'_>, sums: &[i64]) -> Vec<Vec<i64>> {
    let rows = model.instance.rows.len();
    let mut saved: Vec<Vec<i64>> = vec![vec![]; rows];
    let mut left: Vec<i64> = model.instance.rows.iter().zip(sums).map(|(row, sum)| row.rhs - sum).collect();
    for extra in &model.rest_extras {
        if let [(row, 1)] = extra.coefficients[..]
            && model.coverable[row]
            && left[row] > 0
        {
            left[row] -= extra.upper;
            saved[row].clone_from(&extra.costs);
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::instance::Class;
    use crate::solver::parts::Part;

    /// A copy with room for three things. One is wanted four times, once by the highest priority and three times by the lowest, and
    /// another one twice by the one between.
    fn instance() -> Instance {
        let rows = [(Sense::AtMost, 3), (Sense::Equal, 4), (Sense::Equal, 2)];
        let does = |row, upper| Extra { upper, coefficients: vec![(0, 1), (row, 1)], costs: vec![] };
        let undone = |row, upper, costs: [i64; 3]| {
            let coefficients = vec![(row, 1)];
            Extra { upper, coefficients, costs: costs.into() }
        };
        Instance {
            rows: rows.map(|(sense, rhs)| Row { sense, rhs }).into(),
            classes: vec![Class { count: 1, columns: [Column::default()].into() }],
            extras: vec![
                does(1, 4),
                does(2, 2),
                undone(1, 3, [0, 0, 1]),
                undone(1, 1, [1, 0, 0]),
                undone(2, 2, [0, 1, 0]),
            ],
            levels: 3,
        }
    }

    fn parts() -> Vec<Part> {
        vec![Part { copies: 1, rows: vec![0], counts: vec![0], classes: vec![0], extras: vec![0, 1] }]
    }

    /// If all four counted as what the highest priority wants, none of the three that are done could be given up.
    #[test]
    fn what_the_lowest_priority_has_is_given_up_where_a_higher_one_wants_the_same() {
        let (instance, parts) = (instance(), parts());
        let model = Model::new(&instance, &parts, 3);
        let mut state = nothing(&model);
        state.pieces[0].does.extras = vec![3, 0];
        assert_eq!(state.values(&model), Some(vec![0, 2, 1]));
        let limits = (Allowance::of(1_000_000_000), None);
        assert_eq!(refill(&model, &mut state, (1, 0), limits), Some(vec![0, 0, 3]));
        assert_eq!(state.pieces[0].does.extras, [1, 2]);
    }

    /// Who is served in turn has two prices of one priority, and is planned as it was.
    #[test]
    fn whose_turn_it_is_has_the_price_of_its_priority() {
        assert!(!are_of_two_priorities(&[0, 3], &[1, 3]));
        assert!(!are_of_two_priorities(&[0, 0, 2, 7], &[0, 0, 2, 8]));
        assert!(are_of_two_priorities(&[0, 3, 0, 7], &[3, 0, 0, 8]));
    }

    #[test]
    fn units_that_count_alike_have_one_price() {
        let (instance, parts) = (instance(), parts());
        let model = Model::new(&instance, &parts, 3);
        let tiers = |done: i64, level| unequal(&model, &[0, done, 0], level)[1].clone();
        assert_eq!(tiers(0, 2), [(vec![0, 0, 1], 3), (vec![1, 0, 0], 1)], "the cheapest are undone first");
        assert_eq!(tiers(0, 1), [(vec![0, 0], 3), (vec![1, 0], 1)]);
        assert_eq!(tiers(1, 2), [], "what the highest priority wants is done");
        assert_eq!(unequal(&model, &[0, 0, 0], 2)[2], [], "one priority wants it");
    }
}
