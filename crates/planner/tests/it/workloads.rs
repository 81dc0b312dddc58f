//! Workloads of a queue that can never be complete: nothing is planned for them, and they are told why.

use planner::decide::{Decision, decide};
use planner::demand::{Apart, Request};
use planner::inventory::{Gpu, Hold, Inventory, Node, Room, Use};
use planner::policy::{Mode, Policy};
use planner::report::{Help, Offered, Outcome, RequestReport, Why};
use planner::testing::{
    FleetBuilder, NodeBuilder, RequestBuilder, a30, a100, fleet, node, policy, profile, request,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::oracle::world::{World, worlds};

/// So many pods of one workload, the oldest of all.
fn pods(workload: &str, n: usize, asks: impl Fn(RequestBuilder) -> RequestBuilder) -> Vec<Request> {
    let one = |i| asks(request(&format!("lab/{workload}-{i}")).of_workload(workload)).build();
    (0..n).map(one).collect()
}

fn small(one: RequestBuilder) -> RequestBuilder {
    one.asks("1g.10gb", 1)
}

/// A node with one GPU, which has seven of the smallest slices at most.
fn idle() -> NodeBuilder {
    node().gpu(a100().idle("7g.80gb", 0))
}

fn told(fleet: FleetBuilder, requests: &[Request], policies: &[Policy]) -> Decision {
    decide(&fleet.build(), requests, policies)
}

/// Why each waits whose name begins so; nothing for who is served.
fn whys(decision: &Decision, name: &str) -> Vec<Option<Why>> {
    let of = decision.report.requests.iter().filter(|report| report.id.name.starts_with(name));
    of.map(|report| match &report.outcome {
        Outcome::Unserved { why, .. } => Some(why.clone()),
        _ => None,
    })
    .collect()
}

fn never(asks: u32, most: u32, name: &str) -> Why {
    Why::NeverWhole { asks, most, profile: Offered::Slice(profile(name)) }
}

#[test]
fn nothing_is_planned_for_a_workload_that_can_never_be_complete_and_others_get_the_slices() {
    let mut requests = pods("train", 8, small);
    requests.extend((0..2).map(|i| request(&format!("lab/other-{i}")).asks("1g.10gb", 1).since(9).build()));
    let one = || fleet().node("n1", idle());
    let decision = told(one(), &requests, &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 7, "1g.10gb")); 8]);
    assert_eq!(whys(&decision, "other"), [None, None]);
    assert_eq!(decision.plan.steps.iter().map(|step| step.serves.len()).sum::<usize>(), 2);
    let said =
        decision.report.requests.iter().find(|report| report.id.name == "train-0").map(RequestReport::answer);
    assert_eq!(
        said.unwrap_or_default(),
        "not served: the pods of its workload start together and ask for 8 of 1g.10gb in all, and the nodes that they may \
         use can never have more than 7 at the same time. What would help: start the workload with fewer pods, which ask for \
         at most 7 of nvidia.com/mig-1g.10gb in all"
    );
    // What is told to help does: seven are served.
    let decision = told(one(), &pods("train", 7, small), &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![None; 7]);
    // Who is of no workload, or of one each, may be served in part.
    let each: Vec<Request> = (0..8).flat_map(|i| pods(&format!("train{i}"), 1, small)).collect();
    let decision = told(one(), &each, &[policy("p").build()]);
    assert_eq!(whys(&decision, "train").iter().filter(|why| why.is_none()).count(), 7);
}

