//! One replay: from event to event in virtual time.
//!
//! The simplifications are:
//! - A request arrives and leaves at its times in the trace, whether it was served in between or not. A
//!   request that is served late has its slice for a shorter time.
//! - A request of a trace of CSV has no namespace and no priority; recordings have both. A higher priority comes first,
//!   and evicts nobody.
//! - Pods start and end in no time, and the scheduler and the planner take
//!   none. (The planner's own time is measured in `docs/benchmarks.md`.)
//! - Nothing fails, and no other client changes a node. CPU and memory of nodes do not run out: the trace's
//!   requests are for slices.
//! - A node that changes is closed from its cordon until its slices are proved, as long as the product
//!   estimates, which is the upper end of the durations seen. Before that, a layout that is new to all
//!   nodes takes the time of a map's mount.
//! - At first every GPU has one slice of full size, or the layout that never changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use jiff::SignedDuration;
use planner::demand::Request;
use planner::names::{NodeName, RequestId};
use planner::policy::{LayoutPolicy, Policy};
use rollout::Settings;
use rollout::fleet::PolicyRollout;
use rollout::window;

use crate::actuator::Actuator;
use crate::admission;
use crate::figures::{Counted, Figures};
use crate::fleet::{Fleet, FleetGpu};
use crate::journal::{Change, Journal};
use crate::place::{self, Scheduler};
use crate::player::{Decided, Player, Served, Unsafe};
use crate::see;
use crate::stage::Stage;
use crate::target::{Cut, Target};
use crate::timeline::Timeline;
use crate::trace::{Trace, seconds};
use crate::world::{Slice, World};

/// How the fleet is run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who changes nodes.
    pub actuator: Actuator,
    /// The policy: its layout and its shares count, and its selectors of nodes and of namespaces are taken to match all.
    pub policy: Policy,
    /// What it says of rollouts.
    pub rollout: PolicyRollout,
    /// The operator's settings.
    pub settings: Settings,
    /// How long a node is closed for a change, where it is not the actuator's time.
    pub away: Option<SignedDuration>,
    /// Which node a pod goes to.
    pub scheduler: Scheduler,
    /// How many spans the timeline has.
    pub spans: usize,
}

impl Rules {
    /// How long a node is closed for a change, from its cordon on.
    #[must_use]
    pub fn away(&self) -> SignedDuration {
        self.away.unwrap_or_else(|| self.actuator.away(&self.settings))
    }
}

/// What came of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The figures.
    pub figures: Figures,
    /// The fleet over time.
    pub timeline: Timeline,
    /// Everything that happened.
    pub journal: Journal,
}

/// Why a replay stopped. Both are bugs of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The checker found a plan wrong.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// A change would have taken a slice from somebody.
    #[error("at second {at} the change of {node} would take {slice} from somebody; please report this")]
    Taken {
        /// When.
        at: i64,
        /// The node.
        node: String,
        /// The slice.
        slice: String,
    },
}

/// Plays a trace. `cut` is what GPUs are cut into at the beginning: one slice
/// of full size where it names nothing for a GPU (node and index).
/// `told` hears how many of how many requests have come.
///
/// # Errors
/// If a plan breaks a rule, which is a bug.
pub fn replay(
    trace: &Trace,
    fleet: &Fleet,
    player: &Player,
    rules: &Rules,
    cut: &BTreeMap<(usize, usize), Cut>,
    told: &mut dyn FnMut(usize, usize),
) -> Result<Replay, ReplayError> {
    let begin = fleet.nodes.iter().enumerate().map(|(node, spec)| {
        let gpus = spec.gpus.iter().enumerate();
        gpus.map(|(gpu, spec)| cut.get(&(node, gpu)).cloned().unwrap_or_else(|| whole(spec))).collect()
    });
    let mut rules = rules.clone();
    rules.policy = everywhere(rules.policy);
    let mut run = Run {
        trace,
        fleet,
        player,
        rules: &rules,
        world: World::cut(begin),
        now: trace.span().0,
        next: 0,
        waiting: Vec::new(),
        ends: BinaryHeap::new(),
        order: Vec::new(),
        serves: BTreeMap::new(),
        promised: BTreeMap::new(),
        counted: Counted { bound_at: vec![None; trace.requests.len()], ..Counted::default() },
        timeline: Timeline::new(trace.span(), rules.spans),
        journal: Journal::default(),
    };
    // A standing wish (a floor, a static layout of the policy) is there before anybody asks.
    let mut dirty = true;
    loop {
        dirty |= run.come_and_go(told);
        run.settle(dirty)?;
        let Some(next) = run.next_moment() else { break };
        run.pass(next);
        dirty = run.finish();
    }
    let figures = Figures::new(trace, &run.counted, &run.timeline);
    Ok(Replay { figures, timeline: run.timeline, journal: run.journal })
}

