//! Planning with one change: the proof that the change would help.
//!
//! A trial plans again with the change, as far as the served requests depend on it, and checks whether more
//! requests of one group are served than in the plan. Where several plans are equally good, the one that is
//! worst for the group counts, so the answer holds for all of them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::allocate::Allocation;
use super::change::{
    Kind, PolicyChange, Relaxation, for_each_use, held, is_liftable, lift, profiles, relaxations, with_gpus,
    without,
};
use super::formulate::{Question, Unserved, formulate};
use super::group::{Group, is_planned};
use super::grown::{Alike, Grown};
use super::memo::Memo;
use super::promises::AtStake;
use super::turn::Turns;
use super::turns::{self, Limits};
use super::witness::OneMore;
use super::world::{Grain, World};
use crate::demand::Request;
use crate::inventory::{Gpu, Inventory, Node, Room, Use};
use crate::names::{GpuId, NodeName, PodRef, PolicyName, RequestId};
use crate::policy::{Mode, Policy};
use crate::report::Help;
use crate::solver::{Effort, Level};

/// Trials are planning, so a large fleet affords fewer: this many GPU-trials
/// a decision, but at least [`LEAST`] trials.
const GPU_TRIALS: usize = 16_384;
/// The more are not served, the longer is each trial, and the less does it help
/// anybody to know one pod whose end would serve one of them: this many trials
/// times those who are not served, but at least [`LEAST`] trials.
const UNSERVED_TRIALS: usize = 2_048;
/// The least number of trials a decision may use.
const LEAST: usize = 4;
/// What a level of a trial may cost at most. Who waits is told what is proved to help,
/// and a trial that comes to no proof with this would rarely come to one.
pub(super) const EFFORT: Effort = Effort { nodes: 250 };
/// Nodes of a level of a trial, times those who are not served.
const UNSERVED_NODES: usize = 4_000;
/// Trials of a decision that may come to no proof: they are the long ones, and
/// where there are several, demand is of a kind that makes the others long too.
const UNPROVED: usize = 4;
/// Such trials, times those who are not served; one in any case.
const UNSERVED_UNPROVED: usize = 64;
/// Kinds of requests beyond which a trial is not made: a program with a row for each takes longer than the plan. With 400
/// kinds, and the oldest first, one trial took 80 s and the plan 20 s.
const MANY_GROUPS: usize = 256;
/// Trials that one group may use to look for a pod to wait for.
const PODS: usize = 24;
/// What finding out whose turn it is may cost a trial.
const TURNS: Limits = Limits { effort: EFFORT, questions: 150, by_node: 0, work: 0, filled_within: None };
/// Kinds of nodes that GPUs may come to, where the fleet is large.
const LIKE: usize = 4;
/// What finding out whether a promise yields counts for, in trials: it takes two plans at least, and rarely more.
const YIELDS: usize = 3;

/// What is tried for those who are not served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Advice<'a> {
    /// Nothing: nobody is told what would help.
    None,
    /// What would help.
    Tried {
        /// The fleet with its promises, where some of them may yield once it has changed.
        at_stake: Option<AtStake<'a>>,
    },
}

/// What was found to help a group.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// What.
    pub(super) help: Help,
    /// So many of those who are not served, those who come first.
    pub(super) serves: usize,
}

impl Tried {
    /// What helps whoever is told of it.
    pub(super) const fn each(help: Help) -> Self {
        Self { help, serves: usize::MAX }
    }

    /// What one is told who is not served, behind so many others who ask alike: first what serves it, then what serves only
    /// others.
    pub(super) fn told(tried: &[Self], behind: usize) -> Vec<Help> {
        let (own, others): (Vec<&Self>, Vec<&Self>) = tried.iter().partition(|tried| tried.serves > behind);
        let own = own.into_iter().map(|tried| tried.help.clone());
        own.chain(others.into_iter().map(|tried| Help::ForOthers { help: Box::new(tried.help.clone()) }))
            .collect()
    }
}

/// What becomes of a fleet.
type Change<'c> = &'c dyn for<'i> Fn(&'i Inventory) -> Cow<'i, Inventory>;

