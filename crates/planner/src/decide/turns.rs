//! Whose turn it is, where a policy says `order: OldestFirst`.
//!
//! Inside a priority the oldest request that can be served is served, then the
//! next oldest that can be served beside it, and so on. Requests of one group
//! are alike, so whoever is served of a group are its oldest, and once one of a
//! group cannot be served, none of its younger ones can. So the answer is a
//! number for each group. It is found by asking whether so many of the oldest
//! can be served together: the longest run of requests, by age, that can be;
//! then without the one that ended it, and its group, the next run. How often
//! has to be asked follows from the number of groups and not of requests.
//!
//! A request in turn is one that may use a node of such a policy, wherever else
//! it may go. The others of its priority come after them, and what is left is
//! shared as `MostServed` says.
//!
//! What was not proved is said: a request that is passed over because the search
//! ended is counted in the certificate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::formulate::{Counted, Level, Program, Question, Unserved, formulate};
use super::turn::{Queue, Start, Turn, Turns};
use super::world::World;
use crate::policy::Policy;
use crate::solver::{
    Answers, Asked, Copy, Decided, Effort, InTurn, Instance, KINDS_IN_TURN, Known, MANY_KINDS, Memory,
    Orders, RowIndex, SolveError, are_many,
};

/// Nodes that are looked at one by one, times groups: beyond it, one question about each of them may take longer than
/// all questions should, and only so many are asked. Without it a fleet of 1,000 nodes took 131 s instead of 7, and more
/// pods were out of turn.
const BY_NODE: usize = 12_000;
const OF_LARGE_FLEETS: usize = 2;

/// With very many groups, one question about all nodes that are alike together takes as long as a plan: only
/// so many are asked, and node by node.
const OF_MANY_KINDS: usize = 3;

/// What finding out whose turn it is may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Nodes of each search.
    pub(super) effort: Effort,
    /// Questions to one program, at each priority.
    pub(super) questions: usize,
    /// Questions that need to look at each node by itself, at each priority:
    /// each of them is a plan.
    pub(super) by_node: usize,
    /// Operations after which no more of them are asked.
    pub(super) work: u64,
    /// Operations for each priority, if no more is wanted than a quick answer: nothing is asked, and nothing is proved.
    pub(super) filled_within: Option<u64>,
}

/// Of two answers, whose is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// The same requests are served.
    Same,
    /// It serves the first on whom they differ, and it is proved that the other
    /// one could not have.
    Better,
    /// It serves the first on whom they differ.
    Seems,
    /// The other one does.
    Worse,
}

impl Compared {
    /// Whether it replaces the other one, which goes on with what is under way; nothing, if later levels say it.
    pub(super) fn replaces(self, nothing_under_way: bool) -> Option<bool> {
        match self {
            Self::Same => None,
            Self::Better => Some(true),
            // Nothing is given up for it.
            Self::Seems => Some(nothing_under_way),
            Self::Worse => Some(false),
        }
    }
}

impl Turns {
    /// Finds out. `is_one_program`: the world's program may be solved as it
    /// is, also where nodes are looked at one by one.
    pub(super) fn new(
        world: &World<'_>,
        is_one_program: bool,
        limits: Limits,
        answers: &mut Answers,
    ) -> Self {
        let in_turn: Vec<bool> = (0..world.groups.len()).map(|g| oldest_first(world, g).is_some()).collect();
        let mut turns =
            Self { served: vec![0; in_turn.len()], in_turn, queues: vec![], start: Start::default() };
        let all = world.groups.iter().zip(&turns.in_turn).filter(|(_, in_turn)| **in_turn);
        let priorities: BTreeSet<Reverse<i32>> = all.map(|(group, _)| Reverse(group.priority)).collect();
        for priority in priorities {
            let mut asking = Asking::new(world, &turns, priority, (is_one_program, limits), answers);
            let decided = asking.decide(&turns.by_age(world, priority));
            let seen = asking.seen.map(|seen| Start { copies: seen.copies, ..Start::default() });
            turns.start = asking.served.or(seen).unwrap_or_default();
            for turn in decided.iter().filter(|turn| turn.served) {
                turns.served[turn.group] += 1;
            }
            turns.queues.push(Queue { priority, turns: decided });
        }
        turns
    }

