//! The owner of a cordon, as the API server records it.

/// Who owns `spec.unschedulable`, by the node's managed fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CordonOwner {
    /// The managed fields do not say: there are none, or the API server merged
    /// them with those of others.
    #[default]
    Unknown,
    /// We do, alone.
    Us,
    /// Somebody else does, alone or together with us.
    Other {
        /// The name of the field manager.
        manager: String,
    },
}
