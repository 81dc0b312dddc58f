//! An operator that takes one node through the walk: it reads, asks, stores, writes `spec.change`, and does
//! the actions, and may die between any two of them.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Account, GpuUuid, ObjectVersion, Place, PodLife, Stage, Wish};
use jiff::{SignedDuration, Timestamp};
use planner::names::{GpuIndex, PodRef};
use planner::policy::Drain;
use slicewright_rollout::{
    Action, Admission, Advance, AgentSeen, CordonOwner, Listing, ManagerState, MapSeen, NodeRules, Observed,
    Operand, OperandLabels, Operator, OtherManager, OtherWork, Outlook, Phase, Pod, PodPhase, Progress,
    Refusal, Settings, WantedSlices, advance_slices, names,
};

use super::model::{Kubelet, Life, Plugin, World, places};
use crate::fake::start;

/// When the operator dies in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dies {
    Never,
    /// Before it stores what it decided.
    Before,
    /// After it has written `spec.change`, before it stored its progress.
    AfterSpec,
    /// After both, before its actions.
    BeforeActions,
    /// When the first of its actions is done, of which it does not hear.
    AfterAction,
}

#[derive(Clone, Debug)]
struct Read {
    version: ObjectVersion,
    wish: Option<Wish>,
    account: Option<Account>,
    node_version: u64,
    pods: Vec<Pod>,
    listing: Listing,
    held: bool,
    cordoned: bool,
}

/// The operator and the node's labels.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) world: World,
    pub(super) now: Timestamp,
    pub(super) progress: Progress,
    pub(super) wanted: WantedSlices,
    pub(super) held: bool,
    pub(super) cordoned: bool,
    pub(super) alive: bool,
    /// The admission policy of the agents is not there.
    pub(super) unguarded: bool,
    pub(super) admission: Admission,
    pub(super) manager: bool,
    pub(super) manager_pod: bool,
    pub(super) config: Option<String>,
    /// GPUs without a slice have lost MIG mode, as Hopper's do in a reboot.
    pub(super) mode_lost: bool,
    pub(super) map: BTreeSet<String>,
    /// The API server does not answer when the pods are to be listed.
    pub(super) lists_fail: bool,
    /// Steps take no time.
    pub(super) clock_stands: bool,
    /// The operator does not know which container of a pod asks for what.
    pub(super) containers_unknown: bool,
    /// Pods are those by which the GPU Operator tries out the plugin, and ask for slices as others do.
    pub(super) validators: bool,
    /// Pods are static: the API server has mirrors of them, with uids of their own.
    pub(super) mirrored: bool,
    /// The pod of the plugin is still there, although kubelet has lost it.
    pub(super) plugin_pod_stays: bool,
    /// What the node's status says that it offers, where kubelet is late to say it anew.
    pub(super) late_status: Option<BTreeMap<String, u64>>,
    /// By how many pods somebody lets slices be shared, by a key of his own.
    pub(super) shared_by_hand: Option<u64>,
    /// A key of ours that its label names, and that is in no map which the plugin reads.
    pub(super) left_key: Option<&'static str>,
    /// A GPU that is not in what the operator reads of the agent.
    pub(super) hidden: Option<&'static str>,
    /// Whether the policy allows evictions.
    pub(super) drain: Drain,
    /// What the API server says to each eviction, where it refuses them.
    pub(super) refuses: Option<&'static str>,
    /// Whom it was asked to evict, by uid, and did.
    pub(super) evicted: Vec<String>,
    /// Who is being ended, by uid.
    pub(super) going: BTreeSet<String>,
    /// Who ends takes his time.
    pub(super) lingers: bool,
    /// Pods of DaemonSets, by uid.
    pub(super) daemon_sets: BTreeSet<String>,
    /// What others do on the node, and whose its devices are.
    pub(super) work: Option<OtherWork>,
    pub(super) hands_off: Option<OtherManager>,
    /// Who else has cordoned it, by the API server's books.
    pub(super) cordoned_by: Option<&'static str>,
    pub(super) ready: bool,
    /// Somebody else keeps the plugin away.
    plugin_away: bool,
    refusals: Vec<Refusal>,
    version: u64,
    listed: Option<(Timestamp, Vec<Pod>)>,
    read: Option<Read>,
    pub(super) last: Option<Advance>,
    pub(super) phases: Vec<Phase>,
    pub(super) actions: Vec<&'static str>,
}