    /// The groups of a priority's requests, the oldest request first.
    fn by_age(&self, world: &World<'_>, priority: Reverse<i32>) -> Vec<usize> {
        let groups = world.groups.iter().enumerate();
        let groups = groups.filter(|(g, group)| self.in_turn[*g] && group.priority == priority.0);
        let mut all: Vec<_> =
            groups.flat_map(|(g, group)| group.requests.iter().map(move |r| (r.since, &r.id, g))).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, _, g)| g).collect()
    }

    /// Requests of a priority that were passed over without a proof.
    pub(super) fn unproved(&self, priority: Reverse<i32>) -> i64 {
        let queue = self.queues.iter().find(|queue| queue.priority == priority);
        let turns = queue.into_iter().flat_map(|queue| &queue.turns);
        i64::try_from(turns.filter(|turn| !turn.proved && !turn.served).count()).unwrap_or(i64::MAX)
    }

    /// Whether who is served at a priority is proved, and everybody who waits there is served in turn.
    pub(super) fn settle(&self, world: &World<'_>, priority: Reverse<i32>) -> bool {
        let mut groups = world.groups.iter().zip(&self.in_turn).filter(|(g, _)| g.priority == priority.0);
        groups.all(|(_, in_turn)| *in_turn) && self.unproved(priority) == 0
    }

    /// Whether it is proved of everybody who is passed over that it has to be so.
    pub(super) fn is_proven(&self) -> bool {
        self.queues.iter().flat_map(|queue| &queue.turns).all(|turn| turn.proved || turn.served)
    }

    /// Compares who is served at a priority, in answers for the same requests.
    pub(super) fn compared(&self, other: &Self, priority: Reverse<i32>) -> Compared {
        let of = |turns: &Self| -> Vec<Turn> {
            let queue = turns.queues.iter().find(|queue| queue.priority == priority);
            queue.map_or_else(Vec::new, |queue| queue.turns.clone())
        };
        match of(self).iter().zip(&of(other)).find(|(mine, theirs)| mine.served != theirs.served) {
            None => Compared::Same,
            Some((mine, theirs)) if mine.served && theirs.proved => Compared::Better,
            Some((mine, _)) if mine.served => Compared::Seems,
            Some(_) => Compared::Worse,
        }
    }

    /// What a plan made of it: `is_served` says it of the request at each place of
    /// its group, the oldest first. What was proved of whom holds as far as
    /// everybody before them is served as was decided.
    pub(super) fn seen(mut self, is_served: impl Fn(usize, usize) -> bool) -> Self {
        let mut places = vec![0; self.in_turn.len()];
        let mut is_same = true;
        for turn in self.queues.iter_mut().flat_map(|queue| &mut queue.turns) {
            let served = is_served(turn.group, places[turn.group]);
            places[turn.group] += 1;
            is_same &= served == turn.served;
            *turn = Turn { group: turn.group, served, proved: served || is_same && turn.proved };
        }
        self
    }

    /// Only what was decided before anything was not proved.
    pub(super) fn until_unproved(mut self) -> Self {
        self.served.iter_mut().for_each(|served| *served = 0);
        let turns = self.queues.iter().flat_map(|queue| &queue.turns);
        for turn in turns.take_while(|turn| turn.proved || turn.served).filter(|turn| turn.served) {
            self.served[turn.group] += 1;
        }
        self
    }

    /// The same, with what is proved of all plans (and not only of those that
    /// go on with what is under way): as far as the same requests are served.
    pub(super) fn with_proofs_of(mut self, fresh: &Self) -> Self {
        let mut is_same = true;
        for (queue, known) in self.queues.iter_mut().zip(&fresh.queues) {
            for (turn, known) in queue.turns.iter_mut().zip(&known.turns) {
                is_same &= turn.served == known.served;
                turn.proved = turn.served || is_same && known.proved;
            }
        }
        self
    }
}

