//! What nodes have of a profile, of seats of it, or of whole GPUs: as they are, and after a step.

use std::collections::BTreeSet;

use crate::inventory::{Gpu, Node, Use};
use crate::names::PodRef;
use crate::offered::Offered;
use crate::plan::{GpuChange, NodeStep};

/// What stands behind a resource on a node, and how many pods have one of it;
/// nothing, where the node does not offer it by that name.
pub(super) fn unit(node: &Node, offered: Offered) -> Option<(Offered, u32)> {
    let sharing = offered.profile().and_then(|profile| node.shared.get(&profile));
    match (offered, sharing) {
        (Offered::WholeGpu, _) | (Offered::Slice(_), None) => Some((offered, 1)),
        (Offered::Slice(_), Some(sharing)) => (!sharing.renamed).then_some((offered, sharing.replicas)),
        (Offered::SharedSlice(profile), Some(sharing)) => {
            sharing.renamed.then_some((Offered::Slice(profile), sharing.replicas))
        }
        (Offered::SharedSlice(_), None) | (Offered::SharedGpu, _) => None,
    }
}

/// Slices of a profile on a GPU as it is, with their use; or the use of the GPU where MIG is off.
pub(super) fn uses_of(gpu: &Gpu, offered: Offered) -> Vec<&Use> {
    match offered {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => {
            gpu.slices.iter().filter(|slice| slice.profile == profile).map(|slice| slice.used).collect()
        }
        Offered::WholeGpu | Offered::SharedGpu => gpu.slices.whole().into_iter().collect(),
    }
}

