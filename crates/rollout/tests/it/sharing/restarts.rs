//! An operator that is killed in the middle, or has lost its memory.

use super::*;

#[test]
fn killed_before_any_of_its_actions_the_operator_ends_at_the_same_place() {
    for dies_at in 0..5 {
        let mut scene = Scene::new();
        scene.dies_at = Some(dies_at);
        scene.wants(shared_by(4));
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)), "{dies_at}");
        assert!(!scene.cordoned, "{dies_at}");
    }
}

#[test]
fn without_its_memory_the_operator_knows_its_own_key_and_lifts_its_own_cordon() {
    let mut scene = Scene::shared(4);
    scene.progress = Progress::default();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.did.len()), (Outlook::Idle, 0));
    scene.progress = Progress::default();
    scene.cordoned = true;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.cordoned), (Outlook::Idle, false));
}

/// Nobody tried to write for days: a node that waits for its turn is not late.
#[test]
fn a_key_that_somebody_deletes_while_the_node_waits_for_a_pod_is_written_again() {
    let mut scene = Scene::new();
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    scene.held_by(&["train"]);
    scene.now += SignedDuration::from_hours(48);
    scene.map.clear();
    scene.settle();
    scene.held_by(&["train"]);
    assert!(scene.map.contains_key(&shared_by(4).key()));
    assert_eq!(scene.progress.sharing_set_back, None);
    scene.cleared();
    assert_eq!(scene.active, shared_by(4));
}
