//! A node with eight T4s whose sharing changes: what keeps pods from sharing a GPU unawares, what the device plugin is
//! told and when, and what happens when it does not obey.

mod layout;
mod proof;
mod restarts;
mod slices;

use jiff::{SignedDuration, Timestamp};
use planner::names::PodRef;
use planner::policy::Drain;
use rollout::observed::{Listing, ManagerState, MapSeen, Observed, Operator, Pod, PodPhase};
use rollout::progress::{Phase, Progress};
use rollout::{
    Action, Admission, CordonOwner, GpuLayout, Method, NodeLayout, NodeRules, Operand, OperandLabels,
    Outlook, PluginConfig, Shared, SharingSeen, SharingWanted, StartBlocker, Strategy, advance_sharing,
};
use slicewright_rollout as rollout;
use std::collections::{BTreeMap, BTreeSet};

const GPUS: u64 = 8;

/// The node, its device plugin, and the operator's memory.
struct Scene {
    key: Option<String>,
    gpus: u64,
    map: BTreeMap<String, PluginConfig>,
    points_to_ours: bool,
    active: PluginConfig,
    obeys: bool,
    /// What the plugin offers is nothing at all.
    mute: bool,
    pods: Vec<Pod>,
    /// What its GPUs are cut into; absent where no GPU is.
    layout: Option<NodeLayout>,
    /// What they should be cut into, where somebody wants something.
    wanted_layout: Option<NodeLayout>,
    /// The entries of MIG manager's map, and when the first of them came.
    entries: BTreeMap<String, NodeLayout>,
    entries_since: Option<Timestamp>,
    /// How often MIG manager cut the GPUs: each time it brings a new plugin.
    cuts: usize,
    /// MPS's control daemon does not come up.
    no_daemon: bool,
    /// Feature discovery's pod ends, again and again.
    no_discovery: bool,
    /// What GPU feature discovery still says, where it lags.
    labels_of: Option<PluginConfig>,
    /// What else its labels say.
    relabels: fn(&mut SharingSeen),
    /// Who else works on the node.
    work: Option<rollout::OtherWork>,
    down: bool,
    boot: &'static str,
    cordoned: bool,
    listed: Option<Timestamp>,
    progress: Progress,
    wanted: Option<SharingWanted>,
    drain: Drain,
    admission: Admission,
    /// How long it rests after its layout, and after its sharing.
    rests: (SignedDuration, SignedDuration),
    now: Timestamp,
    /// When each key came into the map, and when the label was written.
    mapped_at: Option<Timestamp>,
    labelled_at: Option<Timestamp>,
    did: Vec<&'static str>,
    /// The operator dies instead of doing its nth action.
    dies_at: Option<usize>,
    outlook: Outlook,
}

fn shared_as(by: Method, replicas: &[(&str, u32)]) -> PluginConfig {
    let replicas = replicas.iter().map(|(name, n)| (format!("nvidia.com/{name}"), *n)).collect();
    PluginConfig { strategy: None, sharing: Some(Shared { by, rename: true, one_each: true, replicas }) }
}

/// Eight A100s: one whole, five with small slices, two with large ones.
fn cut() -> NodeLayout {
    let slices = |profile: &str, n: u8| GpuLayout::Mig([(profile.parse().unwrap(), n)].into());
    NodeLayout::new((0..8).map(|index| match index {
        0 => (index, GpuLayout::Off),
        1..6 => (index, slices("1g.10gb", 7)),
        _ => (index, slices("3g.40gb", 2)),
    }))
}

/// What feature discovery counts of a layout.
fn counted(layout: &NodeLayout) -> Vec<(String, Option<u64>)> {
    layout.counted(Strategy::Mixed).into_iter().map(|(resource, n)| (resource, Some(n))).collect()
}

fn pod(name: &str, resource: &str, n: u64) -> Pod {
    Pod {
        pod: PodRef { namespace: "team".to_owned(), name: name.to_owned() },
        uid: name.to_owned(),
        operand: None,
        phase: PodPhase::Started,
        terminating: false,
        ready: true,
        daemon_set: false,
        requests: BTreeMap::from([(resource.to_owned(), n)]),
        gpus: None,
        kubelet_uid: name.to_owned(),
        containers: Vec::new(),
    }
}

fn shared_by(replicas: u32) -> PluginConfig {
    PluginConfig::of_gpus(replicas, true, true)
}