/// The first policy that serves the oldest first and has a node that a group may use.
pub(super) fn oldest_first<'a>(world: &World<'a>, group: usize) -> Option<&'a Policy> {
    let cells = world.cells.iter().filter(|cell| cell.groups.contains(&group));
    let policies: BTreeSet<usize> = cells.filter_map(|cell| cell.policy).collect();
    policies.into_iter().map(|policy| world.policies[policy]).find(|policy| policy.layout.serves_in_turn())
}

/// Asks one program about the requests of one priority.
struct Asking<'w, 'a> {
    world: &'w World<'a>,
    program: Program,
    /// The orders in which requests can be served one by one.
    orders: Orders,
    /// The level that counts who of those in question is not served.
    level: usize,
    /// What the levels before it come to.
    held: Vec<i64>,
    is_one_program: bool,
    /// There are too many groups for one program, even for all nodes that are alike together.
    many_kinds: bool,
    limits: Limits,
    answers: &'w mut Answers,
    /// Where deciding about one after the other starts: what came of the priorities before.
    start: Start,
    /// What came of it.
    served: Option<Start>,
    /// What is the same in all questions about nodes that are alike together.
    memory: Memory,
    /// The best that was found node by node.
    seen: Option<Seen>,
}

/// An answer node by node.
struct Seen {
    /// Who is served of the queue, the oldest first. Of two, the greater one is better.
    served: Vec<bool>,
    /// What each node does.
    copies: Vec<Vec<Copy>>,
}

/// What came of looking node by node at everybody of whom it was decided that they are served.
enum Round {
    /// All of them are served.
    Seen,
    /// So many of the oldest are served, and of the next one it was not found; or it is even proved that it cannot be.
    PassedOver(usize, bool),
    /// So many of the oldest are served, and nothing more may be asked.
    UsedUp(usize),
}

/// Nothing more may be asked.
struct UsedUp;

impl<'w, 'a> Asking<'w, 'a> {
    fn new(
        world: &'w World<'a>,
        turns: &Turns,
        priority: Reverse<i32>,
        (is_one_program, limits): (bool, Limits),
        answers: &'w mut Answers,
    ) -> Self {
        let program = formulate(world, turns, Question::Turns { priority: priority.0 });
        let is_one_program = is_one_program || program.parts.is_empty();
        let many_kinds = !is_one_program && world.groups.len() > MANY_KINDS;
        let by_node = if many_kinds { limits.by_node.min(OF_MANY_KINDS) } else { limits.by_node };
        let one_by_one: usize = world.cells.iter().filter(|c| c.one_by_one).map(|c| c.nodes.len()).sum();
        let is_large = one_by_one * world.groups.len() > BY_NODE;
        let by_node = if is_large { by_node.min(OF_LARGE_FLEETS) } else { by_node };
        let limits = Limits { by_node, ..limits };
        let level = Level::Unserved(priority, Counted::Turns);
        let level = program.levels.iter().position(|l| *l == level).unwrap_or(0);
        let orders = if is_one_program { Orders::default() } else { program.orders(world, turns) };
        let (held, memory) = (vec![], Memory::default());
        Self {
            world,
            program,
            orders,
            level,
            held,
            is_one_program,
            many_kinds,
            limits,
            answers,
            start: turns.start.clone(),
            memory,
            served: None,
            seen: None,
        }
    }

    /// The values and the bounds of the first levels.
    fn levels(&mut self, levels: usize) -> Option<(Vec<i64>, Vec<i64>)> {
        let instance = first_levels(&self.program.instance, levels);
        let solved = if self.is_one_program {
            self.answers.solve(&instance, self.limits.effort).ok()?
        } else {
            let asked = Asked::new(levels, levels, &self.orders);
            let answered =
                self.answers.solve_parts(&instance, &self.program.parts, asked, self.limits.effort).0;
            answered.ok()?.solved
        };
        Some(solved.levels.iter().map(|level| (level.value, level.bound)).unzip())
    }

