//! The agent of one node of a soak: whether it runs, and what keeps it from that.

use crate::agents::Agent;

/// The agent of one node.
#[derive(Default)]
pub(super) struct NodeAgent {
    pub(super) runs: Option<Agent>,
    /// The boot in which it was started last; in this one it does not start again, if it went down with its node.
    pub(super) boot: String,
    pub(super) is_down: bool,
    /// For so many more events it does not start.
    pub(super) away: usize,
    /// Whether it may change slices, from its next start on.
    pub(super) changes: bool,
}

impl NodeAgent {
    pub(super) async fn dies(&mut self) -> anyhow::Result<()> {
        match self.runs.take() {
            Some(agent) => agent.kill().await,
            None => Ok(()),
        }
    }
}
