//! A node with eight T4s whose sharing changes: what keeps pods from sharing a GPU unawares, what the device plugin is
//! told and when, and what happens when it does not obey.

mod back;
mod key;
mod layout;
mod proof;
mod restarts;
mod scene;
mod slices;
mod strategy;
mod walk;
use jiff::SignedDuration;
use planner::policy::Drain;
use rollout::observed::{Observed, Pod, PodPhase};
use rollout::progress::{Phase, Progress};
use rollout::{
    Action, Admission, CordonOwner, Method, NodeLayout, Operand, Outlook, PluginConfig, SharingSeen,
    SharingWanted, StartBlocker, Strategy,
};
use slicewright_rollout as rollout;

use scene::{GPUS, Scene, cut, pod, shared_as, shared_by};

#[test]
fn a_node_that_nobody_uses_is_shared_after_its_key_was_mounted_and_opened_when_it_offers_that() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    scene.settle();
    let (mapped, labelled) = (scene.mapped_at.unwrap(), scene.labelled_at.unwrap());
    assert!(labelled >= mapped + SignedDuration::from_secs(120), "kubelet needs time to mount the key");
    assert_eq!(scene.key, Some(shared_by(4).key()));
    assert_eq!(scene.offers()["nvidia.com/gpu.shared"], 32);
    assert!(!scene.cordoned);
    let expect = ["EnsurePluginConfig", "Cordon", "ListPods", "SetPluginConfigLabel", "Uncordon"];
    assert_eq!(scene.did, expect);
    scene.did.clear();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.did.len()), (Outlook::Idle, 0), "nothing is written at rest");
}

#[test]
fn a_pod_that_has_a_gpu_for_itself_gets_no_neighbours() {
    let mut scene = Scene::new();
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    scene.held_by(&["train"]);
    assert_eq!(scene.key, None);
    scene.cleared();
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn a_gpu_is_for_one_pod_again_only_when_the_last_of_its_sharers_has_gone() {
    let mut scene = Scene::shared(4);
    scene.pods = vec![pod("a", "nvidia.com/gpu.shared", 1), pod("b", "nvidia.com/gpu.shared", 1)];
    scene.wants(PluginConfig::default());
    scene.settle();
    scene.held_by(&["a", "b"]);
    scene.pods.remove(0);
    scene.settle();
    scene.held_by(&["b"]);
    assert_eq!(scene.active, shared_by(4));
    scene.cleared();
    assert_eq!(scene.active, PluginConfig::default());
}

#[test]
fn another_name_is_another_resource_and_waits_as_well() {
    let mut scene = Scene::shared(4);
    scene.pods.push(pod("a", "nvidia.com/gpu.shared", 1));
    scene.wants(PluginConfig::of_gpus(4, false, true));
    scene.settle();
    scene.held_by(&["a"]);
}

#[test]
fn more_share_a_gpu_at_once_and_fewer_when_those_who_share_it_fit() {
    let mut scene = Scene::shared(4);
    scene.pods = (0..20).map(|n| pod(&format!("lab{n}"), "nvidia.com/gpu.shared", 1)).collect();
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(6)));
    // Sixteen seats for twenty.
    scene.wants(shared_by(2));
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::GpusHeld { .. })), "{:?}", scene.outlook);
    scene.pods.truncate(16);
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(2)));
    assert_eq!(scene.pods.len(), 16);
}

#[test]
fn where_it_is_not_known_how_gpus_are_shared_every_pod_that_holds_one_counts() {
    let mut scene = Scene::shared(4);
    scene.pods.push(pod("a", "nvidia.com/gpu.shared", 1));
    // One more would be no trouble, but the plugin offers something else than its key says.
    scene.active = shared_by(3);
    scene.wants(shared_by(6));
    scene.settle();
    scene.held_by(&["a"]);
}

#[test]
fn a_pod_that_comes_while_the_node_is_being_cordoned_takes_the_change_back() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.pods.push(pod("late", "nvidia.com/gpu", 1));
    scene.settle();
    assert_eq!((scene.key.clone(), scene.cordoned), (None, false));
    assert_eq!(scene.active, PluginConfig::default());
}

#[test]
fn a_pod_that_is_bound_and_not_started_is_waited_for_before_the_label() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.pods.push(Pod { phase: PodPhase::Pending, ..pod("late", "nvidia.com/gpu", 1) });
    for _ in 0..10 {
        scene.now += SignedDuration::from_secs(10);
        scene.round();
        assert_eq!(scene.key, None);
    }
}

