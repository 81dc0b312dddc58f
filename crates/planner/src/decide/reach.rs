//! Which groups a cell could serve at all. Users can request any string: requests for slices that no GPU of
//! a cell can have, or for more of them on one node than all of its GPUs together can have, are unserved
//! there in every plan. The integer program omits them, so that its size depends on the possible slices and
//! not on the requests.

use std::collections::BTreeMap;

use super::group::Group;
use super::world::{Cell, World};
use crate::offered::Offered;

/// The most free slices that each cell could have; of a cell whose nodes are
/// looked at one by one, the most that one of them could have.
#[derive(Debug)]
pub(super) struct Reach {
    most: Vec<BTreeMap<Offered, i64>>,
}

impl Reach {
    pub(super) fn new(world: &World<'_>) -> Self {
        let of_one =
            |cell: &Cell<'_>| cell.free.iter().map(|(offered, n)| (*offered, n / cell.copies())).collect();
        let mut most: Vec<BTreeMap<Offered, i64>> = world.cells.iter().map(of_one).collect();
        for class in &world.classes {
            let geometry = world.geometries.get(class.situation.geometry);
            let mut of_one: BTreeMap<Offered, i64> = BTreeMap::new();
            for (profile, n) in class.targets.iter().flat_map(|target| target.free.iter()) {
                let (offered, seats) = world.cells[class.cell].seats_of(geometry.profile(profile).name);
                let known = of_one.entry(offered).or_default();
                *known = (*known).max(i64::from(n) * i64::from(seats));
            }
            if class.targets.iter().any(|target| target.is_free) {
                of_one.insert(Offered::WholeGpu, 1);
            }
            let gpus = i64::try_from(class.gpus.len()).unwrap_or(i64::MAX) / world.cells[class.cell].copies();
            for (offered, n) in of_one {
                let all = most[class.cell].entry(offered).or_default();
                *all = all.saturating_add(n.saturating_mul(gpus));
            }
        }
        Self { most }
    }

    /// Whether a cell has room for one request of a group, if everything is cut for it.
    pub(super) fn serves(&self, cell: usize, group: &Group<'_>) -> bool {
        let enough = |offered: Offered, n: u32| {
            n == 0 || self.most[cell].get(&offered).is_some_and(|most| *most >= i64::from(n))
        };
        group.wants().all(|(offered, n)| enough(offered, n))
    }
}
