//! What the agent tells: `GpuNode.status.observed` and `GpuNode.status.agent`.

use std::fmt;

use crate::act::Act;
use crate::books::Books;
use crate::gate::Gate;
use crate::layout::{GpuState, NodeLayout};
use crate::names::{BootId, ChangeId, GpuUuid, PodUid, ReportNumber, SliceName};
use crate::position::Difference;
use crate::wish::Malformed;

/// Everything that an agent has written about its node. No field of it has
/// another writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub report: ReportNumber,
    /// The pod of the agent that wrote it.
    pub agent: PodUid,
    /// The boot of the node in which it was written.
    pub boot: BootId,
    /// The gate, as it was for a change. Of another change it says nothing.
    pub gate: Option<GateReport>,
    /// What was known, read after the gate.
    pub known: Known,
    /// Where the last change is.
    pub change: Option<ChangeState>,
}

/// What an agent says of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateReport {
    /// For which change it looked.
    pub change: ChangeId,
    /// What it saw.
    pub gate: Gate,
}

/// The layout and who has what of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The layout. A slice is called busy only where no book says who has it.
    pub layout: NodeLayout,
    /// The books.
    pub books: Books,
}

impl Known {
    /// What is worth telling: processes come and go on a slice that somebody
    /// has, which is nothing new. What a `GpuNode` has no room for makes the
    /// whole GPU, or the books, count as unreadable.
    #[must_use]
    pub fn new(layout: &NodeLayout, books: &Books) -> Self {
        let mut layout = layout.clone();
        for gpu in &mut layout.gpus {
            if let Some(why) = gpu.untellable() {
                gpu.state = GpuState::Silent { why };
            }
            let GpuState::Cut(slices) = &mut gpu.state else { continue };
            for slice in slices {
                let explained = books.who_holds(&gpu.uuid, slice).next().is_some();
                slice.busy &= !explained;
            }
        }
        let books = books.tellable(&layout);
        Self { layout, books }
    }
}

/// Where a change is, for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeState {
    /// Which change.
    pub id: ChangeId,
    /// The boot in which it was claimed, or refused.
    pub boot: BootId,
    /// How far it is.
    pub stage: Stage,
}

/// How far a change is, for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The agent has taken it over. From now on only its outcome ends it.
    Claimed,
    /// The agent puts back what it destroyed.
    Restoring {
        /// Why.
        why: Why,
    },
    /// It is over.
    Ended(Outcome),
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The GPUs are as they shall be.
    Done,
    /// The GPUs are as they were: something was changed, and put back.
    Restored {
        /// Why.
        why: Why,
    },
    /// The GPUs are as they were: nothing was changed.
    Refused {
        /// Why.
        why: Why,
    },
    /// The GPUs are neither; what there is, is in the account.
    Left {
        /// Why.
        why: Why,
    },
}

/// Why a change did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The wish makes no sense.
    Malformed(Malformed),
    /// A GPU is not as planned.
    Differs(Difference),
    /// The driver does not answer about a GPU.
    Silent {
        /// The GPU.
        gpu: GpuUuid,
    },
    /// The controller took back its permit after the claim.
    CalledBack,
    /// The wish is gone, or there is another one in its place.
    WishGone,
    /// The node was booted anew: no slice is left of before.
    Rebooted,
    /// The driver refused, again and again.
    Driver {
        /// What.
        act: Act,
        /// Which slice.
        slice: SliceName,
        /// What it said last.
        said: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(Malformed::TooManyGpus { count }) => write!(f, "the change names {count} GPUs"),
            Self::Malformed(Malformed::TooManySlices { gpu }) => {
                write!(f, "the change has more slices for {gpu} than a GPU can have")
            }
            Self::Malformed(Malformed::Twice { gpu }) => write!(f, "the change names {gpu} twice"),
            Self::Differs(Difference { gpu, found }) => write!(f, "{gpu} is not as planned: {found}"),
            Self::Silent { gpu } => write!(f, "the driver does not answer about {gpu}"),
            Self::CalledBack => write!(f, "the operator called it back"),
            Self::WishGone => write!(f, "the operator no longer wants it"),
            Self::Rebooted => write!(f, "the node was booted anew"),
            Self::Driver { act: Act::Destroy, slice, said } => {
                write!(f, "the driver does not destroy {slice}: {said}")
            }
            Self::Driver { act: Act::Create, slice, said } => {
                write!(f, "the driver does not create {slice}: {said}")
            }
        }
    }
}

impl Account {
    /// What it says about the change with this id.
    #[must_use]
    pub fn stage(&self, id: &ChangeId) -> Option<&Stage> {
        self.change.as_ref().filter(|change| change.id == *id).map(|change| &change.stage)
    }

    /// What it says about the gate for the change with this id.
    #[must_use]
    pub fn gate_for(&self, id: &ChangeId) -> Option<Gate> {
        self.gate.as_ref().filter(|said| said.change == *id).map(|said| said.gate)
    }
}