    /// Decides about requests, given by their groups, oldest first.
    fn decide(&mut self, queue: &[usize]) -> Vec<Turn> {
        if !self.is_one_program
            && (self.limits.filled_within.is_some()
                || self.world.groups.len() > KINDS_IN_TURN
                || are_many(&self.program.instance, &self.program.parts))
            && let Some(turns) = self.one_by_one(queue)
        {
            return turns;
        }
        if self.level > 0 {
            self.held = self.levels(self.level).map(|(values, _)| values).unwrap_or_default();
        }
        let mut turns: Vec<Turn> = Vec::with_capacity(queue.len());
        self.go_on(queue, &mut turns);
        // With all nodes that are alike together, more is served than node by
        // node: what was found has to be seen there.
        let looks_node_by_node = !self.is_one_program && self.limits.by_node > 0;
        if looks_node_by_node {
            self.look_node_by_node(queue, &mut turns);
        }
        // Whoever was seen to be served is. What was proved of whom holds as far as nothing else was decided before.
        let mut is_same = true;
        for (turn, served) in turns.iter_mut().zip(self.seen.iter().flat_map(|seen| &seen.served)) {
            is_same &= turn.served == *served;
            *turn = Turn { served: *served, proved: is_same && turn.proved, ..*turn };
        }
        turns
    }

    /// Looks node by node at what was decided, and decides anew about those who are not served there.
    fn look_node_by_node(&mut self, queue: &[usize], turns: &mut Vec<Turn>) {
        loop {
            let accepted: Vec<usize> = (0..turns.len()).filter(|i| turns[*i].served).collect();
            match self.round(turns, &accepted) {
                Round::Seen => return,
                Round::PassedOver(longest, proved) => {
                    turns.truncate(accepted[longest]);
                    turns.push(Turn { group: queue[accepted[longest]], served: false, proved });
                    self.go_on(queue, turns);
                }
                Round::UsedUp(longest) => {
                    // What follows was not looked at node by node.
                    let rest = &mut turns[accepted[longest]..];
                    rest.iter_mut().for_each(|turn| turn.proved = false);
                    if self.many_kinds {
                        // The oldest can be served, that was seen; who comes after them has what is left.
                        rest.iter_mut().for_each(|turn| turn.served = false);
                    }
                    return;
                }
            }
        }
    }

    /// Looks node by node whether all of these can be served, by their positions in the queue; and if not, for the
    /// longest run of the oldest that can be. Every answer is a plan: whom it serves need not be asked about again.
    fn round(&mut self, turns: &[Turn], accepted: &[usize]) -> Round {
        let run = |seen: &Option<Seen>| {
            let seen = seen.as_ref();
            accepted
                .iter()
                .take_while(|i| seen.is_some_and(|seen| seen.served.get(**i) == Some(&true)))
                .count()
        };
        let (mut longest, mut no, mut verdict) = (run(&self.seen), accepted.len() + 1, None);
        let mut next = accepted.len();
        loop {
            if longest >= accepted.len() {
                return Round::Seen;
            }
            if longest + 1 >= no {
                return Round::PassedOver(longest, verdict == Some(false));
            }
            let Ok(answer) = self.by_node(turns, &accepted[..next]) else { return Round::UsedUp(longest) };
            let is_first = no > accepted.len();
            longest = longest.max(run(&self.seen));
            if answer == Some(true) {
                longest = longest.max(next);
            } else {
                (no, verdict) = (next, answer);
            }
            // Mostly the oldest that is not served by the first answer is the one who cannot be.
            next = if is_first { longest + 1 } else { longest.midpoint(no).max(longest + 1) };
        }
    }

