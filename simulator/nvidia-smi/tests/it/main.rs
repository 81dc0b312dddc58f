//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod captures;
mod clients;
mod node;
mod stories;
mod topology;
mod whole;
