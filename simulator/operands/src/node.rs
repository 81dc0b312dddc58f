//! The node: its objects as the API shows them, the queue of what happens
//! next, and the inputs from outside. What each component does is in a module
//! of its own.

mod config_manager;
mod daemon_sets;
mod kubelet;
mod manager;
mod monitors;
mod plugin;
mod registration;
mod upgrade;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use gpu::{ClientId, Machine};
use jiff::{SignedDuration, Timestamp};

use crate::apply::{apply_geometry, apply_modes};
use crate::change::{Change, What};
use crate::config::MigConfigs;
use crate::devices::{Devices, devices};
use crate::discovery;
use crate::fault::{NodeFault, ScheduledFault};
use crate::operand::{Operand, OperandPhase, OperandPod, pod_name};
use crate::pod::{Pod, PodName};
use crate::setup::{Flavour, Setup, SetupError, Stack, Timings};
use config_manager::PluginConfigs;
use manager::{Manager, Step};

pub use view::{GpuTruth, SliceTruth};

/// The label that names the configuration.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// The label that says how far MIG manager is with it.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// The value of deploy labels while MIG manager has parked the operands.
pub const PAUSED: &str = "paused-for-mig-change";

/// Something that happens at a later moment. A serial number, a run's number
/// or the time of binding says of whom it is; of one that is gone it is void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    StartRun(u64),
    Step(u64, Step),
    CreateOperand(Operand),
    OperandReady(Operand, u64),
    OperandGone(Operand, u64),
    Publish(u64, String),
    ZeroAllocatable(u64),
    DropCapacity(u64, String),
    WriteGfd(u64),
    LoseGfd(u64),
    Mount(String),
    MountPlugin(BTreeMap<String, String>),
    Reconfigure(Operand),
    PluginLooks(u64),
    PluginAnswers(PodName, Timestamp),
    BooksEntered(PodName, Timestamp),
    PodRuns(PodName, Timestamp),
    PodOpens(PodName, Timestamp),
    Boot,
    Operator,
    Upgrade(upgrade::Step),
    Turn(NodeFault),
}

/// What happens next, by time; of one moment, first come first served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    next: u64,
    tasks: BTreeMap<(Timestamp, u64), Task>,
}

impl Queue {
    pub(crate) fn push(&mut self, (at, task): (Timestamp, Task)) {
        self.tasks.insert((at, self.next), task);
        self.next += 1;
    }

    fn first(&self) -> Option<Timestamp> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&mut self, until: Timestamp) -> Option<(Timestamp, Task)> {
        let entry = self.tasks.first_entry().filter(|entry| entry.key().0 <= until)?;
        let ((at, _), task) = entry.remove_entry();
        Some((at, task))
    }
}

/// A simulated Kubernetes node with GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) setup: Setup,
    pub(crate) machine: Machine,
    pub(crate) now: Timestamp,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) gfd_keys: BTreeSet<String>,
    pub(crate) unschedulable: bool,
    pub(crate) foreign_taint: bool,
    pub(crate) ready: bool,
    pub(crate) capacity: BTreeMap<String, u64>,
    pub(crate) allocatable: BTreeMap<String, u64>,
    pub(crate) operands: BTreeMap<Operand, OperandPod>,
    pub(crate) creating: BTreeSet<Operand>,
    pub(crate) serial: u64,
    pub(crate) toolkit_ready: bool,
    pub(crate) registered: BTreeMap<String, Vec<String>>,
    pub(crate) unhealthy: BTreeSet<String>,
    pub(crate) pods: BTreeMap<PodName, Pod>,
    /// What monitors have open.
    pub(crate) monitors: BTreeMap<Operand, Vec<ClientId>>,
    /// Whether a pod with devices has ended since the kubelet last freed those of ended pods.
    pub(crate) is_to_free: bool,
    pub(crate) manager: Manager,
    pub(crate) mounted: String,
    /// How many changes of maps were on their way here.
    mounts: u64,
    pub(crate) plugin_configs: PluginConfigs,
    /// Whether the map that MIG manager mounts exists.
    pub(crate) map_exists: bool,
    pub(crate) faults: Vec<NodeFault>,
    pub(crate) queue: Queue,
    pub(crate) changes: Vec<Change>,
    pub(crate) shared_unawares: Vec<crate::sharing::SharedUnawares>,
}

