//! What has to be seen before a node is opened whose sharing changed, and what is said of whoever interferes in the
//! middle.

use rollout::OtherWork;

use super::slices::until;
use super::*;

pub(super) const GPU: &str = "nvidia.com/gpu";

/// Minutes pass on a node whose label is written. It stays closed, and says why in these words.
#[track_caller]
pub(super) fn stays_closed(scene: &mut Scene, minutes: u32, expect: &str) {
    for _ in 0..minutes {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert!(scene.cordoned && scene.progress.phase == Phase::Verifying, "{:?}", scene.outlook);
        let Outlook::Working { waits_for, .. } = &scene.outlook else { panic!("{:?}", scene.outlook) };
        assert!(waits_for.to_string().contains(expect), "{waits_for}");
    }
}

/// A change back was made, and the change is tried again later, for this reason.
#[track_caller]
pub(super) fn backed_off(scene: &Scene, expect: &str) {
    let Outlook::Holding(StartBlocker::BackedOff { why, .. }) = &scene.outlook else {
        panic!("{:?}", scene.outlook)
    };
    assert!(why.to_string().contains(expect), "{why}");
    assert!(!scene.cordoned);
}

/// The label is written, feature discovery lies in one label, and then it says what is so.
#[track_caller]
fn is_not_proved(config: PluginConfig, lie: fn(&mut SharingSeen), expect: &str) {
    let mut scene = Scene::new();
    scene.wants(config.clone());
    scene.relabels = lie;
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 5, expect);
    scene.relabels = |_| ();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, config));
    assert!(!scene.cordoned);
}

#[test]
fn a_resource_that_keeps_its_name_needs_a_product_that_says_it_is_shared() {
    is_not_proved(
        PluginConfig::of_gpus(4, false, true),
        |seen| seen.shared_products.clear(),
        "the label nvidia.com/gpu.product of GPU feature discovery does not say a product with -SHARED at its end",
    );
}

#[test]
fn a_resource_that_is_renamed_needs_a_product_that_does_not_say_so() {
    is_not_proved(
        shared_by(4),
        |seen| {
            seen.shared_products.insert(GPU.to_owned());
        },
        "the label nvidia.com/gpu.product of GPU feature discovery does not say a product without -SHARED at its end",
    );
}

#[test]
fn by_what_a_device_is_shared_has_to_be_said() {
    let expect = "nvidia.com/gpu.sharing-strategy of GPU feature discovery does not say time-slicing";
    is_not_proved(shared_by(4), |seen| seen.by.clear(), expect);
    let other = |seen: &mut SharingSeen| {
        seen.by.insert(GPU.to_owned(), "mps".to_owned());
    };
    is_not_proved(shared_by(4), other, expect);
}

#[test]
fn after_sharing_went_off_no_label_says_that_it_is_on() {
    let mut scene = Scene::shared(4);
    scene.wants(PluginConfig::default());
    scene.relabels = |seen| {
        seen.by.insert(GPU.to_owned(), "time-slicing".to_owned());
    };
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 3, "nvidia.com/gpu.sharing-strategy of GPU feature discovery does not say none");
    // Feature discovery says `none` of what is not shared, and so does nobody.
    scene.relabels = |seen| {
        seen.by.insert(GPU.to_owned(), "none".to_owned());
    };
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
}

#[test]
fn nothing_begins_while_a_gpu_is_ill_or_the_cards_of_a_node_are_of_two_models() {
    let mut scene = Scene::new();
    // Discovery labels one of two models, four cards of it; the plugin offers all eight.
    scene.relabels = |seen| seen.gpus = Some(4);
    scene.wants(shared_by(4));
    scene.settle();
    let Outlook::Holding(hold @ StartBlocker::SharingMiscounted { .. }) = &scene.outlook else {
        panic!("{:?}", scene.outlook)
    };
    let says = hold.to_string();
    assert!(
        says.contains("offers nvidia.com/gpu: 8, and GPU feature discovery counts nvidia.com/gpu: 4"),
        "{says}"
    );
    assert!(says.contains("GPUs of several models, which the device plugin cannot share"), "{says}");
    assert!(scene.did.is_empty(), "{:?}", scene.did);
    // Discovery had only been late.
    scene.relabels = |_| ();
    scene.settle();
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn outside_the_windows_and_beyond_the_budget_the_map_is_written_and_the_node_is_left_open() {
    for hold in [
        StartBlocker::Window { opens: None },
        StartBlocker::Budget {
            unavailable: 1,
            allowed: 1,
            nodes: vec![planner::names::NodeName::from("t2")],
        },
    ] {
        let mut scene = Scene::new();
        scene.admission = Admission::Held(hold.clone());
        scene.wants(shared_by(4));
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Holding(hold));
        assert_eq!(scene.did, ["EnsurePluginConfig"], "so that the node can start at once");
        scene.admission = Admission::Admitted;
        scene.settle();
        assert_eq!(scene.active, shared_by(4));
    }
}

