//! The pods that are certainly evicted, and the nodes without them.
//!
//! Pods are evicted in two cases: for a static layout with `drain: Evict`, and when MIG is switched on
//! under a policy that drains. Neither is weighed against anything else: a GPU that can get its static
//! layout gets it, and MIG is switched on as soon as no pod has to stay. So it is known before anything is
//! solved which GPUs of such a node change, and, where a GPU changes as a whole, which pods are evicted.
//! The rest of the plan is made for the node without them: their slices are free when the step is done,
//! also on GPUs that do not change.
//!
//! Where slices change one by one, the evicted pods depend on the chosen layout. There the other slices of
//! an evicted pod are not promised to any request, nor are slices beside them that may be in use: later
//! plans see them when they are free.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;

use super::in_the_way::in_the_way;
use super::situation::situation;
use super::targets::{Freedom, Geometries, Goal, Situation};
use crate::inventory::{ChangeScope, Inventory, Node, Slices, Use, seats_of};
use crate::names::{GpuIndex, NodeName, PodRef};
use crate::policy::{Drain, LayoutPolicy, Policy};

/// What eviction does to the fleet, whatever else is planned.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// Nodes that lose pods for certain, without those pods.
    pub(super) nodes: BTreeMap<NodeName, Node>,
    /// GPUs that change slice by slice under eviction.
    pub(super) in_part: BTreeSet<(NodeName, GpuIndex)>,
}

impl Evictions {
    /// Works it out. `policy_of` is in the order of the inventory's nodes.
    pub(super) fn new(
        inventory: &Inventory,
        policies: &[&Policy],
        policy_of: &[Option<usize>],
        menus: &[BTreeSet<ProfileName>],
    ) -> Self {
        let mut evictions = Self::default();
        let mut known = Known::default();
        for ((name, node), policy) in inventory.nodes.iter().zip(policy_of) {
            let Some((policy, menu)) = policy.map(|p| (policies[p], &menus[p])) else { continue };
            if policy.drain == Drain::Evict && !policy.mode.starts_nothing() && node.hold.is_none() {
                evictions.on(name, node, policy, menu, &mut known);
            }
        }
        evictions
    }

    fn on(
        &mut self,
        name: &NodeName,
        node: &Node,
        policy: &Policy,
        menu: &BTreeSet<ProfileName>,
        known: &mut Known,
    ) {
        let is_static = matches!(policy.layout, LayoutPolicy::Static { .. });
        let mut gone: BTreeSet<PodRef> = BTreeSet::new();
        let mut whole_node = false;
        for (index, gpu) in &node.gpus {
            let number = known.geometries.number(&gpu.geometry);
            let situation = situation(number, node, *index, gpu, Some((policy, menu)), false);
            let (freedom, goes_off) = (situation.freedom, matches!(situation.goal, Goal::Whole { .. }));
            if !known.changes(situation) {
                continue;
            }
            let switches = gpu.slices.is_mig_off() || goes_off;
            whole_node |= switches || is_static && node.scope == ChangeScope::EmptyNode;
            match freedom {
                Freedom::Whole if is_static => gone.extend(in_the_way(gpu, mig::Layout::EMPTY)),
                Freedom::Evict => {
                    self.in_part.insert((name.clone(), *index));
                }
                Freedom::Whole | Freedom::Idle | Freedom::Fixed => {}
            }
        }
        if whole_node {
            gone.extend(node.gpus.values().flat_map(|gpu| in_the_way(gpu, mig::Layout::EMPTY)));
        }
        if !gone.is_empty() {
            self.nodes.insert(name.clone(), without(node, &gone));
        }
    }
}

/// Situations that were looked at before.
#[derive(Default)]
struct Known {
    geometries: Geometries,
    changes: BTreeMap<Situation, bool>,
}

