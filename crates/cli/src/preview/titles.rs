//! The titles of a preview's sections: the comment and the page have the same ones.

pub(crate) const NOT_REVIEWED: &str =
    "The plan differs from the reviewed plan: review this plan, and commit its annotations";
pub(crate) const FAILED: &str = "Expectations that FAILED";
pub(crate) const HOLD: &str = "Expectations that hold";
pub(crate) const RISKS: &str = "What can go wrong";
pub(crate) const NOTES: &str = "Notes";
pub(crate) const POLICIES: &str = "Policies";
pub(crate) const MANIFESTS: &str = "Manifests";
pub(crate) const GPUS: &str = "GPUs that this changes";
pub(crate) const WHO: &str = "Who is affected";
pub(crate) const PICTURES: &str = "Before and after";
pub(crate) const SUPPLY: &str = "Supply and demand";
pub(crate) const SEATS: &str = "Seats: a device has as many as pods share it";
pub(crate) const NODES: &str = "Nodes, in the order in which they change";
pub(crate) const REQUESTS: &str = "Requests that wait";
pub(crate) const ROLLOUT: &str = "Rollout, with conservative estimates";
pub(crate) const NOT_READ: &str = "Other documents, which were not read";
