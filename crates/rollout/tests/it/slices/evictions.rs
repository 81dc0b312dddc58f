//! A static layout whose policy says `drain: Evict`, on a node that its agent changes: who has a slice that goes is evicted
//! while the device plugin is still there, and nobody else is.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use planner::policy::Drain;
use slicewright_rollout::{Outlook, Phase, Progress, StartBlocker, Trouble, WantedSlices};

use super::model::{Ask, places};
use super::stories::{in_flight, phase, round, turn_without_a_permit, until};
use super::walk::{Dies, Walk};

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The slice 2g@2 goes; whoever has another one keeps it.
const WANTED: &str = "1g@0 1g@1 1g@2 1g@3 3g@4";

/// Six pods compute, on every slice of both GPUs.
fn full() -> Walk {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    for profile in ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", "3g.40gb", "3g.40gb"] {
        walk.world.kubelet.bind(Ask::Plain, profile.parse().unwrap());
    }
    until(&mut walk, "they compute", |walk| walk.world.kubelet.pods.iter().all(|pod| !pod.given.is_empty()));
    until(&mut walk, "it rests", Walk::rests);
    walk.drain = Drain::Evict;
    walk.actions.clear();
    walk.phases = vec![Phase::Idle];
    walk
}

/// Who has one of these slices of a GPU, by uid.
fn who_has(walk: &Walk, gpu: &str, slices: &str) -> BTreeSet<String> {
    let has = &walk.world.gpus.slices[&agent::GpuUuid(gpu.to_owned())];
    let serials: BTreeSet<u64> = places(slices).iter().filter_map(|place| has.get(place)).copied().collect();
    let pods = walk.world.kubelet.pods.iter().filter(|pod| pod.is_live());
    pods.filter(|pod| !pod.given.is_disjoint(&serials)).map(|pod| pod.uid.0.clone()).collect()
}

fn evicted(walk: &Walk) -> BTreeSet<String> {
    walk.evicted.iter().cloned().collect()
}

/// Each pod that was not evicted has the very slice that it was given.
#[track_caller]
fn nobody_else_lost_a_slice(walk: &Walk) {
    assert_eq!(walk.world.breaches, [] as [String; 0]);
    for pod in walk.world.kubelet.pods.iter().filter(|pod| !evicted(walk).contains(&pod.uid.0)) {
        assert!(pod.is_live(), "{pod:?}");
        assert!(pod.given.iter().all(|serial| walk.world.gpus.has_serial(*serial)), "{pod:?}");
    }
}