#[test]
fn labels_that_look_right_are_not_believed_while_discovery_ends_again_and_again() {
    let mut scene = Scene::shared(4);
    scene.no_discovery = true;
    // That a container may ask for several shares is in no label.
    let several = PluginConfig::of_gpus(4, true, false);
    scene.wants(several.clone());
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 5, "read the log of the pod gpu-feature-discovery of the node");
    scene.no_discovery = false;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, several));
}

#[test]
fn what_a_node_offers_is_not_believed_while_its_plugin_is_not_ready() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    scene.alters = |seen| {
        let plugins = seen.pods.iter_mut().filter(|pod| pod.operand == Some(Operand::DevicePlugin));
        plugins.for_each(|plugin| plugin.ready = false);
    };
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 5, "the device plugin's new pod is not ready");
    scene.alters = |seen| seen.pods.retain(|pod| pod.operand != Some(Operand::DevicePlugin));
    stays_closed(&mut scene, 3, "the device plugin's new pod is not ready");
    scene.alters = |_| ();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
    assert!(!scene.cordoned);
}

/// Each of these keeps a change from beginning, whatever else is right.
#[test]
fn nothing_begins_on_a_node_that_somebody_else_has_in_hand_or_that_is_not_ready() {
    type Case = (fn(&mut Observed), StartBlocker);
    let upgrade = OtherWork::DriverUpgradeAnnounced;
    let cases: [Case; 5] = [
        (
            |seen| seen.work = Some(OtherWork::DriverUpgradeAnnounced),
            StartBlocker::ForeignWork { who: upgrade.to_string() },
        ),
        (|seen| seen.ready = false, StartBlocker::NotReady),
        (
            |seen| {
                seen.unschedulable = true;
                seen.cordon_owner = CordonOwner::Other { manager: "kubectl-cordon".to_owned() };
            },
            StartBlocker::CordonedByOthers,
        ),
        (
            |seen| seen.manager = Some(rollout::OtherManager::Dra),
            StartBlocker::HandsOff { who: rollout::OtherManager::Dra.to_string() },
        ),
        (|seen| seen.operator.cluster_policy = false, StartBlocker::NoClusterPolicy),
    ];
    for (alters, holds) in cases {
        let mut scene = Scene::new();
        scene.alters = alters;
        scene.wants(shared_by(4));
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Holding(holds.clone()));
        assert_eq!((scene.did.len(), scene.key.clone()), (0, None), "{holds:?}: {:?}", scene.did);
        scene.alters = |_| ();
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)), "{holds:?}");
    }
}

#[test]
fn cluster_policy_that_points_elsewhere_in_the_middle_is_named_as_the_reason() {
    let elsewhere = "ClusterPolicy no longer points the device plugin to the map slicewright-plugin-config";
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    until(&mut scene, Phase::Verifying);
    scene.points_to_ours = false;
    stays_closed(&mut scene, 5, elsewhere);
    // Whoever points it back in time has the change go on.
    scene.points_to_ours = true;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));

    // Otherwise the label is taken back, so that the plugin finds the default of that other map.
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    until(&mut scene, Phase::Verifying);
    scene.points_to_ours = false;
    scene.settle();
    backed_off(&scene, elsewhere);
    assert_eq!((scene.key.clone(), scene.active.clone()), (None, PluginConfig::default()));

    // A node that was shared before has its key of before in our map, too: it waits for a human, who is told.
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    until(&mut scene, Phase::Verifying);
    scene.points_to_ours = false;
    scene.settle();
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(failure.why.to_string().contains(elsewhere), "{}", failure.why);
    assert!(scene.cordoned);
    scene.points_to_ours = true;
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert_eq!((scene.active.clone(), scene.cordoned), (shared_by(4), false), "and is opened by itself");
}

#[test]
fn a_driver_upgrade_that_begins_in_the_middle_is_waited_for_and_the_proof_has_its_time_again() {
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    until(&mut scene, Phase::Verifying);
    scene.work = Some(OtherWork::DriverUpgrade { state: "pod-restart-required".to_owned() });
    scene.mute = true;
    stays_closed(&mut scene, 60, "a driver upgrade (pod-restart-required) to finish");
    assert_eq!(scene.key, Some(shared_by(6).key()), "nothing is taken back meanwhile");
    scene.work = None;
    for _ in 0..5 {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert_eq!(scene.progress.phase, Phase::Verifying, "its plugin starts");
    }
    scene.mute = false;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(6)));
    assert!(!scene.cordoned);
}

