//! What the process of an agent remembers. It is gone with the process.

use agent::{Remembered, Turn};

/// What one process of an agent remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) remembered: Remembered,
    turn: u64,
}

impl Process {
    /// The number of the next thing that it does.
    pub(crate) fn turn(&mut self) -> Turn {
        self.turn += 1;
        Turn(self.turn)
    }
}
