//! Rollouts of one node, told as stories.

use crate::fake::{Caller, World, layout, settled};
use jiff::SignedDuration;
use planner::policy::Drain;
use slicewright_rollout::{
    Admission, Operand, Outlook, Phase, PodPhase, Progress, StartBlocker, Strategy, names,
};

#[test]
fn a_node_takes_its_first_layout_and_is_open_again() {
    let mut caller = Caller::new(World::new("0:off 1:off"), "0:1g.10gb*7 1:3g.40gb*2");
    caller.settle();
    assert_eq!(caller.last.as_ref().unwrap().outlook, Outlook::Idle);
    assert_eq!(caller.world.hardware, layout("0:1g.10gb*7 1:3g.40gb*2"));
    assert!(!caller.world.unschedulable);
    assert_eq!(caller.progress.phase, Phase::Idle);
    assert_eq!(
        caller.transcript,
        [
            "Mapping: waits for the map's entry to be written",
            "  EnsureMapEntry",
            "Mapping: waits for the kubelet to deliver the map's entry to MIG manager",
            "Cordoning: waits for the cordon to be noticed",
            "  Cordon",
            "Quiescing: waits for a consistent list of the node's pods",
            "  ListPods",
            "Quiescing: waits for the label to be written",
            "  SetConfigLabel",
            "Changing: waits for MIG manager to take up the change",
            "Changing: waits for MIG manager to finish",
            "Verifying: waits for the slices to be schedulable (the device plugin's new pod is not ready; if it lasts, read the log of the pod nvidia-device-plugin-daemonset of the node)",
            "Verifying: waits for the slices to be schedulable (the node offers nothing; expected is nvidia.com/mig-1g.10gb: 7, nvidia.com/mig-3g.40gb: 2)",
            "Verifying: waits for the slices to be schedulable (the labels of GPU feature discovery are not up to date)",
            "Verifying: waits for the slices to be schedulable (the slices are complete, and are watched for a moment)",
            "Releasing: waits for the cordon to be lifted",
            "  Uncordon",
            "idle",
        ]
    );
}

#[test]
fn only_the_gpu_that_changes_is_touched_and_its_neighbour_keeps_its_pod() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.world.pod("train", "mig-3g.40gb", 1);
    caller.want("0:2g.20gb*3 1:3g.40gb*2").settle();
    caller.check_open_with("0:2g.20gb*3 1:3g.40gb*2");
    assert_eq!(caller.world.users.len(), 1);
}

#[test]
fn a_pod_that_may_hold_a_slice_keeps_the_node_from_being_cordoned() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:1g.10gb*7");
    // It is on GPU 1, but without an agent nobody can tell.
    caller.world.pod("notebook", "mig-1g.10gb", 1);
    caller.want("0:3g.40gb*2 1:1g.10gb*7").run(10);
    caller.check_said("holding: a slice that would be destroyed is, or may be, held by team/notebook");
    caller.check_never("Cordon");
    // With an agent one can.
    caller.world.users[0].pod.gpus = Some(caller.world.users[0].on.clone());
    caller.settle();
    caller.check_open_with("0:3g.40gb*2 1:1g.10gb*7");
}

#[test]
fn a_pod_that_binds_just_before_the_cordon_makes_us_back_off() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.want("0:3g.40gb*2").until(Phase::Cordoning);
    caller.world.pod("late", "mig-1g.10gb", 0).pod.phase = PodPhase::Pending;
    caller.run(1);
    caller.check_said("waits for pods to start or fail: team/late");
    caller.world.users[0].pod.phase = PodPhase::Started;
    caller.run(1);
    caller.check_open_with("0:1g.10gb*7");
    caller.check_never("SetConfigLabel");
    caller.check_said("holding: its change is retried at");
    // It fails instead, next time: then it holds nothing.
    caller.world.users[0].pod.phase = PodPhase::Ended;
    caller.run(30);
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_pod_that_never_starts_does_not_keep_the_node_cordoned() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.want("0:3g.40gb*2").until(Phase::Cordoning);
    caller.world.pod("stuck", "mig-1g.10gb", 0).pod.phase = PodPhase::Pending;
    caller.run(12);
    caller.check_open_with("0:1g.10gb*7");
    caller.check_said("pods neither started nor failed: team/stuck");
}

