//! Why somebody waits, and what would help: what is told has to be so.

use planner::decide::decide;
use planner::demand::Request;
use planner::policy::Mode;
use planner::report::{Help, Offered, Outcome, Why};
use planner::testing::{
    FleetBuilder, NodeBuilder, PolicyBuilder, a30, a100, fleet, node, pod, policy, profile, request,
};

/// What the last of those who wait is told.
fn last(fleet: FleetBuilder, asking: &[Request], policy: PolicyBuilder) -> (Why, Vec<Help>) {
    let report = decide(&fleet.build(), asking, &[policy.build()]).report;
    match report.requests.into_iter().next_back().map(|request| request.outcome) {
        Some(Outcome::Unserved { why, help }) => (why, help),
        other => panic!("it is not to be served: {other:?}"),
    }
}

/// So many pods that ask for the same, oldest first.
fn ask(n: i64, name: &str) -> Vec<Request> {
    (0..n).map(|i| request(&format!("p{i}")).asks(name, 1).since(i).build()).collect()
}

#[test]
fn what_is_planned_for_who_comes_first_is_not_free_in_pieces() {
    let one = || fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0)));
    assert_eq!(last(one(), &ask(2, "7g.80gb"), policy("research")).0, Why::AllUsed);
    assert_eq!(last(one(), &ask(8, "1g.10gb"), policy("research")).0, Why::AllUsed);
}

#[test]
fn what_is_free_on_several_gpus_cannot_be_joined() {
    let used = |by: &str| node().gpu(a100().used("1g.10gb", 0, by));
    let two = fleet().node("n1", used("a")).node("n2", used("b"));
    assert_eq!(last(two, &ask(1, "7g.80gb"), policy("research")).0, Why::Fragmented);
}

#[test]
fn more_than_a_node_has_at_once_is_told_as_that_whether_or_not_gpus_are_idle() {
    let both = |first: &str, second: &str| [request("p").asks(first, 1).asks(second, 1).build()];
    let one = fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0)));
    let (why, help) = last(one, &both("7g.80gb", "1g.10gb"), policy("research"));
    let slices = vec![(profile("1g.10gb"), 1), (profile("7g.80gb"), 1)];
    assert_eq!(why, Why::NeverTogether { slices });
    assert!(matches!(&help[..], [Help::ChangeRequest { .. }]), "{help:?}");
    // On two GPUs it has both.
    let two = node().gpu(a100().idle("7g.80gb", 0)).gpu(a100().used("7g.80gb", 0, "a"));
    let (why, _) = last(fleet().node("n1", two), &both("7g.80gb", "1g.10gb"), policy("research"));
    assert_ne!(why.to_string(), "", "{why:?}");
    assert!(!matches!(why, Why::NeverTogether { .. }), "{why:?}");
    // Two models have one each, and no node has both.
    let mixed = fleet()
        .node("n1", node().gpu(a100().idle("7g.80gb", 0)))
        .node("n2", node().gpu(a30().idle("4g.24gb", 0)));
    let (why, _) = last(mixed, &both("1g.10gb", "1g.6gb"), policy("research"));
    assert!(matches!(why, Why::NeverTogether { .. }), "{why:?}");
}

#[test]
fn a_policy_that_is_paused_is_what_stands_in_the_way() {
    let one = fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0)));
    let (why, help) = last(one, &ask(1, "1g.10gb"), policy("research").mode(Mode::Paused));
    let (policy, field) = ("research".into(), "spec.mode".to_owned());
    assert_eq!(why, Why::PolicyForbids { policy, field: field.clone() });
    let change = Help::ChangePolicy { policy: "research".into(), field, to: "Enforce".to_owned() };
    assert!(help.contains(&change), "{help:?}");
}

#[test]
fn the_end_of_a_pod_helps_only_where_it_is_known_which_slice_it_has() {
    let two = node().gpu(a100().counted_used("7g.80gb", "a")).gpu(a100().counted_used("7g.80gb", "b"));
    let (_, help) = last(fleet().node("n1", two), &ask(1, "1g.10gb"), policy("research"));
    assert!(!help.iter().any(|help| matches!(help, Help::PodEnds { .. })), "{help:?}");
    let ends = |help: &[Help]| {
        help.iter().any(|help| matches!(help, Help::PodEnds { pod: of, .. } if *of == pod("a")))
    };
    // Of one GPU there is no other slice; and one of the same profile is free whichever it is.
    let one = fleet().node("n1", node().gpu(a100().counted_used("7g.80gb", "a")));
    let (_, help) = last(one, &ask(1, "1g.10gb"), policy("research"));
    assert!(ends(&help), "{help:?}");
    let two = node().gpu(a100().counted_used("7g.80gb", "a")).gpu(a100().counted_used("7g.80gb", "b"));
    let (_, help) = last(fleet().node("n1", two), &ask(1, "7g.80gb"), policy("research"));
    assert!(ends(&help), "{help:?}");
}

