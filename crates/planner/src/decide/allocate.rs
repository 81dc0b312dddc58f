//! From numbers to names: which GPU of a class takes which layout, and which
//! request gets which slice. Within a class all GPUs are equal, so nothing is
//! lost by choosing them in a fixed order.

mod exchange;

use std::collections::{BTreeMap, BTreeSet};

use mig::{Layout, ProfileName};

use super::choose::Chosen;
use super::world::{Class, World, free_seats, whole_somewhere};
use crate::demand::Request;
use crate::inventory::{ChangeScope, Gpu, Node, Room, Use};
use crate::names::{GpuId, GpuIndex, NodeName, RequestId};
use crate::offered::Offered;
use crate::solver::RowIndex;

/// Everything decided, by name.
#[derive(Debug, Default)]
pub(super) struct Allocation<'a> {
    /// The GPUs that change, and to what.
    pub(super) changes: BTreeMap<(&'a NodeName, GpuIndex), Layout>,
    /// What each served request gets.
    pub(super) served: BTreeMap<&'a RequestId, Served<'a>>,
    /// Requests that the numbers serve and no single node can: of several
    /// slices, or for lack of CPU, memory, ephemeral storage or pod slots.
    pub(super) unplaced: BTreeSet<&'a RequestId>,
    /// Who is served in place of somebody younger, whom the numbers serve.
    pub(super) exchanged: Vec<(&'a Request, &'a Request)>,
    /// What nobody gets of the nodes to which pods can bind.
    pub(super) left_over: BTreeMap<&'a NodeName, LeftOver>,
}

/// What is left of a node when everybody has what they get.
#[derive(Debug)]
pub(super) struct LeftOver {
    /// Profiles of which a slice is there and free.
    pub(super) free: BTreeSet<ProfileName>,
    room: Room,
}

/// What a request gets.
#[derive(Clone, Debug)]
pub(super) struct Served<'a> {
    pub(super) node: &'a NodeName,
    /// Which slices, or whole GPUs, with the model that serves them.
    pub(super) slices: Vec<(GpuId, String, Offered)>,
    /// Whether one of them has to be created first.
    pub(super) by_plan: bool,
}

/// Hands out a solution.
pub(super) fn allocate<'a>(chosen: &Chosen<'a>) -> Allocation<'a> {
    let world = &chosen.world;
    let changes = changes(chosen);
    let mut pools = pools(world, &changes);
    let mut quotas = quotas(chosen);
    let mut allocation = Allocation { changes, ..Allocation::default() };
    // Groups are in order of priority; several slices first, since they are
    // harder to place, then the oldest.
    let mut order: Vec<usize> = (0..world.groups.len()).collect();
    order.sort_by_key(|g| {
        let group = &world.groups[*g];
        let slices = group.wants().map(|(_, n)| n).sum::<u32>();
        (std::cmp::Reverse((group.priority, slices)), *g)
    });
    let mut left: Vec<(usize, &'a Request)> = Vec::new();
    for g in order {
        let group = &world.groups[g];
        let Some(quota) = chosen.program.demand[g].and_then(|row| quotas.get_mut(&row)) else { continue };
        for request in group.requests.iter().copied().take(chosen.served(g)) {
            let place = quota.iter_mut().filter(|(_, n)| *n > 0).find_map(|(nodes, n)| {
                let served = pools.take(nodes, request)?;
                *n -= 1;
                Some(served)
            });
            match place {
                Some(served) => {
                    allocation.served.insert(&request.id, served);
                }
                None => left.push((g, request)),
            }
        }
    }
    // What did not fit where the numbers put it may fit elsewhere.
    for (g, request) in left {
        // Elsewhere it might be more than its share.
        if !world.groups[g].shares.is_empty() {
            allocation.unplaced.insert(&request.id);
            continue;
        }
        let nodes: Vec<&'a NodeName> = world
            .cells
            .iter()
            .filter(|cell| cell.groups.contains(&g))
            .flat_map(|cell| cell.nodes.iter().copied())
            .collect();
        match pools.take(&nodes, request) {
            Some(served) => {
                allocation.served.insert(&request.id, served);
            }
            None => {
                allocation.unplaced.insert(&request.id);
            }
        }
    }
    exchange::exchange(world, &mut allocation, &mut pools);
    allocation.left_over = pools.nodes.into_iter().map(|(name, pool)| (name, pool.left_over())).collect();
    allocation
}

