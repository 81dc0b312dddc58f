//! The world as an integer program: which rows couple the choices, and what
//! each choice costs at which level of the objective.

mod bounds;
mod demand;
mod orders;
mod room;
mod roomless;
mod seats;
mod shares;

use std::collections::{BTreeMap, BTreeSet};

use mig::Layout;

pub(super) use self::bounds::bounds;
use self::bounds::present;
use self::demand::Demand;
pub(super) use self::seats::common;
use self::seats::{most, seats, spare_unit};
use super::reach::Reach;
use super::targets::{Current, Target};
use super::turn::Turns;
use super::world::{Class, World};
use crate::offered::Offered;
use crate::policy::Bounds;
use crate::solver::{self, Asked, Column, Extra, Instance, Orders, Row, RowIndex, Sense, Solved};

/// Up to so many waiting requests, age breaks ties between requests that ask
/// for different things; beyond it only between those that ask for the same.
/// (Each request is a variable of its own then.)
pub(super) const AGES: usize = 512;

/// The name of the level of shares in the certificate.
pub(crate) const SHARES: &str = "compute slices missing to shares";

/// A level of the objective, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// GPUs that do not have their static layout.
    Static,
    /// Slices missing to `minCount`.
    Minimum,
    /// Compute slices missing to the shares of those who ask.
    Share,
    /// Who is not served at a priority (highest first).
    Unserved(std::cmp::Reverse<i32>, Counted),
    /// How long the unserved have been waiting, in ranks.
    Age,
    /// Slices missing to `spareCount`.
    Spare,
    /// Idle GPUs that are not one full-size slice, under `unrequested: Whole`.
    Whole,
    /// GPUs changed.
    Changed,
    /// Compute slices left without a slice on GPUs that change as a whole, and
    /// profiles that tie such GPUs to others of their node.
    Stranded,
    /// Slices created and destroyed.
    Operations,
    /// Placements of large profiles that are no longer possible.
    Broken,
    /// A fixed preference among what is equal in everything else.
    TieBreak,
    /// Served requests of the group that a trial is about.
    Served,
}

/// What is counted of those who are not served at a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    /// Compute slices of gangs that have their part of the cluster: all of such a gang are served, or it would wait for the
    /// rest of it (see [`super::together`]).
    Gangs,
    /// Requests whose turn it is, where the oldest come first (see [`super::turns`]).
    Turns,
    /// Compute slices.
    Slices,
}

impl Level {
    /// Whether it is part of the certificate: a preference among equals is
    /// nobody's business, and who of a gang is not served is counted with all others.
    pub(super) fn is_reported(self) -> bool {
        !matches!(self, Self::Broken | Self::TieBreak | Self::Served | Self::Unserved(_, Counted::Gangs))
    }

    /// What it is called in the certificate.
    pub(super) fn name(self) -> String {
        match self {
            Self::Static => "GPUs not at their static layout".to_owned(),
            Self::Minimum => "slices missing to minCount".to_owned(),
            Self::Share => SHARES.to_owned(),
            Self::Unserved(priority, Counted::Gangs) => {
                format!("unserved compute slices of gangs at priority {}", priority.0)
            }
            Self::Unserved(priority, Counted::Turns) => {
                format!("requests that may be out of turn at priority {}", priority.0)
            }
            Self::Unserved(priority, Counted::Slices) => {
                format!("unserved compute slices at priority {}", priority.0)
            }
            Self::Age => "age of the unserved, in ranks".to_owned(),
            Self::Spare => "slices missing to spareCount".to_owned(),
            Self::Whole => "idle GPUs that are not one full-size slice".to_owned(),
            Self::Changed => "GPUs changed".to_owned(),
            Self::Stranded => {
                "compute slices stranded on GPUs that change as a whole, or tied to their node".to_owned()
            }
            Self::Operations => "slices created and destroyed".to_owned(),
            Self::Broken => "large placements no longer possible".to_owned(),
            Self::TieBreak => "fixed preference".to_owned(),
            Self::Served => "served requests of one group".to_owned(),
        }
    }
}

