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
        Why::NeverTogether { .. } => "NeverTogether",
        Why::NoRoom => "NoRoom",
        Why::Elsewhere { .. } => "Elsewhere",
        Why::SeatsHeld { .. } => "SeatsHeld",
        Why::OtherName { .. } => "OtherName",
        Why::SeveralKinds => "SeveralKinds",
        Why::AllUsed => "AllUsed",
        Why::NoIdleNode => "NoIdleNode",
        Why::NotItsTurn { .. } => "NotItsTurn",
        Why::NoDomain { .. } => "NoDomain",
        Why::NeverWhole { .. } => "NeverWhole",
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
        | Why::NoDomain { .. }
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
        | Why::NeverTogether { .. }
        | Why::NeverWhole { .. }
        | Why::OtherName { .. }
        | Why::SeveralKinds
        | Why::Refused { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use mig::ProfileName;
    use planner::names::PolicyName;
    use planner::report::Offered;

    use super::*;

    /// A status and a metric have these words: another word is another series, and an alert that is never raised.
    #[test]
    fn the_words_that_statuses_and_metrics_have_stay() {
        let text = String::new;
        let profile = || "1g.10gb".parse::<ProfileName>().expect("a profile");
        let policy = || PolicyName(text());
        let words = [
            (Why::WholeGpu, "WholeGpu", false),
            (Why::NoPolicy, "NoPolicy", false),
            (Why::NoEligibleNode, "NoEligibleNode", false),
            (Why::NoSuchProfile { profile: profile() }, "NoSuchProfile", false),
            (Why::TooLarge { most: 1, profile: Offered::Slice(profile()) }, "TooLarge", false),
            (Why::NeverTogether { slices: Vec::new() }, "NeverTogether", false),
            (Why::NeverWhole { asks: 2, most: 1, profile: Offered::Slice(profile()) }, "NeverWhole", false),
            (Why::NoRoom, "NoRoom", true),
            (Why::SeveralKinds, "SeveralKinds", false),
            (Why::AllUsed, "AllUsed", true),
            (Why::NoIdleNode, "NoIdleNode", true),
            (Why::NotItsTurn { policy: policy() }, "NotItsTurn", true),
            (Why::NoDomain { topology: text(), pods: 2, fits: Vec::new(), unseen: 0 }, "NoDomain", true),
            (Why::Fragmented, "Fragmented", true),
            (Why::Held { nodes: Vec::new() }, "Held", true),
            (Why::IdlenessNotProvable { gpus: Vec::new() }, "IdlenessNotProvable", true),
            (Why::Refused { why: text() }, "Refused", false),
        ];
        for (why, word, passes) in words {
            assert_eq!((why_name(&why), may_pass(&why)), (word, passes), "{why:?}");
        }
    }
}
