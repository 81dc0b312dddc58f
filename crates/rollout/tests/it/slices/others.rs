//! The walk with an agent under the hands of others: who cuts the GPUs with nvidia-smi, upgrades the driver, cordons the
//! node or gives its devices to another system. What they do is told, waited for, and never fought.

use jiff::SignedDuration;
use slicewright_rollout::{
    OtherManager, OtherWork, Outlook, Phase, Settings, StartBlocker, Trouble, WaitsFor,
};

use super::model::places;
use super::stories::{notebook, phase, recut, round, serial, until};
use super::walk::{Dies, GPUS, Walk};

fn outlook(walk: &Walk) -> &Outlook {
    &walk.last.as_ref().expect("it has taken a step").outlook
}

fn rounds(walk: &mut Walk, n: usize) {
    for _ in 0..n {
        round(walk);
    }
}

fn upgrade() -> Option<OtherWork> {
    Some(OtherWork::DriverUpgrade { state: "pod-restart-required".to_owned() })
}

/// Something that others do to a node, and what they do of it when they are done.
type Hand = (&'static str, fn(&mut Walk), fn(&mut Walk), StartBlocker);

/// Everything that keeps a change from starting, and takes back what the agent has not claimed.
fn hands() -> [Hand; 4] {
    [
        (
            "another system manages the devices",
            |walk| walk.hands_off = Some(OtherManager::Dra),
            |walk| walk.hands_off = None,
            StartBlocker::HandsOff { who: OtherManager::Dra.to_string() },
        ),
        (
            "the node is not ready",
            |walk| walk.ready = false,
            |walk| walk.ready = true,
            StartBlocker::NotReady,
        ),
        (
            "the driver is upgraded",
            |walk| walk.work = upgrade(),
            |walk| walk.work = None,
            StartBlocker::ForeignWork { who: upgrade().expect("it is one").to_string() },
        ),
        (
            "somebody cordoned the node",
            |walk| walk.cordoned_by = Some("kubectl-cordon"),
            |walk| walk.cordoned_by = None,
            StartBlocker::CordonedByOthers,
        ),
    ]
}

/// A policy has shared the node, which has kept its key. The device plugin would not find it when it is back from its pause.
fn no_map() -> Hand {
    (
        "ClusterPolicy points the device plugin away from the map with the key of the node",
        |walk| walk.left_key = Some("slicewright-0123456789"),
        |walk| walk.left_key = None,
        StartBlocker::PluginMapNotOurs,
    )
}

#[test]
fn under_the_hands_of_others_nothing_starts_and_after_them_it_does() {
    for (what, begin, end, blocker) in hands().into_iter().chain([no_map()]) {
        let mut walk = notebook();
        let (gpu, layout) = recut(&walk);
        begin(&mut walk);
        walk.want(gpu, layout);
        walk.actions.clear();
        rounds(&mut walk, 10);
        assert_eq!(outlook(&walk), &Outlook::Holding(blocker), "{what}");
        assert!(walk.actions.is_empty() && !walk.held, "{what}: {:?}", walk.actions);
        end(&mut walk);
        until(&mut walk, what, |walk| walk.has(GPUS[usize::from(gpu)]) == places(layout) && walk.rests());
    }
}

/// A driver upgrade that only waits for its turn keeps a change from starting, and does not take one back.
#[test]
fn work_that_is_announced_starts_nothing_and_takes_nothing_back() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.work = Some(OtherWork::DriverUpgradeAnnounced);
    walk.want(gpu, layout);
    rounds(&mut walk, 5);
    assert!(
        matches!(outlook(&walk), Outlook::Holding(StartBlocker::ForeignWork { .. })),
        "{:?}",
        outlook(&walk)
    );
    walk.work = None;
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.work = Some(OtherWork::DriverUpgradeAnnounced);
    until(&mut walk, "it rests", |walk| walk.has(GPUS[usize::from(gpu)]) == places(layout) && !walk.cordoned);
    assert!(!walk.phases.contains(&Phase::Retreating), "{:?}", walk.phases);
}

