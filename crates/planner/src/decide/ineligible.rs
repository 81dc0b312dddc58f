//! The answer to somebody who may use no node at all: which of its wishes no node meets.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::eligible::{Eligibility, Ineligible};
use crate::report::{Help, Why};

/// No node fits: for lack of room only, or because the request asks for what no node is.
pub(super) fn no_node(eligible: &Arc<[Eligibility]>) -> (Why, Vec<Help>) {
    let reasons = eligible.iter().filter_map(|e| match e {
        Eligibility::Yes => None,
        Eligibility::No { reason } => Some(reason),
    });
    let advice: BTreeSet<String> = reasons.clone().filter_map(Ineligible::advice).collect();
    let mut help: Vec<Help> = advice.into_iter().map(|advice| Help::ChangeRequest { advice }).collect();
    let room = reasons.clone().any(|reason| matches!(reason, Ineligible::NoRoom { .. }));
    if room {
        return (Why::NoRoom, help);
    }
    if help.is_empty()
        && let Some(reason) = reasons.min()
    {
        // Which of its wishes no node has is what its author can change.
        let advice = match reason {
            Ineligible::NodeSelector { .. } | Ineligible::Affinity { .. } | Ineligible::Taint { .. } => {
                format!("change its node selector, affinity or tolerations: the first node {reason}")
            }
            Ineligible::KeptOff { .. } => {
                format!(
                    "add nodes with such slices, or relax its anti-affinity or topology spread: the first node {reason}"
                )
            }
            Ineligible::Volume { .. } => {
                format!("use a volume that nodes with such slices can have: the first node {reason}")
            }
            Ineligible::Lacks { resource, .. } => {
                format!("ask for less of {resource}, or free it: the first node {reason}")
            }
            Ineligible::SingleForm { .. }
            | Ineligible::SingleStrategy
            | Ineligible::SharesGpus { .. }
            | Ineligible::NoRoom { .. } => {
                return (Why::NoEligibleNode, help);
            }
        };
        help.push(Help::ChangeRequest { advice });
    }
    (Why::NoEligibleNode, help)
}
