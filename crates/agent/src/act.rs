//! What the agent asks of the driver: [`step`](crate::step) says when, [`remembered`](crate::remembered) how often it was
//! refused, and an [`account`](crate::account) what did not work.

/// What the driver is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// To destroy a slice.
    Destroy,
    /// To create a slice, at its place.
    Create,
}
