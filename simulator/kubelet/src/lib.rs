//! A stand-in for the part of kubelet that the node agent reads: the pod-resources socket (gRPC, version 1) and the
//! device manager's checkpoint. It answers as kubelet does, omissions included: `List` has no init containers that
//! end, and no uids; the checkpoint keeps pods that have ended. What is in its books others decide.
//!
//! The messages are stated here once more, not taken from the product: one side alone could have them wrong.

mod books;
mod checkpoint;
mod messages;
mod server;

pub use books::{Books, Container, Pod};
pub use server::{Calls, Kubelet, KubeletError};
