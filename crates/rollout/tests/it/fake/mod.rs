//! A small, deterministic node that behaves according to the GPU Operator's contract, and a caller that
//! behaves according to the rollout's: enough to run stories in virtual time. The faithful operands are in
//! `simulator/operands`.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its part of it")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use observe::node_labels;
use planner::names::{GpuIndex, PodRef};
use planner::policy::Drain;
use slicewright_rollout::names;
use slicewright_rollout::{
    Action, Admission, Advance, CordonOwner, GpuLayout, Listing, MapSeen, NodeLayout, NodeRules, Observed,
    Operand, Operator, OtherManager, OtherWork, Outlook, Phase, Pod, PodPhase, Progress, Refusal, Report,
    Settings, WaitsFor, advance,
};

mod caller;
mod clock;
mod handed;
mod written;

pub use caller::*;
pub use written::layout;

pub fn start() -> Timestamp {
    "2026-11-02T22:00:00Z".parse().unwrap()
}

/// What can go wrong in MIG manager; each is used up by one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The run stops after parking: pending and paused for ever.
    WedgePending,
    /// The run fails after parking, and leaves operands parked.
    FailParked,
    /// The run fails, and parks nothing any more.
    Fail,
    /// The state says success, and the operands stay parked.
    SuccessParked,
    /// The device plugin's new pod never becomes ready.
    PluginBroken,
    /// The node reboots for the change of mode.
    Reboot,
}

/// A resource of the network operator, under the prefix of the GPUs.
const NIC: &str = "nvidia.com/hostdev";

#[derive(Clone, Debug)]
enum Event {
    Pickup,
    Parked(Option<Fault>),
    Applied(Option<Fault>),
    PluginPod(bool),
    Advertise,
    Labels,
    ManagerPod,
    Booted,
}

/// A user's pod, and which GPUs its slices are really on.
#[derive(Clone, Debug)]
pub struct UserPod {
    pub pod: Pod,
    pub on: BTreeSet<GpuIndex>,
    pub ends_in: Option<i64>,
    pub gone_at: Option<Timestamp>,
    pub budget: bool,
}

pub struct World {
    pub now: Timestamp,
    pub version: u64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub gpu_cluster: bool,
    pub unschedulable: bool,
    /// Whether the API server's managed fields say who cordoned the node.
    pub managed_fields: bool,
    /// Who did, as it is told.
    pub cordon_owner: CordonOwner,
    /// Whether the cordon is ours in truth.
    pub ours: bool,
    pub ready: bool,
    pub boot: u64,
    pub hardware: NodeLayout,
    pub allocatable: BTreeMap<String, u64>,
    pub users: Vec<UserPod>,
    pub faults: Vec<Fault>,
    pub map: BTreeMap<String, (NodeLayout, Timestamp)>,
    pub map_changed: Option<Timestamp>,
    pub mount_delay: SignedDuration,
    pub operator: Operator,
    pub refusals: Vec<Refusal>,
    /// Slices that were destroyed under a pod.
    pub breaches: u32,
    pub evicted: Vec<PodRef>,
    pub runs: u32,
    /// How often each device counts.
    pub shared: u64,
    /// What an agent has reported.
    pub report: Option<Report>,
    plugin: Option<(u64, bool)>,
    manager: Option<u64>,
    manager_seen: Option<String>,
    uids: u64,
    events: Vec<(Timestamp, u64, Event)>,
    seq: u64,
}

