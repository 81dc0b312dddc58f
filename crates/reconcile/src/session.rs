//! What one round leaves for the next.

/// What is kept of the rounds before: what was read of nodes, and what was planned. One that is lost costs time and
/// nothing else.
#[derive(Debug, Default)]
pub struct Session {
    /// What was read of each node.
    pub(crate) readings: observe::Readings,
    /// What the planner keeps.
    pub(crate) planner: planner::decide::Session,
}

impl Session {
    /// How many questions the planner's solver has been asked that it had not answered yet. A round that asks none has
    /// planned nothing anew.
    #[must_use]
    pub const fn searched(&self) -> u64 {
        self.planner.searched()
    }
}
