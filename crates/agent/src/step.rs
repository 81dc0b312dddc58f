//! What the agent does next.

use std::fmt;

use crate::account::Account;
use crate::act::Act;
use crate::books::Blocker;
use crate::names::{GpuUuid, ObjectVersion, ReportNumber, SliceName};

/// One step. Whoever does it looks again afterwards and asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing, until this has come.
    Wait(WaitsFor),
    /// Look at the node again, in order: what was seen is older than what we did.
    Look,
    /// Write this, if the `GpuNode` still has this version.
    Write {
        /// What is written for.
        what: Writes,
        /// All that the agent says from now on.
        account: Box<Account>,
        /// The precondition.
        if_version: ObjectVersion,
    },
    /// Ask the driver for this, and tell [`Remembered`](crate::Remembered) how
    /// it went.
    Drive {
        /// What.
        act: Act,
        /// Which slice.
        slice: SliceName,
    },
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// An account of gate and books, with a number of its own.
    Report,
    /// The change is ours.
    Claim,
    /// What was destroyed is put back.
    Restoring,
    /// The change is over; with an account.
    Outcome,
}

/// What a change waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Kubelet still offers devices.
    Gate,
    /// The controller has not proved this account.
    Permit {
        /// Its number.
        report: ReportNumber,
    },
    /// A slice that should go is not free.
    Free {
        /// The slice.
        slice: SliceName,
        /// What is in the way.
        blocker: Box<Blocker>,
    },
    /// The driver does not answer about a GPU.
    Driver {
        /// The GPU.
        gpu: GpuUuid,
    },
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate => write!(f, "kubelet still offers devices"),
            Self::Permit { report } => write!(f, "the operator has not yet proved report {report}"),
            Self::Free { slice, blocker } => write!(f, "{slice} is not free: {blocker}"),
            Self::Driver { gpu } => write!(f, "the driver does not answer about {gpu}"),
        }
    }
}
