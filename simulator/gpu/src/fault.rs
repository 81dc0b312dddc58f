//! Faults as data: which call fails, how, how often, and which event happens to a GPU at which time.
//! Deterministic: the same faults affect the same calls.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::NvmlError;

/// The calls that can be made to misbehave. Everything that changes a GPU has
/// a name of its own; all reading calls share [`Query`](Self::Query).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// `nvmlDeviceSetMigMode`.
    SetMigMode,
    /// `nvidia-smi --gpu-reset`, and the reset that the driver does itself
    /// when an Ampere GPU changes its mode.
    Reset,
    /// `nvmlDeviceSetPersistenceMode`.
    SetPersistenceMode,
    /// `nvmlDeviceSetPowerManagementLimit`.
    SetPowerLimit,
    /// `nvmlDeviceCreateGpuInstance`, with and without placement.
    CreateGpuInstance,
    /// `nvmlGpuInstanceDestroy`.
    DestroyGpuInstance,
    /// `nvmlGpuInstanceCreateComputeInstance`, with and without placement.
    CreateComputeInstance,
    /// `nvmlComputeInstanceDestroy`.
    DestroyComputeInstance,
    /// Any call that only reads.
    Query,
}

/// How a call misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behaviour {
    /// It fails with this code and does nothing.
    Fail(NvmlError),
    /// It does its work, and the answer is this code.
    FailAfterEffect(NvmlError),
    /// It answers success and does nothing.
    Ignore,
    /// It works, and takes so much longer.
    Slow(SignedDuration),
    /// It does nothing and never comes back.
    Hang,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Times {
    /// The next so many calls. `Count(1)` is once.
    Count(u32),
    /// Every call, until the faults are cleared.
    UntilCleared,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// A call misbehaves.
    Call {
        /// Which call.
        verb: Verb,
        /// On which GPU; on any when absent.
        gpu: Option<u16>,
        /// How.
        behaviour: Behaviour,
        /// How often.
        times: Times,
    },
    /// A GPU no longer answers; a reboot brings it back.
    FallsOffTheBus {
        /// Which.
        gpu: u16,
    },
    /// The driver reports an Xid error.
    Xid {
        /// On which GPU.
        gpu: u16,
        /// Its number.
        code: u32,
    },
    /// The memory has ECC errors. The Xid that a driver reports beside them is
    /// a fault of its own.
    Ecc {
        /// On which GPU.
        gpu: u16,
        /// So many that are corrected.
        corrected: u32,
        /// So many that are not.
        uncorrected: u32,
    },
    /// From now on, no more misbehaving calls.
    Clear,
}

/// A fault and its moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// When it begins.
    pub at: Timestamp,
    /// What.
    pub fault: Fault,
}

/// How long calls kept their caller, beyond what they normally take. The
/// engine's time is not its own: whoever drives it adds this to the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stall {
    /// Not at all.
    #[default]
    None,
    /// So long.
    For(SignedDuration),
    /// A call hangs; its caller never goes on.
    Forever,
}

/// The misbehaving calls that are armed, first armed first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Armed(Vec<(Verb, Option<u16>, Behaviour, Times)>);

impl Armed {
    pub(crate) fn arm(&mut self, verb: Verb, gpu: Option<u16>, behaviour: Behaviour, times: Times) {
        self.0.push((verb, gpu, behaviour, times));
    }

    pub(crate) fn has(&self, verb: Verb) -> bool {
        self.0.iter().any(|(v, ..)| *v == verb)
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = Fault> {
        let call = |(verb, gpu, behaviour, times): &(Verb, Option<u16>, Behaviour, Times)| Fault::Call {
            verb: *verb,
            gpu: *gpu,
            behaviour: *behaviour,
            times: *times,
        };
        self.0.iter().map(call)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What happens to this call, if anything. Uses up one of the times.
    pub(crate) fn strike(&mut self, verb: Verb, gpu: Option<u16>) -> Option<Behaviour> {
        let i = self.0.iter().position(|(v, on, _, times)| {
            *v == verb && (on.is_none() || *on == gpu) && *times != Times::Count(0)
        })?;
        let (_, _, behaviour, times) = &mut self.0[i];
        let behaviour = *behaviour;
        if let Times::Count(left) = times {
            *left -= 1;
            if *left == 0 {
                self.0.remove(i);
            }
        }
        Some(behaviour)
    }
}

impl Stall {
    pub(crate) fn and(self, more: Self) -> Self {
        match (self, more) {
            (Self::Forever, _) | (_, Self::Forever) => Self::Forever,
            (Self::None, other) | (other, Self::None) => other,
            (Self::For(a), Self::For(b)) => Self::For(a.saturating_add(b)),
        }
    }
}
