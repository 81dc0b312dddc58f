//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agents_policy;
mod browser;
mod clusters;
mod documents;
mod expectations;
mod foreign_fleet;
mod gpus;
mod layouts_and_fit;
mod page;
mod plan;
mod policy_repo;
mod previews;
mod profiles;
mod queues;
mod reference;
mod replay;
mod replay_recorded;
mod revisions;
mod seats;
mod shells;
mod simulate;
mod solve;
mod standard_input;
mod stories;
mod support;
mod workflows;
