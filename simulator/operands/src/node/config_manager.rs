//! The config manager beside the device plugin and GFD: which file of the ConfigMap applies to this node,
//! and when a change of the label reaches them.

use std::collections::BTreeMap;

use gpu::Gpu;

use crate::fault::NodeFault;
use crate::operand::{Operand, OperandPhase, OperandPod};
use crate::setup::Strategy;
use crate::sharing::{Method, PLUGIN_CONFIG, PluginConfig};

use super::{Node, Task};

/// The files among which the label chooses, as the pods have them mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginConfigs {
    /// Texts by name; nothing where the ClusterPolicy names no ConfigMap.
    files: Option<BTreeMap<String, String>>,
    /// The file of nodes without the label; none, if empty.
    default: String,
    /// What each pod has in use.
    active: BTreeMap<Operand, Active>,
}

/// What a pod has in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Active {
    name: String,
    config: PluginConfig,
}

/// The pods that have a config manager.
const CONFIGURED: [Operand; 2] = [Operand::DevicePlugin, Operand::GpuFeatureDiscovery];

impl Node {
    /// How MIG devices become resources here: the ClusterPolicy's word, and
    /// where it has none, the device plugin's configuration's.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        match self.setup.strategy {
            Strategy::Configured => match self.active(Operand::DevicePlugin).strategy {
                None | Some(Strategy::Configured) => Strategy::None,
                Some(strategy) => strategy,
            },
            strategy => strategy,
        }
    }

    /// What a pod has in use.
    pub(crate) fn active(&self, operand: Operand) -> PluginConfig {
        self.plugin_configs.active.get(&operand).map(|active| active.config.clone()).unwrap_or_default()
    }

    /// `spec.devicePlugin.config` of the ClusterPolicy: the ConfigMap's files,
    /// if one is named, and which counts where the label is absent. A change
    /// makes the pods anew.
    pub fn set_plugin_config(&mut self, files: Option<BTreeMap<String, String>>, default: &str) {
        if self.plugin_configs.files == files && self.plugin_configs.default == default {
            return;
        }
        self.plugin_configs.files = files;
        default.clone_into(&mut self.plugin_configs.default);
        for operand in CONFIGURED {
            self.delete_operand(operand);
        }
    }

    /// The files of the ConfigMap that is named have changed. They arrive in
    /// the pods after the mount's delay; a file that is in use already is not
    /// read again.
    pub fn update_plugin_config(&mut self, files: BTreeMap<String, String>) {
        let at = self.now + self.mount_delay();
        self.queue.push((at, Task::MountPlugin(files)));
    }

    pub(crate) fn mount_plugin(&mut self, files: BTreeMap<String, String>) {
        self.plugin_configs.files = Some(files);
        // A container that exited for want of its file starts again and again.
        let exited =
            |o: &Operand| self.operands.get(o).is_some_and(|p| p.phase == OperandPhase::CrashLooping);
        for operand in CONFIGURED.into_iter().filter(exited).collect::<Vec<_>>() {
            self.reconfigure(operand);
        }
    }

    /// The name of the file that counts here; empty for none.
    fn chosen(&self) -> &str {
        let label = self.labels.get(PLUGIN_CONFIG).filter(|value| !value.is_empty());
        label.unwrap_or(&self.plugin_configs.default)
    }

    /// Takes the file that counts into use in a pod that starts, or whose
    /// config manager saw another name.
    pub(crate) fn configure(&mut self, operand: Operand) -> Result<(), String> {
        let mut active = Active::default();
        if let Some(files) = &self.plugin_configs.files
            && !self.chosen().is_empty()
        {
            let name = self.chosen();
            let text = files.get(name).ok_or_else(|| format!("specified config {name} does not exist"))?;
            let config = PluginConfig::parse(text).map_err(|error| error.to_string())?;
            active = Active { name: name.to_owned(), config };
        }
        self.plugin_configs.active.insert(operand, active);
        Ok(())
    }

    /// The labels changed: the config managers look at theirs.
    pub(crate) fn wake_config_managers(&mut self) {
        if self.plugin_configs.files.is_none() {
            return;
        }
        for operand in CONFIGURED {
            let active = self.plugin_configs.active.get(&operand).map_or("", |active| &active.name);
            let runs = self
                .operands
                .get(&operand)
                .is_some_and(|pod| matches!(pod.phase, OperandPhase::Ready | OperandPhase::CrashLooping));
            if runs && self.chosen() != active {
                let at = self.now + self.setup.timings.config_manager;
                self.queue.push((at, Task::Reconfigure(operand)));
            }
        }
    }

    /// A config manager does what the label says. A name that is there not
    /// makes it exit, again and again; the plugin beside it goes on with what
    /// it has.
    pub(crate) fn reconfigure(&mut self, operand: Operand) {
        let Some(pod) = self.operands.get(&operand) else { return };
        if !matches!(pod.phase, OperandPhase::Ready | OperandPhase::CrashLooping)
            || self.has_fault(&NodeFault::Crashes(operand))
        {
            return;
        }
        let serial = pod.serial;
        let is_same = self.plugin_configs.active.get(&operand).is_some_and(|a| a.name == self.chosen());
        if is_same && pod.is_ready() {
            // "Already configured. Skipping."
            return;
        }
        if let Err(why) = self.configure(operand) {
            if let Some(pod) = self.operands.get_mut(&operand) {
                pod.problem = Some(why);
            }
            return self.set_operand_phase(operand, OperandPhase::CrashLooping);
        }
        if operand == Operand::DevicePlugin {
            // MPS's daemon has the same configuration, and reads it at the same time.
            let runs =
                |pod: &&OperandPod| matches!(pod.phase, OperandPhase::Ready | OperandPhase::CrashLooping);
            if self.operands.get(&Operand::MpsControlDaemon).as_ref().is_some_and(runs) {
                self.mps_looks();
            }
            self.plugin_looks(serial);
        } else {
            self.gfd_looks(serial);
        }
    }

    /// MPS's control daemon is up, or has another configuration: it exits where
    /// more are to share a GPU than it serves.
    pub(crate) fn mps_looks(&mut self) {
        let daemon = Operand::MpsControlDaemon;
        let problem = self.active(Operand::DevicePlugin).daemon_refuses(&self.machine);
        let phase = if problem.is_some() { OperandPhase::CrashLooping } else { OperandPhase::Ready };
        if let Some(pod) = self.operands.get_mut(&daemon) {
            pod.problem = problem;
        }
        self.set_operand_phase(daemon, phase);
    }

    /// GFD's pod is up.
    pub(crate) fn gfd_starts(&mut self, serial: u64) {
        match self.configure(Operand::GpuFeatureDiscovery) {
            Ok(()) => self.gfd_looks(serial),
            Err(why) => self.gfd_crashes(&why),
        }
    }

    fn gfd_looks(&mut self, serial: u64) {
        let config = self.active(Operand::GpuFeatureDiscovery);
        let by_mps = config.sharing.is_some_and(|sharing| sharing.method == Method::Mps);
        if by_mps && self.machine.gpus().iter().any(Gpu::mig_is_on) {
            return self.gfd_crashes("sharing.mps is not supported for MIG devices");
        }
        self.set_operand_phase(Operand::GpuFeatureDiscovery, OperandPhase::Ready);
        let lag = self.faults.iter().find_map(|fault| match fault {
            NodeFault::GfdLags(lag) => Some(*lag),
            _ => None,
        });
        let wait = self.setup.timings.gfd_labels + lag.unwrap_or_default();
        self.queue.push((self.now + wait, Task::WriteGfd(serial)));
    }

    fn gfd_crashes(&mut self, why: &str) {
        if let Some(pod) = self.operands.get_mut(&Operand::GpuFeatureDiscovery) {
            pod.problem = Some(why.to_owned());
        }
        self.set_operand_phase(Operand::GpuFeatureDiscovery, OperandPhase::CrashLooping);
    }

    /// MPS's server is gone: what was shared through it is offered no more.
    pub(crate) fn mps_stopped(&mut self) {
        let by_mps = self.active(Operand::DevicePlugin).sharing.is_some_and(|s| s.method == Method::Mps);
        if let Some(pod) = self.operands.get(&Operand::DevicePlugin).filter(|pod| by_mps && pod.is_ready()) {
            self.plugin_looks(pod.serial);
        }
    }
}
