//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod abi;
mod exports;
mod figures;
mod guard;
mod hostile;
mod library;
mod lost;
mod mig;
mod power;
mod sheets;
mod silence;
mod support;
mod topology;
mod wrapper;
