//! Advice that is proved without a search, by an explicit plan.
//!
//! On a large fleet a trial (see [`super::trial`]) is a whole plan, and it has to be proved. This is
//! cheaper. The plan stays as it is, and enough GPUs are added to give every unserved request, at a
//! priority or above it, a slice on them. This is a plan for the larger fleet in which no request of these
//! priorities is unserved; so none is unserved in any plan that is as good. Fewer GPUs may be enough, since
//! a plan for the larger fleet may also move requests that are served now.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;

use super::change::new_node;
use super::reach::Reach;
use super::world::World;
use crate::inventory::Node;
use crate::names::RequestId;
use crate::policy::LayoutPolicy;

/// Slices by profile.
type Slices = BTreeMap<ProfileName, u32>;

/// Who waits, and what one GPU more could be cut into for them.
#[derive(Debug)]
pub(super) struct OneMore {
    waiting: Vec<Waiting>,
    /// All of them: others cannot be served on any node, however many come.
    reached: BTreeSet<RequestId>,
    /// The layouts that a new GPU can have: what is free in each.
    layouts: Vec<Slices>,
    /// What was found out already, by priority.
    enough: BTreeMap<i32, Option<usize>>,
}

/// Requests that are alike and not served.
#[derive(Debug)]
struct Waiting {
    priority: i32,
    slices: Slices,
    count: usize,
    /// Whether a new GPU is for them.
    may: bool,
}

impl OneMore {
    /// What one more GPU, on a node like a given one, would be; `world` has it. Nothing, where
    /// it would not be cut for who waits, or not only for them.
    pub(super) fn evaluate(world: &World<'_>, unserved: &BTreeSet<RequestId>, like: &Node) -> Option<Self> {
        let name = new_node(0);
        let position = world.inventory.nodes.keys().position(|node| *node == name)?;
        let name = &name;
        let policy = world.assignment.policy_of.get(name)?;
        let policy = world.policies.iter().find(|p| p.name == *policy)?;
        let LayoutPolicy::DemandDriven { slices, shares, .. } = &policy.layout else { return None };
        let has_maximum = slices.values().any(|bounds| bounds.max.is_some())
            || shares.iter().any(|share| share.max.is_some());
        if policy.mode.starts_nothing() || has_maximum {
            return None;
        }
        let class = world.classes.iter().find(|class| class.gpus.iter().any(|(node, _)| *node == name))?;
        let geometry = world.geometries.get(class.situation.geometry);
        let free = |target: &super::targets::Target| -> Slices {
            target.free.iter().map(|(p, n)| (geometry.profile(p).name, u32::from(n))).collect()
        };
        let layouts = class.targets.iter().map(free).collect();
        let reach = Reach::new(world);
        let (mut waiting, mut reached) = (Vec::new(), BTreeSet::new());
        for (g, group) in world.groups.iter().enumerate() {
            let ids = group.requests.iter().map(|r| &r.id).filter(|id| unserved.contains(id));
            let ids: Vec<&RequestId> = ids.collect();
            let count = ids.len();
            let served = |(c, cell): (usize, &super::world::Cell<'_>)| {
                cell.groups.contains(&g) && reach.serves(c, group)
            };
            // Who cannot be served on any node is unserved in every plan.
            // A new node has one GPU, and what whole GPUs take of it is not looked at here.
            // Nor of how many share a slice.
            if count > 0 && (group.whole > 0 || !group.shared.is_empty() || !like.shared.is_empty()) {
                return None;
            }
            if count > 0 && world.cells.iter().enumerate().any(served) {
                let (priority, slices) = (group.priority, group.slices.clone());
                reached.extend(ids.into_iter().cloned());
                waiting.push(Waiting { priority, slices, count, may: group.nodes[position] });
            }
        }
        Some(Self { waiting, reached, layouts, enough: BTreeMap::new() })
    }

    /// So many GPUs that everybody who waits at a priority or above it is
    /// served on them, those who ask among them; nothing, if that cannot be.
    pub(super) fn enough_for<'r>(
        &mut self,
        priority: i32,
        mut asks: impl Iterator<Item = &'r RequestId>,
    ) -> Option<usize> {
        if !asks.all(|id| self.reached.contains(id)) {
            return None;
        }
        if let Some(known) = self.enough.get(&priority) {
            return *known;
        }
        let enough = self.enough_at(priority);
        self.enough.insert(priority, enough);
        enough
    }

    /// So many GPUs that everybody who waits at a priority or above it is served on them.
    fn enough_at(&self, priority: i32) -> Option<usize> {
        let mut waiting: Vec<&Waiting> = self.waiting.iter().filter(|w| w.priority >= priority).collect();
        if waiting.iter().any(|waiting| !waiting.may) {
            return None;
        }
        // The largest first, each onto the first GPU that takes it.
        let weight = |waiting: &Waiting| -> u32 {
            waiting.slices.iter().map(|(profile, n)| u32::from(profile.compute) * n).sum()
        };
        waiting.sort_by(|a, b| (weight(b), &b.slices).cmp(&(weight(a), &a.slices)));
        let mut gpus: Vec<Slices> = Vec::new();
        for waiting in waiting {
            // What was full for one that is alike is full for the next.
            let mut first = 0;
            for _ in 0..waiting.count {
                while first < gpus.len() && !self.takes(&gpus[first], &waiting.slices) {
                    first += 1;
                }
                if first == gpus.len() {
                    gpus.push(Slices::new());
                    if !self.takes(&gpus[first], &waiting.slices) {
                        return None;
                    }
                }
                for (profile, n) in &waiting.slices {
                    *gpus[first].entry(*profile).or_insert(0) += n;
                }
            }
        }
        Some(gpus.len())
    }

    /// Whether a GPU that serves some can serve others too.
    fn takes(&self, has: &Slices, more: &Slices) -> bool {
        let of = |slices: &Slices, profile| slices.get(profile).copied().unwrap_or(0);
        self.layouts.iter().any(|layout| {
            let profiles = has.keys().chain(more.keys());
            profiles.into_iter().all(|p| of(has, p) + of(more, p) <= of(layout, p))
        })
    }
}
