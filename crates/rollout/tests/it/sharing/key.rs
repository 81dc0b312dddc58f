//! Whether the plugin can know its key: `ClusterPolicy` points away and back while a node changes, and the DaemonSet is
//! slow to replace the pods that mount the map of before.

use super::layout::{large, small_by};
use super::proof::stays_closed;
use super::slices::until;
use super::*;

const MOUNT: SignedDuration = SignedDuration::from_secs(120);

fn count(scene: &Scene, action: &str) -> usize {
    scene.did.iter().filter(|did| **did == action).count()
}

/// Small slices that two pods share, at rest; soon there are to be large ones, and nobody shares any more.
fn both_change() -> Scene {
    let mut scene = Scene::with_slices(&[("train", "nvidia.com/mig-3g.40gb")]);
    scene.wants(small_by(2));
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)));
    scene.did.clear();
    scene.wants(PluginConfig::default());
    scene.wanted_layout = Some(large());
    scene
}

#[track_caller]
fn both_have_changed(scene: &mut Scene) {
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
    assert_eq!((scene.layout.clone(), scene.cordoned), (Some(large()), false));
    assert_eq!(scene.pods.len(), 1, "who trains keeps the slice");
}

fn pod_of_before(outlook: &Outlook) -> bool {
    matches!(outlook, Outlook::Holding(StartBlocker::PluginPodOfBefore { pod }) if pod.name.starts_with("plugin"))
}

#[test]
fn cluster_policy_that_points_away_and_back_while_the_layout_changes_has_the_key_mounted_anew() {
    let mut scene = both_change();
    until(&mut scene, Phase::Verifying);
    assert_eq!((scene.layout.clone(), count(&scene, "SetPluginConfigLabel")), (Some(large()), 0));
    scene.points_to_ours = false;
    scene.round();
    scene.now += SignedDuration::from_secs(1);
    scene.points_to_ours = true;
    let back_since = scene.now;
    both_have_changed(&mut scene);
    assert!(scene.labelled_at.unwrap() >= back_since + MOUNT, "pods are made anew, and mount the map");
    assert_eq!(count(&scene, "SetConfigLabel"), 1, "the layout is made once: {:?}", scene.did);
}

#[test]
fn a_map_that_is_cleared_and_mended_while_the_layout_changes_has_the_key_mounted_anew() {
    let mut scene = both_change();
    until(&mut scene, Phase::Verifying);
    let key = PluginConfig::default().key();
    scene.map.remove(&key);
    scene.round();
    scene.now += SignedDuration::from_secs(1);
    scene.map.insert(key, PluginConfig::default());
    let back_since = scene.now;
    both_have_changed(&mut scene);
    assert!(scene.labelled_at.unwrap() >= back_since + MOUNT);
}

/// MIG manager may take minutes. A map that somebody points to meanwhile is mounted when it is done.
#[test]
fn a_key_that_comes_in_time_while_the_layout_changes_is_named_under_the_same_cordon() {
    let mut scene = Scene::with_slices(&[]);
    scene.points_to_ours = false;
    scene.wants(small_by(2));
    scene.wanted_layout = Some(large());
    while count(&scene, "SetConfigLabel") == 0 {
        scene.now = scene.round().unwrap().max(scene.now + SignedDuration::from_secs(1));
    }
    scene.alters = |seen| seen.operands.state = rollout::observed::ManagerState::Pending;
    scene.points_to_ours = true;
    for _ in 0..5 {
        scene.round();
        scene.now += SignedDuration::from_secs(30);
    }
    scene.alters = |_| ();
    scene.settle();
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(large()), small_by(2)));
    assert_eq!((scene.outlook.clone(), count(&scene, "Cordon")), (Outlook::Idle, 1), "{:?}", scene.did);
}

#[test]
fn while_cluster_policy_points_elsewhere_a_node_with_a_key_of_ours_gets_no_layout() {
    let mut scene = both_change();
    scene.points_to_ours = false;
    // It may be long since: nothing that was proved is known any more.
    scene.progress.verified = None;
    scene.drain = Drain::Evict;
    scene.settle();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::PluginMapNotOurs));
    assert_eq!((scene.layout.clone(), scene.cordoned, scene.pods.len()), (Some(cut()), false, 1));
    scene.points_to_ours = true;
    both_have_changed(&mut scene);
}

