//! What the agent sees when it decides on a step, and in which order it looked.

use crate::account::Account;
use crate::books::Books;
use crate::gate::Gate;
use crate::layout::NodeLayout;
use crate::names::{BootId, ObjectVersion, PodUid};
use crate::wish::Wish;

/// A moment of one process of the agent: it counts what it reads and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(pub u64);

/// Something that was read, and in which turn the question was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<T> {
    /// When.
    pub turn: Turn,
    /// What.
    pub is: T,
}

/// One look at the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The gate, first.
    pub gate: Seen<Gate>,
    /// The books, asked for after kubelet had answered about the gate.
    pub books: Seen<Books>,
    /// The layout.
    pub layout: Seen<NodeLayout>,
}

impl Look {
    /// Whether it can be relied on: the books were read after the gate, and
    /// everything after our own last act.
    #[must_use]
    pub fn is_good(&self, acted: Turn) -> bool {
        self.gate.turn < self.books.turn && self.gate.turn > acted && self.layout.turn > acted
    }
}

/// All that a step depends on, beside what the process remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Our own pod.
    pub me: PodUid,
    /// The present boot.
    pub boot: BootId,
    /// The version of the `GpuNode` that the next two fields are from. It must
    /// not be older than our own last write: what the API server answered to
    /// that write, or what was read after an answer got lost.
    pub version: ObjectVersion,
    /// What the controller wants.
    pub wish: Option<Wish>,
    /// What this agent or its predecessor wrote last.
    pub account: Option<Account>,
    /// The node.
    pub look: Look,
}
