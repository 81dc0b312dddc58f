//! The integration tests of this crate, one program: each module is what one file of tests says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod audit;
mod bounds;
mod example;
mod property;
mod shared;
mod stories;
mod support;
