//! Slices that an eviction frees, and nodes whose CPU, memory, ephemeral storage or pod slots run out.

use planner::check::{check, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Inventory};
use planner::policy::Policy;
use planner::report::{Outcome, Why};
use planner::testing::{a30, a100, fleet, node, pod, policy, profile, request};

fn plan(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    let notes = check(&decision.plan, inventory, requests, policies);
    assert!(is_sound(&notes), "{notes:?}");
    for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
        assert!(level.is_proven(), "{level:?}");
    }
    decision
}

fn asks(names: &[&str], name: &str) -> Vec<Request> {
    names.iter().map(|who| request(who).asks(name, 1).build()).collect()
}

fn served(decision: &Decision) -> usize {
    let reports = decision.report.requests.iter();
    reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. })).count()
}

/// Two slices may be held, one is. Both GPUs change and the pod goes: there is
/// no slice left that could be free somewhere.
#[test]
fn a_slice_that_goes_with_its_pod_is_promised_to_nobody() {
    let cut = || a30().counted_maybe("2g.12gb", 1, &["busy"]).counted("1g.6gb", 2);
    let inventory = fleet().node("n1", node().scope(ChangeScope::IdleGpus).gpu(cut()).gpu(cut())).build();
    let wanted = policy("p").fixed(&[], &[("4g.24gb", 1)]).evicts().build();
    let decision = plan(&inventory, &asks(&["ada"], "2g.12gb"), &[wanted]);
    assert_eq!(decision.plan.steps[0].evicts, [pod("busy")]);
    assert_eq!(served(&decision), 0);
}

#[test]
fn what_an_evicted_pod_held_on_an_unchanged_gpu_is_free_afterwards() {
    let cut = || a30().counted_maybe("2g.12gb", 2, &["busy"]);
    let inventory = fleet().node("n1", node().scope(ChangeScope::IdleGpus).gpu(cut()).gpu(cut())).build();
    let wanted = policy("p").fixed(&[0], &[("4g.24gb", 1)]).evicts().build();
    let decision = plan(&inventory, &asks(&["ada", "bob"], "2g.12gb"), &[wanted]);
    assert_eq!(decision.plan.steps[0].evicts, [pod("busy")]);
    assert_eq!(served(&decision), 2);
}

/// Switching MIG on empties the node, so the GPU beside may be cut anew too.
#[test]
fn a_node_that_is_drained_to_switch_mig_on_is_planned_as_empty() {
    let fresh = || {
        node().scope(ChangeScope::EmptyNode).gpu(a100().mig_off()).gpu(a100().counted_maybe(
            "7g.80gb",
            1,
            &["busy"],
        ))
    };
    let inventory = fleet().node("n1", fresh()).build();
    let requests: Vec<Request> =
        (0..4).map(|i| request(&format!("r{i}")).asks("3g.40gb", 1).since(i).build()).collect();
    let decision = plan(&inventory, &requests, &[policy("p").evicts().build()]);
    let step = &decision.plan.steps[0];
    assert_eq!((step.gpus.len(), step.enable_mig), (2, true));
    assert_eq!(step.evicts, [pod("busy")]);
    assert_eq!(served(&decision), 4);
    // Without draining, nothing on it changes.
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    assert!(decision.plan.steps.is_empty());
}

#[test]
fn slices_are_cut_where_there_is_room_for_their_pods() {
    let roomy = |cpu: i64| node().gpu(a100().idle("7g.80gb", 0)).room(cpu, 64 << 30, 100);
    let inventory = fleet().node("n1", roomy(4_000)).node("n2", roomy(64_000)).build();
    let requests: Vec<Request> = (0..3)
        .map(|i| request(&format!("r{i}")).asks("1g.10gb", 1).takes(4_000, 8 << 30).since(i).build())
        .collect();
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(served(&decision), 3);
    let nodes: Vec<&str> = decision.plan.steps.iter().map(|step| step.node.0.as_str()).collect();
    assert_eq!(nodes, ["n2"], "one node has room for all, so one GPU is enough");
}

