//! GPU instance ids. They are no counter: an id is the position of the
//! instance's span in a binary tree over the placement grid, so that the same
//! span always gets the same id.
//!
//! On the grid of eight units, `0` is the whole GPU, `1` and `2` its halves,
//! `3` to `6` the quarters, `7` to `14` the single units. A grid of four units
//! (A30) or twelve (RTX PRO 6000) ends with `6`.
//! Source: NVIDIA/open-gpu-kernel-modules, `kmigmgr_ga100.c`.

/// How a chip numbers its spans. Both kinds are in the field, per chip and not
/// per model: starts are counted so that the half with four compute slices
/// comes first, and which physical half that is differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Labelling {
    /// Ids ascend with the starts: seven single slices are 7 to 13.
    #[default]
    V1,
    /// On the grid of eight units the halves are swapped: start 4 is 7, start 0
    /// is 11; seven single slices are 7, 8, 9, 11, 12, 13 and 14.
    V2,
}

/// The id of an instance that takes `size` units from `start` on, on a grid of
/// `memory` units. `None` if no instance has this span: its size is not the
/// grid halved some times, or it is not aligned to its size.
#[must_use]
pub fn instance_id(labelling: Labelling, memory: u8, start: u8, size: u8) -> Option<u8> {
    let parts = (size > 0 && memory.is_multiple_of(size)).then(|| memory / size)?;
    if !parts.is_power_of_two() || !start.is_multiple_of(size) || start >= memory {
        return None;
    }
    Some(parts - 1 + turned(labelling, memory, start) / size)
}

/// The start and size of the instance with this id: the inverse of
/// [`instance_id`]. `None` if the grid has no such id.
#[must_use]
pub fn instance_span(labelling: Labelling, memory: u8, id: u8) -> Option<(u8, u8)> {
    let parts = 1u8 << id.checked_add(1)?.ilog2();
    let size = (parts <= memory && memory.is_multiple_of(parts)).then(|| memory / parts)?;
    let position = (id + 1 - parts) * size;
    // A span of half the grid or less keeps within its half, so turning twice
    // gives it back; the whole grid has one position.
    let start = if parts == 1 { 0 } else { turned(labelling, memory, position) };
    Some((start, size))
}

fn turned(labelling: Labelling, memory: u8, start: u8) -> u8 {
    match labelling {
        Labelling::V2 if memory == 8 => (start + 4) % 8,
        Labelling::V1 | Labelling::V2 => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(labelling: Labelling, memory: u8, spans: &[(u8, u8)], ids: &[u8]) {
        for ((start, size), id) in spans.iter().zip(ids) {
            assert_eq!(instance_id(labelling, memory, *start, *size), Some(*id), "{start}:{size}");
            assert_eq!(instance_span(labelling, memory, *id), Some((*start, *size)), "{id}");
        }
    }

    const SINGLES: [(u8, u8); 7] = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)];

    #[test]
    fn ids_are_positions_in_a_tree() {
        check(Labelling::V1, 8, &SINGLES, &[7, 8, 9, 10, 11, 12, 13]);
        let spans = [(0, 8), (0, 4), (4, 4), (0, 2), (2, 2), (4, 2), (6, 2)];
        check(Labelling::V1, 8, &spans, &[0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn some_chips_have_their_halves_swapped() {
        check(Labelling::V2, 8, &SINGLES, &[11, 12, 13, 14, 7, 8, 9]);
        let spans = [(0, 8), (0, 4), (4, 4), (0, 2), (2, 2), (4, 2), (6, 2)];
        check(Labelling::V2, 8, &spans, &[0, 2, 1, 5, 6, 3, 4]);
    }

    #[test]
    fn smaller_trees_end_earlier() {
        for labelling in [Labelling::V1, Labelling::V2] {
            let a30 = [(0, 4), (0, 2), (2, 2), (0, 1), (1, 1), (2, 1), (3, 1)];
            check(labelling, 4, &a30, &[0, 1, 2, 3, 4, 5, 6]);
            let rtx = [(0, 12), (0, 6), (6, 6), (0, 3), (3, 3), (6, 3), (9, 3)];
            check(labelling, 12, &rtx, &[0, 1, 2, 3, 4, 5, 6]);
            assert_eq!(instance_span(labelling, 4, 7), None);
            assert_eq!(instance_span(labelling, 12, 15), None);
        }
    }

    #[test]
    fn what_no_instance_takes_has_no_id() {
        for (start, size) in [(1, 2), (0, 3), (0, 0), (8, 1), (2, 4), (0, 9)] {
            assert_eq!(instance_id(Labelling::V1, 8, start, size), None, "{start}:{size}");
        }
        assert_eq!(instance_span(Labelling::V1, 8, u8::MAX), None);
    }
}
