//! Devices that several pods share: slices, and GPUs that are not cut.

use std::collections::BTreeMap;

use super::{FleetBuilder, NodeBuilder, RequestBuilder, node, pod, profile};
use crate::inventory::{Seating, Sharing};
use crate::offered::Offered;

impl NodeBuilder {
    /// Each slice of a profile is shared by so many pods, under a name of its own or not.
    #[must_use]
    pub fn shares(mut self, name: &str, replicas: u32, renamed: bool) -> Self {
        self.0.shared.insert(profile(name), Sharing { replicas, renamed, one_each: true });
        self
    }
}

impl NodeBuilder {
    /// Each of its GPUs with MIG off is shared by so many pods, under a name of its own or not.
    #[must_use]
    pub fn shares_whole_gpus(mut self, replicas: u32, renamed: bool) -> Self {
        self.0.whole_shared = Some(Sharing { replicas, renamed, one_each: true });
        self
    }
}

impl RequestBuilder {
    /// Seats of slices of a profile that several pods share under a name of its own.
    #[must_use]
    pub fn asks_seats(mut self, name: &str, count: u32) -> Self {
        self.0.shared.insert(Offered::SharedSlice(profile(name)), count);
        self
    }

    /// Seats of GPUs that several pods share under a name of its own.
    #[must_use]
    pub fn asks_gpu_seats(mut self, count: u32) -> Self {
        self.0.shared.insert(Offered::SharedGpu, count);
        self
    }
}

impl FleetBuilder {
    /// A node more of which no GPU is cut.
    #[must_use]
    pub fn seating(mut self, name: &str, seating: SeatingBuilder) -> Self {
        assert!(self.0.seating.insert(name.into(), seating.0).is_none(), "two nodes {name}");
        self
    }
}

/// A schedulable node in `pool=lab` with so many GPUs that are not cut, each for one pod.
#[must_use]
pub fn seating(card: &str, gpus: u32) -> SeatingBuilder {
    let (node, held) = (node().build(), BTreeMap::new());
    SeatingBuilder(Seating { node, card: card.to_owned(), gpus, sharing: Sharing::NONE, held })
}

/// A node of which no GPU is cut.
#[derive(Clone, Debug)]
pub struct SeatingBuilder(Seating);

impl SeatingBuilder {
    /// So many pods share each of its GPUs, under a name of its own or not.
    #[must_use]
    pub fn shared_by(mut self, replicas: u32, renamed: bool) -> Self {
        self.0.sharing = Sharing { replicas, renamed, one_each: true };
        self
    }

    /// A pod holds so many seats.
    #[must_use]
    pub fn held_by(mut self, name: &str, seats: u32) -> Self {
        self.0.held.insert(pod(name), seats);
        self
    }

    /// What requests are judged by.
    #[must_use]
    pub fn on(mut self, node: NodeBuilder) -> Self {
        self.0.node = node.build();
        self
    }
}
