//! The planner's decisions, in stories: a small fleet, some requests, one policy, and the outcome that its
//! author would expect.

use mig::ProfileName;
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Hold, Inventory};
use planner::names::RequestId;
use planner::policy::{Mode, Policy};
use planner::report::{Help, Offered, Outcome, Why};
use planner::testing::{a30, a100, at, fleet, node, pod, policy, profile, request};

fn plan(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
        assert!(level.is_proven(), "{level:?}");
    }
    decision
}

/// The changes as text: `n1/0: 1g.10gb@0 3g.40gb@4`.
fn changes(decision: &Decision) -> Vec<String> {
    decision
        .plan
        .steps
        .iter()
        .flat_map(|step| step.gpus.iter().map(move |gpu| (step, gpu)))
        .map(|(step, gpu)| {
            let after: Vec<String> = gpu.after.iter().map(|(p, start)| format!("{p}@{start}")).collect();
            format!("{}/{}: {}", step.node, gpu.gpu, after.join(" "))
        })
        .collect()
}

fn outcome(decision: &Decision, name: &str) -> Outcome {
    let wanted: RequestId = request(name).build().id;
    decision.report.requests.iter().find(|r| r.id == wanted).expect("a report").outcome.clone()
}

fn is_served(decision: &Decision, name: &str) -> bool {
    !matches!(outcome(decision, name), Outcome::Unserved { .. })
}

fn unserved(decision: &Decision, name: &str) -> (Why, Vec<Help>) {
    match outcome(decision, name) {
        Outcome::Unserved { why, help } => (why, help),
        served => panic!("{name} is served: {served:?}"),
    }
}

fn level(decision: &Decision, name: &str) -> i64 {
    decision.report.certificate.iter().find(|l| l.level == name).map_or(0, |l| l.value)
}

fn planned(decision: &Decision, name: &str) -> u32 {
    let name: ProfileName = profile(name);
    decision.report.policies[0].supply.get(&name).map_or(0, |s| s.planned)
}

#[test]
fn a_slice_is_cut_beside_a_running_one() {
    let inventory = fleet().node("n1", node().gpu(a100().used("1g.10gb", 0, "busy"))).build();
    let decision = plan(&inventory, &[request("ada").asks("3g.40gb", 1).build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), ["n1/0: 1g.10gb@0 3g.40gb@4"]);
    assert!(is_served(&decision, "ada"));
}

#[test]
fn a_free_slice_is_used_and_nothing_changes() {
    let inventory = fleet().node("n1", node().gpu(a100().idle("1g.10gb", 3))).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert!(matches!(outcome(&decision, "ada"), Outcome::ServedNow { .. }));
}

#[test]
fn a_gpu_that_changes_as_a_whole_is_filled_with_what_people_ask_for() {
    let inventory =
        fleet().node("n1", node().scope(ChangeScope::IdleGpus).gpu(a100().counted("7g.80gb", 1))).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[policy("p").build()]);
    assert_eq!(planned(&decision, "1g.10gb"), 7);
    assert_eq!(decision.plan.steps[0].serves, [request("ada").build().id]);
}

#[test]
fn without_an_agent_a_gpu_is_not_filled_with_what_another_of_its_node_has() {
    // While anybody on n1 holds a 1g.10gb, no GPU of n1 that has one is idle
    // for sure. So the four compute slices beside the 3g.40gb are not covered
    // with four of them, though the policy lists nothing else.
    let menu = || policy("p").bounds("1g.10gb", 0, 0, None).bounds("3g.40gb", 0, 0, None).build();
    let ask = [request("ada").asks("3g.40gb", 1).build()];
    let counted = |beside: &str| {
        node()
            .scope(ChangeScope::IdleGpus)
            .gpu(a100().counted_used(beside, "busy"))
            .gpu(a100().counted("7g.80gb", 1))
            .allocated(beside, 1)
    };
    let with = |beside: &str| {
        let decision = plan(&fleet().node("n1", counted(beside)).build(), &ask, &[menu()]);
        changes(&decision)
    };
    assert_eq!(with("1g.10gb"), ["n1/1: 3g.40gb@0 3g.40gb@4"]);
    assert_eq!(with("2g.20gb"), ["n1/1: 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4"]);
}

