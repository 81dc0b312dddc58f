//! The only place of this crate that reads the clock. Everything that decides
//! takes the time as an argument.

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
