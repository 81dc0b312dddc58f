//! What has to be done, done one after the other in an order: each by the first copy that can do it beside what it
//! does already, whatever the copy has to become for it.
//!
//! This is first fit, and where filling copies starts, so that nothing that is found is worse. Where those who come
//! first are served first it is the answer: then a few copies are opened together for whom no copy has room by
//! itself, and nobody who was served before has less for it.

use std::collections::HashMap;

use super::Decided;
use super::anew::{Measure, Shares, idle};
use super::model::Model;
use super::refill::{Opened, Search, Totals, done_by, savings};
use super::refute::Refuter;
use super::shape::{Place, Shape};
use super::split::{State, class};
use crate::solver::instance::{Instance, Row, RowIndex, Sense};
use crate::solver::memory::Memory;
use crate::solver::program::mix;
use crate::solver::project::Projection;
use crate::solver::search::find;
use crate::solver::work::{Allowance, count};

/// Nodes of the search for what one copy has to become.
const NODES: u64 = 60;
/// How often a few copies are opened for one thing that no copy can do by itself.
const TRIES: u64 = 4_000;
/// The part of the work that is left which one of them may take: those who come first are worth most.
const SHARE: u64 = 8;
/// In how many ways everything that is wanted is done anew, before copies are opened.
const ANEW: u64 = 64;
/// What it costs at least, as work, to see whether one copy can do one thing more.
const PUT: usize = 700;
/// How many they are, in turn.
const TOGETHER: [usize; 3] = [2, 3, 2];

/// In which order things are done, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orders {
    /// The part of each copy, in the order in which copies are asked.
    pub copies: Vec<usize>,
    /// Rows of what has to be done, one for each unit. Each of these orders is a start.
    pub starts: Vec<Vec<RowIndex>>,
    /// Levels that count who comes first, and the order in which they come, as a row for each.
    pub turns: Vec<(usize, Vec<RowIndex>)>,
}

/// A state in the making.
pub(super) struct InOrder<'m> {
    model: &'m Model<'m>,
    pub(super) state: State,
    /// Positions of the pieces, in the order in which they are asked.
    asked: Vec<usize>,
    /// What each kind of copy can do of each row, and which of its own rows depend on what it becomes.
    abilities: Vec<Abilities>,
    /// What is given to the rows that are shared.
    sums: Vec<i64>,
    /// What each piece's own rows have, by what it does and by what it is.
    own: Own,
    /// By row, how many of the pieces need not be asked any more: a copy does not lose what it does.
    full: Vec<usize>,
    /// The state in which copies do nothing, with what it has: it is begun with again and again.
    nothing: Option<(State, Vec<i64>, Own)>,
    /// What of each copy each thing takes.
    pub(super) shares: Shares,
    /// What a kind of copy can become so that its own rows have so much.
    known: HashMap<(usize, Vec<i64>), Option<Blocks>>,
}

/// What each piece's own rows have, by what it does and by what it is.
type Own = Vec<(Vec<i64>, Vec<i64>)>;

/// What the GPUs of a copy become: for each block, columns and how many take them.
type Blocks = Vec<Vec<(usize, i64)>>;

struct Abilities {
    does: HashMap<RowIndex, Vec<usize>>,
    becomes: Vec<bool>,
}

impl Abilities {
    fn new(model: &Model<'_>, shape: &Shape) -> Self {
        let rows = model.instance.rows.len();
        let mut does: HashMap<RowIndex, Vec<usize>> = HashMap::new();
        for (e, extra) in shape.extras.iter().enumerate() {
            for (row, a) in &extra.draft.terms {
                if let Place::Shared(row) = shape.place(*row, rows)
                    && model.coverable[row]
                    && *a == 1
                {
                    does.entry(row).or_default().push(e);
                }
            }
        }
        let mut becomes = vec![false; shape.rows.len()];
        for (row, _) in shape.blocks.iter().flat_map(|block| block.drafts.iter()).flat_map(|d| &d.terms) {
            if let Place::Own(row) = shape.place(*row, rows) {
                becomes[row] = true;
            }
        }
        Self { does, becomes }
    }
}

