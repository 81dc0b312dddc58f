//! Fleets whose nodes are short of CPU and memory, followed to the end of their rollouts while requests
//! come and go: planning after each step terminates, whether the plans are proved or not, and no GPU is
//! repartitioned twice for the same demand.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::collections::BTreeSet;

use planner::check::{check, is_sound};
use planner::decide::{Decision, Session, decide_next};
use planner::demand::Request;
use planner::inventory::{Gpu, Inventory, Slices, Use};
use planner::names::{GpuIndex, NodeName, PodRef};
use planner::plan::UnderWay;
use planner::policy::Policy;
use planner::report::Outcome;
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Gangs, Rooms, in_racks, rooms};
use planner::testing::policy;

use crate::oracle::apply::apply;

/// How many small fleets are followed.
const FLEETS: u64 = 100;
/// How often people come or go on each.
const EVENTS: usize = 4;

/// A fleet and what is asked of it, by the numbers of its seed.
type World = fn(u64, &mut Numbers) -> (Inventory, Vec<Request>);

/// Small enough that mostly everything is proved.
fn small(seed: u64, numbers: &mut Numbers) -> (Inventory, Vec<Request>) {
    let mut of = |low: u64, high: u64| usize::try_from(low + numbers.below(high - low + 1)).unwrap();
    rooms(Rooms { nodes: of(3, 7), gpus: of(2, 4), pods: of(12, 36), kinds: of(2, 7) }, seed)
}

/// Of so many kinds and on so many nodes that it is often not proved how few GPUs have to change.
fn varied(seed: u64, _: &mut Numbers) -> (Inventory, Vec<Request>) {
    rooms(Rooms { nodes: 12, gpus: 4, pods: 60, kinds: 8 }, seed)
}

/// Each pod has CPU and memory of its own: nothing is proved of the GPUs that change, and a search that starts from
/// another fleet ends elsewhere.
fn each_its_own(seed: u64, numbers: &mut Numbers) -> (Inventory, Vec<Request>) {
    let (inventory, mut requests) = rooms(Rooms { nodes: 5, gpus: 2, pods: 60, kinds: 28 }, seed);
    for request in &mut requests {
        request.takes.cpu_milli = 1_000 * (1 + i64::try_from(numbers.below(24)).unwrap());
        request.takes.memory_bytes = (4 + i64::try_from(numbers.below(125)).unwrap()) << 30;
    }
    (inventory, requests)
}

/// The same in racks of two nodes, with gangs that have to be in one: each rack is planned by itself.
fn gangs_in_racks(seed: u64, numbers: &mut Numbers) -> (Inventory, Vec<Request>) {
    let shape = Rooms { nodes: 10, gpus: 2, pods: 80, kinds: 28 };
    let (mut inventory, mut requests) = rooms(shape, seed);
    for request in &mut requests {
        request.takes.cpu_milli = 1_000 * (1 + i64::try_from(numbers.below(12)).unwrap());
    }
    in_racks(&mut inventory, &mut requests, Gangs { gangs: 8, pods: 4, rack: 2 });
    (inventory, requests)
}

/// A fleet in the middle of a rollout.
struct Fleet {
    inventory: Inventory,
    waiting: Vec<Request>,
    /// Who will come.
    coming: Vec<Request>,
    under_way: UnderWay,
    /// The GPUs that were cut since somebody last came or went.
    cut: BTreeSet<(NodeName, GpuIndex)>,
    numbers: Numbers,
    session: Session,
    policy: Policy,
    /// Whether those who are served on a node are told so once it changes, as the operator does.
    tells_nodes: bool,
}

impl Fleet {
    fn new(seed: u64, world: World, policy: &Policy) -> Self {
        let mut numbers = Numbers::new(seed ^ 0x57ea);
        let (inventory, mut waiting) = world(seed, &mut numbers);
        let coming = waiting.split_off(waiting.len() * 3 / 4);
        let (under_way, cut) = (UnderWay::default(), BTreeSet::new());
        let (session, policy) = (Session::default(), policy.clone());
        let tells_nodes = waiting.iter().any(|request| request.together.gang.is_some());
        Self { inventory, waiting, coming, under_way, cut, numbers, session, policy, tells_nodes }
    }

    fn plan(&mut self) -> Decision {
        let Self { session, inventory, waiting, under_way, policy, .. } = self;
        let policies = std::slice::from_ref(policy);
        let decision = decide_next(session, inventory, waiting, policies, under_way);
        let notes = check(&decision.plan, inventory, waiting, policies);
        assert!(is_sound(&notes), "{notes:?}");
        decision
    }

    /// Some who were served with what is there run; one ends, one gives up, one comes.
    fn somebody_comes_or_goes(&mut self, decision: &Decision) {
        for report in &decision.report.requests {
            let Outcome::ServedNow { node, gpus } = &report.outcome else { continue };
            if self.numbers.below(2) == 0 {
                continue;
            }
            let position = self.waiting.iter().position(|request| request.id == report.id).unwrap();
            let request = self.waiting.remove(position);
            let node = self.inventory.nodes.get_mut(node).unwrap();
            node.room = node.room.plus(request.takes, -1);
            let by = PodRef { namespace: "team".to_owned(), name: request.id.name.clone() };
            for (gpu, _, profile) in gpus {
                let Slices::Counted(slices) = &mut node.gpus.get_mut(&gpu.gpu).unwrap().slices else {
                    panic!("slices of these fleets are counted")
                };
                let free = slices
                    .iter_mut()
                    .find(|s| Some(s.profile) == profile.slice() && s.used.is_idle())
                    .unwrap();
                free.used = Use::InUse { by: by.clone() };
            }
        }
        match self.numbers.below(3) {
            0 if !self.waiting.is_empty() => {
                let gone = self.numbers.below(self.waiting.len() as u64);
                self.waiting.remove(usize::try_from(gone).unwrap());
            }
            1 => self.one_ends(),
            _ => self.waiting.extend(self.coming.pop()),
        }
        self.cut.clear();
    }