/// What trials are made with.
#[derive(Debug)]
pub(super) struct Inputs<'w> {
    policies: Vec<Policy>,
    /// All of them: who can be served by nothing that is there may be by what comes.
    requests: &'w [Request],
    /// The fleet with one GPU more, by what it is like.
    grown: [OnceCell<Inventory>; LIKE],
}

impl<'w> Inputs<'w> {
    pub(super) fn new(world: &World<'w>, requests: &'w [Request]) -> Self {
        let policies = world.policies.iter().map(|p| (*p).clone()).collect();
        Self { policies, requests, grown: Default::default() }
    }
}

/// The node and the model that new GPUs are like.
type NewGpu = (NodeName, String);

/// Trials for one decision.
#[derive(Debug)]
pub(super) struct Trials<'w, 'k> {
    memo: &'k mut Memo,
    inventory: &'w Inventory,
    inputs: &'w Inputs<'w>,
    at_stake: Option<AtStake<'w>>,
    unserved: BTreeSet<RequestId>,
    /// Whether the room of some node may run out.
    room_runs_out: bool,
    /// Trials that may still be made.
    left: usize,
    /// What a level of each may cost.
    effort: Effort,
    /// Trials that may still come to no proof.
    unproved: usize,
    /// Whether a trial would be a whole plan that is rarely proved.
    is_large: bool,
    /// Whether the plan meets what is before all requests: static layouts and floors.
    meets_floors: bool,
    /// What one more GPU would be, by the node that it is like.
    one_more: BTreeMap<NodeName, Option<OneMore>>,
    /// The fleet with more GPUs, by what they are like.
    grown: BTreeMap<NewGpu, Option<(Grown<'w>, Alike)>>,
}

impl<'w, 'k> Trials<'w, 'k> {
    /// `meets_floors`: whether the plan reaches every static layout and every floor.
    pub(super) fn new(
        inputs: &'w Inputs<'w>,
        world: &World<'w>,
        allocation: &Allocation<'_>,
        meets_floors: bool,
        advice: Advice<'w>,
        memo: &'k mut Memo,
    ) -> Self {
        let requests = world.groups.iter().flat_map(|group| group.requests.iter().copied());
        let is_unserved = |request: &&Request| !allocation.served.contains_key(&request.id);
        let mut unserved: BTreeSet<RequestId> = requests.filter(is_unserved).map(|r| r.id.clone()).collect();
        let gpus: usize = world.inventory.nodes.values().map(|node| node.gpus.len()).sum();
        let wait = unserved.len().max(1);
        // Nothing is planned for who may use none of the nodes that offer whole GPUs; another node may be for them.
        if world.policies.iter().any(|policy| policy.layout.offers_whole_gpus()) {
            let others =
                inputs.requests.iter().filter(|request| request.whole_gpus > 0 && is_planned(request));
            unserved.extend(others.filter(is_unserved).map(|request| request.id.clone()));
        }
        let nodes = u64::try_from(UNSERVED_NODES / wait).unwrap_or(u64::MAX);
        let (tries, at_stake) = match advice {
            Advice::None => (false, None),
            Advice::Tried { at_stake } => (true, at_stake),
        };
        Self {
            memo,
            inventory: world.inventory,
            inputs,
            at_stake,
            unserved,
            room_runs_out: world.cells.iter().any(|cell| cell.room.is_some()),
            left: if tries { (GPU_TRIALS / gpus.max(1)).min(UNSERVED_TRIALS / wait).max(LEAST) } else { 0 },
            effort: Effort { nodes: nodes.clamp(20, EFFORT.nodes) },
            unproved: (UNSERVED_UNPROVED / wait).clamp(1, UNPROVED),
            is_large: !world.is_small() && world.cells.iter().any(|cell| cell.one_by_one),
            meets_floors: meets_floors && tries,
            one_more: BTreeMap::new(),
            grown: BTreeMap::new(),
        }
    }

