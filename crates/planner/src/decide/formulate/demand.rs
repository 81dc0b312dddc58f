//! Who asks for something, as rows: one for all who ask for the same and may use the same nodes, whatever their priorities.
//!
//! To a node, requests that differ in nothing but their priority are one another's equals: who of them is served matters to the
//! objective alone, and there the higher priority comes first. With a row for each priority the program would have every
//! choice many times, and with thirty priorities more kinds of things to do than can be searched.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::super::group::Group;
use super::super::world::World;
use super::{Building, Counted, Level, Question, Unserved};
use crate::solver::{RowIndex, Sense};

/// The demand as rows, by group.
pub(super) struct Demand {
    /// The row in which each is counted, if it can be served at all.
    pub(super) rows: Vec<Option<RowIndex>>,
    /// Who is unserved of each.
    pub(super) unserved: Vec<Unserved>,
    /// How many requests the row has, by the first of its groups.
    pub(super) asked: BTreeMap<usize, i64>,
}

impl Building<'_, '_> {
    /// For each kind that can be served at all: served + unserved = asked.
    pub(super) fn demand(&mut self) -> Demand {
        let world = self.world;
        let ages = self.costs.contains(&Level::Age).then(|| ranks(world));
        let mut can_be_served = vec![false; world.groups.len()];
        for (c, cell) in world.cells.iter().enumerate() {
            for g in &cell.groups {
                can_be_served[*g] |= self.reach.serves(c, &world.groups[*g]);
            }
        }
        let mut rows = vec![None; world.groups.len()];
        let mut unserved: Vec<Unserved> = world.groups.iter().map(|_| Unserved::Certain(0)).collect();
        let mut asked = BTreeMap::new();
        for kind in self.kinds() {
            let all: i64 = kind.iter().map(|g| requests(&world.groups[*g])).sum();
            let row = can_be_served[kind[0]].then(|| self.row(Sense::Equal, all));
            if row.is_some() {
                asked.insert(kind[0], all);
            }
            // Whoever is served least is first among the extras: so they are filled in.
            for g in kind.into_iter().rev() {
                rows[g] = row;
                let ages = ages.as_ref().map(|ages| ages[g].as_slice());
                unserved[g] = match row {
                    Some(row) => self.unserved(g, row, ages),
                    None => self.certain(g, ages),
                };
            }
        }
        Demand { rows, unserved, asked }
    }

    /// The groups of each row, the highest priority first. Who is served in turn is a row of its own, since it is asked who
    /// is served beside whom; so are gangs, and the group that a question is about.
    fn kinds(&self) -> Vec<Vec<usize>> {
        let mut position = HashMap::new();
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        for (g, group) in self.world.groups.iter().enumerate() {
            let is_meant = matches!(self.question, Question::Served { group } if group == g);
            if group.of_gang || self.turns.in_turn[g] || is_meant {
                kinds.push(vec![g]);
                continue;
            }
            let position = *position.entry(group.kind()).or_insert(kinds.len());
            match kinds.get_mut(position) {
                Some(kind) => kind.push(g),
                None => kinds.push(vec![g]),
            }
        }
        kinds
    }

    /// Nobody of a group can be served, whatever is planned.
    fn certain(&mut self, g: usize, ages: Option<&[i64]>) -> Unserved {
        let group = &self.world.groups[g];
        let asked = requests(group);
        let age = ages.map_or(0, |ages| ages.iter().sum());
        let unserved = |weight: i64| weight.saturating_mul(asked);
        let [gang, level, turn] = levels_of(group);
        let costs = self.costs(&[
            (gang, unserved(of_gang(group))),
            (level, unserved(group.weight())),
            (turn, self.turns.served[g]),
            (Level::Age, age),
        ]);
        self.constants.iter_mut().zip(costs).for_each(|(constant, cost)| *constant += cost);
        Unserved::Certain(asked)
    }

    /// Who is unserved of a group: first those who lose the least by it, which are the youngest.
    fn unserved(&mut self, g: usize, row: RowIndex, ages: Option<&[i64]>) -> Unserved {
        let group = &self.world.groups[g];
        let asked = requests(group);
        let turns = self.turns.served[g];
        let [gang, level, turn] = levels_of(group);
        let slices = [(gang, of_gang(group)), (level, group.weight())];
        let is_asked = matches!(self.question, Question::Turns { priority } if priority == group.priority);
        let extras = match ages {
            _ if is_asked || ages.is_none() && turns > 0 => {
                // First those who are not in question: the youngest.
                let of_all = |turn_cost| self.costs(&[slices[0], slices[1], (turn, turn_cost)]);
                let (rest, first) = (of_all(0), of_all(1));
                let rest = self.extra(asked - turns, vec![(row, 1)], rest);
                vec![rest, self.extra(turns, vec![(row, 1)], first)]
            }
            Some(ages) => (0_i64..)
                .zip(ages)
                .map(|(younger, age)| {
                    let in_turn = i64::from(younger >= asked - turns);
                    let costs = self.costs(&[slices[0], slices[1], (turn, in_turn), (Level::Age, *age)]);
                    self.extra(1, vec![(row, 1)], costs)
                })
                .collect(),
            None => {
                let costs = self.costs(&slices);
                vec![self.extra(asked, vec![(row, 1)], costs)]
            }
        };
        Unserved::Counted(extras)
    }
}

