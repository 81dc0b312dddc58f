//! What makes a kind cluster possible on a machine without a container engine, and without a registry: an
//! engine in a network namespace of its own, a node image from Debian packages and Go modules, and a record
//! of what a kubelet changes on the machine.
//!
//! [`crate::cluster`] and [`crate::engine`] choose it; nothing else of this crate knows of it.

pub mod machine;
pub mod node_image;
pub(crate) mod own_engine;

mod control_plane;
mod parts;
mod rootfs;