#[test]
fn nobody_goes_without_and_no_gpu_more_is_cut_so_that_gpus_can_be_told_apart() {
    let three = node()
        .scope(ChangeScope::IdleGpus)
        .gpu(a100().counted_used("1g.10gb", "busy"))
        .gpu(a100().counted("7g.80gb", 1))
        .gpu(a100().counted("7g.80gb", 1))
        .allocated("1g.10gb", 1);
    let ask = [request("ada").asks("1g.10gb", 1).build(), request("eve").asks("3g.40gb", 1).build()];
    let decision = plan(&fleet().node("n1", three).build(), &ask, &[policy("p").build()]);
    assert!(is_served(&decision, "ada") && is_served(&decision, "eve"));
    assert_eq!(level(&decision, "GPUs changed"), 1);
    assert_eq!(
        level(&decision, "compute slices stranded on GPUs that change as a whole, or tied to their node"),
        2
    );
}

#[test]
fn with_an_agent_that_looks_any_profiles_share_a_gpu() {
    let seen = node()
        .scope(ChangeScope::IdleGpus)
        .gpu(a100().used("1g.10gb", 0, "busy"))
        .gpu(a100().idle("7g.80gb", 0))
        .allocated("1g.10gb", 1);
    let menu = policy("p").bounds("1g.10gb", 0, 0, None).bounds("3g.40gb", 0, 0, None).build();
    let ask = [request("ada").asks("3g.40gb", 1).build()];
    let decision = plan(&fleet().node("n1", seen).build(), &ask, &[menu]);
    assert_eq!(changes(&decision), ["n1/1: 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4"]);
}

#[test]
fn an_idle_notebook_keeps_its_slice_and_the_answer_names_it() {
    let inventory = fleet().node("n1", node().gpu(a100().used("1g.10gb", 2, "idle-notebook"))).build();
    let decision = plan(&inventory, &[request("big").asks("7g.80gb", 1).build()], &[policy("p").build()]);
    let (why, help) = unserved(&decision, "big");
    assert_eq!(why, Why::AllUsed);
    assert!(
        help.iter().any(|h| matches!(h, Help::PodEnds { pod: p, .. } if *p == pod("idle-notebook"))),
        "{help:?}"
    );
    assert!(
        help.iter().any(|h| matches!(h, Help::MoreGpus { count: 1, model } if model == "A100-80GB")),
        "{help:?}"
    );
}

#[test]
fn who_waits_is_told_what_is_free_now() {
    let with = |cpu: i64| {
        let full = a100().used("3g.40gb", 0, "busy").used("1g.10gb", 4, "small").idle("1g.10gb", 6);
        let inventory = fleet().node("n1", node().gpu(full).room(cpu, 1 << 40, 100)).build();
        let ask = request("ada").asks("3g.40gb", 1).takes(4000, 1 << 30);
        unserved(&plan(&inventory, &[ask.build()], &[policy("p").build()]), "ada").1
    };
    let free = Help::FreeNow { profile: profile("1g.10gb") };
    assert!(with(8000).contains(&free), "{:?}", with(8000));
    assert_eq!(free.to_string(), "ask for 1g.10gb instead: one is free now");
    assert!(!with(2000).contains(&free), "it has no CPU for the pod");
}

#[test]
fn only_gpus_that_can_have_the_slice_are_named_as_not_provably_idle() {
    let one = |gpu: planner::testing::GpuBuilder, slice: &str| gpu.counted_maybe(slice, 2, &["somewhere"]);
    let idle_only = || node().scope(ChangeScope::IdleGpus);
    let inventory = fleet()
        .node(
            "big",
            idle_only().gpu(one(a100(), "3g.40gb")).gpu(one(a100(), "3g.40gb")).allocated("3g.40gb", 1),
        )
        .node(
            "small",
            idle_only().gpu(one(a30(), "2g.12gb")).gpu(one(a30(), "2g.12gb")).allocated("2g.12gb", 1),
        )
        .build();
    let ask = [request("ada").asks("7g.80gb", 1).build()];
    let (why, _) = unserved(&plan(&inventory, &ask, &[policy("p").build()]), "ada");
    let Why::IdlenessNotProvable { gpus } = why else { panic!("{why:?}") };
    assert!(!gpus.is_empty(), "which GPUs these are is what somebody can look at");
    let nodes: Vec<String> = gpus.iter().map(|gpu| gpu.node.to_string()).collect();
    assert_eq!(nodes, ["big", "big"], "an A30 has no 7g.80gb");
}