fn requests(group: &Group<'_>) -> i64 {
    i64::try_from(group.requests.len()).unwrap_or(i64::MAX)
}

fn of_gang(group: &Group<'_>) -> i64 {
    if group.of_gang { group.weight() } else { 0 }
}

/// The levels at which it is counted who is not served of a group.
fn levels_of(group: &Group<'_>) -> [Level; 3] {
    [Counted::Gangs, Counted::Slices, Counted::Turns]
        .map(|counted| Level::Unserved(Reverse(group.priority), counted))
}

/// For each group, what it costs in age to leave its youngest request
/// unserved, then its second youngest, and so on: the rank of the request
/// among all that wait, the youngest being 1.
fn ranks(world: &World<'_>) -> Vec<Vec<i64>> {
    let mut waiting: Vec<_> = world
        .groups
        .iter()
        .enumerate()
        .flat_map(|(g, group)| group.requests.iter().map(move |request| (request.since, &request.id, g)))
        .collect();
    waiting.sort_by(|a, b| b.cmp(a));
    let mut ranks = vec![Vec::new(); world.groups.len()];
    for (rank, (_, _, g)) in (1..).zip(waiting) {
        ranks[g].push(rank);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::super::super::memo::Targets;
    use super::super::super::turn::{Start, Turns};
    use super::super::super::world::Grain;
    use super::super::{Program, formulate};
    use super::*;
    use crate::demand::Request;
    use crate::solver::Row;
    use crate::testing::{a100, fleet, node, policy, request};

    /// The program for a node with eight GPUs, and pods of two kinds and three priorities. `in_turn`: whose turn it is asked.
    fn program(question: Question, in_turn: &[usize]) -> Program {
        let eight = (0..8).fold(node(), |node, _| node.gpu(a100()));
        let inventory = fleet().node("n1", eight).build();
        let ask = |(i, profile): (i32, &&str)| {
            let name = format!("wait-{i}");
            request(&name).asks(profile, 1).since(i64::from(i)).priority(i % 3).build()
        };
        let profiles = ["1g.10gb", "7g.80gb"].repeat(6);
        let requests: Vec<Request> = (0..).zip(&profiles).map(ask).collect();
        let (policies, mut kept) = ([policy("p").build()], Targets::default());
        let world = World::new(&inventory, &requests, &policies, Grain::Nodes, &mut kept);
        assert_eq!(world.groups.len(), 6);
        let turns = Turns {
            in_turn: (0..6).map(|g| in_turn.contains(&g)).collect(),
            served: vec![0; 6],
            queues: vec![],
            start: Start::default(),
        };
        formulate(&world, &turns, question)
    }

    /// Which groups share a row.
    fn shared(program: &Program) -> Vec<Vec<usize>> {
        let mut shared: BTreeMap<RowIndex, Vec<usize>> = BTreeMap::new();
        for (g, row) in program.demand.iter().enumerate() {
            shared.entry(row.expect("the node can have any of them")).or_default().push(g);
        }
        shared.into_values().collect()
    }

    #[test]
    fn those_who_differ_in_their_priority_alone_share_a_row() {
        let program = program(Question::Plan, &[]);
        assert_eq!(shared(&program), [[0, 2, 4], [1, 3, 5]]);
        assert_eq!(program.kinds(), 2);
        for row in program.demand.iter().flatten() {
            assert_eq!(program.instance.rows[*row], Row { sense: Sense::Equal, rhs: 6 });
        }
        let served: Vec<usize> = program.served.iter().map(|(g, ..)| *g).collect();
        assert_eq!(served, [0, 1], "one for all of a row");
        assert!(program.served.iter().all(|(_, _, extra)| program.instance.extras[*extra].upper == 6));
    }

    /// What fills a row in their order leaves out the youngest of the lowest priority.
    #[test]
    fn whoever_is_served_least_is_first() {
        let program = program(Question::Service, &[]);
        for kind in shared(&program) {
            let of = |g: usize| match &program.unserved[g] {
                Unserved::Counted(extras) => extras.clone(),
                Unserved::Certain(n) => panic!("{n} of {g}"),
            };
            let lowest_first: Vec<usize> = kind.iter().rev().flat_map(|g| of(*g)).collect();
            assert!(lowest_first.is_sorted(), "{lowest_first:?}");
        }
    }

    #[test]
    fn whose_turn_is_asked_about_and_whom_a_question_is_about_have_rows_of_their_own() {
        assert_eq!(shared(&program(Question::Plan, &[2])), [vec![0, 4], vec![1, 3, 5], vec![2]]);
        let about = program(Question::Served { group: 3 }, &[]);
        assert_eq!(shared(&about), [vec![0, 2, 4], vec![1, 5], vec![3]]);
    }
}
