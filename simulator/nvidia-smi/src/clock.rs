//! The clock of a run, by which `-l` and the monitors wait.

use std::time::Duration;

use jiff::Zoned;

/// Tells the time, and lets it pass.
pub trait Clock {
    /// Now.
    fn now(&self) -> Zoned;

    /// Waits. Whether to go on afterwards: a clock that is at its end says no.
    fn wait(&mut self, time: Duration) -> bool;
}
