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

/// Until the label is written all can be taken back, and a label never names a key that the plugin cannot find.
#[test]
fn a_change_whose_key_or_map_is_taken_away_before_the_label_goes_back_and_begins_again_when_it_is_there() {
    let taken: [fn(&mut Scene); 2] = [|scene| scene.map.clear(), |scene| scene.points_to_ours = false];
    for take in taken {
        for phase in [Phase::Cordoning, Phase::Quiescing] {
            let mut scene = Scene::new();
            scene.wants(shared_by(4));
            // It is cordoned and nobody has listed its pods yet.
            scene.lost = "ListPods";
            super::slices::until(&mut scene, phase);
            scene.lost = "";
            take(&mut scene);
            scene.round();
            scene.round();
            assert_eq!((scene.key.clone(), scene.cordoned), (None, false), "{phase:?}");
            let there_again = scene.now;
            scene.points_to_ours = true;
            scene.settle();
            assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(4)));
            assert!(scene.labelled_at.unwrap() >= there_again + SignedDuration::from_secs(120), "{phase:?}");
        }
    }
}
