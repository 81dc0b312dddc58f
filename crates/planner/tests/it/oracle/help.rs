//! Checks the advice of a report from outside: plans the world with exactly that change, and checks whether
//! a request with this advice is served in it.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use planner::decide::decide;
use planner::demand::Request;
use planner::inventory::{Gpu, Hold, Node, PlacedSlice, Room, Slices, Use};
use planner::names::{GpuIndex, NodeName, PodRef, RequestId};
use planner::policy::{LayoutPolicy, Mode, Order, Policy, Unrequested};
use planner::report::{Help, Outcome};

use super::apply;
use super::evict::{holders, without};
use super::may::{holds, may};
use super::world::World;

/// Who is served in a world.
pub(crate) fn served(world: &World) -> BTreeSet<RequestId> {
    let World { inventory, requests, policies } = world;
    let reports = decide(inventory, requests, policies).report.requests;
    let served = reports.into_iter().filter(|r| !matches!(r.outcome, Outcome::Unserved { .. }));
    served.map(|r| r.id).collect()
}

/// Somebody who waits, and what is said to serve it: not what serves only others.
type Told<'r> = (&'r Request, Vec<Help>);

/// What is wrong with what a report says would help.
pub(crate) fn doubts(world: &World) -> Vec<String> {
    let World { inventory, requests, policies } = world;
    let reports = decide(inventory, requests, policies).report.requests;
    let mut told: BTreeMap<String, (Vec<Help>, Vec<Told<'_>>)> = BTreeMap::new();
    for report in &reports {
        if let Outcome::Unserved { help, .. } = &report.outcome {
            let request = requests.iter().find(|r| r.id == report.id).expect("a request of the world");
            let Request { slices, whole_gpus, shared, priority, namespace_labels, .. } = request;
            // Who may use the same nodes, however they say so.
            let nodes = inventory.nodes.iter().map(|(name, node)| {
                let open = Node { schedulable: true, ..node.clone() };
                may(request, name, &open, owner(policies, node))
            });
            let nodes: Vec<bool> = nodes.collect();
            // Who asks alike is told the same, of whatever namespace unless it has shares of slices; what
            // each takes may divide them.
            let label = |key: &String| namespace_labels.get(key).map(String::as_str);
            let shares = policies.iter().filter_map(|policy| match &policy.layout {
                LayoutPolicy::DemandDriven { shares, .. } => Some(shares),
                LayoutPolicy::Static { .. } => None,
            });
            let mine = shares.flatten().map(|share| {
                let is_mine = *whole_gpus == 0 && share.namespaces.iter().all(|e| holds(e, label(&e.key)));
                (is_mine, (is_mine && share.per_namespace).then_some(&request.id.namespace))
            });
            let namespace: Vec<_> = mine.collect();
            // Whether what is said helps it, or only those who come before it.
            let (own, others): (Vec<Help>, Vec<Help>) =
                help.iter().cloned().partition(|help| !matches!(help, Help::ForOthers { .. }));
            let others = others.into_iter().map(|help| match help {
                Help::ForOthers { help } => *help,
                help => help,
            });
            let mut all: Vec<Help> = own.iter().cloned().chain(others).collect();
            all.sort_by_key(|help| format!("{help:?}"));
            let alike =
                format!("{all:?} {slices:?} {whole_gpus} {shared:?} {priority} {nodes:?} {namespace:?}");
            told.entry(alike).or_insert_with(|| (all, vec![])).1.push((request, own));
        }
    }
    let mut doubts = Vec::new();
    for (help, told) in told.values() {
        let who: Vec<&Request> = told.iter().map(|(request, _)| *request).collect();
        for help in help {
            // Those who are told that it serves them.
            let own: Vec<&Request> =
                told.iter().filter(|(_, own)| own.contains(help)).map(|(request, _)| *request).collect();
            let helped = |world: &World| {
                let served = served(world);
                who.iter().filter(|request| served.contains(&request.id)).count()
            };
            let names: Vec<String> = who.iter().map(|request| request.id.to_string()).collect();
            let mut doubt = |what: &str| doubts.push(format!("{}: {help:?}: {what}", names.join(", ")));
            let is_first =
                |other: &&Request| own.iter().all(|own| (own.since, &own.id) < (other.since, &other.id));
            if !who.iter().filter(|request| !own.contains(request)).all(is_first) {
                doubt("it is told to one as help for others who do not come first");
            }
            let left_out = |world: &World| {
                let served = served(world);
                let out = own.iter().find(|request| !served.contains(&request.id));
                match out {
                    None if own.is_empty() => Some("nobody is told that it helps".to_owned()),
                    out => out.map(|request| format!("{} is told so and is not served", request.id)),
                }
            };
            match help {
                Help::ChangeRequest { .. } => {}
                Help::ForOthers { .. } => doubt("it is said twice that it is for others"),
                // No world here has GPUs that are not cut.
                Help::HolderEnds { .. } | Help::EnoughSeats { .. } => doubt("there are no such seats"),
                Help::FreeNow { profile } => {
                    let idle = inventory.nodes.values().filter(|node| node.schedulable).map(|node| {
                        let slices =
                            node.gpus.values().flat_map(apply::profiles).filter(|p| p == profile).count();
                        // Of slices that several share, each has a seat for each of them.
                        let sharing = node.shared.get(profile).filter(|sharing| !sharing.renamed);
                        let there = slices * sharing.map_or(1, |sharing| sharing.replicas as usize);
                        there - node.allocated.get(profile).map_or(0, |n| *n as usize).min(there)
                    });
                    if idle.sum::<usize>() == 0 {
                        doubt("there is none");
                    }
                    let is_served = |asks: &&Request| {
                        let mut world = world.clone();
                        let mut all = world.requests.iter_mut();
                        let changed = all.find(|r| r.id == asks.id).expect("a request of the world");
                        changed.slices = BTreeMap::from([(*profile, 1)]);
                        served(&world).contains(&asks.id)
                    };
                    if !who.iter().any(is_served) {
                        doubt("who asks for it is not served");
                    }
                }
                Help::PodEnds { pod, .. } => {
                    if let Some(out) = left_out(&ended(world, pod)) {
                        doubt(&out);
                    }
                    let sizes = sizes(world, who[0]);
                    let smaller = sizes.iter().filter(|(_, size)| **size < sizes[pod]);
                    for (smaller, _) in smaller.filter(|(smaller, _)| helped(&ended(world, smaller)) > 0) {
                        doubt(&format!("{smaller} holds less, and would do"));
                    }
                }
                Help::HoldEnds { node, .. } => {
                    let mut world = taken_up(world, node);
                    let node = world.inventory.nodes.get_mut(node).expect("a node of the fleet");
                    (node.hold, node.schedulable) = (None, true);
                    node.gpus.values_mut().for_each(|gpu| gpu.hold = None::<Hold>);
                    if let Some(out) = left_out(&world) {
                        doubt(&out);
                    }
                }
                Help::ChangePolicy { policy, field, to } => {
                    let with = |n: Option<u32>| changed(world, &policy.0, field, n);
                    let number = to.rsplit(' ').next().and_then(|n| n.parse().ok());
                    if let Some(out) = left_out(&with(number)) {
                        doubt(&out);
                    }
                    let less = match number {
                        Some(n) if to.starts_with("at least") => Some(n - 1),
                        Some(n) => Some(n + 1),
                        None => None,
                    };
                    if less.is_some() && helped(&with(less)) > 0 {
                        doubt(&format!("{less:?} would do"));
                    }
                }
                Help::EnoughGpus { count, model } => {
                    let mut likes = inventory.nodes.values();
                    let all = |node: &Node| helped(&more(world, node, model, *count)) == who.len();
                    if !likes.any(|node| node.gpus.values().any(|g| g.model == *model) && all(node)) {
                        doubt("not all are served");
                    }
                }
                Help::MoreGpus { count, model } => {
                    let likes =
                        inventory.nodes.values().filter(|n| n.gpus.values().any(|g| g.model == *model));
                    let like =
                        likes.into_iter().find(|node| helped(&more(world, node, model, *count)) == who.len());
                    let unlimited = inventory.nodes.values().all(|node| node.room == Room::UNLIMITED);
                    match like {
                        None => doubt("not all are served"),
                        Some(like) if unlimited && *count > 1 => {
                            if helped(&more(world, like, model, count - 1)) == who.len() {
                                doubt("one less would do");
                            }
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }
    doubts
}

/// Those who were promised something on a node have it: their pods are there.
fn taken_up(world: &World, on: &NodeName) -> World {
    let mut world = world.clone();
    let owner = owner(&world.policies, &world.inventory.nodes[on]).cloned();
    let kept: Vec<Request> = super::promises::kept(&world.inventory, &world.requests, &|_| owner.as_ref())
        .into_iter()
        .filter(|(_, node)| *node == on)
        .map(|(request, _)| request.clone())
        .collect();
    let node = world.inventory.nodes.get_mut(on).expect("a node of the fleet");
    for request in &kept {
        let pod = PodRef { namespace: request.id.namespace.clone(), name: request.id.name.clone() };
        node.room.cpu_milli -= request.takes.cpu_milli;
        node.room.memory_bytes -= request.takes.memory_bytes;
        node.room.storage_bytes -= request.takes.storage_bytes;
        node.room.pods -= request.takes.pods;
        node.whole_held += request.whole_gpus;
        let off =
            node.gpus.values_mut().filter(|gpu| matches!(gpu.slices, Slices::MigOff { used: Use::Idle }));
        off.take(request.whole_gpus as usize)
            .for_each(|gpu| gpu.slices = Slices::MigOff { used: Use::InUse { by: pod.clone() } });
        for (profile, n) in &request.slices {
            *node.held.entry(pod.clone()).or_default() += u32::from(profile.compute) * n;
            *node.allocated.entry(*profile).or_default() += n;
            let mut left = *n;
            for gpu in node.gpus.values_mut() {
                let profiles = apply::profiles(gpu);
                for (used, _) in gpu.slices.uses_mut().zip(profiles).filter(|(_, of)| of == profile) {
                    if left > 0 && used.is_idle() {
                        *used = Use::InUse { by: pod.clone() };
                        left -= 1;
                    }
                }
            }
        }
    }
    world.requests.retain(|request| !kept.iter().any(|kept| kept.id == request.id));
    world
}

/// The pod is gone. Of equal slices that are only counted nobody knows which one it had: if others hold some, each of them
/// may be one of theirs.
fn ended(world: &World, pod: &PodRef) -> World {
    let mut ended = world.clone();
    for node in ended.inventory.nodes.values_mut() {
        let mut after = without(node, &BTreeSet::from([pod.clone()]));
        for profile in
            counted(node).filter(|(_, used)| **used == Use::InUse { by: pod.clone() }).map(|(of, _)| of)
        {
            let others: BTreeSet<PodRef> = counted(&after)
                .filter(|(of, _)| *of == profile)
                .flat_map(|(_, used)| holders(used))
                .collect();
            let used = match others.is_empty() {
                true => Use::Idle,
                false => Use::MaybeInUse { by: others.into_iter().collect() },
            };
            for gpu in after.gpus.values_mut() {
                if let Slices::Counted(slices) = &mut gpu.slices {
                    slices
                        .iter_mut()
                        .filter(|slice| slice.profile == profile)
                        .for_each(|s| s.used = used.clone());
                }
            }
        }
        *node = after;
    }
    ended
}

fn counted(node: &Node) -> impl Iterator<Item = (ProfileName, &Use)> {
    let counted = node.gpus.values().filter(|gpu| matches!(gpu.slices, Slices::Counted(_)));
    counted.flat_map(|gpu| apply::profiles(gpu).into_iter().zip(apply::uses(gpu)))
}

/// Compute slices that pods hold, or may hold, on nodes that a request may use.
fn sizes(world: &World, request: &Request) -> BTreeMap<PodRef, u32> {
    let mut sizes = BTreeMap::new();
    for (name, node) in &world.inventory.nodes {
        let owner = owner(&world.policies, node);
        // Cordoned or not: whoever is on it may be waited for.
        let open = Node { schedulable: true, ..node.clone() };
        if owner.is_none() || !may(request, name, &open, owner) {
            continue;
        }
        for gpu in node.gpus.values() {
            let profiles = apply::profiles(gpu);
            for (i, used) in apply::uses(gpu).into_iter().enumerate() {
                let size = profiles.get(i).map_or(gpu.geometry.compute(), |profile| profile.compute);
                for pod in holders(used) {
                    *sizes.entry(pod).or_insert(0) += u32::from(size);
                }
            }
        }
    }
    sizes
}

fn owner<'a>(policies: &'a [Policy], node: &Node) -> Option<&'a Policy> {
    let selects = |policy: &&Policy| {
        policy.nodes.iter().all(|e| node.labels.get(&e.key).is_some_and(|value| e.values.contains(value)))
    };
    policies.iter().filter(selects).min_by_key(|p| (std::cmp::Reverse(p.priority), p.name.clone()))
}

fn changed(world: &World, policy: &str, field: &str, to: Option<u32>) -> World {
    let mut world = world.clone();
    let policy = world.policies.iter_mut().find(|p| p.name.0 == policy).expect("a policy of the world");
    if field == "spec.mode" {
        policy.mode = Mode::Enforce;
        return world;
    }
    match &mut policy.layout {
        LayoutPolicy::Static { .. } => {
            policy.layout = LayoutPolicy::DemandDriven {
                namespaces: vec![],
                slices: BTreeMap::new(),
                unrequested: Unrequested::Keep,
                order: Order::MostServed,
                shares: vec![],
                whole_gpus: None,
            };
        }
        LayoutPolicy::DemandDriven { shares, .. } if field.contains(".shares[") => {
            let rest = field.strip_prefix("spec.layout.demandDriven.shares[").expect("a field of a share");
            let (index, name) = rest.split_once("].").expect("a position");
            let share = &mut shares[index.parse::<usize>().expect("a position")];
            match name {
                "maxComputeSlices" => share.max = to,
                "minComputeSlices" => share.min = to.expect("a number"),
                _ => panic!("{name} helps nobody"),
            }
        }
        LayoutPolicy::DemandDriven { whole_gpus, .. } if field.contains(".wholeGpus.") => {
            let bounds = whole_gpus.as_mut().expect("it has whole GPUs");
            match field.strip_prefix("spec.layout.demandDriven.wholeGpus.") {
                Some("maxCount") => bounds.max = to,
                Some("minCount") => bounds.min = to.expect("a number"),
                _ => panic!("{field} helps nobody"),
            }
        }
        LayoutPolicy::DemandDriven { slices, .. } => {
            let (profile, name) = field
                .strip_prefix("spec.layout.demandDriven.slices[")
                .and_then(|rest| rest.split_once("]."))
                .expect("a field of a profile");
            let bounds = slices.get_mut(&profile.parse().expect("a profile")).expect("it is listed");
            match name {
                "maxCount" => bounds.max = to,
                "minCount" => bounds.min = to.expect("a number"),
                _ => panic!("{name} helps nobody"),
            }
        }
    }
    world
}

/// So many more nodes like one, each with one whole GPU and room for anybody.
fn more(world: &World, like: &Node, model: &str, count: u32) -> World {
    let mut world = world.clone();
    let gpu = like.gpus.values().find(|gpu| gpu.model == model).expect("it has one");
    let whole = gpu.geometry.profiles().iter().find(|spec| spec.compute == gpu.geometry.compute());
    let whole = PlacedSlice { profile: whole.expect("every model has one").name, start: 0, used: Use::Idle };
    let gpu = Gpu { slices: Slices::Placed(vec![whole]), hold: None, ..gpu.clone() };
    for i in 0..count {
        let node = Node {
            room: Room::UNLIMITED,
            hold: None,
            schedulable: true,
            allocated: BTreeMap::new(),
            held: BTreeMap::new(),
            gpus: BTreeMap::from([(GpuIndex(0), gpu.clone())]),
            ..like.clone()
        };
        world.inventory.nodes.insert(NodeName(format!("more-{i}")), node);
    }
    world
}