impl<'m> InOrder<'m> {
    /// Goes on with a state of single copies; `copies`: the part of each, in the order in which they are asked.
    pub(super) fn new(model: &'m Model<'m>, state: State, copies: &[usize]) -> Self {
        let mut of_kind: Vec<Vec<usize>> = vec![vec![]; model.kinds.len()];
        state.pieces.iter().enumerate().rev().for_each(|(p, piece)| of_kind[piece.kind].push(p));
        let mut kind_of = HashMap::new();
        for (k, kind) in model.kinds.iter().enumerate() {
            kind.members.iter().for_each(|member| {
                kind_of.insert(member.part, k);
            });
        }
        let mut asked: Vec<usize> =
            copies.iter().filter_map(|part| of_kind[*kind_of.get(part)?].pop()).collect();
        asked.extend(of_kind.into_iter().flat_map(|left| left.into_iter().rev()));
        let abilities = model.kinds.iter().map(|kind| Abilities::new(model, &kind.shape)).collect();
        let known = HashMap::new();
        let shares = Shares::new(model);
        let mut new = Self {
            model,
            state,
            asked,
            abilities,
            sums: vec![],
            own: vec![],
            full: vec![],
            nothing: None,
            shares,
            known,
        };
        new.count();
        new
    }

    /// Counts anew what the state has.
    fn count(&mut self) {
        let rows = self.model.instance.rows.len();
        self.sums = self.state.sums(self.model, true);
        self.full = vec![0; rows];
        let pieces = self.state.pieces.iter();
        self.own = pieces
            .map(|piece| {
                let shape = &self.model.kinds[piece.kind].shape;
                let mut does = vec![0; shape.rows.len()];
                for (extra, n) in shape.extras.iter().zip(&piece.does.extras) {
                    let own = extra.draft.terms.iter().filter(|(row, _)| *row < does.len());
                    own.map(|(row, a)| (*row, a * n))
                        .collect::<Vec<_>>()
                        .into_iter()
                        .for_each(|(row, a)| does[row] += a);
                }
                (does, given(shape, &piece.does.blocks))
            })
            .collect();
    }

    /// Has the first copy do it that can; whether one can.
    pub(super) fn first_fit(&mut self, row: RowIndex) -> bool {
        if !self.model.coverable[row] || self.sums[row] >= self.model.instance.rows[row].rhs {
            return false;
        }
        for place in self.full[row]..self.asked.len() {
            let piece = self.asked[place];
            let kind = self.state.pieces[piece].kind;
            let able = self.abilities[kind].does.get(&row).cloned().unwrap_or_default();
            if able.into_iter().any(|extra| self.put(piece, extra)) {
                self.full[row] = place;
                return true;
            }
        }
        self.full[row] = self.asked.len();
        false
    }

    /// Has a copy do it, if it can. `piece`: its position in the state.
    pub(super) fn have(&mut self, piece: usize, row: RowIndex) -> bool {
        if !self.model.coverable[row] || self.sums[row] >= self.model.instance.rows[row].rhs {
            return false;
        }
        let kind = self.state.pieces[piece].kind;
        let able = self.abilities[kind].does.get(&row).cloned().unwrap_or_default();
        able.into_iter().any(|extra| self.put(piece, extra))
    }

    /// What is wanted and not done yet, a row for each unit: what is worth most for its size first.
    pub(super) fn dearest_first(&self, wanted: &[i64]) -> Vec<RowIndex> {
        let left: Vec<i64> = wanted.iter().zip(&self.sums).map(|(wanted, done)| wanted - done).collect();
        let worth = savings(self.model, &self.sums);
        Measure::new(0).dearest_first(&self.shares, &left, &worth)
    }

