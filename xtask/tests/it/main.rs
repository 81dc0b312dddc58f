//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod alerts;
mod circles;
mod docs;
mod forge;
mod fuzzing;
mod korean;
mod labels;
mod missing;
mod pictures;
mod programs;
mod purity;
mod recordings;
mod seeds;
mod sentences;