#[test]
fn a_pod_that_is_ending_is_waited_for() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    let gone = caller.world.now + SignedDuration::from_mins(5);
    let user = caller.world.pod("ending", "mig-1g.10gb", 0);
    (user.pod.terminating, user.gone_at) = (true, Some(gone));
    caller.want("0:3g.40gb*2").settle();
    caller.check_said("waits for pods to go: team/ending");
    caller.check_open_with("0:3g.40gb*2");
    assert!(caller.world.now > gone);
}

#[test]
fn drain_evict_moves_the_pods_in_the_way_and_no_others() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.world.pod("a", "mig-1g.10gb", 0);
    caller.world.pod("b", "mig-1g.10gb", 0).pod.phase = PodPhase::Pending;
    caller.world.pod("c", "mig-3g.40gb", 1);
    caller.rules.drain = Drain::Evict;
    caller.want("0:7g.80gb*1 1:3g.40gb*2").settle();
    caller.check_open_with("0:7g.80gb*1 1:3g.40gb*2");
    let evicted: Vec<_> = caller.world.evicted.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(evicted, ["a", "b"]);
}

#[test]
fn a_disruption_budget_is_honoured_and_quoted_and_in_the_end_we_retreat() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.pod("web", "mig-1g.10gb", 0).budget = true;
    caller.rules.drain = Drain::Evict;
    caller.want("0:7g.80gb*1").run(65);
    caller.check_said("eviction of team/web refused: disruption budget `web` allows 0 disruptions");
    caller.check_said("holding: its change is retried at");
    caller.check_open_with("0:1g.10gb*7");
    assert_eq!(caller.world.users.len(), 1);
}

#[test]
fn a_daemonsets_pod_cannot_be_evicted_for_good() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.pod("exporter", "mig-1g.10gb", 0).pod.daemon_set = true;
    caller.rules.drain = Drain::Evict;
    caller.want("0:7g.80gb*1").run(10);
    caller.check_said("held by team/exporter");
    caller.check_never("Cordon");
}

#[test]
fn mig_is_switched_on_only_when_nobody_holds_anything() {
    let mut caller = Caller::new(World::new("0:off 1:off"), "0:1g.10gb*7 1:1g.10gb*7");
    caller.world.pod("train", "gpu", 1);
    caller.run(10);
    caller.check_said("held by team/train");
    caller.check_never("Cordon");
    caller.world.end("train");
    caller.settle();
    caller.check_open_with("0:1g.10gb*7 1:1g.10gb*7");
}

#[test]
fn the_operators_own_checks_are_in_nobodys_way() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    let check = caller.world.pod("validator", "mig-1g.10gb", 0);
    check.pod.operand = Some(Operand::Validator);
    check.on.clear();
    caller.want("0:7g.80gb*1").settle();
    caller.check_open_with("0:7g.80gb*1");
}

#[test]
fn demand_that_vanishes_takes_back_what_has_not_become_disruptive() {
    for phase in [Phase::Mapping, Phase::Cordoning, Phase::Quiescing] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.want("0:1g.10gb*7").settle();
        assert_eq!(caller.last.as_ref().unwrap().outlook, Outlook::Idle, "{phase:?}");
        caller.check_open_with("0:1g.10gb*7");
        caller.check_never("SetConfigLabel");
    }
    // Past the label the node is finished, and goes back in its own time.
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.want("0:3g.40gb*2").until(Phase::Changing);
    caller.want("0:1g.10gb*7").run(8);
    caller.check_said("holding: the node was changed recently, and its cooldown lasts until");
    assert_eq!(caller.world.hardware, layout("0:3g.40gb*2"));
    caller.run(15);
    caller.check_open_with("0:1g.10gb*7");
}