    /// Has a piece do one more, if it can.
    fn put(&mut self, piece: usize, extra: usize) -> bool {
        let model = self.model;
        let rows = model.instance.rows.len();
        let kind = self.state.pieces[piece].kind;
        let shape = &model.kinds[kind].shape;
        if self.state.pieces[piece].does.extras[extra] >= shape.extras[extra].upper {
            return false;
        }
        let (mut does, mut shared) = (self.own[piece].0.clone(), Vec::new());
        for (row, a) in &shape.extras[extra].draft.terms {
            match shape.place(*row, rows) {
                Place::Own(row) => does[row] += a,
                Place::Shared(row) => shared.push((row, *a)),
                Place::Level(_) => {}
            }
        }
        if !shared.iter().all(|(row, a)| self.allows(*row, *a)) {
            return false;
        }
        let is_met = |row: usize, given: &[i64]| {
            let (sense, rhs) = shape.rows[row];
            Row { sense, rhs }.lacks(does[row] + given[row]) == 0
        };
        let lacks: Vec<usize> =
            (0..shape.rows.len()).filter(|row| !is_met(*row, &self.own[piece].1)).collect();
        if !lacks.is_empty() {
            if lacks.iter().any(|row| !self.abilities[kind].becomes[*row]) {
                return false;
            }
            let Some(blocks) = self.becomes(kind, &does) else { return false };
            let change = difference(model, shape, &self.state.pieces[piece].does.blocks, &blocks);
            if !change.iter().all(|(row, a)| self.allows(*row, *a)) {
                return false;
            }
            self.own[piece].1 = given(shape, &blocks);
            self.state.pieces[piece].does.blocks = blocks;
            shared.extend(change);
        }
        self.own[piece].0 = does;
        self.state.pieces[piece].does.extras[extra] += 1;
        shared.into_iter().for_each(|(row, a)| self.sums[row] += a);
        true
    }

    /// Whether a row that is shared may be given this.
    fn allows(&self, row: RowIndex, a: i64) -> bool {
        let Row { sense, rhs } = self.model.instance.rows[row];
        let now = self.sums[row] + a;
        match sense {
            Sense::AtMost => a <= 0 || now <= rhs,
            Sense::AtLeast => a >= 0 || now >= rhs || self.model.made_up[row],
            Sense::Equal => now <= rhs,
        }
    }

    /// What a copy becomes so that it can do this.
    fn becomes(&mut self, kind: usize, does: &[i64]) -> Option<Blocks> {
        let shape = &self.model.kinds[kind].shape;
        let becomes = &self.abilities[kind].becomes;
        let open: Vec<usize> = (0..does.len()).filter(|row| becomes[*row]).collect();
        let needs: Vec<i64> = open.iter().map(|row| shape.rows[*row].1 - does[*row]).collect();
        let found = self.known.entry((kind, needs)).or_insert_with_key(|(_, needs)| {
            let rows = open.iter().zip(needs).map(|(row, rhs)| Row { sense: shape.rows[*row].0, rhs: *rhs });
            let place = |row: usize| match open.binary_search(&row) {
                Ok(position) => Place::Shared(position),
                Err(_) => Place::Own(row),
            };
            let classes = shape.blocks.iter().map(|block| class(block, 1, 0, place)).collect();
            let instance = Instance { rows: rows.collect(), classes, extras: vec![], levels: 1 };
            let mut memory = Memory::default();
            let (projection, _) = Projection::new(&instance, &[], &mut memory);
            let (classes, _) = projection.expand(&instance, &find(&projection.program, 0, NODES)?);
            Some(
                classes
                    .into_iter()
                    .map(|of| of.into_iter().map(|(j, n)| (j, i64::from(n))).collect())
                    .collect(),
            )
        });
        found.clone()
    }

