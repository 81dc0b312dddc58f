//! The rows of shares, over what requests are served with.

use super::{Building, Level};
use crate::solver::Sense;

impl Building<'_, '_> {
    /// Of each share: no more is given than it has room for, and as much as it
    /// should have at least, as far as that is asked for.
    pub(super) fn shares(&mut self, served: &[(usize, usize, usize)]) {
        let world = self.world;
        for quota in &world.quotas {
            let is_mine = |g: &usize| world.groups[*g].shares.contains(&quota.whose);
            let asked = (0..world.groups.len()).filter(is_mine).fold(0_i64, |sum, g| {
                let requests = i64::try_from(world.groups[g].requests.len()).unwrap_or(i64::MAX);
                sum.saturating_add(world.groups[g].weight().saturating_mul(requests))
            });
            let mut rows = Vec::new();
            if let Some(room) = quota.room().filter(|room| asked > *room) {
                rows.push(self.row(Sense::AtMost, room));
            }
            let wanted = quota.wanted(asked);
            if wanted > 0 && self.costs.contains(&Level::Share) {
                let row = self.row(Sense::AtLeast, wanted);
                let costs = self.costs(&[(Level::Share, 1)]);
                self.extra(wanted, vec![(row, 1)], costs);
                rows.push(row);
            }
            if rows.is_empty() {
                continue;
            }
            let there = |c: &usize| world.cells[*c].policy == Some(quota.policy);
            for (g, _, extra) in served.iter().filter(|(g, c, _)| is_mine(g) && there(c)) {
                let weight = i32::try_from(world.groups[*g].weight()).unwrap_or(i32::MAX);
                if weight > 0 {
                    let terms = rows.iter().map(|row| (*row, weight));
                    self.instance.extras[*extra].coefficients.extend(terms);
                }
            }
        }
    }
}
