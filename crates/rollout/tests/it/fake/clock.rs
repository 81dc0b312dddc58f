//! The clock of the operator's machine is set; nothing else happens.

use jiff::SignedDuration;

use super::World;

impl World {
    /// By the clock it is so much later, or earlier, from now on. What is under
    /// way takes as long as it would have, and who calls us knows no more when
    /// the map changed.
    pub fn set_clock(&mut self, by: SignedDuration) {
        self.now += by;
        self.events.iter_mut().for_each(|(at, ..)| *at += by);
        self.map.values_mut().for_each(|(_, since)| *since += by);
        self.users.iter_mut().filter_map(|pod| pod.gone_at.as_mut()).for_each(|at| *at += by);
        self.map_changed = None;
    }
}
