//! Failures of a change, the measures that follow, and the final state.

use crate::fake::{Caller, Crash, Fault, World, layout, settled};
use jiff::SignedDuration;
use planner::policy::Drain;
use slicewright_rollout::release::{release, resume};
use slicewright_rollout::{FailureReason, Listing, Outlook, Phase, StartBlocker, names};

/// A node that should go from seven small slices to two large ones, with
/// these faults in MIG manager's runs, one a run.
fn troubled(faults: &[Fault]) -> Caller {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.faults = faults.to_vec();
    caller.want("0:3g.40gb*2").run(120);
    caller
}

#[track_caller]
fn check_cured(faults: &[Fault], restarts: usize) {
    let mut caller = troubled(faults);
    caller.check_open_with("0:3g.40gb*2");
    assert_eq!(caller.did("DeletePod"), restarts, "{}", caller.transcript.join("\n"));
}

#[test]
fn each_known_wedge_is_healed_by_replacing_mig_managers_pod() {
    check_cured(&[Fault::WedgePending], 1);
    check_cured(&[Fault::FailParked], 1);
    check_cured(&[Fault::SuccessParked], 1);
}

#[test]
fn a_failed_run_is_repeated_under_an_alias_and_then_with_a_new_pod() {
    check_cured(&[Fault::Fail], 0);
    check_cured(&[Fault::Fail, Fault::Fail], 1);
    check_cured(&[Fault::FailParked, Fault::FailParked], 1);
}

#[test]
fn sharing_that_begins_on_the_way_is_told_and_not_fought() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    let runs = caller.world.runs;
    caller.want("0:3g.40gb*2");
    for _ in 0..100 {
        if caller.progress.phase == Phase::Changing {
            break;
        }
        let until = caller.turn();
        caller.world.pass(until);
    }
    assert_eq!(caller.progress.phase, Phase::Changing);
    caller.world.shared = 2;
    caller.run(120);
    let Outlook::Failed(failure) = caller.last.as_ref().unwrap().outlook.clone() else {
        panic!("{}", caller.transcript.join("\n"))
    };
    let why = failure.why.to_string();
    assert!(why.contains("its devices are shared (label nvidia.com/mig-3g.40gb.replicas=2)"), "{why}");
    assert!(why.contains("let its device plugin use a configuration without sharing"), "{why}");
    assert_eq!(caller.world.runs, runs + 1, "no other run would end otherwise");
    caller.check_never("DeletePod");
    // Whoever began it ends it.
    caller.world.share(1);
    caller.run(40);
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_layout_that_cannot_be_reached_is_rolled_back_and_not_tried_at_once() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.faults = vec![Fault::Fail; 3];
    caller.want("0:3g.40gb*2").run(20);
    caller.check_open_with("0:1g.10gb*7");
    let Outlook::Holding(StartBlocker::BackedOff { until, why }) =
        caller.last.as_ref().unwrap().outlook.clone()
    else {
        panic!("{}", caller.transcript.join("\n"))
    };
    assert_eq!(why.to_string(), "MIG manager reported `failed`");
    assert!(until > caller.world.now + SignedDuration::from_mins(30));
    // Another layout may be tried before that.
    let before = caller.world.runs;
    caller.want("0:7g.80gb*1").run(20);
    caller.check_open_with("0:7g.80gb*1");
    assert_eq!(caller.world.runs, before + 1);
}

#[test]
fn a_node_that_had_nothing_before_stays_cordoned_and_says_what_to_do() {
    let mut caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
    caller.world.faults = vec![Fault::Fail; 20];
    caller.run(60);
    let Outlook::Failed(failure) = caller.last.as_ref().unwrap().outlook.clone() else {
        panic!("{}", caller.transcript.join("\n"))
    };
    assert!(matches!(failure.why, FailureReason::ChangeFailed(_)));
    assert!(failure.help("n1").contains("slicewright release n1"), "{}", failure.help("n1"));
    assert!(caller.world.unschedulable);
    // `release` uncordons, says what is left, and we keep away.
    let seen = caller.world.observe(Listing::Cached);
    let released = release(&seen, &caller.progress);
    caller.progress = released.progress;
    for action in &released.actions {
        assert!(caller.world.apply(action));
    }
    assert!(released.left.iter().any(|left| left.contains("MIG manager's last run failed")));
    assert!(!caller.world.unschedulable);
    let version = caller.world.version;
    caller.run(60);
    assert_eq!(version, caller.world.version);
    caller.check_said("holding: an administrator released the node");
    // Taken back, the node starts over.
    caller.progress = resume();
    caller.world.faults.clear();
    caller.run(30);
    caller.check_open_with("0:1g.10gb*7");
}

#[test]
fn a_failed_node_that_a_human_repairs_is_proved_and_opened() {
    let mut caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
    caller.world.faults = vec![Fault::Fail; 20];
    caller.until(Phase::Failed);
    caller.world.faults.clear();
    caller.world.restart_manager();
    caller.run(20);
    caller.check_open_with("0:1g.10gb*7");
}

