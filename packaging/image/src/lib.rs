//! Images without a container daemon and without a base image: from files to
//! the bytes of an OCI layout.
//!
//! Everything here is a function of its arguments: no file is read, no clock. The same files with the same
//! [`oci::Image::created`] give the same digest on every machine. The program beside it (`src/make`), which
//! `cargo xtask image` starts, finds the files.

pub mod artifact;
pub mod auditable;
pub mod elf;
pub mod labels;
pub mod notices;
pub mod oci;
pub mod packages;
pub mod sbom;
pub mod tree;

/// The user and the group that all images run as: nobody's on any machine,
/// and what the chart says.
pub const USER: u32 = 65532;