impl Node {
    /// A node on which everything has settled. `labels` are the
    /// administrators' own. `map` is the content of the ConfigMap that MIG
    /// manager reads; without one it generates its own from the hardware.
    /// `config` is the configuration that was applied long ago; without one
    /// the GPUs stay as they are.
    ///
    /// # Errors
    /// The map or the configuration is not valid for these GPUs.
    pub fn new(
        setup: Setup,
        machine: Machine,
        labels: BTreeMap<String, String>,
        map: Option<&str>,
        config: Option<&str>,
    ) -> Result<Self, SetupError> {
        let generated = || MigConfigs::generated(machine.gpus().iter().map(|gpu| &*gpu.model)).to_yaml();
        let mounted = map.map_or_else(generated, str::to_owned);
        let now = machine.now();
        let name = machine.host().to_owned();
        let mut node = Self {
            labels: discovery::identity(&name, &machine, &setup),
            name,
            setup,
            machine,
            now,
            gfd_keys: BTreeSet::new(),
            unschedulable: false,
            foreign_taint: false,
            ready: true,
            capacity: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            operands: BTreeMap::new(),
            creating: BTreeSet::new(),
            serial: 0,
            toolkit_ready: true,
            registered: BTreeMap::new(),
            unhealthy: BTreeSet::new(),
            pods: BTreeMap::new(),
            monitors: BTreeMap::new(),
            is_to_free: false,
            manager: Manager::default(),
            mounted,
            mounts: 0,
            plugin_configs: PluginConfigs::default(),
            map_exists: true,
            faults: Vec::new(),
            queue: Queue::default(),
            changes: Vec::new(),
            shared_unawares: Vec::new(),
        };
        node.labels.extend(labels);
        node.settle(config)?;
        Ok(node)
    }

    fn settle(&mut self, config: Option<&str>) -> Result<(), SetupError> {
        if let Some(name) = config {
            let configs = MigConfigs::parse(&self.mounted)?;
            let entries = configs.get(name)?;
            apply_modes(&mut self.machine, entries)?;
            apply_geometry(&mut self.machine, entries)?;
        }
        let capable = self.machine.gpus().iter().any(|gpu| gpu.mode.is_some());
        let stamped = self.stamps(capable).then_some("all-disabled");
        if self.setup.stack == Stack::Dra {
            // What somebody cut by hand; no label says so.
            self.changes.clear();
            return Ok(());
        }
        let label = self.labels.get(MIG_CONFIG).cloned();
        if let Some(value) = config.map(str::to_owned).or(label).or(stamped.map(str::to_owned)) {
            self.labels.insert(MIG_CONFIG.to_owned(), value.clone());
            self.labels.insert(MIG_CONFIG_STATE.to_owned(), "success".to_owned());
            self.manager.last = Some(value);
        }
        for operand in Operand::ALL {
            if self.is_wanted(operand) {
                self.serial += 1;
                let (serial, created) = (self.serial, self.now);
                let name = pod_name(operand, serial);
                let phase = OperandPhase::Ready;
                let pod = OperandPod { operand, name, created, phase, problem: None, serial };
                self.operands.insert(operand, pod);
            }
        }
        let config = self.active(Operand::DevicePlugin);
        match devices(&self.machine, self.strategy(), self.setup.plugin, &config) {
            Devices::Of(found) if self.operands.contains_key(&Operand::DevicePlugin) => {
                for (resource, uuids) in &found {
                    let count = u64::try_from(uuids.len()).unwrap_or(u64::MAX);
                    self.capacity.insert(resource.clone(), count);
                    self.allocatable.insert(resource.clone(), count);
                }
                self.registered = found;
            }
            Devices::Of(_) => {}
            Devices::CrashLoop(why) => self.plugin_crashes(&why),
        }
        if self.operands.contains_key(&Operand::GpuFeatureDiscovery) {
            self.write_gfd();
        }
        self.changes.clear();
        Ok(())
    }

    /// Whether the Operator gives a node without a configuration the default one.
    fn stamps(&self, capable: bool) -> bool {
        let Setup { flavour, stack, without_manager, .. } = &self.setup;
        *flavour == Flavour::Helm && *stack == Stack::DevicePlugin && !without_manager && capable
    }