/// What the question is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// The plan: the whole objective.
    Plan,
    /// Who is served: what comes before, and all priorities.
    Service,
    /// How many of the oldest at a priority can be served: what comes before,
    /// and those who are asked about.
    Turns {
        /// The priority.
        priority: i32,
    },
    /// Who is served, as the plan decides it: the objective up to the age of
    /// the unserved. Among all answers that are equally good, the one that is
    /// worst for a group: what it gets even then, it gets from any plan.
    Served {
        /// The group, by position.
        group: usize,
    },
}

/// The program, and how to read its solution.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instance: Instance,
    pub(super) levels: Vec<Level>,
    /// The world's classes that are the program's, in its order; the others
    /// can only stay as they are.
    pub(super) classes: Vec<usize>,
    /// What those others cost, and the groups that cannot be served, by level.
    pub(super) constants: Vec<i64>,
    /// Served pods in a cell: `(group, cell, extra)`. Of groups that share a row it is the first of them, for all.
    pub(super) served: Vec<(usize, usize, usize)>,
    /// The row of each group's demand, if it can be served at all: one for all groups that differ in their priority alone.
    pub(super) demand: Vec<Option<RowIndex>>,
    /// Unserved pods, by group.
    pub(super) unserved: Vec<Unserved>,
    /// The cells whose nodes are alike and looked at one by one.
    pub(super) parts: Vec<solver::Part>,
    /// The cell of each.
    pub(super) part_cells: Vec<usize>,
}

impl Program {
    /// How many rows demand has.
    pub(super) fn kinds(&self) -> usize {
        self.demand.iter().flatten().collect::<BTreeSet<_>>().len()
    }

    /// Who is served is looked at node by node, and of what is reported the
    /// bounds are of use.
    pub(super) fn asked<'o>(&self, orders: &'o Orders) -> Asked<'o> {
        let up_to = |last: Level| self.levels.iter().filter(|level| **level <= last).count();
        let worth = self.levels.iter().filter(|level| **level < Level::Age).count();
        Asked { worth, ..Asked::new(up_to(Level::Age), up_to(Level::Operations), orders) }
    }
}

/// The unserved pods of one group.
#[derive(Debug)]
pub(super) enum Unserved {
    /// All of them, so many, whatever is planned.
    Certain(i64),
    /// Those extras add up to them.
    Counted(Vec<usize>),
}

impl Unserved {
    /// How many they are in a solution.
    pub(super) fn count(&self, solved: &Solved) -> i64 {
        match self {
            Self::Certain(all) => *all,
            Self::Counted(extras) => extras.iter().map(|extra| solved.extras[*extra]).sum(),
        }
    }
}

/// A row under construction: what is constant in it moves to the right.
#[derive(Debug)]
struct Building<'w, 'a> {
    world: &'w World<'a>,
    turns: &'w Turns,
    question: Question,
    reach: Reach,
    instance: Instance,
    costs: Vec<Level>,
    /// What the program cannot change, by level.
    constants: Vec<i64>,
    /// Rows that count free slices: by `(cell, profile)`; and free whole GPUs.
    supply: BTreeMap<(usize, Offered), RowIndex>,
    /// The most that one node needs of what such a row counts, where more is of no use.
    most: BTreeMap<(usize, Offered), i64>,
    /// Rows that count existing slices: by `(policy, profile)`; one for each sense.
    existing: BTreeMap<(usize, Offered), Vec<RowIndex>>,
    /// What is only each cell's own.
    own: Vec<solver::Part>,
    /// Of what there are such rows, in the order in which they were met.
    offered: Vec<Offered>,
}

/// Builds the program. `turns`: whose turn it is, as far as that is known.
pub(super) fn formulate(world: &World<'_>, turns: &Turns, question: Question) -> Program {
    let costs = levels(world, turns, question);
    let mut building = Building {
        world,
        turns,
        question,
        reach: Reach::new(world),
        instance: Instance { levels: costs.len(), ..Instance::default() },
        constants: vec![0; costs.len()],
        costs,
        supply: BTreeMap::new(),
        most: BTreeMap::new(),
        existing: BTreeMap::new(),
        own: vec![
            solver::Part { copies: 1, rows: vec![], counts: vec![], classes: vec![], extras: vec![] };
            world.cells.len()
        ],
        offered: vec![],
    };
    building.rows();
    let demand = building.demand();
    let served = building.serving(&demand);
    building.room(&served);
    building.shares(&served);
    building.bounds();
    let classes = building.classes();
    let Building { instance, costs, constants, own, .. } = building;
    let parts = own.into_iter().zip(&world.cells).enumerate().filter(|(_, (_, cell))| cell.one_by_one);
    let (part_cells, parts) = parts
        .map(|(c, (part, cell))| {
            let copies = u32::try_from(cell.nodes.len()).unwrap_or(u32::MAX);
            (c, solver::Part { copies, ..part })
        })
        .unzip();
    let Demand { rows: demand, unserved, .. } = demand;
    Program { instance, levels: costs, classes, constants, served, demand, unserved, parts, part_cells }
}

