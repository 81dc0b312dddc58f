//! Simulates the effects of the GPU Operator's operands and the kubelet on one Kubernetes node, over
//! simulated GPUs, in virtual time. Pure: no I/O, no clock.
//!
//! [`Node`] is a discrete-event simulation. Inputs are the actions of others (patch its labels, cordon it,
//! change the map, bind and end pods, delete operands' pods, reboot it) and faults ([`NodeFault`]).
//! [`Node::tick`] lets time pass and returns the changes; [`Node::next_event`] returns the time of the next
//! event. The views have what an API server would show; [`Node::truth`] has what it would not.
//!
//! What is modelled from which source, and what is inferred: `docs/simulator.md`.

pub mod apply;
mod change;
pub mod config;
mod devices;
mod discovery;
mod fault;
pub mod faults;
mod node;
mod operand;
mod pod;
mod setup;
mod sharing;
mod version;

pub use change::{Change, What};
pub use config::{ConfigError, MigConfigs};
pub use fault::{NodeFault, ScheduledFault};
pub use node::{GpuTruth, MIG_CONFIG, MIG_CONFIG_STATE, Node, PAUSED, SliceTruth};
pub use operand::{Operand, OperandPhase, OperandPod};
pub use pod::{Admission, Opens, Pod, PodName, PodPhase, PodSpec};
pub use setup::{Flavour, Setup, SetupError, Stack, Strategy, Timings};
pub use sharing::{Method, PLUGIN_CONFIG, PluginConfig, PluginConfigError, Sharing};
pub use version::{ManagerVersion, PluginVersion, Release, ReleaseError, VersionError};
