//! Rules that protect running workloads on a node: each test fails if the line that implements its rule is
//! removed.

use crate::fake::{Caller, answer, layout, on_its_way, seconds, settled, waits_for, writes_label};
use jiff::SignedDuration;
use planner::names::PodRef;
use slicewright_rollout::{
    Action, Admission, Listing, Operand, Outlook, Phase, StartBlocker, Unproven, WaitsFor, names,
};

pub(crate) const PAST_RETURN: [Phase; 4] =
    [Phase::Changing, Phase::Verifying, Phase::Healing, Phase::Relabelling];

#[test]
fn while_somebody_else_works_on_an_unfinished_node_nothing_is_done_to_it() {
    for phase in PAST_RETURN {
        let mut caller = on_its_way(phase);
        caller.world.set(names::DRIVER_UPGRADE_STATE, "drain-required");
        // A driver that is away looks like every kind of trouble.
        for state in ["failed", "pending", "success", ""] {
            caller.world.set(names::MIG_CONFIG_STATE, state);
            caller.run(45);
        }
        let told: Vec<_> = caller.transcript.iter().filter(|line| line.starts_with("  ")).collect();
        assert!(told.is_empty(), "{phase:?}: {told:?}");
        assert_eq!(caller.progress.phase, phase, "{}", caller.transcript.join("\n"));
    }
}

#[test]
fn our_clocks_stand_still_while_somebody_else_works_on_an_unfinished_node() {
    for phase in PAST_RETURN {
        let mut caller = on_its_way(phase);
        caller.world.annotations.insert(names::MCO_STATE.to_owned(), "Working".to_owned());
        let hours = caller.world.now + SignedDuration::from_hours(3);
        caller.run(1);
        caller.world.pass(hours);
        caller.run(1);
        assert_eq!(caller.progress.phase, phase, "{}", caller.transcript.join("\n"));
        // They are done: the step has all of its time again, as has the label.
        caller.world.annotations.clear();
        let seen = caller.world.observe(Listing::Cached);
        let now = caller.world.now;
        let next = answer(&caller, &seen).progress;
        assert_eq!(next.since, Some(now), "{phase:?}");
        let written = next.target.unwrap().written_at;
        assert!(written.is_none_or(|at| at == now), "{phase:?}: {written:?}");
        assert!(!matches!(next.phase, Phase::Failed), "{phase:?}");
    }
}

#[test]
fn somebody_elses_work_that_never_ends_fails_an_unfinished_node_after_its_limit_and_not_before() {
    let mut caller = on_its_way(Phase::Changing);
    caller.world.set(names::DRIVER_UPGRADE_STATE, "pod-restart-required");
    caller.run(1);
    let limit = caller.progress.interrupted_since.unwrap() + caller.rules.settings.interruption_limit;
    caller.world.pass(limit - seconds(1));
    let seen = caller.world.observe(Listing::Cached);
    let before = answer(&caller, &seen);
    assert_eq!(before.progress.phase, Phase::Changing);
    let Outlook::Working { waits_for: WaitsFor::ForeignWork { who }, until } = before.outlook else {
        panic!("{:?}", before.outlook)
    };
    assert_eq!((who.as_str(), until), ("a driver upgrade (pod-restart-required)", limit));
    caller.world.pass(limit);
    assert_eq!(answer(&caller, &seen).progress.phase, Phase::Failed);
    assert!(caller.world.unschedulable);
}

/// The list that a label is written on, on a node that has been cordoned for
/// `cordoned` seconds and listed `age` seconds ago.
fn label_after(cordoned: i64, age: i64) -> bool {
    let mut caller = on_its_way(Phase::Quiescing);
    let cordoned_at = caller.progress.target.as_ref().unwrap().cordoned_at.unwrap();
    caller.world.pass(cordoned_at + seconds(cordoned));
    let at = caller.world.now - seconds(age);
    let seen = caller.world.observe(Listing::Consistent { at });
    let answer = answer(&caller, &seen);
    let lists = answer.actions.contains(&Action::ListPods);
    assert_ne!(writes_label(&answer), lists, "either it is fresh, or it is read again: {:?}", answer.actions);
    writes_label(&answer)
}

#[test]
fn the_list_before_the_label_is_fresh() {
    // `list_fresh` is 10 s.
    assert!(label_after(60, 0));
    assert!(label_after(60, 10));
    assert!(!label_after(60, 11));
    assert!(!label_after(60, 30), "it is of after the cordon, and old");
}

#[test]
fn the_list_before_the_label_is_of_after_the_cordon_was_noticed() {
    // `cordon_settle` is 5 s.
    assert!(label_after(9, 4));
    assert!(!label_after(9, 5), "the scheduler may have bound a pod after it was read");
    assert!(!label_after(9, 9));
}

