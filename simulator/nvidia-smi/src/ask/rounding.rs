//! How bytes become MiB, by driver.

use crate::generation::{Driver, Form};

/// How bytes become MiB: drivers before 550 leave the rest away, later ones
/// count it as one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Down,
    Up,
}

impl Rounding {
    pub(super) fn for_driver(driver: Driver) -> Self {
        if driver.has(Form::R550) { Self::Up } else { Self::Down }
    }

    pub(super) const fn mib(self, bytes: u64) -> u64 {
        match self {
            Self::Down => bytes >> 20,
            Self::Up => bytes.div_ceil(1 << 20),
        }
    }
}
