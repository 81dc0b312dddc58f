//! Planning with one thing changed: the proof that a thing would help.
//!
//! A trial asks whether requests of one group can be served, with nobody of
//! any group losing what the plan gives. It never says what the plan would
//! look like, only that there is one.

use std::collections::BTreeSet;
use std::sync::Arc;

use mig::Layout;

use super::formulate::{Question, formulate};
use super::group::Group;
use super::hand_out::Handed;
use super::world::{World, is_idle};
use crate::demand::Request;
use crate::inventory::{Gpu, Hold, Inventory, Node, Room, Slices, Use};
use crate::names::{GpuId, GpuIndex, NodeName, PodRef, PolicyName, RequestId};
use crate::policy::{LayoutPolicy, Policy, Unrequested};
use crate::report::Help;
use crate::solver::{Effort, solve};

/// Trials are planning, so a large fleet affords fewer: this many GPU-trials
/// a decision, but at least [`LEAST`] trials.
const GPU_TRIALS: usize = 16_384;
/// The least number of trials a decision may use.
const LEAST: usize = 8;
/// Trials that one group may use to look for a pod to wait for.
const PODS: usize = 24;

/// Trials for one decision.
#[derive(Debug)]
pub(super) struct Trials<'w> {
    inventory: &'w Inventory,
    policies: Vec<Policy>,
    requests: Vec<Request>,
    unserved: BTreeSet<RequestId>,
    /// Whether the room of some node may run out.
    room_runs_out: bool,
    left: usize,
}

impl<'w> Trials<'w> {
    pub(super) fn new(world: &World<'w>, handed: &Handed<'_>) -> Self {
        let requests = world.groups.iter().flat_map(|group| group.requests.iter().copied());
        let unserved = requests.clone().map(|r| &r.id).filter(|id| !handed.served.contains_key(id));
        let gpus: usize = world.inventory.nodes.values().map(|node| node.gpus.len()).sum();
        Self {
            inventory: world.inventory,
            policies: world.policies.iter().map(|p| (*p).clone()).collect(),
            unserved: unserved.cloned().collect(),
            requests: requests.cloned().collect(),
            room_runs_out: world.cells.iter().any(|cell| cell.room.is_some()),
            left: (GPU_TRIALS / gpus.max(1)).max(LEAST),
        }
    }

    /// How many unserved requests of the group are served in a changed world,
    /// with nobody losing.
    fn serves(&mut self, group: &Group<'_>, inventory: &Inventory, policies: &[Policy]) -> i64 {
        if self.left == 0 {
            return 0;
        }
        self.left -= 1;
        let world = World::of(inventory, &self.requests, policies);
        let unserved: Vec<i64> = world
            .groups
            .iter()
            .map(|g| {
                let count = g.requests.iter().filter(|r| self.unserved.contains(&r.id)).count();
                i64::try_from(count).unwrap_or(i64::MAX)
            })
            .collect();
        // The group of the first unserved request: with other nodes, groups
        // may be divided differently.
        let asks = group.requests.iter().find(|r| self.unserved.contains(&r.id));
        let Some(asks) = asks else { return 0 };
        let position = world.groups.iter().position(|g| g.requests.iter().any(|r| r.id == asks.id));
        let Some(position) = position else { return 0 };
        let program = formulate(&world, Question::Serve { group: position, unserved: &unserved });
        match solve(&program.instance, Effort::default()) {
            Ok(solved) => {
                let still: i64 = program.unserved[position].iter().map(|extra| solved.extras[*extra]).sum();
                unserved[position] - still
            }
            Err(_) => 0,
        }
    }

    fn helps(&mut self, group: &Group<'_>, inventory: &Inventory) -> bool {
        let policies = self.policies.clone();
        self.serves(group, inventory, &policies) > 0
    }

    /// The field of a policy without which the group would be served.
    pub(super) fn forbidden_by(&mut self, group: &Group<'_>) -> Option<(PolicyName, String)> {
        self.policy_change(group).map(|(policy, field, _)| (policy, field))
    }

    /// Relaxes policies, one field at a time: maxima of the profiles that are
    /// asked for, then minima of others, then static layouts.
    fn policy_change(&mut self, group: &Group<'_>) -> Option<(PolicyName, String, String)> {
        let policies = self.policies.clone();
        for (i, policy) in policies.iter().enumerate() {
            for (field, to, relaxed) in relaxations(policy, group) {
                let mut changed = policies.clone();
                changed[i] = relaxed;
                let inventory = self.inventory;
                if self.serves(group, inventory, &changed) > 0 {
                    return Some((policy.name.clone(), field, to));
                }
            }
        }
        None
    }