/// One slice of full size.
pub(crate) fn whole(gpu: &FleetGpu) -> Cut {
    let profiles = gpu.geometry.profiles().iter();
    let full = profiles.max_by_key(|spec| (spec.compute, spec.size, Reverse(spec.name)));
    full.map(|spec| (spec.name, spec.starts[0])).into_iter().collect()
}

/// The policy for every node and everybody.
pub(crate) fn everywhere(mut policy: Policy) -> Policy {
    policy.nodes = vec![planner::demand::Expression {
        key: see::POOL.to_owned(),
        operator: planner::demand::Operator::Exists,
        values: Vec::new(),
    }];
    if let LayoutPolicy::DemandDriven { namespaces, .. } = &mut policy.layout {
        namespaces.clear();
    }
    policy
}

struct Run<'a> {
    trace: &'a Trace,
    fleet: &'a Fleet,
    player: &'a Player,
    rules: &'a Rules,
    world: World,
    now: i64,
    /// The next request to come.
    next: usize,
    /// Those that have come and were not served: the highest priority first, then the oldest.
    waiting: Vec<usize>,
    /// When those that have come go.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    /// The nodes in the order of the last plan.
    order: Vec<usize>,
    /// Where the last plan serves whom.
    serves: BTreeMap<usize, Served>,
    /// The node that was promised to some of those that wait.
    promised: BTreeMap<usize, NodeName>,
    counted: Counted,
    timeline: Timeline,
    journal: Journal,
}

