//! Supply and demand of each policy; bounds that are not met; and GPUs that are frozen only because they
//! cannot be proved idle.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use mig::{Counts, Geometry, Layout, ProfileIndex, ProfileName};

use super::allocate::{Allocation, idle_slices};
use super::evict::Evictions;
use super::formulate::{Counted, Level, bounds, common};
use super::group::Group;
use super::seats::Seats;
use super::situation::is_idle;
use super::targets::{Current, Freedom, Goal, Whole};
use super::world::{World, free_seats, free_somewhere, whole_somewhere};
use crate::demand::Request;
use crate::inventory::{ChangeScope, Gpu, Hold, Node, Slice, Use};
use crate::names::{GpuId, GpuIndex, NodeName};
use crate::offered::Offered;
use crate::policy::{LayoutPolicy, Policy, StaticCut, rule_for};
use crate::report::{LevelCertificate, PolicyReport, SeatSupply, Supply, UnknownProfile, UnmetBound};

/// The reports of all policies, by name.
pub(super) fn policies(
    world: &World<'_>,
    allocation: &Allocation<'_>,
    seats: &Seats<'_>,
) -> Vec<PolicyReport> {
    let of = |(p, policy): (usize, &&Policy)| {
        let mut report = report(world, allocation, p, policy);
        report.seats.extend(seats.supply(&policy.name));
        report
    };
    world.policies.iter().enumerate().map(of).collect()
}

fn report(world: &World<'_>, allocation: &Allocation<'_>, position: usize, policy: &Policy) -> PolicyReport {
    let nodes: Vec<NodeName> = world.assignment.nodes_of(&policy.name).cloned().collect();
    let mut supply: BTreeMap<ProfileName, Supply> = BTreeMap::new();
    let mut seats: BTreeMap<Offered, SeatSupply> = BTreeMap::new();
    // By what pods get, and by how many share it.
    let mut free_after: Free = BTreeMap::new();
    let mut static_missed: Vec<(NodeName, GpuIndex)> = Vec::new();
    for name in &nodes {
        let (node, planned) = (world.node(name), world.planned_node(name));
        for (index, gpu) in &node.gpus {
            for Slice { profile, start: _, used } in gpu.slices.iter() {
                let entry = supply.entry(profile).or_default();
                entry.present += 1;
                entry.allocated += u32::from(!used.is_idle());
            }
            let change = allocation.changes.get(&(name, *index)).copied();
            let after = change.map_or_else(
                || gpu.slices.profiles().collect::<Vec<_>>(),
                |layout| layout.iter().map(|p| gpu.geometry.describe(p).0).collect(),
            );
            for profile in &after {
                supply.entry(*profile).or_default().planned += 1;
            }
            if node.schedulable {
                for offered in idle_slices(&planned.gpus[index], change, node.scope) {
                    let (offered, n) = offered.slice().map_or((offered, 1), |of| node.seats_of(of));
                    *free_after.entry((offered, n)).or_insert(0) += n;
                }
            }
            let is_whole = change.map_or(gpu.slices.is_mig_off(), Layout::is_empty);
            if misses_static(policy, gpu, *index, (!is_whole).then_some(&after)) {
                static_missed.push((name.clone(), *index));
            }
        }
        // Slices that only may be in use are free as far as fewer are held.
        for (profile, free) in free_somewhere(name, node, &Evictions::default()) {
            let entry = supply.entry(profile).or_default();
            entry.allocated = entry.allocated.saturating_sub(u32::try_from(free).unwrap_or(u32::MAX));
        }
        let somewhere = free_seats(name, planned, &world.evictions).into_iter();
        for (offered, free) in somewhere.chain([(Offered::WholeGpu, whole_somewhere(planned))]) {
            if node.schedulable {
                let n = offered.profile().map_or(1, |of| node.seats_of(of).1);
                *free_after.entry((offered, n)).or_insert(0) += u32::try_from(free).unwrap_or(u32::MAX);
            }
        }
        add_seats(name, node, allocation, &mut seats);
    }
    attainable(world, position, &mut supply);
    let mut whole_gpus = whole_gpus(world, allocation, position);
    for (g, group) in world.groups.iter().enumerate() {
        if !counts_for(world, position, g, group) {
            continue;
        }
        for request in &group.requests {
            let served = allocation.served.get(&request.id);
            for (offered, n) in group.wants() {
                let unserved = if served.is_none() { n } else { 0 };
                if let Some(seats) = seats.get_mut(&offered) {
                    seats.requested += n;
                    seats.unserved += unserved;
                }
                let entry = match offered {
                    Offered::Slice(profile) => Some(supply.entry(profile).or_default()),
                    Offered::WholeGpu => Some(whole_gpus.get_or_insert_default()),
                    // These are counted in seats alone.
                    Offered::SharedSlice(_) | Offered::SharedGpu => None,
                };
                if let Some(entry) = entry {
                    entry.requested += n;
                    entry.unserved += unserved;
                }
                if let Some(served) =
                    served.filter(|served| world.assignment.policy_of.get(served.node) == Some(&policy.name))
                {
                    let taken = served.slices.iter().filter(|(_, _, o)| *o == offered).count();
                    let each = offered.profile().map_or(1, |of| world.node(served.node).seats_of(of).1);
                    let free = free_after.entry((offered, each)).or_insert(0);
                    *free = free.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
                }
            }
        }
    }
    let mut unmet = unmet_bounds(world, position, (&supply, whole_gpus), &free_after);
    unmet.extend(unmet_shares(world, position, allocation));
    if !static_missed.is_empty() {
        let total = nodes.iter().map(|name| world.node(name).gpus.len()).sum::<usize>();
        let missed = static_missed.len();
        unmet.push(UnmetBound {
            field: "spec.layout.static.gpus".to_owned(),
            wanted: u32::try_from(total).unwrap_or(u32::MAX),
            reached: u32::try_from(total - missed).unwrap_or(u32::MAX),
        });
    }
    PolicyReport {
        policy: policy.name.clone(),
        lost: world.assignment.lost.get(&policy.name).cloned().unwrap_or_default(),
        unknown_profiles: unknown_profiles(world, policy, &nodes),
        nodes,
        supply,
        whole_gpus,
        seats,
        unmet,
        static_missed,
    }
}

