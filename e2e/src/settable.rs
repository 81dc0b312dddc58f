//! The clock of an operator's machine, which a test can set while the operator runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use controller::clock::{self, Clock};
use jiff::SignedDuration;

/// A clock that can be set. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Settable(Arc<AtomicI64>);

impl Settable {
    /// For the operator's settings.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let ahead = Arc::clone(&self.0);
        Clock::told_by(move || clock::now() + SignedDuration::from_secs(ahead.load(Ordering::SeqCst)))
    }

    /// It is set forward, or back, by whole seconds.
    pub fn moves(&self, by: SignedDuration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}
