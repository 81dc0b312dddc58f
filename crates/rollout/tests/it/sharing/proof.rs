//! What has to be seen before a node is opened whose sharing changed.

use super::slices::until;
use super::*;

const GPU: &str = "nvidia.com/gpu";

/// Minutes pass on a node whose label is written. It stays closed, and says why in these words.
#[track_caller]
fn stays_closed(scene: &mut Scene, minutes: u32, expect: &str) {
    for _ in 0..minutes {
        scene.now += SignedDuration::from_mins(1);
        scene.round();
        assert!(scene.cordoned && scene.progress.phase == Phase::Verifying, "{:?}", scene.outlook);
        let Outlook::Working { waits_for, .. } = &scene.outlook else { panic!("{:?}", scene.outlook) };
        assert!(waits_for.to_string().contains(expect), "{waits_for}");
    }
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
