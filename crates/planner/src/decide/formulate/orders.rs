//! In which orders requests can be served one by one, by which nodes.

use std::cmp::Reverse;

use super::super::turn::Turns;
use super::super::world::World;
use super::{Counted, Level, Program};
use crate::solver::{Orders, RowIndex};

impl Program {
    /// Nodes by name. Requests of a higher priority first, and of each priority the gangs; then by age, or the largest first. And those whose turn it
    /// is, as far as that is known.
    pub(in super::super) fn orders(&self, world: &World<'_>, turns: &Turns) -> Orders {
        if self.parts.is_empty() {
            return Orders::default();
        }
        let parts = self.part_cells.iter().enumerate();
        let nodes =
            parts.flat_map(|(part, cell)| world.cells[*cell].nodes.iter().map(move |name| (*name, part)));
        let mut copies: Vec<_> = nodes.collect();
        copies.sort_unstable();
        let groups = world.groups.iter().zip(&self.demand);
        let groups = groups.filter_map(|(group, row)| Some((group, (*row)?)));
        let mut all: Vec<_> =
            groups.flat_map(|(group, row)| group.requests.iter().map(move |r| (group, r, row))).collect();
        all.sort_unstable_by_key(|(group, r, _)| (Reverse(group.priority), !group.of_gang, r.since, &r.id));
        let rows = |all: &[(_, _, RowIndex)]| all.iter().map(|(_, _, row)| *row).collect();
        let by_age = rows(&all);
        all.sort_by_key(|(group, _, _)| {
            let size = (group.weight(), group.takes.cpu_milli, group.takes.memory_bytes);
            (Reverse(group.priority), !group.of_gang, Reverse(size))
        });
        let by_size = rows(&all);
        let in_turn = turns.queues.iter().filter_map(|queue| {
            let level = Level::Unserved(queue.priority, Counted::Turns);
            let level = self.levels.iter().position(|l| *l == level)?;
            let served = queue.turns.iter().filter(|turn| turn.served);
            Some((level, served.filter_map(|turn| self.demand[turn.group]).collect()))
        });
        Orders {
            copies: copies.into_iter().map(|(_, part)| part).collect(),
            starts: vec![by_age, by_size],
            turns: in_turn.collect(),
        }
    }
}