pub(super) const GPUS: [&str; 2] = ["gpu-a", "gpu-b"];

impl Walk {
    pub(super) fn new(layouts: [&str; 2]) -> Self {
        let mut world = World::new(&[(GPUS[0], layouts[0]), (GPUS[1], layouts[1])]);
        world.controller.released = true;
        Self {
            world,
            now: start(),
            progress: Progress::default(),
            wanted: WantedSlices::new(),
            held: false,
            cordoned: false,
            alive: true,
            unguarded: false,
            admission: Admission::Admitted,
            manager: false,
            manager_pod: false,
            config: Some(names::HANDED_TO_AGENT.to_owned()),
            mode_lost: false,
            map: BTreeSet::new(),
            lists_fail: false,
            clock_stands: false,
            containers_unknown: false,
            validators: false,
            mirrored: false,
            plugin_pod_stays: false,
            late_status: None,
            shared_by_hand: None,
            left_key: None,
            hidden: None,
            drain: Drain::Never,
            refuses: None,
            evicted: Vec::new(),
            going: BTreeSet::new(),
            lingers: false,
            daemon_sets: BTreeSet::new(),
            work: None,
            hands_off: None,
            cordoned_by: None,
            ready: true,
            plugin_away: false,
            refusals: Vec::new(),
            version: 1,
            listed: None,
            read: None,
            last: None,
            phases: vec![Phase::Idle],
            actions: Vec::new(),
        }
    }

    pub(super) fn want(&mut self, gpu: u16, layout: &str) {
        self.wanted.insert(GpuIndex(gpu), places(layout));
    }

    pub(super) fn has(&self, gpu: &str) -> BTreeSet<Place> {
        self.world.gpus.slices[&GpuUuid(gpu.to_owned())].keys().copied().collect()
    }

    fn pods(&self) -> Vec<Pod> {
        let user = |pod: agent::Pod| {
            let containers: Vec<_> = pod.containers.into_iter().map(|c| (c.name, c.asks)).collect();
            let mut requests = BTreeMap::new();
            for (resource, n) in containers.iter().flat_map(|(_, asks)| asks) {
                *requests.entry(resource.clone()).or_insert(0) += n;
            }
            let phase = match pod.life {
                PodLife::Live => PodPhase::Started,
                PodLife::Ended => PodPhase::Ended,
            };
            let does = self.validators.then_some(Operand::Validator);
            let (terminating, daemon_set) =
                (self.going.contains(&pod.uid.0), self.daemon_sets.contains(&pod.uid.0));
            let seen =
                Pod { requests, containers, phase, terminating, daemon_set, ..operand(&pod.uid.0, does) };
            let uid = if self.mirrored { format!("mirror-of-{}", seen.uid) } else { seen.uid };
            let containers = if self.containers_unknown { Vec::new() } else { seen.containers };
            Pod { uid, containers, ..seen }
        };
        let mut pods: Vec<_> =
            self.world.kubelet.api_pods().into_iter().filter(|p| !p.is_plugin).map(user).collect();
        if self.world.kubelet.plugin != Plugin::Absent || self.plugin_pod_stays {
            pods.push(operand("plugin", Some(Operand::DevicePlugin)));
        }
        if self.manager_pod {
            pods.push(operand("manager", Some(Operand::MigManager)));
        }
        pods
    }

