//! Who set a cordon. The label [`names::CORDONED_BY`] shows it to people, but any controller that prunes
//! unknown labels removes it; the API server knows which field manager set `spec.unschedulable`, and the
//! progress records whether a cordon of ours was seen.
//!
//! [`names::CORDONED_BY`]: crate::names::CORDONED_BY

use jiff::SignedDuration;

use crate::cordon_owner::CordonOwner;
use crate::observed::Observed;
use crate::progress::Progress;

/// How long after our mark was put back it is put back again: whoever takes it
/// away every time is not answered write for write.
pub const MARK_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Whether a cordon is ours. Where the managed fields say who set it, that
/// counts; else our mark, or that a cordon of ours was seen in this rollout.
#[must_use]
pub fn is_ours(owner: &CordonOwner, marked: bool, progress: &Progress) -> bool {
    match owner {
        CordonOwner::Us => true,
        CordonOwner::Other { .. } => false,
        CordonOwner::Unknown => marked || is_remembered(progress),
    }
}

fn is_remembered(progress: &Progress) -> bool {
    let seen = progress.target.as_ref().is_some_and(|target| target.cordoned_at.is_some());
    seen && progress.phase.disrupts()
}

impl Observed {
    /// The node is cordoned, and by us.
    #[must_use]
    pub fn cordoned_by_us(&self, progress: &Progress) -> bool {
        self.unschedulable && is_ours(&self.cordon_owner, self.marked(), progress)
    }

    /// The node is cordoned, and by somebody else.
    pub(crate) fn cordoned_by_others(&self, progress: &Progress) -> bool {
        self.unschedulable && !self.cordoned_by_us(progress)
    }
}
