//! A node whose layout and sharing both change: the layout comes first, the sharing after it, and the node is closed
//! once.

use planner::names::GpuIndex;

use super::slices::until;
use super::*;

const SMALL_SHARED: &str = "nvidia.com/mig-1g.10gb.shared";
const LARGE: &str = "nvidia.com/mig-3g.40gb";

fn small_by(replicas: u32) -> PluginConfig {
    shared_as(Method::TimeSlicing, &[("mig-1g.10gb", replicas)])
}

/// The same GPUs, of which the small slices have become large ones.
fn large() -> NodeLayout {
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
        rolled_back: false,
    });
    scene.settle();
    assert_eq!(scene.active, PluginConfig::default());
    assert_eq!(count(&scene, "SetConfigLabel"), 0, "{:?}", scene.did);
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
    }
    assert_eq!(scene.layout, Some(fewer));
    assert_eq!(scene.active, small_by(2), "`late` shares its slice as it was told");
    // The layout is finished by itself, and nothing is said to have failed.
    scene.held_by(&["late"]);
    scene.pods.retain(|pod| pod.pod.name != "late");
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, PluginConfig::default()));
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