    /// Lets time pass, and says what changed since the last call, in order.
    /// Inputs take effect at the moment of the last tick.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Change> {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            if self.machine.next_event().is_some_and(|m| m <= at) {
                self.machine.advance(self.now);
                self.hardware_changed();
                continue;
            }
            self.machine.advance(self.now);
            if let Some((_, task)) = self.queue.pop(at) {
                self.perform(task);
            }
        }
        self.now = self.now.max(now);
        self.machine.advance(self.now);
        std::mem::take(&mut self.changes)
    }

    /// When something happens by itself next; nothing does while it is `None`.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.queue.first().into_iter().chain(self.machine.next_event()).min()
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::StartRun(serial) => self.start_run(serial),
            Task::Step(run, step) => self.step(run, step),
            Task::CreateOperand(operand) => self.create_operand(operand),
            Task::OperandReady(operand, serial) => self.operand_ready(operand, serial),
            Task::OperandGone(operand, serial) => self.operand_gone(operand, serial),
            Task::Publish(serial, resource) => self.publish(serial, &resource),
            Task::ZeroAllocatable(serial) => self.zero_allocatable(serial),
            Task::DropCapacity(_, resource) => self.drop_capacity(&resource),
            Task::WriteGfd(serial) => {
                if self.is_current(Operand::GpuFeatureDiscovery, serial) {
                    self.write_gfd();
                }
            }
            Task::LoseGfd(serial) => {
                let other = self.operands.get(&Operand::GpuFeatureDiscovery);
                if other.is_none_or(|pod| pod.serial == serial || !pod.is_ready()) {
                    self.lose_gfd();
                }
            }
            Task::Mount(content) => self.mounted = content,
            Task::MountPlugin(files) => self.mount_plugin(files),
            Task::Reconfigure(operand) => self.reconfigure(operand),
            Task::PluginLooks(serial) => {
                if self
                    .operands
                    .get(&Operand::DevicePlugin)
                    .is_some_and(|p| p.serial == serial && p.is_ready())
                {
                    self.plugin_looks(serial);
                }
            }
            Task::PluginAnswers(name, bound) => self.plugin_answers(&name, bound),
            Task::BooksEntered(name, bound) => self.books_entered(&name, bound),
            Task::PodRuns(name, bound) => self.pod_runs(&name, bound),
            Task::PodOpens(name, bound) => self.pod_opens(&name, bound),
            Task::Boot => self.boot(),
            Task::Operator => self.operator_reconciles(),
            Task::Upgrade(step) => self.upgrade(step),
            Task::Turn(fault) => self.turn(fault),
        }
    }

    /// Merges a patch into the labels: `None` removes one.
    pub fn patch_labels<I, K, V>(&mut self, patch: I)
    where
        I: IntoIterator<Item = (K, Option<V>)>,
        K: Into<String>,
        V: Into<String>,
    {
        for (key, value) in patch {
            self.set_label(&key.into(), value.map(Into::into));
        }
        self.labels_changed();
    }

    /// Cordons the node, or uncordons it.
    pub fn set_unschedulable(&mut self, unschedulable: bool) {
        if self.unschedulable != unschedulable {
            self.unschedulable = unschedulable;
            self.changed(What::Unschedulable(unschedulable));
        }
    }

    /// Somebody puts a `NoSchedule` taint on the node that the Operator's
    /// pods do not tolerate, or takes it away. Unlike a cordon, it keeps them
    /// from coming back.
    pub fn set_foreign_taint(&mut self, tainted: bool) {
        self.foreign_taint = tainted;
        self.reconcile_operands();
    }

    /// The ConfigMap that MIG manager reads has new content. It arrives in the
    /// pod after the mount's delay; by itself it starts nothing. A pod that
    /// waits for the map starts with it.
    pub fn update_map(&mut self, content: &str) {
        if !self.map_exists {
            self.map_exists = true;
            self.mount_map(content);
            if let Some(pod) = self.operands.get(&Operand::MigManager)
                && pod.phase == OperandPhase::Starting
            {
                let at = self.now + self.setup.timings.operand_starts;
                self.queue.push((at, Task::OperandReady(Operand::MigManager, pod.serial)));
            }
            return;
        }
        let at = self.now + self.mount_delay();
        self.queue.push((at, Task::Mount(content.to_owned())));
    }

    /// How long the next change of a map takes until a pod has it. The kubelet
    /// looks at its own times: nodes differ, and so do changes.
    pub(crate) fn mount_delay(&mut self) -> SignedDuration {
        self.mounts += 1;
        let Timings { map_mount, map_mount_spread, .. } = self.setup.timings;
        let seed = self
            .name
            .bytes()
            .fold(self.mounts, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let said = self.faults.iter().rev().find_map(|fault| match fault {
            NodeFault::MapMountsAfter(after) => Some(*after),
            _ => None,
        });
        if let Some(after) = said {
            return after;
        }
        let part = i32::try_from((seed >> 16) % 101).unwrap_or(0);
        map_mount + map_mount_spread * part / 100
    }

    /// The ConfigMap that MIG manager reads does not exist. A pod that has it
    /// mounted keeps what it has; a new one does not start until it is there.
    pub fn lose_map(&mut self) {
        self.map_exists = false;
    }

    /// The pod of MIG manager was made anew, or its node booted: what it
    /// mounts is the map as it is now, whatever was still on its way.
    pub fn mount_map(&mut self, content: &str) {
        self.queue.tasks.retain(|_, task| !matches!(task, Task::Mount(_)));
        content.clone_into(&mut self.mounted);
    }

    /// Something goes wrong from now on.
    pub fn turn(&mut self, fault: NodeFault) {
        match fault {
            NodeFault::Hardware(fault) => {
                self.machine.begin(fault);
                self.hardware_changed();
            }
            NodeFault::KubeletRestarts => self.kubelet_restarts(),
            NodeFault::Uncordon => self.set_unschedulable(false),
            NodeFault::DriverUpgrade => self.begin_upgrade(false),
            NodeFault::DriverUpgradeDrains => self.begin_upgrade(true),
            NodeFault::LabelsVanish => {
                self.lose_gfd();
                if let Some(gfd) = self.operands.get(&Operand::GpuFeatureDiscovery).filter(|p| p.is_ready()) {
                    let at = self.now + self.setup.timings.gfd_labels;
                    self.queue.push((at, Task::WriteGfd(gfd.serial)));
                }
            }
            NodeFault::Crashes(operand) => {
                self.faults.push(NodeFault::Crashes(operand));
                self.crash(operand);
            }
            NodeFault::DcgmHoldsSlices => {
                self.faults.push(NodeFault::DcgmHoldsSlices);
                self.monitors_open();
            }
            NodeFault::Clear => {
                self.faults.clear();
                self.monitors_close_all();
                self.crashed_start_again();
                for (operand, serial) in self.terminating() {
                    let at = self.now + self.setup.timings.operand_stops;
                    self.queue.push((at, Task::OperandGone(operand, serial)));
                }
                self.reconcile_operands();
                self.validator_told();
            }
            fault => self.faults.push(fault),
        }
    }

    /// Something goes wrong at a moment.
    pub fn schedule(&mut self, ScheduledFault { at, fault }: ScheduledFault) {
        self.queue.push((at.max(self.now), Task::Turn(fault)));
    }

    pub(crate) fn has_fault(&self, fault: &NodeFault) -> bool {
        self.faults.contains(fault)
    }

    /// The host goes down and comes back. Labels stay, stale as they are.
    pub fn reboot(&mut self) {
        if !self.ready {
            return;
        }
        self.ready = false;
        self.changed(What::Ready(false));
        self.manager.run = None;
        self.toolkit_ready = false;
        self.registered.clear();
        for pod in self.pods.values_mut() {
            for client in std::mem::take(&mut pod.clients) {
                self.machine.close(client);
            }
        }
        self.monitors_close_all();
        for (operand, _) in self.terminating() {
            if let Some(OperandPod { name, .. }) = self.operands.remove(&operand) {
                self.changed(What::Operand { operand, name, phase: None });
            }
        }
        // The other pods' objects stay; their containers are gone.
        for operand in self.operands.keys().copied().collect::<Vec<_>>() {
            self.serial += 1;
            let serial = self.serial;
            if let Some(pod) = self.operands.get_mut(&operand) {
                pod.serial = serial;
            }
            self.set_operand_phase(operand, OperandPhase::Starting);
        }
        self.queue.push((self.now + self.setup.timings.reboot, Task::Boot));
    }

    fn boot(&mut self) {
        self.machine.reboot();
        self.changed(What::Booted { boot_id: self.machine.boot_id() });
        self.ready = true;
        self.changed(What::Ready(true));
        self.zero_allocatable(0);
        for resource in self.capacity.keys().cloned().collect::<Vec<_>>() {
            let at = self.now + self.setup.timings.capacity_grace;
            self.queue.push((at, Task::DropCapacity(0, resource)));
        }
        self.pods_after_boot();
        for pod in self.operands.values() {
            let wait = match pod.operand {
                Operand::OperatorValidator => self.setup.timings.validator_ready,
                Operand::MigManager => self.setup.timings.manager_after_boot,
                Operand::DevicePlugin
                | Operand::GpuFeatureDiscovery
                | Operand::DcgmExporter
                | Operand::Dcgm
                | Operand::MpsControlDaemon => {
                    continue;
                }
            };
            self.queue.push((self.now + wait, Task::OperandReady(pod.operand, pod.serial)));
        }
        self.reconcile_operands();
    }

    /// The GPUs, to be changed by hand, as somebody on the host would. The
    /// device plugin does not notice; GFD does within a minute.
    pub fn machine_mut(&mut self) -> &mut Machine {
        if let Some(gfd) = self.operands.get(&Operand::GpuFeatureDiscovery).filter(|p| p.is_ready()) {
            let at = self.now + SignedDuration::from_mins(1);
            self.queue.push((at, Task::WriteGfd(gfd.serial)));
        }
        &mut self.machine
    }

    /// The GPUs as a program on the host left them that changes them through
    /// the driver's library. Who notices is as after a change by hand.
    pub fn found_machine(&mut self, machine: Machine) {
        let cut =
            |machine: &Machine| machine.gpus().iter().map(|gpu| (gpu.mode, gpu.layout())).collect::<Vec<_>>();
        if cut(&self.machine) == cut(&machine) {
            self.machine = machine;
        } else {
            *self.machine_mut() = machine;
        }
    }

    pub(crate) fn changed(&mut self, what: What) {
        self.changes.push(Change { at: self.now, what });
    }

    pub(crate) fn set_label(&mut self, key: &str, value: Option<String>) {
        let before = match &value {
            Some(value) => self.labels.insert(key.to_owned(), value.clone()),
            None => self.labels.remove(key),
        };
        if before != value {
            self.changed(What::Label { key: key.to_owned(), value });
        }
    }

    /// Everybody who watches the labels looks at them.
    pub(crate) fn labels_changed(&mut self) {
        self.wake_manager();
        self.wake_config_managers();
        let keys = discovery::deploy_labels(&self.machine, self.setup.stack);
        if keys.iter().any(|key| self.labels.get(*key).is_none_or(String::is_empty)) {
            self.queue.push((self.now + self.setup.timings.operator, Task::Operator));
        }
        self.reconcile_operands();
    }

    /// The Operator puts back the deploy labels that are absent, and stamps
    /// the default configuration where it does so at all.
    fn operator_reconciles(&mut self) {
        for key in discovery::deploy_labels(&self.machine, self.setup.stack) {
            if self.labels.get(key).is_none_or(String::is_empty) {
                self.set_label(key, Some("true".to_owned()));
            }
        }
        let capable = self.machine.gpus().iter().any(|gpu| gpu.mode.is_some());
        if self.stamps(capable) && !self.labels.contains_key(MIG_CONFIG) {
            self.set_label(MIG_CONFIG, Some("all-disabled".to_owned()));
        }
        self.wake_manager();
        self.reconcile_operands();
    }

    pub(crate) fn write_gfd(&mut self) {
        let config = self.active(Operand::GpuFeatureDiscovery);
        let labels = discovery::gfd(&self.machine, self.strategy(), self.setup.plugin, &config);
        let old = std::mem::take(&mut self.gfd_keys);
        for key in old.iter().filter(|key| !labels.contains_key(*key)) {
            self.set_label(key, None);
        }
        self.gfd_keys = labels.keys().cloned().collect();
        for (key, value) in labels {
            self.set_label(&key, Some(value));
        }
        // MPS's server goes where GFD says so.
        self.reconcile_operands();
    }

    fn lose_gfd(&mut self) {
        for key in std::mem::take(&mut self.gfd_keys) {
            self.set_label(&key, None);
        }
    }
}
