//! Whole GPUs on demand: who asks for `nvidia.com/gpu` is served by GPUs with MIG off, planned with slices.

use planner::check::{check, check_certificate};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{ChangeScope, Inventory};
use planner::names::NodeName;
use planner::policy::Policy;
use planner::report::{Help, Outcome, Supply, Why};
use planner::testing::{GpuBuilder, NodeBuilder, PolicyBuilder, RequestBuilder};
use planner::testing::{a30, a100, fleet, node, pod, policy, request};

use crate::oracle::help::doubts;
use crate::oracle::world::World;

/// What is decided, which the checker finds nothing wrong with, and which is proved.
fn plan(inventory: &Inventory, requests: &[RequestBuilder], policies: &[PolicyBuilder]) -> Decision {
    let requests: Vec<Request> = requests.iter().map(|request| request.clone().build()).collect();
    let policies: Vec<Policy> = policies.iter().map(|policy| policy.clone().build()).collect();
    let decision = decide(inventory, &requests, &policies);
    assert_eq!(check(&decision.plan, inventory, &requests, &policies), []);
    assert_eq!(check_certificate(&decision.plan, inventory, &decision.report.certificate), []);
    for level in decision.report.certificate.iter().filter(|level| level.level != "nodes touched") {
        assert!(level.is_proven(), "{level:?}");
    }
    decision
}

/// The changes as they are announced.
fn changes(decision: &Decision) -> Vec<String> {
    let steps = decision.plan.steps.iter();
    steps.flat_map(|step| step.gpus.iter().map(move |gpu| format!("{}/{gpu}", step.node))).collect()
}

fn outcome<'d>(decision: &'d Decision, name: &str) -> &'d Outcome {
    let of = |report: &&planner::report::RequestReport| report.id.name == name;
    &decision.report.requests.iter().find(of).expect("every request has an answer").outcome
}

fn why(decision: &Decision, name: &str) -> Why {
    match outcome(decision, name) {
        Outcome::Unserved { why, .. } => why.clone(),
        served => panic!("{served}"),
    }
}

/// The node on which a request is served, and whether the node has to change for it.
fn served(decision: &Decision, name: &str) -> (String, bool) {
    match outcome(decision, name) {
        Outcome::ServedNow { node: NodeName(node), .. } => (node.clone(), false),
        Outcome::ServedByPlan { node: NodeName(node), .. } => (node.clone(), true),
        unserved @ Outcome::Unserved { .. } => panic!("{name}: {unserved}"),
    }
}

/// GPUs that are changed one by one when they are idle, as the GPU Operator does.
fn server(gpus: impl IntoIterator<Item = GpuBuilder>) -> NodeBuilder {
    gpus.into_iter().fold(node().scope(ChangeScope::IdleGpus), NodeBuilder::gpu)
}

fn cut() -> GpuBuilder {
    a100().counted("1g.10gb", 7)
}

fn with_notebook(name: &str) -> GpuBuilder {
    a100().counted_used("1g.10gb", name).counted("1g.10gb", 6)
}

/// Eight cut GPUs, of which a notebook is on the last.
fn busy(name: &str) -> NodeBuilder {
    server((0..7).map(|_| cut()).chain([with_notebook(name)]))
}

fn idle() -> NodeBuilder {
    server((0..8).map(|_| cut()))
}

/// Two whole GPUs, held by a pod or free, beside six that are cut; a notebook is on the last.
fn half(first: [GpuBuilder; 2], held: u32) -> NodeBuilder {
    let cut = (0..5).map(|_| cut()).chain([with_notebook("student")]);
    server(first.into_iter().chain(cut)).whole_held(held)
}

fn off() -> GpuBuilder {
    a100().mig_off()
}

/// Who asks for whole GPUs gets them.
fn research() -> PolicyBuilder {
    policy("research").whole_gpus(0, 0, None)
}

fn supply(decision: &Decision) -> Supply {
    decision.report.policies[0].whole_gpus.expect("the policy offers whole GPUs")
}