    /// Whether another trial in a changed world may be made.
    fn may_try(&self, inventory: &Inventory) -> bool {
        // Only without rooms, which may run out, a large fleet is one program.
        let has_rooms = || inventory.nodes.values().any(|node| node.room != Room::UNLIMITED);
        self.left > 0 && self.unproved > 0 && !(self.is_large && has_rooms())
    }

    /// How many requests of the group that are not served now, those who come first, are served once the fleet has changed, or a
    /// policy. What is kept for others now may go to who has a higher priority then.
    fn serves_after(&mut self, group: &Group<'_>, change: Change<'_>, policies: &[Policy]) -> usize {
        if let Some(at_stake) = self.at_stake {
            let changed = change(at_stake.inventory);
            if self.left <= YIELDS || !self.may_try(&changed) {
                return 0;
            }
            self.left -= YIELDS;
            if let Some(promises) = at_stake.yielding(&changed, policies, self.memo) {
                return self.serves(group, (&promises.inventory, Some(&promises.requests)), policies);
            }
        }
        let inventory = self.inventory;
        // A fleet is copied to be changed: done for each pod of a large one for nothing, that takes longer than its plan.
        if !self.may_try(inventory) {
            return 0;
        }
        self.serves(group, (&change(inventory), None), policies)
    }

    /// How many requests of the group that are not served now, those who come first, are served in a changed world. `requests`:
    /// those of that world, if they are others.
    fn serves(
        &mut self,
        group: &Group<'_>,
        (inventory, requests): (&Inventory, Option<&[Request]>),
        policies: &[Policy],
    ) -> usize {
        if !self.may_try(inventory) {
            return 0;
        }
        self.left -= 1;
        let requests = requests.unwrap_or(self.inputs.requests);
        let targets = &mut self.memo.targets;
        let mut world = World::new(inventory, requests, policies, Grain::Nodes, targets);
        if !world.is_small() {
            world = World::new(inventory, requests, policies, Grain::Alike, targets);
        }
        self.serves_in(group, &world, None)
    }

    /// How many requests of the group that are not served now, those who come first, are served in a world.
    fn serves_in(&mut self, group: &Group<'_>, world: &World<'_>, alike: Option<&mut Alike>) -> usize {
        let answers = &mut self.memo.answers;
        // The group of the first unserved request: with other nodes, groups
        // may be divided differently.
        let mut waiting = group.requests.iter().filter(|r| self.unserved.contains(&r.id)).peekable();
        let Some(asks) = waiting.peek() else { return 0 };
        let position = world.groups.iter().position(|g| g.requests.iter().any(|r| r.id == asks.id));
        let Some(position) = position else { return 0 };
        if world.groups.len() > MANY_GROUPS {
            self.unproved -= 1;
            return 0;
        }
        let is_one_program = world.is_small();
        let turns = Turns::new(world, is_one_program, Limits { effort: self.effort, ..TURNS }, answers);
        if !turns.is_proven() {
            self.unproved -= 1;
            return 0;
        }
        let mut program = formulate(world, &turns, Question::Served { group: position });
        let still = if let Unserved::Certain(still) = program.unserved[position] {
            Some(still)
        } else if program.parts.is_empty() || world.is_small() {
            // Where nodes are looked at one by one, proofs are long, and where they start from is of account.
            let solved = match alike.filter(|_| program.parts.is_empty()) {
                Some(alike) => answers.values(alike.recognise(&mut program.instance), self.effort),
                None => answers.solve(&program.instance, self.effort),
            };
            let proved = solved.ok().filter(|solved| solved.levels.iter().all(Level::is_proven));
            proved.map(|solved| program.unserved[position].count(&solved))
        } else {
            None
        };
        let Some(still) = still else {
            self.unproved -= 1;
            return 0;
        };
        // Who comes first in a group is served first.
        let there = &world.groups[position].requests;
        let served = there.len().saturating_sub(usize::try_from(still).unwrap_or(0));
        let (served, rest) = there.split_at(served);
        let is_new = |request: &&&Request| self.unserved.contains(&request.id);
        let new: HashSet<&RequestId> = served.iter().filter(is_new).map(|r| &r.id).collect();
        // Nobody may lose for it what they have now.
        let lost = rest.iter().filter(|request| !is_new(request)).count();
        let more = new.len().saturating_sub(lost);
        waiting.take_while(|request| new.contains(&request.id)).take(more).count()
    }

