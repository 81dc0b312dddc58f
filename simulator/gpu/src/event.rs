//! The events of a machine, in order, with virtual times.

use std::fmt;

use jiff::Timestamp;
use mig::ProfileName;
use serde::{Deserialize, Serialize};

use crate::fault::Verb;
use crate::mode::Mode;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// On which GPU; none for the whole machine.
    pub gpu: Option<u16>,
    /// What.
    pub what: Happened,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// The MIG mode is another one now.
    ModeChanged {
        /// The mode.
        to: Mode,
    },
    /// The MIG mode was asked for and waits.
    ModePending {
        /// The mode.
        to: Mode,
    },
    /// The GPU was reset.
    Reset,
    /// The machine rebooted.
    Rebooted,
    /// The driver was unloaded and loaded again.
    DriverReloaded,
    /// A GPU instance is there.
    Created {
        /// Its id.
        gpu_instance: u8,
        /// Its profile.
        profile: ProfileName,
        /// Where it starts.
        start: u8,
    },
    /// A GPU instance is gone.
    Destroyed {
        /// Its id.
        gpu_instance: u8,
        /// Its profile.
        profile: ProfileName,
        /// Where it started.
        start: u8,
    },
    /// A compute instance is there.
    ComputeCreated {
        /// Its GPU instance.
        gpu_instance: u8,
        /// Its id.
        compute_instance: u8,
    },
    /// A compute instance is gone.
    ComputeDestroyed {
        /// Its GPU instance.
        gpu_instance: u8,
        /// Its id.
        compute_instance: u8,
    },
    /// A slice that was allocated was taken away.
    Breach {
        /// Who had it.
        owner: String,
    },
    /// A call misbehaved, as it was told to.
    FaultStruck {
        /// The call.
        verb: Verb,
    },
    /// The GPU no longer answers.
    FellOffTheBus,
    /// The driver reported an Xid error.
    Xid {
        /// Its number.
        code: u32,
    },
    /// The memory had ECC errors.
    EccErrors {
        /// So many that were corrected.
        corrected: u32,
        /// So many that were not.
        uncorrected: u32,
    },
}

/// Invariant 1 broken: a slice, or a whole GPU, that was allocated to
/// somebody was destroyed, reset or re-purposed under them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// When.
    pub at: Timestamp,
    /// On which GPU.
    pub gpu: u16,
    /// Which slice: its profile and start; none for the whole GPU.
    pub slice: Option<(ProfileName, u8)>,
    /// Whose it was.
    pub owner: String,
    /// By which call.
    pub by: Verb,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, gpu, slice, owner, by } = self;
        match slice {
            Some((profile, start)) => write!(f, "{at}: slice {profile}@{start} of GPU {gpu}")?,
            None => write!(f, "{at}: GPU {gpu}")?,
        }
        write!(f, " was allocated to {owner} and was taken away ({by:?})")
    }
}
