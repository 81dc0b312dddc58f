//! What the operator knows of the simulated cluster.

use reconcile::{PlannedRound, remembered};
use rollout::Progress;

use crate::objects::objects;
use crate::operator::Operator;
use crate::world::World;

/// The progress of a node's rollout, as it was stored.
pub(crate) fn progress(world: &World, node: &str) -> Progress {
    remembered::read(world.gpu_nodes.get(node)).expect("the story's operator reads what it wrote")
}

/// What the operator thinks of the cluster as it is, without doing anything.
pub(crate) fn plan_round(world: &World) -> PlannedRound {
    let objects = objects(world);
    reconcile::plan_round(&Operator::default().input(world, &objects))
}
