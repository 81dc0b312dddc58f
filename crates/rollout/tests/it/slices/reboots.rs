//! A node whose agent changes it reboots.

use jiff::SignedDuration;
use slicewright_rollout::{Admission, Outlook, Phase, StartBlocker};

use super::model::places;
use super::stories::{phase, round, until};
use super::walk::{Dies, Walk};

const FIRST: &str = "1g@0 1g@1 2g@2 3g@4";
const SECOND: &str = "3g@0 3g@4";

/// A node at rest, of which it is known what it has.
fn settled() -> Walk {
    let mut walk = Walk::new([FIRST, SECOND]);
    until(&mut walk, "it is remembered", |walk| walk.progress.verified.is_some() && walk.rests());
    walk
}

#[track_caller]
fn has_all(walk: &Walk) {
    assert_eq!(
        (walk.has("gpu-a"), walk.has("gpu-b")),
        (places(FIRST), places(SECOND)),
        "{:#?}",
        walk.world.log
    );
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

#[test]
fn after_a_reboot_it_is_closed_before_its_agent_says_anything_and_open_when_it_has_what_it_had() {
    let mut walk = settled();
    walk.alive = false;
    walk.reboots();
    walk.phases.clear();
    walk.actions.clear();
    // Nobody but the operator does anything.
    for _ in 0..6 {
        walk.step(Dies::Never);
    }
    assert!(walk.cordoned && walk.held, "{:?}", walk.phases);
    assert_eq!(walk.world.node.now().1, None, "the agent is told nothing before it has reported");
    walk.alive = true;
    until(&mut walk, "it is open again", |walk| walk.rests() && phase(walk) == Phase::Idle);
    has_all(&walk);
    let expected = [
        Phase::Cordoning,
        Phase::Quiescing,
        Phase::Changing,
        Phase::Verifying,
        Phase::Releasing,
        Phase::Idle,
    ];
    assert_eq!(walk.phases[walk.phases.len() - 5..], expected[1..], "{:?}", walk.phases);
    assert_eq!(walk.progress.verified.as_ref().unwrap().boot_id, walk.world.boot.0);
}

/// A paused policy, a closed window or a used budget keeps slices from being changed, and not from coming back.
#[test]
fn what_a_reboot_took_comes_back_whatever_may_start() {
    let mut walk = settled();
    walk.admission = Admission::Held(StartBlocker::NotEnforced);
    walk.reboots();
    until(&mut walk, "it is open again", |walk| {
        walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
    });
    has_all(&walk);
}

#[test]
fn whoever_dies_after_a_reboot_the_node_has_what_it_had() {
    for dies in [Dies::Before, Dies::AfterSpec, Dies::BeforeActions] {
        for at in 0..12 {
            let mut walk = settled();
            walk.reboots();
            for step in 0..14 {
                walk.world.agent(super::model::Luck::Fine, 0);
                while !walk.world.process.is_between_looks() {
                    walk.world.agent(super::model::Luck::Fine, 0);
                }
                walk.step(if step == at { dies } else { Dies::Never });
                if step == at {
                    walk.world.process.dies();
                }
                walk.world.plugin();
            }
            until(&mut walk, "it is open again", |walk| {
                walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
            });
            has_all(&walk);
        }
    }
}

/// What the agent had begun is nobody's any more: the last layout that was proved comes back, and then what is wanted.
#[test]
fn a_reboot_amid_a_change_brings_back_what_was_verified_before_it() {
    for at in [Phase::Cordoning, Phase::Quiescing, Phase::Changing, Phase::Verifying] {
        let mut walk = settled();
        walk.want(0, "3g@0 3g@4");
        until(&mut walk, "it is on its way", |walk| phase(walk) == at);
        walk.reboots();
        walk.wanted.clear();
        until(&mut walk, "it is open again", |walk| {
            walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
        });
        has_all(&walk);
    }
}

#[test]
fn a_node_that_reboots_again_before_it_has_its_slices_gets_them_in_the_third_boot() {
    let mut walk = settled();
    walk.reboots();
    until(&mut walk, "the agent is told", |walk| walk.world.node.now().1.is_some());
    walk.reboots();
    until(&mut walk, "it is open again", |walk| {
        walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
    });
    has_all(&walk);
}

#[test]
fn an_agent_that_does_not_come_back_leaves_the_node_closed_with_a_reason_and_one_that_comes_late_opens_it() {
    let mut walk = settled();
    walk.alive = false;
    walk.reboots();
    for _ in 0..6 {
        walk.step(Dies::Never);
    }
    walk.now += SignedDuration::from_mins(31);
    for _ in 0..4 {
        walk.step(Dies::Never);
    }
    assert_eq!(phase(&walk), Phase::Failed);
    let outlook = walk.last.as_ref().map(|answer| answer.outlook.clone());
    assert!(matches!(outlook, Some(Outlook::Failed(_))), "{outlook:?}");
    for _ in 0..4 {
        round(&mut walk);
    }
    assert!(walk.cordoned && walk.held, "it has nothing to offer");
    walk.alive = true;
    until(&mut walk, "it is open again", Walk::rests);
    has_all(&walk);
}

/// Foreign changes are told, and not fought.
#[test]
fn a_gpu_on_which_somebody_made_other_slices_meanwhile_stays_as_it_is() {
    let mut walk = settled();
    walk.reboots();
    walk.world.gpus.put(&agent::GpuUuid("gpu-b".to_owned()), &places("7g@0"));
    let booted = walk.world.boot.0.clone();
    until(&mut walk, "it is open again", |walk| {
        walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == booted
    });
    assert_eq!((walk.has("gpu-a"), walk.has("gpu-b")), (places(FIRST), places("7g@0")));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

/// Hopper loses MIG mode as well. MIG manager switches it on, which nobody survives who has got a whole GPU: they are
/// named and not evicted, and the node stays closed until they are gone.
#[test]
fn where_mig_mode_is_gone_mig_manager_gets_the_node_and_not_under_a_pod() {
    let mut walk = settled();
    walk.progress.stood_down = true;
    let booted = |walk: &Walk| walk.cordoned && phase(walk) == Phase::Quiescing;
    walk.mode_lost = true;
    walk.reboots();
    until(&mut walk, "it is closed", booted);
    // Kubelet is about to admit it: it passed the cordon, and nobody knows what it will get.
    walk.world.kubelet.bind(super::model::Ask::Plain, "3g.40gb".parse().unwrap());
    for _ in 0..200 {
        walk.step(Dies::Never);
        walk.world.agent(super::model::Luck::Fine, 0);
    }
    assert_eq!(
        walk.config.as_deref(),
        Some(slicewright_rollout::names::HANDED_TO_AGENT),
        "{:?}",
        walk.actions
    );
    let outlook = walk.last.as_ref().map(|answer| answer.outlook.clone());
    let Some(Outlook::Working { waits_for, .. }) = outlook else { panic!("{outlook:?}") };
    assert!(waits_for.to_string().starts_with("pods to go: team/"), "{waits_for}");

    walk.world.kubelet.pods.clear();
    for _ in 0..200 {
        walk.step(Dies::Never);
        walk.world.agent(super::model::Luck::Fine, 0);
        if walk.manager {
            break;
        }
    }
    assert!(walk.manager && walk.cordoned, "{:?}", walk.actions);
    assert!(walk.config.as_ref().is_some_and(|entry| walk.map.contains(entry)), "{:?}", walk.config);
    let lists = walk.actions.iter().rposition(|action| *action == "ListPods");
    let back = walk.actions.iter().rposition(|action| *action == "HandBack");
    assert!(lists.is_some() && lists < back, "on a list that was begun after the cordon");
}
