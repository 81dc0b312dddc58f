//! The fleet in the planner's terms: demand in groups, nodes in cells, GPUs in
//! classes. Whatever is equal within one of them is planned as a number.

use std::collections::{BTreeMap, BTreeSet};

use mig::{Counts, Layout, ProfileIndex, ProfileName};

use super::targets::{Current, Freedom, Geometries, Goal, Situation, Target, counts_of};
use crate::assign::{self, Assignment};
use crate::demand::Request;
use crate::eligible::Judge;
use crate::inventory::{ChangeScope, Gpu, Inventory, Node, Slices, Use};
use crate::names::{GpuIndex, NodeName};
use crate::policy::{Drain, LayoutPolicy, Mode, Policy, StaticRule, Unrequested};
use crate::selector;

/// Nodes that requests for several slices may use are cells of their own, so
/// that "all on one node" is exact, up to this many; beyond it, handing out
/// is a heuristic, and the certificate shows the gap. The integer program
/// grows by a row per node and profile, so some tens are cheap.
pub(super) const EXACT_NODES: usize = 32;

/// Everything that is planned.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) inventory: &'a Inventory,
    /// By name.
    pub(super) policies: Vec<&'a Policy>,
    pub(super) assignment: Assignment,
    pub(super) groups: Vec<Group<'a>>,
    pub(super) cells: Vec<Cell<'a>>,
    pub(super) classes: Vec<Class<'a>>,
    pub(super) geometries: Geometries,
}

/// Requests that ask for the same, with the same priority, and may use the
/// same nodes.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) slices: &'a BTreeMap<ProfileName, u32>,
    pub(super) priority: i32,
    /// Oldest first.
    pub(super) requests: Vec<&'a Request>,
    /// By position in `Inventory::nodes`.
    pub(super) nodes: Vec<bool>,
}

impl Group<'_> {
    /// Compute slices that one request of the group asks for: what being
    /// served is worth within its priority.
    pub(super) fn weight(&self) -> i64 {
        self.slices.iter().map(|(profile, n)| i64::from(profile.compute) * i64::from(*n)).sum()
    }

    /// Whether a request takes more than one slice, which must be on one node.
    pub(super) fn is_several(&self) -> bool {
        self.slices.values().sum::<u32>() > 1
    }
}

/// Nodes that have one policy and that the same groups may use.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// Position in `World::policies`.
    pub(super) policy: Option<usize>,
    /// The groups that may use it, by position.
    pub(super) groups: Vec<usize>,
    /// The nodes, by name.
    pub(super) nodes: Vec<&'a NodeName>,
    /// Slices that are free, though it is not known which ones.
    pub(super) free: BTreeMap<ProfileName, i64>,
}

/// GPUs of one cell in one situation.
#[derive(Clone, Debug)]
pub(super) struct Class<'a> {
    pub(super) situation: Situation,
    pub(super) cell: usize,
    /// By node name, then index.
    pub(super) gpus: Vec<(&'a NodeName, GpuIndex)>,
    pub(super) targets: Vec<Target>,
}

impl<'a> World<'a> {
    /// Builds it. Requests that nothing can be planned for (blocked
    /// elsewhere, or asking for whole GPUs) are left out.
    pub(super) fn of(inventory: &'a Inventory, requests: &'a [Request], policies: &'a [Policy]) -> Self {
        let mut policies: Vec<&Policy> = policies.iter().collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        policies.dedup_by(|a, b| a.name == b.name);
        let owned: Vec<Policy> = policies.iter().map(|p| (*p).clone()).collect();
        let assignment = assign::policy_of(inventory, &owned);
        let policy_of: Vec<Option<usize>> = inventory
            .nodes
            .keys()
            .map(|node| {
                let name = assignment.policy_of.get(node)?;
                policies.iter().position(|p| p.name == *name)
            })
            .collect();
        let groups = group(inventory, requests, &policies, &policy_of);
        let cells = cells(inventory, &groups, &policy_of);
        let menus = menus(inventory, &policies, &policy_of, &groups);
        let mut world = Self {
            inventory,
            policies,
            assignment,
            groups,
            cells,
            classes: vec![],
            geometries: Geometries::default(),
        };
        world.classes = world.classes(&menus);
        world
    }

