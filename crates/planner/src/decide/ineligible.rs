//! The answer to somebody who may use no node at all: which of its wishes no node meets.

use std::collections::BTreeSet;

use crate::eligible::{Eligibility, Ineligible};
use crate::names::NodeName;
use crate::report::{Help, Why};

/// No node fits: for lack of room only, or because the request asks for what no node is.
pub(super) fn no_node<'a>(judged: impl Iterator<Item = (&'a NodeName, &'a Eligibility)>) -> (Why, Vec<Help>) {
    let refused: Vec<(&Ineligible, &NodeName)> =
        judged.filter_map(|(name, eligibility)| Some((eligibility.reason()?, name))).collect();
    let advice: BTreeSet<String> = refused.iter().filter_map(|(reason, _)| reason.advice()).collect();
    let mut help: Vec<Help> = advice.into_iter().map(|advice| Help::ChangeRequest { advice }).collect();
    if let Some((reason, name)) = roomiest(&refused) {
        if help.is_empty() {
            let advice = format!("ask for less, or free some of it: node {name} {reason}");
            help.push(Help::ChangeRequest { advice });
        }
        return (Why::NoRoom, help);
    }
    if help.is_empty()
        && let Some((reason, name)) = refused.into_iter().min()
    {
        // Which of its wishes no node has is what its author can change.
        let advice = match reason {
            Ineligible::NodeSelector { .. } | Ineligible::Affinity { .. } | Ineligible::Taint { .. } => {
                format!("change its node selector, affinity or tolerations: node {name} {reason}")
            }
            Ineligible::KeptOff { .. } => {
                format!(
                    "add nodes with such slices, or relax its pod affinity, anti-affinity or topology spread: node {name} {reason}"
                )
            }
            Ineligible::Volume { .. } => {
                format!("use a volume that nodes with such slices can have: node {name} {reason}")
            }
            Ineligible::Lacks { resource, .. } => {
                format!("ask for less of {resource}, or free it: node {name} {reason}")
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

/// Of the nodes that only lack room, the one that lacks least of what it lacks.
fn roomiest<'a>(refused: &[(&'a Ineligible, &'a NodeName)]) -> Option<(&'a Ineligible, &'a NodeName)> {
    let missing = |reason: &Ineligible| match reason {
        Ineligible::NoRoom { wanted, free, .. } => {
            Some(i128::from(*wanted) * 1_000 / i128::from((*free).max(1)))
        }
        _ => None,
    };
    refused
        .iter()
        .filter_map(|(reason, name)| Some((missing(reason)?, *reason, *name)))
        .min()
        .map(|(_, reason, name)| (reason, name))
}
