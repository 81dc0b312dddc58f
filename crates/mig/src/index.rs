//! Profiles and placements by their position in a geometry: what layouts and counts are made of.

use serde::{Deserialize, Serialize};

/// The position of a profile in its geometry's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProfileIndex(pub u8);

/// The position of a placement in its geometry: profiles in the table's
/// order, starts ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlacementIndex(pub u8);
