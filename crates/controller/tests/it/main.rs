//! The integration tests of this crate, one program: each module is what one file of tests says.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod answers;
mod bounds;
mod changes;
mod events;
mod executor;
mod gather;
mod history;
mod lease;
mod metrics_tls;
mod reference;
mod release;
mod series;
mod store;
mod trim;
