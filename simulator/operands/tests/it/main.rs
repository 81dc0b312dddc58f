//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agents;
mod change;
mod config;
mod failure;
mod faults;
mod sharing;
mod support;