#[test]
fn a_plugin_that_never_comes_up_is_not_success() {
    let mut caller = troubled(&[Fault::PluginBroken]);
    caller.check_said("the device plugin's new pod is not ready");
    caller.check_said("Relabelling");
    // The layout is in place, so no retry restarts the plugin; going back does.
    caller.run(1);
    assert_eq!(caller.world.breaches, 0);
    assert!(!caller.world.unschedulable, "{}", caller.transcript.join("\n"));
}

#[test]
fn a_reboot_that_the_change_needs_is_waited_for() {
    let mut caller = troubled(&[Fault::Reboot]);
    caller.check_said("waits for the node to come back from its reboot");
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_reboot_at_any_moment_is_survived() {
    for phase in [
        Phase::Mapping,
        Phase::Cordoning,
        Phase::Quiescing,
        Phase::Changing,
        Phase::Verifying,
        Phase::Releasing,
    ] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.world.reboot();
        caller.run(60);
        caller.check_open_with("0:3g.40gb*2");
    }
}

#[test]
fn after_a_reboot_a_node_is_closed_until_its_slices_are_back() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.reboot();
    caller.run(4);
    assert!(caller.world.unschedulable, "{}", caller.transcript.join("\n"));
    caller.run(10);
    caller.check_open_with("0:1g.10gb*7");
    caller.check_said("Cordon");
    // Nothing was written to its label, and no cooldown began.
    caller.check_never("SetConfigLabel");
    assert_eq!(caller.progress.verified.as_ref().unwrap().boot_id, "boot-2");
}

/// MIG's mode and slices can outlive a boot.
#[test]
fn a_node_that_comes_back_from_a_reboot_as_it_should_be_is_never_closed() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.boot += 1;
    caller.world.version += 1;
    caller.run(10);
    caller.check_open_with("0:1g.10gb*7");
    caller.check_never("Cordon");
    assert_eq!(caller.progress.verified.as_ref().unwrap().boot_id, "boot-2");
}

/// Two steps of one call want the cordon then; it is written once.
#[test]
fn a_node_that_is_found_with_a_failed_manager_is_cordoned_once() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.set("nvidia.com/mig.config.state", "failed");
    caller.run(30);
    caller.check_open_with("0:1g.10gb*7");
    assert_eq!(caller.did("Cordon"), 1, "{}", caller.transcript.join("\n"));
}

#[test]
fn mig_manager_that_runs_by_itself_at_night_and_wedges_is_healed() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.faults = vec![Fault::WedgePending];
    caller.world.restart_manager();
    caller.run(30);
    caller.check_said("DeletePod");
    caller.check_open_with("0:1g.10gb*7");
}

#[test]
fn a_device_that_breaks_is_reported_and_nothing_is_changed_over_it() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.allocatable.insert("nvidia.com/mig-1g.10gb".to_owned(), 6);
    caller.want("0:3g.40gb*2").run(10);
    caller.check_said("the node offers nvidia.com/mig-1g.10gb: 6; verified was nvidia.com/mig-1g.10gb: 7");
    caller.check_never("Cordon");
}

#[test]
fn a_driver_upgrade_in_the_middle_is_waited_out() {
    for phase in [Phase::Changing, Phase::Verifying] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.world.set(names::DRIVER_UPGRADE_STATE, "pod-restart-required");
        caller.run(90);
        caller.check_said("waits for a driver upgrade (pod-restart-required) to finish");
        assert_eq!(caller.world.runs, 1);
        caller.world.set(names::DRIVER_UPGRADE_STATE, "upgrade-done");
        caller.run(10);
        caller.check_open_with("0:3g.40gb*2");
    }
}

/// The write that lifts our cordon failed, or is yet to come.
fn still_ours(caller: &mut Caller) {
    caller.world.unschedulable = true;
    caller.world.labels.insert(names::CORDONED_BY.to_owned(), names::CORDONED_BY_US.to_owned());
    caller.world.version += 1;
}

/// The Machine Config Operator cordons, drains and reboots: its cordon lies on
/// ours, and to lift ours would open the node under it.
#[test]
fn a_node_that_others_begin_to_work_on_stays_closed_until_they_are_done() {
    for phase in [Phase::Cordoning, Phase::Quiescing, Phase::Verifying, Phase::Releasing] {
        for (drain, state) in [("drain-rendered-2", "Done"), ("", "Working")] {
            let mut caller = settled("0:off", "0:1g.10gb*7");
            caller.want("0:3g.40gb*2").until(phase);
            caller.world.annotations.insert(names::MCO_DESIRED_DRAIN.to_owned(), drain.to_owned());
            caller.world.annotations.insert(names::MCO_STATE.to_owned(), state.to_owned());
            // Before our cordon was lifted, if it was about to be.
            still_ours(&mut caller);
            caller.transcript.clear();
            caller.run(60);
            caller.check_said("waits for the Machine Config Operator (");
            assert!(caller.world.unschedulable, "{phase:?}: {}", caller.transcript.join("\n"));
            assert_eq!(caller.did("Uncordon"), 0, "{phase:?}: {}", caller.transcript.join("\n"));
            // It is done, and opens what it closed.
            caller.world.annotations.clear();
            caller.world.unschedulable = false;
            caller.world.version += 1;
            caller.run(60);
            caller.check_open_with("0:3g.40gb*2");
        }
    }
}

