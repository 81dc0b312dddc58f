//! What a node has of resources that are neither GPUs nor CPU, memory and storage, such as network interfaces and huge
//! pages.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use planner::demand::Request;
use planner::inventory::{self, Inventory};

use crate::pods;
use crate::usage::Held;

/// What is free of them on a node.
pub(crate) fn free_on(node: &Node, held: &Held) -> BTreeMap<String, i64> {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let free = |(resource, quantity): (&String, &Quantity)| {
        let has = i64::try_from(pods::amount(resource, quantity)?).unwrap_or(i64::MAX);
        let taken = held.other_resources.get(resource).copied().unwrap_or(0);
        pods::is_other(resource).then(|| (resource.clone(), has.saturating_sub(taken).max(0)))
    };
    allocatable.into_iter().flatten().filter_map(free).collect()
}

/// Forgets what is free of those that nobody asks for: nodes that differ in nothing else are alike.
pub(crate) fn forget_unrequested(inventory: &mut Inventory, requests: &[Request]) {
    let requested: BTreeSet<&String> =
        requests.iter().flat_map(|request| request.constraints.other_resources.keys()).collect();
    let forget =
        |node: &mut inventory::Node| node.other_resources.retain(|resource, _| requested.contains(resource));
    // Most nodes have none, and stay those that the round before had.
    let has_such =
        |node: &inventory::Node| node.other_resources.keys().any(|resource| !requested.contains(resource));
    inventory.nodes.change(has_such, forget);
    inventory.seating.values_mut().for_each(|seating| forget(&mut seating.node));
}
