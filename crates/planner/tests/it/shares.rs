//! Shares of namespaces: stories, and brute force on small fleets.

use std::collections::BTreeMap;

use planner::check::{check, check_certificate, check_shares, check_turns, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::{Expression, Operator, Request};
use planner::inventory::{Hold, Inventory};
use planner::policy::{LayoutPolicy, Mode, Order, Policy, Share};
use planner::report::{Help, Outcome, RequestReport, Why};
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::{a100, fleet, node, policy, request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};

/// Decides, and has everything checked that can be.
fn decided(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    let notes = check(&decision.plan, inventory, requests, policies);
    assert!(is_sound(&notes), "{notes:?}");
    let Decision { plan, report } = &decision;
    let notes = check_shares(plan, &report.requests, &report.certificate, inventory, requests, policies);
    assert_eq!(notes, vec![]);
    assert_eq!(check_turns(&report.requests, inventory, requests, policies), vec![]);
    decision
}

fn answer<'a>(decision: &'a Decision, name: &str) -> &'a RequestReport {
    let mut reports = decision.report.requests.iter();
    reports.find(|report| report.id.name == name).expect("every request has an answer")
}

fn served(decision: &Decision) -> Vec<String> {
    let reports = decision.report.requests.iter();
    let served = reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. }));
    served.map(|report| report.id.to_string()).collect()
}

/// Two nodes of four GPUs, of which somebody of `vision` holds three.
fn busy() -> Inventory {
    let some = |holders: &[&str]| {
        let full = holders.iter().fold(node(), |node, by| node.gpu(a100().used("7g.80gb", 0, by)));
        (holders.len()..4).fold(full, |node, _| node.gpu(a100()))
    };
    let vision = ["vision/a", "vision/b", "vision/c"];
    fleet().node("n1", some(&vision)).node("n2", some(&[])).build()
}

fn asks(of: &str, n: i64) -> Vec<Request> {
    (0..n).map(|i| request(&format!("{of}/r{i}")).asks("7g.80gb", 1).since(i).build()).collect()
}

/// Two ask for the one small slice of a cordoned node. Who has no share, and came later, gets nothing when the
/// cordon ends, and is not told that it would help.
#[test]
fn a_cordon_that_ends_helps_whom_it_helps_and_not_all_who_ask_alike() {
    let cordoned = node().held(Hold::Cordoned { by: "an admin".into() }).unschedulable();
    let inventory = fleet().node("n1", cordoned.gpu(a100().idle("1g.10gb", 0))).build();
    let ask = |name: &str, since| request(name).asks("1g.10gb", 1).since(since).build();
    let requests = [ask("guests/first", 0), ask("lab/late", 1)];
    let policies = [policy("p").share(Some("guests"), 0, None).mode(Mode::Paused).build()];
    let decision = decided(&inventory, &requests, &policies);
    let ends = |name| match &answer(&decision, name).outcome {
        Outcome::Unserved { help, .. } => help.iter().any(|help| matches!(help, Help::HoldEnds { .. })),
        served => panic!("{served}"),
    };
    assert_eq!((ends("first"), ends("late")), (true, false), "{decision:?}");
}

#[test]
fn nobody_gets_more_than_their_share_and_they_are_told_which_field_says_so() {
    let (inventory, requests) = (busy(), asks("vision", 4));
    assert_eq!(served(&decided(&inventory, &requests, &[policy("p").build()])).len(), 4);
    let decision = decided(&inventory, &requests, &[policy("p").share(Some("vision"), 0, Some(35)).build()]);
    assert_eq!(served(&decision), ["Pod vision/r0", "Pod vision/r1"], "three are held, and 35 are five GPUs");
    let told = |name: &str| match &answer(&decision, name).outcome {
        Outcome::Unserved { why, help } => (why.clone(), help.clone()),
        outcome => panic!("{outcome:?}"),
    };
    let field = "spec.layout.demandDriven.shares[0].maxComputeSlices";
    let least = |help: &Help| matches!(help, Help::ChangePolicy { to, .. } if to == "at least 42");
    let (why, help) = told("r2");
    assert_eq!(why, Why::PolicyForbids { policy: "p".into(), field: field.to_owned() });
    assert!(least(&help[0]), "{help:?}");
    // One GPU more is for the first of the two.
    let (why, help) = told("r3");
    assert_eq!(why, Why::PolicyForbids { policy: "p".into(), field: field.to_owned() });
    assert!(matches!(&help[0], Help::ForOthers { help } if least(help)), "{help:?}");
    // What is held beyond a share stays, and others are not concerned.
    let mut both = requests;
    both.extend(asks("speech", 2));
    let decision = decided(&inventory, &both, &[policy("p").share(Some("vision"), 0, Some(7)).build()]);
    assert_eq!(served(&decision), ["Pod speech/r0", "Pod speech/r1"]);
}