/// For each row of demand, how many are served on which nodes: on one of a
/// cell's, or, where nodes are looked at one by one, on each.
type Quotas<'a> = BTreeMap<RowIndex, Vec<(Vec<&'a NodeName>, i64)>>;

fn quotas<'a>(chosen: &Chosen<'a>) -> Quotas<'a> {
    let Chosen { world, turns: _, program, solved, copies } = chosen;
    let mut quotas: Quotas<'a> = BTreeMap::new();
    let mut served: Vec<_> = program.served.iter().collect();
    served.sort_by_key(|(group, cell, _)| (*group, *cell));
    for (group, cell, extra) in served {
        let Some(row) = program.demand[*group] else { continue };
        let quota = quotas.entry(row).or_default();
        let nodes = &world.cells[*cell].nodes;
        let part = program.part_cells.iter().position(|c| c == cell);
        let Some((part, copies)) = part.and_then(|p| Some((&program.parts[p], copies.get(p)?))) else {
            quota.push((nodes.clone(), solved.extras[*extra]));
            continue;
        };
        let Some(position) = part.extras.iter().position(|e| e == extra) else { continue };
        let each = nodes.iter().zip(copies).map(|(node, copy)| (vec![*node], copy.extras[position]));
        quota.extend(each.filter(|(_, n)| *n > 0));
    }
    quotas
}

/// Which GPUs change. Within a class the first GPUs change, by node name and
/// index: classes then share nodes, and whatever part of a plan is done, the
/// GPUs that remain to be changed are the same. Where nodes are looked at one
/// by one, each does what its copy does.
fn changes<'a>(chosen: &Chosen<'a>) -> BTreeMap<(&'a NodeName, GpuIndex), Layout> {
    let Chosen { world, turns: _, program, solved, copies } = chosen;
    let mut changes = BTreeMap::new();
    let mut by_copy = BTreeSet::new();
    for ((part, cell), copies) in program.parts.iter().zip(&program.part_cells).zip(copies) {
        by_copy.extend(part.classes.iter().copied());
        for (position, of_part) in part.classes.iter().enumerate() {
            let class = &world.classes[program.classes[*of_part]];
            let mut gpus: BTreeMap<&NodeName, Vec<&(&'a NodeName, GpuIndex)>> = BTreeMap::new();
            class.gpus.iter().for_each(|gpu| gpus.entry(gpu.0).or_default().push(gpu));
            for (node, copy) in world.cells[*cell].nodes.iter().zip(copies) {
                let gpus = gpus.remove(node).unwrap_or_default();
                change(class, gpus, copy.classes[position].iter().copied(), &mut changes);
            }
        }
    }
    for (position, columns) in solved.classes.iter().enumerate().filter(|(p, _)| !by_copy.contains(p)) {
        let class = &world.classes[program.classes[position]];
        change(class, &class.gpus, columns.iter().copied(), &mut changes);
    }
    changes
}

fn change<'a: 'g, 'g>(
    class: &Class<'a>,
    gpus: impl IntoIterator<Item = &'g (&'a NodeName, GpuIndex)>,
    columns: impl Iterator<Item = (usize, u32)>,
    changes: &mut BTreeMap<(&'a NodeName, GpuIndex), Layout>,
) {
    let mut gpus = gpus.into_iter();
    for (column, count) in columns {
        if let Some(layout) = class.targets[column].layout {
            for gpu in gpus.by_ref().take(count as usize) {
                changes.insert(*gpu, layout);
            }
        }
    }
}

