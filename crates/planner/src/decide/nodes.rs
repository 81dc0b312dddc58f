//! The number of nodes touched. The choice of the GPUs of a class makes no difference to the levels above,
//! so the plan takes them in the order of their nodes' names. This is a heuristic, and therefore the number
//! is printed with a lower bound.
//!
//! The bound: given the levels above, a plan changes exactly as many GPUs as this one. Some GPUs change in
//! each such plan: those that get a static layout, and those that have no slice and can get one. Their
//! nodes are touched. The number of further nodes is smallest if the remaining changes are made on the
//! nodes with the most GPUs that can change.

use std::collections::BTreeMap;

use super::allocate::Allocation;
use super::targets::Target;
use super::world::{Class, World};
use crate::names::NodeName;
use crate::report::LevelCertificate;

/// The name of the level in the certificate.
pub(crate) const NODES_TOUCHED: &str = "nodes touched";

/// The level's value and bound.
pub(super) fn certificate(world: &World<'_>, allocation: &Allocation<'_>) -> LevelCertificate {
    let mut touched: Vec<&NodeName> = allocation.changes.keys().map(|(node, _)| *node).collect();
    touched.dedup();
    LevelCertificate {
        level: NODES_TOUCHED.to_owned(),
        value: i64::try_from(touched.len()).unwrap_or(i64::MAX),
        bound: bound(world, allocation.changes.len()),
    }
}

/// The fewest nodes that have so many GPUs that change.
fn bound(world: &World<'_>, changed: usize) -> i64 {
    // By node: GPUs that can change, and whether one of them has to.
    let mut nodes: BTreeMap<&NodeName, (usize, bool)> = BTreeMap::new();
    for class in &world.classes {
        let (can, must) = freedom(class);
        for (name, _) in class.gpus.iter().filter(|_| can) {
            let (gpus, forced) = nodes.entry(name).or_default();
            *gpus += 1;
            *forced |= must;
        }
    }
    let forced = || nodes.values().filter(|(_, must)| *must);
    let mut left = changed.saturating_sub(forced().map(|(gpus, _)| gpus).sum());
    let mut more: Vec<usize> = nodes.values().filter(|(_, must)| !must).map(|(gpus, _)| *gpus).collect();
    more.sort_unstable_by(|a, b| b.cmp(a));
    let further = more.into_iter().take_while(|gpus| {
        let needed = left > 0;
        left = left.saturating_sub(*gpus);
        needed
    });
    let further = further.count();
    i64::try_from(forced().count() + further).unwrap_or(i64::MAX)
}

/// Whether a GPU of the class can change, and whether it has to.
fn freedom(class: &Class<'_>) -> (bool, bool) {
    let (stays, changes): (Vec<_>, Vec<_>) = class.targets.iter().partition(|target| target.layout.is_none());
    // It stays only where a change brings it no nearer to its static layout: some have theirs already, and
    // some cannot have it yet.
    let is_nearer = |than: &Target| than.misses_static && changes.iter().any(|to| !to.misses_static);
    (!changes.is_empty(), !changes.is_empty() && stays.iter().all(|target| is_nearer(target)))
}