/// How many of it a GPU will have after a change.
pub(super) fn count(change: &GpuChange, offered: Offered) -> u32 {
    let count = match offered {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => {
            change.after.iter().filter(|(name, _)| *name == profile).count()
        }
        Offered::WholeGpu | Offered::SharedGpu => usize::from(change.after.is_empty()),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How many its pods hold, as the node counts them; none where it does not say.
fn counted(node: &Node, offered: Offered) -> Option<u32> {
    match offered {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => node.allocated.get(&profile).copied(),
        Offered::WholeGpu | Offered::SharedGpu => Some(node.whole_held),
    }
}

/// How many slices of a profile, seats of them, or whole GPUs, are there, and held by nobody.
pub(super) fn free_now(node: &Node, offered: Offered) -> u32 {
    let Some((offered, seats)) = unit(node, offered) else { return 0 };
    let seats = seats as usize;
    let all: Vec<&Use> = node.gpus.values().flat_map(|gpu| uses_of(gpu, offered)).collect();
    let busy = all.iter().filter(|used| !used.is_idle()).count();
    let sure = all.iter().filter(|used| matches!(used, Use::InUse { .. })).count();
    let held = counted(node, offered).map_or(busy * seats, |n| (n as usize).clamp(sure, busy * seats));
    u32::try_from(all.len() * seats - held).unwrap_or(u32::MAX)
}

/// How many slices of a profile, seats of them, or whole GPUs, the node will have free after
/// the step: all that it will have, less those that its pods hold and keep.
pub(super) fn free_after(step: &NodeStep, node: &Node, offered: Offered) -> u32 {
    let Some((offered, seats)) = unit(node, offered) else { return 0 };
    let evicted: BTreeSet<&PodRef> = step.evicts.iter().collect();
    let (mut total, mut in_use, mut given_back, mut still) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut sure, mut maybe) = (BTreeSet::new(), BTreeSet::new());
    for (index, gpu) in &node.gpus {
        let now = uses_of(gpu, offered);
        for used in &now {
            match used {
                Use::Idle => {}
                Use::InUse { by } => {
                    in_use += 1;
                    if evicted.contains(by) {
                        given_back += 1;
                        sure.insert(by);
                    } else {
                        still += 1;
                    }
                }
                Use::MaybeInUse { by } => {
                    maybe.extend(by.iter().filter(|pod| evicted.contains(pod)));
                    still += u32::from(by.is_empty() || by.iter().any(|pod| !evicted.contains(pod)));
                }
            }
        }
        let change = step.gpus.iter().find(|change| change.gpu == *index);
        let here = u32::try_from(now.len()).unwrap_or(u32::MAX);
        total += change.map_or(here, |change| count(change, offered));
    }
    let total = total.saturating_mul(seats);
    let held = counted(node, offered).unwrap_or(0).max(in_use);
    // Whoever may hold one gives one back, unless it is counted already.
    let given_back = given_back + u32::try_from(maybe.difference(&sure).count()).unwrap_or(u32::MAX);
    if given_back == 0 {
        return total.saturating_sub(held);
    }
    // No more are held than somebody who stays may hold.
    total.saturating_sub(held.saturating_sub(given_back).min(still.saturating_mul(seats)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GpuIndex;
    use crate::testing::{GpuBuilder, NodeBuilder, a100, node, pod, profile};

    fn step(evicts: &[&str], gpus: Vec<GpuChange>) -> NodeStep {
        NodeStep {
            node: "ridge".into(),
            policy: "research".into(),
            gpus,
            enable_mig: false,
            evicts: evicts.iter().map(|name| pod(name)).collect(),
            serves: vec![],
        }
    }

    /// A GPU that is cut into these, wherever the driver puts them.
    fn cut(gpu: u16, before: GpuBuilder, after: &[&str]) -> GpuChange {
        let before = before.build();
        GpuChange {
            gpu: GpuIndex(gpu),
            model: before.model,
            before: before.slices,
            after: after.iter().zip(0..).map(|(name, start)| (profile(name), start)).collect(),
            creation_order: None,
        }
    }

    #[track_caller]
    fn check(node: NodeBuilder, step: &NodeStep, expect: u32) {
        assert_eq!(free_after(step, &node.build(), Offered::Slice(profile("1g.10gb"))), expect);
    }

    #[test]
    fn what_pods_hold_and_keep_is_not_free() {
        let nothing = step(&[], vec![]);
        let held =
            || a100().counted("1g.10gb", 4).counted_used("1g.10gb", "ada").counted_used("1g.10gb", "bob");
        check(node().gpu(held()), &nothing, 4);
        check(node().gpu(held()).gpu(held()), &nothing, 8);
        // The node counts more as held than its slices say, or fewer: the greater counts.
        check(node().gpu(held()).allocated("1g.10gb", 5), &nothing, 1);
        check(node().gpu(held()).allocated("1g.10gb", 0), &nothing, 4);
        check(node().gpu(held()).allocated("1g.10gb", 9), &nothing, 0);
        // Another profile's holders hold none of these.
        check(node().gpu(held()).gpu(a100().counted_used("3g.40gb", "eve")), &nothing, 4);
    }

    #[test]
    fn what_is_cut_anew_counts_as_it_will_be() {
        let idle = || a100().counted("3g.40gb", 2);
        let held = || a100().counted("1g.10gb", 1).counted_used("1g.10gb", "ada");
        let to_five = step(&[], vec![cut(0, idle(), &["1g.10gb"; 5])]);
        check(node().gpu(idle()).gpu(held()), &to_five, 6);
        let to_none = step(&[], vec![cut(1, held(), &["3g.40gb"])]);
        check(node().gpu(idle()).gpu(held()), &to_none, 0);
    }

    #[test]
    fn who_is_evicted_gives_back_what_it_holds_for_certain() {
        let held = || {
            let gpu = a100().counted("1g.10gb", 1);
            gpu.counted_used("1g.10gb", "ada").counted_used("1g.10gb", "ada").counted_used("1g.10gb", "bob")
        };
        check(node().gpu(held()), &step(&["ada"], vec![]), 3);
        check(node().gpu(held()), &step(&["bob"], vec![]), 2);
        check(node().gpu(held()), &step(&["ada", "bob"], vec![]), 4);
        check(node().gpu(held()), &step(&["eve"], vec![]), 1);
        // On two GPUs, two of each.
        check(node().gpu(held()).gpu(held()), &step(&["ada"], vec![]), 6);
        // Of those that the node counts and no slice names, none is given back,
        // unless nobody who stays could hold it.
        check(node().gpu(held()).allocated("1g.10gb", 4), &step(&["bob"], vec![]), 2);
    }

    #[test]
    fn who_may_hold_one_gives_back_one_at_least() {
        // Two of three are held, nobody knows which: one by ada, one by bob.
        let maybe = || a100().counted_maybe("1g.10gb", 3, &["ada", "bob"]);
        check(node().gpu(maybe()), &step(&[], vec![]), 1);
        check(node().gpu(maybe()), &step(&["ada"], vec![]), 2);
        check(node().gpu(maybe()), &step(&["ada", "bob"], vec![]), 3);
        // Whoever holds one for certain and may hold another is counted once.
        let both = || a100().counted_used("1g.10gb", "ada").counted_maybe("1g.10gb", 3, &["ada", "bob"]);
        check(node().gpu(both()).allocated("1g.10gb", 3), &step(&["ada"], vec![]), 2);
        // One that may be held, nobody can say by whom, stays held.
        let nobody = || a100().counted_used("1g.10gb", "ada").counted_maybe("1g.10gb", 1, &[]);
        check(node().gpu(nobody()).allocated("1g.10gb", 2), &step(&["ada"], vec![]), 1);
        // No more are held than somebody who stays may hold: what the node counts
        // beyond that was of those who go.
        let all = || a100().counted_maybe("1g.10gb", 2, &["ada"]);
        check(node().gpu(all()).allocated("1g.10gb", 2), &step(&["ada"], vec![]), 2);
    }
}
