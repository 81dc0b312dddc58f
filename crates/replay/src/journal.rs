//! The record of a replay, for inspection and for independent checks.

use mig::ProfileName;

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Who held which slice, in the order in which they got it.
    pub holdings: Vec<Holding>,
    /// Which nodes changed, in the order in which their changes began.
    pub changes: Vec<Change>,
}

/// A slice in somebody's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The position of the request in the trace.
    pub request: usize,
    /// The position of the node in the fleet.
    pub node: usize,
    /// The GPU's index on it.
    pub gpu: usize,
    /// The slice.
    pub profile: ProfileName,
    /// Where it starts, in memory units.
    pub start: u8,
    /// From which second on.
    pub from: i64,
    /// Until which second.
    pub until: i64,
}

/// A change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The position of the node in the fleet.
    pub node: usize,
    /// When nobody could bind to it any more.
    pub from: i64,
    /// When it was open again.
    pub until: i64,
    /// The indices of the GPUs that were cut anew.
    pub gpus: Vec<usize>,
}