#[test]
fn a_window_that_closes_takes_back_what_can_be_and_finishes_the_rest() {
    let window = Admission::Held(StartBlocker::Window { opens: None });
    for (phase, ends_with) in [
        (Phase::Cordoning, "0:1g.10gb*7"),
        (Phase::Quiescing, "0:1g.10gb*7"),
        (Phase::Changing, "0:3g.40gb*2"),
        (Phase::Verifying, "0:3g.40gb*2"),
    ] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.rules.admission = window.clone();
        caller.run(10);
        caller.check_open_with(ends_with);
    }
}

#[test]
fn a_policy_that_is_paused_or_deleted_leaves_no_node_cordoned() {
    for phase in [Phase::Mapping, Phase::Cordoning, Phase::Quiescing, Phase::Changing, Phase::Verifying] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.rules.admission = Admission::Held(StartBlocker::NotEnforced);
        caller.wanted = None;
        caller.settle();
        assert!(!caller.world.unschedulable, "{phase:?}");
        assert_eq!(caller.world.breaches, 0);
        assert_eq!(caller.last.as_ref().unwrap().outlook, Outlook::Idle);
    }
}

#[test]
fn a_node_rests_after_a_change() {
    let mut caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
    caller.settle();
    caller.want("0:3g.40gb*2").run(5);
    caller.check_said("holding: the node was changed recently, and its cooldown lasts until");
    assert_eq!(caller.world.runs, 1);
    caller.run(20);
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_layout_that_is_there_under_anybodys_name_is_left_as_it_is() {
    let mut world = World::new("0:1g.10gb*7");
    world.map.insert("all-1g.10gb".to_owned(), (layout("0:1g.10gb*7"), crate::fake::start()));
    world.labels.insert(names::MIG_CONFIG.to_owned(), "all-1g.10gb".to_owned());
    world.labels.insert(names::MIG_CONFIG_STATE.to_owned(), "success".to_owned());
    let mut caller = Caller::new(world, "0:1g.10gb*7");
    assert_eq!(*caller.settle(), Outlook::Idle);
    assert_eq!(caller.world.labels[names::MIG_CONFIG], "all-1g.10gb");
    // The first take-over may replace any label.
    caller.want("0:3g.40gb*2").settle();
    caller.check_open_with("0:3g.40gb*2");
    assert!(caller.world.labels[names::MIG_CONFIG].starts_with("slicewright-"));
}

#[test]
fn strategy_single_takes_uniform_layouts_only() {
    let mut caller = Caller::new(World::new("0:off 1:off"), "0:1g.10gb*7 1:3g.40gb*2");
    caller.world.operator.strategy = Strategy::Single;
    caller.settle();
    caller.check_said("strategy `single` needs the same profile on every GPU");
    caller.check_said("set ClusterPolicy spec.mig.strategy to `mixed`");
    caller.check_never("EnsureMapEntry");
}

#[test]
fn somebody_elses_cordon_is_respected() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.unschedulable = true;
    caller.want("0:3g.40gb*2").run(10);
    caller.check_said("holding: somebody else cordoned the node");
    assert!(caller.world.unschedulable);
    caller.check_never("Uncordon");
    caller.world.unschedulable = false;
    caller.settle();
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_human_who_uncordons_before_the_change_wins() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.pod("ending", "mig-1g.10gb", 0).pod.terminating = true;
    caller.want("0:3g.40gb*2").until(Phase::Quiescing);
    caller.world.unschedulable = false;
    caller.world.version += 1;
    caller.run(1);
    caller.check_said("RemoveCordonedBy");
    caller.check_said("someone lifted the operator's cordon");
    caller.check_open_with("0:1g.10gb*7");
}

