//! The integration tests of this crate, in one program: each module is one file of tests.

mod crds;
mod explain;
mod fields;
mod node_agent;
mod rules;
