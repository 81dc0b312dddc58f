//! The only place that reads a clock. The nodes run in virtual time, which is faster than real time by a
//! configured factor; every duration in the simulated world is a duration of virtual time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Maps real time to virtual time.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    epoch: Timestamp,
    speed: f64,
}

impl Clock {
    /// A clock that begins now and runs so many times faster than the real one.
    #[must_use]
    pub fn starting_now(speed: f64) -> Self {
        Self { started: Instant::now(), epoch: real_now(), speed }
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::from_secs_f64(self.started.elapsed().as_secs_f64() * self.speed);
        self.epoch.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// How long, in real time, until a virtual moment. Never less than a
    /// millisecond, so that rounding makes nobody spin.
    #[must_use]
    pub fn until(&self, at: Timestamp) -> Duration {
        let left = at.duration_since(self.now()).as_secs_f64() / self.speed;
        Duration::from_secs_f64(left.clamp(0.001, 86_400.0))
    }
}

/// The real time, as objects of the API carry it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock module of this shell")]
pub(crate) fn real_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_runs_faster() {
        let clock = Clock::starting_now(50.0);
        let begin = clock.now();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clock.now().duration_since(begin), SignedDuration::from_secs(100));
        let later = clock.now() + SignedDuration::from_secs(50);
        assert_eq!(clock.until(later), Duration::from_secs(1));
        assert_eq!(clock.until(begin), Duration::from_millis(1), "what is over is due at once");
    }
}
