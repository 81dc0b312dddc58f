//! A node whose slices several pods share, or whose GPUs they share through MPS: who is in the way of a change is asked
//! by resource, and whatever starts MPS's server anew waits for everybody.

use super::*;

const SMALL: &str = "nvidia.com/mig-1g.10gb";
const SMALL_SHARED: &str = "nvidia.com/mig-1g.10gb.shared";
const LARGE: &str = "nvidia.com/mig-3g.40gb";

fn small_by(replicas: u32) -> PluginConfig {
    shared_as(Method::TimeSlicing, &[("mig-1g.10gb", replicas)])
}

#[test]
fn a_pod_that_has_a_slice_for_itself_gets_no_neighbours_and_who_has_another_resource_is_not_in_the_way() {
    let mut scene = Scene::with_slices(&[("train", LARGE), ("whole", "nvidia.com/gpu"), ("lab", SMALL)]);
    scene.wants(small_by(2));
    scene.settle();
    scene.held_by(&["lab"]);
    assert_eq!(scene.key, None);
    scene.pods.retain(|pod| pod.pod.name != "lab");
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)));
    let offers = scene.offers();
    assert_eq!((offers[SMALL_SHARED], offers[LARGE], offers["nvidia.com/gpu"]), (70, 4, 1));
    assert_eq!(scene.pods.len(), 2, "who has a whole GPU and a large slice keeps them");
    scene.did.clear();
    scene.settle();
    assert_eq!(scene.did.len(), 0, "nothing is written at rest");
}

#[test]
fn a_slice_is_for_one_pod_again_only_when_the_last_of_its_sharers_has_gone() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(2));
    scene.settle();
    scene.pods = vec![pod("a", SMALL_SHARED, 1), pod("b", SMALL_SHARED, 1), pod("train", LARGE, 1)];
    scene.wants(PluginConfig::default());
    scene.settle();
    scene.held_by(&["a", "b"]);
    scene.pods.retain(|pod| pod.pod.name == "train" || pod.pod.name == "b");
    scene.settle();
    scene.held_by(&["b"]);
    scene.pods.retain(|pod| pod.pod.name == "train");
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
    assert_eq!(scene.pods.len(), 1);
}

#[test]
fn fewer_share_a_slice_when_those_who_share_it_fit_by_its_own_resource() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(4));
    scene.settle();
    // 35 slices by two are 70 seats; that others hold GPUs and large slices is no matter.
    scene.pods = (0..71).map(|n| pod(&format!("lab{n}"), SMALL_SHARED, 1)).collect();
    scene.pods.push(pod("train", LARGE, 1));
    scene.wants(small_by(2));
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::GpusHeld { .. })), "{:?}", scene.outlook);
    scene.pods.remove(0);
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)));
}

#[test]
fn who_shares_a_slice_keeps_it_while_the_layout_would_take_it() {
    let lab = pod("lab", SMALL_SHARED, 1);
    let mut to = cut();
    let large = to.0[&planner::names::GpuIndex(7)].clone();
    to.0.insert(planner::names::GpuIndex(1), large);
    assert!(lab.may_lose(Some(&cut()), &to, Strategy::Mixed));
    let mut other = cut();
    let small = other.0[&planner::names::GpuIndex(1)].clone();
    other.0.insert(planner::names::GpuIndex(7), small);
    assert!(!lab.may_lose(Some(&cut()), &other, Strategy::Mixed), "a GPU with large slices is none of its");
}

#[test]
fn a_change_of_mps_starts_its_server_anew_and_waits_for_everybody_even_upwards() {
    let mps = |replicas| shared_as(Method::Mps, &[("gpu", replicas)]);
    let mut scene = Scene::new();
    scene.wants(mps(4));
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, mps(4)));
    scene.pods = vec![pod("a", "nvidia.com/gpu.shared", 1)];
    scene.wants(mps(8));
    scene.settle();
    scene.held_by(&["a"]);
    scene.wants(shared_as(Method::TimeSlicing, &[("gpu", 4)]));
    scene.settle();
    scene.held_by(&["a"]);
    scene.cleared();
    assert_eq!(scene.active, shared_as(Method::TimeSlicing, &[("gpu", 4)]));
}

#[test]
fn a_daemon_of_mps_that_does_not_come_up_gives_the_node_its_key_of_before() {
    let mut scene = Scene::shared(4);
    scene.no_daemon = true;
    scene.wants(shared_as(Method::Mps, &[("gpu", 8)]));
    scene.settle();
    assert_eq!(scene.active, shared_by(4));
    assert!(!scene.cordoned);
    let Outlook::Holding(StartBlocker::BackedOff { why, .. }) = &scene.outlook else {
        panic!("{:?}", scene.outlook)
    };
    assert!(why.to_string().contains("the control daemon of MPS is not ready"), "{why}");
}

