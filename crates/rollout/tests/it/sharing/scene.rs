//! A node with eight GPUs, its device plugin, and time that passes.

use std::collections::{BTreeMap, BTreeSet};

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

pub(super) const GPUS: u64 = 8;

/// The node, its device plugin, and the operator's memory.
pub(super) struct Scene {
    pub(super) key: Option<String>,
    pub(super) gpus: u64,
    pub(super) map: BTreeMap<String, PluginConfig>,
    pub(super) points_to_ours: bool,
    /// The plugin's pod still mounts the map that `ClusterPolicy` named before.
    pub(super) pod_of_before: bool,
    /// When a round last saw that the plugin's pod does not mount our map.
    pub(super) unmounted_at: Option<Timestamp>,
    pub(super) active: PluginConfig,
    pub(super) obeys: bool,
    /// What the plugin offers is nothing at all.
    pub(super) mute: bool,
    pub(super) pods: Vec<Pod>,
    /// What its GPUs are cut into; absent where no GPU is.
    pub(super) layout: Option<NodeLayout>,
    /// What they should be cut into, where somebody wants something.
    pub(super) wanted_layout: Option<NodeLayout>,
    /// What MIG manager is told, where that is not the first name of what they are cut into.
    pub(super) mig_label: Option<String>,
    /// The entries of MIG manager's map, and when the first of them came.
    pub(super) entries: BTreeMap<String, NodeLayout>,
    pub(super) entries_since: Option<Timestamp>,
    /// How often MIG manager cut the GPUs: each time it brings a new plugin.
    pub(super) cuts: usize,
    /// How often MIG manager's pod was replaced.
    pub(super) managers: usize,
    /// MPS's control daemon does not come up.
    pub(super) no_daemon: bool,
    /// Feature discovery's pod ends, again and again.
    pub(super) no_discovery: bool,
    /// What GPU feature discovery still says, where it lags.
    pub(super) labels_of: Option<PluginConfig>,
    /// What else its labels say.
    pub(super) relabels: fn(&mut SharingSeen),
    /// Who else works on the node.
    pub(super) work: Option<rollout::OtherWork>,
    pub(super) down: bool,
    pub(super) boot: &'static str,
    pub(super) cordoned: bool,
    pub(super) listed: Option<Timestamp>,
    pub(super) progress: Progress,
    pub(super) wanted: Option<SharingWanted>,
    pub(super) drain: Drain,
    pub(super) admission: Admission,
    /// How long it rests after its layout, and after its sharing.
    pub(super) rests: (SignedDuration, SignedDuration),
    pub(super) now: Timestamp,
    /// When each key came into the map, and when the label was written.
    pub(super) mapped_at: Option<Timestamp>,
    pub(super) labelled_at: Option<Timestamp>,
    pub(super) did: Vec<&'static str>,
    /// The operator dies instead of doing its nth action.
    pub(super) dies_at: Option<usize>,
    /// What is written by actions of this name never arrives.
    pub(super) lost: &'static str,
    /// What else is seen than is so.
    pub(super) alters: fn(&mut Observed),
    /// Somebody removed the mark of our cordon, or we have.
    pub(super) unmarked: bool,
    /// `ClusterPolicy` has this MIG strategy for all nodes; otherwise each has that of its configuration, or none.
    pub(super) strategy: Option<Strategy>,
    pub(super) outlook: Outlook,
}

pub(super) fn shared_as(by: Method, replicas: &[(&str, u32)]) -> PluginConfig {
    let replicas = replicas.iter().map(|(name, n)| (format!("nvidia.com/{name}"), *n)).collect();
    PluginConfig { strategy: None, sharing: Some(Shared { by, rename: true, one_each: true, replicas }) }
}

/// Eight A100s: one whole, five with small slices, two with large ones.
pub(super) fn cut() -> NodeLayout {
    let slices = |profile: &str, n: u8| GpuLayout::Mig([(profile.parse().unwrap(), n)].into());
    NodeLayout::new((0..8).map(|index| match index {
        0 => (index, GpuLayout::Off),
        1..6 => (index, slices("1g.10gb", 7)),
        _ => (index, slices("3g.40gb", 2)),
    }))
}

/// What feature discovery counts of a layout.
pub(super) fn counted(layout: &NodeLayout) -> Vec<(String, Option<u64>)> {
    layout.counted(Strategy::Mixed).into_iter().map(|(resource, n)| (resource, Some(n))).collect()
}