#[test]
fn what_passes_is_no_reason_to_say_that_a_workload_can_never_be_complete() {
    let train = || pods("train", 8, small);
    let busy = || node().gpu(a100().used("7g.80gb", 0, "lab/a"));
    let cordoned = || idle().unschedulable().held(Hold::Cordoned { by: "an admin".to_owned() });
    let short = || idle().room(0, 0, 0);
    for other in [busy(), cordoned(), short()] {
        let decision = told(fleet().node("n1", idle()).node("n2", other), &train(), &[policy("p").build()]);
        assert!(!whys(&decision, "train").contains(&Some(never(8, 7, "1g.10gb"))), "{decision:?}");
    }
    let apart =
        |one: RequestBuilder| small(one).takes(1, 1).kept_off("n2", Apart::AntiAffinity { topology: None });
    let two = fleet().node("n1", idle()).node("n2", idle());
    let decision = told(two, &pods("train", 8, apart), &[policy("p").build()]);
    assert!(!whys(&decision, "train").contains(&Some(never(8, 7, "1g.10gb"))), "{decision:?}");
    // It is not known which GPUs the other node has.
    let decision = told(fleet().node("n1", idle()).node("n2", node()), &train(), &[policy("p").build()]);
    assert!(!whys(&decision, "train").contains(&Some(never(8, 7, "1g.10gb"))), "{decision:?}");
}

#[test]
fn only_nodes_count_that_a_pod_may_use_and_whose_policy_counts_it() {
    let near = |one: RequestBuilder| small(one).selects("zone", "near");
    let two = || fleet().node("n1", idle().label("zone", "near")).node("n2", idle());
    let decision = told(two(), &pods("train", 8, near), &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 7, "1g.10gb")); 8]);
    // Any of them: one that may be anywhere counts on all nodes.
    let mut some = pods("train", 8, near);
    some[7].constraints.node_selector.clear();
    let decision = told(two(), &some, &[policy("p").build()]);
    assert!(!whys(&decision, "train").contains(&Some(never(8, 7, "1g.10gb"))), "{decision:?}");
    let policies = [policy("p").build(), policy("q").pool("b").namespace("others").build()];
    let of_others = fleet().node("n1", idle()).node("n2", idle().label("pool", "b"));
    let decision = told(of_others, &pods("train", 8, small), &policies);
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 7, "1g.10gb")); 8]);
    // Of a node without a policy the slices that it has.
    let without = |gpu| fleet().node("n1", idle()).node("n2", node().label("pool", "none").gpu(gpu));
    let decision = told(without(a100().idle("7g.80gb", 0)), &pods("train", 8, small), &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 7, "1g.10gb")); 8]);
    let decision = told(without(a100().idle("1g.10gb", 3)), &pods("train", 8, small), &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![None; 8]);
}

#[test]
fn the_maximum_of_a_policy_counts_and_is_named() {
    let eight = || (0..8).map(|_| a100().idle("7g.80gb", 0)).fold(node(), NodeBuilder::gpu);
    let narrow = policy("p").bounds("1g.10gb", 0, 0, Some(5)).build();
    let decision = told(fleet().node("n1", eight()), &pods("train", 8, small), std::slice::from_ref(&narrow));
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 5, "1g.10gb")); 8]);
    let Outcome::Unserved { help, .. } = &decision.report.requests[0].outcome else { panic!("it waits") };
    let advice = "start the workload with fewer pods, which ask for at most 5 of nvidia.com/mig-1g.10gb in all, which is what \
                  policy p allows (spec.layout.demandDriven.slices[1g.10gb].maxCount)";
    assert_eq!(*help, [Help::ChangeRequest { advice: advice.to_owned() }]);
    // It is one of all nodes of the policy, and what there is beyond it stays.
    let two = || fleet().node("n1", eight()).node("n2", eight());
    let decision = told(two(), &pods("train", 8, small), std::slice::from_ref(&narrow));
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 5, "1g.10gb")); 8]);
    let there = (0..7).fold(a100(), |gpu, at| gpu.idle("1g.10gb", at));
    let more = two().node("n3", node().gpu(there).gpu(a100().used("1g.10gb", 0, "lab/a")));
    let decision = told(more, &pods("train", 8, small), &[narrow]);
    assert!(!whys(&decision, "train").contains(&Some(never(8, 5, "1g.10gb"))), "{decision:?}");
}

