//! A node whose agent changes it reboots.

use jiff::SignedDuration;
use slicewright_rollout::{Admission, Outlook, Phase, Settings, StartBlocker};

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

/// The agent knows what it has made, and nobody else's configuration is a reason to keep the node closed for ever.
#[test]
fn a_node_whose_slices_somebody_shares_by_hand_is_open_again_after_a_reboot() {
    let mut walk = settled();
    walk.shared_by_hand = Some(2);
    walk.reboots();
    until(&mut walk, "it is open again", |walk| {
        walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
    });
    has_all(&walk);
    assert_eq!((phase(&walk), walk.cordoned), (Phase::Idle, false));
    assert!(!walk.phases.contains(&Phase::Failed), "{:?}", walk.phases);
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

#[track_caller]
fn open_in_this_boot(walk: &mut Walk) {
    until(walk, "it is open again", |walk| {
        walk.rests() && walk.progress.verified.as_ref().unwrap().boot_id == walk.world.boot.0
    });
}

#[track_caller]
fn waits_for(walk: &Walk) -> String {
    match walk.last.as_ref().map(|answer| &answer.outlook) {
        Some(Outlook::Working { waits_for, .. }) => waits_for.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A GPU that has fallen off the bus offers nothing, and its slices are not forgotten: a reboot is the usual cure.
#[test]
fn a_gpu_that_was_lost_before_the_reboot_gets_its_slices_back_as_well() {
    for lost in [&["gpu-b"][..], &["gpu-a", "gpu-b"]] {
        for is_known in [true, false] {
            let mut walk = settled();
            walk.lose(lost, is_known);
            for _ in 0..10 {
                round(&mut walk);
            }
            let (_, _, account) = walk.world.node.now();
            let known = account.unwrap().known.layout.gpus;
            let answers = |gpu: &&agent::GpuLayout| !matches!(gpu.state, agent::GpuState::Silent { .. });
            assert_eq!(known.iter().filter(answers).count(), 2 - lost.len());
            assert!(!walk.cordoned, "the others serve on");
            walk.all_answer();
            walk.reboots();
            open_in_this_boot(&mut walk);
            has_all(&walk);
        }
    }
}

#[test]
fn beside_a_lost_gpu_another_one_is_changed_and_after_the_reboot_each_has_its_slices() {
    for is_known in [true, false] {
        let mut walk = settled();
        let had = walk.progress.verified.clone().unwrap().layout;
        walk.lose(&["gpu-b"], is_known);
        walk.want(0, "3g@0 3g@4");
        until(&mut walk, "it is changed", |walk| walk.has("gpu-a") == places("3g@0 3g@4") && walk.rests());
        let second = planner::names::GpuIndex(1);
        assert_eq!(walk.progress.verified.clone().unwrap().layout.0[&second], had.0[&second]);
        walk.all_answer();
        walk.reboots();
        open_in_this_boot(&mut walk);
        assert_eq!((walk.has("gpu-a"), walk.has("gpu-b")), (places("3g@0 3g@4"), places(SECOND)));
        assert_eq!(walk.world.breaches, [] as [String; 0]);
    }
}

/// The driver does not know, or answer about, each GPU as soon as the agent runs.
#[test]
fn a_gpu_that_answers_a_while_after_the_boot_gets_its_slices_like_the_others() {
    for is_known in [true, false] {
        let mut walk = settled();
        walk.reboots();
        walk.lose(&["gpu-b"], is_known);
        for minutes in [0, 5, 10] {
            walk.now += SignedDuration::from_mins(minutes);
            for _ in 0..10 {
                round(&mut walk);
            }
            assert!(walk.cordoned && walk.held, "{:?}", walk.phases);
        }
        assert_eq!(waits_for(&walk), "the driver to answer about gpu-b");
        walk.all_answer();
        open_in_this_boot(&mut walk);
        has_all(&walk);
        assert!(!walk.phases.contains(&Phase::Retreating), "{:?}", walk.phases);
    }
}

/// The node is not closed for ever for it. What it had is made when another reboot has cured it.
#[test]
fn a_gpu_that_stays_silent_after_the_boot_closes_the_others_for_half_an_hour_and_is_not_forgotten() {
    let mut walk = settled();
    let had = walk.progress.verified.clone().unwrap().layout;
    walk.reboots();
    walk.lose(&["gpu-b"], true);
    until(&mut walk, "it is closed", |walk| walk.cordoned && phase(walk) == Phase::Quiescing);
    walk.now += Settings::default().change_limit;
    // Nobody but the operator does anything: from now on it waits for the agent.
    for _ in 0..6 {
        walk.step(Dies::Never);
    }
    assert_eq!(waits_for(&walk), "the agent to start");
    open_in_this_boot(&mut walk);
    assert_eq!((walk.has("gpu-a"), walk.has("gpu-b")), (places(FIRST), places("")));
    assert_eq!(walk.progress.verified.as_ref().unwrap().layout, had, "MIG manager would be given it");
    walk.reboots();
    walk.all_answer();
    open_in_this_boot(&mut walk);
    has_all(&walk);
}

/// It comes too late for what it had. The GPUs beside it are not to wait for what is made of it.
#[test]
fn beside_a_gpu_that_came_back_without_slices_another_one_is_changed() {
    let mut walk = settled();
    walk.reboots();
    walk.lose(&["gpu-b"], true);
    until(&mut walk, "it is closed", |walk| walk.cordoned && phase(walk) == Phase::Quiescing);
    walk.now += Settings::default().change_limit;
    open_in_this_boot(&mut walk);
    walk.all_answer();
    walk.want(0, "3g@0 3g@4");
    until(&mut walk, "it is changed", |walk| walk.has("gpu-a") == places("3g@0 3g@4") && walk.rests());
    assert_eq!(walk.has("gpu-b"), places(""));
}

/// A card that was taken out is waited for once.
#[test]
fn a_gpu_that_is_gone_after_the_boot_is_forgotten_when_the_others_are_open() {
    let mut walk = settled();
    walk.reboots();
    walk.lose(&["gpu-b"], false);
    until(&mut walk, "it is closed", |walk| walk.cordoned && phase(walk) == Phase::Quiescing);
    walk.now += Settings::default().change_limit;
    open_in_this_boot(&mut walk);
    let verified = walk.progress.verified.clone().unwrap();
    assert_eq!((verified.slices.len(), verified.layout.0.len()), (1, 1), "{verified:?}");
    let before = walk.now;
    walk.reboots();
    open_in_this_boot(&mut walk);
    assert_eq!(walk.has("gpu-a"), places(FIRST));
    assert!(walk.now < before + SignedDuration::from_mins(10));
}

/// A node boots in minutes, and pulls an image: longer than pods may wait for a claim.
#[test]
fn an_agent_that_comes_some_minutes_after_the_boot_has_its_whole_time_to_claim() {
    let mut walk = settled();
    walk.alive = false;
    walk.reboots();
    for _ in 0..6 {
        walk.step(Dies::Never);
    }
    walk.now += SignedDuration::from_mins(5);
    walk.alive = true;
    open_in_this_boot(&mut walk);
    has_all(&walk);
    assert!(!walk.phases.contains(&Phase::Retreating), "{:?}", walk.phases);
}

/// MIG manager makes the slices of a node whose agent only reports.
#[test]
fn an_agent_that_only_reports_from_now_on_is_not_waited_for_after_a_reboot() {
    for at in [None, Some(Phase::Quiescing)] {
        let mut walk = settled();
        walk.reboots();
        if let Some(at) = at {
            walk.alive = false;
            until(&mut walk, "it is closed", |walk| phase(walk) == at);
            walk.alive = true;
        }
        walk.only_reports();
        let before = walk.now;
        until(&mut walk, "MIG manager may have it", |walk| {
            let outlook = walk.last.as_ref().map(|answer| &answer.outlook);
            outlook == Some(&Outlook::Holding(StartBlocker::HandingBack)) && !walk.cordoned && !walk.held
        });
        assert_eq!(phase(&walk), Phase::Idle);
        assert!(walk.now < before + Settings::default().hold_limit);
    }
}
