//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agents;
mod apart;
mod believed;
mod exclusive;
mod fleet;
mod foreign_hands;
mod idle;
mod kept;
mod memory;
mod menu;
mod mounted;
mod owners;
mod places;
mod pod_sets;
mod quantities;
mod quota;
mod read_labels;
mod redaction;
mod requests;
mod seats;
mod selectors;
mod shared;
mod shares;
mod small;
mod snapshot;
mod strategies;
mod unknown_owners;
mod whole_gpus;
mod words;