impl Scene {
    fn new() -> Self {
        let start = Timestamp::from_second(1_764_060_000).unwrap();
        Self {
            key: None,
            gpus: GPUS,
            map: BTreeMap::new(),
            points_to_ours: true,
            active: PluginConfig::default(),
            obeys: true,
            mute: false,
            pods: Vec::new(),
            cordoned: false,
            listed: None,
            progress: Progress::default(),
            wanted: None,
            drain: Drain::Never,
            admission: Admission::Admitted,
            rests: (SignedDuration::ZERO, SignedDuration::ZERO),
            now: start,
            mapped_at: None,
            labelled_at: None,
            layout: None,
            wanted_layout: None,
            entries: BTreeMap::new(),
            entries_since: None,
            cuts: 0,
            no_daemon: false,
            no_discovery: false,
            labels_of: None,
            relabels: |_| (),
            work: None,
            down: false,
            boot: "boot",
            did: Vec::new(),
            dies_at: None,
            outlook: Outlook::Idle,
        }
    }

    /// One that we share by so many, at rest.
    fn shared(replicas: u32) -> Self {
        let mut scene = Self::new();
        scene.wants(shared_by(replicas));
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Idle);
        assert_eq!(scene.active, shared_by(replicas));
        scene.did.clear();
        scene
    }

    /// One with A100s that we have cut, at rest, and its pods.
    fn with_slices(pods: &[(&str, &str)]) -> Self {
        let mut scene = Self { layout: Some(cut()), ..Self::new() };
        scene.pods = pods.iter().map(|(name, resource)| pod(name, resource, 1)).collect();
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.did.len()), (Outlook::Idle, 0));
        scene
    }

    fn devices(&self) -> BTreeMap<String, u64> {
        let whole = || BTreeMap::from([("nvidia.com/gpu".to_owned(), self.gpus)]);
        self.layout.as_ref().map_or_else(whole, |layout| layout.offers(Strategy::Mixed))
    }

    fn wants(&mut self, config: PluginConfig) {
        self.wanted = Some(SharingWanted::As(config));
    }

    fn offers(&self) -> BTreeMap<String, u64> {
        let mut offers = BTreeMap::from([("nvidia.com/gpu".to_owned(), 0)]);
        // A plugin that is pointed to a map without its key ends, again and again, and so does MPS beside MIG.
        let knows_its_key = self.key.is_none() || self.points_to_ours;
        if !self.mute && knows_its_key && !(self.active.is_by_mps() && self.layout.is_some()) {
            offers.extend(self.active.offers(&self.devices()));
        }
        offers
    }

    fn observe(&self) -> Observed {
        let mut plugin = pod(&format!("plugin-{}", self.cuts), "cpu", 1);
        plugin.operand = Some(Operand::DevicePlugin);
        let mut manager = pod("manager", "cpu", 1);
        manager.operand = Some(Operand::MigManager);
        let mut pods = self.pods.clone();
        let mut discovery = pod("discovery", "cpu", 1);
        discovery.operand = Some(Operand::FeatureDiscovery);
        discovery.ready = !self.no_discovery;
        pods.extend([plugin, manager, discovery]);
        if self.active.is_by_mps() {
            let mut daemon = pod("daemon", "cpu", 1);
            daemon.operand = Some(Operand::MpsControlDaemon);
            daemon.ready = !self.no_daemon;
            pods.push(daemon);
        }
        let configs = &self.map;
        let said = self.labels_of.as_ref().unwrap_or(&self.active);
        let shared = |name: &String| said.seats_of(name).is_shared();
        let (devices, by) = (self.devices(), said.sharing.as_ref().map(|of| of.by.label().to_owned()));
        let mut sharing = SharingSeen {
            config: self.key.as_ref().and_then(|key| configs.get(key)).cloned(),
            key: self.key.clone(),
            gpus: Some(self.gpus),
            replicas: devices
                .keys()
                .map(|name| (name.clone(), u64::from(said.seats_of(name).replicas)))
                .collect(),
            by: devices
                .keys()
                .filter(|name| shared(name))
                .filter_map(|name| Some((name.clone(), by.clone()?)))
                .collect(),
            shared_products: devices
                .keys()
                .filter(|name| shared(name) && said.seats_of(name).resource == **name)
                .cloned()
                .collect(),
            is_cut: self.layout.is_some(),
            never_cut: self.layout.is_none(),
            layout: self.layout.clone(),
            uses_our_map: self.points_to_ours,
            keys: configs.keys().cloned().collect::<BTreeSet<_>>(),
        };
        (self.relabels)(&mut sharing);
        Observed {
            resource_version: "1".to_owned(),
            operands: OperandLabels {
                config: self.layout.as_ref().map(NodeLayout::entry_name),
                state: self.layout.as_ref().map_or(ManagerState::Absent, |_| ManagerState::Success),
                has_manager: true,
                counts: self.layout.iter().flat_map(counted).collect(),
                ..OperandLabels::default()
            },
            is_marked: self.cordoned,
            work: self.work.clone(),
            manager: None,
            unschedulable: self.cordoned,
            cordon_owner: if self.cordoned { CordonOwner::Us } else { CordonOwner::Unknown },
            ready: !self.down,
            boot_id: self.boot.to_owned(),
            allocatable: self.offers(),
            pods,
            listing: self.listed.map_or(Listing::Cached, |at| Listing::Consistent { at }),
            refusals: Vec::new(),
            map: MapSeen {
                resource_version: Some("1".to_owned()),
                entries: self.entries.keys().cloned().collect(),
                changed_at: self.entries_since,
            },
            label_layout: self.layout.clone(),
            operator: Operator::default(),
            agent: None,
            report: None,
            sharing,
        }
    }

    fn round(&mut self) -> Option<Timestamp> {
        let rules = NodeRules {
            admission: self.admission.clone(),
            drain: self.drain,
            cooldown: self.rests.0,
            cooldown_of_sharing: self.rests.1,
            settings: rollout::Settings::default(),
        };
        let seen = self.observe();
        let (layout, sharing) = (self.wanted_layout.as_ref(), self.wanted.as_ref());
        let advance = advance_sharing(&seen, layout, sharing, &rules, &self.progress, self.now);
        self.progress = advance.progress;
        self.outlook = advance.outlook;
        for action in &advance.actions {
            if self.dies_at == Some(self.did.len()) {
                self.dies_at = None;
                return Some(self.now);
            }
            self.did.push(action.name());
            self.act(action);
        }
        advance.wake_at
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::EnsurePluginConfig { key, config } => {
                assert_eq!(*key, config.key());
                self.mapped_at = Some(self.now);
                self.map.insert(key.clone(), config.clone());
            }
            Action::Cordon { .. } => self.cordoned = true,
            Action::Uncordon { .. } => self.cordoned = false,
            Action::ListPods => self.listed = Some(self.now),
            Action::Evict { if_uid, .. } => self.pods.retain(|pod| pod.uid != *if_uid),
            Action::SetPluginConfigLabel { value, .. } => {
                assert!(self.cordoned, "the label is written on an open node");
                self.labelled_at = Some(self.now);
                self.key.clone_from(value);
                if self.obeys {
                    self.active = value.as_ref().map(|key| self.map[key].clone()).unwrap_or_default();
                }
            }
            Action::EnsureMapEntry { layout, entry, .. } => {
                self.entries_since.get_or_insert(self.now);
                let names = ["", "-a", "-b"].map(|suffix| (format!("{entry}{suffix}"), layout.clone()));
                self.entries.extend(names);
            }
            Action::SetConfigLabel { value, .. } => {
                assert!(self.cordoned, "MIG manager is told on an open node");
                self.cuts += 1;
                self.layout = Some(self.entries[value].clone());
            }
            other => panic!("no action of this walk: {other:?}"),
        }
    }

    /// Rounds until nothing is under way any more, as time passes.
    fn settle(&mut self) {
        for _ in 0..400 {
            let wake = self.round();
            let works = matches!(self.outlook, Outlook::Working { .. });
            if !works && self.progress.phase != Phase::Retreating && self.dies_at.is_none() {
                return;
            }
            let next = self.now + SignedDuration::from_secs(1);
            self.now = wake.unwrap_or(next).max(next);
        }
        panic!("it never comes to rest: {:?}, {:?}", self.progress.phase, self.outlook);
    }

    #[track_caller]
    fn held_by(&self, names: &[&str]) {
        let Outlook::Holding(StartBlocker::GpusHeld { pods }) = &self.outlook else {
            panic!("it is not held: {:?}", self.outlook)
        };
        assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), names);
        assert!(!self.cordoned);
    }

    fn cleared(&mut self) {
        self.pods.clear();
        self.settle();
    }
}