#[test]
fn each_namespace_has_a_share_by_itself_or_all_together() {
    let inventory = busy();
    let mut requests = asks("speech", 3);
    requests.extend(asks("text", 3));
    let each = decided(&inventory, &requests, &[policy("p").share(None, 0, Some(14)).build()]);
    assert_eq!(served(&each).len(), 4);
    assert_eq!(served(&each).iter().filter(|id| id.starts_with("Pod text")).count(), 2);
    let mut together = policy("p").share(None, 0, Some(35)).build();
    let LayoutPolicy::DemandDriven { shares, .. } = &mut together.layout else { panic!() };
    shares[0].per_namespace = false;
    assert_eq!(served(&decided(&inventory, &requests, &[together])).len(), 2, "three are held by others");
}

/// A share of a label: of those who hold something, the label of their namespace counts, whatever its name is.
#[test]
fn what_two_namespaces_hold_counts_for_the_share_of_their_label() {
    let eight = |by: &str| (1..8).fold(node().gpu(a100().used("7g.80gb", 0, by)), |node, _| node.gpu(a100()));
    let mut inventory = fleet().node("n1", eight("sound/a")).node("n2", eight("sight/b")).build();
    let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
    inventory.namespaces = ["sound", "sight"].map(|name| (name.to_owned(), labels("media"))).into();
    let of = |namespace: &str, team: &str| {
        let asks = asks(namespace, 2).into_iter();
        asks.map(|request| Request { namespace_labels: labels(team), ..request }).collect::<Vec<_>>()
    };
    let requests = [of("sound", "media"), of("sight", "media"), of("text", "words")].concat();
    let share = |max| {
        let mut shared = policy("p").share(None, 0, Some(max)).build();
        let LayoutPolicy::DemandDriven { shares, .. } = &mut shared.layout else { panic!() };
        let values = vec!["media".to_owned()];
        let media = Expression { key: "team".to_owned(), operator: Operator::In, values };
        shares[0] = Share { namespaces: vec![media], per_namespace: false, ..shares[0].clone() };
        served(&decided(&inventory, &requests, &[shared]))
    };
    assert_eq!(
        share(14),
        ["Pod text/r0", "Pod text/r1"],
        "one slice of each of the two namespaces is the whole share"
    );
    assert_eq!(share(28), ["Pod sight/r0", "Pod sound/r0", "Pod text/r0", "Pod text/r1"]);
}

