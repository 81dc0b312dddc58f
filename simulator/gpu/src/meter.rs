//! A GPU's meter, as it was read last.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a GPU has drawn, and how long it worked, up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meter {
    /// The moment.
    pub(crate) at: Timestamp,
    /// Energy since the driver was loaded, in µJ.
    pub(crate) energy_uj: u64,
    /// Time during which somebody computed on it, in µs.
    pub(crate) busy_us: u64,
    /// Time during which somebody could have computed on it, in µs: its clocks
    /// were up. States of before it was known have counted none.
    #[serde(default)]
    pub(crate) awake_us: u64,
}

impl Meter {
    /// One that begins now.
    pub(crate) const fn from(at: Timestamp) -> Self {
        Self { at, energy_uj: 0, busy_us: 0, awake_us: 0 }
    }
}