    /// Decides about one after the other, node by node, where one question about all of them takes as long as a plan.
    fn one_by_one(&mut self, queue: &[usize]) -> Option<Vec<Turn>> {
        let instance = first_levels(&self.program.instance, self.level + 1);
        let rows: Vec<RowIndex> = queue.iter().filter_map(|group| self.program.demand[*group]).collect();
        let parts = &self.program.parts;
        let in_turn = InTurn { level: self.level, queue: &rows, filled_within: self.limits.filled_within };
        let served =
            self.answers.serve_in_turn(&instance, parts, (&self.orders, self.start.known()), in_turn)?;
        self.served = Some(Start { copies: served.copies, searched: self.level + 1 });
        let mut decided = served.decided.into_iter();
        let nobody = Decided { served: false, proved: true };
        let turn = |group: &usize| {
            let can_be_served = self.program.demand[*group].is_some();
            let Decided { served, proved } =
                if can_be_served { decided.next().unwrap_or(nobody) } else { nobody };
            Turn { group: *group, served, proved }
        };
        Some(queue.iter().map(turn).collect())
    }

    /// Decides about all that are not decided about yet.
    fn go_on(&mut self, queue: &[usize], turns: &mut Vec<Turn>) {
        // Of a group that was passed over nobody younger can be served, and it is
        // as well proved as it was of the first.
        let mut closed: BTreeMap<usize, bool> = BTreeMap::new();
        for (g, unserved) in self.program.unserved.iter().enumerate() {
            if matches!(unserved, Unserved::Certain(_)) {
                closed.insert(g, true);
            }
        }
        for turn in turns.iter().filter(|turn| !turn.served) {
            closed.entry(turn.group).or_insert(turn.proved);
        }
        let mut guess = queue.len();
        while turns.len() < queue.len() {
            let begin = turns.len();
            let open: Vec<usize> =
                (begin..queue.len()).filter(|i| !closed.contains_key(&queue[*i])).collect();
            let before: Vec<usize> = (0..begin).filter(|i| turns[*i].served).collect();
            let so_far = counted(turns, &before, self.world);
            let (longest, verdict) = longest(open.len(), guess, |n| {
                let mut wanted = so_far.clone();
                open[..n].iter().for_each(|i| wanted[queue[*i]] += 1);
                self.together(&wanted)
            });
            guess = 1;
            let passed_over = open.get(longest).copied();
            let end = passed_over.unwrap_or(queue.len());
            for group in &queue[begin..end] {
                let is_closed = closed.get(group);
                turns.push(Turn {
                    group: *group,
                    served: is_closed.is_none(),
                    proved: is_closed.is_none_or(|proved| *proved),
                });
            }
            if let Some(passed_over) = passed_over {
                let proved = verdict == Some(false);
                closed.insert(queue[passed_over], proved);
                turns.push(Turn { group: queue[passed_over], served: false, proved });
            }
        }
    }

    /// Asks about so many of the oldest of each group.
    fn put(&mut self, wanted: &[i64]) {
        for (g, unserved) in self.program.unserved.iter().enumerate() {
            if let Unserved::Counted(extras) = unserved
                && let [rest, first] = extras[..]
                && self.program.instance.extras[first].costs.get(self.level) == Some(&1)
            {
                let asked = i64::try_from(self.world.groups[g].requests.len()).unwrap_or(i64::MAX);
                self.program.instance.extras[rest].upper = asked - wanted[g];
                self.program.instance.extras[first].upper = wanted[g];
            }
        }
    }

    /// Whether all of these can be served, nodes that are alike taken together.
    /// Nothing, where that was not found out.
    fn together(&mut self, wanted: &[i64]) -> Option<bool> {
        if self.many_kinds {
            return Some(true);
        }
        self.limits.questions = self.limits.questions.checked_sub(1)?;
        self.put(wanted);
        let instance = (&self.program.instance, &mut self.memory);
        let answer = self.answers.reaches(instance, &self.held, 0, self.limits.effort);
        // What was not refuted here is looked for node by node, where that is done.
        if self.is_one_program { answer } else { Some(answer.unwrap_or(true)) }
    }