    /// What kubelet offers, by resource.
    pub(super) fn offers(&self) -> BTreeMap<String, u64> {
        let mut offers = BTreeMap::new();
        for device in self.world.kubelet.allocatable() {
            *offers.entry(device.resource).or_insert(0) += 1;
        }
        match self.shared_by_hand {
            Some(replicas) => {
                offers.into_iter().map(|(name, n)| (format!("{name}.shared"), n * replicas)).collect()
            }
            None => offers,
        }
    }

    fn observed(&self, read: &Read) -> Observed {
        let labels = |wanted: bool| -> Vec<String> {
            names::PAUSED_BY_US.iter().filter(|_| read.held == wanted).map(|l| (*l).to_owned()).collect()
        };
        let known =
            |gpu: &str, account: &Account| account.known.layout.gpu(&GpuUuid(gpu.to_owned())).is_some();
        let gpus = |account: &Account| {
            let all = GPUS.iter().enumerate().filter(|(_, gpu)| known(gpu, account));
            all.map(|(i, gpu)| (GpuIndex(u16::try_from(i).unwrap()), GpuUuid((*gpu).to_owned()))).collect()
        };
        Observed {
            resource_version: read.node_version.to_string(),
            operands: OperandLabels {
                config: self.config.clone(),
                state: ManagerState::Absent,
                has_manager: self.manager,
                held: labels(true),
                pausable: labels(false),
                shared: self.shared_by_hand.map(|n| format!("nvidia.com/mig-1g.10gb.replicas={n}")),
                ..OperandLabels::default()
            },
            is_marked: read.cordoned,
            work: self.work.clone(),
            manager: self.hands_off,
            unschedulable: read.cordoned || self.cordoned_by.is_some(),
            cordon_owner: match self.cordoned_by {
                Some(manager) => CordonOwner::Other { manager: manager.to_owned() },
                None if read.cordoned => CordonOwner::Us,
                None => CordonOwner::Unknown,
            },
            ready: self.ready,
            boot_id: self.world.boot.0.clone(),
            allocatable: self.late_status.clone().unwrap_or_else(|| self.offers()),
            pods: read.pods.clone(),
            listing: read.listing,
            refusals: self.refusals.clone(),
            map: MapSeen { entries: self.map.clone(), ..MapSeen::default() },
            label_layout: None,
            operator: Operator::default(),
            report: None,
            sharing: slicewright_rollout::SharingSeen {
                key: self.left_key.map(str::to_owned),
                ..slicewright_rollout::SharingSeen::default()
            },
            agent: read.account.clone().map(|account| self.by_mode(account)).map(|account| AgentSeen {
                alive: self.alive
                    && !self.agent_rests()
                    && !self.unguarded
                    && account.boot == self.world.boot,
                unguarded: self.unguarded,
                begins: !self.world.only_reports,
                gpus: gpus(&account),
                account,
                wish: read.wish.clone(),
            }),
        }
    }

    fn by_mode(&self, mut account: Account) -> Account {
        account.known.layout.gpus.retain(|gpu| Some(gpu.uuid.0.as_str()) != self.hidden);
        for gpu in
            account.known.layout.gpus.iter_mut().filter(|gpu| self.mode_lost && gpu.slices().is_empty())
        {
            gpu.state = agent::GpuState::Whole;
        }
        account
    }

    /// What the operator reads now, and decides on in its next step.
    pub(super) fn reads(&mut self) {
        let (version, wish, account) = self.world.node.now();
        let (pods, listing) = match &self.listed {
            // A watch keeps up to date what a list brought. Within a proof it may be late; a drain takes an hour.
            Some((at, _)) if self.progress.phase == Phase::Cordoning => {
                (self.pods(), Listing::Consistent { at: *at })
            }
            Some((at, pods)) => (pods.clone(), Listing::Consistent { at: *at }),
            None => (self.pods(), Listing::Cached),
        };
        let (held, cordoned, node_version) = (self.held, self.cordoned, self.version);
        self.read = Some(Read { version, wish, account, node_version, pods, listing, held, cordoned });
    }

