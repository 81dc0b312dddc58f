//! The third walk under whatever happens to its node, in any order. The scene asserts, whenever a label is written, that
//! the node is closed and nobody who holds a GPU is harmed; here is asserted that a node is never closed in silence, and
//! that it comes to what is wanted once everybody has left it alone.

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, any, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

use super::layout::{large, small_by};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The policy says another number; none: nobody shares.
    Wants(u32),
    /// The scheduler gives the node a pod, if it is open and offers anything.
    PodComes,
    /// The pod of a DaemonSet comes past every cordon.
    PodOfADaemonSetComes,
    PodGoes(usize),
    Uncordoned,
    ForeignKey,
    KeyIsBack,
    MapIsCleared,
    PointsElsewhere,
    PointsToOurs,
    /// The DaemonSet reaches the node, and replaces the pods that mount the map of before.
    PodIsReplaced,
    /// Somebody wants these GPUs cut otherwise, or as they were.
    Layout(bool),
    PluginIsMute,
    PluginSpeaks,
    PluginObeys(bool),
    Reboots,
    IsBack,
    OperatorIsKilled,
    Minutes(i64),
}

fn event() -> impl proptest::strategy::Strategy<Value = Event> {
    prop_oneof![
        4 => prop_oneof![Just(0_u32), Just(2), Just(4), Just(6)].prop_map(Event::Wants),
        4 => Just(Event::PodComes),
        3 => Just(Event::PodOfADaemonSetComes),
        5 => any::<usize>().prop_map(Event::PodGoes),
        2 => Just(Event::Uncordoned),
        1 => Just(Event::ForeignKey),
        2 => Just(Event::KeyIsBack),
        1 => Just(Event::MapIsCleared),
        1 => Just(Event::PointsElsewhere),
        3 => Just(Event::PointsToOurs),
        3 => Just(Event::PodIsReplaced),
        2 => any::<bool>().prop_map(Event::Layout),
        1 => Just(Event::PluginIsMute),
        3 => Just(Event::PluginSpeaks),
        1 => Just(Event::PluginObeys(false)),
        2 => Just(Event::PluginObeys(true)),
        1 => Just(Event::Reboots),
        3 => Just(Event::IsBack),
        2 => Just(Event::OperatorIsKilled),
        6 => (1_i64..40).prop_map(Event::Minutes),
    ]
}

const THEIRS: &str = "tesla-t4";

/// What the plugin of a node with whole GPUs, or of one that is cut, is told by a policy.
fn by(scene: &Scene, replicas: u32) -> PluginConfig {
    match (replicas, &scene.layout) {
        (0, _) => PluginConfig::default(),
        (_, Some(_)) => small_by(replicas),
        (_, None) => shared_by(replicas),
    }
}

/// A pod that has one of whatever the node has left to give, as kubelet counts it.
fn comes(scene: &mut Scene, named: usize, daemon_set: bool) {
    let offers = scene.offers();
    let held = |name: &str| scene.pods.iter().filter_map(|pod| pod.requests.get(name)).sum::<u64>();
    let free: Vec<&String> =
        offers.iter().filter(|(name, n)| **n > held(name)).map(|(name, _)| name).collect();
    let any = (!free.is_empty()).then(|| free[named % free.len()].clone());
    if let Some(resource) = any.filter(|_| !scene.down) {
        scene.pods.push(Pod { daemon_set, ..pod(&format!("pod{named}"), &resource, 1) });
    }
}

/// Whoever took the label gives the node the key that we last gave it.
fn gives_back(scene: &mut Scene) {
    if scene.key.as_deref() == Some(THEIRS) {
        scene.key = scene.progress.shared_as.as_ref().map(PluginConfig::key);
    }
}

