//! Whether those who have to be in one part of the cluster are planned for one, and whether those who start together
//! are served all together or not at all.

use std::collections::{BTreeMap, BTreeSet};

use super::note::{Note, Problem};
use super::promises::waits;
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::{NodeName, RequestId};
use crate::plan::Plan;
use crate::report::{Outcome, RequestReport};

/// Says who is planned for another part of the cluster than others with the same rule. It is asked of whoever is served,
/// from slices that are there as well.
#[must_use]
pub fn check_together(reports: &[RequestReport], inventory: &Inventory, requests: &[Request]) -> Vec<Note> {
    let served = reports.iter().filter_map(|report| match &report.outcome {
        Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some((&report.id, node)),
        Outcome::Unserved { .. } => None,
    });
    let served: BTreeMap<&RequestId, &NodeName> = served.collect();
    let mut notes = Vec::new();
    scattered(&served, inventory, requests, &mut notes);
    let tied = requests.iter().filter(|request| !request.together.rules.is_empty() && waits(request));
    let gangs: BTreeSet<&String> = tied.filter_map(|request| request.together.gang.as_ref()).collect();
    for gang in gangs {
        let of =
            requests.iter().filter(|request| request.together.gang.as_ref() == Some(gang) && waits(request));
        let (has, lacks): (Vec<&Request>, Vec<&Request>) =
            of.partition(|request| served.contains_key(&request.id));
        if !has.is_empty() {
            let halved = |request: &&Request| Problem::Halved { request: request.id.clone() }.everywhere();
            notes.extend(lacks.iter().map(halved));
        }
    }
    notes
}

/// The same of what a plan makes.
pub(super) fn check(plan: &Plan, inventory: &Inventory, requests: &[Request], notes: &mut Vec<Note>) {
    let serves = plan.steps.iter().flat_map(|step| step.serves.iter().map(|id| (id, &step.node)));
    scattered(&serves.collect(), inventory, requests, notes);
}

fn scattered(
    served: &BTreeMap<&RequestId, &NodeName>,
    inventory: &Inventory,
    requests: &[Request],
    notes: &mut Vec<Note>,
) {
    let mut values: BTreeMap<&String, &String> = BTreeMap::new();
    for request in requests {
        let Some(node) = served.get(&request.id) else { continue };
        for (rule, label) in &request.together.rules {
            let value = inventory.nodes.get(node).and_then(|node| node.labels.get(label));
            let is_right = value.is_some_and(|value| *values.entry(rule).or_insert(value) == value);
            if !is_right {
                let problem = Problem::Scattered { request: request.id.clone(), label: label.clone() };
                notes.push(problem.on(node));
            }
        }
    }
}