    fn helps(&mut self, group: &Group<'_>, inventory: &Inventory) -> bool {
        self.serves(group, (inventory, None), &self.inputs.policies) > 0
    }

    /// What to change in a policy: the first field that stands in the way of
    /// the group, and the least change of it that helps. First that nothing starts for it, then maxima of the
    /// profiles that are asked for, then minima, then static layouts.
    pub(super) fn policy_change(&mut self, group: &Group<'_>) -> Option<PolicyChange> {
        for (position, policy) in self.inputs.policies.iter().enumerate() {
            let serves =
                if policy.mode.starts_nothing() { self.serves_if_enforced(group, position) } else { 0 };
            if serves > 0 {
                let (field, to) = match policy.mode {
                    Mode::Invalid => ("spec", "what its condition Accepted asks for"),
                    Mode::Enforce | Mode::Preview | Mode::Paused => ("spec.mode", "Enforce"),
                };
                let (field, to) = (field.to_owned(), to.to_owned());
                return Some(PolicyChange { policy: policy.name.clone(), field, to, serves });
            }
            for relaxation in relaxations(policy, group) {
                if let Some((to, serves)) = self.relaxed(group, position, &relaxation) {
                    let Relaxation { field, .. } = relaxation;
                    return Some(PolicyChange { policy: policy.name.clone(), field, to, serves });
                }
            }
        }
        None
    }

    fn serves_if_enforced(&mut self, group: &Group<'_>, position: usize) -> usize {
        let mut changed = self.inputs.policies.clone();
        changed[position].mode = Mode::Enforce;
        self.serves_after(group, &|inventory| Cow::Borrowed(inventory), &changed)
    }

    /// To what a field has to change at least, if changing it helps, and how many of the group are served then.
    fn relaxed(
        &mut self,
        group: &Group<'_>,
        position: usize,
        relaxation: &Relaxation,
    ) -> Option<(String, usize)> {
        // Of the last value that helps: what is tried after it does not.
        let mut serves = 0;
        let mut helps = |value: Option<u32>| {
            let mut changed = self.inputs.policies.clone();
            changed[position].layout = relaxation.layout(value);
            let served = self.serves_after(group, &|inventory| Cow::Borrowed(inventory), &changed);
            if served > 0 {
                serves = served;
            }
            served > 0
        };
        if !helps(None) {
            return None;
        }
        let (mut least, mut enough) = match relaxation.kind {
            Kind::Layout => return Some((format!("a layout with {}", profiles(group)), serves)),
            Kind::Max { now } => {
                // Doubling until it is enough: without any maximum it is.
                let mut step = 1_u32;
                while !helps(Some(now.saturating_add(step))) {
                    if step > 1 << 20 {
                        return Some(("no maximum".to_owned(), serves));
                    }
                    step *= 2;
                }
                (now.saturating_add(step / 2), now.saturating_add(step))
            }
            Kind::Min { now } => (now, 0),
        };
        while least.abs_diff(enough) > 1 {
            let middle = least.midpoint(enough);
            if helps(Some(middle)) { enough = middle } else { least = middle }
        }
        let to = match relaxation.kind {
            Kind::Min { .. } => format!("at most {enough}"),
            Kind::Max { .. } | Kind::Layout => format!("at least {enough}"),
        };
        Some((to, serves))
    }