    fn classes(&mut self, menus: &[BTreeSet<ProfileName>]) -> Vec<Class<'a>> {
        let mut known: BTreeMap<(usize, Situation), Vec<(&'a NodeName, GpuIndex)>> = BTreeMap::new();
        for (c, cell) in self.cells.iter().enumerate() {
            let policy = cell.policy.map(|p| (self.policies[p], &menus[p]));
            for name in &cell.nodes {
                let node = &self.inventory.nodes[*name];
                for (index, gpu) in &node.gpus {
                    let geometry = self.geometries.number(&gpu.geometry);
                    let situation = situation(geometry, node, *index, gpu, policy);
                    known.entry((c, situation)).or_default().push((*name, *index));
                }
            }
        }
        // Cells share most situations: enumerate the targets of each once.
        let mut targets: BTreeMap<Situation, Vec<Target>> = BTreeMap::new();
        known
            .into_iter()
            .map(|((cell, situation), mut gpus)| {
                gpus.sort();
                let targets = targets
                    .entry(situation.clone())
                    .or_insert_with(|| situation.targets(self.geometries.get(situation.geometry)))
                    .clone();
                Class { situation, cell, gpus, targets }
            })
            .collect()
    }

    /// The node of a class's GPU.
    pub(super) fn node(&self, name: &NodeName) -> &'a Node {
        &self.inventory.nodes[name]
    }
}

/// Puts alike requests together, highest priority first.
fn group<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &[&Policy],
    policy_of: &[Option<usize>],
) -> Vec<Group<'a>> {
    let mut judge = Judge::new(inventory);
    let mut groups: BTreeMap<_, Vec<&'a Request>> = BTreeMap::new();
    for request in requests.iter().filter(|r| is_planned(r)) {
        let counted: Vec<bool> = policies.iter().map(|policy| counts(policy, request)).collect();
        let nodes: Vec<bool> = judge
            .nodes_for(request)
            .iter()
            .zip(inventory.nodes.values())
            .zip(policy_of)
            .map(|((eligible, node), policy)| {
                eligible.is_yes() && node.schedulable && policy.is_none_or(|p| counted[p])
            })
            .collect();
        groups
            .entry((std::cmp::Reverse(request.priority), &request.slices, nodes))
            .or_default()
            .push(request);
    }
    groups
        .into_iter()
        .map(|((priority, slices, nodes), mut requests)| {
            requests.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
            Group { slices, priority: priority.0, requests, nodes }
        })
        .collect()
}

/// Whether a request takes part in planning at all.
pub(super) fn is_planned(request: &Request) -> bool {
    request.whole_gpus == 0 && request.blocked_elsewhere.is_none() && request.slices.values().any(|n| *n > 0)
}

/// Whether the requests of this one's namespace count for a policy.
pub(super) fn counts(policy: &Policy, request: &Request) -> bool {
    match &policy.layout {
        LayoutPolicy::DemandDriven { namespaces, .. } => {
            selector::matches(namespaces, &request.namespace_labels)
        }
        LayoutPolicy::Static { .. } => true,
    }
}

/// By policy, groups that may use it, and the node where it is a cell of its own.
type CellKey = (Option<usize>, Vec<usize>, Option<usize>);