/// Past the label the node has to stay closed: its slices are not there.
#[test]
fn a_node_that_is_opened_in_the_middle_of_its_change_is_closed_again() {
    for phase in [Phase::Changing, Phase::Verifying] {
        let mut caller = settled("0:off", "0:1g.10gb*7");
        caller.want("0:3g.40gb*2").until(phase);
        caller.transcript.clear();
        caller.world.unschedulable = false;
        caller.world.version += 1;
        caller.turn();
        assert!(caller.world.unschedulable, "{phase:?}: {}", caller.transcript.join("\n"));
        caller.settle();
        assert_eq!(caller.did("Cordon"), 1, "{phase:?}: {}", caller.transcript.join("\n"));
        caller.check_open_with("0:3g.40gb*2");
    }
}

#[test]
fn nodes_of_others_are_left_alone() {
    type Change = fn(&mut World);
    let cases: [(Change, &str); 11] = [
        (|w| w.gpu_cluster = true, "DRA (GPUCluster) manages the node's devices"),
        (
            |w| {
                w.allocatable.insert("mig.das.com/1g.10gb".to_owned(), 7);
            },
            "the Dynamic Accelerator Slicer (DAS) manages",
        ),
        (|w| w.operator.cluster_policy = false, "there is no ClusterPolicy"),
        (|w| w.operator.mig_manager = false, "MIG manager is switched off"),
        (|w| w.set(names::DEPLOY_MIG_MANAGER, "false"), "MIG manager is switched off"),
        (|w| w.operator.uses_our_map = false, "does not use the map slicewright-mig-config"),
        (|w| w.set(names::DRIVER_UPGRADE_STATE, "drain-required"), "driver upgrade (drain-required)"),
        (|w| w.set(names::DRIVER_UPGRADE_STATE, "upgrade-required"), "driver upgrade (upgrade-required)"),
        (
            |w| {
                w.annotations.insert(names::MCO_DESIRED_CONFIG.to_owned(), "rendered-b".to_owned());
            },
            "Machine Config Operator (it wants rendered-b)",
        ),
        (
            |w| {
                w.annotations.insert(names::MCO_STATE.to_owned(), "Working".to_owned());
            },
            "Machine Config Operator (Working) works on the node",
        ),
        (|w| w.ready = false, "the node is not ready"),
    ];
    for (change, said) in cases {
        let mut caller = Caller::new(World::new("0:off"), "0:1g.10gb*7");
        change(&mut caller.world);
        caller.run(10);
        caller.check_said(said);
        assert!(!caller.transcript.iter().any(|line| line.starts_with("  ")), "{:?}", caller.transcript);
    }
}

#[test]
fn a_foreign_label_freezes_the_node_until_it_is_given_back() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    let ours = caller.world.labels[names::MIG_CONFIG].clone();
    let hour = SignedDuration::from_hours(1);
    caller.world.map.insert("theirs".to_owned(), (layout("0:7g.80gb*1"), caller.world.now - hour));
    caller.world.set(names::MIG_CONFIG, "theirs");
    caller.want("0:3g.40gb*2").run(20);
    caller.check_said(&format!(
        "nvidia.com/mig.config has `theirs`, which the operator did not write; the operator's value was `{ours}`"
    ));
    assert_eq!(caller.world.hardware, layout("0:7g.80gb*1"));
    assert!(!caller.transcript.iter().any(|line| line.starts_with("  ")), "{:?}", caller.transcript);
    caller.world.set(names::MIG_CONFIG, &ours);
    caller.settle();
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_removed_label_is_foreign_too() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.labels.remove(names::MIG_CONFIG);
    caller.run(5);
    caller.check_said("nvidia.com/mig.config has no value, which the operator did not write");
    caller.check_never("SetConfigLabel");
}

#[test]
fn a_lost_memory_is_rebuilt_from_the_node() {
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
        caller.progress = Progress::default();
        caller.settle();
        caller.check_open_with("0:3g.40gb*2");
    }
}
