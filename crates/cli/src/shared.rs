//! Slices of which each serves several pods of a node.

use std::fmt;

use mig::ProfileName;
use planner::inventory::Node;
use serde::Serialize;

/// The slices of one profile of a node, as pods have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedSlices {
    /// The profile.
    pub profile: ProfileName,
    /// How many slices of it there are.
    pub slices: u32,
    /// How many pods share each.
    pub replicas: u32,
    /// What pods ask for.
    pub resource: String,
    /// The seats of all of them together.
    pub total: u32,
    /// How many of these pods hold.
    pub held: u32,
}

/// What several pods share on a node; nothing where each slice is for one.
#[must_use]
pub fn of_node(node: &Node) -> Vec<SharedSlices> {
    let of_profile = |profile: &ProfileName| {
        let (offered, each) = node.seats_of(*profile);
        let slices = node.gpus.values().flat_map(|gpu| gpu.slices.profiles());
        let slices = u32::try_from(slices.filter(|of| of == profile).count()).unwrap_or(u32::MAX);
        let total = slices.saturating_mul(each);
        SharedSlices {
            profile: *profile,
            slices,
            replicas: each,
            resource: offered.resource_name(),
            total,
            held: node.allocated.get(profile).copied().unwrap_or(0).min(total),
        }
    };
    node.shared.keys().map(of_profile).collect()
}

impl fmt::Display for SharedSlices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, slices, replicas, resource, total, held } = self;
        let free = total - held;
        write!(
            f,
            "{slices} x {profile}, each shared by {replicas}, as {resource}: {total} seats, {held} held, {free} free"
        )
    }
}