/// What is free once the plan is done, by what pods get, and by how many share it.
type Free = BTreeMap<(Offered, u32), u32>;

/// The seats of a node's slices that several pods share.
fn add_seats(
    name: &NodeName,
    node: &Node,
    allocation: &Allocation<'_>,
    all: &mut BTreeMap<Offered, SeatSupply>,
) {
    for profile in node.shared.keys() {
        let (offered, each) = node.seats_of(*profile);
        let supply = all.entry(offered).or_default();
        let (mut present, mut planned) = (0, 0);
        for (index, gpu) in &node.gpus {
            let now = gpu.slices.profiles().filter(|of| of == profile).count();
            let after = match allocation.changes.get(&(name, *index)) {
                Some(layout) => layout.iter().filter(|p| gpu.geometry.describe(*p).0 == *profile).count(),
                None => now,
            };
            present += u32::try_from(now).unwrap_or(u32::MAX);
            planned += u32::try_from(after).unwrap_or(u32::MAX);
        }
        supply.devices += present;
        supply.total = supply.total.saturating_add(present.saturating_mul(each));
        supply.planned = supply.planned.saturating_add(planned.saturating_mul(each));
        let held = node.allocated.get(profile).copied().unwrap_or(0);
        supply.held = supply.held.saturating_add(held.min(present.saturating_mul(each)));
    }
}

/// Supply of GPUs with MIG off, where the policy offers some.
fn whole_gpus(world: &World<'_>, allocation: &Allocation<'_>, position: usize) -> Option<Supply> {
    let policy = world.policies[position];
    if !policy.layout.offers_whole_gpus() {
        return None;
    }
    let mut supply = Supply::default();
    for name in world.assignment.nodes_of(&policy.name) {
        let node = world.node(name);
        let (mut certain, mut busy) = (0, 0);
        for (index, gpu) in &node.gpus {
            if let Some(used) = gpu.slices.whole() {
                supply.present += 1;
                certain += u32::from(matches!(used, Use::InUse { .. }));
                busy += u32::from(!used.is_idle());
            }
            let change = allocation.changes.get(&(name, *index)).copied();
            supply.planned += u32::from(change.map_or(gpu.slices.is_mig_off(), Layout::is_empty));
        }
        // Of those that only may be in use, so many are as pods hold.
        supply.allocated += node.whole_held.clamp(certain, busy);
    }
    let classes = world.classes.iter().filter(|class| world.cells[class.cell].policy == Some(position));
    for class in classes {
        let can_be = match class.situation.goal {
            Goal::Whole { is_so } => is_so || class.situation.freedom == Freedom::Whole,
            Goal::Demand { .. } => class.situation.whole != Whole::No,
            Goal::Static(_) => false,
        };
        supply.attainable += if can_be { u32::try_from(class.gpus.len()).unwrap_or(u32::MAX) } else { 0 };
    }
    supply.attainable = supply.attainable.max(supply.planned);
    Some(supply)
}