    /// Serves those who come first, one after the other; the level counts them. Whoever is served stays so: if no copy
    /// can serve the next one, a few of them are opened, unless it is refuted that it can be served. `needed`: how much of
    /// each row earlier levels need. What is done beyond that goes if it is in the way of somebody who comes before it.
    pub(super) fn in_turn(
        &mut self,
        (level, needed): (usize, Vec<i64>),
        order: &[RowIndex],
        (work, mut refuter): (Allowance, Option<&mut Refuter<'_>>),
    ) -> Vec<Decided> {
        // Some may be served already.
        let mut already = self.sums.clone();
        let mut wanted = needed;
        // What is refuted is about those before it in the queue, and not about others who are served.
        let mut decided_on = vec![0; wanted.len()];
        // Of those who are alike nobody younger is served, and it is as well proved.
        let mut passed_over: HashMap<RowIndex, Decided> = HashMap::new();
        let mut all = 0;
        let decide = |row: &RowIndex| {
            if let Some(decided) = passed_over.get(row) {
                return *decided;
            }
            decided_on[*row] += 1;
            if already[*row] > 0 {
                already[*row] -= 1;
                wanted[*row] = wanted[*row].max(decided_on[*row]);
                return Decided { served: true, proved: true };
            }
            wanted[*row] += 1;
            let mut proved = false;
            let mut served = self.first_fit(*row);
            if !served {
                proved = refuter.as_mut().is_some_and(|refuter| refuter.refutes(&decided_on, &self.state));
                // Whoever comes later is not in the way.
                let kept = (!proved && !work.is_used_up()).then(|| self.reduced_to(&wanted)).flatten();
                served = !proved
                    && (kept.is_some() && self.first_fit(*row)
                        || self.anew(level, &wanted, work)
                        || self.with_others(level, &wanted, all, work.part(SHARE)));
                match kept {
                    Some(_) if served => {
                        let left = wanted.iter().zip(&decided_on).map(|(n, decided)| (n - decided).max(0));
                        already = left.collect();
                    }
                    Some(kept) => {
                        self.state = kept;
                        self.count();
                    }
                    None => {}
                }
            }
            if served {
                all += 1;
                return Decided { served, proved: true };
            }
            wanted[*row] -= 1;
            decided_on[*row] -= 1;
            let decided = Decided { served, proved };
            passed_over.insert(*row, decided);
            decided
        };
        order.iter().map(decide).collect()
    }

    /// Has copies do no more than so much of each row. The state before, if that is less.
    fn reduced_to(&mut self, wanted: &[i64]) -> Option<State> {
        let coverable = self.model.coverable.iter().zip(self.sums.iter().zip(wanted));
        let mut beyond: Vec<i64> =
            coverable.map(|(coverable, (now, wanted))| if *coverable { now - wanted } else { 0 }).collect();
        if beyond.iter().all(|beyond| *beyond <= 0) {
            return None;
        }
        let before = self.state.clone();
        for piece in self.state.pieces.iter_mut().rev() {
            let shape = &self.model.kinds[piece.kind].shape;
            count(PUT + shape.extras.len());
            for (e, n) in piece.does.extras.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
                for row in done_by(self.model, shape, e) {
                    let less = beyond[row].clamp(0, *n);
                    *n -= less;
                    beyond[row] -= less;
                }
            }
        }
        self.count();
        Some(before)
    }

    /// Has every copy do nothing.
    pub(super) fn begin_anew(&mut self) {
        if let Some((state, sums, own)) = &self.nothing {
            (self.state, self.sums, self.own) = (state.clone(), sums.clone(), own.clone());
            self.full.iter_mut().for_each(|full| *full = 0);
            return;
        }
        self.state = idle(self.model, &self.state);
        self.count();
        self.nothing = Some((self.state.clone(), self.sums.clone(), self.own.clone()));
    }

    /// Does all that is wanted anew, so that one thing more is done, and no level before has less.
    fn anew(&mut self, level: usize, wanted: &[i64], work: Allowance) -> bool {
        let Some(before) = self.state.values(self.model) else { return false };
        let coverable = wanted.iter().zip(&self.model.coverable);
        let wanted: Vec<i64> = coverable.map(|(n, coverable)| if *coverable { *n } else { 0 }).collect();
        let known = self.state.clone();
        for way in 0..ANEW {
            if work.is_used_up() {
                break;
            }
            self.begin_anew();
            let measure = Measure::new(way);
            if self.fullest_first(&measure.largest_first(&self.shares, &wanted), measure, 0)
                && self.state.values(self.model).is_some_and(|now| now[..level] <= before[..level])
            {
                return true;
            }
        }
        self.state = known;
        self.count();
        false
    }

