//! The bounds of demand-driven policies, and how much there is of what they bound.

use std::collections::BTreeMap;

use super::super::targets::Whole;
use super::super::world::World;
use crate::offered::Offered;
use crate::policy::{Bounds, LayoutPolicy};

/// All bounds of demand-driven policies: `(policy, profile, bounds)`; those of whole GPUs after its profiles.
pub(in crate::decide) fn bounds<'w>(
    world: &'w World<'_>,
) -> impl Iterator<Item = (usize, Offered, &'w Bounds)> {
    world.policies.iter().enumerate().flat_map(|(p, policy)| {
        let whole = policy.layout.whole_gpus().map(|bounds| (p, Offered::WholeGpu, bounds));
        let slices = match &policy.layout {
            LayoutPolicy::DemandDriven { slices, .. } => Some(slices),
            LayoutPolicy::Static { .. } => None,
        };
        let slices = slices.into_iter().flatten();
        slices.map(move |(profile, bounds)| (p, Offered::Slice(*profile), bounds)).chain(whole)
    })
}

/// The slices that exist now, by policy and profile, and the whole GPUs.
pub(super) fn present(world: &World<'_>) -> BTreeMap<(usize, Offered), i64> {
    let mut present = BTreeMap::new();
    for class in &world.classes {
        let Some(policy) = world.cells[class.cell].policy else { continue };
        let geometry = world.geometries.get(class.situation.geometry);
        let count = i64::try_from(class.gpus.len()).unwrap_or(i64::MAX);
        for (profile, n) in class.situation.now(geometry).iter() {
            let offered = Offered::Slice(geometry.profile(profile).name);
            *present.entry((policy, offered)).or_insert(0) += i64::from(n) * count;
        }
        if matches!(class.situation.whole, Whole::Is { .. }) {
            *present.entry((policy, Offered::WholeGpu)).or_insert(0) += count;
        }
    }
    present
}
