//! What an agent is told when it starts.

use std::net::SocketAddr;
use std::time::Duration;

use agent::{BootId, PodUid};
use api::node_agent::AgentMode;

use crate::look::Eyes;

/// All of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the node, which is that of its `GpuNode`.
    pub node: String,
    /// The uid of the agent's own pod.
    pub pod: PodUid,
    /// The present boot of the node.
    pub boot: BootId,
    /// What it may do.
    pub mode: AgentMode,
    /// What it looks with.
    pub eyes: Eyes,
    /// How long kubelet's checkpoint is left alone after it changed.
    pub settle: Duration,
    /// How often it looks where nothing changed.
    pub every: Duration,
    /// How long a call to the API server may take.
    pub call_timeout: Duration,
    /// Where health is served.
    pub health_address: Option<SocketAddr>,
    /// How long the loop may stand still.
    pub stuck_after: Duration,
}
