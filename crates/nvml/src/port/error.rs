//! The reasons why the port did not do what was requested.

use super::layout::{GpuUuid, Place, Process};
use crate::code::Code;
use crate::error::Error;

/// What went wrong, with the GPU that it is about. Nothing was changed, unless
/// the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// There is no such GPU.
    #[error("there is no GPU {gpu} here; there are {}", list(known, "none"))]
    NoSuchGpu {
        /// What was asked for.
        gpu: GpuUuid,
        /// What there is.
        known: Vec<GpuUuid>,
    },
    /// The GPU cannot be cut.
    #[error("GPU {gpu} has no MIG: it cannot be cut into slices")]
    NoMig {
        /// The GPU.
        gpu: GpuUuid,
    },
    /// The GPU could be cut, and is not in that mode.
    #[error("MIG is off on GPU {gpu}: switch it on first")]
    MigIsOff {
        /// The GPU.
        gpu: GpuUuid,
    },
    /// The GPU has no such kind of slice.
    #[error("GPU {gpu} has no profile {profile}; it has {}", list(known, "none"))]
    NoSuchProfile {
        /// The GPU.
        gpu: GpuUuid,
        /// What was asked for.
        profile: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The kind of slice cannot be there.
    #[error("a slice {} of GPU {gpu} cannot start at {}; it can at {}", place.profile, place.start, list(starts, "no place"))]
    NoSuchPlace {
        /// The GPU.
        gpu: GpuUuid,
        /// What was asked for.
        place: Place,
        /// Where it can be.
        starts: Vec<u8>,
    },
    /// Something else is there.
    #[error("slice {by} of GPU {gpu} is where {place} should be: destroy it first")]
    Occupied {
        /// The GPU.
        gpu: GpuUuid,
        /// What was asked for.
        place: Place,
        /// What is there.
        by: Place,
    },
    /// The slice is there, and somebody cut it further.
    #[error(
        "slice {place} of GPU {gpu} is there, divided into {parts} compute instances that are not ours: destroy it first"
    )]
    Divided {
        /// The GPU.
        gpu: GpuUuid,
        /// The slice.
        place: Place,
        /// Into how many.
        parts: usize,
    },
    /// MIG cannot be switched off while there are slices.
    #[error("GPU {gpu} has the slices {}: destroy them before MIG is switched off", list(slices, "none"))]
    HasSlices {
        /// The GPU.
        gpu: GpuUuid,
        /// Them, as far as their places are known.
        slices: Vec<String>,
    },
    /// A process has it open.
    #[error("slice {place} of GPU {gpu} is in use by {}", people(processes))]
    InUse {
        /// The GPU.
        gpu: GpuUuid,
        /// The slice.
        place: Place,
        /// Who computes on it; nobody, if a monitor only has it open.
        processes: Vec<Process>,
    },
    /// The driver said that it was done, and it is not.
    #[error(
        "the driver said that {what} on GPU {gpu} is done, and it is not: look into the kernel's log, then try again"
    )]
    NoEffect {
        /// The GPU.
        gpu: GpuUuid,
        /// What was to be done.
        what: String,
    },
    /// A slice was created in part, and could not be taken back. Creating it
    /// again completes it; destroying it removes it.
    #[error("GPU {gpu} has the slice {place} without what programs open; create it again to complete it")]
    Incomplete {
        /// The GPU.
        gpu: GpuUuid,
        /// The slice.
        place: Place,
        /// Why it was not completed.
        #[source]
        source: Error,
    },
    /// The driver failed.
    #[error("cannot {doing} GPU {gpu}")]
    Driver {
        /// What was being done, as in "read the layout of".
        doing: &'static str,
        /// The GPU.
        gpu: GpuUuid,
        /// What the driver says.
        #[source]
        source: Error,
    },
    /// The library failed before any GPU was named.
    #[error("cannot read the GPUs of this machine")]
    Library {
        /// What it says.
        #[source]
        source: Error,
    },
}

impl PortError {
    /// The driver's code, if the driver's failure is the reason.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::InUse { .. } => Some(Code::InUse),
            Self::Incomplete { source, .. } | Self::Driver { source, .. } | Self::Library { source } => {
                source.code()
            }
            Self::NoSuchGpu { .. }
            | Self::NoMig { .. }
            | Self::MigIsOff { .. }
            | Self::NoSuchProfile { .. }
            | Self::NoSuchPlace { .. }
            | Self::Occupied { .. }
            | Self::Divided { .. }
            | Self::HasSlices { .. }
            | Self::NoEffect { .. } => None,
        }
    }
}

fn list<T: ToString>(items: &[T], none: &str) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn people(processes: &[Process]) -> String {
    if processes.is_empty() {
        return "a process that computes nothing, such as a monitor: end it, then try again".to_owned();
    }
    let one = |p: &Process| match &p.name {
        Some(name) => format!("process {} ({name})", p.pid),
        None => format!("process {}", p.pid),
    };
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}