fn waits_for(walk: &Walk) -> String {
    match walk.last.as_ref().map(|answer| &answer.outlook) {
        Some(Outlook::Working { waits_for, .. }) => waits_for.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn who_has_a_slice_that_goes_is_evicted_before_the_plugin_is_paused_and_nobody_else_is() {
    let mut walk = full();
    let theirs = who_has(&walk, "gpu-a", "2g@2");
    assert_eq!(theirs.len(), 1);
    walk.lingers = true;
    walk.want(0, WANTED);
    until(&mut walk, "it is evicted", |walk| !walk.evicted.is_empty());
    for _ in 0..90 {
        round(&mut walk);
        assert!(
            walk.cordoned && !walk.held,
            "until it is gone, only the cordon is there: {:?}",
            walk.actions
        );
    }
    assert!(waits_for(&walk).contains("pods to go"), "{}", waits_for(&walk));
    walk.lingers = false;
    until(&mut walk, "it rests", |walk| walk.has("gpu-a") == places(WANTED) && walk.rests());
    assert_eq!((evicted(&walk), walk.evicted.len()), (theirs, 1), "once, and nobody else");
    nobody_else_lost_a_slice(&walk);
    let writes: Vec<_> = walk.actions.iter().filter(|name| **name != "ListPods").collect();
    assert_eq!(writes, [&"Cordon", &"Evict", &"HoldForAgent", &"ResumeOperands", &"Uncordon"]);
    assert!(walk.progress.set_back.is_none() && walk.progress.verified.is_some());
}

#[test]
fn of_a_gpu_that_changes_as_a_whole_all_go_and_of_the_other_none() {
    let mut walk = full();
    let theirs = who_has(&walk, "gpu-a", "1g@0 1g@1 2g@2 3g@4");
    assert_eq!(theirs.len(), 4);
    walk.want(0, "7g@0");
    until(&mut walk, "it rests", |walk| walk.has("gpu-a") == places("7g@0") && walk.rests());
    assert_eq!(evicted(&walk), theirs);
    nobody_else_lost_a_slice(&walk);
}

#[test]
fn where_the_policy_never_drains_nobody_is_evicted_and_the_hold_is_taken_back() {
    let mut walk = full();
    walk.drain = Drain::Never;
    walk.want(0, WANTED);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.now += SignedDuration::from_mins(2);
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    assert_eq!(walk.evicted, [] as [String; 0]);
    nobody_else_lost_a_slice(&walk);
}

#[test]
fn what_a_disruption_budget_refuses_is_asked_for_an_hour_then_taken_back_and_done_when_it_allows_it() {
    let mut walk = full();
    walk.refuses = Some(BUDGET);
    walk.want(0, WANTED);
    until(&mut walk, "the refusal is told", |walk| waits_for(walk).contains(BUDGET));
    walk.now += SignedDuration::from_mins(58);
    round(&mut walk);
    assert!(waits_for(&walk).contains(BUDGET), "{}", waits_for(&walk));
    walk.now += SignedDuration::from_mins(2);
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned);
    let back = walk.progress.set_back.clone().expect("it is not tried again at once");
    assert!(matches!(back.why, Trouble::PodsInTheWay { .. }), "{:?}", back.why);
    assert!(back.why.to_string().contains(BUDGET), "{}", back.why);
    assert!(!walk.actions.contains(&"HoldForAgent"), "the plugin was there all the time: {:?}", walk.actions);
    assert_eq!(walk.evicted, [] as [String; 0]);
    nobody_else_lost_a_slice(&walk);

    walk.refuses = None;
    walk.now = back.until;
    until(&mut walk, "it rests", |walk| walk.has("gpu-a") == places(WANTED) && walk.rests());
    assert_eq!(walk.evicted.len(), 1);
    nobody_else_lost_a_slice(&walk);
}

/// A DaemonSet would bring it back, and a static pod's eviction removes its mirror alone.
#[test]
fn for_who_would_come_back_the_node_is_not_even_cordoned() {
    let mut of_daemon_set = full();
    of_daemon_set.daemon_sets = who_has(&of_daemon_set, "gpu-a", "2g@2");
    let mut of_kubelet = full();
    of_kubelet.mirrored = true;
    for mut walk in [of_daemon_set, of_kubelet] {
        walk.want(0, WANTED);
        for _ in 0..10 {
            round(&mut walk);
        }
        let outlook = walk.last.as_ref().map(|answer| &answer.outlook);
        assert!(
            matches!(outlook, Some(Outlook::Holding(StartBlocker::PodsInTheWay { pods })) if pods.len() == 1),
            "{outlook:?}"
        );
        assert!(walk.actions.is_empty() && walk.evicted.is_empty(), "{:?}", walk.actions);
    }
}

/// Whoever gets one that stays is left alone; nobody knows that before kubelet has said so.
#[test]
fn who_may_be_about_to_get_a_slice_is_waited_for_and_evicted_if_it_got_one_that_goes() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.drain = Drain::Evict;
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    for _ in 0..20 {
        turn_without_a_permit(&mut walk);
        assert!(!walk.held && walk.evicted.is_empty(), "{:?}", walk.actions);
    }
    assert!(waits_for(&walk).contains("pods to start"), "{}", waits_for(&walk));
    until(&mut walk, "it rests", |walk| walk.has("gpu-a") == places("3g@0 3g@4") && walk.rests());
    assert_eq!(evicted(&walk), BTreeSet::from(["uid-0".to_owned()]));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

#[test]
fn who_does_not_start_in_time_keeps_the_node_from_being_held() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.drain = Drain::Evict;
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    for _ in 0..10 {
        turn_without_a_permit(&mut walk);
    }
    walk.now += SignedDuration::from_mins(10);
    for _ in 0..5 {
        turn_without_a_permit(&mut walk);
    }
    assert!(!walk.cordoned && phase(&walk) == Phase::Idle, "{:?}", walk.phases);
    assert_eq!(walk.progress.set_back.as_ref().map(|back| back.why.name()), Some("PodsNotStarting"));
}

