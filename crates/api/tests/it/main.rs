//! The integration tests of this crate, one program: each module is what one file of tests says.

mod crds;
mod explain;
mod fields;
mod rules;
