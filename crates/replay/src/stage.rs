//! The progress of a node's change, in the rollout's phases.

use rollout::Phase;

use crate::target::Target;

/// Where a node is on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is under way.
    #[default]
    Rest,
    /// The layout is on its way to the node; at `ready` the node asks for its turn.
    Mapping { target: Target, ready: i64 },
    /// It is cordoned; at `writes` the change begins and cannot be taken back.
    Cordoned { target: Target, since: i64, writes: i64 },
    /// It is being changed, and is open again at `until`.
    Changing { target: Target, until: i64 },
}

impl Stage {
    /// Whether pods can bind.
    pub(crate) const fn is_open(&self) -> bool {
        match self {
            Self::Rest | Self::Mapping { .. } => true,
            Self::Cordoned { .. } | Self::Changing { .. } => false,
        }
    }

    /// The layout that it is told to come to and can still be told otherwise.
    pub(crate) const fn can_return(&self) -> Option<&Target> {
        match self {
            Self::Mapping { target, .. } | Self::Cordoned { target, .. } => Some(target),
            Self::Rest | Self::Changing { .. } => None,
        }
    }

    /// The next second at which something happens by itself, after `now`.
    pub(crate) fn next(&self, now: i64) -> Option<i64> {
        let at = match self {
            Self::Rest => return None,
            Self::Mapping { ready, .. } => *ready,
            Self::Cordoned { writes, .. } => *writes,
            Self::Changing { until, .. } => *until,
        };
        (at > now).then_some(at)
    }

    pub(crate) const fn phase(&self) -> Phase {
        match self {
            Self::Rest => Phase::Idle,
            Self::Mapping { .. } => Phase::Mapping,
            Self::Cordoned { .. } => Phase::Quiescing,
            Self::Changing { .. } => Phase::Changing,
        }
    }
}
