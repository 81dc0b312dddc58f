//! What bounds count, in seats: slices of which several pods share each serve as many requests as they have seats.

use crate::decide::world::{Cell, World};
use crate::divisor::common_divisor;
use crate::offered::Offered;

/// What a spare is counted in, so that a free seat of any node of a policy is a whole number of it.
pub(super) fn spare_unit(world: &World<'_>, policy: usize, offered: Offered) -> i32 {
    let mine = world.cells.iter().filter(|cell| cell.policy == Some(policy));
    common(mine.map(|cell| seats(cell, offered).1))
}

/// The least common multiple of how many share a slice. The bound on replicas keeps it far below the greatest number.
pub(in crate::decide) fn common(replicas: impl Iterator<Item = u32>) -> i32 {
    let all = replicas.map(i64::from).fold(1_i64, |all, n| (all / common_divisor(all, n)).saturating_mul(n));
    i32::try_from(all).unwrap_or(i32::MAX)
}

/// What a bound counts, as pods get it on the nodes of a cell, and how many of it.
pub(super) fn seats(cell: &Cell<'_>, offered: Offered) -> (Offered, u32) {
    offered.slice().map_or((offered, 1), |profile| cell.seats_of(profile))
}