#[test]
fn a_node_that_nobody_uses_is_shared_after_its_key_was_mounted_and_opened_when_it_offers_that() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    scene.settle();
    let (mapped, labelled) = (scene.mapped_at.unwrap(), scene.labelled_at.unwrap());
    assert!(labelled >= mapped + SignedDuration::from_secs(120), "kubelet needs time to mount the key");
    assert_eq!(scene.key, Some(shared_by(4).key()));
    assert_eq!(scene.offers()["nvidia.com/gpu.shared"], 32);
    assert!(!scene.cordoned);
    let expect = ["EnsurePluginConfig", "Cordon", "ListPods", "SetPluginConfigLabel", "Uncordon"];
    assert_eq!(scene.did, expect);
    scene.did.clear();
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.did.len()), (Outlook::Idle, 0), "nothing is written at rest");
}

#[test]
fn a_pod_that_has_a_gpu_for_itself_gets_no_neighbours() {
    let mut scene = Scene::new();
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    scene.held_by(&["train"]);
    assert_eq!(scene.key, None);
    scene.cleared();
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn a_gpu_is_for_one_pod_again_only_when_the_last_of_its_sharers_has_gone() {
    let mut scene = Scene::shared(4);
    scene.pods = vec![pod("a", "nvidia.com/gpu.shared", 1), pod("b", "nvidia.com/gpu.shared", 1)];
    scene.wants(PluginConfig::default());
    scene.settle();
    scene.held_by(&["a", "b"]);
    scene.pods.remove(0);
    scene.settle();
    scene.held_by(&["b"]);
    assert_eq!(scene.active, shared_by(4));
    scene.cleared();
    assert_eq!(scene.active, PluginConfig::default());
}

#[test]
fn another_name_is_another_resource_and_waits_as_well() {
    let mut scene = Scene::shared(4);
    scene.pods.push(pod("a", "nvidia.com/gpu.shared", 1));
    scene.wants(PluginConfig::of_gpus(4, false, true));
    scene.settle();
    scene.held_by(&["a"]);
}

#[test]
fn more_share_a_gpu_at_once_and_fewer_when_those_who_share_it_fit() {
    let mut scene = Scene::shared(4);
    scene.pods = (0..20).map(|n| pod(&format!("lab{n}"), "nvidia.com/gpu.shared", 1)).collect();
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(6)));
    // Sixteen seats for twenty.
    scene.wants(shared_by(2));
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::GpusHeld { .. })), "{:?}", scene.outlook);
    scene.pods.truncate(16);
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(2)));
    assert_eq!(scene.pods.len(), 16);
}

