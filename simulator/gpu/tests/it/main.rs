//! The integration tests of this crate, one program: each module is what one file of tests says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod errors;
mod power;
mod properties;
mod saved;
mod stories;
mod support;
mod transcripts;
