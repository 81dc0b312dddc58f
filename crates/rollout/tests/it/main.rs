//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod begun;
mod clocks;
mod cordon;
mod doubts;
mod failed;
mod failures;
mod fake;
mod fleet;
mod hand_back;
mod ladder;
mod layouts;
mod limits;
mod map;
mod memory;
mod properties;
mod protection;
mod quiesce;
mod reference;
mod sharing;
mod slices;
mod stored;
mod stories;
mod windows;
mod windows_oracle;
