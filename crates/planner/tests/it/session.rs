//! A session decides as one that never decided before, whatever has changed, and asks nothing twice.

use std::sync::Arc;

use planner::decide::{Session, decide_next, decide_while};
use planner::inventory::{Hold, Node};
use planner::names::NodeName;
use planner::plan::UnderWay;
use planner::policy::{LayoutPolicy, Order, Policy};
use planner::testing::generate::Numbers;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::{a100, fleet, node, policy, request};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::oracle::apply::apply;
use crate::oracle::world::{World, worlds};

/// A world through which time passes.
struct Passing {
    world: World,
    under_way: UnderWay,
    /// Nodes that went, and who gave up or is served: they may come again.
    gone: Vec<(NodeName, Arc<Node>)>,
    left: Vec<planner::demand::Request>,
    numbers: Numbers,
}

impl Passing {
    fn new(world: World, seed: u64) -> Self {
        let numbers = Numbers::new(seed);
        Self { world, under_way: UnderWay::default(), gone: vec![], left: vec![], numbers }
    }

    /// What the session decides, which is what one decides that never decided before.
    fn decide(&self, session: &mut Session) -> planner::decide::Decision {
        let World { inventory, requests, policies } = &self.world;
        let fresh = decide_while(inventory, requests, policies, &self.under_way);
        let kept = decide_next(session, inventory, requests, policies, &self.under_way);
        assert_eq!(kept, fresh, "{:?}", self.world);
        kept
    }

    /// Something happens.
    fn something_happens(&mut self, plan: &planner::plan::Plan) {
        let Self { world, under_way, gone, left, numbers } = self;
        let World { inventory, requests, policies } = world;
        let names: Vec<NodeName> = inventory.nodes.keys().cloned().collect();
        let mut one_of = |all: usize| (all > 0).then(|| usize::try_from(numbers.below(all as u64)).unwrap());
        match one_of(12).unwrap() {
            // Nothing that planning depends on.
            0 => {}
            1 => {
                if let Some(i) = one_of(requests.len()) {
                    left.push(requests.remove(i));
                }
            }
            2 => {
                if let Some(i) = one_of(left.len()) {
                    requests.push(left.remove(i));
                }
            }
            3 => {
                if let Some(i) = one_of(requests.len()) {
                    requests[i].priority += 1;
                }
            }
            4 => {
                let i = one_of(names.len()).unwrap();
                let node = inventory.nodes.get_mut(&names[i]).unwrap();
                node.schedulable = !node.schedulable;
            }
            5 => {
                let i = one_of(names.len()).unwrap();
                let node = inventory.nodes.get_mut(&names[i]).unwrap();
                node.hold = if node.hold.is_some() { None } else { Some(Hold::Changing) };
            }
            6 if names.len() > 1 => {
                let i = one_of(names.len()).unwrap();
                let node = inventory.nodes.remove(&names[i]).unwrap();
                gone.push((names[i].clone(), node));
            }
            7 => {
                if let Some((name, node)) = gone.pop() {
                    inventory.nodes.insert(name, node);
                }
            }
            8 => {
                if let Some(i) = one_of(policies.len()) {
                    edit(&mut policies[i]);
                }
            }
            // The plan is begun with: some of it is done, the rest is under way.
            9 | 10 => {
                let done = one_of(plan.steps.len() + 1).unwrap();
                *inventory = apply(inventory, plan.steps[..done].iter());
                *under_way = UnderWay::from_steps(&plan.steps[done..]);
            }
            _ => *under_way = UnderWay::from_steps(&plan.steps),
        }
    }
}

/// Somebody edits a policy.
fn edit(policy: &mut Policy) {
    match &mut policy.layout {
        LayoutPolicy::DemandDriven { order, .. } => {
            *order = match order {
                Order::MostServed => Order::OldestFirst,
                Order::OldestFirst => Order::MostServed,
            };
        }
        LayoutPolicy::Static { .. } => policy.priority += 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::default() })]

    /// Requests come and go, nodes too, policies are edited and plans are begun.
    #[test]
    fn whatever_happens_a_session_decides_as_one_that_never_decided_before(world in worlds(), seed in any::<u64>()) {
        let mut passing = Passing::new(world, seed);
        let mut session = Session::default();
        for _ in 0..12 {
            let decision = passing.decide(&mut session);
            passing.something_happens(&decision.plan);
        }
    }
}

/// The same where nodes are short of CPU and memory, and are looked at one by one.
#[test]
fn so_it_does_on_nodes_that_are_short_of_cpu_and_memory() {
    for seed in 0..3 {
        let (inventory, requests) = rooms(Rooms { nodes: 6, gpus: 4, pods: 28, kinds: 5 }, seed);
        let mut passing =
            Passing::new(World { inventory, requests, policies: vec![policy("p").build()] }, seed);
        let mut session = Session::default();
        for _ in 0..7 {
            let decision = passing.decide(&mut session);
            passing.something_happens(&decision.plan);
        }
    }
}

/// Four nodes of eight GPUs, on one of which somebody works, and more is asked for than there is.
fn busy() -> World {
    let idle = || (0..8).fold(node(), |node, _| node.gpu(a100().idle("7g.80gb", 0)));
    let first = (0..7).fold(node(), |node, _| node.gpu(a100().idle("3g.40gb", 0).idle("3g.40gb", 4)));
    let inventory = fleet()
        .node("n1", first.gpu(a100().used("7g.80gb", 0, "bob")))
        .node("n2", idle())
        .node("n3", idle())
        .node("n4", idle())
        .build();
    let profiles = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "2g.20gb"];
    let requests = (0..90).zip(profiles.iter().cycle());
    let requests =
        requests.map(|(i, profile)| request(&format!("r{i:02}")).asks(profile, 1).since(i).build());
    World { inventory, requests: requests.collect(), policies: vec![policy("p").build()] }
}

#[test]
fn what_was_answered_is_not_asked_again() {
    let World { inventory, requests, policies } = busy();
    let mut session = Session::default();
    let nothing = UnderWay::default();
    let first = decide_next(&mut session, &inventory, &requests, &policies, &nothing);
    assert!(!first.plan.steps.is_empty() && session.searched() > 10, "{}", session.searched());
    let before = session.searched();
    assert_eq!(decide_next(&mut session, &inventory, &requests, &policies, &nothing), first);
    assert_eq!(session.searched(), before, "nothing has changed");
    // The nodes are told what they are to come to: the fleet is as it was, and only what goes on is new.
    let under_way = UnderWay::from_steps(&first.plan.steps);
    let told = decide_next(&mut session, &inventory, &requests, &policies, &under_way);
    assert_eq!(told.plan, first.plan);
    assert!(session.searched() <= before + 4, "{} after {before}", session.searched());
}

#[test]
fn an_edited_policy_clears_a_session() {
    let World { inventory, requests, mut policies } = busy();
    let mut session = Session::default();
    let decide = |session: &mut Session, policies: &[Policy]| {
        let decision = decide_next(session, &inventory, &requests, policies, &UnderWay::default());
        assert_eq!(decision, decide_while(&inventory, &requests, policies, &UnderWay::default()));
        session.searched()
    };
    let once = decide(&mut session, &policies);
    edit(&mut policies[0]);
    let edited = decide(&mut session, &policies);
    edit(&mut policies[0]);
    assert_eq!(decide(&mut session, &policies), once, "as if it were the first time, and not after {edited}");
}
