//! Why a scenario is left out on a cluster.

/// What a scenario needs of its cluster that this one does not give.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotHere(pub(crate) &'static str);