fn cells<'a>(inventory: &'a Inventory, groups: &[Group<'_>], policy_of: &[Option<usize>]) -> Vec<Cell<'a>> {
    let several: Vec<&Group<'_>> = groups.iter().filter(|g| g.is_several()).collect();
    let alone: Vec<bool> = (0..policy_of.len()).map(|i| several.iter().any(|group| group.nodes[i])).collect();
    let exact = alone.iter().filter(|alone| **alone).count() <= EXACT_NODES;
    let mut cells: BTreeMap<CellKey, Cell<'a>> = BTreeMap::new();
    for (i, (name, node)) in inventory.nodes.iter().enumerate() {
        let usable: Vec<usize> = (0..groups.len()).filter(|g| groups[*g].nodes[i]).collect();
        let own = (exact && alone[i]).then_some(i);
        let cell = cells.entry((policy_of[i], usable.clone(), own)).or_insert_with(|| Cell {
            policy: policy_of[i],
            groups: usable,
            nodes: vec![],
            free: BTreeMap::new(),
        });
        cell.nodes.push(name);
        for (profile, n) in free_somewhere(node) {
            *cell.free.entry(profile).or_insert(0) += n;
        }
    }
    cells.into_values().collect()
}

/// Slices of a node that are free although none of them is provably idle:
/// fewer are held than may be held.
pub(super) fn free_somewhere(node: &Node) -> BTreeMap<ProfileName, i64> {
    let mut busy: BTreeMap<ProfileName, (i64, i64)> = BTreeMap::new();
    let mut count = |profile: ProfileName, used: &Use| {
        let (certain, perhaps) = busy.entry(profile).or_default();
        match used {
            Use::Idle => {}
            Use::InUse { .. } => *certain += 1,
            Use::MaybeInUse { .. } => *perhaps += 1,
        }
    };
    for gpu in node.gpus.values() {
        match &gpu.slices {
            Slices::Placed(slices) => slices.iter().for_each(|s| count(s.profile, &s.used)),
            Slices::Counted(slices) => slices.iter().for_each(|s| count(s.profile, &s.used)),
            Slices::MigOff { .. } => {}
        }
    }
    busy.into_iter()
        .filter_map(|(profile, (certain, perhaps))| {
            let held = node.allocated.get(&profile).copied().map_or(perhaps + certain, i64::from);
            let free = perhaps - (held - certain).clamp(0, perhaps);
            (free > 0).then_some((profile, free))
        })
        .collect()
}

/// For each policy, the profiles that are worth creating: those that it
/// lists, those that are asked for on its nodes, and those that are in use
/// there, since what people use they will use again.
fn menus(
    inventory: &Inventory,
    policies: &[&Policy],
    policy_of: &[Option<usize>],
    groups: &[Group<'_>],
) -> Vec<BTreeSet<ProfileName>> {
    let mut menus: Vec<BTreeSet<ProfileName>> = vec![BTreeSet::new(); policies.len()];
    for (i, node) in inventory.nodes.values().enumerate() {
        let Some(policy) = policy_of[i] else { continue };
        for group in groups.iter().filter(|group| group.nodes[i]) {
            menus[policy].extend(group.slices.keys().copied());
        }
        menus[policy].extend(node.allocated.iter().filter(|(_, n)| **n > 0).map(|(profile, _)| *profile));
    }
    for (menu, policy) in menus.iter_mut().zip(policies) {
        if let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout {
            menu.extend(slices.keys().copied());
            menu.retain(|profile| slices.get(profile).is_none_or(|bounds| bounds.max != Some(0)));
        }
    }
    menus
}

/// The first rule of a static layout that is for this GPU.
pub(super) fn rule_for<'p>(rules: &'p [StaticRule], model: &str, index: GpuIndex) -> Option<&'p StaticRule> {
    rules.iter().find(|rule| {
        rule.model.as_deref().is_none_or(|wanted| wanted == model)
            && rule.indices.as_deref().is_none_or(|indices| indices.contains(&index))
    })
}

