//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod beside_promises;
mod busy_rooms;
mod by_classes;
mod check;
mod decisions;
mod drain_and_room;
mod eligible;
mod first_fit;
mod oldest_first;
mod oracle;
mod priorities;
mod promises;
mod promises_by_proof;
mod properties;
mod rooms;
mod seats;
mod session;
mod shares;
mod solve;
mod steady;
mod together;
mod varied_demand;
mod whole_gpus;
mod whole_on_demand;
mod why;
mod workloads;