#[test]
fn a_node_without_room_for_more_is_the_reason() {
    let inventory = fleet().node("n1", node().gpu(a100()).room(8_000, 64 << 30, 100)).build();
    let requests: Vec<Request> = (0..2)
        .map(|i| request(&format!("r{i}")).asks("1g.10gb", 1).takes(6_000, 8 << 30).since(i).build())
        .collect();
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(served(&decision), 1);
    let unserved = &decision.report.requests[1].outcome;
    assert!(matches!(unserved, Outcome::Unserved { why: Why::NoRoom, .. }), "{unserved:?}");
}

/// Scratch space on disk runs out as CPU and memory do: three pods of 100 GiB do
/// not fit on a node of 250, however many slices it could have.
#[test]
fn ephemeral_storage_is_room_too() {
    let node = || node().gpu(a100()).free_storage(250 << 30);
    let asks = |storage: i64| -> Vec<Request> {
        (0..3)
            .map(|i| {
                request(&format!("r{i}")).asks("1g.10gb", 1).takes_storage(storage << 30).since(i).build()
            })
            .collect()
    };
    let served_of = |nodes: usize, storage: i64| {
        let fleet = (0..nodes).fold(fleet(), |fleet, i| fleet.node(&format!("n{i}"), node()));
        let decision = plan(&fleet.build(), &asks(storage), &[policy("p").build()]);
        let short = decision
            .report
            .requests
            .iter()
            .filter(|report| matches!(report.outcome, Outcome::Unserved { why: Why::NoRoom, .. }));
        (served(&decision), short.count())
    };
    assert_eq!(served_of(1, 80), (3, 0));
    assert_eq!(served_of(1, 100), (2, 1));
    assert_eq!(served_of(2, 100), (3, 0));
    assert_eq!(served_of(2, 300), (0, 3));
}

/// A free slice is a spare where pods can bind, whatever else is alike.
#[test]
fn a_node_where_nothing_can_be_scheduled_offers_no_spare() {
    let inventory = fleet()
        .node("closed", node().gpu(a100()).unschedulable())
        .node("open", node().gpu(a100().used("7g.80gb", 0, "busy")))
        .build();
    let decision = plan(&inventory, &[], &[policy("p").bounds("1g.10gb", 0, 1, None).build()]);
    let unmet = &decision.report.policies[0].unmet;
    assert_eq!(unmet.iter().map(|u| (u.wanted, u.reached)).collect::<Vec<_>>(), [(1, 0)]);
    assert!(decision.report.policies[0].supply.contains_key(&profile("7g.80gb")));
}

/// Where a GPU is emptied before it is cut, its small slices come back where they were, but not at once:
/// who waits for one of them waits for the step, and the second opinion has to see that too.
#[test]
fn who_gets_a_slice_that_is_taken_away_and_made_again_is_served_by_the_step() {
    let cut = || a100().idle("2g.20gb", 0).idle("2g.20gb", 2).idle("2g.20gb", 4);
    let busy = || a100().used("4g.40gb", 0, "trainer").used("2g.20gb", 4, "notebook");
    let inventory = fleet().node("n1", node().scope(ChangeScope::IdleGpus).gpu(cut()).gpu(busy())).build();
    let requests =
        [request("large").asks("3g.40gb", 1).build(), request("small").asks("2g.20gb", 1).since(1).build()];
    let policies = [policy("p").build()];
    let decision = plan(&inventory, &requests, &policies);
    assert_eq!(check(&decision.plan, &inventory, &requests, &policies), []);
    let step = &decision.plan.steps[0];
    assert!(step.gpus[0].after.contains(&(profile("2g.20gb"), 0)), "{step:?}");
    let names: Vec<&str> = step.serves.iter().map(|id| id.name.as_str()).collect();
    assert_eq!(names, ["large", "small"]);
}
