//! The rows of what nodes have left of CPU, memory, ephemeral storage and pod slots.

use super::Building;
use crate::divisor::common_divisor;
use crate::inventory::{Room, mebibytes_up};
use crate::solver::Sense;

/// One kind of room: what a pod takes of it, and what a node has of it.
type Kind = fn(&Room) -> (i64, i64);

impl Building<'_, '_> {
    /// Of nodes whose room may run out: what is served there takes no more
    /// than there is. Memory and storage are counted in MiB, rounded so that it
    /// suffices.
    pub(super) fn room(&mut self, served: &[(usize, usize, usize)]) {
        let world = self.world;
        let kinds: [Kind; 4] = [
            |room| (room.cpu_milli, room.cpu_milli),
            |room| (mebibytes_up(room.memory_bytes), room.memory_bytes >> 20),
            |room| (mebibytes_up(room.storage_bytes), room.storage_bytes >> 20),
            |room| (room.pods, room.pods),
        ];
        for (c, cell) in world.cells.iter().enumerate() {
            let Some(room) = &cell.room else { continue };
            // They are in the order of the cells.
            let first = served.partition_point(|(_, cell, _)| *cell < c);
            let here: Vec<(usize, &Room, i64)> = served[first..]
                .iter()
                .take_while(|(_, cell, _)| *cell == c)
                .map(|(g, _, extra)| (*extra, &world.groups[*g].takes, self.instance.extras[*extra].upper))
                .collect();
            for (number, kind) in (0..).zip(kinds) {
                let takes = |room: &Room| kind(room).0.max(0);
                let free = kind(room).1;
                let all =
                    here.iter().fold(0_i64, |sum, (_, t, n)| sum.saturating_add(takes(t).saturating_mul(*n)));
                if all <= free {
                    continue;
                }
                // Numbers without their common divisor are kinder to the solver.
                let unit = here.iter().fold(0, |unit, (_, t, _)| common_divisor(unit, takes(t))).max(1);
                let row = self.row(Sense::AtMost, (free.max(0) / unit).saturating_mul(cell.copies()));
                self.own[c].rows.push(row);
                // Counted in another unit it is another row.
                self.own[c].counts.push(unit.unsigned_abs() << 2 | number);
                for (extra, t, _) in &here {
                    let n = i32::try_from(takes(t) / unit).unwrap_or(i32::MAX);
                    if n > 0 {
                        self.instance.extras[*extra].coefficients.push((row, n));
                    }
                }
            }
        }
    }
}
