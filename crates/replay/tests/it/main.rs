//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod audit;
mod bounds;
mod example;
mod property;
mod shared;
mod stories;
mod support;
