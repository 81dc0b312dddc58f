//! The driver's behaviour when no placement is given: its default placement, the remaining capacity that it
//! reports, and the order of requests that leads to a wanted layout.
//!
//! NVIDIA publishes no rule for GPU instances. The one here is that of the
//! open code for compute instances (take what leaves the most placements
//! usable; of equals the lowest), counted over all profiles of the GPU. It
//! reproduces every public transcript that we found; the tests list them.

use std::collections::BTreeSet;

use crate::geometry::Geometry;
use crate::index::{PlacementIndex, ProfileIndex};
use crate::layout::{Counts, Layout};

/// Where the driver puts a slice of this profile on a GPU with this layout:
/// the start that leaves the most placements usable, of equals the lowest.
/// `None` if there is no room (NVML: insufficient resources).
#[must_use]
pub fn default_placement(
    geometry: &Geometry,
    layout: Layout,
    profile: ProfileIndex,
) -> Option<PlacementIndex> {
    let left = |placement: PlacementIndex| geometry.free(layout.with(placement)).len();
    // `max_by_key` gives the last of equals, so the starts are turned round.
    let starts: Vec<_> = starts(geometry, geometry.free(layout), profile).collect();
    starts.into_iter().rev().max_by_key(|placement| left(*placement))
}

/// How many more slices of this profile fit beside the layout, if no other
/// profile is added: the `Free` column of `nvidia-smi mig -lgip`.
#[must_use]
pub fn remaining(geometry: &Geometry, layout: Layout, profile: ProfileIndex) -> u8 {
    // Slices of one profile are of one size, so taking the lowest start that is
    // free, again and again, gives the most.
    let mut layout = layout;
    let mut count = 0;
    while let Some(placement) = starts(geometry, geometry.free(layout), profile).next() {
        layout = layout.with(placement);
        count += 1;
    }
    count
}

/// The placements of a profile that are in a layout, by start.
fn starts(
    geometry: &Geometry,
    layout: Layout,
    profile: ProfileIndex,
) -> impl Iterator<Item = PlacementIndex> + '_ {
    layout.iter().filter(move |placement| geometry.profile_of(*placement) == profile)
}

/// An order in which the placements of `wanted` that are not in `from` can be
/// asked for without saying where, so that the driver's default puts each of
/// them exactly there. `None` if there is no such order, or if `wanted` does
/// not contain `from`: then the placements must be given.
///
/// Of several orders it gives the one that asks for the largest slices first,
/// which is also what mig-parted tries first.
#[must_use]
pub fn creation_order(geometry: &Geometry, from: Layout, wanted: Layout) -> Option<Vec<PlacementIndex>> {
    if !from.is_subset_of(wanted) || !geometry.is_legal(wanted) {
        return None;
    }
    let missing = geometry.counts(wanted.difference(from));
    search(geometry, from, missing, &|placement| wanted.contains(placement))
}

/// The layout that the driver makes out of `counts` more slices when it is
/// asked in the best order and is never told where, with that order. `None` if
/// it gets stuck in every order.
#[must_use]
pub fn default_order(geometry: &Geometry, from: Layout, counts: &Counts) -> Option<Vec<PlacementIndex>> {
    search(geometry, from, counts.clone(), &|_| true)
}

fn search(
    geometry: &Geometry,
    from: Layout,
    counts: Counts,
    allowed: &dyn Fn(PlacementIndex) -> bool,
) -> Option<Vec<PlacementIndex>> {
    let mut left: Vec<(ProfileIndex, u8)> = counts.iter().collect();
    left.sort_by_key(|(profile, _)| {
        let spec = geometry.profile(*profile);
        std::cmp::Reverse((spec.size, spec.compute))
    });
    let mut order = Vec::new();
    descend(geometry, from, &mut left, allowed, &mut BTreeSet::new(), &mut order).then_some(order)
}

/// Depth first over the profiles that are still to be created. What is left to
/// create follows from the layout, so a layout that failed once fails again.
fn descend(
    geometry: &Geometry,
    layout: Layout,
    left: &mut [(ProfileIndex, u8)],
    allowed: &dyn Fn(PlacementIndex) -> bool,
    failed: &mut BTreeSet<Layout>,
    order: &mut Vec<PlacementIndex>,
) -> bool {
    if left.iter().all(|(_, count)| *count == 0) {
        return true;
    }
    if failed.contains(&layout) {
        return false;
    }
    for at in 0..left.len() {
        let (profile, count) = left[at];
        if count == 0 {
            continue;
        }
        let Some(placement) = default_placement(geometry, layout, profile).filter(|p| allowed(*p)) else {
            continue;
        };
        left[at].1 -= 1;
        order.push(placement);
        if descend(geometry, layout.with(placement), left, allowed, failed, order) {
            return true;
        }
        order.pop();
        left[at].1 += 1;
    }
    failed.insert(layout);
    false
}
