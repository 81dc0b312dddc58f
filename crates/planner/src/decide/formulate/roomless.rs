//! The program without the rooms of nodes, for a bound that costs next to nothing.
//!
//! Where each pod takes CPU and memory of its own, each has a row, and the relaxation of the whole takes as long as a
//! part of a search. Without rooms those who ask for the same slices are alike. Nothing that can be done is lost with
//! the rows, so what cannot be had without them cannot be had with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::world::World;
use super::Program;
use crate::offered::Offered;
use crate::solver::{Extra, Instance, RowIndex, Sense};

/// Priorities, whether it is of a gang, and what is asked for.
type Asks = (BTreeSet<i32>, bool, Vec<(Offered, u32)>);

/// Coefficients and costs of extras that are one.
type Alike = (Vec<(RowIndex, i32)>, Vec<i64>);

impl super::Level {
    /// Whether it counts those whose turn it is: what it comes to says nothing without who they are.
    pub(in super::super) fn counts_turns(self) -> bool {
        matches!(self, Self::Unserved(_, super::Counted::Turns))
    }
}

impl Program {
    /// The first levels, with all requests that ask for the same taken together and no bounds on what nodes have left.
    pub(in super::super) fn without_rooms(&self, world: &World<'_>, levels: usize) -> Instance {
        let mut merged: Vec<Option<RowIndex>> = (0..self.instance.rows.len()).map(Some).collect();
        for row in self.parts.iter().flat_map(|part| &part.rows) {
            if self.instance.rows[*row].sense == Sense::AtMost {
                merged[*row] = None;
            }
        }
        // Who asks in each row, and at which priorities: what they ask for is the same.
        let mut asks: BTreeMap<RowIndex, Asks> = BTreeMap::new();
        for (group, row) in world.groups.iter().zip(&self.demand) {
            if let Some(row) = row {
                let (priorities, ..) = asks
                    .entry(*row)
                    .or_insert_with(|| (BTreeSet::new(), group.of_gang, group.wants().collect()));
                priorities.insert(group.priority);
            }
        }
        let mut first = BTreeMap::new();
        for (row, asks) in asks {
            merged[row] = Some(*first.entry(asks).or_insert(row));
        }
        let mut instance = Instance { levels, ..Instance::default() };
        let mut position: Vec<Option<RowIndex>> = vec![None; merged.len()];
        for (row, to) in merged.iter().enumerate() {
            if *to == Some(row) {
                position[row] = Some(instance.rows.len());
                instance.rows.push(self.instance.rows[row]);
            } else if let Some(to) = to.and_then(|to| position[to]) {
                position[row] = Some(to);
                instance.rows[to].rhs += self.instance.rows[row].rhs;
            }
        }
        let moved = |coefficients: &[(RowIndex, i32)]| -> Vec<(RowIndex, i32)> {
            coefficients.iter().filter_map(|(row, a)| Some((position[*row]?, *a))).collect()
        };
        instance.classes.clone_from(&self.instance.classes);
        for column in instance.classes.iter_mut().flat_map(|class| Arc::make_mut(&mut class.columns)) {
            column.coefficients = moved(&column.coefficients);
            column.costs.truncate(levels);
        }
        let mut extras: BTreeMap<Alike, i64> = BTreeMap::new();
        for Extra { upper, coefficients, costs } in &self.instance.extras {
            let costs = costs.iter().take(levels).copied().collect();
            let sum = extras.entry((moved(coefficients), costs)).or_default();
            *sum = sum.saturating_add(*upper);
        }
        let extras = extras.into_iter();
        instance.extras =
            extras.map(|((coefficients, costs), upper)| Extra { upper, coefficients, costs }).collect();
        instance
    }
}
