//! A node whose layout and sharing both change: the layout comes first, the sharing after it, and the node is closed
//! once.

use planner::names::GpuIndex;

use super::slices::until;
use super::*;

const SMALL_SHARED: &str = "nvidia.com/mig-1g.10gb.shared";
const LARGE: &str = "nvidia.com/mig-3g.40gb";

pub(super) fn small_by(replicas: u32) -> PluginConfig {
    shared_as(Method::TimeSlicing, &[("mig-1g.10gb", replicas)])
}

/// The same GPUs, of which the small slices have become large ones.
pub(super) fn large() -> NodeLayout {
    let mut to = cut();
    let slices = to.0[&GpuIndex(7)].clone();
    for index in 1..6 {
        to.0.insert(GpuIndex(index), slices.clone());
    }
    to
}

/// Small slices that two pods share; `lab` has a seat of one, and somebody trains on a large one.
fn in_use() -> Scene {
    let mut scene = Scene::with_slices(&[("train", LARGE)]);
    scene.wants(small_by(2));
    scene.settle();
    scene.pods.push(pod("lab", SMALL_SHARED, 1));
    scene.did.clear();
    scene
}

/// The same, once the end of sharing has waited for `lab`, which goes: only now the planner may cut the GPUs anew.
fn both_wanted() -> Scene {
    let mut scene = in_use();
    scene.wants(PluginConfig::default());
    scene.settle();
    scene.held_by(&["lab"]);
    scene.pods.retain(|pod| pod.pod.name != "lab");
    scene.wanted_layout = Some(large());
    scene
}

fn count(scene: &Scene, action: &str) -> usize {
    scene.did.iter().filter(|did| **did == action).count()
}

#[test]
fn a_layout_that_comes_while_the_end_of_sharing_waits_goes_first_and_both_take_one_cordon() {
    let mut scene = both_wanted();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
    assert_eq!(scene.layout, Some(large()));
    assert_eq!((count(&scene, "Cordon"), count(&scene, "Uncordon")), (1, 1), "{:?}", scene.did);
    let at = |action: &str| scene.did.iter().position(|did| *did == action);
    assert!(at("SetConfigLabel") < at("SetPluginConfigLabel"), "{:?}", scene.did);
    assert_eq!(scene.pods.len(), 1, "who trains on a large slice of another GPU keeps it");
    scene.did.clear();
    scene.settle();
    assert_eq!(scene.did.len(), 0, "nothing is written at rest");
}

#[test]
fn a_key_that_somebody_deletes_while_both_wait_for_their_turn_is_written_again_and_they_take_one_cordon() {
    let mut scene = both_wanted();
    scene.admission = Admission::Held(StartBlocker::Budget { unavailable: 1, allowed: 1, nodes: Vec::new() });
    scene.settle();
    assert_eq!((scene.progress.phase, count(&scene, "Cordon")), (Phase::Mapping, 0));
    scene.now += SignedDuration::from_hours(48);
    assert!(scene.map.remove(&PluginConfig::default().key()).is_some());
    scene.admission = Admission::Admitted;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
    assert_eq!((scene.layout.clone(), count(&scene, "Cordon")), (Some(large()), 1), "{:?}", scene.did);
}

#[test]
fn a_layout_that_somebody_is_in_the_way_of_holds_up_no_sharing() {
    let mut scene = in_use();
    scene.pods.retain(|pod| pod.pod.name != "lab");
    scene.pods.push(pod("lab2", SMALL_SHARED, 1));
    // `lab2` has a small slice of any of five GPUs. More may share each of them at once.
    scene.wants(small_by(4));
    scene.round();
    scene.wanted_layout = Some(large());
    scene.settle();
    assert_eq!(scene.active, small_by(4));
    assert_eq!(count(&scene, "SetConfigLabel"), 0, "{:?}", scene.did);
    assert_eq!(scene.layout, Some(cut()));
}

#[test]
fn a_layout_that_failed_lately_holds_up_no_sharing() {
    let mut scene = both_wanted();
    let why = rollout::outlook::Trouble::ManagerFailed;
    let until_then = scene.now + SignedDuration::from_hours(1);
    scene.progress.set_back = Some(rollout::progress::SetBack {
        layout: large(),
        why,
        times: 1,
        until: until_then,
        rolled_back: true,
    });
    scene.settle();
    assert_eq!(scene.active, PluginConfig::default());
    assert_eq!(count(&scene, "SetConfigLabel"), 0, "{:?}", scene.did);
}

/// The clock said a much later hour when the sharing failed.
#[test]
fn a_sharing_that_failed_rests_no_longer_for_a_clock_that_was_put_back() {
    let mut scene = in_use();
    let an_hour_of_before = scene.now + SignedDuration::from_hours(5);
    scene.progress.sharing_set_back = Some(rollout::progress::SharingSetBack {
        config: small_by(4),
        why: rollout::outlook::Trouble::WriteNotSeen,
        times: 1,
        until: an_hour_of_before,
        rolled_back: false,
    });
    scene.wants(small_by(4));
    scene.settle();
    let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook else {
        panic!("{:?}", scene.outlook)
    };
    assert_eq!(until, scene.now + SignedDuration::from_mins(5), "as if it had failed just now");
    scene.now = until;
    scene.settle();
    assert_eq!(scene.active, small_by(4));
}

