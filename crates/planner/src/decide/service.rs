//! Who is served, and nothing else: what is changed for it, and how little, is not looked at. So it takes a fraction of a plan.

use std::collections::BTreeMap;

use super::allocate::allocate;
use super::choose::serve;
use super::memo::Memo;
use super::promises::{Promises, are_made};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::{NodeName, RequestId};
use crate::policy::Policy;
use crate::solver::SolveError;

/// The nodes of those who are served. All promises are kept that can be.
///
/// # Errors
/// If there is no solution at all: a bug of ours.
pub(super) fn served(
    (inventory, requests, policies): (&Inventory, &[Request], &[Policy]),
    memo: &mut Memo,
) -> Result<BTreeMap<RequestId, NodeName>, SolveError> {
    if !are_made(requests) {
        return beside((inventory, requests, policies), memo);
    }
    let promises = Promises::all(inventory, requests, policies);
    let mut served = beside((&promises.inventory, &promises.requests, policies), memo)?;
    served.extend(promises.kept().map(|(id, node)| (id.clone(), node.clone())));
    Ok(served)
}

fn beside(
    (inventory, requests, policies): (&Inventory, &[Request], &[Policy]),
    memo: &mut Memo,
) -> Result<BTreeMap<RequestId, NodeName>, SolveError> {
    let chosen = serve((inventory, requests, policies), memo)?;
    let served = allocate(&chosen).served;
    Ok(served.into_iter().map(|(id, served)| (id.clone(), served.node.clone())).collect())
}