#[test]
fn a_key_that_somebody_removes_in_the_middle_is_written_again() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    until(&mut scene, Phase::Verifying);
    scene.did.clear();
    scene.map.clear();
    scene.round();
    assert_eq!(scene.did, ["EnsurePluginConfig"]);
    let Outlook::Working { waits_for, .. } = &scene.outlook else { panic!("{:?}", scene.outlook) };
    let expect = format!("somebody removed the key `{}`", shared_by(4).key());
    assert!(waits_for.to_string().contains(&expect), "{waits_for}");
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
    assert!(!scene.cordoned);
}

/// A card is taken out while the node waits for a human. What it offers then is all that it has.
#[test]
fn a_failed_node_is_opened_when_it_offers_what_its_gpus_give_now_and_not_what_they_gave_before() {
    let mut scene = failed();
    (scene.mute, scene.gpus) = (false, GPUS - 1);
    scene.round();
    assert!(scene.cordoned, "it has to look right for a while");
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert!(!scene.cordoned, "{:?}", scene.outlook);
}

/// The pod of a DaemonSet gets past every cordon. It has a GPU for itself, and would have three neighbours under the key of
/// before.
#[test]
fn who_got_past_the_cordon_is_given_no_neighbours_when_the_key_of_before_is_put_back() {
    let mut scene = Scene::shared(4);
    scene.wants(PluginConfig::default());
    scene.no_discovery = true;
    until(&mut scene, Phase::Verifying);
    assert_eq!(scene.active, PluginConfig::default());
    scene.pods.push(Pod { daemon_set: true, ..pod("late", GPU, 1) });
    scene.settle();
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(failure.why.to_string().contains("late"), "{}", failure.why);
    assert_eq!(scene.active, PluginConfig::default(), "it keeps its GPU for itself");
    assert!(scene.cordoned);
}

/// It has set the compute mode of every GPU so that no process gets it but those of MPS's server.
#[test]
fn a_node_that_shared_through_mps_is_opened_when_the_control_daemon_has_gone() {
    let mut scene = Scene::new();
    scene.wants(shared_as(Method::Mps, &[("gpu", 4)]));
    scene.settle();
    scene.wants(shared_by(4));
    until(&mut scene, Phase::Verifying);
    scene.pods.push(Pod { operand: Some(Operand::MpsControlDaemon), ..pod("daemon-of-before", "cpu", 1) });
    scene.pods[0].terminating = true;
    stays_closed(&mut scene, 3, "the control daemon of MPS is still there");
    scene.cleared();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
    assert!(!scene.cordoned);
}

/// Whoever came is waited for, as everywhere: most pods end, and the node is opened without anybody's help.
#[test]
fn who_got_past_the_cordon_and_goes_holds_the_way_back_up_only_for_as_long() {
    let mut scene = Scene::shared(4);
    scene.wants(PluginConfig::default());
    scene.no_discovery = true;
    until(&mut scene, Phase::Relabelling);
    scene.pods.push(pod("late", GPU, 1));
    // Longer than a write may take.
    for _ in 0..42 {
        scene.round();
        let Outlook::Working { waits_for, .. } = &scene.outlook else { panic!("{:?}", scene.outlook) };
        assert!(waits_for.to_string().contains("late"), "{waits_for}");
        assert_eq!(scene.active, PluginConfig::default());
        scene.now += SignedDuration::from_secs(10);
    }
    scene.pods.clear();
    scene.no_discovery = false;
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::BackedOff { .. })), "{:?}", scene.outlook);
    assert_eq!(scene.active, shared_by(4));
    assert!(!scene.cordoned);
}

/// A seat is a seat under the key of before as well, and the pod keeps it.
#[test]
fn who_got_past_the_cordon_and_is_not_harmed_by_the_key_of_before_is_not_in_the_way() {
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    scene.no_discovery = true;
    until(&mut scene, Phase::Relabelling);
    scene.pods.push(Pod { daemon_set: true, ..pod("late", "nvidia.com/gpu.shared", 1) });
    for _ in 0..6 {
        scene.round();
        scene.now += SignedDuration::from_secs(10);
    }
    scene.no_discovery = false;
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::BackedOff { .. })), "{:?}", scene.outlook);
    assert_eq!(scene.active, shared_by(4));
    assert!(!scene.cordoned);
}

/// Between the failure and the key that is put back somebody may have come whom no watch has shown yet.
#[test]
fn the_key_of_before_is_put_back_on_a_list_of_after_the_failure() {
    let mut scene = Scene::shared(4);
    scene.obeys = false;
    scene.wants(shared_by(6));
    scene.settle();
    let mut did: Vec<&str> = scene.did.clone();
    did.retain(|action| matches!(*action, "ListPods" | "SetPluginConfigLabel"));
    did.dedup();
    assert_eq!(did, ["ListPods", "SetPluginConfigLabel", "ListPods", "SetPluginConfigLabel"]);
}
