//! The most of something that nodes could ever have, whoever holds what now: by what their GPUs are, and by the maximum of
//! their policy.

use crate::inventory::Node;
use crate::names::NodeName;
use crate::offered::Offered;
use crate::policy::{LayoutPolicy, Policy};
use crate::report::{Help, Why};

use super::group::Group;
use super::world::World;

/// The most slices of a profile, or seats of them, or whole GPUs, that an empty node could have.
pub(super) fn most_of(node: &Node, asks: Offered) -> u32 {
    let Some(profile) = asks.profile() else {
        let whole = if asks == Offered::WholeGpu { node.gpus.len() } else { 0 };
        return u32::try_from(whole).unwrap_or(u32::MAX);
    };
    let (offered, seats) = node.seats_of(profile);
    if offered != asks {
        return 0;
    }
    let slices: u32 = node
        .gpus
        .values()
        .filter_map(|gpu| {
            let index = gpu.geometry.profile_named(profile)?;
            let mut layout = mig::Layout::EMPTY;
            for placement in gpu.geometry.placements().filter(|p| gpu.geometry.profile_of(*p) == index) {
                if gpu.geometry.free(layout).contains(placement) {
                    layout = layout.with(placement);
                }
            }
            Some(layout.len())
        })
        .sum();
    slices.saturating_mul(seats)
}

/// The most of it that a policy allows on these nodes, which are all of its own: its maximum, or what exists beyond that, since
/// it is not destroyed for a maximum. Nothing where the policy has no maximum.
pub(super) fn allowed<'n>(
    policy: &Policy,
    nodes: impl Iterator<Item = &'n Node> + Clone,
    asks: Offered,
) -> Option<u32> {
    let LayoutPolicy::DemandDriven { slices, whole_gpus, .. } = &policy.layout else { return None };
    let bounds = match asks.profile() {
        Some(profile) => slices.get(&profile),
        None => whole_gpus.as_ref(),
    };
    let max = bounds?.max?;
    let gpus = nodes.clone().flat_map(|node| node.gpus.values());
    let there = match asks.profile() {
        Some(profile) => gpus.flat_map(|gpu| gpu.slices.iter()).filter(|of| of.profile == profile).count(),
        None => gpus.filter(|gpu| gpu.slices.whole().is_some()).count(),
    };
    // Of slices that several share, each has a seat for each of them.
    let seats =
        asks.profile().map_or(1, |profile| nodes.map(|node| node.seats_of(profile).1).max().unwrap_or(1));
    Some(max.max(u32::try_from(there).unwrap_or(u32::MAX)).saturating_mul(seats))
}

/// An advice, with the field of a policy that allows no more.
pub(super) fn as_allowed(advice: &str, policy: &Policy, asks: Offered) -> String {
    format!("{advice}, which is what policy {} allows ({})", policy.name, asks.bound("maxCount"))
}

/// More than the policies of the nodes allow, or more than any node could have.
#[derive(Clone, Debug)]
pub(super) struct TooMany {
    /// Why it is not served.
    pub(super) why: Why,
    /// What it could ask for, if anything is allowed.
    pub(super) help: Option<Help>,
    /// Whether some node could have as much.
    pub(super) by_policy: bool,
}

/// Whether one of a group asks for more than any of the nodes that it may use could have, or is allowed to have.
pub(super) fn too_many(
    world: &World<'_>,
    group: &Group<'_>,
    nodes: &[(&NodeName, &Node)],
) -> Option<TooMany> {
    group.wants().find_map(|(asks, n)| {
        let each = nodes.iter().map(|(name, node)| {
            let most = most_of(node, asks);
            let limit = world.policy_of(name).and_then(|policy| {
                let own = world.assignment.nodes_of(&policy.name);
                let own: Vec<&Node> = own.filter_map(|name| world.inventory.nodes.get(name)).collect();
                Some((policy, allowed(policy, own.into_iter(), asks).filter(|allowed| *allowed < most)?))
            });
            (most, limit)
        });
        let each: Vec<(u32, Option<(&Policy, u32)>)> = each.collect();
        let of = |(most, limit): &(u32, Option<(&Policy, u32)>)| limit.map_or(*most, |(_, allowed)| allowed);
        let best = each.iter().max_by_key(|node| (of(node), node.1.is_none()))?;
        if of(best) >= n {
            return None;
        }
        let forbids = |policy: &Policy| Why::PolicyForbids {
            policy: policy.name.clone(),
            field: asks.bound("maxCount"),
        };
        let most = each.iter().map(|(most, _)| *most).max().unwrap_or(0);
        let stopped = each.iter().filter(|(most, _)| *most >= n).find_map(|(_, limit)| *limit);
        let why = match stopped.or(best.1.filter(|(_, allowed)| *allowed == 0)) {
            Some((policy, _)) => forbids(policy),
            None => Why::TooLarge { most, profile: asks },
        };
        let advice = format!("ask for at most {} of {}", of(best), asks.resource_name());
        let advice = match best.1 {
            Some((policy, _)) => as_allowed(&advice, policy, asks),
            None => advice,
        };
        let help = (of(best) > 0).then_some(Help::ChangeRequest { advice });
        Some(TooMany { why, help, by_policy: stopped.is_some() })
    })
}