#[test]
fn a_list_that_comes_from_a_watch_is_not_enough_for_a_label() {
    let mut caller = on_its_way(Phase::Quiescing);
    let later = caller.world.now + seconds(60);
    caller.world.pass(later);
    let seen = caller.world.observe(Listing::Cached);
    assert!(!writes_label(&answer(&caller, &seen)));
}

#[test]
fn another_label_is_written_on_a_fresh_list_too() {
    let mut caller = on_its_way(Phase::Relabelling);
    let since = caller.progress.since.unwrap();
    let mut label_on = |after: i64, age: i64| {
        caller.world.pass(since + seconds(after));
        let at = caller.world.now - seconds(age);
        let seen = caller.world.observe(Listing::Consistent { at });
        writes_label(&answer(&caller, &seen))
    };
    assert!(!label_on(3, 4), "read before the run failed");
    assert!(label_on(5, 5));
    assert!(!label_on(30, 11), "read too long ago");
    assert!(label_on(30, 10));
}

/// Why a change that has not become irrevocable is taken back.
const REASONS: [&str; 10] = [
    "somebody wrote the label",
    "somebody removed the label",
    "DRA manages the node",
    "DRA manages the cluster",
    "DAS manages the node",
    "the node is not ready",
    "a driver upgrade began",
    "operands are paused",
    "MIG manager runs",
    "the policy is paused",
];

fn turn_up(caller: &mut Caller, what: &str) {
    match what {
        "somebody wrote the label" => caller.world.set(names::MIG_CONFIG, "theirs"),
        "somebody removed the label" => {
            caller.world.labels.remove(names::MIG_CONFIG);
        }
        "DRA manages the node" => caller.world.set(names::DEPLOY_DRA, "true"),
        "DRA manages the cluster" => caller.world.gpu_cluster = true,
        "DAS manages the node" => {
            caller.world.allocatable.insert("mig.das.com/1g.10gb".to_owned(), 1);
        }
        "the node is not ready" => caller.world.ready = false,
        "a driver upgrade began" => caller.world.set(names::DRIVER_UPGRADE_STATE, "cordon-required"),
        "operands are paused" => caller.world.set("nvidia.com/gpu.deploy.dcgm", names::PAUSED_FOR_MIG),
        "MIG manager runs" => caller.world.set(names::MIG_CONFIG_STATE, "pending"),
        "the policy is paused" => caller.rules.admission = Admission::Held(StartBlocker::NotEnforced),
        other => panic!("{other}?"),
    }
    caller.world.version += 1;
}

#[test]
fn whatever_turns_up_before_the_label_takes_the_change_back() {
    for phase in [Phase::Cordoning, Phase::Quiescing] {
        for what in REASONS {
            let mut caller = on_its_way(phase);
            // Everything else is right: without the reason the change goes on.
            let later = caller.world.now + seconds(60);
            caller.world.pass(later);
            let seen = caller.world.observe(Listing::Consistent { at: caller.world.now });
            let on = answer(&caller, &seen).progress.phase;
            assert!(matches!(on, Phase::Cordoning | Phase::Quiescing), "{phase:?}: {on:?}");
            turn_up(&mut caller, what);
            let seen = caller.world.observe(Listing::Consistent { at: caller.world.now });
            let back = answer(&caller, &seen);
            assert!(!writes_label(&back), "{phase:?}, {what}: {:?}", back.actions);
            let returns = matches!(back.progress.phase, Phase::Retreating | Phase::Idle);
            assert!(returns, "{phase:?}, {what}: {:?}", back.progress.phase);
            assert!(back.progress.target.is_none_or(|target| target.written_at.is_none()), "{what}");
        }
    }
}

#[test]
fn a_label_of_somebody_else_in_the_middle_stays_and_the_node_is_opened() {
    for phase in [Phase::Cordoning, Phase::Quiescing] {
        let mut caller = on_its_way(phase);
        turn_up(&mut caller, "somebody wrote the label");
        caller.run(60);
        assert_eq!(caller.world.labels[names::MIG_CONFIG], "theirs", "{phase:?}");
        assert!(!caller.world.unschedulable, "{phase:?}: {}", caller.transcript.join("\n"));
        caller.check_never("SetConfigLabel");
        caller.check_said("holding: nvidia.com/mig.config has `theirs`, which the operator did not write");
    }
}

#[test]
fn hands_off_that_is_said_in_the_middle_opens_the_node() {
    for phase in [Phase::Cordoning, Phase::Quiescing] {
        for what in ["DRA manages the node", "DRA manages the cluster"] {
            let mut caller = on_its_way(phase);
            turn_up(&mut caller, what);
            caller.run(60);
            caller.check_open_with("0:1g.10gb*7 1:3g.40gb*2");
            caller.check_never("SetConfigLabel");
            caller.check_said("holding: DRA (GPUCluster) manages the node's devices");
        }
    }
}

