//! What an unserved request could ask for instead: an existing free slice that the plan gives to no other
//! request.
//!
//! A request for it is served, whatever else is planned: all other requests get as much as without it, and
//! the slice takes nothing from them. (A spare may be used; then another one is created.)

use std::collections::BTreeSet;

use mig::ProfileName;

use super::allocate::Allocation;
use super::group::Group;
use super::world::World;
use crate::inventory::{Hold, Node};
use crate::names::NodeName;
use crate::report::Help;

/// The free profile that is most like what a group asks for, on the nodes that
/// it may use and fits on. None for who asks for several slices: of those a
/// smaller one takes no place.
pub(super) fn free_now(
    world: &World<'_>,
    allocation: &Allocation<'_>,
    group: &Group<'_>,
    nodes: &[(&NodeName, &Node)],
) -> Option<Help> {
    // It might be more than their share.
    let max = |quota: &super::shares::Quota| quota.max.is_some() && group.shares.contains(&quota.whose);
    if world.quotas.iter().any(max) {
        return None;
    }
    if !group.shared.is_empty() {
        return None;
    }
    let mut asked = group.slices.iter();
    let (Some((asked, 1)), None) = (asked.next(), asked.next()) else { return None };
    let mut free: BTreeSet<ProfileName> = BTreeSet::new();
    // A node on its way is in the inventory as it will be, and one of which pods
    // are evicted is planned for as it is after that: neither is so now.
    let is_as_planned = |(name, node): &&(&NodeName, &Node)| {
        !matches!(node.hold, Some(Hold::Changing)) && !world.evictions.nodes.contains_key(*name)
    };
    for (name, _) in nodes.iter().filter(is_as_planned) {
        let left = allocation.left_over.get(name).filter(|left| left.fits(&group.takes));
        free.extend(left.into_iter().flat_map(|left| &left.free));
    }
    // With extras of the GPU, or without them, it would be another thing; and who
    // takes more than they need leaves others with less.
    free.retain(|profile| {
        profile.attribute == asked.attribute && profile.compute <= asked.compute && profile != asked
    });
    let profile = free.into_iter().min_by_key(|profile| unlikeness(*asked, *profile))?;
    Some(Help::FreeNow { profile })
}

/// How far another profile is from what is asked for; less is nearer.
pub(super) fn unlikeness(asked: ProfileName, other: ProfileName) -> (bool, i32, i32, ProfileName) {
    let memory = i32::from(other.memory_gb) - i32::from(asked.memory_gb);
    let compute = i32::from(other.compute) - i32::from(asked.compute);
    (other.attribute != asked.attribute, compute.abs(), memory.abs(), other)
}
