//! Scenarios on a real control plane: the functions with which a test describes one in a few lines.
//!
//! A [provider] gives a cluster: `processes` starts etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler as plain processes, one set for each test that runs at a time; `kubeconfig` uses an
//! existing cluster; `kind` uses the kind cluster with its GPU nodes. [`scenario`] passes the emptied
//! cluster to a test, and makes the checks at its end.
//!
//! Nothing here sleeps: a wait [watches](wait) until a condition holds or a deadline passes, and then
//! reports the last state.

mod afterwards;
mod agent_fixture;
pub mod agents;
pub mod assets;
pub mod audit;
pub mod by_url;
pub mod certificates;
pub mod control_plane;
pub mod dashboard;
pub mod demo;
mod empty;
pub mod etcd;
pub mod expect;
mod frost;
mod guest;
pub mod kueue;
pub mod log;
pub mod manifests;
mod mounts;
pub mod needs;
mod not_here;
pub mod objects;
pub mod operator;
pub mod page;
pub mod pod_groups;
mod pool;
pub mod ports;
pub mod process;
pub mod profile_webhook;
pub mod provider;
pub mod queue;
mod readable;
mod real_nodes;
pub mod rights;
mod scene;
mod scene_queues;
mod scene_rights;
mod served;
pub mod settable;
pub mod soak;
mod telling;
mod times;
pub mod wait;
pub mod weather;
pub mod wire;
pub mod workload_controllers;

pub use cluster::{Fleet, GpuSpec, NodeSpec};
pub use manifests::{NEIGHBOURS, POOL, TEAM, a100, mig, pod, policy, workbench};
pub use scene::Scene;
pub use telling::{scenario, scenario_of_kueue, scenario_on_any_nodes};
