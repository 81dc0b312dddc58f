//! The integration tests of this crate, one program: each module is what one file of tests says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod feature_discovery;
mod go_nvml;
mod mig_parted;
mod nvml_wrapper;
mod python;