impl Run<'_> {
    /// Who goes at this second goes, then who comes at it comes. Whether anybody did.
    fn come_and_go(&mut self, told: &mut dyn FnMut(usize, usize)) -> bool {
        let mut any = false;
        while let Some(Reverse((at, request))) = self.ends.peek().copied()
            && at <= self.now
        {
            self.ends.pop();
            any = true;
            self.waiting.retain(|waiting| *waiting != request);
            let slices =
                self.world.nodes.iter_mut().flat_map(|node| &mut node.gpus).flat_map(|gpu| &mut gpu.slices);
            slices.filter(|slice| slice.holder == Some(request)).for_each(|slice| slice.holder = None);
        }
        while let Some(asked) = self.trace.requests.get(self.next)
            && asked.from <= self.now
        {
            any = true;
            self.waiting.push(self.next);
            self.ends.push(Reverse((asked.until, self.next)));
            self.next += 1;
            told(self.next, self.trace.requests.len());
        }
        // The scheduler's queue, too, has the highest priority first, and then the oldest.
        let priority = |request: usize| Reverse(self.trace.requests[request].asker.priority);
        self.waiting.sort_by_key(|request| (priority(*request), *request));
        any
    }

    /// Everything that takes no time: binding, planning, starting. What starts
    /// or is taken back changes what can be bound, so it goes on until nothing does.
    fn settle(&mut self, mut dirty: bool) -> Result<(), ReplayError> {
        loop {
            let bound = place::bind(
                &mut self.world,
                self.fleet,
                &self.trace.requests,
                &mut self.waiting,
                self.rules.scheduler,
                self.now,
                &mut self.journal,
            );
            dirty |= !bound.is_empty();
            for request in bound {
                self.counted.bound_at[request] = Some(self.now);
            }
            if !dirty {
                return Ok(());
            }
            let opened = if self.player.decides() && self.has_cause() { self.plan()? } else { false };
            self.start();
            self.write()?;
            if !opened {
                return Ok(());
            }
            dirty = false;
        }
    }

    /// Whether there is anything to plan for: somebody waits, something is
    /// being carried out, or the policy has wishes of its own.
    fn has_cause(&self) -> bool {
        let under_way = self.world.nodes.iter().any(|node| node.stage.can_return().is_some());
        let stands = match &self.rules.policy.layout {
            LayoutPolicy::Static { .. } => true,
            LayoutPolicy::DemandDriven { slices, unrequested, .. } => {
                *unrequested == planner::policy::Unrequested::Whole
                    || slices.values().any(|bounds| bounds.min > 0 || bounds.spare > 0)
            }
        };
        !self.waiting.is_empty() || under_way || stands
    }

    /// Plans, and tells every node that can still be told. Whether a node was opened again.
    fn plan(&mut self) -> Result<bool, ReplayError> {
        let (trace, actuator) = (&self.trace.requests, self.rules.actuator);
        let inventory = see::inventory(&self.world, self.fleet, trace, actuator, self.now);
        let requests = see::requests(&self.waiting, trace, &self.promised);
        let under_way = see::under_way(&self.world, self.fleet);
        self.counted.plans += 1;
        let Decided { wanted, serves } =
            self.player.wants(&inventory, &requests, &self.rules.policy, &under_way)?;
        self.promise(&requests, serves);
        let at = |name: &NodeName| self.fleet.nodes.iter().position(|node| node.name == *name);
        let mut targets: BTreeMap<usize, Target> = BTreeMap::new();
        self.order.clear();
        for (name, target) in wanted {
            let Some(node) = at(&name) else { continue };
            self.order.push(node);
            targets.insert(node, target);
        }
        let mut opened = false;
        for node in 0..self.world.nodes.len() {
            let target = targets.remove(&node);
            let state = &self.world.nodes[node];
            if matches!(state.stage, Stage::Changing { .. }) || state.stage.can_return() == target.as_ref() {
                continue;
            }
            // What it was told before is no longer wanted.
            if let Stage::Cordoned { since, .. } = state.stage {
                opened = true;
                self.counted.taken_back += 1;
                self.counted.closed_node_seconds += seconds(self.now - since);
            }
            let stage = match target {
                None => Stage::Rest,
                Some(target) => Stage::Mapping { ready: self.now + self.mount(node, &target), target },
            };
            self.world.nodes[node].stage = stage;
        }
        Ok(opened)
    }

    /// What is promised from now on, as the operator does it (`reconcile::promises`): a node that cannot be told
    /// otherwise any more is promised to those who are served by what it comes to. A promise lasts until its pod is
    /// bound, or a plan does not keep it.
    fn promise(&mut self, requests: &[Request], serves: Option<BTreeMap<RequestId, Served>>) {
        self.serves.clear();
        // Without a plan nothing is known of what is kept.
        let Some(mut serves) = serves else { return };
        let served = self.waiting.iter().zip(requests);
        self.serves = served.filter_map(|(at, request)| Some((*at, serves.remove(&request.id)?))).collect();
        let nodes = self.fleet.nodes.iter().zip(&self.world.nodes);
        let changing: BTreeSet<&NodeName> = nodes
            .filter(|(_, state)| matches!(state.stage, Stage::Changing { .. }))
            .map(|(spec, _)| &spec.name)
            .collect();
        let is_promised = |at: &usize, served: &Served| {
            served.is_now && (changing.contains(&served.node) || self.promised.get(at) == Some(&served.node))
        };
        let promised = self.serves.iter().filter(|(at, served)| is_promised(at, served));
        self.promised = promised.map(|(at, served)| (*at, served.node.clone())).collect();
    }

    /// How long a layout takes to come to a node: nothing where a node has it,
    /// comes to it, or is told to.
    fn mount(&self, node: usize, target: &Target) -> i64 {
        let layout = self.world.nodes[node].layout_with(target);
        let known = self.world.nodes.iter().enumerate().any(|(at, other)| {
            let told = match &other.stage {
                Stage::Changing { target, .. } => Some(target),
                Stage::Cordoned { target, .. } => Some(target),
                Stage::Rest | Stage::Mapping { .. } => None,
            };
            other.layout_with(&Target::new()) == layout
                || at != node && told.is_some_and(|target| other.layout_with(target) == layout)
        });
        if known { 0 } else { self.rules.actuator.map_settle(&self.rules.settings).as_secs() }
    }

    /// Nodes whose turn it is are cordoned.
    fn start(&mut self) {
        let asks = admission::asking(&self.world, self.now);
        if asks.is_empty() {
            return;
        }
        let (name, rollout) = (&self.rules.policy.name, &self.rules.rollout);
        let may = admission::admitted(
            &self.world,
            self.fleet,
            &asks,
            &self.order,
            name,
            rollout,
            see::moment(self.now),
        );
        for node in may {
            let state = &mut self.world.nodes[node];
            if let Stage::Mapping { target, .. } = std::mem::take(&mut state.stage) {
                let writes = self.now + self.rules.settings.cordon_settle.as_secs();
                state.stage = Stage::Cordoned { target, since: self.now, writes };
            }
        }
    }

    /// Cordoned nodes that nobody new can have bound to begin to change.
    fn write(&mut self) -> Result<(), ReplayError> {
        let cordon = self.rules.settings.cordon_settle;
        let rest = (self.rules.away() - cordon).as_secs().max(0);
        for (at, node) in self.world.nodes.iter_mut().enumerate() {
            let Stage::Cordoned { target, since, writes } = &node.stage else { continue };
            if *writes > self.now {
                continue;
            }
            let (target, since, until) = (target.clone(), *since, self.now + rest);
            for (gpu, cut) in &target {
                let slices = &mut node.gpus[*gpu].slices;
                let stays = |slice: &Slice| cut.contains(&(slice.profile, slice.start));
                if let Some(taken) = slices.iter().find(|slice| slice.holder.is_some() && !stays(slice)) {
                    return Err(ReplayError::Taken {
                        at: self.now,
                        node: self.fleet.nodes[at].name.to_string(),
                        slice: format!("{}@{} of GPU {gpu}", taken.profile, taken.start),
                    });
                }
                let before = slices.len();
                slices.retain(stays);
                let (gone, made) = (before - slices.len(), cut.len() - slices.len());
                self.counted.operations += u64::try_from(gone + made).unwrap_or(u64::MAX);
            }
            self.counted.gpus_changed += target.len();
            self.counted.nodes_changed += 1;
            self.counted.closed_node_seconds += seconds(until - since);
            self.journal.changes.push(Change {
                node: at,
                from: since,
                until,
                gpus: target.keys().copied().collect(),
            });
            node.stage = Stage::Changing { target, until };
            let name = &self.fleet.nodes[at].name;
            let here = self.serves.iter().filter(|(_, served)| served.node == *name);
            self.promised.extend(here.map(|(request, _)| (*request, name.clone())));
        }
        Ok(())
    }

    /// The next second at which something happens; none when everybody has gone.
    fn next_moment(&self) -> Option<i64> {
        let comes = self.trace.requests.get(self.next).map(|asked| asked.from);
        let goes = self.ends.peek().map(|Reverse((at, _))| *at);
        let people = comes.into_iter().chain(goes).min()?;
        let nodes = self.world.nodes.iter().filter_map(|node| {
            let rested = node.rests_until.filter(|at| *at > self.now);
            node.stage.next(self.now).into_iter().chain(rested).min()
        });
        let windows = &self.rules.rollout.rules.windows;
        let asks = !windows.is_empty() && !admission::asking(&self.world, self.now).is_empty();
        let opens = asks.then(|| window::next_open(windows, see::moment(self.now))).flatten();
        let opens = opens.map(|at| at.as_second() - see::moment(0).as_second()).filter(|at| *at > self.now);
        nodes.chain(opens).chain([people]).min()
    }

    /// Time passes.
    fn pass(&mut self, next: i64) {
        let waiting = self.waiting.iter().map(|request| self.trace.requests[*request].compute()).sum();
        self.timeline.add(self.now, next, self.world.used(self.fleet), waiting);
        self.now = next;
    }

    /// Nodes that have come to their layout are opened. Whether any moment of a
    /// node has come.
    fn finish(&mut self) -> bool {
        let cooldown = self.rules.rollout.rules.cooldown(self.rules.actuator.is_agent()).as_secs();
        let mut any = false;
        for node in &mut self.world.nodes {
            any |= node.rests_until == Some(self.now);
            match &node.stage {
                Stage::Changing { target, until } if *until <= self.now => {
                    for (gpu, cut) in target {
                        let slices = &mut node.gpus[*gpu].slices;
                        for (profile, start) in cut {
                            if !slices.iter().any(|s| (s.profile, s.start) == (*profile, *start)) {
                                slices.push(Slice { profile: *profile, start: *start, holder: None });
                            }
                        }
                        slices.sort_by_key(|slice| (slice.start, slice.profile));
                    }
                    node.stage = Stage::Rest;
                    node.rests_until = Some(self.now + cooldown);
                    any = true;
                }
                Stage::Mapping { ready: at, .. } | Stage::Cordoned { writes: at, .. } => {
                    any |= *at <= self.now;
                }
                Stage::Rest | Stage::Changing { .. } => {}
            }
        }
        // Somebody's turn may have come with a window that opened.
        any || !self.rules.rollout.rules.windows.is_empty()
    }
}
