//! What a story counts.

/// What the story counts, over crashes.
#[derive(Default)]
pub(crate) struct Counters {
    /// Node changes that were started.
    pub(crate) changes: usize,
    /// What the checker found fatal, and why that must not be.
    pub(crate) fatal: Vec<String>,
}