/// Nobody can prove the first GPU idle. If somebody could, one of the two that
/// are wanted on one node would still be in use: that is the reason.
#[test]
fn a_gpu_that_cannot_be_proved_idle_is_no_reason_where_that_would_not_help() {
    let frozen = a100().counted_maybe("3g.40gb", 2, &["somewhere"]);
    let in_use = a100().counted_used("7g.80gb", "busy");
    let inventory = fleet()
        .node("n1", node().scope(ChangeScope::IdleGpus).gpu(frozen).gpu(in_use).allocated("3g.40gb", 1))
        .build();
    let ask = [request("two").asks("7g.80gb", 2).build()];
    let decision = plan(&inventory, &ask, &[policy("p").build()]);
    assert_eq!(decision.report.frozen_in_doubt.len(), 1);
    let (why, _) = unserved(&decision, "two");
    assert!(!matches!(why, Why::IdlenessNotProvable { .. }), "{why:?}");
}

#[test]
fn without_an_agent_a_gpu_that_may_be_in_use_is_left_alone_and_counted() {
    let two = |name: &str| a100().counted_maybe(name, 2, &["somewhere"]);
    let inventory = fleet()
        .node(
            "n1",
            node()
                .scope(ChangeScope::IdleGpus)
                .gpu(two("3g.40gb"))
                .gpu(two("3g.40gb"))
                .allocated("3g.40gb", 1),
        )
        .build();
    let ask = [request("big").asks("7g.80gb", 1).build()];
    let decision = plan(&inventory, &ask, &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert_eq!(decision.report.frozen_in_doubt.len(), 2);
    let (why, help) = unserved(&decision, "big");
    assert!(matches!(why, Why::IdlenessNotProvable { .. }), "{why:?}");
    assert!(help.iter().any(|h| matches!(h, Help::MoreGpus { .. })), "{help:?}");
    // Three of the four slices are free, whichever they are.
    let three: Vec<Request> =
        (0..4).map(|i| request(&format!("r{i}")).asks("3g.40gb", 1).since(i).build()).collect();
    let decision = plan(&inventory, &three, &[policy("p").build()]);
    let served = (0..4).filter(|i| is_served(&decision, &format!("r{i}"))).count();
    assert_eq!(served, 3);
}

/// Two ask for the same and may use no node now. Only one of them could use the cordoned node afterwards.
#[test]
fn a_cordon_that_ends_is_no_help_to_who_does_not_tolerate_the_node() {
    let ops = node()
        .taint("dedicated", "ops", "NoSchedule")
        .held(Hold::Cordoned { by: "an admin".into() })
        .unschedulable()
        .gpu(a100().idle("7g.80gb", 0))
        .gpu(a100().used("1g.10gb", 0, "busy"));
    let inventory = fleet().node("alder", ops).build();
    let ask = |name: &str| request(name).asks("1g.10gb", 1);
    let requests = [ask("stays").build(), ask("tolerates").tolerates("dedicated").since(1).build()];
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    let ends = |name| unserved(&decision, name).1.iter().any(|help| matches!(help, Help::HoldEnds { .. }));
    assert!(ends("tolerates"), "{:?}", unserved(&decision, "tolerates"));
    assert!(!ends("stays"), "{:?}", unserved(&decision, "stays"));
}

#[test]
fn a_floor_comes_before_demand_and_says_so() {
    let inventory = fleet().node("n1", node().gpu(a100())).build();
    let floor = policy("p").bounds("4g.40gb", 1, 0, None).build();
    let decision = plan(&inventory, &[request("big").asks("7g.80gb", 1).build()], &[floor]);
    assert_eq!(planned(&decision, "4g.40gb"), 1);
    let (why, help) = unserved(&decision, "big");
    assert!(
        matches!(&why, Why::PolicyForbids { field, .. } if field == "spec.layout.demandDriven.slices[4g.40gb].minCount"),
        "{why:?}"
    );
    assert!(help.iter().any(|h| matches!(h, Help::ChangePolicy { .. })), "{help:?}");
}

#[test]
fn a_floor_that_cannot_be_met_is_reported_and_met_as_far_as_possible() {
    let inventory = fleet().node("n1", node().gpu(a100().used("1g.10gb", 0, "busy"))).build();
    let floor = policy("p").bounds("3g.40gb", 2, 0, None).build();
    let decision = plan(&inventory, &[], &[floor]);
    assert_eq!(planned(&decision, "3g.40gb"), 1);
    let unmet = &decision.report.policies[0].unmet[0];
    assert_eq!((unmet.wanted, unmet.reached), (2, 1));
    assert_eq!(unmet.field, "spec.layout.demandDriven.slices[3g.40gb].minCount");
}

#[test]
fn a_spare_is_free_once_everybody_is_served() {
    let inventory = fleet().node("n1", node().gpu(a100())).build();
    let spare = policy("p").bounds("1g.10gb", 0, 2, None).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[spare]);
    assert_eq!(planned(&decision, "1g.10gb"), 3);
}

