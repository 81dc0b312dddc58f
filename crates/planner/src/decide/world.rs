//! The fleet in the planner's terms: demand in groups, nodes in cells, GPUs in classes. Equal members of
//! each of these are planned as a number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mig::ProfileName;

use super::evict::Evictions;
use super::group::{self, Alone, Group};
use super::memo::Targets;
use super::numbered::Numbered;
use super::shares::{self, Quota};
use super::situation::situation;
use super::targets::{Aim, Freedom, Geometries, Situation, Target};
use crate::assign::{self, Assignment};
use crate::demand::Request;
use crate::inventory::{Gpu, Inventory, Node, Room, Sharing, Use, seats_of};
use crate::names::{GpuIndex, NodeName};
use crate::offered::Offered;
use crate::plan::UnderWay;
use crate::policy::{LayoutPolicy, Policy};

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
    /// What eviction does, whatever else is planned.
    pub(super) evictions: Evictions,
    /// The shares of those who ask.
    pub(super) quotas: Vec<Quota>,
}

/// Nodes that have one policy and that the same groups may use; pods can bind
/// to all of them, or to none.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// Position in `World::policies`.
    pub(super) policy: Option<usize>,
    /// The groups that may use it, by position.
    pub(super) groups: Vec<usize>,
    /// The nodes, by name.
    pub(super) nodes: Vec<&'a NodeName>,
    /// The profiles whose slices several pods share on each of its nodes.
    pub(super) shared: BTreeMap<ProfileName, Sharing>,
    /// Slices, or seats of them, that are free, though it is not known which ones.
    pub(super) free: BTreeMap<Offered, i64>,
    /// The room of each of its nodes, if it may run out: then what requests
    /// take of it counts.
    pub(super) room: Option<Room>,
    /// Whether its nodes are looked at one by one: all of them are alike.
    pub(super) one_by_one: bool,
}

impl Cell<'_> {
    /// What a slice of a profile is to pods on its nodes, and how many of it.
    pub(super) fn seats_of(&self, profile: ProfileName) -> (Offered, u32) {
        seats_of(&self.shared, profile)
    }

    /// How many nodes are alike in it; 1 where nodes are not looked at.
    pub(super) fn copies(&self) -> i64 {
        if self.one_by_one { i64::try_from(self.nodes.len()).unwrap_or(i64::MAX).max(1) } else { 1 }
    }
}

/// How nodes that have to be looked at by themselves make cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Each is a cell of its own. Then one program decides everything exactly;
    /// it is for few nodes and few kinds of requests.
    Nodes,
    /// Those that are alike in what they have and in what is left of their
    /// room are one cell, and copies of one part of the program.
    Alike,
}

/// Up to so many nodes that have to be looked at by themselves, times groups
/// of requests, the whole program is looked at, node by node, before anything
/// else is tried: it then decides all levels, and mostly with a proof.
const FINE: usize = 48;

/// GPUs of one cell in one situation.
#[derive(Clone, Debug)]
pub(super) struct Class<'a> {
    pub(super) situation: Situation,
    pub(super) cell: usize,
    /// By node name, then index.
    pub(super) gpus: Vec<(&'a NodeName, GpuIndex)>,
    pub(super) targets: Arc<[Target]>,
}