#[test]
fn cluster_policy_that_points_elsewhere_before_the_label_takes_the_layout_back() {
    for phase in [Phase::Cordoning, Phase::Quiescing] {
        let mut scene = both_change();
        scene.lost = "ListPods";
        until(&mut scene, phase);
        scene.lost = "";
        scene.points_to_ours = false;
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::PluginMapNotOurs), "{phase:?}");
        assert_eq!((scene.layout.clone(), scene.cordoned), (Some(cut()), false), "{phase:?}");
        scene.points_to_ours = true;
        both_have_changed(&mut scene);
    }
}

/// Another run of MIG manager, or the layout of before, would offer as little.
#[test]
fn cluster_policy_that_points_elsewhere_after_the_label_is_named_and_the_layout_is_not_tried_in_vain() {
    let elsewhere = "ClusterPolicy no longer points the device plugin to the map slicewright-plugin-config";
    let mut scene = both_change();
    until(&mut scene, Phase::Verifying);
    scene.points_to_ours = false;
    scene.settle();
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(failure.why.to_string().contains(elsewhere), "{}", failure.why);
    assert_eq!((count(&scene, "SetConfigLabel"), count(&scene, "DeletePod")), (1, 0), "{:?}", scene.did);
    assert!(scene.cordoned);
    scene.points_to_ours = true;
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    both_have_changed(&mut scene);
}

/// In a large fleet the DaemonSet needs hours to come to every node.
#[test]
fn a_node_whose_plugin_still_mounts_the_map_of_before_is_told_its_key_when_its_pod_has_been_replaced() {
    let mut scene = Scene::new();
    scene.pod_of_before = true;
    scene.wants(shared_by(4));
    scene.settle();
    for _ in 0..10 {
        scene.now += SignedDuration::from_hours(1);
        scene.settle();
        assert!(pod_of_before(&scene.outlook), "{:?}", scene.outlook);
    }
    assert!(scene.map.contains_key(&shared_by(4).key()), "the key is there before the pod");
    assert_eq!((scene.key.clone(), scene.did.as_slice()), (None, ["EnsurePluginConfig"].as_slice()));
    scene.pod_of_before = false;
    let replaced = scene.now;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
    assert!(scene.labelled_at.unwrap() >= replaced + MOUNT);
}

#[test]
fn a_pod_of_before_that_turns_up_before_the_label_takes_the_change_back() {
    for phase in [Phase::Cordoning, Phase::Quiescing] {
        let mut scene = Scene::new();
        scene.wants(shared_by(4));
        scene.lost = "ListPods";
        until(&mut scene, phase);
        scene.lost = "";
        scene.pod_of_before = true;
        scene.settle();
        assert!(pod_of_before(&scene.outlook), "{phase:?}: {:?}", scene.outlook);
        assert_eq!((scene.key.clone(), scene.cordoned), (None, false), "{phase:?}");
        scene.pod_of_before = false;
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
    }
}

#[test]
fn a_pod_of_before_is_named_where_the_node_stays_closed_for_it() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    until(&mut scene, Phase::Verifying);
    scene.pod_of_before = true;
    stays_closed(&mut scene, 5, "team/plugin-0 mounts another map than slicewright-plugin-config");
    scene.pod_of_before = false;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
}

/// MIG manager's run brings a new plugin, which mounts the right map: the layout need not wait for the DaemonSet.
#[test]
fn a_pod_of_before_holds_up_no_layout_of_a_node_without_a_key() {
    let mut scene = Scene::with_slices(&[]);
    scene.pod_of_before = true;
    scene.wants(small_by(2));
    scene.settle();
    assert!(pod_of_before(&scene.outlook), "{:?}", scene.outlook);
    scene.wanted_layout = Some(large());
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.layout.clone()), (Outlook::Idle, Some(large())));
    assert_eq!(scene.active, small_by(2));
}

#[test]
fn a_pod_of_before_holds_up_the_layout_of_a_node_whose_key_it_does_not_know() {
    let mut scene = both_change();
    scene.pod_of_before = true;
    scene.settle();
    assert!(pod_of_before(&scene.outlook), "{:?}", scene.outlook);
    assert_eq!((scene.layout.clone(), scene.cordoned), (Some(cut()), false));
    scene.pod_of_before = false;
    both_have_changed(&mut scene);
}
