//! An event, as far as the dashboard looks at it.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// An event of a pod or of a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEvent {
    /// Whether its type is `Warning`, and not `Normal`.
    pub warning: bool,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// `lastTimestamp`, and without it `eventTime`: a series keeps the time at
    /// which it began.
    pub at: Timestamp,
}

impl ShownEvent {
    /// The order by time, as texts have it: within a second, moments with a
    /// fraction come before one without.
    pub(super) fn moment(&self) -> (i64, bool, i32) {
        let fraction = self.at.subsec_nanosecond();
        (self.at.as_second(), fraction == 0, fraction)
    }
}

impl fmt::Display for ShownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { warning, reason, message, at } = self;
        let kind = if *warning { "Warning" } else { "Normal" };
        match at.subsec_nanosecond() {
            0 => write!(f, "{at} [{reason}] [{kind}] {message}"),
            _ => write!(f, "{at:.6} [{reason}] [{kind}] {message}"),
        }
    }
}