#[test]
fn under_the_hands_of_others_what_is_not_claimed_is_taken_back_and_what_is_claimed_is_finished() {
    for at in [Phase::Cordoning, Phase::Quiescing] {
        for (what, begin, end, _) in hands().into_iter().chain([no_map()]) {
            let what = format!("{what}, in {at:?}");
            let mut walk = notebook();
            let held = serial(&walk);
            let (gpu, layout) = recut(&walk);
            let before = walk.has(GPUS[usize::from(gpu)]);
            walk.want(gpu, layout);
            until(&mut walk, &what, |walk| phase(walk) == at && walk.held);
            begin(&mut walk);
            for _ in 0..10 {
                round(&mut walk);
                assert!(
                    walk.world.node.now().1.is_none_or(|wish| wish.permit.is_none()),
                    "{what}: no permit"
                );
            }
            assert!(!walk.held && !walk.phases.contains(&Phase::Changing), "{what}: {:?}", walk.phases);
            assert!(!walk.phases.contains(&Phase::Failed), "{what}: {:?}", walk.phases);
            assert_eq!(walk.has(GPUS[usize::from(gpu)]), before, "{what}");
            end(&mut walk);
            if let Some(back) = &walk.progress.set_back {
                walk.now = back.until;
            }
            until(&mut walk, &what, |walk| {
                walk.has(GPUS[usize::from(gpu)]) == places(layout) && walk.rests()
            });
            assert!(walk.world.gpus.has_serial(held), "{what}");
        }
    }
    for (what, begin, end, _) in hands() {
        let mut walk = notebook();
        let (gpu, layout) = recut(&walk);
        walk.want(gpu, layout);
        until(&mut walk, what, |walk| phase(walk) == Phase::Changing);
        begin(&mut walk);
        rounds(&mut walk, 20);
        assert_eq!(walk.has(GPUS[usize::from(gpu)]), places(layout), "{what}: the agent goes on");
        end(&mut walk);
        until(&mut walk, what, Walk::rests);
        assert!(!walk.phases.contains(&Phase::Retreating), "{what}: {:?}", walk.phases);
    }
}

/// Their cordon stays theirs: whoever set it lifts it.
#[test]
fn a_node_that_somebody_else_cordons_amid_the_hold_is_left_cordoned_and_the_pause_is_lifted() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Cordoning && walk.held);
    walk.cordoned_by = Some("kubectl-cordon");
    walk.actions.clear();
    rounds(&mut walk, 10);
    assert!(!walk.held && !walk.actions.contains(&"Uncordon"), "{:?}", walk.actions);
    assert_eq!(outlook(&walk), &Outlook::Holding(StartBlocker::CordonedByOthers));
}