impl World {
    pub fn new(hardware: &str) -> Self {
        let hardware = layout(hardware);
        let mut labels = BTreeMap::new();
        for operand in ["device-plugin", "gpu-feature-discovery", "mig-manager"] {
            labels.insert(format!("{}{operand}", names::DEPLOY_PREFIX), "true".to_owned());
        }
        let mut world = Self {
            now: start(),
            version: 1,
            labels,
            annotations: BTreeMap::new(),
            gpu_cluster: false,
            unschedulable: false,
            managed_fields: false,
            cordon_owner: CordonOwner::Unknown,
            ours: false,
            ready: true,
            boot: 1,
            allocatable: BTreeMap::new(),
            shared: 1,
            report: None,
            hardware,
            users: Vec::new(),
            faults: Vec::new(),
            map: BTreeMap::new(),
            map_changed: None,
            mount_delay: SignedDuration::from_secs(90),
            operator: Operator::default(),
            refusals: Vec::new(),
            breaches: 0,
            evicted: Vec::new(),
            runs: 0,
            plugin: Some((1, true)),
            manager: Some(2),
            manager_seen: None,
            uids: 2,
            events: Vec::new(),
            seq: 0,
        };
        world.advertise();
        world.count_labels();
        world
    }

    fn uid(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    fn after(&mut self, seconds: i64, event: Event) {
        self.seq += 1;
        self.events.push((self.now + SignedDuration::from_secs(seconds), self.seq, event));
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.version += 1;
        self.labels.insert(key.to_owned(), value.to_owned());
        if key == names::MIG_CONFIG {
            self.after(2, Event::Pickup);
        }
    }

    fn owner(&mut self, owner: CordonOwner) {
        self.cordon_owner = if self.managed_fields { owner } else { CordonOwner::Unknown };
    }

    /// Somebody else cordons the node. On one that is cordoned it changes nothing.
    pub fn somebody_cordons(&mut self) {
        if !self.unschedulable {
            self.unschedulable = true;
            self.ours = false;
            self.owner(CordonOwner::Other { manager: "kubectl-cordon".to_owned() });
        }
        self.version += 1;
    }

    /// The cordon is lifted, by whomever.
    pub fn opens(&mut self) {
        self.unschedulable = false;
        self.ours = false;
        self.owner(CordonOwner::Unknown);
        self.version += 1;
    }

    /// A controller prunes labels that it does not know.
    pub fn mark_goes(&mut self) {
        self.labels.remove(names::CORDONED_BY);
        self.version += 1;
    }

    /// A pod that runs, with one slice (or GPU) on a GPU.
    pub fn pod(&mut self, name: &str, resource: &str, gpu: u16) -> &mut UserPod {
        let uid = self.uid();
        let resource = format!("nvidia.com/{resource}");
        self.users.push(UserPod {
            pod: Pod {
                pod: PodRef { namespace: "team".to_owned(), name: name.to_owned() },
                uid: uid.to_string(),
                operand: None,
                phase: PodPhase::Started,
                terminating: false,
                ready: true,
                daemon_set: false,
                requests: BTreeMap::from([(resource, 1)]),
                gpus: None,
                kubelet_uid: String::new(),
                containers: Vec::new(),
            },
            on: BTreeSet::from([GpuIndex(gpu)]),
            ends_in: None,
            gone_at: None,
            budget: false,
        });
        self.users.last_mut().unwrap()
    }

    pub fn end(&mut self, name: &str) {
        self.users.retain(|user| user.pod.pod.name != name);
    }

    /// Somebody deletes MIG manager's pod.
    pub fn restart_manager(&mut self) {
        self.version += 1;
        self.manager = None;
        self.forget_run();
        self.after(8, Event::ManagerPod);
    }

    /// What MIG manager was doing ends with its pod; all else goes on.
    fn forget_run(&mut self) {
        self.events.retain(|(_, _, event)| {
            !matches!(event, Event::Pickup | Event::Parked(_) | Event::Applied(_) | Event::ManagerPod)
        });
    }

    pub fn reboot(&mut self) {
        self.ready = false;
        self.version += 1;
        // What a reboot takes, nobody of us took.
        for user in &mut self.users {
            user.on.clear();
        }
        self.plugin = None;
        self.allocatable.clear();
        self.hardware = NodeLayout(
            self.hardware
                .0
                .iter()
                .map(|(index, gpu)| {
                    (*index, if gpu.is_mig() { GpuLayout::Mig(BTreeMap::new()) } else { gpu.clone() })
                })
                .collect(),
        );
        self.events.clear();
        self.after(200, Event::Booted);
    }

    fn advertise(&mut self) {
        let mut all = BTreeMap::new();
        for gpu in self.hardware.0.values() {
            match gpu {
                GpuLayout::Off => *all.entry("nvidia.com/gpu".to_owned()).or_insert(0) += 1,
                GpuLayout::Mig(slices) => {
                    for (profile, n) in slices {
                        *all.entry(profile.resource_name()).or_insert(0) += u64::from(*n);
                    }
                }
            }
        }
        all.values_mut().for_each(|n| *n *= self.shared);
        // Kubelet keeps the keys of what went.
        for (key, n) in &mut self.allocatable {
            *n = all.remove(key).unwrap_or(0);
        }
        self.allocatable.extend(all);
    }

    fn count_labels(&mut self) {
        self.labels.retain(|key, _| !key.starts_with("nvidia.com/mig-"));
        for (key, n) in self.allocatable.clone() {
            if n > 0 && key.starts_with("nvidia.com/mig-") {
                self.labels.insert(format!("{key}.count"), n.to_string());
                self.labels.insert(format!("{key}.replicas"), self.shared.to_string());
            }
        }
    }

    /// Somebody has each device count so many times, or no longer.
    pub fn share(&mut self, times: u64) {
        self.shared = times;
        self.version += 1;
        if !self.allocatable.is_empty() {
            self.advertise();
            self.count_labels();
        }
    }

    fn park(&mut self, value: &str) {
        for (key, v) in &mut self.labels {
            if key.starts_with(names::DEPLOY_PREFIX) && key != names::DEPLOY_MIG_MANAGER && v != "false" {
                value.clone_into(v);
            }
        }
    }

    fn state(&mut self, state: &str) {
        self.version += 1;
        self.labels.insert(names::MIG_CONFIG_STATE.to_owned(), state.to_owned());
    }

    fn happen(&mut self, event: Event) {
        self.version += 1;
        match event {
            Event::Pickup => {
                let value = self.labels.get(names::MIG_CONFIG).cloned();
                if self.manager.is_none() || self.manager_seen == value {
                    return;
                }
                self.manager_seen.clone_from(&value);
                self.runs += 1;
                let known = value
                    .and_then(|value| self.map.get(&value).cloned())
                    .filter(|(_, since)| *since + self.mount_delay <= self.now);
                let Some((target, _)) = known else { return self.state("failed") };
                let fault = (!self.faults.is_empty()).then(|| self.faults.remove(0));
                if target == self.hardware && fault.is_none() {
                    self.park("true");
                    self.state("success");
                    if self.plugin.is_none() {
                        self.after(10, Event::PluginPod(true));
                    }
                    return;
                }
                self.state("pending");
                self.park(names::PAUSED_FOR_MIG);
                self.plugin = None;
                for n in self.allocatable.values_mut() {
                    *n = 0;
                }
                self.labels.retain(|key, _| !(key.starts_with("nvidia.com/mig-") && key.ends_with(".count")));
                self.after(15, Event::Parked(fault));
            }
            Event::Parked(Some(Fault::WedgePending)) => {}
            Event::Parked(Some(Fault::Reboot)) => {
                self.state("rebooting");
                self.reboot();
            }
            Event::Parked(fault) => self.after(5, Event::Applied(fault)),
            Event::Applied(Some(Fault::FailParked)) => self.state("failed"),
            Event::Applied(Some(Fault::Fail)) => {
                self.park("true");
                self.state("failed");
                self.after(10, Event::PluginPod(true));
            }
            Event::Applied(fault) => {
                let value = self.labels.get(names::MIG_CONFIG).cloned().unwrap_or_default();
                let Some((target, _)) = self.map.get(&value).cloned() else {
                    self.park("true");
                    return self.state("failed");
                };
                let changed = target.changed_from(&self.hardware);
                let mode = target.changes_mode_of(&self.hardware);
                for user in &self.users {
                    let alive = user.pod.phase != PodPhase::Ended;
                    if alive && (mode || !user.on.is_disjoint(&changed)) {
                        self.breaches += 1;
                    }
                }
                self.hardware = target;
                if fault != Some(Fault::SuccessParked) {
                    self.park("true");
                    self.after(10, Event::PluginPod(fault != Some(Fault::PluginBroken)));
                }
                self.state("success");
            }
            Event::PluginPod(works) => {
                if self.labels.values().any(|v| v == names::PAUSED_FOR_MIG) {
                    return;
                }
                let uid = self.uid();
                self.plugin = Some((uid, works));
                if works {
                    self.after(5, Event::Advertise);
                }
            }
            Event::Advertise => {
                self.advertise();
                self.after(30, Event::Labels);
            }
            Event::Labels => self.count_labels(),
            Event::ManagerPod => {
                let uid = self.uid();
                self.manager = Some(uid);
                self.manager_seen = None;
                self.after(2, Event::Pickup);
            }
            Event::Booted => {
                self.boot += 1;
                self.ready = true;
                self.after(10, Event::ManagerPod);
                self.after(5, Event::PluginPod(true));
            }
        }
    }

    /// Lets time pass, and everything happen that is due.
    pub fn pass(&mut self, until: Timestamp) {
        loop {
            self.events.sort_by_key(|(at, seq, _)| (*at, *seq));
            let gone = self.users.iter().filter_map(|user| user.gone_at).min();
            let next = self.events.first().map(|(at, ..)| *at);
            match (next, gone) {
                (Some(at), gone) if at <= until && gone.is_none_or(|gone| at <= gone) => {
                    self.now = at;
                    let (_, _, event) = self.events.remove(0);
                    self.happen(event);
                }
                (_, Some(gone)) if gone <= until => {
                    self.now = gone;
                    self.users.retain(|user| user.gone_at != Some(gone));
                }
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    pub fn next_event(&self) -> Option<Timestamp> {
        let gone = self.users.iter().filter_map(|user| user.gone_at);
        self.events.iter().map(|(at, ..)| *at).chain(gone).min()
    }

    fn operand(uid: u64, operand: Operand, ready: bool) -> Pod {
        Pod {
            pod: PodRef {
                namespace: "nvidia-gpu-operator".to_owned(),
                name: format!("{operand:?}-{uid}").to_lowercase(),
            },
            uid: uid.to_string(),
            operand: Some(operand),
            phase: PodPhase::Started,
            terminating: false,
            ready,
            daemon_set: true,
            requests: BTreeMap::new(),
            gpus: None,
            kubelet_uid: String::new(),
            containers: Vec::new(),
        }
    }

    /// Pods that are on every node and are none of our business, whatever they
    /// look like: one has a network card, and two have the names and labels of
    /// operands and are not ready.
    fn strangers() -> [Pod; 3] {
        let stranger = |name: &str, requests: &[(&str, u64)]| Pod {
            pod: PodRef { namespace: "another-team".to_owned(), name: name.to_owned() },
            uid: name.to_owned(),
            operand: None,
            phase: PodPhase::Pending,
            terminating: false,
            ready: false,
            daemon_set: false,
            requests: requests.iter().map(|(resource, n)| ((*resource).to_owned(), *n)).collect(),
            gpus: None,
            kubelet_uid: String::new(),
            containers: Vec::new(),
        };
        [
            stranger("mpi-over-nic", &[(NIC, 1)]),
            stranger("nvidia-mig-manager-x", &[]),
            stranger("nvidia-device-plugin-daemonset-x", &[]),
        ]
    }

    pub fn observe(&mut self, listing: Listing) -> Observed {
        let mut pods: Vec<_> = self.users.iter().map(|user| user.pod.clone()).collect();
        pods.extend(self.plugin.map(|(uid, ready)| Self::operand(uid, Operand::DevicePlugin, ready)));
        pods.extend(self.manager.map(|uid| Self::operand(uid, Operand::MigManager, true)));
        pods.extend(Self::strangers());
        let label = self.labels.get(names::MIG_CONFIG);
        let mut allocatable = self.allocatable.clone();
        allocatable.insert(NIC.to_owned(), 8);
        Observed {
            resource_version: self.version.to_string(),
            operands: node_labels::operands(&self.labels),
            is_marked: node_labels::is_marked(&self.labels),
            work: node_labels::work(&self.labels, &self.annotations),
            manager: node_labels::manager(self.gpu_cluster, &self.labels, self.allocatable.keys()),
            unschedulable: self.unschedulable,
            cordon_owner: self.cordon_owner.clone(),
            ready: self.ready,
            boot_id: format!("boot-{}", self.boot),
            allocatable,
            pods,
            listing,
            refusals: self.refusals.clone(),
            map: MapSeen {
                resource_version: Some("map".to_owned()),
                entries: self.map.keys().cloned().collect(),
                changed_at: self.map_changed,
            },
            label_layout: label.and_then(|label| self.map.get(label)).map(|(layout, _)| layout.clone()),
            operator: self.operator,
            agent: None,
            report: self.report.clone(),
            sharing: slicewright_rollout::SharingSeen::default(),
        }
    }

    /// Does a write, if its precondition holds.
    pub fn apply(&mut self, action: &Action) -> bool {
        let fits = |version: &String, now: u64| *version == now.to_string();
        match action {
            Action::EnsureMapEntry { layout, entry, .. } => {
                for suffix in ["", "-a", "-b"] {
                    self.map.entry(format!("{entry}{suffix}")).or_insert((layout.clone(), self.now));
                }
                self.map_changed = Some(self.now);
            }
            Action::Cordon { if_version } if fits(if_version, self.version) => {
                if !self.unschedulable {
                    self.unschedulable = true;
                    self.ours = true;
                    self.owner(CordonOwner::Us);
                }
                self.set(names::CORDONED_BY, names::CORDONED_BY_US);
            }
            Action::Uncordon { if_version } if fits(if_version, self.version) => {
                let ours = self.ours || self.labels.contains_key(names::CORDONED_BY);
                assert!(ours, "uncordoned somebody else's cordon");
                self.opens();
                self.labels.remove(names::CORDONED_BY);
                self.version += 1;
            }
            Action::RemoveCordonedBy { if_version } if fits(if_version, self.version) => {
                self.labels.remove(names::CORDONED_BY);
                self.version += 1;
            }
            Action::ListPods => {}
            Action::Evict { pod, if_uid } => {
                let now = self.now;
                let Some(user) = self.users.iter_mut().find(|user| user.pod.uid == *if_uid) else {
                    return false;
                };
                if user.budget {
                    let message = "disruption budget `web` allows 0 disruptions".to_owned();
                    self.refusals = vec![Refusal { pod: pod.clone(), message }];
                    return false;
                }
                user.pod.terminating = true;
                user.gone_at = Some(now + SignedDuration::from_secs(30));
                self.evicted.push(pod.clone());
            }
            Action::SetConfigLabel { value, clear_state, if_version } if fits(if_version, self.version) => {
                if *clear_state {
                    self.labels.remove(names::MIG_CONFIG_STATE);
                }
                self.set(names::MIG_CONFIG, value);
            }
            Action::HandBack { value, with_manager, if_version } if fits(if_version, self.version) => {
                self.is_handed_back(value, *with_manager);
            }
            Action::ResumeOperands { labels, if_version } if fits(if_version, self.version) => {
                labels.iter().for_each(|label| self.set(label, "true"));
                self.after(10, Event::PluginPod(true));
            }
            Action::DeletePod { if_uid, .. } => {
                if self.manager.map(|uid| uid.to_string()).as_ref() != Some(if_uid) {
                    return false;
                }
                self.manager = None;
                self.forget_run();
                self.after(8, Event::ManagerPod);
            }
            Action::UnpauseOperands { if_version, .. } if fits(if_version, self.version) => {
                self.park("true");
                self.version += 1;
                self.after(10, Event::PluginPod(true));
            }
            _ => return false,
        }
        true
    }
}