    /// Has copies that do nothing yet do these things, each the one that is fullest then. At most so many are left out;
    /// whether that was enough.
    pub(super) fn fullest_first(&mut self, rows: &[RowIndex], measure: Measure, mut left_out: usize) -> bool {
        let mut taken: Vec<Vec<i64>> = vec![vec![]; self.state.pieces.len()];
        for row in rows {
            let mut able: Vec<(i64, usize, usize)> = Vec::new();
            for piece in &self.asked {
                let kind = self.state.pieces[*piece].kind;
                for extra in self.abilities[kind].does.get(row).into_iter().flatten() {
                    let takes = self.shares.of(kind, *extra);
                    taken[*piece].resize(takes.len(), 0);
                    able.push((measure.left(&taken[*piece], takes), *piece, *extra));
                }
            }
            able.sort_unstable();
            count(able.len() * PUT / 20);
            let does = able.into_iter().find(|(_, piece, extra)| {
                count(PUT);
                self.put(*piece, *extra)
            });
            let Some((_, piece, extra)) = does else {
                let Some(fewer) = left_out.checked_sub(1) else { return false };
                left_out = fewer;
                continue;
            };
            let takes = self.shares.of(self.state.pieces[piece].kind, extra);
            taken[piece].iter_mut().zip(takes).for_each(|(taken, takes)| *taken += takes);
        }
        true
    }

    /// Opens a few copies, again and again, so that they do one thing more of what is wanted. What is tried depends on
    /// how many are served already, and not on whom was asked about in between: so it is found again for those who
    /// are served.
    fn with_others(&mut self, level: usize, wanted: &[i64], served: u64, work: Allowance) -> bool {
        let mut state = self.state.clone();
        let mut totals = Totals::new(self.model, &state);
        for way in 0..TRIES {
            if self.asked.len() < 2 || work.is_used_up() {
                return false;
            }
            let mut open: Vec<usize> = Vec::new();
            for i in 0..TOGETHER[way as usize % TOGETHER.len()] as u64 {
                let place = mix(served << 16 | way << 4 | i) as usize % self.asked.len();
                if !open.contains(&self.asked[place]) {
                    open.push(self.asked[place]);
                }
            }
            let search = Search { level, seed: way, wanted: Some(wanted) };
            let without = totals.without(self.model, &state, &open);
            let opened = Opened::new(self.model, (&state, &without.sums), &open, search);
            let Some((does, is_better)) = opened.and_then(Opened::filled) else { continue };
            totals = without;
            for (position, does) in does {
                totals.add(self.model, state.pieces[position].kind, &does);
                state.pieces[position].does = does;
            }
            if is_better {
                self.state = state;
                self.count();
                return true;
            }
        }
        false
    }
}

/// What the own rows of a copy have of what it is.
fn given(shape: &Shape, blocks: &Blocks) -> Vec<i64> {
    let mut sums = vec![0; shape.rows.len()];
    for (block, chosen) in shape.blocks.iter().zip(blocks) {
        for (j, n) in chosen {
            for (row, a) in block.drafts[*j].terms.iter().filter(|(row, _)| *row < shape.rows.len()) {
                sums[*row] += a * n;
            }
        }
    }
    sums
}

/// What the shared rows have more of what a copy is than of what it was.
fn difference(model: &Model<'_>, shape: &Shape, before: &Blocks, now: &Blocks) -> Vec<(RowIndex, i64)> {
    let rows = model.instance.rows.len();
    let mut sums: HashMap<RowIndex, i64> = HashMap::new();
    for (blocks, sign) in [(before, -1), (now, 1)] {
        for (block, chosen) in shape.blocks.iter().zip(blocks) {
            for (j, n) in chosen {
                for (row, a) in &block.drafts[*j].terms {
                    if let Place::Shared(row) = shape.place(*row, rows) {
                        *sums.entry(row).or_default() += sign * a * n;
                    }
                }
            }
        }
    }
    sums.into_iter().filter(|(_, a)| *a != 0).collect()
}
