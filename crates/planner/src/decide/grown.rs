//! A fleet to which GPUs come, in the planner's terms. The new nodes are alike and nobody is on them, so that the
//! fleet is put into these terms once, with one of them; for more of them, what is counted is counted again.

use std::sync::Arc;

use super::change::new_node;
use super::memo::Targets;
use super::world::{Grain, World};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::{GpuIndex, NodeName};
use crate::policy::Policy;
use crate::solver::{Column, Instance, Memory};

/// A fleet with so many new nodes of one GPU each.
#[derive(Debug)]
pub(super) struct Grown<'w> {
    world: World<'w>,
    name: &'w NodeName,
    gpu: GpuIndex,
    /// The cell that the new nodes are in, and how many others are.
    cell: (usize, usize),
    /// The class that their GPUs are in, and how many others are.
    class: (usize, usize),
}

impl<'w> Grown<'w> {
    /// The fleet with one of them. Nothing, where the new nodes have to be looked at one by one: then it matters
    /// which they are.
    pub(super) fn new(
        inventory: &'w Inventory,
        requests: &'w [Request],
        policies: &'w [Policy],
        kept: &mut Targets,
    ) -> Option<Self> {
        let mut world = World::new(inventory, requests, policies, Grain::Nodes, kept);
        if !world.is_small() {
            world = World::new(inventory, requests, policies, Grain::Alike, kept);
        }
        let (name, node) = inventory.nodes.get_key_value(&new_node(0))?;
        let gpu = *node.gpus.keys().next()?;
        let cell = world.cells.iter().position(|cell| cell.nodes.contains(&name))?;
        if world.cells[cell].one_by_one {
            return None;
        }
        let class = world.classes.iter().position(|class| class.gpus.contains(&(name, gpu)))?;
        let nodes = &mut world.cells[cell].nodes;
        nodes.retain(|other| *other != name);
        let gpus = &mut world.classes[class].gpus;
        gpus.retain(|(other, _)| *other != name);
        let (cell, class) = ((cell, nodes.len()), (class, gpus.len()));
        let mut grown = Self { world, name, gpu, cell, class };
        grown.count(1);
        Some(grown)
    }

    /// The fleet with so many of them; all have the name of the first.
    pub(super) fn with(&mut self, count: usize) -> &World<'w> {
        self.count(count);
        &self.world
    }

    fn count(&mut self, count: usize) {
        let nodes = &mut self.world.cells[self.cell.0].nodes;
        nodes.truncate(self.cell.1);
        nodes.extend(std::iter::repeat_n(self.name, count));
        let gpus = &mut self.world.classes[self.class.0].gpus;
        gpus.truncate(self.class.1);
        gpus.extend(std::iter::repeat_n((self.name, self.gpu), count));
    }
}

/// What is kept from one program to the next, where they differ in a few numbers.
#[derive(Debug, Default)]
pub(super) struct Alike {
    columns: Vec<Arc<[Column]>>,
    memory: Memory,
}

impl Alike {
    /// Gives an instance the columns of the one before, where they are the same: they are known by that.
    pub(super) fn recognise<'i>(&mut self, instance: &'i mut Instance) -> (&'i Instance, &mut Memory) {
        for (class, known) in instance.classes.iter_mut().zip(&self.columns) {
            if class.columns == *known {
                class.columns = Arc::clone(known);
            }
        }
        self.columns = instance.classes.iter().map(|class| Arc::clone(&class.columns)).collect();
        (instance, &mut self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::with_gpus;
    use super::super::formulate::{Question, formulate};
    use super::super::turn::{Start, Turns};
    use super::*;
    use crate::testing::{a100, fleet, node, policy, request};

    /// Two nodes of eight GPUs with somebody on one of them, and bounds that count what new GPUs have.
    #[test]
    fn counted_for_more_it_is_the_fleet_with_more() {
        let some = |i: u16| match i {
            0 => a100().used("2g.20gb", 0, "holder"),
            1 => a100().idle("7g.80gb", 0),
            _ => a100().idle("3g.40gb", 0),
        };
        let eight = || (0..8).map(some).fold(node(), crate::testing::NodeBuilder::gpu);
        let inventory = fleet().node("n1", eight()).node("n2", eight().unschedulable()).build();
        let policies = [policy("p").bounds("7g.80gb", 2, 1, Some(3)).bounds("1g.10gb", 4, 0, None).build()];
        let ask = |(i, profile): (i64, &&str)| {
            let name = format!("wait-{i}");
            request(&name).asks(profile, 1).since(i).priority(if i % 2 == 0 { 0 } else { 5 }).build()
        };
        let profiles = ["1g.10gb", "7g.80gb", "3g.40gb", "7g.80gb", "2g.20gb"];
        let requests: Vec<Request> = (0..).zip(&profiles).map(ask).collect();
        let like = &inventory.nodes[&NodeName::from("n1")];
        let gpu = &like.gpus[&GpuIndex(0)];
        let program = |world: &World<'_>| {
            let turns = Turns {
                in_turn: vec![false; world.groups.len()],
                served: vec![0; world.groups.len()],
                queues: vec![],
                start: Start::default(),
            };
            formulate(world, &turns, Question::Served { group: 1 }).instance
        };
        let mut kept = Targets::default();
        let one = with_gpus(&inventory, like, gpu, 1);
        let mut grown = Grown::new(&one, &requests, &policies, &mut kept).expect("no node stands alone");
        for count in [1, 4, 2, 30] {
            let more = with_gpus(&inventory, like, gpu, count);
            let fresh = World::new(&more, &requests, &policies, Grain::Nodes, &mut kept);
            assert_eq!(program(grown.with(count)), program(&fresh), "{count}");
        }
    }
}