#[test]
fn who_has_less_than_their_share_comes_first_whatever_the_priority_of_others() {
    let inventory = busy();
    let mut requests = asks("speech", 2);
    requests.extend(asks("vision", 5).into_iter().map(|mut request| {
        request.priority = 100;
        request
    }));
    let without = decided(&inventory, &requests, &[policy("p").build()]);
    assert!(served(&without).iter().all(|id| id.starts_with("Pod vision")));
    let decision = decided(&inventory, &requests, &[policy("p").share(Some("speech"), 14, None).build()]);
    assert_eq!(served(&decision).iter().filter(|id| id.starts_with("Pod speech")).count(), 2);
    // What its pods hold counts; and nothing is kept for who does not ask.
    let decision = decided(&inventory, &requests, &[policy("p").share(Some("vision"), 14, None).build()]);
    assert_eq!(served(&decision).len(), 5);
    let alone = &requests[2..];
    let decision = decided(&inventory, alone, &[policy("p").share(Some("speech"), 14, None).build()]);
    assert_eq!(served(&decision).len(), 5);
    let level = |decision: &Decision| {
        let mut levels = decision.report.certificate.iter();
        levels.find(|level| level.level == "compute slices missing to shares").map(|l| (l.value, l.bound))
    };
    assert_eq!(level(&decision), None);
    // Less than they ask for, and more than there is: the certificate counts it, and the policy says so.
    let many = asks("speech", 7);
    let decision = decided(&inventory, &many, &[policy("p").share(Some("speech"), 49, None).build()]);
    assert_eq!(level(&decision), Some((14, 14)));
    let unmet = &decision.report.policies[0].unmet[0];
    assert_eq!(unmet.field, "spec.layout.demandDriven.shares[0].minComputeSlices");
    assert_eq!((unmet.wanted, unmet.reached), (49, 35));
}

/// Whoever is not served for the share of others is told so.
#[test]
fn the_share_of_others_is_named_where_it_is_in_the_way() {
    let inventory = fleet().node("n1", node().gpu(a100())).build();
    let requests = [
        request("speech/r").asks("7g.80gb", 1).since(5).build(),
        request("vision/r").asks("7g.80gb", 1).since(1).build(),
    ];
    let decision = decided(&inventory, &requests, &[policy("p").share(Some("speech"), 7, None).build()]);
    assert_eq!(served(&decision), ["Pod speech/r"]);
    let vision = decision.report.requests.iter().find(|r| r.id.namespace == "vision").expect("an answer");
    let Outcome::Unserved { why, .. } = &vision.outcome else { panic!("{vision:?}") };
    assert_eq!(
        why.to_string(),
        "policy p does not allow it (spec.layout.demandDriven.shares[0].minComputeSlices)"
    );
}

#[test]
fn a_plan_that_gives_more_than_a_share_breaks_a_rule() {
    let (inventory, requests) = (busy(), asks("vision", 4));
    let plan = decide(&inventory, &requests, &[policy("p").build()]).plan;
    let policies = [policy("p").share(Some("vision"), 0, Some(35)).build()];
    let notes = check(&plan, &inventory, &requests, &policies);
    let said: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "fatal: policy p allows 35 compute slices (spec.layout.demandDriven.shares[0].maxComputeSlices), but there would be 49"
        ]
    );
}

/// Shares as they are drawn: whose, at least, at most.
type Drawn = (u8, u32, Option<u32>);

pub(crate) fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    vec((0_u8..4, 0_u32..8, prop::option::of(0_u32..10)), 1..=2)
}

/// Gives the policies of a world these shares, and some of them the order of age.
pub(crate) fn share_out(world: &mut World, drawn: &[Drawn], how: u8) {
    for (i, policy) in world.policies.iter_mut().enumerate() {
        let LayoutPolicy::DemandDriven { shares, order, .. } = &mut policy.layout else { continue };
        if how >> i & 1 == 1 && how & 4 == 0 {
            *order = Order::OldestFirst;
        }
        for (whose, min, max) in drawn {
            let like = planner::testing::policy("like");
            let max = max.map(|max| max.max(*min));
            let like = match whose {
                0 => like.share(None, *min, max),
                1 => like.share(Some("lab"), *min, max),
                2 => like.share(Some("guests"), *min, max),
                _ => like.share(None, *min, max),
            };
            let LayoutPolicy::DemandDriven { shares: drawn, .. } = like.build().layout else { continue };
            shares.extend(drawn.into_iter().map(|share| Share { per_namespace: *whose == 0, ..share }));
        }
    }
}

