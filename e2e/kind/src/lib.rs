//! A kind cluster with real kubelets, also on a machine that reaches no image
//! registry and has no container engine.
//!
//! What is there is used: Docker or Podman, and kind's own node image. What
//! is not is made: an engine in a network namespace of its own, and a node
//! image from Debian packages and the Go modules under `tools/`. Either way
//! the machine is afterwards as it was: what a kubelet sets for the whole
//! machine is written down before anything starts, and `down` puts it back,
//! also after an interrupted run.

pub mod call;
pub mod cluster;
pub mod engine;
pub mod fleet;
pub mod gpus;
pub mod logs;
pub mod machine;
pub mod node_image;
pub mod operator;
pub mod place;
pub mod preflight;
pub mod programs;
pub mod progress;
pub mod stories;

mod archive;
mod control_plane;
mod own_engine;
mod rootfs;
