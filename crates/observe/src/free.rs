//! What is free on a node, and since when.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mig::ProfileName;
use planner::inventory::Node;

/// How many slices of a profile, or seats of them where several pods share each, are there and not held.
#[must_use]
pub fn free_slices(node: &Node, profile: ProfileName) -> u32 {
    let exist: usize =
        node.gpus.values().map(|gpu| gpu.slices.profiles().filter(|of| *of == profile).count()).sum();
    let held = node.allocated.get(&profile).copied().unwrap_or(0);
    // Of slices that several pods share, seats are held.
    let exist = exist.saturating_mul(node.seats_of(profile).1 as usize);
    u32::try_from(exist).unwrap_or(u32::MAX).saturating_sub(held)
}

/// Since when each profile has had a free, schedulable slice on a node: kept
/// while that lasts. What `GpuNode.status.rollout.schedulableSince` should say
/// from now on.
#[must_use]
pub fn schedulable_since(
    before: &BTreeMap<String, Timestamp>,
    node: &Node,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    if !node.schedulable {
        return BTreeMap::new();
    }
    let profiles: BTreeSet<ProfileName> = node
        .gpus
        .values()
        .flat_map(|gpu| gpu.geometry.profiles().iter().map(|spec| spec.name).collect::<Vec<_>>())
        .collect();
    profiles
        .into_iter()
        .filter(|profile| free_slices(node, *profile) > 0)
        .map(|profile| {
            let name = profile.to_string();
            let since = before.get(&name).copied().unwrap_or(now);
            (name, since)
        })
        .collect()
}
