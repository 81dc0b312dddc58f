//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod errors;
mod power;
mod products;
mod properties;
mod saved;
mod stories;
mod support;
mod transcripts;