#[test]
fn what_is_refused_for_a_node_is_said_there_and_nothing_is_done() {
    let mut scene = Scene::shared(4);
    scene.wanted = Some(SharingWanted::Refused("it is too old".to_owned()));
    scene.settle();
    let why = "it is too old".to_owned();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::SharingRefused { why }));
    assert_eq!((scene.active.clone(), scene.did.len()), (shared_by(4), 0));
}

#[test]
fn killed_before_any_of_its_actions_the_operator_ends_at_the_same_place_with_slices_too() {
    for dies_at in 0..5 {
        let mut scene = Scene::with_slices(&[("train", LARGE)]);
        scene.dies_at = Some(dies_at);
        scene.wants(small_by(2));
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)), "{dies_at}");
        assert!(!scene.cordoned, "{dies_at}");
    }
}

#[test]
fn a_map_that_loses_its_key_is_mended_and_nothing_else_is_done_meanwhile() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(2));
    scene.settle();
    scene.did.clear();
    scene.pods = vec![pod("a", SMALL_SHARED, 1)];
    scene.map.clear();
    // It is not known what the key means to a plugin that starts anew.
    scene.wants(small_by(4));
    scene.settle();
    scene.held_by(&["a"]);
    assert!(!scene.did.contains(&"SetPluginConfigLabel"), "{:?}", scene.did);
}

/// Rounds until a node is in a step.
pub(super) fn until(scene: &mut Scene, phase: Phase) {
    for _ in 0..400 {
        if scene.progress.phase == phase {
            return;
        }
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    panic!("it never comes to {phase:?}: {:?}, {:?}", scene.progress.phase, scene.outlook);
}

#[test]
fn a_node_stays_closed_until_feature_discovery_says_the_same() {
    let mut scene = Scene::with_slices(&[]);
    scene.labels_of = Some(PluginConfig::default());
    scene.wants(small_by(2));
    until(&mut scene, Phase::Verifying);
    for _ in 0..5 {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert!(scene.cordoned && scene.progress.phase == Phase::Verifying);
    }
    scene.labels_of = None;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.cordoned), (Outlook::Idle, false));
}

#[test]
fn a_reboot_in_the_middle_is_waited_for_and_the_proof_has_its_time_again() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(2));
    until(&mut scene, Phase::Verifying);
    (scene.down, scene.mute) = (true, true);
    for _ in 0..12 {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert_eq!(scene.key, Some(small_by(2).key()), "nothing is written to a node that is down");
    }
    (scene.down, scene.boot) = (false, "another boot");
    for _ in 0..5 {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert_eq!(scene.progress.phase, Phase::Verifying, "its plugin starts");
    }
    scene.mute = false;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, small_by(2)));
    assert!(!scene.cordoned);
}

#[test]
fn a_policy_that_goes_after_the_label_leaves_a_node_that_is_proved_and_open() {
    let mut scene = Scene::with_slices(&[]);
    scene.wants(small_by(2));
    until(&mut scene, Phase::Verifying);
    scene.wanted = None;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.cordoned), (Outlook::Idle, false));
    assert_eq!(scene.key, Some(small_by(2).key()));
}

/// The device plugin ends beside MIG while it shares through MPS, so the layout could not be proved: the node would stay
/// closed, whatever MIG manager does.
#[test]
fn a_node_that_shares_through_mps_is_shared_otherwise_before_it_is_cut_and_never_cut_beside_it() {
    let by_mps = || {
        let mut scene = Scene::new();
        scene.wants(shared_as(Method::Mps, &[("gpu", 4)]));
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Idle);
        scene.did.clear();
        scene.wanted_layout = Some(cut());
        scene
    };
    let mut both = by_mps();
    both.wants(small_by(2));
    both.settle();
    assert_eq!((both.outlook.clone(), both.layout.clone()), (Outlook::Idle, Some(cut())));
    let labels: Vec<_> = both.did.iter().filter(|action| action.contains("ConfigLabel")).copied().collect();
    assert_eq!(labels, ["SetPluginConfigLabel", "SetConfigLabel"]);
    assert!(!both.cordoned);
    // Its policy says nothing of sharing: it keeps its key, so it is not cut.
    let mut kept = by_mps();
    kept.wanted = None;
    kept.settle();
    let Outlook::Holding(hold @ StartBlocker::LayoutRefused(_)) = &kept.outlook else {
        panic!("{:?}", kept.outlook)
    };
    assert!(hold.to_string().contains("write `sharing: {type: None}`"), "{hold}");
    assert_eq!((kept.did.clone(), kept.layout.clone()), (vec![], None));
}
