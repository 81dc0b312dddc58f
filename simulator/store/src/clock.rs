//! The only clock of the simulated node: the real one.

use jiff::Timestamp;

/// The moment at which machines are when somebody looks at them.
#[must_use]
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the shell's clock module")]
    Timestamp::now()
}