#[test]
fn whole_gpus_that_are_there_and_free_serve_without_any_change() {
    let inventory = fleet().node("n1", idle()).node("n2", half([off(), off()], 0)).build();
    let decision = plan(&inventory, &[request("train").asks_whole_gpus(2)], &[research()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert_eq!(served(&decision, "train"), ("n2".to_owned(), false));
    assert_eq!(
        outcome(&decision, "train").to_string(),
        "served now by n2: n2/gpu0 (A100-80GB) as a whole, n2/gpu1 (A100-80GB) as a whole"
    );
    let expect = Supply { attainable: 10, present: 2, planned: 2, requested: 2, ..Supply::default() };
    assert_eq!(supply(&decision), expect);
}

#[test]
fn an_idle_node_is_switched_where_the_others_have_somebody_and_the_rest_of_it_stays_cut() {
    let training = || a100().mig_off_used("trainer");
    let inventory = fleet()
        .node("n1", busy("notebook"))
        .node("n2", idle())
        .node("n3", half([training(), training()], 2))
        .build();
    let asks = [request("train").asks_whole_gpus(2), request("lab").asks("1g.10gb", 1)];
    let decision = plan(&inventory, &asks, &[research()]);
    assert_eq!(
        changes(&decision),
        ["n2/gpu0 (A100-80GB): 7 x 1g.10gb -> MIG off", "n2/gpu1 (A100-80GB): 7 x 1g.10gb -> MIG off"]
    );
    let [step] = decision.plan.steps.as_slice() else { panic!("one node changes") };
    assert!(step.switches_mig() && !step.enable_mig && step.evicts.is_empty());
    assert_eq!(served(&decision, "train"), ("n2".to_owned(), true));
    assert!(!served(&decision, "lab").1, "a slice is free somewhere");
    let expect =
        Supply { attainable: 10, present: 2, allocated: 2, planned: 4, requested: 2, ..Supply::default() };
    assert_eq!(supply(&decision), expect);
}

/// All on one node: two idle nodes with one GPU each are no node with two.
#[test]
fn several_whole_gpus_are_of_one_node() {
    let inventory = fleet().node("n1", server([cut()])).node("n2", server([cut()])).build();
    let decision = plan(&inventory, &[request("train").asks_whole_gpus(2)], &[research()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert_eq!(
        outcome(&decision, "train").to_string(),
        "not served: it asks for more whole GPUs than one node can have, which is 1. What would help: ask for at most 1 of nvidia.com/gpu"
    );
}

/// Whoever holds anything of a node keeps it: the node is not switched, in neither direction.
#[test]
fn nothing_of_a_node_is_switched_while_a_pod_holds_anything_of_it() {
    let whole_and_busy = half([off(), a100().mig_off_used("trainer")], 1);
    let inventory = fleet().node("n1", busy("notebook")).node("n2", whole_and_busy).build();
    for policy in [research(), research().evicts()] {
        let decision =
            plan(&inventory, &[request("train").asks_whole_gpus(2)], std::slice::from_ref(&policy));
        assert_eq!(changes(&decision), [""; 0]);
        assert_eq!(why(&decision, "train"), Why::NoIdleNode);
        let Outcome::Unserved { help, .. } = outcome(&decision, "train") else { panic!("{decision:?}") };
        let ends = |help: &Help| matches!(help, Help::PodEnds { pod: who, .. } if *who == pod("notebook"));
        assert!(help.iter().any(ends), "{help:?}");
        // Nor is the free whole GPU cut beside the others of its node.
        let decision = plan(&inventory, &[request("lab").asks("7g.80gb", 1)], &[policy]);
        assert_eq!(served(&decision, "lab").0, "n1");
    }
}

/// A pod that may hold one of two whole GPUs leaves the other one free, although nobody can say which.
#[test]
fn of_whole_gpus_that_may_be_held_so_many_are_free_as_are_not_held() {
    let maybe = || a100().mig_off_maybe("trainer");
    let inventory = fleet().node("n1", half([maybe(), maybe()], 1)).node("n2", busy("notebook")).build();
    let asks = [request("first").asks_whole_gpus(1).since(1), request("second").asks_whole_gpus(1).since(2)];
    let decision = plan(&inventory, &asks, &[research()]);
    assert_eq!(served(&decision, "first"), ("n1".to_owned(), false));
    assert_eq!(why(&decision, "second"), Why::NoIdleNode);
    assert_eq!((supply(&decision).allocated, supply(&decision).unserved), (1, 1));
}

/// A whole GPU weighs as many compute slices as the card has: six for slices are less, eight are more.
/// A pod holds one of two GPUs, and nobody sees which. The other one is the spare, also while nobody asks: the
/// idle node beside is not switched for it.
#[test]
fn a_spare_whole_gpu_that_is_there_is_enough_while_nobody_asks() {
    let may = || a100().mig_off_maybe("train");
    let inventory = fleet().node("n1", server([may(), may()]).whole_held(1)).node("n2", idle()).build();
    let decision = plan(&inventory, &[], &[policy("research").whole_gpus(0, 1, None)]);
    assert_eq!(changes(&decision), [""; 0]);
    let decision = plan(&inventory, &[], &[policy("research").whole_gpus(0, 2, None)]);
    assert_eq!(decision.plan.steps[0].node.0, "n2");
}

#[test]
fn a_whole_gpu_and_seven_slices_are_equals() {
    let inventory = fleet().node("n1", server([cut()])).node("n2", busy("student")).build();
    let only_n1 = |request: RequestBuilder| request.selects("kubernetes.io/hostname", "n1");
    let inventory = {
        let mut inventory = inventory;
        for (name, node) in &mut inventory.nodes {
            node.labels.insert("kubernetes.io/hostname".to_owned(), name.0.clone());
        }
        inventory
    };
    let unserved = |slices: u32, whole_first: bool| {
        let age = |i: u32| i64::from(i) + 10;
        let labs =
            (0..slices).map(|i| only_n1(request(&format!("lab-{i}")).asks("1g.10gb", 1).since(age(i))));
        let since = if whole_first { 0 } else { 100 };
        let train = only_n1(request("train").asks_whole_gpus(1).since(since));
        let decision = plan(&inventory, &labs.chain([train]).collect::<Vec<_>>(), &[research()]);
        let is_unserved = matches!(outcome(&decision, "train"), Outcome::Unserved { .. });
        let level = |level: &&planner::report::LevelCertificate| level.level.starts_with("unserved");
        (decision.report.certificate.iter().find(level).expect("somebody asks").value, is_unserved)
    };
    assert_eq!(unserved(6, false), (6, false));
    assert_eq!(unserved(7, false), (7, true), "of equals, those who wait longest together");
    let two = fleet().node("n1", server([a30().counted("1g.6gb", 4)])).build();
    let labs: Vec<RequestBuilder> = (0..3).map(|i| request(&format!("lab-{i}")).asks("1g.6gb", 1)).collect();
    let all: Vec<RequestBuilder> = labs.into_iter().chain([request("train").asks_whole_gpus(1)]).collect();
    let decision = plan(&two, &all, &[research()]);
    assert!(served(&decision, "train").1, "an A30 has four, which are more than three");
}

#[test]
fn floors_spares_and_maxima_count_gpus_with_mig_off() {
    let inventory = fleet().node("n1", idle()).node("n2", busy("notebook")).build();
    let two = plan(&inventory, &[], &[policy("research").whole_gpus(2, 0, None)]);
    assert_eq!(changes(&two).len(), 2);
    let spare = [policy("research").whole_gpus(0, 1, None)];
    let with_spare = plan(&inventory, &[request("train").asks_whole_gpus(2)], &spare);
    assert_eq!((changes(&with_spare).len(), supply(&with_spare).planned), (3, 3));
    // Nine cannot be had, and that is said.
    let nine = plan(&inventory, &[], &[policy("research").whole_gpus(9, 0, None)]);
    let unmet: Vec<_> = nine.report.policies[0].unmet.iter().map(|u| (u.field.as_str(), u.reached)).collect();
    assert_eq!(unmet, [("spec.layout.demandDriven.wholeGpus.minCount", 8)]);
    // No more than the maximum, and the field is named with what would do.
    let at_most = [policy("research").whole_gpus(0, 0, Some(1))];
    let decision = plan(&inventory, &[request("train").asks_whole_gpus(2)], &at_most);
    assert_eq!(changes(&decision), [""; 0]);
    let field = "spec.layout.demandDriven.wholeGpus.maxCount".to_owned();
    assert_eq!(why(&decision, "train"), Why::PolicyForbids { policy: "research".into(), field });
    let Outcome::Unserved { help, .. } = outcome(&decision, "train") else { panic!("{decision:?}") };
    assert!(help[0].to_string().ends_with("set spec.layout.demandDriven.wholeGpus.maxCount to at least 2"));
    let none = plan(&inventory, &[], &[policy("research").whole_gpus(0, 0, Some(0))]);
    assert_eq!(changes(&none), [""; 0]);
}

/// What became whole stays so until somebody asks for slices, and then waits for its node to be idle.
#[test]
fn whole_gpus_are_cut_again_for_who_asks_for_slices_once_their_node_is_idle() {
    let full = || a100().counted_used("7g.80gb", "student");
    let node = |first: GpuBuilder, second: GpuBuilder, held: u32| {
        server([first, second].into_iter().chain((0..6).map(|_| cut()))).whole_held(held)
    };
    let free = fleet().node("n1", node(off(), off(), 0)).node("n2", server([full(), full()])).build();
    assert_eq!(changes(&plan(&free, &[], &[research()])), [""; 0], "nobody asks for anything");
    let labs: Vec<RequestBuilder> = (0..8).map(|i| request(&format!("lab-{i}")).asks("7g.80gb", 1)).collect();
    let decision = plan(&free, &labs, &[research()]);
    assert_eq!(changes(&decision).len(), 8);
    assert!(decision.plan.steps[0].enable_mig);
    // One of the two is in use: neither is cut, and the six others are.
    let used = fleet().node("n1", node(a100().mig_off_used("trainer"), off(), 1)).build();
    let decision = plan(&used, &labs, &[research()]);
    assert_eq!(changes(&decision).len(), 6);
    assert!(!decision.plan.steps[0].switches_mig());
    assert_eq!(supply(&decision).planned, 2);
    // Without `wholeGpus`, MIG off is no state to stay in.
    assert_eq!(changes(&plan(&free, &[], &[policy("research")])).len(), 2);
}

#[test]
fn who_asks_where_nobody_offers_whole_gpus_is_told_so_and_nothing_changes() {
    let inventory = fleet().node("n1", idle()).node("n2", idle().label("pool", "annex")).build();
    let train = || request("train").asks_whole_gpus(1);
    let on_annex = || train().selects("pool", "annex");
    let policies = [research(), policy("annex").pool("annex")];
    for (asks, policies, expect) in [
        (train(), vec![policy("research")], Why::WholeGpu),
        (on_annex(), policies.to_vec(), Why::WholeGpu),
        // Nothing is planned for a pod that asks for both.
        (train().asks("1g.10gb", 1), policies.to_vec(), Why::WholeGpu),
        (train().finds("t4-1"), policies.to_vec(), Why::Elsewhere { node: "t4-1".into() }),
    ] {
        let decision = plan(&inventory, &[asks], &policies);
        assert_eq!(changes(&decision), [""; 0]);
        assert_eq!(why(&decision, "train"), expect);
    }
    assert_eq!(served(&plan(&inventory, &[train()], &policies), "train"), ("n1".to_owned(), true));
    // Under `single`, nvidia.com/gpu is a slice; an agent does not switch MIG.
    let single = || idle().single_strategy();
    let agents = || node().gpu(a100().idle("7g.80gb", 0));
    for other in [single(), agents()] {
        let inventory = fleet().node("n1", other).node("n2", busy("notebook")).build();
        let decision = plan(&inventory, &[train()], &[research()]);
        assert_eq!(changes(&decision), [""; 0]);
        assert_eq!(why(&decision, "train"), Why::NoIdleNode);
    }
}

/// GPUs with MIG off of nodes that no policy has serve, and are nobody's to change.
#[test]
fn whole_gpus_of_nodes_without_a_policy_serve_first() {
    let elsewhere = server([off(), off()]).label("pool", "none");
    let inventory = fleet().node("n1", idle()).node("n2", elsewhere).build();
    let decision = plan(&inventory, &[request("train").asks_whole_gpus(2)], &[research()]);
    assert_eq!(changes(&decision), [""; 0]);
    assert_eq!(served(&decision, "train"), ("n2".to_owned(), false));
}

#[test]
fn what_was_promised_of_whole_gpus_is_kept() {
    let inventory = fleet().node("n1", half([off(), off()], 0)).node("n2", busy("notebook")).build();
    let promised = request("first").asks_whole_gpus(2).since(5).promised("n1");
    let asks = [promised, request("older").asks_whole_gpus(1).since(1)];
    let decision = plan(&inventory, &asks, &[research()]);
    assert_eq!(served(&decision, "first"), ("n1".to_owned(), false));
    assert_eq!(why(&decision, "older"), Why::NoIdleNode);
    assert_eq!((supply(&decision).requested, supply(&decision).allocated), (3, 0));
}

/// The checker has a rule of its own for each of these.
#[test]
fn a_plan_that_switches_mig_off_for_who_asks_is_refused_where_it_may_not() {
    let inventory = fleet().node("n1", idle()).build();
    let requests = [request("train").asks_whole_gpus(2).build()];
    let sound = plan(&inventory, &[request("train").asks_whole_gpus(2)], &[research()]).plan;
    let refused = |inventory: &Inventory, requests: &[Request], policy: PolicyBuilder| -> Vec<String> {
        check(&sound, inventory, requests, &[policy.build()]).iter().map(ToString::to_string).collect()
    };
    let without = refused(&inventory, &requests, policy("research"));
    assert_eq!(without[0], "fatal: n1/gpu0: the target has no slice");
    assert_eq!(without[2], "fatal: n1: Pod lab/train asks for whole GPUs, which it may not get there");
    assert_eq!(
        refused(&inventory, &requests, policy("research").whole_gpus(0, 0, Some(1))),
        ["fatal: policy research allows 1 of gpu, but there would be 2"]
    );
    let mut busy = inventory.clone();
    let last = planner::names::GpuIndex(7);
    busy.nodes.values_mut().next().unwrap().gpus.insert(last, with_notebook("notebook").build());
    for policy in [research(), research().evicts()] {
        assert_eq!(
            refused(&busy, &requests, policy),
            ["fatal: n1: the actuator needs gpu7 idle, and lab/notebook may hold a slice of it"]
        );
    }
    let mut agents = inventory.clone();
    agents.nodes.values_mut().next().unwrap().scope = ChangeScope::SliceBySlice;
    assert_eq!(
        refused(&agents, &requests, research())[0],
        "fatal: n1/gpu0: MIG would be switched off, which an agent does not do"
    );
    let three = [request("train").asks_whole_gpus(3).build()];
    assert_eq!(
        refused(&inventory, &three, research()),
        ["fatal: n1: its requests need 3 of gpu, but only 2 will be free"]
    );
    let found = [request("train").asks_whole_gpus(2).finds("t4-1").build()];
    assert_eq!(
        refused(&inventory, &found, research()),
        ["fatal: n1: Pod lab/train asks for whole GPUs, which it may not get there"]
    );
    // Nobody is evicted so that MIG goes on where whole GPUs are offered.
    let off = fleet().node("n1", server([off(), a100().mig_off_used("trainer")])).build();
    let onboarding = decide(&off, &[], &[policy("research").evicts().build()]).plan;
    assert_eq!(onboarding.steps[0].evicts, [pod("trainer")]);
    let notes = check(&onboarding, &off, &[], &[research().evicts().build()]);
    assert!(
        notes.iter().any(|n| n.to_string() == "fatal: n1: lab/trainer may not be evicted by this policy"),
        "{notes:?}"
    );
}

/// A large fleet whose nodes are all looked at one by one: the plan is sound, what is proved of it is near, and
/// whoever is served has all of its GPUs on one node.
#[test]
fn a_pool_of_many_nodes_is_shared_between_whole_gpus_and_slices() {
    let mut nodes = fleet();
    for i in 0..24 {
        let node = match i % 3 {
            0 => busy(&format!("notebook-{i}")),
            1 => half([a100().mig_off_used("trainer"), off()], 1),
            _ => idle(),
        };
        nodes = nodes.node(&format!("n{i:02}"), node);
    }
    let inventory = nodes.build();
    let whole = (0..30).map(|i| {
        let gpus = [1, 2, 4, 8, 1, 2][i % 6];
        request(&format!("train-{i}")).asks_whole_gpus(gpus).since(i64::try_from(i).expect("few")).build()
    });
    let slices = (0..40).map(|i| {
        let profile = ["3g.40gb", "2g.20gb"][i % 2];
        request(&format!("lab-{i}")).asks(profile, 1).since(i64::try_from(i).expect("few")).build()
    });
    let requests: Vec<Request> = whole.chain(slices).collect();
    let policies = [research().build()];
    let Decision { plan, report } = decide(&inventory, &requests, &policies);
    assert_eq!(check(&plan, &inventory, &requests, &policies), []);
    assert_eq!(check_certificate(&plan, &inventory, &report.certificate), []);
    let level = |level: &&planner::report::LevelCertificate| level.level.starts_with("unserved");
    let unserved = report.certificate.iter().find(level).expect("somebody asks");
    assert!(unserved.value - unserved.bound <= 14, "{unserved:?}");
    let mut given = 0;
    for report in &report.requests {
        if let Outcome::ServedNow { node, gpus } | Outcome::ServedByPlan { node, gpus } = &report.outcome {
            assert!(gpus.iter().all(|(gpu, _, _)| gpu.node == *node), "{report:?}");
            given += gpus.iter().filter(|(_, _, offered)| offered.slice().is_none()).count();
        }
    }
    // Eight GPUs of each of eight idle nodes, and one that is free on each of eight others.
    assert!((50..=72).contains(&given), "{given} whole GPUs");
}

/// Nothing is planned for the trainer, since no node has the memory for it. A node that comes has it, and then the
/// trainer comes first: so one GPU more serves nobody who asks for a slice, and the second one does.
#[test]
fn who_needs_more_gpus_is_told_of_those_too_that_go_to_somebody_for_whom_there_is_no_room_now() {
    let full = (0..8).map(|i| a100().counted_used("7g.80gb", &format!("holder-{i}")));
    let inventory = fleet().node("n1", server(full).room(0, 0, 9)).build();
    let requests = [
        request("trainer").asks_whole_gpus(1).takes(0, 1 << 30).since(0),
        request("student").asks("1g.10gb", 1).since(1),
    ];
    let policies = [policy("p").whole_gpus(0, 0, None)];
    let decision = plan(&inventory, &requests, &policies);
    assert!(matches!(outcome(&decision, "trainer"), Outcome::Unserved { .. }));
    let Outcome::Unserved { help, .. } = outcome(&decision, "student") else { panic!("{decision:?}") };
    assert!(help.contains(&Help::MoreGpus { count: 2, model: "A100-80GB".to_owned() }), "{help:?}");
    let requests = requests.map(RequestBuilder::build).to_vec();
    let world = World { inventory, requests, policies: policies.map(PolicyBuilder::build).to_vec() };
    assert_eq!(doubts(&world), Vec::<String>::new());
}