/// What a GPU is in, and what may become of it.
fn situation(
    geometry: usize,
    node: &Node,
    index: GpuIndex,
    gpu: &Gpu,
    policy: Option<(&Policy, &BTreeSet<ProfileName>)>,
) -> Situation {
    let current = current(gpu);
    let fixed = |current| Situation { geometry, current, freedom: Freedom::Fixed, goal: no_goal() };
    let Some((policy, menu)) = policy else { return fixed(current) };
    if node.hold.is_some() || gpu.hold.is_some() || policy.mode == Mode::Paused {
        return fixed(current);
    }
    let (goal, evicts) = match &policy.layout {
        LayoutPolicy::DemandDriven { unrequested, .. } => {
            let menu = menu.iter().filter_map(|name| gpu.geometry.profile_named(*name)).collect();
            (Goal::Demand { menu, whole: *unrequested == Unrequested::Whole }, false)
        }
        LayoutPolicy::Static { gpus } => {
            let Some(rule) = rule_for(gpus, &gpu.model, index) else { return fixed(current) };
            let Ok(wanted) = counts_of(&gpu.geometry, rule.slices.iter().map(|(name, n)| (name, *n))) else {
                return fixed(current);
            };
            (Goal::Static(wanted), policy.drain == Drain::Evict)
        }
    };
    let freedom = freedom(node, gpu, evicts, policy.drain == Drain::Evict);
    match freedom {
        Freedom::Fixed => {
            // A static goal stays visible, so that the report can say what is missed.
            let goal = if matches!(goal, Goal::Static(_)) { goal } else { no_goal() };
            Situation { geometry, current, freedom, goal }
        }
        Freedom::Idle | Freedom::Evict | Freedom::Whole => Situation { geometry, current, freedom, goal },
    }
}

fn no_goal() -> Goal {
    Goal::Demand { menu: BTreeSet::new(), whole: false }
}

/// How much of a GPU may change. `evicts`: pods may be evicted for a layout;
/// `drains`: pods may be evicted to switch MIG on.
fn freedom(node: &Node, gpu: &Gpu, evicts: bool, drains: bool) -> Freedom {
    let whole = |allowed: bool| if allowed { Freedom::Whole } else { Freedom::Fixed };
    if matches!(gpu.slices, Slices::MigOff { .. }) {
        return whole(drains || node.gpus.values().all(is_idle));
    }
    match (node.scope, &gpu.slices) {
        (ChangeScope::SliceBySlice, Slices::Placed(_)) if evicts => Freedom::Evict,
        (ChangeScope::SliceBySlice, Slices::Placed(_)) => Freedom::Idle,
        (ChangeScope::SliceBySlice | ChangeScope::IdleGpus, _) => whole(evicts || is_idle(gpu)),
        (ChangeScope::EmptyNode, _) => whole(evicts || node.gpus.values().all(is_idle)),
    }
}

/// Whether a GPU is provably idle.
pub(super) fn is_idle(gpu: &Gpu) -> bool {
    match &gpu.slices {
        Slices::Placed(slices) => slices.iter().all(|s| s.used.is_idle()),
        Slices::Counted(slices) => slices.iter().all(|s| s.used.is_idle()),
        Slices::MigOff { used } => used.is_idle(),
    }
}

/// What a GPU has. Slices that its geometry does not know are left out: who
/// hands the inventory in has refused them (`inventory::validate`).
fn current(gpu: &Gpu) -> Current {
    let geometry = &gpu.geometry;
    match &gpu.slices {
        Slices::MigOff { .. } => Current::Counted { all: Counts::default(), idle: Counts::default() },
        Slices::Placed(slices) => {
            let (mut used, mut idle) = (Layout::EMPTY, Layout::EMPTY);
            for slice in slices {
                let profile = geometry.profile_named(slice.profile);
                let Some(placement) = profile.and_then(|p| geometry.placement(p, slice.start)) else {
                    continue;
                };
                let side = if slice.used.is_idle() { &mut idle } else { &mut used };
                *side = side.with(placement);
            }
            Current::Placed { used, idle }
        }
        Slices::Counted(slices) => {
            let known = || {
                slices.iter().filter_map(|s| geometry.profile_named(s.profile).map(|p| (p, s.used.is_idle())))
            };
            let all: Counts = known().map(|(profile, _): (ProfileIndex, _)| (profile, 1)).collect();
            let idle: Counts = known().filter(|(_, idle)| *idle).map(|(profile, _)| (profile, 1)).collect();
            Current::Counted { all, idle }
        }
    }
}
