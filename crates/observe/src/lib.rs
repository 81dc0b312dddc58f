//! Kubernetes objects in; the planner's inventory, requests and policies out.
//!
//! Pure and total: objects are handed in, `now` is an argument, and an object
//! that makes no sense becomes a [`problem::Problem`], never a panic and never
//! a guess. What cannot be established is left alone, and says so.
//!
//! - [`objects`] holds what was handed in, [`manifest`] and [`snapshot`] read
//!   it from texts;
//! - [`fleet`] makes the inventory of it, [`requests`] the demand, [`policy`]
//!   the policies, [`menu`] what hardware profiles offer.

pub mod fleet;
pub mod holds;
pub mod labels;
pub mod layouts;
pub mod manifest;
pub mod menu;
pub mod objects;
pub mod operands;
pub mod owners;
pub mod pods;
pub mod policy;
pub mod problem;
pub mod requests;
pub mod sharing;
pub mod snapshot;
pub mod usage;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mig::Catalog;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::PolicyName;
use planner::policy::Policy;
use rollout::fleet::PolicyRollout;

use objects::Key;

pub use objects::Objects;
pub use problem::{Problem, Severity};
pub use rollout::names;

/// What the operator's own flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the GPU Operator: the pods there are its own.
    pub gpu_operator_namespace: String,
    /// A request that still waits this long after its slice became
    /// schedulable is blocked by something else.
    pub blocked_after: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gpu_operator_namespace: "nvidia-gpu-operator".to_owned(),
            blocked_after: SignedDuration::from_mins(2),
        }
    }
}

/// Everything that the planner and the rollout need to know, and what could
/// not be made sense of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What the fleet has.
    pub inventory: Inventory,
    /// What is asked for and not bound, by id.
    pub requests: Vec<Request>,
    /// The workbenches that should run and have no pod, since when: to be
    /// handed in again with the objects of the next round.
    pub starting: BTreeMap<Key, Timestamp>,
    /// The policies, by name. One that makes no sense is there as `Paused`,
    /// so that its nodes do not fall to another policy by a typing error.
    pub policies: Vec<Policy>,
    /// How each policy rolls out.
    pub rollouts: BTreeMap<PolicyName, PolicyRollout>,
    /// What is wrong or worth knowing, errors first.
    pub problems: Vec<Problem>,
}

/// Looks at all objects at one moment.
#[must_use]
pub fn observe(objects: &Objects, catalog: &Catalog, settings: &Settings, now: Timestamp) -> Observed {
    let mut problems = Vec::new();
    let (policies, rollouts) = policy::all(objects, catalog, &mut problems);
    let inventory = fleet::inventory(objects, catalog, &policies, settings, now, &mut problems);
    let (requests, starting) = requests::all(objects, &inventory, settings, now, &mut problems);
    menu::check(objects, &inventory, &policies, &mut problems);
    policy::contradictions(&inventory, &policies, &mut problems);
    problems.sort();
    problems.dedup();
    Observed { inventory, requests, starting, policies, rollouts, problems }
}