impl<'a> World<'a> {
    /// The policy of a node.
    pub(super) fn policy_of(&self, node: &NodeName) -> Option<&'a Policy> {
        let of = self.assignment.policy_of.get(node)?;
        self.policies.iter().copied().find(|policy| policy.name == *of)
    }

    /// Builds it. Requests that nothing can be planned for (blocked
    /// elsewhere, or for whole GPUs that nobody offers) are left out.
    pub(super) fn new(
        inventory: &'a Inventory,
        requests: &'a [Request],
        policies: &'a [Policy],
        grain: Grain,
        kept: &mut Targets,
    ) -> Self {
        Self::held_to(inventory, requests, policies, grain, None, kept)
    }

    /// The same, with every GPU held to the plan that is under way.
    pub(super) fn held_to(
        inventory: &'a Inventory,
        requests: &'a [Request],
        policies: &'a [Policy],
        grain: Grain,
        under_way: Option<&UnderWay>,
        kept: &mut Targets,
    ) -> Self {
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
        let (groups, alone) = group::group(inventory, requests, &policies, &policy_of);
        let menus = menus(inventory, &policies, &policy_of, &groups);
        let evictions = Evictions::new(inventory, &policies, &policy_of, &menus);
        let mut geometries = Geometries::default();
        // By a request, or for the spare ones of a policy.
        let is_spare = |policy: &&Policy| policy.layout.whole_gpus().is_some_and(|bounds| bounds.spare > 0);
        let asks_whole = groups.iter().any(|group| group.whole > 0) || policies.iter().any(is_spare);
        let situations = inventory.nodes.iter().zip(&policy_of).map(|((name, node), policy)| {
            let node = evictions.nodes.get(name).unwrap_or(node);
            let policy = policy.map(|p| (policies[p], &menus[p]));
            let of = |(index, gpu): (&GpuIndex, &Gpu)| {
                let number = geometries.number(&gpu.geometry);
                let mut situation = situation(number, node, *index, gpu, policy, asks_whole);
                if let Some(under_way) = under_way.filter(|_| situation.freedom != Freedom::Fixed) {
                    situation.aim = aim(under_way, name, *index);
                }
                (*index, situation)
            };
            node.gpus.iter().map(of).collect()
        });
        let situations = Numbered::new(situations);
        let cells =
            Cells { inventory, groups: &groups, policy_of: &policy_of, alone: &alone, grain, asks_whole };
        let cells = cells.build(&evictions, &situations);
        let whose = groups.iter().flat_map(|group| group.shares.iter().cloned()).collect();
        let quotas = shares::quotas(whose, inventory, &policies, &policy_of, &evictions);
        let mut world = Self {
            inventory,
            policies,
            assignment,
            groups,
            cells,
            classes: vec![],
            geometries,
            evictions,
            quotas,
        };
        world.classes = world.classes(&situations, kept);
        world
    }

    fn classes(&self, situations: &Numbered, kept: &mut Targets) -> Vec<Class<'a>> {
        let cell_of: BTreeMap<&NodeName, usize> = self
            .cells
            .iter()
            .enumerate()
            .flat_map(|(c, cell)| cell.nodes.iter().map(move |name| (*name, c)))
            .collect();
        let mut known: BTreeMap<(usize, usize), Vec<(&'a NodeName, GpuIndex)>> = BTreeMap::new();
        for (name, gpus) in self.inventory.nodes.keys().zip(&situations.of_nodes) {
            let cell = cell_of[name];
            for (index, situation) in gpus {
                known.entry((cell, *situation)).or_default().push((name, *index));
            }
        }
        known
            .into_iter()
            .map(|((cell, situation), mut gpus)| {
                gpus.sort();
                let situation = situations.all[situation].clone();
                let targets = kept.of_situation(&situation, self.geometries.shared(situation.geometry));
                Class { situation, cell, gpus, targets }
            })
            .collect()
    }

    /// Whether one program may decide for every node by itself.
    pub(super) fn is_small(&self) -> bool {
        let alone: usize = self.cells.iter().filter(|c| c.one_by_one).map(|c| c.nodes.len()).sum();
        alone * self.groups.len() <= FINE
    }

    /// A node as it was seen.
    pub(super) fn node(&self, name: &NodeName) -> &'a Node {
        &self.inventory.nodes[name]
    }

    /// A node as it is planned for: without the pods that are evicted for certain.
    pub(super) fn planned_node(&self, name: &NodeName) -> &Node {
        self.evictions.nodes.get(name).unwrap_or_else(|| self.node(name))
    }
}

/// By policy, groups that may use it, whether pods can bind to it (a free
/// slice is a spare only there), how its slices are shared, and what it is where nodes are looked at one by one.
type CellKey = (Option<usize>, Vec<usize>, bool, BTreeMap<ProfileName, Sharing>, Option<Own>);

/// What tells apart nodes that are looked at one by one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Own {
    /// Each is another one.
    Node(usize),
    /// What it has left, and how many of its GPUs are in which situation.
    Like(Option<Room>, BTreeMap<Offered, i64>, BTreeMap<usize, usize>),
}

/// What cells are made of.
struct Cells<'c, 'a> {
    inventory: &'a Inventory,
    groups: &'c [Group<'a>],
    policy_of: &'c [Option<usize>],
    alone: &'c [Alone],
    grain: Grain,
    /// Whether anybody asks for whole GPUs, or a policy for spare ones.
    asks_whole: bool,
}

impl<'a> Cells<'_, 'a> {
    fn build(&self, evictions: &Evictions, situations: &Numbered) -> Vec<Cell<'a>> {
        let mut cells: BTreeMap<CellKey, Cell<'a>> = BTreeMap::new();
        for (i, (name, node)) in self.inventory.nodes.iter().enumerate() {
            let usable: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g].nodes[i]).collect();
            let planned = evictions.nodes.get(name).unwrap_or(node);
            let mut free: BTreeMap<Offered, i64> = free_seats(name, planned, evictions);
            let whole = if self.asks_whole { whole_somewhere(planned) } else { 0 };
            free.extend((whole > 0).then_some((Offered::WholeGpu, whole)));
            let room = (self.alone[i] == Alone::ForItsRoom).then_some(node.room);
            let own = (self.alone[i] != Alone::No).then(|| match self.grain {
                Grain::Nodes => Own::Node(i),
                Grain::Alike => {
                    let mut gpus = BTreeMap::new();
                    situations.of_nodes[i].iter().for_each(|(_, s)| *gpus.entry(*s).or_default() += 1);
                    Own::Like(room, free.clone(), gpus)
                }
            });
            let one_by_one = own.is_some();
            let key = (self.policy_of[i], usable.clone(), node.schedulable, node.shared.clone(), own);
            let cell = cells.entry(key).or_insert_with(|| Cell {
                policy: self.policy_of[i],
                groups: usable,
                nodes: vec![],
                shared: node.shared.clone(),
                free: BTreeMap::new(),
                room,
                one_by_one,
            });
            cell.nodes.push(name);
            for (offered, n) in free {
                *cell.free.entry(offered).or_insert(0) += n;
            }
        }
        cells.into_values().collect()
    }
}