    /// Whether all of these can be served, each node looked at by itself; nothing in it, where that was not found out.
    ///
    /// # Errors
    /// If no more may be asked.
    fn by_node(&mut self, turns: &[Turn], wanted: &[usize]) -> Result<Option<bool>, UsedUp> {
        if self.limits.work == 0 {
            return Err(UsedUp);
        }
        self.limits.by_node = self.limits.by_node.checked_sub(1).ok_or(UsedUp)?;
        let wanted = counted(turns, wanted, self.world);
        self.put(&wanted);
        let instance = first_levels(&self.program.instance, self.level + 1);
        let reached: Vec<i64> = self.held.iter().copied().chain([0]).collect();
        let asked = Asked {
            reached: &reached,
            start: Known { copies: self.seen.as_ref().map_or(&[], |seen| &seen.copies), ..Known::NOTHING },
            is_question: true,
            ..Asked::new(self.level + 1, self.level + 1, &self.orders)
        };
        let (answer, work) =
            self.answers.solve_parts(&instance, &self.program.parts, asked, self.limits.effort);
        self.limits.work = self.limits.work.saturating_sub(work);
        let parted = match answer {
            Ok(parted) => parted,
            Err(SolveError::Infeasible) => return Ok(Some(false)),
            Err(_) => return Ok(None),
        };
        let (before, level) = (&parted.solved.levels[..self.level], parted.solved.levels[self.level]);
        let values: Vec<i64> = before.iter().map(|level| level.value).collect();
        if values > self.held {
            return Ok(None);
        }
        // Whoever is not served of a group is the youngest of those who were asked about.
        let mut left = wanted;
        for (left, unserved) in left.iter_mut().zip(&self.program.unserved) {
            match unserved {
                Unserved::Counted(extras) if extras.len() == 2 => *left -= parted.solved.extras[extras[1]],
                Unserved::Counted(_) | Unserved::Certain(_) => *left = 0,
            }
        }
        let served: Vec<bool> = turns
            .iter()
            .map(|turn| {
                left[turn.group] -= 1;
                left[turn.group] >= 0
            })
            .collect();
        if self.seen.as_ref().is_none_or(|seen| seen.served < served) {
            self.seen = Some(Seen { served, copies: parted.copies });
        }
        Ok(match level.value {
            0 => Some(true),
            _ if level.bound > 0 && values == self.held => Some(false),
            _ => None,
        })
    }
}

/// How many of each group are at these positions of a queue.
fn counted(turns: &[Turn], positions: &[usize], world: &World<'_>) -> Vec<i64> {
    let mut counts = vec![0; world.groups.len()];
    positions.iter().for_each(|i| counts[turns[*i].group] += 1);
    counts
}

/// The most for which a question is answered with yes, and the answer for one
/// more (yes, if there is none). None at all always is one. Asks for `guess`
/// first, then for twice as many, and halves what is between yes and no.
fn longest(all: usize, guess: usize, mut ask: impl FnMut(usize) -> Option<bool>) -> (usize, Option<bool>) {
    let (mut yes, mut next) = (0, guess.clamp(1, all.max(1)));
    let (mut no, mut verdict) = loop {
        if yes == all {
            return (all, Some(true));
        }
        match ask(next) {
            Some(true) => (yes, next) = (next, (2 * next).min(all)),
            other => break (next, other),
        }
    };
    while no - yes > 1 {
        let middle = yes.midpoint(no);
        match ask(middle) {
            Some(true) => yes = middle,
            other => (no, verdict) = (middle, other),
        }
    }
    (yes, verdict)
}

/// The instance without its later levels.
fn first_levels(instance: &Instance, levels: usize) -> Instance {
    let mut instance = instance.clone();
    instance.levels = levels;
    for class in &mut instance.classes {
        Arc::make_mut(&mut class.columns).iter_mut().for_each(|column| column.costs.truncate(levels));
    }
    instance.extras.iter_mut().for_each(|extra| extra.costs.truncate(levels));
    instance
}
