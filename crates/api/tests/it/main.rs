//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod crds;
mod explain;
mod fields;
mod node_agent;
mod rules;