/// Whether the requests of a group count for a policy: it has nodes that they may use, and may serve them there. Where
/// no policy may, they count for those whose models could, so that somebody answers for them. What a pool cannot have is
/// no demand of its own, however long it waits elsewhere.
fn counts_for(world: &World<'_>, policy: usize, group: usize, asks: &Group<'_>) -> bool {
    let eligible = |policy: usize| {
        world.cells.iter().any(|cell| cell.policy == Some(policy) && cell.groups.contains(&group))
    };
    let serves = |policy: usize| eligible(policy) && could_serve(world, policy, asks, Serves::ByItsLayout);
    serves(policy)
        || (eligible(policy)
            && could_serve(world, policy, asks, Serves::ByItsModels)
            && !(0..world.policies.len()).any(serves))
}

/// By what a policy could serve somebody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// What it cuts, or finds already cut.
    ByItsLayout,
    /// What its GPUs could be cut into.
    ByItsModels,
}

/// Whether a node of the policy could have all these profiles.
fn could_serve(world: &World<'_>, policy: usize, asks: &Group<'_>, by: Serves) -> bool {
    let policy = &world.policies[policy];
    if asks.whole > 0 {
        return policy.layout.offers_whole_gpus();
    }
    let offers = |gpu: &Gpu, index: GpuIndex, profile: ProfileName| match &policy.layout {
        LayoutPolicy::Static { gpus } if by == Serves::ByItsLayout => {
            let rule = rule_for(gpus, &gpu.model, index);
            rule.is_some_and(|rule| rule.cuts_into(profile))
                || gpu.slices.profiles().any(|found| found == profile)
        }
        LayoutPolicy::Static { .. } | LayoutPolicy::DemandDriven { .. } => {
            gpu.geometry.profile_named(profile).is_some()
        }
    };
    world.assignment.nodes_of(&policy.name).any(|name| {
        let gpus = &world.node(name).gpus;
        asks.wants().all(|(offered, _)| {
            let Some(profile) = offered.profile() else { return false };
            let by_name = by == Serves::ByItsModels || world.node(name).seats_of(profile).0 == offered;
            by_name && gpus.iter().any(|(index, gpu)| offers(gpu, *index, profile))
        })
    })
}

/// Whether a GPU is not what a static layout wants; `after` are its slices, if MIG is on.
fn misses_static(policy: &Policy, gpu: &Gpu, index: GpuIndex, after: Option<&Vec<ProfileName>>) -> bool {
    let LayoutPolicy::Static { gpus } = &policy.layout else { return false };
    let Some(rule) = rule_for(gpus, &gpu.model, index) else { return false };
    let Some(after) = after else { return rule.cut != StaticCut::MigOff };
    let mut has: BTreeMap<ProfileName, u8> = BTreeMap::new();
    for profile in after {
        *has.entry(*profile).or_insert(0) += 1;
    }
    rule.cut == StaticCut::MigOff || has != rule.cut.slices().collect()
}

/// The most of each profile that some layout could offer, with what is in use
/// left alone: GPU by GPU, since a profile asks for nothing of the others.
fn attainable(world: &World<'_>, policy: usize, supply: &mut BTreeMap<ProfileName, Supply>) {
    for class in world.classes.iter().filter(|class| world.cells[class.cell].policy == Some(policy)) {
        let geometry = world.geometries.get(class.situation.geometry);
        let count = u32::try_from(class.gpus.len()).unwrap_or(u32::MAX);
        let now = class.situation.now(geometry);
        let stays = match (&class.situation.current, class.situation.freedom) {
            (_, Freedom::Fixed) => None,
            (Current::Placed { used, .. }, Freedom::Idle) => Some(*used),
            (_, Freedom::Idle | Freedom::Evict | Freedom::Whole) => Some(Layout::EMPTY),
        };
        for (profile, most) in most(geometry, &now, stays) {
            supply.entry(geometry.profile(profile).name).or_default().attainable += u32::from(most) * count;
        }
    }
}