/// Slices of a node that are free although none of them is provably idle:
/// fewer are held than may be held. Where a GPU changes slice by slice under
/// eviction, what may be held on it is not counted on, and what is held may
/// all be elsewhere.
pub(super) fn free_somewhere(
    name: &NodeName,
    node: &Node,
    evictions: &Evictions,
) -> BTreeMap<ProfileName, i64> {
    let mut busy: BTreeMap<ProfileName, (i64, i64)> = BTreeMap::new();
    for (index, gpu) in &node.gpus {
        let in_part = evictions.in_part.contains(&(name.clone(), *index));
        let mut count = |profile: ProfileName, used: &Use| {
            let (certain, perhaps) = busy.entry(profile).or_default();
            match used {
                Use::Idle => {}
                Use::InUse { .. } => *certain += 1,
                Use::MaybeInUse { .. } => *perhaps += i64::from(!in_part),
            }
        };
        gpu.slices.iter().for_each(|slice| count(slice.profile, slice.used));
    }
    busy.into_iter()
        .filter_map(|(profile, (certain, perhaps))| {
            let held = node.allocated.get(&profile).copied().map_or(perhaps + certain, i64::from);
            let free = perhaps - (held - certain).clamp(0, perhaps);
            (free > 0).then_some((profile, free))
        })
        .collect()
}

/// What of such slices pods can have: of a slice that several share, the seats that nobody holds. The slice stays as it
/// is while anybody has one of them.
pub(super) fn free_seats(name: &NodeName, node: &Node, evictions: &Evictions) -> BTreeMap<Offered, i64> {
    let unshared = free_somewhere(name, node, evictions).into_iter();
    let unshared = unshared.filter(|(profile, _)| !node.shared.contains_key(profile));
    let mut free: BTreeMap<Offered, i64> =
        unshared.map(|(profile, n)| (Offered::Slice(profile), n)).collect();
    for profile in node.shared.keys() {
        let (offered, seats) = node.seats_of(*profile);
        let (mut busy, mut certain, mut unknown) = (0_i64, 0_i64, false);
        for (index, gpu) in &node.gpus {
            let before = busy;
            let held = gpu.slices.iter().filter(|slice| slice.profile == *profile && !slice.used.is_idle());
            for slice in held {
                busy += 1;
                certain += i64::from(matches!(slice.used, Use::InUse { .. }));
            }
            unknown |= busy > before && evictions.in_part.contains(&(name.clone(), *index));
        }
        let total = busy.saturating_mul(i64::from(seats));
        // Where the node does not say how many are held, all of them are.
        let held = node.allocated.get(profile).map_or(total, |held| i64::from(*held).clamp(certain, total));
        if held < total && !unknown {
            *free.entry(offered).or_insert(0) += total - held;
        }
    }
    free
}

/// GPUs with MIG off of a node that are free although none of them is provably
/// idle: fewer are held than may be held.
pub(super) fn whole_somewhere(node: &Node) -> i64 {
    let uses = || node.gpus.values().filter_map(|gpu| gpu.slices.whole());
    let count = |counts: fn(&Use) -> bool| uses().filter(|used| counts(used)).count();
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let perhaps = number(count(|used| matches!(used, Use::MaybeInUse { .. })));
    let certain = number(count(|used| matches!(used, Use::InUse { .. })));
    perhaps - (i64::from(node.whole_held) - certain).clamp(0, perhaps)
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
            menus[policy].extend(group.shared.keys().filter_map(|offered| offered.profile()));
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

/// What a GPU is held to by the plan that is under way.
fn aim(under_way: &UnderWay, node: &NodeName, gpu: GpuIndex) -> Aim {
    under_way.gpus.get(&(node.clone(), gpu)).map_or(Aim::Stay, |slices| {
        let mut slices: Vec<_> = slices.iter().map(|(profile, start)| (*start, *profile)).collect();
        slices.sort_unstable();
        Aim::Reach(slices)
    })
}