#[test]
fn who_comes_between_the_layout_and_its_sharing_gets_no_neighbours() {
    let mut scene = in_use();
    scene.wants(PluginConfig::default());
    scene.settle();
    scene.pods.retain(|pod| pod.pod.name != "lab");
    // Small slices stay on one GPU: whoever gets past the cordon has a seat of one of them.
    let mut fewer = large();
    fewer.0.insert(GpuIndex(1), cut().0[&GpuIndex(1)].clone());
    scene.wanted_layout = Some(fewer.clone());
    until(&mut scene, Phase::Verifying);
    scene.pods.push(pod("late", SMALL_SHARED, 1));
    for _ in 0..30 {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        // The layout is finished by itself, and nothing is said to have failed.
        let why = (&scene.progress.sharing_set_back, &scene.progress.last_error);
        assert_eq!(why, (&None, &None), "{:?}", scene.outlook);
    }
    assert_eq!(scene.layout, Some(fewer));
    assert_eq!(scene.active, small_by(2), "`late` shares its slice as it was told");
    scene.held_by(&["late"]);
    scene.pods.retain(|pod| pod.pod.name != "late");
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
}

/// The scene is held by a layout that pods are in the way of.
#[track_caller]
fn layout_waits_for(scene: &Scene, names: &[&str]) {
    let Outlook::Holding(StartBlocker::PodsInTheWay { pods }) = &scene.outlook else {
        panic!("it waits for something else: {:?}", scene.outlook)
    };
    assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), names);
    assert!(!scene.cordoned);
}

#[test]
fn a_layout_and_a_sharing_that_are_wanted_at_once_take_one_cordon() {
    let mut scene = Scene::with_slices(&[("train", LARGE)]);
    let both = shared_as(Method::TimeSlicing, &[("mig-1g.10gb", 2)]);
    // Five GPUs have small slices, and three are to have large ones.
    let mut to = cut();
    to.0.insert(GpuIndex(1), cut().0[&GpuIndex(7)].clone());
    scene.wants(both.clone());
    scene.wanted_layout = Some(to.clone());
    scene.settle();
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(to), both));
    assert_eq!((count(&scene, "Cordon"), count(&scene, "Uncordon")), (1, 1), "{:?}", scene.did);
    assert_eq!((scene.outlook.clone(), scene.pods.len()), (Outlook::Idle, 1));
}

#[test]
fn a_layout_that_waits_for_a_pod_from_the_beginning_lets_others_be_shared_and_says_what_it_waits_for() {
    let large_by_two = shared_as(Method::TimeSlicing, &[("mig-3g.40gb", 2)]);
    let mut scene = Scene::with_slices(&[("lab", "nvidia.com/mig-1g.10gb")]);
    scene.wants(large_by_two.clone());
    scene.wanted_layout = Some(large());
    scene.settle();
    // Nobody has a large slice: they are shared. The small slices stay until `lab` has gone.
    assert_eq!((scene.active.clone(), scene.layout.clone()), (large_by_two.clone(), Some(cut())));
    layout_waits_for(&scene, &["lab"]);
    assert_eq!((count(&scene, "Cordon"), count(&scene, "SetConfigLabel")), (1, 0), "{:?}", scene.did);
    scene.pods.clear();
    scene.settle();
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(large()), large_by_two));
    assert_eq!((scene.outlook.clone(), scene.cordoned), (Outlook::Idle, false));
}

#[test]
fn while_somebody_is_in_the_way_of_both_the_layout_comes_first_and_nothing_is_done() {
    let mut scene = Scene::with_slices(&[("lab", "nvidia.com/mig-1g.10gb"), ("train", LARGE)]);
    scene.wants(shared_as(Method::TimeSlicing, &[("mig-3g.40gb", 2)]));
    scene.wanted_layout = Some(large());
    scene.settle();
    layout_waits_for(&scene, &["lab"]);
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(cut()), PluginConfig::default()));
    assert_eq!(count(&scene, "Cordon"), 0, "{:?}", scene.did);
    // A policy that evicts does so once, for the layout, and not before it for the sharing.
    scene.drain = Drain::Evict;
    scene.settle();
    assert_eq!((scene.layout.clone(), count(&scene, "Cordon")), (Some(large()), 1), "{:?}", scene.did);
}

