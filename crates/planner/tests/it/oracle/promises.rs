//! What was promised, restated for brute force: which promises can be kept, and which of them yield to a
//! higher priority.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use mig::ProfileName;
use planner::demand::Request;
use planner::inventory::{Inventory, Node, Use};
use planner::names::NodeName;
use planner::policy::{Drain, LayoutPolicy, Policy};

use super::choices::{has, rule};
use super::evict::is_off;
use super::may::may;
use super::values::{Demand, Unserved};
use super::{apply, best};

fn is_planned(request: &Request) -> bool {
    request.blocked_elsewhere.is_none()
        && request.refused.is_none()
        && request.finds.is_none()
        && (request.whole_gpus > 0) != asks_slices(request)
}

/// Whether it asks for slices, or for seats of them.
pub(crate) fn asks_slices(request: &Request) -> bool {
    request.slices.values().chain(request.shared.values()).any(|n| *n > 0)
}

/// Slices of a profile that nobody holds, or seats of them, by the name by which pods ask for them.
fn free(node: &Node, profile: ProfileName, shared_name: bool) -> u32 {
    let (each, renamed) = node.shared.get(&profile).map_or((1, false), |s| (s.replicas, s.renamed));
    if renamed != shared_name {
        return 0;
    }
    let (mut all, mut sure, mut maybe) = (0_u32, 0_u32, 0_u32);
    for gpu in node.gpus.values() {
        for (of, used) in apply::profiles(gpu).into_iter().zip(apply::uses(gpu)) {
            if of == profile {
                all += 1;
                sure += u32::from(matches!(used, Use::InUse { .. }));
                maybe += u32::from(matches!(used, Use::MaybeInUse { .. }));
            }
        }
    }
    let most = (sure + maybe) * each;
    let held = node.allocated.get(&profile).copied().unwrap_or(most);
    all * each - held.clamp(sure, most)
}

/// What it asks for of slices: the profile, whether by the name of shared ones, and how many.
pub(crate) fn wants(request: &Request) -> impl Iterator<Item = (ProfileName, bool, u32)> {
    let slices = request.slices.iter().map(|(profile, n)| (*profile, false, *n));
    let seats = request.shared.iter().map(|(offered, n)| (offered.profile().expect("a slice"), true, *n));
    slices.chain(seats)
}

/// GPUs with MIG off that nobody holds.
fn free_whole(node: &Node) -> u32 {
    let off = || node.gpus.values().filter(|gpu| is_off(gpu)).flat_map(apply::uses);
    let count = |n: usize| u32::try_from(n).expect("few");
    let sure = count(off().filter(|used| matches!(used, Use::InUse { .. })).count());
    let busy = count(off().filter(|used| !used.is_idle()).count());
    count(off().count()) - node.whole_held.clamp(sure, busy)
}

/// The promises that can be kept, each with its node.
pub(crate) fn kept<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    owner: &dyn Fn(&NodeName) -> Option<&'a Policy>,
) -> Vec<(&'a Request, &'a NodeName)> {
    let mut sorted: Vec<&Request> = requests.iter().filter(|r| is_planned(r)).collect();
    sorted.sort_by_key(|r| (Reverse(r.priority), r.since, r.id.clone()));
    let mut rooms: BTreeMap<&NodeName, planner::inventory::Room> =
        inventory.nodes.iter().map(|(name, node)| (name, node.room)).collect();
    let mut taken: BTreeMap<(&NodeName, ProfileName, bool), u32> = BTreeMap::new();
    let mut whole: BTreeMap<&NodeName, u32> = BTreeMap::new();
    let mut kept = vec![];
    for request in sorted {
        let Some((name, node)) =
            request.promised.as_ref().and_then(|name| inventory.nodes.get_key_value(name))
        else {
            continue;
        };
        let room = rooms[name];
        let as_is = Node { room, ..node.clone() };
        let changes = owner(name).is_some_and(|policy| node.hold.is_none() && evicted_for(policy, node));
        let enough = wants(request).all(|(profile, shared, n)| {
            taken.get(&(name, profile, shared)).copied().unwrap_or(0) + n <= free(node, profile, shared)
        });
        let wholes = whole.get(name).copied().unwrap_or(0) + request.whole_gpus;
        let enough = enough && (request.whole_gpus == 0 || wholes <= free_whole(node));
        // What was promised is kept, whatever the policy offers by now.
        let slices_only = Request { whole_gpus: 0, ..request.clone() };
        if changes || !enough || !may(&slices_only, name, &as_is, owner(name)) {
            continue;
        }
        let mut room = room;
        room.cpu_milli -= request.takes.cpu_milli;
        room.memory_bytes -= request.takes.memory_bytes;
        room.storage_bytes -= request.takes.storage_bytes;
        room.pods -= request.takes.pods;
        rooms.insert(name, room);
        whole.insert(name, wholes);
        for (profile, shared, n) in wants(request) {
            *taken.entry((name, profile, shared)).or_default() += n;
        }
        kept.push((request, name));
    }
    kept
}

fn evicted_for(policy: &Policy, node: &Node) -> bool {
    let LayoutPolicy::Static { gpus } = &policy.layout else { return false };
    let misses = |(index, gpu): (&planner::names::GpuIndex, &planner::inventory::Gpu)| {
        gpu.hold.is_none() && rule(gpus, *index, gpu).is_some_and(|wanted| !has(&wanted, gpu))
    };
    policy.drain == Drain::Evict
        && policy.mode != planner::policy::Mode::Paused
        && node.gpus.iter().any(misses)
}

/// The requests with the promises that are made to them, without those that
/// yield to a higher priority: the highest first, then the oldest, each is kept
/// if nobody of a higher priority gets less for it.
pub(crate) fn settled(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Vec<Request> {
    let demand = Demand::new(inventory, requests, policies);
    let kept = kept(inventory, requests, &|name| demand.policy_of(name));
    let mut promised: Vec<&Request> = kept.into_iter().map(|(request, _)| request).collect();
    promised.sort_by_key(|r| (Reverse(r.priority), r.since, r.id.clone()));
    let mut now: Vec<Request> = requests.to_vec();
    let set = |requests: &mut Vec<Request>, of: &Request, to: Option<NodeName>| {
        requests.iter_mut().filter(|r| r.id == of.id).for_each(|r| r.promised.clone_from(&to));
    };
    promised.iter().for_each(|request| set(&mut now, request, None));
    for request in promised {
        let mut with = now.clone();
        set(&mut with, request, request.promised.clone());
        let pairs = above(inventory, &with, policies, request)
            .into_iter()
            .zip(above(inventory, &now, policies, request));
        // What is kept may leave no node to somebody, who is in no queue then, and as unserved as before.
        let first = pairs.map(|(with, now)| {
            let is_same_queue = with.turns.len() == now.turns.len();
            if is_same_queue { with.cmp(&now) } else { with.slices.cmp(&now.slices) }
        });
        if first.fold(Ordering::Equal, Ordering::then) != Ordering::Greater {
            now = with;
        }
    }
    now
}

/// What those of a higher priority than a request do not get.
fn above(inventory: &Inventory, requests: &[Request], policies: &[Policy], than: &Request) -> Vec<Unserved> {
    let priorities = Demand::new(inventory, requests, policies).priorities;
    let levels = priorities.into_iter().filter(|priority| *priority > than.priority).count();
    best(inventory, requests, policies).1.unserved[..levels].to_vec()
}
