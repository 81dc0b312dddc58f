//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod captured;
mod cdi;
mod device_plugin;
mod dra_driver;
mod feature_discovery;
mod go_nvml;
mod mig_parted;
mod nvml_wrapper;
mod python;
mod terminal;