    /// One step: what was read is decided on, stored and done.
    pub(super) fn step(&mut self, dies: Dies) {
        self.now += SignedDuration::from_secs(if self.clock_stands { 0 } else { 1 });
        let Some(read) = self.read.take() else { return self.reads() };
        if read.account.is_none() {
            return;
        }
        let rules = NodeRules {
            admission: self.admission.clone(),
            drain: self.drain,
            cooldown: SignedDuration::ZERO,
            cooldown_of_sharing: SignedDuration::ZERO,
            settings: Settings::default(),
        };
        let seen = self.observed(&read);
        let answer = advance_slices(&seen, Some(&self.wanted), &rules, &self.progress, self.now);
        if dies == Dies::Before {
            return self.dies();
        }
        if answer.change != read.wish {
            let withdrawn = answer.change.is_none();
            let claimed = matches!(
                read.wish.as_ref().and_then(|wish| self.world.node.now().2?.stage(&wish.id).cloned()),
                Some(Stage::Claimed | Stage::Restoring { .. })
            );
            let change = answer.change.clone();
            if !self.world.node.write(&read.version, |wish, _| *wish = change) {
                return;
            }
            if withdrawn && claimed {
                self.world.breaches.push("an order was withdrawn that the agent had claimed".to_owned());
            }
        }
        if dies == Dies::AfterSpec {
            return self.dies();
        }
        if self.phases.last() != Some(&answer.progress.phase) {
            self.phases.push(answer.progress.phase);
        }
        self.progress = answer.progress.clone();
        if dies == Dies::BeforeActions {
            return self.dies();
        }
        for action in &answer.actions {
            let done = self.act(action);
            self.world.controller.released = !self.held && !self.plugin_away;
            if dies == Dies::AfterAction {
                return self.dies();
            }
            if !done {
                break;
            }
        }
        self.last = Some(answer);
    }

    /// Whether the agent leaves the driver closed, and is not ready: somebody else works on it, and no change of ours is
    /// under way. The operator tells it by the `GpuNode`.
    pub(super) fn agent_rests(&self) -> bool {
        let under_way = self.work.as_ref().is_some_and(OtherWork::is_under_way);
        under_way && self.world.node.now().1.is_none()
    }

    /// Whether it holds a list of the pods that it asked for.
    pub(super) fn has_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// When the list of the pods that it holds began.
    pub(super) fn listed_at(&self) -> Option<Timestamp> {
        self.listed.as_ref().map(|(at, _)| *at)
    }

    pub(super) fn dies(&mut self) {
        self.read = None;
        self.listed = None;
    }

    fn act(&mut self, action: &Action) -> bool {
        let mut write = |if_version: &String, change: &mut dyn FnMut(&mut Self)| {
            let fits = *if_version == self.version.to_string();
            if fits {
                change(self);
                self.version += 1;
            }
            fits
        };
        let done = match action {
            Action::HoldForAgent { if_version, .. } => write(if_version, &mut |walk| {
                walk.held = true;
                walk.cordoned = true;
            }),
            Action::ResumeOperands { if_version, .. } => write(if_version, &mut |walk| walk.held = false),
            Action::Uncordon { if_version } => write(if_version, &mut |walk| {
                if walk.held {
                    walk.world.breaches.push("the node is opened while the plugin is paused".to_owned());
                }
                walk.cordoned = false;
            }),
            Action::RemoveCordonedBy { if_version } => write(if_version, &mut |walk| walk.cordoned = false),
            Action::Cordon { if_version } => write(if_version, &mut |walk| walk.cordoned = true),
            Action::StandDownManager { if_version } => write(if_version, &mut |walk| walk.manager = false),
            Action::SetConfigLabel { value, if_version, .. } => {
                write(if_version, &mut |walk| walk.config = Some(value.clone()))
            }
            Action::EnsureMapEntry { entry, .. } => {
                self.map.insert(entry.clone());
                true
            }
            Action::HandBack { value, with_manager, if_version } => write(if_version, &mut |walk| {
                walk.config = Some(value.clone());
                walk.manager = *with_manager;
            }),
            Action::Evict { pod, if_uid } => {
                match self.refuses {
                    Some(message) => {
                        self.refusals = vec![Refusal { pod: pod.clone(), message: message.to_owned() }];
                    }
                    None => {
                        self.evicted.push(if_uid.clone());
                        self.going.insert(if_uid.clone());
                    }
                }
                true
            }
            Action::ListPods if self.lists_fail => false,
            Action::ListPods => {
                self.listed = Some((self.now, self.pods()));
                true
            }
            other => panic!("no action of this walk: {other:?}"),
        };
        self.actions.extend(done.then_some(action.name()));
        done
    }