#[test]
fn a_maximum_stops_creation_and_the_answer_names_the_field() {
    let inventory = fleet().node("n1", node().gpu(a100().used("1g.10gb", 0, "busy"))).build();
    let most = policy("p").bounds("1g.10gb", 0, 0, Some(1)).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[most]);
    assert_eq!(changes(&decision), [""; 0]);
    let (why, help) = unserved(&decision, "ada");
    let field = "spec.layout.demandDriven.slices[1g.10gb].maxCount";
    assert!(matches!(&why, Why::PolicyForbids { field: f, .. } if f == field), "{why:?}");
    assert!(
        help.iter().any(|h| matches!(h, Help::ChangePolicy { to, .. } if to == "at least 2")),
        "{help:?}"
    );
}

#[test]
fn what_nobody_asked_for_becomes_whole_where_the_gpu_is_idle() {
    let inventory = fleet()
        .node(
            "n1",
            node().gpu(a100().idle("2g.20gb", 0)).gpu(a100().used("1g.10gb", 0, "busy").idle("1g.10gb", 1)),
        )
        .build();
    let decision = plan(&inventory, &[], &[policy("p").whole().build()]);
    assert_eq!(changes(&decision), ["n1/0: 7g.80gb@0"]);
}

#[test]
fn a_pod_that_asks_for_two_slices_gets_them_on_one_node() {
    let full = || a100().used("3g.40gb", 0, "busy");
    let inventory = fleet()
        .node("n1", node().gpu(full()))
        .node("n2", node().gpu(full()))
        .node("n3", node().gpu(full()).gpu(full()))
        .build();
    let decision = plan(&inventory, &[request("pair").asks("3g.40gb", 2).build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), ["n3/0: 3g.40gb@0 3g.40gb@4", "n3/1: 3g.40gb@0 3g.40gb@4"]);
}

