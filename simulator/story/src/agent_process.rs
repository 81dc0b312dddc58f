//! What the process of an agent remembers, and until when the driver keeps it. Both are gone with the process.

use agent::{Remembered, Turn};
use jiff::{SignedDuration, Timestamp};

/// How long the driver takes to destroy or to create one slice. Nobody here could measure it on a GPU that may be cut: a
/// whole second is meant as too much, so that others act in the middle of a change.
const DRIVER: SignedDuration = SignedDuration::from_secs(1);

/// What one process of an agent remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) remembered: Remembered,
    turn: u64,
    busy_until: Option<Timestamp>,
}

impl Process {
    /// The number of the next thing that it does.
    pub(crate) fn turn(&mut self) -> Turn {
        self.turn += 1;
        Turn(self.turn)
    }

    /// It has asked the driver for a slice now, and waits for its answer.
    pub(crate) fn waits_for_driver(&mut self, now: Timestamp) {
        self.busy_until = Some(now + DRIVER);
    }

    /// Until when it waits for the driver, if it does.
    pub(crate) fn busy_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.busy_until.filter(|until| *until > now)
    }
}
