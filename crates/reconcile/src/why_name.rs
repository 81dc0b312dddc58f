//! Why a request is not served, in one word.

use planner::report::Why;

/// The reason in one word.
#[must_use]
pub const fn why_name(why: &Why) -> &'static str {
    match why {
        Why::WholeGpu => "WholeGpu",
        Why::NoPolicy => "NoPolicy",
        Why::NoEligibleNode => "NoEligibleNode",
        Why::NoSuchProfile { .. } => "NoSuchProfile",
        Why::TooLarge { .. } => "TooLarge",
        Why::NoRoom => "NoRoom",
        Why::AllUsed => "AllUsed",
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