/// Its own limit is ten minutes, and an upgrade of the driver may take an hour. Its plugin is away for as long.
#[test]
fn a_change_that_an_upgrade_takes_back_waits_for_its_plugin_and_not_for_ever() {
    let held = |walk: &mut Walk| {
        let (gpu, layout) = recut(walk);
        walk.want(gpu, layout);
        until(walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
        walk.work = upgrade();
        // The upgrade takes the plugin away before ours is back.
        walk.keeps_plugin_away(true);
        for _ in 0..10 {
            round(walk);
        }
    };
    let settings = Settings::default();
    let mut walk = notebook();
    held(&mut walk);
    let waits = matches!(outlook(&walk), Outlook::Working { waits_for: WaitsFor::ForeignWork { .. }, .. });
    assert!(waits && walk.cordoned && !walk.held, "{:?}", outlook(&walk));
    let remembered = walk.progress.clone();
    walk.now += SignedDuration::from_hours(1);
    rounds(&mut walk, 5);
    assert_eq!(phase(&walk), Phase::Retreating, "{:?}", outlook(&walk));
    assert_eq!(walk.progress, remembered, "while it waits there is nothing to write");
    // The plugin has its full time after it.
    walk.work = None;
    walk.now += settings.verify_limit - SignedDuration::from_mins(1);
    rounds(&mut walk, 2);
    assert_eq!(phase(&walk), Phase::Retreating, "{:?}", outlook(&walk));
    walk.keeps_plugin_away(false);
    walk.wanted.clear();
    until(&mut walk, "it is open again", Walk::rests);
    assert!(!walk.phases.contains(&Phase::Failed), "{:?}", walk.phases);

    // One that never ends is told.
    let mut walk = notebook();
    held(&mut walk);
    walk.now += settings.interruption_limit;
    rounds(&mut walk, 2);
    assert_eq!(phase(&walk), Phase::Failed);
    assert!(
        matches!(walk.progress.last_error, Some(Trouble::Interrupted { .. })),
        "{:?}",
        walk.progress.last_error
    );
    // Without such work it is the plugin that does not come.
    let mut walk = notebook();
    held(&mut walk);
    walk.work = None;
    rounds(&mut walk, 2);
    walk.now += settings.verify_limit;
    rounds(&mut walk, 2);
    assert!(
        matches!(walk.progress.last_error, Some(Trouble::NotOffered { .. })),
        "{:?}",
        walk.progress.last_error
    );
}

/// What a reboot took is brought back under nobody's hands.
#[test]
fn after_a_reboot_nothing_is_held_while_others_have_the_node() {
    for (what, begin, end, blocker) in hands() {
        if blocker == StartBlocker::NotReady {
            // It is closed at once, and waits for its agent: `reboots.rs`.
            continue;
        }
        let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
        until(&mut walk, "it is remembered", |walk| walk.progress.verified.is_some() && walk.rests());
        begin(&mut walk);
        walk.reboots();
        walk.actions.clear();
        rounds(&mut walk, 10);
        assert_eq!(outlook(&walk), &Outlook::Holding(blocker), "{what}");
        assert!(walk.actions.is_empty(), "{what}: {:?}", walk.actions);
        assert!(walk.has("gpu-b").is_empty(), "{what}");
        end(&mut walk);
        until(&mut walk, what, |walk| walk.has("gpu-b") == places("3g@0 3g@4") && walk.rests());
    }
}

/// By its agent the node has them, and the plugin still offers those that were there when it started.
#[test]
fn gpus_that_somebody_cut_anew_are_told_and_left_as_they_are_until_the_plugin_offers_them() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    until(&mut walk, "it is remembered", |walk| walk.progress.verified.is_some() && walk.rests());
    let gpu = agent::GpuUuid("gpu-b".to_owned());
    walk.world.gpus.slices.insert(gpu.clone(), std::collections::BTreeMap::new());
    walk.world.gpus.put(&gpu, &places("7g@0"));
    walk.actions.clear();
    let reported = |walk: &Walk| {
        let account = walk.world.node.now().2.expect("it has reported");
        account.known.layout.gpu(&gpu).is_some_and(|gpu| gpu.slices().len() == 1)
    };
    until(&mut walk, "its agent has seen it", reported);
    walk.step(Dies::Never);
    walk.step(Dies::Never);
    // A plugin that restarts offers nothing for a moment, too: it is waited for.
    assert_eq!(outlook(&walk), &Outlook::Idle);
    let wake = walk.last.as_ref().and_then(|answer| answer.wake_at).expect("it looks again");
    assert!(wake <= walk.now + Settings::default().stable_for);
    walk.now = wake;
    rounds(&mut walk, 1);
    let Outlook::Holding(hold @ StartBlocker::NotAsReported { expected, found }) = outlook(&walk) else {
        panic!("{:?}", outlook(&walk));
    };
    assert_eq!(
        (expected.get("nvidia.com/mig-7g.80gb"), found.get("nvidia.com/mig-3g.40gb")),
        (Some(&1), Some(&3))
    );
    assert!(hold.to_string().contains("nvidia.com/mig-7g.80gb: 1"), "{hold}");
    // Nor does anything that is wanted begin there.
    walk.want(1, "3g@0 3g@4");
    rounds(&mut walk, 30);
    assert!(
        matches!(outlook(&walk), Outlook::Holding(StartBlocker::NotAsReported { .. })),
        "{:?}",
        outlook(&walk)
    );
    assert_eq!((walk.has("gpu-b"), walk.actions.len()), (places("7g@0"), 0), "{:?}", walk.actions);
    assert_eq!(walk.progress.verified.as_ref().map(|verified| verified.slices["gpu-b"].len()), Some(2));
    // Its administrator restarts the plugin: what is wanted is planned from what is there.
    walk.world.kubelet.register(&walk.world.gpus);
    until(&mut walk, "it is changed", |walk| walk.has("gpu-b") == places("3g@0 3g@4") && walk.rests());
    assert_eq!(walk.progress.offers_otherwise_since, None);
}
