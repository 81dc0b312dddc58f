//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod agents_policy;
mod answers;
mod bounds;
mod changes;
mod environment;
mod events;
mod executor;
mod first_writes;
mod free_slice;
mod gather;
mod history;
mod lease;
mod metrics_tls;
mod queues;
mod reference;
mod release;
mod seats;
mod series;
mod store;
mod trim;
mod unread;
mod workloads;
