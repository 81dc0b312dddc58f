//! Why a request is not served, in one word, and whether waiting is enough.

use planner::report::Why;

/// The reason in one word.
#[must_use]
pub const fn why_name(why: &Why) -> &'static str {
    match why {
        Why::WholeGpu => "WholeGpu",
        Why::NoPolicy => "NoPolicy",
        Why::NoEligibleNode => "NoEligibleNode",
        Why::NoSuchProfile { .. } => "NoSuchProfile",
        Why::NeverCut { .. } => "NeverCut",
        Why::TooLarge { .. } => "TooLarge",
        Why::NoRoom => "NoRoom",
        Why::Elsewhere { .. } => "Elsewhere",
        Why::SeatsHeld { .. } => "SeatsHeld",
        Why::OtherName { .. } => "OtherName",
        Why::SeveralKinds => "SeveralKinds",
        Why::AllUsed => "AllUsed",
        Why::NoIdleNode => "NoIdleNode",
        Why::NotItsTurn { .. } => "NotItsTurn",
        Why::Fragmented => "Fragmented",
        Why::Held { .. } => "Held",
        Why::IdlenessNotProvable { .. } => "IdlenessNotProvable",
        Why::PolicyForbids { .. } => "PolicyForbids",
        Why::BlockedElsewhere { .. } => "BlockedElsewhere",
        Why::Refused { .. } => "Refused",
        Why::NoPlan { .. } => "NoPlan",
    }
}

/// Whether waiting can be enough: somebody ends, a hold passes, a turn comes.
/// Where it is not, somebody has to change the request, the policy or the fleet.
#[must_use]
pub const fn may_pass(why: &Why) -> bool {
    match why {
        Why::NoRoom
        | Why::Elsewhere { .. }
        | Why::SeatsHeld { .. }
        | Why::AllUsed
        | Why::NoIdleNode
        | Why::NotItsTurn { .. }
        | Why::Fragmented
        | Why::Held { .. }
        | Why::IdlenessNotProvable { .. }
        | Why::BlockedElsewhere { .. }
        // A bound counts what others hold now.
        | Why::PolicyForbids { .. }
        | Why::NoPlan { .. } => true,
        Why::WholeGpu
        | Why::NoPolicy
        | Why::NoEligibleNode
        | Why::NoSuchProfile { .. }
        | Why::NeverCut { .. }
        | Why::TooLarge { .. }
        | Why::OtherName { .. }
        | Why::SeveralKinds
        | Why::Refused { .. } => false,
    }
}