/// A driver upgrade or the Machine Config Operator reboots a node and goes on
/// working there, longer than we would bear on a node of ours.
#[test]
fn after_a_reboot_nothing_is_restored_while_somebody_else_works_there() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.world.annotations.insert(names::MCO_STATE.to_owned(), "Working".to_owned());
    caller.world.reboot();
    caller.run(300);
    let held = Outlook::Holding(StartBlocker::ForeignWork {
        who: "the Machine Config Operator (Working)".to_owned(),
    });
    assert_eq!(caller.last.as_ref().unwrap().outlook, held, "{}", caller.transcript.join("\n"));
    assert_eq!(caller.progress.phase, Phase::Idle);
    assert!(caller.transcript.iter().all(|line| !line.starts_with("  ")), "{}", caller.transcript.join("\n"));
    caller.world.annotations.clear();
    caller.run(30);
    caller.check_open_with("0:1g.10gb*7 1:3g.40gb*2");
}

#[test]
fn the_plugins_pod_of_before_the_change_proves_nothing() {
    let mut caller = on_its_way(Phase::Changing);
    let before = caller.progress.target.as_ref().unwrap().plugin_before.clone().unwrap();
    caller.until(Phase::Verifying);
    // Everything is as it should be; of the plugin only a lagging watch tells, and
    // it still shows the pod that offered the slices of before.
    caller.world.pass(caller.world.now + seconds(120));
    let mut seen = caller.world.observe(Listing::Cached);
    let plugin = seen.pods.iter_mut().find(|pod| pod.operand == Some(Operand::DevicePlugin)).unwrap();
    assert_ne!(plugin.uid, before);
    plugin.uid = before;
    let told = answer(&caller, &seen);
    let Outlook::Working { waits_for: WaitsFor::Proof(missing), .. } = &told.outlook else {
        panic!("{:?}", told.outlook)
    };
    assert_eq!(*missing, Unproven::PluginPod);
    assert_eq!(told.progress.matched_since, None);
    assert_eq!(told.actions, [Action::ListPods], "what is true is asked");
    // A list of before MIG manager said success tells no more.
    seen.listing = Listing::Consistent { at: caller.progress.since.unwrap() - seconds(1) };
    assert_eq!(answer(&caller, &seen).progress.matched_since, None);
    // One of after it does: MIG manager found the layout in place and parked nothing.
    seen.listing = Listing::Consistent { at: caller.progress.since.unwrap() };
    assert_eq!(answer(&caller, &seen).progress.matched_since, Some(caller.world.now));
    caller.run(30);
    caller.check_open_with("0:3g.40gb*1,1g.10gb*3 1:3g.40gb*2");
    assert_eq!(caller.world.hardware, layout("0:3g.40gb*1,1g.10gb*3 1:3g.40gb*2"));
}

/// Feature discovery follows last: a slice that it still counts may be promised.
#[test]
fn slices_that_are_still_counted_and_are_no_more_prove_that_not_all_is_there() {
    let missing = |count: &str| {
        let mut proved = settled("0:off", "0:3g.40gb*2");
        proved.want("0:1g.10gb*7").until(Phase::Releasing);
        proved.progress.phase = Phase::Verifying;
        proved.world.set("nvidia.com/mig-3g.40gb.count", count);
        let seen = proved.world.observe(Listing::Cached);
        matches!(waits_for(&answer(&proved, &seen)), WaitsFor::Proof(Unproven::CountLabels))
    };
    assert!(missing("2"));
    assert!(!missing("0"), "none is what there is");
}

/// What is not begun without the lease, nor on a plan that breaks a rule.
#[test]
fn what_may_cost_somebody_a_slice_or_a_node_is_disruptive_and_what_gives_back_is_not() {
    let version = || "7".to_owned();
    let pod = || PodRef { namespace: "team".to_owned(), name: "train".to_owned() };
    for action in [
        Action::Cordon { if_version: version() },
        Action::Evict { pod: pod(), if_uid: "1".to_owned() },
        Action::SetConfigLabel { value: "a".to_owned(), clear_state: true, if_version: version() },
        Action::SetPluginConfigLabel { value: None, if_version: version() },
        Action::DeletePod { pod: pod(), if_uid: "1".to_owned() },
        Action::UnpauseOperands { labels: Vec::new(), if_version: version() },
    ] {
        assert!(action.is_disruptive(), "{action:?}");
    }
    for action in [
        Action::EnsureMapEntry { layout: layout("0:off"), entry: "a".to_owned(), if_map_version: None },
        Action::EnsurePluginConfig {
            key: "a".to_owned(),
            config: slicewright_rollout::PluginConfig::default(),
        },
        Action::Uncordon { if_version: version() },
        Action::RemoveCordonedBy { if_version: version() },
        Action::ListPods,
    ] {
        assert!(!action.is_disruptive(), "{action:?}");
    }
}