#[test]
fn where_the_policy_evicts_the_pods_go_first() {
    let mut scene = Scene::new();
    scene.drain = Drain::Evict;
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    let at = |name| scene.did.iter().position(|did| *did == name).unwrap();
    assert!(at("Cordon") < at("Evict") && at("Evict") < at("SetPluginConfigLabel"), "{:?}", scene.did);
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn while_cluster_policy_names_another_map_nothing_but_the_map_is_written() {
    let mut scene = Scene::new();
    scene.points_to_ours = false;
    scene.wants(shared_by(4));
    scene.settle();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::PluginMapNotOurs));
    assert_eq!(scene.did, ["EnsurePluginConfig"], "a plugin whose map is not there does not start");
    let pointed = scene.now + SignedDuration::from_mins(30);
    (scene.now, scene.points_to_ours) = (pointed, true);
    scene.settle();
    assert_eq!(scene.active, shared_by(4));
    // Pods of the device plugin are made anew then, and mount the map.
    assert!(scene.labelled_at.unwrap() >= pointed + SignedDuration::from_secs(120));

    // Whoever pointed it back for a while has had the plugin made anew twice.
    let mut scene = Scene::new();
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    scene.held_by(&["train"]);
    scene.points_to_ours = false;
    scene.settle();
    let again = scene.now + SignedDuration::from_mins(30);
    (scene.now, scene.points_to_ours) = (again, true);
    scene.cleared();
    assert_eq!(scene.active, shared_by(4));
    assert!(scene.labelled_at.unwrap() >= again + SignedDuration::from_secs(120));
}

#[test]
fn somebody_elses_label_freezes_the_sharing_of_a_node() {
    let mut scene = Scene::new();
    scene.key = Some("tesla-t4".to_owned());
    scene.wants(shared_by(4));
    scene.settle();
    let theirs = |ours: Option<String>| {
        Outlook::Holding(StartBlocker::ForeignSharing { found: Some("tesla-t4".to_owned()), ours })
    };
    assert_eq!(scene.outlook, theirs(None));
    assert!(scene.did.is_empty());

    let mut scene = Scene::shared(4);
    scene.key = Some("tesla-t4".to_owned());
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!(scene.outlook, theirs(Some(shared_by(4).key())));
    assert_eq!(scene.key.as_deref(), Some("tesla-t4"));
    // Who takes our label away takes the node out of our hands, too.
    scene.key = None;
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::ForeignSharing { found: None, .. })));
    scene.key = Some(shared_by(4).key());
    scene.settle();
    assert_eq!(scene.active, shared_by(6));
}

#[test]
fn a_label_that_somebody_else_writes_in_the_middle_is_left_and_the_node_stays_closed() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    slices::until(&mut scene, Phase::Verifying);
    scene.key = Some("tesla-t4".to_owned());
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Failed(_)), "{:?}", scene.outlook);
    assert!(scene.cordoned);
    assert_eq!(scene.key.as_deref(), Some("tesla-t4"));
}

#[test]
fn a_plugin_that_does_not_obey_gets_its_key_of_before_and_is_asked_again_later() {
    let mut scene = Scene::shared(4);
    scene.obeys = false;
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!(scene.key, Some(shared_by(4).key()));
    assert!(!scene.cordoned, "it offers what it offered before");
    let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook.clone() else {
        panic!("{:?}", scene.outlook)
    };
    scene.obeys = true;
    scene.now = until;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(6)));
}

/// A node whose plugin offers nothing any more amid a change of how its GPUs are shared: it waits for a human.
#[track_caller]
fn failed() -> Scene {
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    slices::until(&mut scene, Phase::Verifying);
    scene.mute = true;
    scene.settle();
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(failure.why.to_string().contains("neither the sharing nor the previous one"), "{}", failure.why);
    assert!(scene.cordoned);
    scene
}

#[test]
fn a_plugin_that_offers_nothing_any_more_is_left_to_a_human_and_noticed_when_it_is_right_again() {
    let mut scene = failed();
    scene.mute = false;
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert!(!scene.cordoned);
}

#[test]
fn nothing_begins_while_nobody_says_which_gpus_the_node_has() {
    let mut scene = Scene::new();
    scene.wanted = Some(SharingWanted::Unknown);
    scene.settle();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::SharingUnknown));
    assert!(scene.did.is_empty());
}

#[test]
fn a_node_that_leaves_its_policy_keeps_its_key() {
    let mut scene = Scene::shared(4);
    scene.wanted = None;
    scene.settle();
    assert_eq!((scene.key.clone(), scene.did.len()), (Some(shared_by(4).key()), 0));
}

#[test]
fn a_policy_that_goes_before_the_label_takes_the_change_back() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.wanted = None;
    scene.settle();
    assert_eq!((scene.key.clone(), scene.cordoned), (None, false));
}
