//! What is checked before a release on a real control plane, with the real
//! programs of others: too long for every change. `cargo xtask release-check`
//! builds what it needs and runs it.

mod flux;
mod olm;