#[test]
fn where_it_is_not_known_how_gpus_are_shared_every_pod_that_holds_one_counts() {
    let mut scene = Scene::shared(4);
    scene.pods.push(pod("a", "nvidia.com/gpu.shared", 1));
    // One more would be no trouble, but the plugin offers something else than its key says.
    scene.active = shared_by(3);
    scene.wants(shared_by(6));
    scene.settle();
    scene.held_by(&["a"]);
}

#[test]
fn a_pod_that_comes_while_the_node_is_being_cordoned_takes_the_change_back() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.pods.push(pod("late", "nvidia.com/gpu", 1));
    scene.settle();
    assert_eq!((scene.key.clone(), scene.cordoned), (None, false));
    assert_eq!(scene.active, PluginConfig::default());
}

#[test]
fn a_pod_that_is_bound_and_not_started_is_waited_for_before_the_label() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.pods.push(Pod { phase: PodPhase::Pending, ..pod("late", "nvidia.com/gpu", 1) });
    for _ in 0..10 {
        scene.now += SignedDuration::from_secs(10);
        scene.round();
        assert_eq!(scene.key, None);
    }
}

#[test]
fn where_the_policy_evicts_the_pods_go_first() {
    let mut scene = Scene::new();
    scene.drain = Drain::Evict;
    scene.pods.push(pod("train", "nvidia.com/gpu", 1));
    scene.wants(shared_by(4));
    scene.settle();
    let at = |name| scene.did.iter().position(|did| *did == name).unwrap();
    assert!(at("Cordon") < at("Evict") && at("Evict") < at("SetPluginConfigLabel"), "{:?}", scene.did);
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn while_cluster_policy_names_another_map_nothing_but_the_map_is_written() {
    let mut scene = Scene::new();
    scene.points_to_ours = false;
    scene.wants(shared_by(4));
    scene.settle();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::PluginMapNotOurs));
    assert_eq!(scene.did, ["EnsurePluginConfig"], "a plugin whose map is not there does not start");
    scene.points_to_ours = true;
    scene.settle();
    assert_eq!(scene.active, shared_by(4));
}

