//! Assigns slices to pods: replacements for kube-scheduler and kubelet.
//!
//! A pod goes to a node that has its slices: to the one with the most free compute slices, as the scheduler
//! spreads pods by default, or with the fewest, if it is configured to pack; among equals to the first by
//! name. It gets an arbitrary one of the equal slices of the node: the device plugin prefers none, and
//! kubelet takes the first by UUID. A hash represents that order.

use crate::fleet::Fleet;
use crate::journal::{Holding, Journal};
use crate::trace::Asked;
use crate::world::{Node, World};

/// Which of the nodes that have what a pod asks for it goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The one with the most to spare (kube-scheduler's `LeastAllocated`, the default).
    #[default]
    Spread,
    /// The one with the least to spare (`MostAllocated`).
    Pack,
}

/// Lets those that wait bind, in their order. Who is bound leaves the queue.
pub(crate) fn bind(
    world: &mut World,
    fleet: &Fleet,
    trace: &[Asked],
    waiting: &mut Vec<usize>,
    scheduler: Scheduler,
    now: i64,
    journal: &mut Journal,
) -> Vec<usize> {
    let mut bound = Vec::new();
    // Who asks for the same as somebody who found nothing finds nothing.
    let mut in_vain = Vec::new();
    waiting.retain(|request| {
        let asked = &trace[*request];
        let wants = (asked.profile, asked.count);
        if in_vain.contains(&wants) {
            return true;
        }
        let count = usize::try_from(asked.count).unwrap_or(usize::MAX);
        let fits = |node: &Node| node.stage.is_open() && node.free(asked.profile) >= count;
        let best = (0..world.nodes.len()).filter(|node| fits(&world.nodes[*node])).min_by_key(|node| {
            let spare = i128::from(unheld(&world.nodes[*node], fleet, *node));
            let rank = match scheduler {
                Scheduler::Spread => -spare,
                Scheduler::Pack => spare,
            };
            (rank, *node)
        });
        let Some(node) = best else {
            in_vain.push(wants);
            return true;
        };
        for _ in 0..asked.count {
            take(&mut world.nodes[node], node, *request, asked, now, journal);
        }
        bound.push(*request);
        false
    });
    bound
}

/// The compute slices of a node that nobody holds.
fn unheld(node: &Node, fleet: &Fleet, at: usize) -> u64 {
    let has: u64 = fleet.nodes[at].gpus.iter().map(|gpu| u64::from(gpu.geometry.compute())).sum();
    let slices = node.gpus.iter().flat_map(|gpu| &gpu.slices);
    let held: u64 =
        slices.filter(|slice| slice.holder.is_some()).map(|slice| u64::from(slice.profile.compute)).sum();
    has - held
}

fn take(node: &mut Node, at: usize, request: usize, asked: &Asked, now: i64, journal: &mut Journal) {
    let free = node.gpus.iter_mut().enumerate().flat_map(|(gpu, state)| {
        let slices = state.slices.iter_mut();
        slices.filter(|s| s.profile == asked.profile && s.holder.is_none()).map(move |slice| (gpu, slice))
    });
    let (gpu, slice) = free
        .min_by_key(|(gpu, slice)| (uuid(at, *gpu, slice.start), *gpu, slice.start))
        .expect("the node was chosen for what it has free");
    slice.holder = Some(request);
    journal.holdings.push(Holding {
        request,
        node: at,
        gpu,
        profile: asked.profile,
        start: slice.start,
        from: now,
        until: asked.until,
    });
}

/// Stands for the UUID of a slice: the same place has the same, and their
/// order means nothing. (The finaliser of splitmix64.)
fn uuid(node: usize, gpu: usize, start: u8) -> u64 {
    let place = (node as u64) << 16 | (gpu as u64) << 8 | u64::from(start);
    let mut bits = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
