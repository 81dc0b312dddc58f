//! The differences between generations of the driver.

use mig::{Attribute, ProfileSpec};
use serde::{Deserialize, Serialize};

/// A driver branch by its major number, such as 535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DriverBranch(pub u16);

impl Default for DriverBranch {
    fn default() -> Self {
        Self(580)
    }
}

/// What a driver says of a profile that the card at hand does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCards {
    /// `NotSupported`; by id it is `NotFound`.
    Unsupported,
    /// It is known, has no placements, and none of it fits.
    WithoutPlacements,
}

impl DriverBranch {
    /// `MIG-<uuid>` since 470; before, `MIG-<GPU UUID>/<GI>/<CI>`.
    pub(crate) const fn short_mig_uuids(self) -> bool {
        self.0 >= 470
    }

    /// A 4g beside a 3g is possible since 510.
    pub(crate) const fn allows_4g_beside_3g(self) -> bool {
        self.0 >= 510
    }

    /// Profiles are answered for with MIG off by drivers after 535.
    pub(crate) const fn lists_profiles_with_mig_off(self) -> bool {
        self.0 > 535
    }

    /// What it says of a profile that only other cards have, by the profile's id:
    /// from 580 on it knows those of later cards. Seen on an H100 and an H200 with
    /// driver 580.159.04.
    #[must_use]
    pub const fn profile_of_other_cards(self, id: u32) -> Option<OtherCards> {
        match id {
            _ if self.0 < 580 => None,
            6 | 10 | 21 => Some(OtherCards::Unsupported),
            32 | 35 | 38 | 47 | 48 | 64..=67 | 72 | 73 => Some(OtherCards::WithoutPlacements),
            _ => None,
        }
    }

    /// `+me` came with 470 (A30's `2g+me` with 525), the double-memory `1g`
    /// with 525.
    pub(crate) fn has(self, profile: &ProfileSpec, memory_units: u8, compute: u8) -> bool {
        let ProfileSpec { name, compute: slices, size, starts: _ } = profile;
        let double = compute == 7 && *slices == 1 && *size * 8 == memory_units * 2;
        match name.attribute {
            Attribute::Media => self.0 >= if *slices > 1 { 525 } else { 470 },
            _ => !double || self.0 >= 525,
        }
    }
}