fn levels(world: &World<'_>, turns: &Turns, question: Question) -> Vec<Level> {
    let mut levels = BTreeSet::from([Level::Changed, Level::Operations, Level::Broken, Level::TieBreak]);
    for (group, in_turn) in world.groups.iter().zip(&turns.in_turn) {
        let priority = std::cmp::Reverse(group.priority);
        levels.insert(Level::Unserved(priority, Counted::Slices));
        if group.of_gang {
            levels.insert(Level::Unserved(priority, Counted::Gangs));
        }
        if *in_turn {
            levels.insert(Level::Unserved(priority, Counted::Turns));
        }
    }
    let waiting = world.groups.iter().map(|g| g.requests.len()).sum::<usize>();
    // Where everybody is served in turn, nothing is left to age.
    if world.groups.len() > 1 && waiting <= AGES && turns.in_turn.contains(&false) {
        levels.insert(Level::Age);
    }
    if world.quotas.iter().any(|quota| quota.wanted(quota.min) > 0) {
        levels.insert(Level::Share);
    }
    let mut any = |wanted: fn(&Bounds) -> bool, level| {
        if bounds(world).any(|(_, _, bounds)| wanted(bounds)) {
            levels.insert(level);
        }
    };
    any(|bounds| bounds.min > 0, Level::Minimum);
    any(|bounds| bounds.spare > 0, Level::Spare);
    for target in world.classes.iter().flat_map(|class| class.targets.iter()) {
        let found = [
            (target.misses_static, Level::Static),
            (target.misses_whole, Level::Whole),
            (target.stranded > 0, Level::Stranded),
        ];
        levels.extend(found.into_iter().filter(|(found, _)| *found).map(|(_, level)| level));
    }
    match question {
        Question::Plan => {}
        Question::Service => levels.retain(|level| *level < Level::Age),
        Question::Turns { priority } => {
            let last = Level::Unserved(std::cmp::Reverse(priority), Counted::Slices);
            levels.retain(|level| *level <= last);
        }
        Question::Served { .. } => {
            levels.retain(|level| *level <= Level::Age);
            levels.insert(Level::Served);
        }
    }
    levels.into_iter().collect()
}

impl Building<'_, '_> {
    fn row(&mut self, sense: Sense, rhs: i64) -> RowIndex {
        self.instance.rows.push(Row { sense, rhs });
        self.instance.rows.len() - 1
    }

    fn extra(&mut self, upper: i64, coefficients: Vec<(RowIndex, i32)>, costs: Vec<i64>) -> usize {
        self.instance.extras.push(Extra { upper, coefficients, costs });
        self.instance.extras.len() - 1
    }

    /// A cost vector with the given costs; levels that are not asked about are dropped.
    fn costs(&self, costs: &[(Level, i64)]) -> Vec<i64> {
        let cost = |level: &Level| costs.iter().find(|(l, _)| l == level).map_or(0, |(_, cost)| *cost);
        self.costs.iter().map(cost).collect()
    }