/// The most slices of each profile on a GPU of which `stays` has to stay;
/// `None`: nothing may change.
fn most(geometry: &Geometry, now: &Counts, stays: Option<Layout>) -> Vec<(ProfileIndex, u8)> {
    let Some(stays) = stays else { return now.iter().collect() };
    let kept = geometry.counts(stays);
    let free = geometry.free(stays);
    (0..geometry.profiles().len())
        .filter_map(|i| u8::try_from(i).ok().map(ProfileIndex))
        .map(|profile| {
            // Placements of one profile overlap only with themselves or their
            // neighbours: taking them from the lowest start is the most.
            let mut layout = stays;
            for placement in free.iter().filter(|p| geometry.profile_of(*p) == profile) {
                if geometry.free(layout).contains(placement) {
                    layout = layout.with(placement);
                }
            }
            (profile, geometry.counts(layout).get(profile).max(kept.get(profile)))
        })
        .filter(|(_, most)| *most > 0)
        .collect()
}

fn unmet_bounds(
    world: &World<'_>,
    position: usize,
    (slices, whole_gpus): (&BTreeMap<ProfileName, Supply>, Option<Supply>),
    free: &Free,
) -> Vec<UnmetBound> {
    let mut unmet = Vec::new();
    for (_, offered, bounds) in bounds(world).filter(|(p, _, _)| *p == position) {
        let supply = match offered {
            Offered::Slice(profile) => slices.get(&profile).copied(),
            Offered::WholeGpu => whole_gpus,
            Offered::SharedSlice(_) | Offered::SharedGpu => None,
        };
        let planned = supply.map_or(0, |s| s.planned);
        let of = |found: Offered| {
            found == offered || offered.slice().is_some() && found.profile() == offered.slice()
        };
        let mine = || free.iter().filter(|((found, _), _)| of(*found)).map(|((_, each), n)| (*each, *n));
        // A spare is a slice: as many free seats as it has.
        let unit = u64::try_from(common(mine().map(|(each, _)| each))).unwrap_or(1).max(1);
        let free: u64 = mine().map(|(each, n)| u64::from(n) * (unit / u64::from(each.max(1)))).sum();
        let free = u32::try_from(free / unit).unwrap_or(u32::MAX);
        let mut miss = |name: &str, wanted: u32, reached: u32| {
            unmet.push(UnmetBound { field: offered.bound(name), wanted, reached });
        };
        if planned < bounds.min {
            miss("minCount", bounds.min, planned);
        }
        if free < bounds.spare {
            miss("spareCount", bounds.spare, free);
        }
        if let Some(max) = bounds.max.filter(|max| planned > *max) {
            miss("maxCount", max, planned);
        }
    }
    unmet
}

/// Shares of which those who ask get less than they should have.
fn unmet_shares(world: &World<'_>, position: usize, allocation: &Allocation<'_>) -> Vec<UnmetBound> {
    let mut unmet: BTreeMap<String, UnmetBound> = BTreeMap::new();
    for quota in world.quotas.iter().filter(|quota| quota.policy == position && quota.min > 0) {
        let (mut asked, mut given) = (0, 0);
        for group in world.groups.iter().filter(|group| group.shares.contains(&quota.whose)) {
            for request in &group.requests {
                asked += group.weight();
                let node = allocation.served.get(&request.id).map(|served| served.node);
                let policy = node.and_then(|node| world.assignment.policy_of.get(node));
                if policy == Some(&world.policies[position].name) {
                    given += group.weight();
                }
            }
        }
        let wanted = quota.wanted(asked);
        if given < wanted {
            let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
            let field = quota.field("minComputeSlices");
            let (wanted, reached) = (number(quota.held + wanted), number(quota.held + given));
            // Of namespaces that have the same share each, the one that lacks most.
            let bound = UnmetBound { field: field.clone(), wanted, reached };
            let lacks = |bound: &UnmetBound| bound.wanted.saturating_sub(bound.reached);
            match unmet.entry(field) {
                Entry::Occupied(mut other) if lacks(other.get()) < lacks(&bound) => drop(other.insert(bound)),
                Entry::Occupied(_) => {}
                Entry::Vacant(entry) => drop(entry.insert(bound)),
            }
        }
    }
    unmet.into_values().collect()
}

