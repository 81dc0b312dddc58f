//! Conditions that a fleet must meet after every change: "team A keeps four 1g.10gb". They are written
//! beside the policies, and checked with every preview.

mod judge;
mod read;

use mig::ProfileName;
use observe::problem::Location;
use planner::demand::Expression;
use serde::Serialize;

pub use judge::judge;
pub use read::{API_VERSION, is_expectations, read, read_document};

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// What is expected, as a sentence for people.
    pub name: String,
    /// Why it must hold.
    pub why: Option<String>,
    /// Where it stands.
    pub place: Location,
    /// Only nodes of this policy.
    pub policy: Option<String>,
    /// Only nodes with these labels; all when empty.
    pub nodes: Vec<Expression>,
    /// Only for this namespace.
    pub namespace: Option<String>,
    /// Only slices of this profile.
    pub profile: Option<ProfileName>,
    /// What must hold; never empty.
    pub checks: Vec<Check>,
}

/// One thing that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// So many slices exist.
    MinSlices(u32),
    /// So many are free.
    MinFree(u32),
    /// So many could be offered.
    MinAttainable(u32),
    /// Every request is served.
    Served,
    /// No more pods are evicted.
    MaxEvictions(u32),
}

/// An expectation and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// What is expected.
    pub name: String,
    /// Whether it holds.
    pub holds: bool,
    /// Whether it holds under the policies before, where there is a before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_before: Option<bool>,
    /// What does not hold, with the next step: one sentence or more each.
    pub failures: Vec<Failed>,
    /// Why it must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// File, line and column.
    pub place: String,
}

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The field of the expectation, such as `minFree`.
    pub field: &'static str,
    /// What is expected and what is found.
    pub message: String,
    /// What to do.
    pub next: String,
}