    /// One row of supply for each cell and profile that somebody may want there.
    fn rows(&mut self) {
        for (c, cell) in self.world.cells.iter().enumerate() {
            let groups = cell.groups.iter().map(|g| &self.world.groups[*g]);
            let mut wanted: BTreeSet<Offered> = groups
                .filter(|group| self.reach.serves(c, group))
                .flat_map(|group| group.wants().map(|(offered, _)| offered))
                .collect();
            if let Some(policy) = cell.policy {
                let spare = bounds(self.world).filter(|(p, _, bounds)| *p == policy && bounds.spare > 0);
                wanted.extend(spare.map(|(_, offered, _)| seats(cell, offered).0));
            }
            for offered in wanted {
                // Supply - served - left over = - what is free anyway.
                let free = cell.free.get(&offered).copied().unwrap_or(0);
                let row = self.row(Sense::AtLeast, -free);
                self.supply.insert((c, offered), row);
                self.most.extend(most(self.world, cell, offered).map(|most| ((c, offered), most)));
                self.own[c].rows.push(row);
                let number = self.number_of(offered);
                self.own[c].counts.push(number);
            }
        }
    }

    /// What a row that counts a supply counts, as a number.
    fn number_of(&mut self, offered: Offered) -> u64 {
        let known = self.offered.iter().position(|known| *known == offered);
        let position = known.unwrap_or_else(|| {
            self.offered.push(offered);
            self.offered.len() - 1
        });
        u64::MAX - position as u64
    }

    /// Served pods of each row in each cell that could serve them.
    fn serving(&mut self, demand: &Demand) -> Vec<(usize, usize, usize)> {
        let world = self.world;
        let mut served = Vec::new();
        for (c, cell) in world.cells.iter().enumerate() {
            for g in &cell.groups {
                let group = &world.groups[*g];
                let Some(upper) = demand.asked.get(g).filter(|_| self.reach.serves(c, group)) else {
                    continue;
                };
                let Some(row) = demand.rows[*g] else { continue };
                let mut coefficients = vec![(row, 1)];
                for (offered, n) in group.wants() {
                    coefficients.push((self.supply[&(c, offered)], -i32::try_from(n).unwrap_or(i32::MAX)));
                }
                let asked_for = matches!(self.question, Question::Served { group } if group == *g);
                let costs = if asked_for { self.costs(&[(Level::Served, 1)]) } else { vec![] };
                let extra = self.extra(*upper, coefficients, costs);
                self.own[c].extras.push(extra);
                served.push((*g, c, extra));
            }
        }
        served
    }

    /// Rows for `minCount`, `maxCount` and `spareCount`.
    fn bounds(&mut self) {
        let world = self.world;
        let present = present(world);
        let all: Vec<(usize, Offered, Bounds)> = bounds(world).map(|(p, n, b)| (p, n, *b)).collect();
        for (policy, offered, Bounds { min, spare, max }) in all {
            let now = present.get(&(policy, offered)).copied().unwrap_or(0);
            if min > 0 && self.costs.contains(&Level::Minimum) {
                let row = self.row(Sense::AtLeast, i64::from(min));
                let costs = self.costs(&[(Level::Minimum, 1)]);
                self.extra(i64::from(min), vec![(row, 1)], costs);
                self.existing.entry((policy, offered)).or_default().push(row);
            }
            if let Some(max) = max {
                // What exists beyond the maximum is not destroyed for it.
                let row = self.row(Sense::AtMost, i64::from(max).max(now));
                self.existing.entry((policy, offered)).or_default().push(row);
            }
            if spare > 0 && self.costs.contains(&Level::Spare) {
                let unit = spare_unit(world, policy, offered);
                let row = self.row(Sense::AtLeast, i64::from(spare).saturating_mul(i64::from(unit)));
                let costs = self.costs(&[(Level::Spare, 1)]);
                self.extra(i64::from(spare), vec![(row, unit)], costs);
                for (c, cell) in
                    world.cells.iter().enumerate().filter(|(_, cell)| cell.policy == Some(policy))
                {
                    // A node on which nothing can be scheduled offers no spare.
                    if cell.nodes.iter().any(|name| world.node(name).schedulable)
                        && let (offered, seats) = seats(cell, offered)
                        && let Some(supply) = self.supply.get(&(c, offered)).copied()
                    {
                        // A spare is a slice: as many free seats as it has, wherever they are.
                        let most = i64::from(spare).saturating_mul(i64::from(seats));
                        let worth = unit / i32::try_from(seats).unwrap_or(1).max(1);
                        let extra = self.extra(most, vec![(supply, -1), (row, worth)], vec![]);
                        self.own[c].extras.push(extra);
                    }
                }
            }
        }
    }