#[test]
fn a_layout_that_cannot_begin_lets_slices_be_shared_that_nobody_has_and_none_that_would_not_be_there() {
    let failed_lately = |scene: &mut Scene| {
        let until_then = scene.now + SignedDuration::from_hours(1);
        scene.progress.set_back = Some(rollout::progress::SetBack {
            layout: large(),
            why: rollout::outlook::Trouble::ManagerFailed,
            times: 1,
            until: until_then,
            rolled_back: true,
        });
        scene.wanted_layout = Some(large());
        scene.settle();
        let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook else {
            panic!("{:?}", scene.outlook)
        };
        assert_eq!((until, scene.cordoned), (until_then, false));
    };
    let mut scene = Scene::with_slices(&[("train", LARGE)]);
    scene.wants(small_by(2));
    failed_lately(&mut scene);
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(cut()), small_by(2)));

    // Of these it has none before its layout: nothing is gained by a cordon.
    let mut scene = Scene::with_slices(&[]);
    scene.wants(shared_as(Method::TimeSlicing, &[("mig-2g.20gb", 2)]));
    failed_lately(&mut scene);
    assert_eq!(scene.did, [""; 0]);

    // ClusterPolicy names another map: who points it to ours may take his time.
    let mut scene = Scene::with_slices(&[]);
    scene.points_to_ours = false;
    scene.wants(small_by(2));
    failed_lately(&mut scene);
    assert_eq!(scene.did, [""; 0]);
}

#[test]
fn killed_before_any_of_its_actions_the_operator_ends_both_at_the_same_place() {
    for dies_at in 0..6 {
        let mut scene = in_use();
        scene.wants(PluginConfig::default());
        scene.settle();
        scene.pods.retain(|pod| pod.pod.name != "lab");
        scene.did.clear();
        scene.dies_at = Some(dies_at);
        scene.wanted_layout = Some(large());
        scene.settle();
        assert_eq!(
            (scene.outlook.clone(), scene.layout.clone()),
            (Outlook::Idle, Some(large())),
            "{dies_at}"
        );
        assert_eq!((scene.active.clone(), scene.cordoned), (PluginConfig::default(), false), "{dies_at}");
    }
}

/// A layout costs whoever was on the node minutes, and its sharing seconds. Under one cordon, the longer rest counts.
#[test]
fn a_node_rests_after_its_layout_as_long_as_without_sharing_and_after_its_sharing_alone_for_less() {
    let (long, short) = (SignedDuration::from_mins(10), SignedDuration::from_secs(30));
    let rests_until = |scene: &Scene| match scene.outlook {
        Outlook::Holding(StartBlocker::Cooldown { until }) => until,
        ref other => panic!("{other:?}"),
    };
    let mut scene = Scene { rests: (long, short), ..Scene::with_slices(&[]) };
    scene.wants(small_by(2));
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)));
    let shared_at = scene.progress.shared_at.unwrap();
    scene.wants(small_by(3));
    scene.settle();
    assert_eq!(rests_until(&scene), shared_at + short);
    scene.now = shared_at + short;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(3)));
    // Its GPUs are cut anew, and shared otherwise.
    scene.now += short;
    scene.wanted_layout = Some(large());
    scene.wants(PluginConfig::default());
    scene.settle();
    assert_eq!((scene.layout.clone(), scene.active.clone()), (Some(large()), PluginConfig::default()));
    let changed_at = scene.progress.changed_at.unwrap();
    assert!(scene.progress.shared_at.unwrap() > changed_at, "the sharing was the second");
    scene.wanted_layout = Some(cut());
    scene.settle();
    assert_eq!(rests_until(&scene), changed_at + long);
}

#[test]
fn a_key_that_somebody_else_wrote_stays_while_the_layout_of_its_node_changes() {
    let mut scene = Scene::with_slices(&[]);
    scene.key = Some("tesla-t4".to_owned());
    scene.wants(small_by(2));
    scene.wanted_layout = Some(large());
    scene.settle();
    let theirs = StartBlocker::ForeignSharing { found: Some("tesla-t4".to_owned()), ours: None };
    assert_eq!((scene.outlook.clone(), scene.layout.clone()), (Outlook::Holding(theirs), Some(large())));
    assert_eq!((scene.key.as_deref(), count(&scene, "SetPluginConfigLabel")), (Some("tesla-t4"), 0));
    assert!(!scene.cordoned);
}

/// Our map has the key that somebody gave the node, so that it is known how its slices are shared.
#[test]
fn a_key_that_somebody_else_wrote_stays_while_a_layout_cannot_begin() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(2));
    scene.settle();
    (scene.key, scene.active) = (Some(small_by(3).key()), small_by(3));
    scene.map.insert(small_by(3).key(), small_by(3));
    scene.did.clear();
    let until_then = scene.now + SignedDuration::from_hours(1);
    scene.progress.set_back = Some(rollout::progress::SetBack {
        layout: large(),
        why: rollout::outlook::Trouble::ManagerFailed,
        times: 1,
        until: until_then,
        rolled_back: true,
    });
    scene.wanted_layout = Some(large());
    scene.wants(small_by(4));
    scene.settle();
    let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook else {
        panic!("{:?}", scene.outlook)
    };
    assert_eq!((until, scene.did.len()), (until_then, 0), "{:?}", scene.did);
    assert_eq!(scene.key, Some(small_by(3).key()));
    // In time the layout is made, and the key is still theirs.
    scene.now = until_then;
    scene.settle();
    assert_eq!((scene.layout.clone(), scene.key.clone()), (Some(large()), Some(small_by(3).key())));
    let is_theirs = matches!(scene.outlook, Outlook::Holding(StartBlocker::ForeignSharing { .. }));
    assert!(is_theirs, "{:?}", scene.outlook);
}