#[test]
fn what_is_not_wanted_any_more_and_a_cordon_that_somebody_lifts_end_the_drain_at_once() {
    let mut walk = full();
    walk.refuses = Some(BUDGET);
    walk.want(0, WANTED);
    until(&mut walk, "it is drained", |walk| waits_for(walk).contains("pods to go"));
    walk.wanted = WantedSlices::new();
    until(&mut walk, "it is open again", Walk::rests);
    assert!(walk.progress.set_back.is_none());

    walk.want(0, WANTED);
    until(&mut walk, "it is drained", |walk| waits_for(walk).contains("pods to go"));
    walk.uncordon();
    until(&mut walk, "it is over", |walk| phase(walk) == Phase::Idle);
    assert_eq!(walk.progress.set_back.as_ref().map(|back| back.why.name()), Some("Uncordoned"));
    assert!(!walk.cordoned && walk.evicted.is_empty());
}

#[test]
fn an_operator_that_forgot_everything_amid_the_drain_opens_the_node_and_begins_anew() {
    let mut walk = full();
    walk.lingers = true;
    walk.want(0, WANTED);
    until(&mut walk, "it is evicted", |walk| !walk.evicted.is_empty());
    walk.progress = Progress::default();
    walk.dies();
    until(&mut walk, "it is open", |walk| !walk.cordoned);
    walk.lingers = false;
    until(&mut walk, "it rests", |walk| walk.has("gpu-a") == places(WANTED) && walk.rests());
    assert_eq!(evicted(&walk).len(), 1);
    nobody_else_lost_a_slice(&walk);
}

/// One round in which the operator dies so in its step.
fn dies_in(walk: &mut Walk, dies: Dies) {
    if dies == Dies::Never {
        return round(walk);
    }
    walk.step(Dies::Never);
    walk.step(dies);
    round(walk);
}

#[test]
fn wherever_the_operator_dies_the_same_are_evicted_and_the_change_ends() {
    let deaths = [Dies::Before, Dies::AfterSpec, Dies::BeforeActions, Dies::AfterAction];
    for dies in deaths {
        for turn in 0.. {
            let mut walk = full();
            let theirs = who_has(&walk, "gpu-a", "1g@0 2g@2");
            assert_eq!(theirs.len(), 2);
            walk.want(0, "1g@1 1g@2 1g@3 3g@4");
            let mut turns = 0;
            while !(walk.has("gpu-a") == places("1g@1 1g@2 1g@3 3g@4") && walk.rests()) {
                assert!(turns < 300, "{dies:?} in {turn}: it does not end: {}", waits_for(&walk));
                dies_in(&mut walk, if turns == turn { dies } else { Dies::Never });
                turns += 1;
            }
            assert_eq!(evicted(&walk), theirs, "{dies:?} in {turn}");
            nobody_else_lost_a_slice(&walk);
            assert!(walk.progress.set_back.is_none(), "{dies:?} in {turn}: {:?}", walk.progress.set_back);
            if turns <= turn {
                assert!(turn > 5, "the story has turns: {turn}");
                break;
            }
        }
    }
}