/// Profiles that a policy names and some, or all, of its models lack.
fn unknown_profiles(world: &World<'_>, policy: &Policy, nodes: &[NodeName]) -> Vec<UnknownProfile> {
    let models: BTreeMap<&str, &Geometry> = nodes
        .iter()
        .flat_map(|name| world.node(name).gpus.values())
        .map(|gpu| (gpu.model.as_str(), gpu.geometry.as_ref()))
        .collect();
    let named: BTreeSet<(ProfileName, Option<&str>)> = match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => slices.keys().map(|profile| (*profile, None)).collect(),
        LayoutPolicy::Static { gpus } => gpus
            .iter()
            .flat_map(|rule| rule.cut.slices().map(|(profile, _)| (profile, rule.model.as_deref())))
            .collect(),
    };
    named
        .into_iter()
        .filter_map(|(profile, model)| {
            let asked: Vec<_> =
                models.iter().filter(|(name, _)| model.is_none_or(|model| model == **name)).collect();
            let lacking: Vec<String> = asked
                .iter()
                .filter(|(_, geometry)| geometry.profile_named(profile).is_none())
                .map(|(name, _)| (**name).to_owned())
                .collect();
            let everywhere = lacking.len() == asked.len();
            (!lacking.is_empty()).then_some(UnknownProfile { profile, lacking, everywhere })
        })
        .collect()
}

/// GPUs that a policy would be free to change if it were known which of their
/// slices are in use.
pub(super) fn frozen(world: &World<'_>) -> Vec<GpuId> {
    let mut frozen = Vec::new();
    for (name, node) in &world.inventory.nodes {
        let Some(policy) = world.assignment.policy_of.get(name) else { continue };
        let enforced = world.policies.iter().any(|p| p.name == *policy && !p.mode.starts_nothing());
        if enforced && node.hold.is_none() {
            let ids = node.gpus.iter().filter(|(_, gpu)| is_frozen(node, gpu));
            frozen.extend(ids.map(|(index, _)| GpuId { node: name.clone(), gpu: *index }));
        }
    }
    frozen
}

/// Whether a GPU cannot change only because nobody can prove it idle: no
/// slice is known to be in use, and some may be.
pub(super) fn is_frozen(node: &Node, gpu: &Gpu) -> bool {
    let uncertain = gpu.slices.iter().any(|slice| matches!(slice.used, Use::MaybeInUse { .. }));
    let certain = gpu.slices.iter().any(|slice| matches!(slice.used, Use::InUse { .. }));
    let blocked_by_node = node.scope == ChangeScope::EmptyNode && !node.gpus.values().all(is_idle);
    gpu.hold.is_none()
        && uncertain
        && (!certain || node.scope == ChangeScope::SliceBySlice)
        && !blocked_by_node
}

/// What holds a node or one of its GPUs, if anything does.
pub(super) fn hold(node: &Node) -> Option<&Hold> {
    node.hold.as_ref().or_else(|| node.gpus.values().find_map(|gpu| gpu.hold.as_ref()))
}

/// Requests that the numbers serve and no single node can are unserved: the
/// certificate's value says so, and its bound shows the gap.
pub(super) fn add_unplaced(
    world: &World<'_>,
    allocation: &Allocation<'_>,
    certificate: &mut [LevelCertificate],
) {
    for (older, younger) in &allocation.exchanged {
        let weight = |request: &Request| -> i64 {
            let group = world.groups.iter().find(|group| group.requests.iter().any(|r| r.id == request.id));
            group.map_or(0, Group::weight)
        };
        let name = Level::Unserved(std::cmp::Reverse(older.priority), Counted::Slices).name();
        if let Some(level) = certificate.iter_mut().find(|level| level.level == name) {
            level.value += weight(younger) - weight(older);
        }
    }
    for group in &world.groups {
        let unplaced = group.requests.iter().filter(|r| allocation.unplaced.contains(&r.id)).count();
        if unplaced == 0 {
            continue;
        }
        let name = Level::Unserved(std::cmp::Reverse(group.priority), Counted::Slices).name();
        if let Some(level) = certificate.iter_mut().find(|level| level.level == name) {
            level.value += group.weight() * i64::try_from(unplaced).unwrap_or(i64::MAX);
        }
    }
}
