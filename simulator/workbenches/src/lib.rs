//! What OpenShift AI does to a workbench or a model server, by the rules that were read in its source, as data per
//! release: what its webhooks make of one that names a hardware profile, what odh-notebook-controller makes of a new
//! workbench, and what people read in the dashboard. Pure.
//!
//! The operator reads profiles with code of its own (`observe`), so the tests are independent of it.

pub mod admission;
pub mod dashboard;
pub mod profile;