/// What each of them is told, by name.
fn each(fleet: FleetBuilder, asking: &[Request], policy: PolicyBuilder) -> Vec<(String, String)> {
    let report = decide(&fleet.build(), asking, &[policy.build()]).report;
    report.requests.into_iter().map(|told| (told.id.name, told.outcome.to_string())).collect()
}

#[test]
fn who_may_use_no_node_is_told_of_their_own_obstacle_and_of_nobody_elses() {
    let asks = |name: &str| request(name).asks("1g.10gb", 1);
    let asking = [
        asks("lab/a").selects("team", "x").build(),
        asks("lab/b").takes(40_000, 0).build(),
        asks("other/c").build(),
    ];
    let one = node().room(32_000, 1 << 40, 100).gpu(a100().idle("7g.80gb", 0));
    let told = each(fleet().node("n1", one), &asking, policy("research").namespace("lab"));
    let [(_, of_a), (_, of_b), (_, of_c)] = &told[..] else { panic!("{told:?}") };
    assert!(of_a.contains("team (wanted: x)"), "{of_a}");
    assert!(of_b.contains("CPU") && !of_b.contains("team"), "{of_b}");
    assert!(of_c.contains("no policy covers its namespace"), "{of_c}");
}

#[test]
fn of_a_policy_that_makes_no_sense_it_is_not_said_that_its_mode_is_the_obstacle() {
    let one = fleet().node("n1", node().gpu(a100().idle("7g.80gb", 0)));
    let (why, help) = last(one, &ask(1, "1g.10gb"), policy("research").mode(Mode::Invalid));
    assert_eq!(why.to_string(), "policy research does not allow it (spec)");
    let said: Vec<String> = help.iter().map(ToString::to_string).collect();
    assert!(
        said.contains(&"policy research: set spec to what its condition Accepted asks for".to_owned()),
        "{said:?}"
    );
}

/// What is said to help: plainly, or only others.
fn ends_of(told: &(String, String)) -> Option<bool> {
    let (before, _) = told.1.split_once("pod lab/")?;
    Some(!before.contains("only for others, who ask for the same and come first: "))
}

#[test]
fn what_serves_one_of_many_who_ask_alike_is_told_to_the_others_as_help_for_others() {
    // Two nodes with eight GPUs, each of which a pod has.
    let full = |node_name: &str| {
        (0..8)
            .map(|i| a100().used("7g.80gb", 0, &format!("lab/{node_name}-{i}")))
            .fold(node(), NodeBuilder::gpu)
    };
    let two = || fleet().node("n1", full("a")).node("n2", full("b"));
    let told = each(two(), &ask(9, "7g.80gb"), policy("research"));
    // The first of them is served where one pod ends.
    let plainly: Vec<Option<bool>> = told.iter().map(ends_of).collect();
    assert_eq!(plainly[0], Some(true), "{:?}", told[0]);
    assert_eq!(plainly[1..], [Some(false); 8], "{:?}", told[1]);
    assert!(told.iter().all(|(_, said)| said.contains("9 more A100-80GB")), "{told:?}");
    // What serves it comes before what serves others.
    assert!(
        told[1].1.ends_with(
            "What would help: 9 more A100-80GB; or only for others, who ask for the same and come first: \
             pod lab/a-0 ends (or moves): it holds 7g.80gb on n1/gpu0"
        ),
        "{:?}",
        told[1]
    );
    // On one GPU two of them have a place.
    let told = each(two(), &ask(5, "3g.40gb"), policy("research"));
    let plainly: Vec<Option<bool>> = told.iter().map(ends_of).collect();
    assert_eq!(plainly, [Some(true), Some(true), Some(false), Some(false), Some(false)], "{told:?}");
    // Where the oldest come first, it is the same.
    let told = each(two(), &ask(3, "7g.80gb"), policy("research").oldest_first());
    let plainly: Vec<Option<bool>> = told.iter().map(ends_of).collect();
    assert_eq!(plainly, [Some(true), Some(false), Some(false)], "{told:?}");
}

#[test]
fn a_bound_whose_least_change_serves_one_is_told_so_to_the_others() {
    let idle = || (0..8).map(|_| a100().idle("7g.80gb", 0)).fold(node(), NodeBuilder::gpu);
    let two = fleet().node("n1", idle()).node("n2", idle());
    let told = each(two, &ask(6, "3g.40gb"), policy("research").bounds("3g.40gb", 0, 0, Some(3)));
    let field = "policy research: set spec.layout.demandDriven.slices[3g.40gb].maxCount to at least 4";
    let served: Vec<bool> = told.iter().map(|(_, said)| !said.starts_with("not served")).collect();
    assert_eq!(served, [true, true, true, false, false, false], "{told:?}");
    assert!(told[3].1.contains(&format!("What would help: {field}")), "{:?}", told[3]);
    for (_, said) in &told[4..] {
        assert!(
            said.contains(&format!("only for others, who ask for the same and come first: {field}")),
            "{said}"
        );
    }
}

