//! The results of actions, as labels.

use crate::class::Class;

/// What came of something that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not, for an error of this class.
    Failed(Class),
    /// It was not, since the lease is another replica's.
    LeaseLost,
    /// It was not, since the operator stops.
    Stopping,
    /// It was not, since the API's data went back in time.
    WentBack,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed(class) => class.name(),
            Self::LeaseLost => "lease_lost",
            Self::Stopping => "stopping",
            Self::WentBack => "went_back",
        }
    }
}