    /// The policy that serves the oldest first, if that is why the group is not
    /// served: it would be, if nobody else waited. `world`: what was planned.
    pub(super) fn oldest_first(&mut self, world: &World<'_>, group: &Group<'_>) -> Option<PolicyName> {
        let asks = group.requests.first()?;
        let position = world.groups.iter().position(|g| g.requests.iter().any(|r| r.id == asks.id))?;
        let policy = turns::oldest_first(world, position)?.name.clone();
        let alone: Vec<Request> = group.requests.iter().map(|request| (*request).clone()).collect();
        let fleet = (self.inventory, Some(alone.as_slice()));
        (self.serves(group, fleet, &self.inputs.policies) > 0).then_some(policy)
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

    /// Whether it would be served if nodes had more CPU, memory, ephemeral storage and pod slots.
    pub(super) fn is_short_of_room(&mut self, group: &Group<'_>) -> bool {
        if !self.room_runs_out || self.left == 0 || self.unproved == 0 {
            return false;
        }
        let mut inventory = self.inventory.clone();
        inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
        self.helps(group, &inventory)
    }

    /// Whether it would be served if all that may be idle were idle.
    pub(super) fn is_unprovable(&mut self, group: &Group<'_>) -> bool {
        let is_unsure = |used: &Use| matches!(used, Use::MaybeInUse { .. });
        let gpus = || self.inventory.nodes.values().flat_map(|node| node.gpus.values());
        if !gpus().any(|gpu| gpu.slices.uses().any(is_unsure)) {
            return false;
        }
        let mut inventory = self.inventory.clone();
        for_each_use(&mut inventory, |used| {
            if is_unsure(used) {
                *used = Use::Idle;
            }
        });
        self.helps(group, &inventory)
    }

    /// What would help, the smallest of each kind.
    pub(super) fn help(
        &mut self,
        group: &Group<'_>,
        nodes: &[(&NodeName, &Node)],
        change: Option<PolicyChange>,
    ) -> Vec<Tried> {
        let mut help = Vec::new();
        if let Some(PolicyChange { policy, field, to, serves }) = change {
            help.push(Tried { help: Help::ChangePolicy { policy, field, to }, serves });
        }
        help.extend(self.hold_that_ends(group, nodes));
        help.extend(self.pod_that_ends(group, nodes));
        help.extend(self.more_gpus(group, nodes).map(Tried::each));
        help
    }

    fn hold_that_ends(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Tried> {
        nodes.iter().filter(|(_, node)| is_liftable(node)).find_map(|(name, node)| {
            let hold = super::supply::hold(node).cloned()?;
            let mut inventory = self.inventory.clone();
            lift(inventory.nodes.get_mut(name)?);
            let serves = self.serves(group, (&inventory, None), &self.inputs.policies);
            (serves > 0).then(|| Tried { help: Help::HoldEnds { node: (*name).clone(), hold }, serves })
        })
    }

    /// The pod with the fewest compute slices whose end would help.
    fn pod_that_ends(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Tried> {
        let mut held_by: BTreeMap<PodRef, (u32, GpuId, Option<mig::ProfileName>)> = BTreeMap::new();
        for (name, node) in nodes {
            for (index, gpu) in &node.gpus {
                let gpu_id = GpuId { node: (*name).clone(), gpu: *index };
                for (profile, holders) in held(gpu) {
                    let size = profile.map_or(u32::from(gpu.geometry.compute()), |p| u32::from(p.compute));
                    for pod in holders {
                        let holds = held_by.entry(pod).or_insert_with(|| (0, gpu_id.clone(), profile));
                        holds.0 += size;
                    }
                }
            }
        }
        let mut pods: Vec<_> = held_by.into_iter().collect();
        pods.sort_by_key(|(_, (size, ..))| *size);
        pods.into_iter().take(PODS).find_map(|(pod, (_, gpu, profile))| {
            let ends: Change<'_> = &|inventory| Cow::Owned(without(inventory, &pod));
            let serves = self.serves_after(group, ends, &self.inputs.policies);
            (serves > 0).then_some(Tried { help: Help::PodEnds { pod, gpu, profile }, serves })
        })
    }

    /// The fewest GPUs more with which all of the group's requests are served.
    fn more_gpus(&mut self, group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<Help> {
        let profile = group.wants().find_map(|(offered, _)| offered.profile())?;
        let (name, like, gpu) = nodes
            .iter()
            .flat_map(|(name, node)| node.gpus.values().map(move |gpu| (*name, *node, gpu)))
            .find(|(_, _, gpu)| gpu.geometry.profile_named(profile).is_some())?;
        // An interval is doubled and then halved.
        let each = if self.at_stake.is_some() { 1 + YIELDS } else { 1 };
        let needed = 2 * self.unserved.len().max(1).ilog2() as usize * each;
        if self.is_large || self.unproved == 0 || self.left <= needed {
            return self.enough_gpus(group, (name, like), gpu);
        }
        let wanted = group.requests.iter().filter(|r| self.unserved.contains(&r.id)).count();
        let most = self.unserved.len();
        let kind = (name.clone(), gpu.model.clone());
        let mut grown = self.grown_by(&kind, like, gpu);
        let mut enough = |count: usize| {
            let serves = match &mut grown {
                Some(grown) => self.serves_grown(group, grown, count),
                None => {
                    let come: Change<'_> = &|inventory| Cow::Owned(with_gpus(inventory, like, gpu, count));
                    self.serves_after(group, come, &self.inputs.policies)
                }
            };
            serves >= wanted
        };
        let fewest = fewest(most, &mut enough);
        self.grown.insert(kind, grown);
        match fewest {
            Some(count) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                Some(Help::MoreGpus { count, model: gpu.model.clone() })
            }
            None => self.enough_gpus(group, (name, like), gpu),
        }
    }

    /// The fleet with more GPUs of a kind, if it can be put into the planner's terms once for any number of them.
    fn grown_by(&mut self, kind: &NewGpu, like: &Node, gpu: &Gpu) -> Option<(Grown<'w>, Alike)> {
        if let Some(known) = self.grown.get_mut(kind) {
            return known.take();
        }
        // What is promised is decided anew for each number.
        let next = self.inputs.grown.get(self.grown.len()).filter(|_| self.at_stake.is_none())?;
        let inventory = next.get_or_init(|| with_gpus(self.inventory, like, gpu, 1));
        let Inputs { requests, policies, .. } = self.inputs;
        let grown = Grown::new(inventory, requests, policies, &mut self.memo.targets)?;
        Some((grown, Alike::default()))
    }

    /// How many requests of the group that are not served now, those who come first, are served with so many more GPUs.
    fn serves_grown(
        &mut self,
        group: &Group<'_>,
        (grown, alike): &mut (Grown<'w>, Alike),
        count: usize,
    ) -> usize {
        if !self.may_try(self.inventory) {
            return 0;
        }
        self.left -= 1;
        self.serves_in(group, grown.with(count), Some(alike))
    }
}

/// The fewest that are enough, up to the most. Others that wait are served by them too. Doubling, then halving
/// the interval: a few trials for any number.
fn fewest(most: usize, enough: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
    let mut high = 1;
    while !enough(high) {
        if high >= most {
            return None;
        }
        high = (high * 2).min(most);
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low.midpoint(high);
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

impl Trials<'_, '_> {
    /// GPUs that are enough for all who wait like a group, where it would cost
    /// too much to find out whether fewer are.
    fn enough_gpus(
        &mut self,
        group: &Group<'_>,
        (name, like): (&NodeName, &Node),
        gpu: &Gpu,
    ) -> Option<Help> {
        if !self.meets_floors || !self.one_more.contains_key(name) && self.one_more.len() >= LIKE {
            return None;
        }
        let one_more = self.one_more.entry(name.clone()).or_insert_with(|| {
            let known = self.grown.get_mut(&(name.clone(), gpu.model.clone())).and_then(Option::as_mut);
            if let Some((grown, _)) = known {
                return OneMore::evaluate(grown.with(1), &self.unserved, like);
            }
            let inventory = with_gpus(self.inventory, like, gpu, 1);
            let Inputs { requests, policies, .. } = self.inputs;
            let targets = &mut self.memo.targets;
            let world = World::new(&inventory, requests, policies, Grain::Alike, targets);
            OneMore::evaluate(&world, &self.unserved, like)
        });
        let asks = group.requests.iter().map(|r| &r.id).filter(|id| self.unserved.contains(id));
        let count = one_more.as_mut()?.enough_for(group.priority, asks)?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Some(Help::EnoughGpus { count, model: gpu.model.clone() })
    }
}
