//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod clients;
mod faults;
mod files;
mod processes;
mod refusal;
mod sharing;
mod support;
