//! Who comes first, where a policy says `order: OldestFirst`. Nobody is served in
//! place of somebody older: if an older request of the same priority could have
//! the slices and the room that a younger one gets, then to give it these would
//! be a plan, and a better one. That takes no search, so it is said of every plan,
//! proved or not. (Whether the older one could be served in some other way is
//! what the certificate says.)

use std::collections::BTreeMap;

use super::note::{Note, Problem};
use super::promises::waits;
use super::winner;
use crate::demand::Request;
use crate::eligible::judge;
use crate::inventory::{Inventory, Node, Room};
use crate::names::{NodeName, RequestId};
use crate::policy::{LayoutPolicy, Order, Policy};
use crate::predicted_labels::LabelsAfter;
use crate::report::{Outcome, RequestReport};
use crate::selector;

/// Says who is served out of turn. A younger one on the way, who gets a slice
/// that is there and free, counts too: nothing is bound yet.
#[must_use]
pub fn check_turns(
    reports: &[RequestReport],
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
) -> Vec<Note> {
    let mut served: BTreeMap<&RequestId, &NodeName> = BTreeMap::new();
    for report in reports {
        match &report.outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
                served.insert(&report.id, node);
            }
            Outcome::Unserved { .. } => {}
        }
    }
    let mut by_node: BTreeMap<&NodeName, Vec<&Request>> = BTreeMap::new();
    for request in requests {
        if let Some(node) = served.get(&request.id) {
            by_node.entry(node).or_default().push(request);
        }
    }
    let unserved: Vec<&Request> = requests
        .iter()
        .filter(|r| !served.contains_key(&r.id) && r.blocked_elsewhere.is_none() && r.refused.is_none())
        .filter(|r| waits(r))
        .collect();
    let mut notes = Vec::new();
    for (name, here) in by_node {
        let Some(node) = inventory.nodes.get(name) else { continue };
        let Some(policy) = winner(node, policies) else { continue };
        let LayoutPolicy::DemandDriven { namespaces, order: Order::OldestFirst, shares, .. } = &policy.layout
        else {
            continue;
        };
        let labels = LabelsAfter::predict(node);
        let left = left(node, &here);
        for older in &unserved {
            let may = selector::matches(namespaces, &older.namespace_labels)
                && judge(older, name, node, &labels).is_yes();
            let instead = here.iter().filter(|younger| {
                // What was promised before is no turn.
                younger.promised.as_ref() != Some(name)
                    && younger.priority == older.priority
                    // Of others it may be less than their share, or more than one's own.
                    && (shares.is_empty() || younger.id.namespace == older.id.namespace)
                    && (older.slices == younger.slices && older.shared == younger.shared || shares.iter().all(|share| share.min == 0))
                    && (older.since, &older.id) < (younger.since, &younger.id)
                    && older.whole_gpus <= younger.whole_gpus
                    && older.shared.iter().all(|(of, n)| younger.shared.get(of).is_some_and(|has| has >= n))
                    && older.slices.iter().all(|(p, n)| younger.slices.get(p).is_some_and(|has| has >= n))
                    && left.plus(younger.takes, 1).holds(&older.takes)
            });
            if let Some(younger) = instead.min_by_key(|r| &r.id).filter(|_| may) {
                let (older, younger) = (older.id.clone(), younger.id.clone());
                notes.push(Problem::OutOfTurn { older, younger }.on(name));
            }
        }
    }
    notes
}

/// The room of a node when all who are served there have theirs.
fn left(node: &Node, here: &[&Request]) -> Room {
    here.iter().fold(node.room, |room, request| room.plus(request.takes, -1))
}
