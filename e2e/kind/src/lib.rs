//! A kind cluster with real kubelets, also on a machine that reaches no image
//! registry and has no container engine.
//!
//! Docker or Podman and kind's own node image are used if they are available. Otherwise they are replaced:
//! by an engine in a network namespace of its own, and by a node image from Debian packages and the Go
//! modules under `tools/`. In both cases the machine is restored afterwards: the settings that a kubelet
//! changes for the whole machine are recorded before anything starts, and `down` restores them, also after
//! an interrupted run.

pub mod call;
pub mod cluster;
pub mod engine;
pub mod fleet;
pub mod gpus;
pub mod logs;
pub mod operator;
pub mod place;
pub mod preflight;
pub mod programs;
pub mod progress;
mod queues;
pub mod stories;
pub mod waiting;
pub mod without_engine;

mod archive;

#[cfg(test)]
mod archive_tests;
