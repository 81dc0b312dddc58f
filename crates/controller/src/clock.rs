//! The only place of this crate that reads the clock. All code that decides takes the time as an argument,
//! and the operator takes its clock as one: a clock can be set while it runs, which a test does.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// The time of day.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the shell's clock module")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A clock that only goes forward, for durations and deadlines of this process.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the shell's clock module")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

/// Who says the time of day.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that says what this function says.
    #[must_use]
    pub fn told_by(says: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(says))
    }

    /// The time of day by this clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    /// That of the machine.
    fn default() -> Self {
        Self::told_by(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