fn happens(scene: &mut Scene, event: Event, nth: usize) {
    match event {
        Event::Wants(replicas) => scene.wants(by(scene, replicas)),
        Event::PodComes if scene.cordoned => {}
        Event::PodComes => comes(scene, nth, false),
        Event::PodOfADaemonSetComes => comes(scene, nth, true),
        Event::PodGoes(which) if !scene.pods.is_empty() => {
            scene.pods.remove(which % scene.pods.len());
        }
        Event::PodGoes(_) => {}
        Event::Uncordoned => scene.cordoned = false,
        Event::ForeignKey => scene.key = Some(THEIRS.to_owned()),
        Event::KeyIsBack => gives_back(scene),
        Event::MapIsCleared => scene.map.clear(),
        Event::PointsElsewhere => scene.points_to_ours = false,
        Event::PointsToOurs if scene.points_to_ours => {}
        Event::PointsToOurs => (scene.points_to_ours, scene.pod_of_before) = (true, true),
        Event::PodIsReplaced => scene.pod_of_before = false,
        Event::Layout(anew) if scene.layout.is_some() => {
            scene.wanted_layout = Some(if anew { large() } else { cut() });
        }
        Event::Layout(_) => {}
        Event::PluginIsMute => scene.mute = true,
        Event::PluginSpeaks => scene.mute = false,
        Event::PluginObeys(obeys) => scene.obeys = obeys,
        Event::Reboots => {
            (scene.down, scene.boot) = (true, if scene.boot == "boot" { "another" } else { "boot" });
        }
        Event::IsBack => scene.down = false,
        Event::OperatorIsKilled => scene.dies_at = Some(scene.did.len()),
        Event::Minutes(n) => scene.now += SignedDuration::from_mins(n),
    }
}

/// Our map has what memory needs, and what feature discovery's labels say of the key of the node: a round writes it before
/// it does anything to a node.
fn map_is_mended(scene: &mut Scene) {
    let Progress { shared_as, target, .. } = &scene.progress;
    let change = target.as_ref().and_then(|target| target.sharing.as_ref());
    let before = change.and_then(|change| change.text_before().cloned());
    let follows = target.as_ref().and_then(|target| target.followed_by.clone());
    let by_labels = Some(scene.active.clone()).filter(|config| scene.key == Some(config.key()));
    for config in shared_as.clone().into_iter().chain(before).chain(follows).chain(by_labels) {
        scene.map.insert(config.key(), config);
    }
}

fn goes_on(scene: &mut Scene) {
    let wake = scene.round();
    let says_why = matches!(scene.outlook, Outlook::Working { .. } | Outlook::Failed(_));
    assert!(!scene.cordoned || says_why, "closed in silence: {:?}", scene.outlook);
    map_is_mended(scene);
    let next = scene.now + SignedDuration::from_secs(1);
    scene.now = wake.unwrap_or(next).max(next);
}

/// Everybody leaves the node alone, its plugin does what it is told, and time passes.
fn is_left_alone(scene: &mut Scene) {
    gives_back(scene);
    scene.pods.clear();
    (scene.points_to_ours, scene.pod_of_before) = (true, false);
    (scene.mute, scene.obeys, scene.down, scene.dies_at) = (false, true, false, None);
    // Of a key whose text nothing leads to, people are told, and they write it.
    let all = [0, 2, 4, 6].map(|replicas| by(scene, replicas)).map(|config| (config.key(), config));
    let told = |key: &String| BTreeMap::from(all)[key].clone();
    scene.active = scene.key.as_ref().map(told).unwrap_or_default();
    map_is_mended(scene);
    for _ in 0..600 {
        goes_on(scene);
        if let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook {
            scene.now = scene.now.max(until);
        }
        if scene.outlook == Outlook::Idle {
            return;
        }
    }
    panic!("it never comes to rest: {:?}, {:?}", scene.progress.phase, scene.outlook);
}

fn nobody_is_harmed(mut scene: Scene, events: Vec<(Event, usize)>) {
    for (nth, (event, rounds)) in events.into_iter().enumerate() {
        happens(&mut scene, event, nth);
        (0..rounds).for_each(|_| goes_on(&mut scene));
    }
    is_left_alone(&mut scene);
    assert_eq!(scene.wanted, Some(SharingWanted::As(scene.active.clone())));
    assert!(scene.wanted_layout.is_none() || scene.wanted_layout == scene.layout);
    assert!(!scene.cordoned);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(23), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_to_a_node_nobody_shares_unawares_and_it_is_closed_only_while_people_are_told_why(
        events in vec((event(), 1_usize..8), 1..40),
    ) {
        let mut scene = Scene::new();
        scene.wants(shared_by(4));
        nobody_is_harmed(scene, events);
    }

    #[test]
    fn whatever_happens_to_a_node_that_is_cut_nobody_loses_a_slice_or_shares_one_unawares(
        events in vec((event(), 1_usize..8), 1..40),
    ) {
        let mut scene = Scene::with_slices(&[]);
        scene.wants(small_by(4));
        nobody_is_harmed(scene, events);
    }
}