impl Known {
    /// Whether a GPU in this situation changes whatever else is wanted: to
    /// its static layout, or because it has no slice and can get one.
    fn changes(&mut self, situation: Situation) -> bool {
        if let Some(changes) = self.changes.get(&situation) {
            return *changes;
        }
        let targets = situation.targets(self.geometries.get(situation.geometry));
        let changing = |target: &super::targets::Target| target.layout.is_some();
        let changes = match situation.goal {
            Goal::Static(_) | Goal::Whole { .. } => targets.iter().any(changing),
            Goal::Demand { .. } => targets.iter().all(changing),
        };
        self.changes.insert(situation, changes);
        changes
    }
}

/// A node once some of its pods have gone: what only they held is idle.
pub(super) fn without(node: &Node, gone: &BTreeSet<PodRef>) -> Node {
    let mut after = node.clone();
    after.held.retain(|pod, _| !gone.contains(pod));
    let mut tally: BTreeMap<ProfileName, Tally<'_>> = BTreeMap::new();
    let mut whole = Tally::default();
    for (gpu, before) in after.gpus.values_mut().zip(node.gpus.values()) {
        match (&mut gpu.slices, &before.slices) {
            (Slices::Placed(slices), Slices::Placed(before)) => {
                for (slice, before) in slices.iter_mut().zip(before) {
                    leave(&mut slice.used, &before.used, gone, tally.entry(slice.profile).or_default());
                }
            }
            (Slices::Counted(slices), Slices::Counted(before)) => {
                for (slice, before) in slices.iter_mut().zip(before) {
                    leave(&mut slice.used, &before.used, gone, tally.entry(slice.profile).or_default());
                }
            }
            (Slices::MigOff { used }, Slices::MigOff { used: before }) => {
                leave(used, before, gone, &mut whole);
            }
            _ => debug_assert!(false, "it is a clone"),
        }
    }
    whole.take_off(&mut after.whole_held, 1);
    for (profile, tally) in tally {
        if let Some(held) = after.allocated.get_mut(&profile) {
            let (_, seats) = seats_of(&node.shared, profile);
            tally.take_off(held, seats);
        }
    }
    after
}

/// What becomes of the slices of one profile, or of GPUs with MIG off.
#[derive(Default)]
struct Tally<'a> {
    /// Slices that a pod certainly held and gives back.
    given_back: u32,
    /// The pods that did.
    sure: BTreeSet<&'a PodRef>,
    /// Pods that go and may have held one.
    maybe: BTreeSet<&'a PodRef>,
    /// Slices that somebody still holds or may hold.
    still: u32,
}

impl Tally<'_> {
    /// Takes what is given back off what is held: whoever may hold one gives one back at least; and no more are
    /// held than somebody still may hold, of whom each slice has so many seats.
    fn take_off(&self, held: &mut u32, seats: u32) {
        let Self { given_back, sure, maybe, still } = self;
        let once_each = maybe.difference(sure).count();
        let given_back = given_back.saturating_add(u32::try_from(once_each).unwrap_or(u32::MAX));
        if given_back > 0 {
            *held = held.saturating_sub(given_back).min(still.saturating_mul(seats));
        }
    }
}

fn leave<'a>(used: &mut Use, before: &'a Use, gone: &BTreeSet<PodRef>, tally: &mut Tally<'a>) {
    match before {
        Use::Idle => return,
        Use::InUse { by } if gone.contains(by) => {
            tally.given_back += 1;
            tally.sure.insert(by);
            *used = Use::Idle;
            return;
        }
        Use::InUse { .. } => {}
        Use::MaybeInUse { by } => {
            tally.maybe.extend(by.iter().filter(|pod| gone.contains(*pod)));
            let left: Vec<PodRef> = by.iter().filter(|pod| !gone.contains(*pod)).cloned().collect();
            if left.is_empty() && !by.is_empty() {
                *used = Use::Idle;
                return;
            }
            *used = Use::MaybeInUse { by: left };
        }
    }
    tally.still += 1;
}
