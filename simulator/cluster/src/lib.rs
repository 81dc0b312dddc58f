//! Virtual GPU nodes on a real API server. Each node has an engine ([`operands::Node`]) that does what the
//! GPU Operator's operands and the kubelet would do, over simulated GPUs; this crate is the shell that
//! connects it with the API server in both directions. Scheduler and controllers are the real ones.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), cluster::Error> {
//! use cluster::{Cluster, Fleet, NodeSpec};
//! use tokio_util::sync::CancellationToken;
//!
//! let mut fleet = Fleet { speed: 50.0, ..Fleet::default() };
//! fleet.nodes.push(NodeSpec::new("gpu-1", 1, "A100-80GB"));
//! let shutdown = CancellationToken::new();
//! let cluster = Cluster::new(client, fleet, shutdown.clone())?;
//! let handle = cluster.handle();
//! let running = tokio::spawn(cluster.run());
//! handle.turn("gpu-1", "does-not-stop device-plugin")?;
//! # let _ = running; Ok(()) }
//! ```
//!
//! What is modelled, and what is not: `docs/simulator.md`.

pub mod annotations;
mod clock;
mod cluster;
#[cfg(test)]
mod conversation;
mod error;
mod fleet;
mod gpu_operator;
mod handle;
mod host;
mod kept;
mod lease;
mod names;
mod node_object;
mod node_tasks;
mod notebooks;
mod openshift_ai;
mod perform;
mod pod_object;
mod policy;
mod reissued;
mod resource_version;
mod setup;
mod shared;
mod users;
mod watch;
mod write;

pub use clock::Clock;
pub use cluster::Cluster;
pub use error::Error;
pub use fleet::{Fleet, FleetError, GpuSpec, NodeError, NodeSpec};
pub use handle::{Books, Given, Handle};
pub use openshift_ai::keep_workbenches;
pub use setup::openshift_ai_crds;

/// Runs a fleet until the shutdown token is cancelled.
///
/// # Errors
/// The fleet is not possible, or the cluster cannot be set up.
pub async fn run(
    client: kube::Client,
    fleet: Fleet,
    shutdown: tokio_util::sync::CancellationToken,
) -> Result<(), Error> {
    Cluster::new(client, fleet, shutdown)?.run().await
}