#[test]
fn each_profile_is_looked_at_and_all_pods_of_the_workload_are_told() {
    let mut requests = pods("train", 8, small);
    requests.extend(pods("train", 1, |one| one.asks("7g.80gb", 1).since(1)).into_iter().map(|mut leader| {
        leader.id.name = "train-leader".to_owned();
        leader
    }));
    let two = || fleet().node("n1", idle()).node("n2", node().gpu(a30().idle("4g.24gb", 0)));
    let decision = told(two(), &requests, &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![Some(never(8, 7, "1g.10gb")); 9]);
    // Where there is none at all, each that asks for it has a reason of its own, and the others have this one.
    let mut requests = pods("train", 2, small);
    requests[1] = request("lab/train-1").of_workload("train").asks("4g.40gb", 1).build();
    let small_only = fleet().node("n1", node().gpu(a30().idle("4g.24gb", 0)));
    requests[0].slices = [(profile("1g.6gb"), 1)].into();
    let decision = told(small_only, &requests, &[policy("p").build()]);
    let reasons = [Some(never(1, 0, "4g.40gb")), Some(Why::NoSuchProfile { profile: profile("4g.40gb") })];
    assert_eq!(whys(&decision, "train"), reasons);
    assert!(decision.plan.steps.is_empty(), "{:?}", decision.plan);
}

#[test]
fn of_shared_slices_the_seats_are_counted() {
    let seats = |one: RequestBuilder| one.asks_seats("1g.10gb", 1);
    let shared = || fleet().node("n1", idle().shares("1g.10gb", 4, true));
    let decision = told(shared(), &pods("train", 28, seats), &[policy("p").build()]);
    assert_eq!(whys(&decision, "train"), vec![None; 28]);
    let decision = told(shared(), &pods("train", 29, seats), &[policy("p").build()]);
    let why = Why::NeverWhole { asks: 29, most: 28, profile: Offered::SharedSlice(profile("1g.10gb")) };
    assert_eq!(whys(&decision, "train"), vec![Some(why); 29]);
}

/// The fleet with everything idle, and nothing else in anybody's way.
fn emptied(inventory: &Inventory) -> Inventory {
    let mut inventory = inventory.clone();
    for node in inventory.nodes.values_mut() {
        let Node { room, hold, schedulable, allocated, held, whole_held, gpus, .. } = node;
        (*room, *hold, *schedulable, *whole_held) = (Room::UNLIMITED, None, true, 0);
        allocated.clear();
        held.clear();
        for Gpu { hold, slices, .. } in gpus.values_mut() {
            *hold = None;
            slices.uses_mut().for_each(|used| *used = Use::Idle);
        }
    }
    inventory
}

/// Whoever is told so is not served whole by an empty fleet either, where nobody else asks.
#[test]
fn what_is_said_never_to_be_is_not_where_everything_is_idle() {
    let mut runner = TestRunner::deterministic();
    let (mut found, mut not) = (0, 0);
    for _ in 0..600 {
        let World { inventory, mut requests, mut policies } =
            worlds().new_tree(&mut runner).expect("a world").current();
        requests
            .iter_mut()
            .for_each(|request| request.together.workload = Some(request.id.namespace.clone()));
        let decision = decide(&inventory, &requests, &policies);
        let is_told = |request: &&Request| {
            let report = decision.report.requests.iter().find(|report| report.id == request.id);
            matches!(report.map(|r| &r.outcome), Some(Outcome::Unserved { why: Why::NeverWhole { .. }, .. }))
        };
        let Some(one) = requests.iter().find(is_told) else {
            not += 1;
            continue;
        };
        found += 1;
        let workload = one.together.workload.clone();
        let mut alone: Vec<Request> =
            requests.iter().filter(|request| request.together.workload == workload).cloned().collect();
        alone.iter_mut().for_each(|request| request.together.workload = None);
        policies.iter_mut().for_each(|policy| policy.mode = Mode::Enforce);
        let report = decide(&emptied(&inventory), &alone, &policies).report;
        let waits = report.requests.iter().any(|report| matches!(report.outcome, Outcome::Unserved { .. }));
        assert!(waits, "{workload:?} is served by {inventory:?}");
    }
    assert!(found >= 20 && not >= 100, "{found} workloads are told so, and of {not} worlds nobody");
}