#[test]
fn a_driver_upgrade_that_finds_our_cordon_leaves_it_and_we_lift_it_afterwards() {
    for phase in [Phase::Quiescing, Phase::Releasing] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        // It remembers that the node was cordoned, and does not uncordon it.
        still_ours(&mut caller);
        caller.world.set(names::DRIVER_UPGRADE_STATE, "drain-required");
        caller.run(30);
        assert!(caller.world.unschedulable, "{phase:?}: {}", caller.transcript.join("\n"));
        caller.world.set(names::DRIVER_UPGRADE_STATE, "upgrade-done");
        caller.run(60);
        caller.check_open_with("0:3g.40gb*2");
    }
}

#[test]
fn a_foreign_label_in_the_middle_is_never_reverted() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    let hour = SignedDuration::from_hours(1);
    caller.world.map.insert("theirs".to_owned(), (layout("0:7g.80gb*1"), caller.world.now - hour));
    caller.want("0:3g.40gb*2").until(Phase::Changing);
    caller.world.set(names::MIG_CONFIG, "theirs");
    caller.until(Phase::Failed);
    caller.check_said("failed: nvidia.com/mig.config became `theirs` while the node was changing");
    // Theirs is proved, and the node is opened with it and frozen.
    caller.run(20);
    caller.check_open_with("0:7g.80gb*1");
    assert_eq!(caller.world.labels[names::MIG_CONFIG], "theirs");
    caller.check_said("holding: nvidia.com/mig.config has `theirs`, which the operator did not write");
}

#[test]
fn a_label_written_before_the_entry_reached_mig_manager_is_repeated() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    // A kubelet slower than mapSettle: the first run does not find the entry.
    caller.world.mount_delay = SignedDuration::from_secs(130);
    caller.want("0:3g.40gb*2").run(30);
    caller.check_open_with("0:3g.40gb*2");
    assert!(caller.world.runs > 1);
}

#[test]
fn a_pod_that_gets_past_the_cordon_is_not_hurt_by_a_retry() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.faults = vec![Fault::Fail];
    caller.want("0:3g.40gb*2").until(Phase::Relabelling);
    caller.world.pod("pinned", "mig-1g.10gb", 0);
    caller.run(60);
    caller.check_said("waits for pods to go: team/pinned");
    assert!(matches!(caller.last.as_ref().unwrap().outlook, Outlook::Failed(_)));
    assert_eq!(caller.world.breaches, 0);
}

/// Every story ends the same, wherever the caller dies or an answer is lost.
#[test]
fn after_a_crash_at_any_point_the_end_is_the_same() {
    type Story = fn() -> Caller;
    let stories: [(Story, &str); 5] = [
        (|| Caller::new(World::new("0:off 1:off"), "0:1g.10gb*7 1:3g.40gb*2"), "0:1g.10gb*7 1:3g.40gb*2"),
        (
            || {
                let mut caller = settled("0:off", "0:1g.10gb*7");
                caller.world.pod("a", "mig-1g.10gb", 0);
                caller.rules.drain = Drain::Evict;
                caller.want("0:7g.80gb*1");
                caller
            },
            "0:7g.80gb*1",
        ),
        (
            || {
                let mut caller = settled("0:off", "0:1g.10gb*7");
                caller.world.faults = vec![Fault::FailParked, Fault::Fail];
                caller.want("0:7g.80gb*1");
                caller
            },
            "0:7g.80gb*1",
        ),
        (
            || {
                let mut caller = settled("0:off", "0:1g.10gb*7");
                caller.world.faults = vec![Fault::Fail; 3];
                caller.rules.settings.roll_back_backoff = SignedDuration::from_hours(24);
                caller.want("0:7g.80gb*1");
                caller
            },
            "0:1g.10gb*7",
        ),
        (
            || {
                let mut caller = settled("0:off", "0:1g.10gb*7");
                caller.world.reboot();
                caller
            },
            "0:1g.10gb*7",
        ),
    ];
    for (story, end) in stories {
        let mut whole = story();
        let calls = whole.calls;
        whole.run(60);
        whole.check_open_with(end);
        let calls = (calls + 1)..=whole.calls.min(calls + 120);
        for call in calls {
            for crash in [Crash::BeforeStore, Crash::BeforeWrite, Crash::DuringWrite] {
                let mut caller = story();
                caller.crash = Some((call, crash));
                caller.run(90);
                caller.check_open_with(end);
                assert_eq!(caller.progress.phase, whole.progress.phase, "{crash:?} at {call}");
            }
        }
    }
}
