//! The agent as a program, on real parts without a cluster: kubelet's socket and checkpoint by a stand-in, the
//! simulator's library as the driver, and an API server that knows one `GpuNode`.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod api_server;
mod change;
mod command_line;
mod cost;
mod gate;
mod hardware;
mod mig_parted;
mod node;
mod ready;
mod report;
mod scene;
mod trouble;