#[test]
fn two_halves_on_two_nodes_are_no_pair() {
    let full = || a100().used("3g.40gb", 0, "busy");
    let inventory = fleet().node("n1", node().gpu(full())).node("n2", node().gpu(full())).build();
    let decision = plan(&inventory, &[request("pair").asks("3g.40gb", 2).build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert!(!is_served(&decision, "pair"));
}

#[test]
fn the_higher_priority_is_served_first_and_then_the_older() {
    let inventory = fleet().node("n1", node().gpu(a30().used("2g.12gb", 0, "busy"))).build();
    let requests = [
        request("late").asks("2g.12gb", 1).priority(0).since(50).build(),
        request("early").asks("2g.12gb", 1).priority(0).since(10).build(),
        request("urgent").asks("2g.12gb", 1).priority(100).since(90).build(),
    ];
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    assert!(is_served(&decision, "urgent"));
    let decision = plan(&inventory, &requests[..2], &[policy("p").build()]);
    assert!(is_served(&decision, "early") && !is_served(&decision, "late"));
}

#[test]
fn batch_planning_avoids_the_fragments_that_one_by_one_would_leave() {
    let inventory = fleet().node("n1", node().gpu(a100())).build();
    let requests: Vec<Request> = ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
        .iter()
        .enumerate()
        .map(|(i, p)| request(&format!("r{i}")).asks(p, 1).since(i as i64).build())
        .collect();
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    assert_eq!(level(&decision, "unserved compute slices at priority 0"), 0);
    let order = decision.plan.steps[0].gpus[0].creation_order.clone();
    assert!(order.is_some(), "the driver follows an order to every maximal layout");
}

#[test]
fn a_held_node_is_left_alone_and_its_hold_is_named() {
    let hold = Hold::CoolingDown { until: at(200_000) };
    let inventory = fleet().node("n1", node().gpu(a100()).held(hold.clone())).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
    let (why, help) = unserved(&decision, "ada");
    assert!(matches!(why, Why::Held { .. }), "{why:?}");
    assert!(help.iter().any(|h| matches!(h, Help::HoldEnds { hold: h, .. } if *h == hold)), "{help:?}");
}

#[test]
fn a_paused_policy_starts_nothing() {
    let inventory = fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0))).build();
    let paused = policy("p").mode(Mode::Paused).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[paused]);
    assert_eq!(changes(&decision), [""; 0]);
}