/// Free slices, node by node.
#[derive(Debug, Default)]
struct Pools<'a> {
    nodes: BTreeMap<&'a NodeName, Pool>,
}

/// What a node has to give.
#[derive(Clone, Debug)]
struct Pool {
    /// Free slices and whole GPUs: those that are there first, then those to be created.
    free: BTreeMap<Offered, Vec<Free>>,
    room: Room,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Free {
    created: bool,
    gpu: GpuId,
    model: String,
}

fn pools<'a>(world: &World<'a>, changes: &BTreeMap<(&'a NodeName, GpuIndex), Layout>) -> Pools<'a> {
    let mut pools = Pools::default();
    for name in world.inventory.nodes.keys() {
        let node = world.planned_node(name);
        if !node.schedulable {
            continue;
        }
        let mut free: BTreeMap<Offered, Vec<Free>> = BTreeMap::new();
        for (index, gpu) in &node.gpus {
            let id = GpuId { node: name.clone(), gpu: *index };
            let mut offer = |offered: Offered, created: bool| {
                free.entry(offered).or_default().push(Free {
                    created,
                    gpu: id.clone(),
                    model: gpu.model.clone(),
                });
            };
            match changes.get(&(name, *index)) {
                None => {
                    for (offered, n) in idle(gpu).into_iter().map(|offered| seats(node, offered)) {
                        (0..n).for_each(|_| offer(offered, false));
                    }
                }
                Some(layout) => {
                    for (offered, created) in after(gpu, *layout, node.scope) {
                        let (offered, n) = seats(node, offered);
                        (0..n).for_each(|_| offer(offered, created));
                    }
                }
            }
        }
        let somewhere = free_seats(name, node, &world.evictions).into_iter();
        for (offered, n) in somewhere.chain([(Offered::WholeGpu, whole_somewhere(node))]) {
            // Some slices of these GPUs are free, it is not known which: the
            // first that may be is named.
            let somewhere =
                node.gpus.iter().filter(|(_, gpu)| count_of(node, gpu, offered) > 0).flat_map(|(i, gpu)| {
                    let free = Free {
                        created: false,
                        gpu: GpuId { node: name.clone(), gpu: *i },
                        model: gpu.model.clone(),
                    };
                    let slices = count_of(node, gpu, offered);
                    std::iter::repeat_n(free, slices)
                });
            let found: Vec<Free> = somewhere.take(usize::try_from(n).unwrap_or(0)).collect();
            free.entry(offered).or_default().extend(found);
        }
        for slices in free.values_mut() {
            slices.sort();
            slices.reverse();
        }
        pools.nodes.insert(name, Pool { free, room: node.room });
    }
    pools
}

impl LeftOver {
    /// Whether there is room for a pod.
    pub(super) fn fits(&self, takes: &Room) -> bool {
        self.room.holds(takes)
    }
}

impl Pool {
    fn left_over(self) -> LeftOver {
        let there = |slices: &Vec<Free>| slices.iter().any(|slice| !slice.created);
        let free = self.free.into_iter().filter(|(_, slices)| there(slices));
        let free = free.filter_map(|(offered, _)| offered.slice());
        LeftOver { free: free.collect(), room: self.room }
    }

    fn has(&self, request: &Request) -> bool {
        self.room.holds(&request.takes)
            && request.wants().all(|(offered, n)| self.free.get(&offered).map_or(0, Vec::len) >= n as usize)
    }

    /// How many of the wanted slices would have to be created, and what is
    /// left of the wanted profiles: the tighter fit is the better one.
    fn fit(&self, request: &Request) -> (bool, usize) {
        let mut created = false;
        let mut left = 0;
        for (offered, n) in request.wants() {
            let Some(free) = self.free.get(&offered) else { continue };
            created |= free.iter().rev().take(n as usize).any(|slice| slice.created);
            left += free.len() - n as usize;
        }
        (created, left)
    }
}

impl<'a> Pools<'a> {
    /// Takes what a request wants from the best of some nodes.
    fn take(&mut self, nodes: &[&'a NodeName], request: &Request) -> Option<Served<'a>> {
        let several = request.wants().map(|(_, n)| n).sum::<u32>() > 1;
        let mut usable =
            nodes.iter().copied().filter(|name| self.nodes.get(name).is_some_and(|p| p.has(request)));
        let node = if several {
            usable.min_by_key(|name| (self.nodes[name].fit(request), *name))?
        } else {
            // One slice: what is there before what is to be created.
            let first = usable.next()?;
            if self.nodes[first].fit(request).0 {
                usable.find(|name| !self.nodes[name].fit(request).0).unwrap_or(first)
            } else {
                first
            }
        };
        let pool = self.nodes.get_mut(node)?;
        pool.room = pool.room.plus(request.takes, -1);
        let mut served = Served { node, slices: vec![], by_plan: false };
        for (offered, n) in request.wants() {
            for _ in 0..n {
                let slice = pool.free.get_mut(&offered)?.pop()?;
                served.by_plan |= slice.created;
                served.slices.push((slice.gpu, slice.model, offered));
            }
        }
        Some(served)
    }
}

/// What requests can have of a GPU, given what it changes to.
pub(super) fn idle_slices(gpu: &Gpu, change: Option<Layout>, scope: ChangeScope) -> Vec<Offered> {
    match change {
        None => idle(gpu),
        Some(layout) => after(gpu, layout, scope).into_iter().map(|(offered, _)| offered).collect(),
    }
}

/// What of a GPU is provably idle: slices, or all of it where MIG is off.
fn idle(gpu: &Gpu) -> Vec<Offered> {
    let slices = gpu.slices.iter().map(|slice| (Offered::Slice(slice.profile), slice.used));
    let all = slices.chain(gpu.slices.whole().map(|used| (Offered::WholeGpu, used)));
    all.filter(|(_, used)| used.is_idle()).map(|(offered, _)| offered).collect()
}

/// What of a GPU is free after a change, and whether each is created by it.
fn after(gpu: &Gpu, layout: Layout, scope: ChangeScope) -> Vec<(Offered, bool)> {
    if layout.is_empty() {
        return vec![(Offered::WholeGpu, true)];
    }
    let keeps = matches!(scope, ChangeScope::SliceBySlice);
    layout
        .iter()
        .filter_map(|placement| {
            let (profile, start) = gpu.geometry.describe(placement);
            let existing = gpu.slices.iter().find(|s| s.profile == profile && s.start == Some(start));
            match existing {
                Some(slice) if keeps && !slice.used.is_idle() => None,
                Some(_) if keeps => Some((Offered::Slice(profile), false)),
                _ => Some((Offered::Slice(profile), true)),
            }
        })
        .collect()
}

/// What pods get of a slice, or of a GPU as a whole, and how many of it.
fn seats(node: &Node, offered: Offered) -> (Offered, u32) {
    offered.slice().map_or((offered, 1), |profile| node.seats_of(profile))
}

/// The slices of a profile that may be in use, though it cannot be said which; or the GPU as a whole. Of a slice that
/// several share, every seat that somebody may have left.
fn count_of(node: &Node, gpu: &Gpu, wanted: Offered) -> usize {
    let perhaps = |used: &Use| matches!(used, Use::MaybeInUse { .. });
    match wanted {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => {
            let (_, seats) = node.seats_of(profile);
            let counts = |used: &Use| if seats > 1 { !used.is_idle() } else { perhaps(used) };
            let slices = gpu.slices.iter().filter(|slice| slice.profile == profile && counts(slice.used));
            slices.count() * seats as usize
        }
        Offered::SharedGpu => 0,
        Offered::WholeGpu => gpu.slices.whole().into_iter().filter(|used| perhaps(used)).count(),
    }
}
