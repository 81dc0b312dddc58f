//! What OpenShift AI does to a workbench, by the rules that were read in its source, as data per release: what its
//! webhook makes of a Notebook that names a hardware profile, and what people read in its dashboard. Pure.
//!
//! The operator reads profiles with code of its own (`observe`), so the tests are independent of it.

pub mod dashboard;
pub mod profile;