    /// Whether it would be served if nothing were held.
    pub(super) fn is_held(&mut self, group: &Group<'_>) -> bool {
        if !self.inventory.nodes.values().any(is_liftable) {
            return false;
        }
        let mut inventory = self.inventory.clone();
        for node in inventory.nodes.values_mut() {
            lift(node);
        }
        self.helps(group, &inventory)
    }

    /// Whether it would be served if nodes had more CPU, memory and pod slots.
    pub(super) fn is_short_of_room(&mut self, group: &Group<'_>) -> bool {
        if !self.room_runs_out {
            return false;
        }
        let mut inventory = self.inventory.clone();
        inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
        self.helps(group, &inventory)
    }

    /// Whether it would be served if all that may be idle were idle.
    pub(super) fn is_unprovable(&mut self, group: &Group<'_>) -> bool {
        let mut inventory = self.inventory.clone();
        let mut any = false;
        for_each_use(&mut inventory, |used| {
            if matches!(used, Use::MaybeInUse { .. }) {
                any = true;
                *used = Use::Idle;
            }
        });
        any && self.helps(group, &inventory)
    }

    /// What would help, the smallest of each kind.
    pub(super) fn help(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Vec<Help> {
        let mut help = Vec::new();
        if let Some((policy, field, to)) = self.policy_change(group) {
            help.push(Help::ChangePolicy { policy, field, to });
        }
        help.extend(self.hold_that_ends(group, nodes));
        help.extend(self.pod_that_ends(group, nodes));
        help.extend(self.agent(group, nodes));
        help.extend(self.more_gpus(group, nodes));
        help
    }

    fn hold_that_ends(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Help> {
        nodes.iter().filter(|(_, node)| is_liftable(node)).find_map(|(name, node)| {
            let hold = super::supply::hold(node).cloned()?;
            let mut inventory = self.inventory.clone();
            lift(inventory.nodes.get_mut(*name)?);
            self.helps(group, &inventory).then(|| Help::HoldEnds { node: (*name).clone(), hold })
        })
    }

    /// The pod with the fewest compute slices whose end would help.
    fn pod_that_ends(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Help> {
        let mut pods: Vec<(u32, PodRef, GpuId, Option<mig::ProfileName>)> = Vec::new();
        for (name, node) in nodes {
            for (index, gpu) in &node.gpus {
                let gpu_id = GpuId { node: (*name).clone(), gpu: *index };
                for (profile, holders) in held(gpu) {
                    let size = profile.map_or(u32::from(gpu.geometry.compute()), |p| u32::from(p.compute));
                    for pod in holders {
                        match pods.iter_mut().find(|(_, known, _, _)| *known == pod) {
                            Some((known, ..)) => *known += size,
                            None => pods.push((size, pod, gpu_id.clone(), profile)),
                        }
                    }
                }
            }
        }
        pods.sort();
        pods.into_iter().take(PODS).find_map(|(_, pod, gpu, profile)| {
            let inventory = without(self.inventory, &pod);
            self.helps(group, &inventory).then_some(Help::PodEnds { pod, gpu, profile })
        })
    }

    /// An agent tells which GPUs are idle. It surely finds one if fewer slices
    /// are held than there are GPUs that may hold them.
    fn agent(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Help> {
        nodes.iter().find_map(|(name, node)| {
            let frozen: Vec<GpuIndex> = node
                .gpus
                .iter()
                .filter(|(_, gpu)| super::supply::is_frozen(node, gpu))
                .map(|(i, _)| *i)
                .collect();
            let held: u32 = node.allocated.values().sum();
            let surely_idle = frozen.len().saturating_sub(held as usize);
            if frozen.is_empty() || surely_idle == 0 {
                return None;
            }
            let mut inventory = self.inventory.clone();
            let changed = inventory.nodes.get_mut(*name)?;
            for index in frozen.iter().rev().take(surely_idle) {
                let gpu = changed.gpus.get_mut(index)?;
                each_use(gpu, &mut |used| *used = Use::Idle);
            }
            self.helps(group, &inventory).then(|| Help::InstallAgent { node: (*name).clone() })
        })
    }

    /// The fewest GPUs more with which all of the group's requests are served.
    fn more_gpus(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Help> {
        let profile = group.slices.keys().next()?;
        let (_, like, gpu) = nodes
            .iter()
            .flat_map(|(name, node)| node.gpus.values().map(move |gpu| (*name, *node, gpu)))
            .find(|(_, _, gpu)| gpu.geometry.profile_named(*profile).is_some())?;
        let wanted = group.requests.iter().filter(|r| self.unserved.contains(&r.id)).count();
        let mut enough = |count: usize| {
            let inventory = with_gpus(self.inventory, like, gpu, count);
            let policies = self.policies.clone();
            self.serves(group, &inventory, &policies) >= i64::try_from(wanted).unwrap_or(i64::MAX)
        };
        // Doubling, then halving the interval: a few trials for any number.
        let mut high = 1;
        while !enough(high) {
            if high >= wanted {
                return None;
            }
            high = (high * 2).min(wanted);
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if enough(middle) { high = middle } else { low = middle }
        }
        Some(Help::MoreGpus { count: u32::try_from(high).unwrap_or(u32::MAX), model: gpu.model.clone() })
    }
}

/// Ways to relax a policy for a group: `(field, to what, the policy then)`.
fn relaxations(policy: &Policy, group: &Group<'_>) -> Vec<(String, String, Policy)> {
    let mut found = Vec::new();
    match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => {
            let field = |profile, name| format!("spec.layout.demandDriven.slices[{profile}].{name}");
            let with = |edit: &dyn Fn(&mut crate::policy::Bounds), profile| {
                let mut relaxed = policy.clone();
                if let LayoutPolicy::DemandDriven { slices, .. } = &mut relaxed.layout {
                    slices.entry(profile).and_modify(edit);
                }
                relaxed
            };
            let asked = slices.iter().filter(|(profile, _)| group.slices.contains_key(profile));
            for (profile, bounds) in asked {
                if let Some(max) = bounds.max {
                    let n = group.slices[profile];
                    let to = format!("at least {}", max + n);
                    let relaxed = with(&|bounds| bounds.max = None, *profile);
                    found.push((field(profile, "maxCount"), to, relaxed));
                }
            }
            for (profile, bounds) in slices.iter().filter(|(_, bounds)| bounds.min > 0) {
                let to = format!("less than {}", bounds.min);
                let relaxed = with(&|bounds| bounds.min = 0, *profile);
                found.push((field(profile, "minCount"), to, relaxed));
            }
        }
        LayoutPolicy::Static { .. } => {
            let relaxed = Policy {
                layout: LayoutPolicy::DemandDriven {
                    namespaces: vec![],
                    slices: std::collections::BTreeMap::new(),
                    unrequested: Unrequested::Keep,
                },
                ..policy.clone()
            };
            let profiles: Vec<String> = group.slices.keys().map(ToString::to_string).collect();
            let to = format!("a layout with {}", profiles.join(" and "));
            found.push(("spec.layout.static.gpus".to_owned(), to, relaxed));
        }
    }
    found
}

/// Whether something holds the node that may end by itself or by somebody's hand.
fn is_liftable(node: &Node) -> bool {
    let holds = node.hold.iter().chain(node.gpus.values().filter_map(|gpu| gpu.hold.as_ref()));
    let liftable = |hold: &Hold| !matches!(hold, Hold::NoPolicy | Hold::HandsOff { .. });
    holds.clone().all(liftable) && (holds.count() > 0 || !node.schedulable)
}

fn lift(node: &mut Node) {
    if is_liftable(node) {
        node.hold = None;
        node.schedulable = true;
        node.gpus.values_mut().for_each(|gpu| gpu.hold = None);
    }
}

fn for_each_use(inventory: &mut Inventory, mut edit: impl FnMut(&mut Use)) {
    for gpu in inventory.nodes.values_mut().flat_map(|node| node.gpus.values_mut()) {
        each_use(gpu, &mut edit);
    }
}

fn each_use(gpu: &mut Gpu, edit: &mut dyn FnMut(&mut Use)) {
    match &mut gpu.slices {
        Slices::Placed(slices) => slices.iter_mut().for_each(|s| edit(&mut s.used)),
        Slices::Counted(slices) => slices.iter_mut().for_each(|s| edit(&mut s.used)),
        Slices::MigOff { used } => edit(used),
    }
}

/// Slices of a GPU that pods hold, or may hold.
fn held(gpu: &Gpu) -> Vec<(Option<mig::ProfileName>, Vec<PodRef>)> {
    let holders = |used: &Use| match used {
        Use::Idle => vec![],
        Use::InUse { by } => vec![by.clone()],
        Use::MaybeInUse { by } => by.clone(),
    };
    match &gpu.slices {
        Slices::Placed(slices) => slices.iter().map(|s| (Some(s.profile), holders(&s.used))).collect(),
        Slices::Counted(slices) => slices.iter().map(|s| (Some(s.profile), holders(&s.used))).collect(),
        Slices::MigOff { used } => vec![(None, holders(used))],
    }
}

/// The fleet once a pod has ended: what only it held is idle.
fn without(inventory: &Inventory, pod: &PodRef) -> Inventory {
    let mut inventory = inventory.clone();
    for node in inventory.nodes.values_mut() {
        let mut ended: Vec<mig::ProfileName> = Vec::new();
        let mut shared: BTreeSet<mig::ProfileName> = BTreeSet::new();
        for gpu in node.gpus.values_mut() {
            let mut edit = |profile: Option<mig::ProfileName>, used: &mut Use| match used {
                Use::InUse { by } if by == pod => {
                    ended.extend(profile);
                    *used = Use::Idle;
                }
                Use::MaybeInUse { by } if by.contains(pod) => {
                    by.retain(|other| other != pod);
                    shared.extend(profile);
                    if by.is_empty() {
                        *used = Use::Idle;
                    }
                }
                Use::InUse { .. } | Use::MaybeInUse { .. } | Use::Idle => {}
            };
            match &mut gpu.slices {
                Slices::Placed(slices) => slices.iter_mut().for_each(|s| edit(Some(s.profile), &mut s.used)),
                Slices::Counted(slices) => slices.iter_mut().for_each(|s| edit(Some(s.profile), &mut s.used)),
                Slices::MigOff { used } => edit(None, used),
            }
        }
        // How many of the slices that it may have held it did hold is not
        // known: one of each profile at least.
        for profile in ended.into_iter().chain(shared) {
            if let Some(n) = node.allocated.get_mut(&profile) {
                *n = n.saturating_sub(1);
            }
        }
    }
    inventory
}

/// The fleet and so many more GPUs, whole and idle, one on each of as many
/// nodes that are like a given one.
fn with_gpus(inventory: &Inventory, like: &Node, gpu: &Gpu, count: usize) -> Inventory {
    let mut inventory = inventory.clone();
    let full = super::targets::full_size(&gpu.geometry);
    let slices = full.map(|profile| crate::inventory::PlacedSlice {
        profile: gpu.geometry.profile(profile).name,
        start: 0,
        used: Use::Idle,
    });
    let gpu = Gpu {
        model: gpu.model.clone(),
        geometry: Arc::clone(&gpu.geometry),
        slices: Slices::Placed(slices.into_iter().collect()),
        hold: None,
    };
    for i in 0..count {
        let node = Node {
            labels: like.labels.clone(),
            taints: like.taints.clone(),
            room: Room::UNLIMITED,
            scope: like.scope,
            hold: None,
            schedulable: true,
            allocated: std::collections::BTreeMap::new(),
            gpus: std::collections::BTreeMap::from([(GpuIndex(0), gpu.clone())]),
        };
        inventory.nodes.insert(NodeName(format!("~more-{i:05}")), node);
    }
    inventory
}

/// Whether what is not in use on GPUs that may change would be enough if it
/// were in one piece.
pub(super) fn is_fragmented(group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> bool {
    let free = |node: &Node, gpu: &Gpu| -> Option<(u32, u32)> {
        let Slices::Placed(slices) = &gpu.slices else {
            return is_idle(gpu)
                .then(|| (u32::from(gpu.geometry.memory()), u32::from(gpu.geometry.compute())));
        };
        if node.hold.is_some() || gpu.hold.is_some() {
            return None;
        }
        let used: Layout = slices
            .iter()
            .filter(|s| !s.used.is_idle())
            .filter_map(|s| gpu.geometry.placement(gpu.geometry.profile_named(s.profile)?, s.start))
            .collect();
        let memory: u32 = used.iter().map(|p| gpu.geometry.units(p).count_ones()).sum();
        let compute = gpu.geometry.compute_of(used);
        Some((
            u32::from(gpu.geometry.memory()).saturating_sub(memory),
            u32::from(gpu.geometry.compute()).saturating_sub(compute),
        ))
    };
    group.slices.iter().all(|(profile, n)| {
        let (mut memory, mut compute, mut needs) = (0, 0, (u32::MAX, u32::MAX));
        for (_, node) in nodes {
            for gpu in node.gpus.values() {
                let Some(index) = gpu.geometry.profile_named(*profile) else { continue };
                let spec = gpu.geometry.profile(index);
                needs = (u32::from(spec.size) * n, u32::from(spec.compute) * n);
                if let Some((m, c)) = free(node, gpu) {
                    memory += m;
                    compute += c;
                }
            }
        }
        memory >= needs.0 && compute >= needs.1
    })
}