/// One node with two A100s, and a request for so many slices of one profile under this maximum.
fn asks_for(n: u32, max: Option<u32>, used: bool) -> (Why, Vec<String>) {
    let gpu = |name: &str| if used { a100().used("7g.80gb", 0, name) } else { a100().idle("7g.80gb", 0) };
    let one = fleet().node("n1", node().gpu(gpu("a")).gpu(gpu("b")));
    let asking = [request("p").asks("1g.10gb", n).build()];
    let (why, help) = last(one, &asking, policy("research").bounds("1g.10gb", 0, 0, max));
    (why, help.iter().map(ToString::to_string).collect())
}

#[test]
fn nobody_is_told_to_ask_for_more_than_the_policy_allows() {
    let too_large = Why::TooLarge { most: 14, profile: Offered::Slice(profile("1g.10gb")) };
    let at_most = |n: u32| format!("ask for at most {n} of nvidia.com/mig-1g.10gb");
    let field = "spec.layout.demandDriven.slices[1g.10gb].maxCount";
    let by_policy = |n: u32| format!("{}, which is what policy research allows ({field})", at_most(n));
    assert_eq!(asks_for(20, None, false), (too_large.clone(), vec![at_most(14)]));
    assert_eq!(asks_for(20, Some(14), false), (too_large.clone(), vec![at_most(14)]));
    assert_eq!(asks_for(20, Some(4), false), (too_large, vec![by_policy(4)]));
    // A node could have it, and the policy never allows it: also where nothing helps at present.
    let forbids = Why::PolicyForbids { policy: "research".into(), field: field.to_owned() };
    let change = format!("policy research: set {field} to at least 8");
    let (why, help) = asks_for(8, Some(4), false);
    assert_eq!((why, &help[..2]), (forbids.clone(), &[change, by_policy(4)][..]), "{help:?}");
    assert_eq!(asks_for(8, Some(4), true), (forbids.clone(), vec![by_policy(4)]));
    // Of none, nobody is told to ask for at most none.
    for n in [1, 20] {
        assert_eq!(asks_for(n, Some(0), true), (forbids.clone(), vec![]));
    }
    // What there is beyond the maximum is not destroyed for it.
    let there = (0..5).fold(a100(), |gpu, start| gpu.used("1g.10gb", start, "a"));
    let one = fleet().node("n1", node().gpu(there));
    let asking = [request("p").asks("1g.10gb", 8).build()];
    let (_, help) = last(one, &asking, policy("research").bounds("1g.10gb", 0, 0, Some(2)));
    assert_eq!(help.iter().map(ToString::to_string).collect::<Vec<_>>(), [by_policy(5)]);
}

#[test]
fn the_node_whose_policy_allows_most_says_how_much_can_be_asked_for() {
    let idle = || node().gpu(a100().idle("7g.80gb", 0));
    let two = fleet().node("n1", idle().gpu(a100())).node("n2", idle().label("pool", "b"));
    let policies = [
        policy("narrow").bounds("1g.10gb", 0, 0, Some(2)).build(),
        policy("wide").pool("b").bounds("1g.10gb", 0, 0, None).build(),
    ];
    let report = decide(&two.build(), &[request("p").asks("1g.10gb", 9).build()], &policies).report;
    let said = report.requests[0].outcome.to_string();
    assert!(said.contains("policy narrow does not allow it"), "{said}");
    assert!(said.ends_with("ask for at most 7 of nvidia.com/mig-1g.10gb"), "{said}");
}

#[test]
fn of_whole_gpus_too_the_policy_says_how_many_can_be_asked_for() {
    let idle = || (0..4).map(|_| a100().idle("7g.80gb", 0)).fold(node(), NodeBuilder::gpu);
    let asking = [request("p").asks_whole_gpus(3).build()];
    let (why, help) = last(fleet().node("n1", idle()), &asking, policy("research").whole_gpus(0, 0, Some(2)));
    let field = "spec.layout.demandDriven.wholeGpus.maxCount";
    assert_eq!(why, Why::PolicyForbids { policy: "research".into(), field: field.to_owned() });
    let advice =
        format!("ask for at most 2 of nvidia.com/gpu, which is what policy research allows ({field})");
    assert!(help.iter().any(|help| help.to_string() == advice), "{help:?}");
}
