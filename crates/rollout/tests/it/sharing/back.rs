//! What happens to a node whose key of before is put back, and whoever interferes with that: somebody uncordons, writes
//! another key, or the operator is killed on the way.

use rollout::outlook::{FailureReason, Trouble};

use super::proof::{backed_off, stays_closed};
use super::slices::until;
use super::*;

/// Four share each GPU, six are wanted, and the device plugin does not obey.
fn in_vain() -> Scene {
    let mut scene = Scene::shared(4);
    scene.obeys = false;
    scene.wants(shared_by(6));
    scene
}

/// The key of before is there again, the node is open, and the change is tried again later.
#[track_caller]
fn is_back(scene: &Scene) {
    backed_off(scene, "nvidia.com/gpu.shared");
    assert_eq!(scene.key, Some(shared_by(4).key()));
}

#[track_caller]
fn failed_for(scene: &Scene) -> &FailureReason {
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(scene.cordoned, "it waits for a human");
    &failure.why
}

#[test]
fn who_uncordons_in_the_middle_is_answered_by_a_cordon_before_anything_else() {
    let mut scene = in_vain();
    until(&mut scene, Phase::Verifying);
    scene.cordoned = false;
    scene.round();
    assert!(scene.cordoned, "it is not proved that the GPUs are shared as they should be");
    until(&mut scene, Phase::Relabelling);
    scene.cordoned = false;
    // The scene asserts that no label is written on an open node.
    scene.settle();
    is_back(&scene);
}

#[test]
fn killed_before_any_of_its_actions_on_the_way_there_and_back_the_operator_ends_at_the_same_place() {
    let mut scene = in_vain();
    scene.settle();
    let all = scene.did.clone();
    let labels = all.iter().filter(|did| **did == "SetPluginConfigLabel").count();
    assert_eq!(labels, 2, "there and back: {all:?}");
    for dies_at in 0..all.len() {
        let mut scene = in_vain();
        scene.dies_at = Some(dies_at);
        scene.settle();
        assert_eq!(scene.dies_at, None);
        is_back(&scene);
    }
}

#[test]
fn a_label_that_somebody_else_writes_while_the_key_of_before_is_put_back_is_left() {
    let mut scene = in_vain();
    until(&mut scene, Phase::Relabelling);
    scene.key = Some("tesla-t4".to_owned());
    scene.did.clear();
    scene.settle();
    let theirs =
        FailureReason::ForeignSharing { found: Some("tesla-t4".to_owned()), ours: Some(shared_by(6).key()) };
    assert_eq!((failed_for(&scene), scene.key.as_deref()), (&theirs, Some("tesla-t4")));
    assert!(!scene.did.contains(&"SetPluginConfigLabel"), "{:?}", scene.did);
}

/// The plugin offers three seats of each GPU under a key that says four: nobody knows what it will do with that key.
#[test]
fn where_it_was_not_known_what_was_before_a_plugin_that_offers_gpus_has_to_do() {
    let not_as_told = || {
        let mut scene = in_vain();
        scene.active = shared_by(3);
        until(&mut scene, Phase::Relabelling);
        scene
    };
    let mut scene = not_as_told();
    scene.mute = true;
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 3, "nothing");
    scene.mute = false;
    scene.settle();
    is_back(&scene);
    assert_eq!(scene.active, shared_by(3));

    // Whoever came past the cordon may have been promised anything: the key is put back when he has gone.
    let mut scene = not_as_told();
    scene.pods.push(pod("late", "nvidia.com/gpu.shared", 1));
    for _ in 0..6 {
        scene.round();
        let Outlook::Working { waits_for, .. } = &scene.outlook else { panic!("{:?}", scene.outlook) };
        assert!(waits_for.to_string().contains("late"), "{waits_for}");
        assert_eq!(scene.key, Some(shared_by(6).key()));
        scene.now += SignedDuration::from_secs(10);
    }
    scene.pods.clear();
    scene.settle();
    is_back(&scene);
}

#[test]
fn a_failed_node_under_somebody_elses_cordon_loses_our_mark_and_keeps_theirs() {
    let mut scene = failed();
    scene.did.clear();
    scene.alters = |seen| {
        seen.cordon_owner = CordonOwner::Other { manager: "kubectl-cordon".to_owned() };
    };
    for _ in 0..3 {
        scene.round();
        scene.now += SignedDuration::from_mins(1);
        let _ = failed_for(&scene);
    }
    assert_eq!(scene.did, ["RemoveCordonedBy"]);
    // It is seen when the node is right again; whoever closed it opens it.
    scene.mute = false;
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert_eq!((scene.did.clone(), scene.cordoned), (vec!["RemoveCordonedBy"], true));
    assert!(!matches!(scene.outlook, Outlook::Failed(_)), "{:?}", scene.outlook);
}

#[test]
fn who_gives_a_node_up_is_told_which_key_stays() {
    let scene = failed();
    let rollout::release::Release { progress, actions, left } =
        rollout::release::release(&scene.observe(), &scene.progress);
    assert_eq!(actions.iter().map(Action::name).collect::<Vec<_>>(), ["Uncordon"]);
    let stays = format!("nvidia.com/device-plugin.config stays `{}`", scene.key.unwrap());
    assert!(left.contains(&stays), "{left:?}");
    assert_eq!(progress.phase, Phase::Released);
}

#[test]
fn a_node_that_does_not_come_back_from_a_reboot_fails_and_its_label_stays() {
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    until(&mut scene, Phase::Verifying);
    (scene.down, scene.mute) = (true, true);
    scene.settle();
    assert_eq!(failed_for(&scene), &FailureReason::SharingFailed(Trouble::NotBack));
    assert_eq!(scene.key, Some(shared_by(6).key()), "writing to a node that is down helps nobody");
    (scene.down, scene.mute) = (false, false);
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.cordoned), (Outlook::Idle, false));
}

#[test]
fn a_write_that_never_arrives_is_given_up_before_the_label_and_waits_for_a_human_after_it() {
    for (write, key) in [("EnsurePluginConfig", None), ("SetPluginConfigLabel", None)] {
        let mut scene = Scene::new();
        (scene.lost, scene.key) = (write, key);
        scene.wants(shared_by(4));
        scene.settle();
        let Outlook::Holding(StartBlocker::BackedOff { why, .. }) = &scene.outlook else {
            panic!("{write}: {:?}", scene.outlook)
        };
        assert_eq!((why, scene.cordoned), (&Trouble::WriteNotSeen, false), "{write}");
        assert_eq!((scene.key.clone(), scene.active.clone()), (None, PluginConfig::default()), "{write}");
    }
    let mut scene = in_vain();
    until(&mut scene, Phase::Relabelling);
    scene.lost = "SetPluginConfigLabel";
    scene.settle();
    assert_eq!(failed_for(&scene), &FailureReason::SharingFailed(Trouble::WriteNotSeen));
}

/// A plugin whose key is not there ends, again and again.
#[test]
fn a_key_of_before_that_somebody_took_out_of_the_map_is_there_again_before_the_label_names_it() {
    let mut scene = in_vain();
    until(&mut scene, Phase::Relabelling);
    scene.map.clear();
    scene.settle();
    is_back(&scene);
    assert!(scene.map.contains_key(&shared_by(4).key()));

    // Also where the plugin did something else than its key said.
    let mut scene = in_vain();
    scene.active = shared_by(3);
    until(&mut scene, Phase::Relabelling);
    scene.map.clear();
    scene.settle();
    is_back(&scene);
    assert!(scene.map.contains_key(&shared_by(4).key()));
}
