//! A node whose MIG strategy is in its key, since `ClusterPolicy` leaves it open: the key comes before the layout, which
//! could not be proved without it, and whoever has a GPU is in its way.

use super::proof::{GPU, stays_closed};
use super::slices::until;
use super::*;

/// GPUs are to be cut, under the strategy that the key brings.
fn mixed() -> PluginConfig {
    PluginConfig { strategy: Some(Strategy::Mixed), sharing: None }
}

fn without_strategy() -> Scene {
    let mut scene = Scene::new();
    scene.strategy = None;
    scene.wants(mixed());
    scene.wanted_layout = Some(cut());
    scene
}

#[test]
fn who_has_a_gpu_keeps_its_node_from_another_strategy_and_the_key_comes_before_the_layout() {
    let mut scene = without_strategy();
    scene.pods.push(pod("train", GPU, 1));
    scene.settle();
    scene.held_by(&["train"]);
    assert_eq!((scene.key.clone(), scene.layout.clone()), (None, None));
    scene.cleared();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, mixed()));
    assert_eq!(scene.layout, Some(cut()));
    let labels: Vec<_> = scene.did.iter().filter(|action| action.contains("ConfigLabel")).copied().collect();
    assert_eq!(labels, ["SetPluginConfigLabel", "SetConfigLabel"], "{:?}", scene.did);
    assert!(!scene.cordoned);
}

#[test]
fn a_node_stays_closed_while_its_labels_say_the_strategy_of_before() {
    let mut scene = without_strategy();
    scene.labels_of = Some(PluginConfig::default());
    until(&mut scene, Phase::Verifying);
    stays_closed(&mut scene, 5, "the labels of GPU feature discovery are not up to date");
    assert_eq!(scene.layout, None);
    scene.labels_of = None;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.layout.clone()), (Outlook::Idle, Some(cut())));
}
