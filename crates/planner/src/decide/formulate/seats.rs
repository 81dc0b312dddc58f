//! What bounds count, in seats: slices of which several pods share each serve as many requests as they have seats.

use super::bounds;
use crate::decide::world::{Cell, World};
use crate::divisor::common_divisor;
use crate::inventory::Room;
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

/// The most seats of a slice that one node of a cell can be of use with, where its nodes are looked at one by one:
/// what fits into its room of those who ask for them, and what is wanted as spare. A layout with more of these seats
/// is worth no more than one with so many, and with this known most layouts are replaced by others.
pub(super) fn most(world: &World<'_>, cell: &Cell<'_>, offered: Offered) -> Option<i64> {
    if !cell.one_by_one || !matches!(offered, Offered::SharedSlice(_)) {
        return None;
    }
    let room = cell.room.unwrap_or(Room::UNLIMITED);
    let kinds: [fn(&Room) -> i64; 3] = [|room| room.cpu_milli, |room| room.memory_bytes, |room| room.pods];
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (mut all, mut largest, mut smallest) = (0_i64, 0_i64, [i64::MAX; 3]);
    for group in cell.groups.iter().map(|group| &world.groups[*group]) {
        let Some((_, seats)) = group.wants().find(|(wanted, _)| *wanted == offered) else { continue };
        let fit = kinds.map(|kind| kind(&room).max(0) / kind(&group.takes).max(1));
        let pods = fit.into_iter().fold(number(group.requests.len()), i64::min);
        all = all.saturating_add(pods.saturating_mul(i64::from(seats)));
        largest = largest.max(i64::from(seats));
        smallest.iter_mut().zip(kinds).for_each(|(least, kind)| *least = (*least).min(kind(&group.takes)));
    }
    let fit = kinds.into_iter().zip(smallest).map(|(kind, least)| kind(&room).max(0) / least.max(1));
    let asked = fit.fold(all, |all, pods| all.min(pods.saturating_mul(largest)));
    let spare = cell.policy.map_or(0, |policy| {
        let mine = bounds(world).filter(|(of, wanted, _)| *of == policy && seats(cell, *wanted).0 == offered);
        mine.map(|(_, wanted, bounds)| i64::from(bounds.spare) * i64::from(seats(cell, wanted).1)).sum()
    });
    Some(asked.saturating_add(spare))
}

/// What a bound counts, as pods get it on the nodes of a cell, and how many of it.
pub(super) fn seats(cell: &Cell<'_>, offered: Offered) -> (Offered, u32) {
    offered.slice().map_or((offered, 1), |profile| cell.seats_of(profile))
}
