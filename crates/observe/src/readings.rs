//! What is kept of the objects of one round for the next.

use crate::fleet::NodeReadings;
use crate::requests;

/// What was read in the round before. If it is lost, that costs time and nothing else.
#[derive(Debug, Default)]
pub struct Readings {
    /// Of nodes, each with what is on it.
    pub(crate) nodes: NodeReadings,
    /// Of those who ask.
    pub(crate) requests: requests::Readings,
}

impl Readings {
    /// How many readings of nodes were made so far: a round over the same objects makes none.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.nodes.made()
    }

    /// How many readings of namespaces were made so far.
    #[must_use]
    pub const fn made_of_namespaces(&self) -> u64 {
        self.requests.namespaces.made()
    }

    /// Of how many nodes a reading is kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.nodes.kept()
    }
}