    /// Who is being ended is gone.
    pub(super) fn they_go(&mut self) {
        for pod in self.world.kubelet.pods.iter_mut().filter(|pod| self.going.contains(&pod.uid.0)) {
            pod.life = Life::Deleted;
        }
    }

    /// The node reboots: no slice is left, nobody has one, and the agent's process
    /// starts anew.
    pub(super) fn reboots(&mut self) {
        self.world.boot = agent::BootId(format!("{}'", self.world.boot.0));
        for slices in self.world.gpus.slices.values_mut() {
            slices.clear();
        }
        self.world.kubelet = Kubelet::new(&self.world.gpus);
        self.world.process.dies();
        self.version += 1;
    }

    /// The driver does not answer about these GPUs any more, or does not know them,
    /// and the plugin offers nothing of them.
    pub(super) fn lose(&mut self, gpus: &[&str], is_known: bool) {
        let lost = gpus.iter().map(|gpu| GpuUuid((*gpu).to_owned())).collect();
        let all = &mut self.world.gpus;
        *if is_known { &mut all.silent } else { &mut all.absent } = lost;
        self.world.kubelet.register(&self.world.gpus);
    }

    /// The agent cannot read what the driver answers about this GPU: of a profile
    /// that is newer than it, for one. The plugin can.
    pub(super) fn cannot_read(&mut self, gpu: &str) {
        self.world.gpus.unread.insert(GpuUuid(gpu.to_owned()));
    }

    /// The driver answers about each GPU.
    pub(super) fn all_answer(&mut self) {
        self.world.gpus.silent.clear();
        self.world.gpus.unread.clear();
        self.world.gpus.absent.clear();
        self.world.kubelet.register(&self.world.gpus);
    }

    /// The agent starts anew, as one that only reports.
    pub(super) fn only_reports(&mut self) {
        self.world.only_reports = true;
        self.world.process.dies();
    }

    /// Somebody lifts label and cordon by hand.
    pub(super) fn lift(&mut self) {
        self.held = false;
        self.version += 1;
        self.world.controller.released = true;
    }

    /// Somebody else keeps the plugin away, or lets it come back.
    pub(super) fn keeps_plugin_away(&mut self, away: bool) {
        self.plugin_away = away;
        self.world.controller.released = !self.held && !away;
    }

    /// Somebody lifts the cordon by hand.
    pub(super) fn uncordon(&mut self) {
        self.cordoned = false;
        self.version += 1;
    }

    /// Whether nothing is left of a change.
    pub(super) fn rests(&self) -> bool {
        let idle = self.last.as_ref().is_some_and(|answer| answer.outlook == Outlook::Idle);
        idle && !self.held && !self.cordoned && self.world.node.now().1.is_none()
    }
}

fn operand(uid: &str, operand: Option<Operand>) -> Pod {
    Pod {
        pod: PodRef { namespace: "team".to_owned(), name: uid.to_owned() },
        uid: uid.to_owned(),
        operand,
        phase: PodPhase::Started,
        terminating: false,
        ready: true,
        daemon_set: operand.is_some(),
        requests: BTreeMap::new(),
        gpus: None,
        kubelet_uid: uid.to_owned(),
        containers: Vec::new(),
    }
}
