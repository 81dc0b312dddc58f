//! Real programs that talk to NVML, unmodified, on a simulated node.
//!
//! The tests of this crate start them: nvml-wrapper and nvidia-ml-py through a small session of ours,
//! go-nvml likewise, and NVIDIA's nvidia-mig-parted, gpu-feature-discovery, nvidia-ctk and DRA driver as
//! they are. Each gets a [`Node`]: the shared library over a state of its own, and, for programs that use
//! more of a machine than NVML, its kernel modules and PCI devices in a mount namespace. The DRA driver also
//! gets an [`ApiServer`].
//!
//! `cargo xtask clients` builds these programs and passes their locations. Without it the tests report what
//! they skipped.

pub mod api_server;
mod found;
mod layout;
mod node;
mod running;

pub use api_server::ApiServer;
pub use found::{Found, find};
pub use layout::cut;
pub use node::{Node, Output, json_lines};
pub use running::Running;