pub(super) fn pod(name: &str, resource: &str, n: u64) -> Pod {
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

pub(super) fn shared_by(replicas: u32) -> PluginConfig {
    PluginConfig::of_gpus(replicas, true, true)
}

impl Scene {
    pub(super) fn new() -> Self {
        let start = Timestamp::from_second(1_764_060_000).unwrap();
        Self {
            key: None,
            gpus: GPUS,
            map: BTreeMap::new(),
            points_to_ours: true,
            pod_of_before: false,
            unmounted_at: None,
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
            mig_label: None,
            entries: BTreeMap::new(),
            entries_since: None,
            cuts: 0,
            managers: 0,
            no_daemon: false,
            no_discovery: false,
            labels_of: None,
            relabels: |_| (),
            work: None,
            down: false,
            boot: "boot",
            did: Vec::new(),
            dies_at: None,
            lost: "",
            alters: |_| (),
            unmarked: false,
            strategy: Some(Strategy::Mixed),
            outlook: Outlook::Idle,
        }
    }

    /// One that we share by so many, at rest.
    pub(super) fn shared(replicas: u32) -> Self {
        let mut scene = Self::new();
        scene.wants(shared_by(replicas));
        scene.settle();
        assert_eq!(scene.outlook, Outlook::Idle);
        assert_eq!(scene.active, shared_by(replicas));
        scene.did.clear();
        scene
    }

    /// One with A100s that we have cut, at rest, and its pods.
    pub(super) fn with_slices(pods: &[(&str, &str)]) -> Self {
        let mut scene = Self { layout: Some(cut()), ..Self::new() };
        scene.has_entry(&cut());
        scene.pods = pods.iter().map(|(name, resource)| pod(name, resource, 1)).collect();
        scene.settle();
        assert_eq!((scene.outlook.clone(), scene.did.len()), (Outlook::Idle, 0));
        scene
    }

    pub(super) fn devices(&self) -> BTreeMap<String, u64> {
        let whole = || BTreeMap::from([("nvidia.com/gpu".to_owned(), self.gpus)]);
        self.layout.as_ref().map_or_else(whole, |layout| layout.offers(Strategy::Mixed))
    }

    pub(super) fn wants(&mut self, config: PluginConfig) {
        self.wanted = Some(SharingWanted::As(config));
    }

    pub(super) fn offers(&self) -> BTreeMap<String, u64> {
        let mut offers = BTreeMap::from([("nvidia.com/gpu".to_owned(), 0)]);
        // A plugin that is pointed to a map without its key ends, again and again, and so does MPS beside MIG.
        let knows_its_key = self.key.is_none() || self.points_to_ours && !self.pod_of_before;
        if !self.mute && knows_its_key && !(self.active.is_by_mps() && self.layout.is_some()) {
            offers.extend(self.active.offers(&self.devices()));
        }
        offers
    }

    pub(super) fn observe(&self) -> Observed {
        let mut plugin = pod(&format!("plugin-{}", self.cuts), "cpu", 1);
        plugin.operand = Some(Operand::DevicePlugin);
        let mut manager = pod(&format!("manager-{}", self.managers), "cpu", 1);
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
            pod_of_before: (self.points_to_ours && self.pod_of_before)
                .then(|| PodRef { namespace: "team".to_owned(), name: format!("plugin-{}", self.cuts) }),
            keys: configs.keys().cloned().collect::<BTreeSet<_>>(),
        };
        (self.relabels)(&mut sharing);
        let strategy = self.strategy.or(said.strategy).unwrap_or(Strategy::None);
        let mut seen = Observed {
            resource_version: "1".to_owned(),
            operands: OperandLabels {
                config: self.mig_label.clone().or_else(|| self.layout.as_ref().map(NodeLayout::entry_name)),
                state: self.layout.as_ref().map_or(ManagerState::Absent, |_| ManagerState::Success),
                has_manager: true,
                counts: self.layout.iter().flat_map(counted).collect(),
                ..OperandLabels::default()
            },
            is_marked: self.cordoned && !self.unmarked,
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
            operator: Operator { strategy, ..Operator::default() },
            agent: None,
            report: None,
            sharing,
        };
        (self.alters)(&mut seen);
        seen
    }

    pub(super) fn round(&mut self) -> Option<Timestamp> {
        let rules = NodeRules {
            admission: self.admission.clone(),
            drain: self.drain,
            cooldown: self.rests.0,
            cooldown_of_sharing: self.rests.1,
            settings: rollout::Settings::default(),
        };
        let seen = self.observe();
        if !self.points_to_ours || self.pod_of_before {
            self.unmounted_at = Some(self.now);
        }
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
            if action.name() != self.lost {
                self.act(action);
            }
        }
        advance.wake_at
    }

    pub(super) fn act(&mut self, action: &Action) {
        match action {
            Action::EnsurePluginConfig { key, config } => {
                assert_eq!(*key, config.key());
                self.mapped_at = Some(self.now);
                self.map.insert(key.clone(), config.clone());
            }
            Action::Cordon { .. } => (self.cordoned, self.unmarked) = (true, false),
            Action::RemoveCordonedBy { .. } => self.unmarked = true,
            Action::Uncordon { .. } => self.cordoned = false,
            Action::ListPods => self.listed = Some(self.now),
            Action::Evict { if_uid, .. } => self.pods.retain(|pod| pod.uid != *if_uid),
            Action::SetPluginConfigLabel { value, .. } => {
                assert!(self.cordoned, "the label is written on an open node");
                self.plugin_finds(value.as_ref());
                self.labelled_at = Some(self.now);
                self.key.clone_from(value);
                let told = value.as_ref().map_or_else(PluginConfig::default, |key| self.text_of(key));
                self.nobody_is_harmed_by(&told);
                if self.obeys {
                    self.active = told;
                }
            }
            Action::EnsureMapEntry { layout, entry, .. } => {
                self.entries_since.get_or_insert(self.now);
                assert_eq!(*entry, layout.entry_name());
                self.has_entry(layout);
            }
            Action::SetConfigLabel { value, .. } => {
                assert!(self.cordoned, "MIG manager is told on an open node");
                self.cuts += 1;
                self.pod_of_before = false;
                self.nobody_loses_a_slice_to(&self.entries[value]);
                self.layout = Some(self.entries[value].clone());
                self.mig_label = Some(value.clone());
            }
            Action::DeletePod { .. } => self.managers += 1,
            other => panic!("no action of this walk: {other:?}"),
        }
    }

    /// MIG manager's map has a layout under its three names.
    fn has_entry(&mut self, layout: &NodeLayout) {
        let names = ["", "-a", "-b"].map(|suffix| format!("{}{suffix}", layout.entry_name()));
        self.entries.extend(names.map(|name| (name, layout.clone())));
    }

    /// What a key says that a label is to name. A round writes what its memory has into the map before it does anything to
    /// a node.
    fn text_of(&self, key: &String) -> PluginConfig {
        let remembered = self.progress.shared_as.as_ref().filter(|config| config.key() == *key);
        let known = self.map.get(key).or(remembered);
        known.unwrap_or_else(|| panic!("a label names {key}, which the map does not have")).clone()
    }

    /// A label names a key only where the plugin finds it: its pod has mounted our map for as long as kubelet may need. (The
    /// way back leads to what was there before, whoever took the map away since.)
    fn plugin_finds(&self, key: Option<&String>) {
        let change = self.progress.target.as_ref().and_then(|target| target.sharing.as_ref());
        if key.is_none() || change.is_none_or(|change| change.goes_back) {
            return;
        }
        let mount = SignedDuration::from_secs(120);
        let is_mounted = self.unmounted_at.is_none_or(|at| self.now >= at + mount);
        assert!(is_mounted, "{key:?} is not mounted: {:?}, and it is {}", self.unmounted_at, self.now);
    }

    /// No pod has a slice of a GPU that is cut anew: which GPU a slice is of, nobody knows, so none of its profile.
    fn nobody_loses_a_slice_to(&self, to: &NodeLayout) {
        let Some(from) = &self.layout else { return };
        let cut_anew = from.0.iter().filter(|(index, gpu)| to.0.get(index) != Some(gpu));
        let goes = NodeLayout(cut_anew.map(|(index, gpu)| (*index, gpu.clone())).collect());
        for (name, _) in goes.offers(Strategy::Mixed).iter().filter(|(_, n)| **n > 0) {
            let asks = |pod: &&Pod| pod.requests.keys().any(|has| has.trim_end_matches(".shared") == name);
            let loser = self.pods.iter().find(asks);
            assert!(loser.is_none(), "{name} is cut while {loser:?} may have it");
        }
    }

    /// No pod that holds a resource changes between a device for itself and one that it shares, nor has more neighbours
    /// than it was told, nor a server that is started anew below it.
    fn nobody_is_harmed_by(&self, told: &PluginConfig) {
        let mut held = BTreeMap::<&str, u64>::new();
        for pod in &self.pods {
            for (name, n) in pod.requests.iter().filter(|(name, _)| name.starts_with("nvidia.com/")) {
                *held.entry(name.strip_suffix(".shared").unwrap_or(name)).or_default() += n;
            }
        }
        let serves_anew =
            (self.active.is_by_mps() || told.is_by_mps()) && self.active.sharing != told.sharing;
        assert!(!serves_anew || held.is_empty(), "the server of {:?} is started anew", self.pods);
        for (resource, n) in held {
            let (from, to) = (self.active.seats_of(resource), told.seats_of(resource));
            let is_as_before = from.is_shared() == to.is_shared() && from.resource == to.resource;
            assert!(is_as_before, "who has {resource} had {from:?} and gets {to:?}");
            let seats = self.devices().get(resource).copied().unwrap_or(0) * u64::from(to.replicas);
            assert!(n <= seats, "{n} hold {resource}, of which there are {seats} seats");
        }
    }

    /// Rounds until nothing is under way any more, as time passes.
    pub(super) fn settle(&mut self) {
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
    pub(super) fn held_by(&self, names: &[&str]) {
        let Outlook::Holding(StartBlocker::GpusHeld { pods }) = &self.outlook else {
            panic!("it is not held: {:?}", self.outlook)
        };
        assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), names);
        assert!(!self.cordoned);
    }

    pub(super) fn cleared(&mut self) {
        self.pods.clear();
        self.settle();
    }
}