    /// Whoever holds the first slice of the fleet that is held.
    fn one_ends(&mut self) {
        let gpus = self.inventory.nodes.values_mut().flat_map(|node| node.gpus.values_mut());
        let slices = gpus.flat_map(|Gpu { slices, .. }| match slices {
            Slices::Counted(slices) => slices.iter_mut(),
            Slices::Placed(_) | Slices::MigOff { .. } => panic!("slices of these fleets are counted"),
        });
        if let Some(held) = slices.into_iter().find(|slice| !slice.used.is_idle()) {
            held.used = Use::Idle;
        }
    }

    /// Carries out the first step of a plan.
    fn step(&mut self, decision: &Decision) {
        let (first, rest) = decision.plan.steps.split_first().unwrap();
        for change in &first.gpus {
            let gpu = (first.node.clone(), change.gpu);
            assert!(self.cut.insert(gpu), "{} gpu{} is cut a second time", first.node, change.gpu);
        }
        if self.tells_nodes {
            for report in &decision.report.requests {
                if let Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } = &report.outcome
                    && *node == first.node
                {
                    let told = self.waiting.iter_mut().filter(|request| request.id == report.id);
                    told.for_each(|request| request.promised = Some(node.clone()));
                }
            }
        }
        self.inventory = apply(&self.inventory, [first]);
        self.under_way = UnderWay::from_steps(rest);
    }
}

/// Whether it is not proved what is best at a level up to the GPUs changed: the levels that decide whether what is
/// under way goes on.
fn is_open(decision: &Decision) -> bool {
    let levels = &decision.report.certificate;
    let last = levels.iter().position(|level| level.level == "GPUs changed");
    levels.iter().take(last.map_or(0, |last| last + 1)).any(|level| !level.is_proven())
}

/// What was seen on the way.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    steps: usize,
    /// Steps of plans of which it is not proved that none is better.
    open_steps: usize,
}

/// Follows some fleets to their ends.
fn follow(seeds: std::ops::Range<u64>, world: World) -> Followed {
    follow_under(seeds, world, &policy("p").build())
}

/// Follows some fleets under a policy to their ends.
fn follow_under(seeds: std::ops::Range<u64>, world: World, policy: &Policy) -> Followed {
    let mut followed = Followed::default();
    for seed in seeds {
        let mut fleet = Fleet::new(seed, world, policy);
        let mut events = 0;
        let gpus = fleet.inventory.nodes.values().map(|node| node.gpus.len()).sum::<usize>();
        for round in 0.. {
            assert!(round <= (gpus + 1) * (EVENTS + 1), "fleet {seed} does not come to an end");
            let decision = fleet.plan();
            let is_done = decision.plan.steps.is_empty();
            if !is_done {
                fleet.step(&decision);
                followed.steps += 1;
                followed.open_steps += usize::from(is_open(&decision));
            }
            if events < EVENTS && (is_done || fleet.numbers.below(3) == 0) {
                fleet.somebody_comes_or_goes(&decision);
                events += 1;
            } else if is_done {
                break;
            }
        }
    }
    followed
}

/// A hundred fleets, in four parts that are followed side by side.
#[track_caller]
fn is_steady(part: u64) {
    let Followed { steps, .. } = follow(part * FLEETS / 4..(part + 1) * FLEETS / 4, small);
    assert!(steps >= 40, "{steps} steps: too few to say anything");
}

#[test]
fn no_idle_gpu_is_cut_twice_for_the_same_demand_whoever_comes_and_goes() {
    is_steady(0);
}

#[test]
fn nor_on_the_second_quarter_of_a_hundred_fleets() {
    is_steady(1);
}

#[test]
fn nor_on_the_third() {
    is_steady(2);
}

#[test]
fn nor_on_the_fourth() {
    is_steady(3);
}

/// Fleets of twelve nodes, on which nobody proves how few GPUs have to change.
#[track_caller]
fn is_steady_without_proof(seeds: std::ops::Range<u64>) {
    let followed = follow(seeds, varied);
    assert!(followed.open_steps >= 8, "{followed:?}: too few to say anything");
}

#[test]
fn nor_where_it_is_not_proved_how_few_gpus_have_to_change() {
    is_steady_without_proof(0..10);
}

#[test]
fn nor_on_ten_more_of_these_fleets() {
    is_steady_without_proof(10..20);
}

/// Where nothing is proved and each search ends somewhere else, only the rule that a plan under way goes on keeps this
/// fleet from being cut again and again.
#[test]
fn nor_where_each_pod_has_cpu_and_memory_of_its_own() {
    let followed = follow(0..1, each_its_own);
    assert!(followed.open_steps >= 3, "{followed:?}: too few to say anything");
}

#[test]
fn nor_where_the_oldest_come_first() {
    let followed = follow_under(0..4, varied, &policy("p").oldest_first().build());
    assert!(followed.steps >= 10, "{followed:?}: too few to say anything");
}

/// Here it is not proved whose turn it is.
#[test]
fn nor_where_the_oldest_come_first_and_each_pod_has_cpu_and_memory_of_its_own() {
    let followed = follow_under(0..1, each_its_own, &policy("p").oldest_first().build());
    assert!(followed.open_steps >= 3, "{followed:?}: too few to say anything");
}

/// The parts of the cluster in which gangs are planned are chosen anew after each step.
#[test]
fn nor_where_gangs_have_to_be_in_one_rack() {
    let followed = follow(0..2, gangs_in_racks);
    assert!(followed.steps >= 12, "{followed:?}: too few to say anything");
}
