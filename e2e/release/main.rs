//! Checks before a release on a real control plane, with the real programs of others, which take too long
//! for every change. `cargo xtask release-check` builds the prerequisites and runs them.

mod flux;
mod must_gather;
mod olm;
mod rehearsal;
mod soak;
mod workloads;
