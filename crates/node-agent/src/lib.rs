//! The node agent as a process. It decides nothing: every step comes from `slicewright-agent`, which is pure; this
//! crate reads kubelet, the driver and the `GpuNode`, and does what the step says.
//!
//! - [`kubelet`]: the pod-resources socket, the checkpoint, and when the checkpoint changes;
//! - [`driver`]: NVIDIA's library, open only while it is asked; [`hardware`]: its answers in the terms of the core;
//! - [`look`]: one look at all of it, in the order on which the proof rests;
//! - [`object`]: the `GpuNode`, and the agent's part of its status;
//! - [`alone`]: the lock by which one agent at a time works on a node;
//! - [`run`]: the loop.

pub mod alone;
pub mod args;
pub mod driver;
pub mod hardware;
pub mod kubelet;
pub mod look;
pub mod object;
#[cfg(unix)]
pub mod process;
pub mod run;
pub mod settings;