    /// The classes that have a choice become classes of the program; what the
    /// others supply is constant and moves to the right-hand sides.
    fn classes(&mut self) -> Vec<usize> {
        let world = self.world;
        let mut chosen = Vec::new();
        for (i, class) in world.classes.iter().enumerate() {
            let columns: Vec<Column> =
                class.targets.iter().map(|target| self.column(class, target)).collect();
            if class.targets.len() == 1 && class.targets[0].layout.is_none() {
                let only = &columns[0];
                let count = i64::try_from(class.gpus.len()).unwrap_or(i64::MAX);
                for (constant, cost) in self.constants.iter_mut().zip(&only.costs) {
                    *constant += cost * count;
                }
                for (row, coefficient) in &only.coefficients {
                    self.instance.rows[*row].rhs -= i64::from(*coefficient) * count;
                }
            } else {
                let count = u32::try_from(class.gpus.len()).unwrap_or(u32::MAX);
                self.own[class.cell].classes.push(self.instance.classes.len());
                self.instance.classes.push(solver::Class { count, columns: columns.into() });
                chosen.push(i);
            }
        }
        chosen
    }

    fn column(&self, class: &Class<'_>, target: &Target) -> Column {
        let Target { layout, exists, free, is_off, is_free, operations, stranded, .. } = target;
        let Target { misses_static, misses_whole, broken, .. } = target;
        let geometry = self.world.geometries.get(class.situation.geometry);
        let mut coefficients = Vec::new();
        for (profile, n) in free.iter() {
            let cell = &self.world.cells[class.cell];
            let (offered, seats) = cell.seats_of(geometry.profile(profile).name);
            if let Some(row) = self.supply.get(&(class.cell, offered)) {
                let seats = i32::try_from(seats).unwrap_or(i32::MAX);
                let most = self.most.get(&(class.cell, offered)).copied().unwrap_or(i64::MAX);
                let most = i32::try_from(most).unwrap_or(i32::MAX);
                coefficients.push((*row, i32::from(n).saturating_mul(seats).min(most)));
            }
        }
        if let Some(row) = self.supply.get(&(class.cell, Offered::WholeGpu)).filter(|_| *is_free) {
            coefficients.push((*row, 1));
        }
        if let Some(policy) = self.world.cells[class.cell].policy {
            for (profile, n) in exists.iter() {
                let name = geometry.profile(profile).name;
                for row in self.existing.get(&(policy, Offered::Slice(name))).into_iter().flatten() {
                    coefficients.push((*row, i32::from(n)));
                }
            }
            if *is_off {
                let rows = self.existing.get(&(policy, Offered::WholeGpu)).into_iter().flatten();
                coefficients.extend(rows.map(|row| (*row, 1)));
            }
        }
        coefficients.sort_unstable();
        let changed = i64::from(layout.is_some());
        let costs = self.costs(&[
            (Level::Static, i64::from(*misses_static)),
            (Level::Whole, i64::from(*misses_whole)),
            (Level::Changed, changed),
            (Level::Stranded, *stranded),
            (Level::Operations, *operations),
            (Level::Broken, if changed > 0 { *broken } else { 0 }),
            (Level::TieBreak, if changed > 0 { preference(class, target) } else { 0 }),
        ]);
        Column { coefficients, costs }
    }
}

/// A small number that depends on nothing but the situation and the layout,
/// and that spreads: adding it up, one of many equal plans is preferred, and
/// what remains of that plan is preferred after any part of it is done.
fn preference(class: &Class<'_>, target: &Target) -> i64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut mix = |value: u64| {
        hash ^= value;
        hash = hash.wrapping_mul(0x0100_0000_01b3);
        hash ^= hash >> 29;
    };
    match &class.situation.current {
        Current::Placed { used, idle } => [used, idle].into_iter().for_each(|layout| mix(layout.bits())),
        Current::Counted { all, idle } => {
            for (profile, n) in all.iter().chain(idle.iter()) {
                mix(u64::from(profile.0) << 8 | u64::from(n));
            }
        }
    }
    mix(target.layout.map_or(u64::MAX, Layout::bits));
    mix(class.cell as u64);
    i64::try_from(1 + hash % 997).unwrap_or(1)
}