#[test]
fn somebody_elses_label_freezes_the_sharing_of_a_node() {
    let mut scene = Scene::new();
    scene.key = Some("tesla-t4".to_owned());
    scene.wants(shared_by(4));
    scene.settle();
    let theirs = |ours: Option<String>| {
        Outlook::Holding(StartBlocker::ForeignSharing { found: Some("tesla-t4".to_owned()), ours })
    };
    assert_eq!(scene.outlook, theirs(None));
    assert!(scene.did.is_empty());

    let mut scene = Scene::shared(4);
    scene.key = Some("tesla-t4".to_owned());
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!(scene.outlook, theirs(Some(shared_by(4).key())));
    assert_eq!(scene.key.as_deref(), Some("tesla-t4"));
    // Who takes our label away takes the node out of our hands, too.
    scene.key = None;
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Holding(StartBlocker::ForeignSharing { found: None, .. })));
    scene.key = Some(shared_by(4).key());
    scene.settle();
    assert_eq!(scene.active, shared_by(6));
}

#[test]
fn a_label_that_somebody_else_writes_in_the_middle_is_left_and_the_node_stays_closed() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    slices::until(&mut scene, Phase::Verifying);
    scene.key = Some("tesla-t4".to_owned());
    scene.settle();
    assert!(matches!(scene.outlook, Outlook::Failed(_)), "{:?}", scene.outlook);
    assert!(scene.cordoned);
    assert_eq!(scene.key.as_deref(), Some("tesla-t4"));
}

#[test]
fn a_plugin_that_does_not_obey_gets_its_key_of_before_and_is_asked_again_later() {
    let mut scene = Scene::shared(4);
    scene.obeys = false;
    scene.wants(shared_by(6));
    scene.settle();
    assert_eq!(scene.key, Some(shared_by(4).key()));
    assert!(!scene.cordoned, "it offers what it offered before");
    let Outlook::Holding(StartBlocker::BackedOff { until, .. }) = scene.outlook.clone() else {
        panic!("{:?}", scene.outlook)
    };
    scene.obeys = true;
    scene.now = until;
    scene.settle();
    assert_eq!((scene.outlook.clone(), scene.active.clone()), (Outlook::Idle, shared_by(6)));
}

/// A node whose plugin offers nothing any more amid a change of how its GPUs are shared: it waits for a human.
#[track_caller]
fn failed() -> Scene {
    let mut scene = Scene::shared(4);
    scene.wants(shared_by(6));
    slices::until(&mut scene, Phase::Verifying);
    scene.mute = true;
    scene.settle();
    let Outlook::Failed(failure) = &scene.outlook else { panic!("{:?}", scene.outlook) };
    assert!(failure.why.to_string().contains("neither the sharing nor the previous one"), "{}", failure.why);
    assert!(scene.cordoned);
    scene
}

#[test]
fn a_plugin_that_offers_nothing_any_more_is_left_to_a_human_and_noticed_when_it_is_right_again() {
    let mut scene = failed();
    scene.mute = false;
    scene.round();
    scene.now += SignedDuration::from_mins(1);
    scene.settle();
    assert!(!scene.cordoned);
}

#[test]
fn nothing_begins_while_nobody_says_which_gpus_the_node_has() {
    let mut scene = Scene::new();
    scene.wanted = Some(SharingWanted::Unknown);
    scene.settle();
    assert_eq!(scene.outlook, Outlook::Holding(StartBlocker::SharingUnknown));
    assert!(scene.did.is_empty());
}

#[test]
fn a_node_that_leaves_its_policy_keeps_its_key() {
    let mut scene = Scene::shared(4);
    scene.wanted = None;
    scene.settle();
    assert_eq!((scene.key.clone(), scene.did.len()), (Some(shared_by(4).key()), 0));
}

#[test]
fn a_policy_that_goes_before_the_label_takes_the_change_back() {
    let mut scene = Scene::new();
    scene.wants(shared_by(4));
    while !scene.cordoned {
        let wake = scene.round();
        scene.now = wake.unwrap_or(scene.now).max(scene.now + SignedDuration::from_secs(1));
    }
    scene.wanted = None;
    scene.settle();
    assert_eq!((scene.key.clone(), scene.cordoned), (None, false));
}
