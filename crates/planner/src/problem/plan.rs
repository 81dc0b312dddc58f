//! The solution of a problem.

use mig::ProfileName;
use serde::{Deserialize, Serialize};

use crate::solver::Level;

/// How much of a GPU can change while a slice of it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actuation {
    /// Every slice that is idle, and every free place.
    SliceBySlice,
    /// Nothing: only GPUs without any slice in use change.
    WholeGpu,
}

/// What is minimised, first things first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// The weight of the demand that stays unserved.
    UnservedWeight,
    /// The GPUs that change.
    GpusChanged,
    /// The slices created and destroyed.
    Operations,
}

impl Objective {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::UnservedWeight, Self::GpusChanged, Self::Operations];

    /// What a GPU adds on which so many slices are created and destroyed.
    pub(super) fn of_gpu(self, operations: i64) -> i64 {
        match self {
            Self::UnservedWeight => 0,
            Self::GpusChanged => i64::from(operations > 0),
            Self::Operations => operations,
        }
    }
}

/// A solved problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The GPUs that change, by id.
    pub changes: Vec<Change>,
    /// Weight of the demand that stays unserved.
    pub unserved_weight: Level,
    /// GPUs that change, given the unserved weight.
    pub gpus_changed: Level,
    /// Slices created and destroyed, given both.
    pub operations: Level,
    /// Demand by profile, and what of it stays unserved.
    pub unmet: Vec<Unmet>,
}

/// The final layout of a GPU that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The GPU.
    pub gpu: String,
    /// All slices that it has in the end: profile and start.
    #[serde(rename = "final")]
    pub layout: Vec<(ProfileName, u8)>,
}

/// Demand of a profile, and what of it stays unserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// The profile.
    pub profile: ProfileName,
    /// What is wanted.
    pub wanted: i64,
    /// What is not served.
    pub unserved: i64,
    /// The weight of each.
    pub weight: i64,
}
