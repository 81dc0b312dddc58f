//! The MIG mode of a GPU, and its transitions.

use serde::{Deserialize, Serialize};

/// MIG on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Off.
    Disabled,
    /// On.
    Enabled,
}

/// What `nvmlDeviceGetMigMode` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MigMode {
    /// Now.
    pub current: Mode,
    /// After the next reset.
    pub pending: Mode,
}

impl MigMode {
    /// Off, and nothing pending.
    pub const OFF: Self = Self::settled(Mode::Disabled);

    /// A mode with nothing pending.
    #[must_use]
    pub const fn settled(mode: Mode) -> Self {
        Self { current: mode, pending: mode }
    }
}

/// How a successful `nvmlDeviceSetMigMode` went on: the call itself succeeds
/// even when the mode only becomes pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// The mode is in force.
    Success,
    /// The mode is pending: somebody has the GPU open, or it still has
    /// instances.
    InUse,
    /// The mode is pending until a reset or reboot that the driver cannot do
    /// itself (passthrough), or that failed.
    ResetRequired,
}
