//! Planning problems in the referee's form: a fleet, additional demand by
//! profile with weights, and three objectives in order: unserved weight, GPUs
//! changed, slices created and destroyed.
//!
//! `slicewright solve` reads these problems, and the planner's quality and speed are measured with them;
//! policies are not involved.

mod error;
mod file;
mod known;
mod plan;
mod session;

use mig::{Geometry, Layout, ProfileName};

pub use error::FileError;
pub use plan::{Actuation, Change, Objective, Plan, Unmet};
pub use session::Session;

/// A planning problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What it is called, if it has a name.
    pub name: Option<String>,
    /// The models, by name.
    pub models: Vec<Model>,
    /// The GPUs, in the file's order (which changes no result).
    pub gpus: Vec<Gpu>,
    /// What is wanted beyond what is in use, by profile.
    pub demand: Vec<Demand>,
}

/// A model of GPU and its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its profiles and placements.
    pub geometry: Geometry,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, unique in the problem.
    pub id: String,
    /// Its position in [`Problem::models`].
    pub model: usize,
    /// Slices that must stay where they are.
    pub in_use: Layout,
    /// Slices that are there, serve demand of their profile, and may go.
    pub idle: Layout,
}

/// Demand of one profile: free slices wanted beyond those in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The profile; any model that has it serves it.
    pub profile: ProfileName,
    /// How many.
    pub count: i64,
    /// What each one that is not there costs.
    pub weight: i64,
}