/// Small worlds with shares; in some of them the oldest comes first.
fn sharing() -> impl Strategy<Value = World> {
    (worlds(), drawn(), any::<u8>()).prop_map(|(mut world, drawn, how)| {
        share_out(&mut world, &drawn, how);
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(29), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_plan_is_better_and_the_certificate_proves_it(world in sharing()) {
        let World { inventory, requests, policies } = &world;
        let Decision { plan, report } = decide(inventory, requests, policies);
        let (best_plan, best) = crate::oracle::best(inventory, requests, policies);
        let best = Values { nodes: u32::try_from(plan.steps.len()).expect("few"), ..best };
        let values = Demand::new(inventory, requests, policies).values_of(&plan).0;
        prop_assert_eq!(values, Some(best.clone()), "better: {:?}\nthan: {:?}", best_plan, plan);
        for level in report.certificate.iter().filter(|level| level.level != "nodes touched") {
            prop_assert!(level.is_proven(), "{:?}", level);
        }
        prop_assert_eq!(check_certificate(&plan, inventory, &report.certificate), vec![]);
        prop_assert!(is_sound(&check(&plan, inventory, requests, policies)));
        let notes = check_shares(&plan, &report.requests, &report.certificate, inventory, requests, policies);
        prop_assert_eq!(notes, vec![]);
        prop_assert_eq!(check_turns(&report.requests, inventory, requests, policies), vec![]);
    }

    #[test]
    fn what_would_help_helps(world in sharing()) {
        prop_assert_eq!(crate::oracle::help::doubts(&world), Vec::<String>::new());
    }

    #[test]
    fn the_order_of_input_is_of_no_account_and_planning_again_changes_nothing(world in sharing()) {
        let World { inventory, requests, policies } = &world;
        let first = decide(inventory, requests, policies);
        let (mut requests, mut policies) = (requests.clone(), policies.clone());
        requests.reverse();
        policies.reverse();
        prop_assert_eq!(&decide(inventory, &requests, &policies), &first);
        let after = crate::oracle::apply::apply(inventory, first.plan.steps.iter());
        prop_assert_eq!(decide(&after, &requests, &policies).plan.steps, vec![]);
    }
}

/// Worlds in which shares change nothing would prove nothing.
#[test]
fn shares_make_a_difference_in_these_worlds() {
    let mut runner = TestRunner::deterministic();
    let mut different = 0;
    for _ in 0..400 {
        let mut world = sharing().new_tree(&mut runner).expect("a world").current();
        let with = crate::oracle::help::served(&world);
        for policy in &mut world.policies {
            if let LayoutPolicy::DemandDriven { shares, .. } = &mut policy.layout {
                shares.clear();
            }
        }
        different += usize::from(crate::oracle::help::served(&world) != with);
    }
    assert!(different >= 15, "{different} worlds differ");
}

/// Nodes that are short of CPU and memory, four teams, and each has a share.
#[test]
fn where_rooms_are_short_shares_are_kept_too() {
    let (inventory, mut requests) = rooms(Rooms { nodes: 12, gpus: 4, pods: 120, kinds: 6 }, 3);
    for (request, team) in requests.iter_mut().zip(["a", "b", "c", "d"].iter().cycle()) {
        request.id.namespace = (*team).to_owned();
        let label = ("kubernetes.io/metadata.name".to_owned(), (*team).to_owned());
        request.namespace_labels = [label].into();
    }
    let policies = [policy("p").share(None, 0, Some(30)).share(Some("d"), 24, None).build()];
    let decision = decided(&inventory, &requests, &policies);
    let given = |team: &str| -> u32 {
        let of =
            decision.report.requests.iter().zip(&requests).filter(|(report, _)| report.id.namespace == team);
        of.filter(|(report, _)| !matches!(report.outcome, Outcome::Unserved { .. }))
            .map(|(_, request)| request.slices.iter().map(|(p, n)| u32::from(p.compute) * n).sum::<u32>())
            .sum()
    };
    assert!(given("d") >= 24 && ["a", "b", "c", "d"].iter().all(|team| given(team) <= 30));
    assert!(given("a") + given("b") + given("c") > 45, "{:?}", decision.report.certificate);
}
