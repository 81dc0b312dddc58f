//! Which pods are in the way of a change.

use std::collections::BTreeSet;

use mig::Layout;

use crate::inventory::{Gpu, Slice, Use};
use crate::names::PodRef;

/// The pods in the way of a change: those that hold, or may hold, a slice
/// that goes. `keeps` are placements that stay as they are.
pub(super) fn in_the_way(gpu: &Gpu, keeps: Layout) -> BTreeSet<PodRef> {
    let stays = |slice: &Slice<'_>| {
        let placement = gpu.geometry.profile_named(slice.profile).zip(slice.start);
        let placement = placement.and_then(|(profile, start)| gpu.geometry.placement(profile, start));
        placement.is_some_and(|placement| keeps.contains(placement))
    };
    let going = gpu.slices.iter().filter(|slice| !stays(slice)).map(|slice| slice.used);
    going.chain(gpu.slices.whole()).flat_map(Use::holders).cloned().collect()
}
