//! What a round of the operator costs in planning: the first one, and the one after a pod has come, with
//! what the first one has kept and without.
//!
//! `cargo bench -p slicewright-planner --bench rounds [-- ROUNDS [LARGEST_FLEET]]`

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod clock;

use planner::decide::decide;
use planner::decide::decide_without_advice;
use planner::inventory::Room;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

use crate::clock::timed;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let times = numbers.next().unwrap_or(3);
    let policies = [policy("p").build()];
    for (nodes, pods, kinds, roomy) in [
        (64, 700, 12, true),
        (64, 1500, 12, true),
        (512, 6000, 12, true),
        (40, 300, 6, false),
        (40, 480, 12, false),
    ] {
        let (mut inventory, mut requests) = rooms(Rooms { nodes, gpus: 8, pods, kinds }, 7);
        if roomy {
            inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
        }
        for (i, request) in (0..).zip(&mut requests) {
            request.priority = i % 3;
        }
        for _ in 0..times {
            let (plan, _) = timed(|| decide_without_advice(&inventory, &requests, &policies));
            let (all, _) = timed(|| decide(&inventory, &requests, &policies));
            println!("{nodes} {pods} {kinds} roomy {roomy}: plan {plan:?} with advice {all:?}");
        }
    }
}
