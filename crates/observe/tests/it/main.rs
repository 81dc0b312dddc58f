//! The integration tests of this crate, one program: each module is what one file of tests says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod fleet;
mod foreign_hands;
mod memory;
mod menu;
mod owners;
mod quantities;
mod redaction;
mod requests;
mod selectors;
mod snapshot;
mod strategies;
mod words;