#[test]
fn a_static_layout_waits_for_pods_and_evicts_only_if_it_may() {
    let busy = || a100().used("7g.80gb", 0, "busy");
    let inventory = fleet().node("n1", node().scope(ChangeScope::IdleGpus).gpu(busy())).build();
    let wanted = policy("p").fixed(&[], &[("3g.40gb", 2)]);
    let decision = plan(&inventory, &[], &[wanted.build()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert_eq!(decision.report.policies[0].unmet[0].field, "spec.layout.static.gpus");
    let wanted = policy("p").fixed(&[], &[("3g.40gb", 2)]).evicts();
    let decision = plan(&inventory, &[], &[wanted.build()]);
    assert_eq!(changes(&decision), ["n1/0: 3g.40gb@0 3g.40gb@4"]);
    assert_eq!(decision.plan.steps[0].evicts, [pod("busy")]);
}

#[test]
fn mig_is_switched_on_when_nothing_uses_the_node() {
    let fresh = || node().scope(ChangeScope::IdleGpus).gpu(a100().mig_off());
    let inventory = fleet().node("n1", fresh()).build();
    let decision = plan(&inventory, &[], &[policy("p").build()]);
    assert_eq!(changes(&decision), ["n1/0: 7g.80gb@0"]);
    assert!(decision.plan.steps[0].enable_mig);
    let inventory = fleet().node("n1", node().gpu(a100().mig_off_used("training"))).build();
    let decision = plan(&inventory, &[], &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
}

#[test]
fn requests_that_nothing_can_serve_are_told_why() {
    let inventory = fleet().node("n1", node().gpu(a30())).build();
    let requests = [
        request("whole").asks_whole_gpus(1).build(),
        request("wrong").asks("1g.10gb", 1).build(),
        request("far").asks("1g.6gb", 1).selects("zone", "moon").build(),
        request("huge").asks("1g.6gb", 9).build(),
        request("stuck").asks("1g.6gb", 1).blocked_elsewhere("volume node affinity conflict").build(),
        request("never").asks("1g.6gb", 1).refused("its name is long", "shorten it").build(),
        request("unknown").refused("its profile is not there", "choose another").build(),
    ];
    let decision = plan(&inventory, &requests, &[policy("p").build()]);
    for (name, why, advice) in [
        ("never", "its name is long", "shorten it"),
        ("unknown", "its profile is not there", "choose another"),
    ] {
        let help = vec![Help::ChangeRequest { advice: advice.to_owned() }];
        assert_eq!(unserved(&decision, name), (Why::Refused { why: why.to_owned() }, help), "{name}");
    }
    assert_eq!(unserved(&decision, "whole").0, Why::WholeGpu);
    let (why, help) = unserved(&decision, "wrong");
    assert_eq!(why, Why::NoSuchProfile { profile: profile("1g.10gb") });
    assert!(matches!(&help[0], Help::ChangeRequest { advice } if advice.contains("nvidia.com/mig-1g.6gb")));
    let advice =
        "change its node selector, affinity or tolerations: node n1 has no label zone (wanted: moon)";
    let help = vec![Help::ChangeRequest { advice: advice.to_owned() }];
    assert_eq!(unserved(&decision, "far"), (Why::NoEligibleNode, help));
    assert_eq!(
        unserved(&decision, "huge").0,
        Why::TooLarge { most: 4, profile: Offered::Slice(profile("1g.6gb")) }
    );
    assert!(matches!(unserved(&decision, "stuck").0, Why::BlockedElsewhere { .. }));
}

#[test]
fn nothing_is_cut_for_who_cannot_start() {
    let inventory = fleet().node("n1", node().gpu(a30().idle("4g.24gb", 0))).build();
    let asks = || request("never").asks("1g.6gb", 1);
    let decision = plan(&inventory, &[asks().build()], &[policy("p").build()]);
    assert_eq!(changes(&decision), ["n1/0: 1g.6gb@0"]);
    let refused = asks().refused("its name is long", "shorten it").build();
    let decision = plan(&inventory, &[refused], &[policy("p").build()]);
    assert_eq!(changes(&decision), [""; 0]);
}

#[test]
fn two_models_with_one_profile_name_serve_the_same_request() {
    // On the A100-40GB, 1g.10gb is the slice with double memory.
    let inventory = fleet()
        .node("big", node().gpu(a100().used("7g.80gb", 0, "busy")))
        .node("small", node().gpu(planner::testing::a100_40()))
        .build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[policy("p").build()]);
    match outcome(&decision, "ada") {
        Outcome::ServedByPlan { node, gpus } => {
            assert_eq!(node.0, "small");
            assert_eq!(gpus[0].1, "A100-40GB");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn planning_the_same_twice_gives_the_same_bytes() {
    let inventory = fleet()
        .node("n1", node().gpu(a100()).gpu(a100().used("1g.10gb", 1, "x")))
        .node("n2", node().gpu(a30()).gpu(a30()))
        .build();
    let mut requests: Vec<Request> = ["1g.10gb", "2g.20gb", "1g.6gb", "2g.12gb", "3g.40gb"]
        .iter()
        .enumerate()
        .map(|(i, p)| request(&format!("r{i}")).asks(p, 1).since(i as i64).build())
        .collect();
    let policies = [policy("p").build()];
    let first = serde_json::to_string(&plan(&inventory, &requests, &policies).report).unwrap();
    requests.reverse();
    let second = serde_json::to_string(&plan(&inventory, &requests, &policies).report).unwrap();
    assert_eq!(first, second);
}

#[test]
fn an_evicting_layout_evicts_only_whom_it_must_and_gives_nobody_a_held_slice() {
    // Three 1g are wanted; one is there and held. It can stay where it is.
    let inventory =
        fleet().node("n1", node().gpu(a100().used("1g.10gb", 0, "busy").used("2g.20gb", 4, "gone"))).build();
    let wanted = policy("p").fixed(&[], &[("1g.10gb", 3)]).evicts().build();
    let asks: Vec<Request> =
        (0..3).map(|i| request(&format!("r{i}")).asks("1g.10gb", 1).since(i).build()).collect();
    let decision = plan(&inventory, &asks, &[wanted]);
    assert_eq!(decision.plan.steps[0].evicts, [pod("gone")]);
    let kept = decision.plan.steps[0].gpus[0].after.contains(&(profile("1g.10gb"), 0));
    assert!(kept, "{:?}", changes(&decision));
    let served = (0..3).filter(|i| is_served(&decision, &format!("r{i}"))).count();
    assert_eq!(served, 2, "the third slice is held");
}

#[test]
fn a_gpu_that_is_used_without_mig_is_waited_for_by_name() {
    let inventory = fleet().node("n1", node().gpu(a100().mig_off_used("training"))).build();
    let decision = plan(&inventory, &[request("ada").asks("1g.10gb", 1).build()], &[policy("p").build()]);
    let (_, help) = unserved(&decision, "ada");
    let waits = |h: &Help| matches!(h, Help::PodEnds { pod: p, .. } if *p == pod("training"));
    assert!(help.iter().any(waits), "{help:?}");
}

/// Eight GPUs on each of two nodes, and somebody on every one of the first: more nodes have other disks.
#[test]
fn more_gpus_are_no_advice_to_who_is_bound_to_a_node_by_its_name() {
    let eight = |used: bool, name: &str| {
        let gpu = || if used { a100().used("7g.80gb", 0, "holder") } else { a100().idle("7g.80gb", 0) };
        (0..8).fold(node().label("host", name), |node, _| node.gpu(gpu()))
    };
    let inventory = fleet().node("n1", eight(true, "n1")).node("n2", eight(false, "n2")).build();
    let policies = [policy("lab").build()];
    let help = |request: planner::testing::RequestBuilder| {
        let decision = decide(&inventory, &[request.asks("1g.10gb", 1).build()], &policies);
        match &decision.report.requests[0].outcome {
            Outcome::Unserved { help, .. } => help.clone(),
            served => panic!("{served:?}"),
        }
    };
    let is_more = |help: &Help| matches!(help, Help::MoreGpus { .. });
    let bound = help(request("lab").volume("data", "host", &["n1"]));
    assert!(!bound.is_empty() && !bound.iter().any(is_more), "{bound:?}");
    assert!(!help(request("lab").selects("host", "n1")).iter().any(is_more));
    // A new node of the same zone could have the disk.
    let zoned = |inventory: &Inventory| {
        let mut inventory = inventory.clone();
        let zone = |(name, node): (&planner::names::NodeName, &mut planner::inventory::Node)| {
            let zone = if name.0 == "n1" { "a" } else { "b" };
            node.labels.insert("zone".to_owned(), zone.to_owned());
        };
        inventory.nodes.iter_mut().for_each(zone);
        inventory
    };
    let inventory = zoned(&inventory);
    let request = request("lab").asks("1g.10gb", 1).volume("data", "zone", &["a"]).build();
    let decision = decide(&inventory, &[request], &policies);
    let Outcome::Unserved { help, .. } = &decision.report.requests[0].outcome else { panic!("all are used") };
    assert!(help.iter().any(is_more), "{help:?}");
}

/// Two pools: one is cut as its policy says, the other follows demand. A 3g.40gb is something that only the second can
/// have, so whoever waits for one is no demand of the first, whose people would otherwise read that somebody is unserved.
#[test]
fn who_waits_is_counted_for_the_policies_that_may_serve_it_and_for_no_other() {
    let pool = |name: &str, gpu: fn() -> planner::testing::GpuBuilder| {
        (0..8).fold(node().label("pool", name), |node, _| node.gpu(gpu()))
    };
    let inventory = fleet()
        .node("cut-1", pool("cut", || a100().counted("1g.10gb", 7)))
        .node("cut-2", pool("cut", || a100().counted("1g.10gb", 7)))
        .node("free-1", pool("free", || a100().counted_used("7g.80gb", "trainer")))
        .build();
    let policies = [
        policy("courses").pool("cut").fixed(&[], &[("1g.10gb", 7)]).build(),
        policy("research").pool("free").bounds("3g.40gb", 0, 0, None).build(),
    ];
    let decision = plan(&inventory, &[request("ada").asks("3g.40gb", 1).build()], &policies);
    let asked = |policy: usize| {
        let supply = decision.report.policies[policy].supply.get(&profile("3g.40gb"));
        supply.map_or((0, 0), |supply| (supply.requested, supply.unserved))
    };
    assert!(!is_served(&decision, "ada"), "a trainer holds every GPU that follows demand");
    assert_eq!(asked(0), (0, 0), "the static pool cannot have it");
    assert_eq!(asked(1), (1, 1));
    // Where no policy may serve it, it counts for the one whose cards could: somebody has to answer.
    let decision = plan(&inventory, &[request("ada").asks("3g.40gb", 1).build()], &policies[..1]);
    let supply = decision.report.policies[0].supply[&profile("3g.40gb")];
    assert_eq!((supply.requested, supply.unserved), (1, 1));
}
