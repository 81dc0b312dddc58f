//! The DaemonSet controller and the life of operand pods: they exist where
//! their deploy label says `true`, stop when it does not, and start once the
//! toolkit is ready.

use crate::change::What;
use crate::discovery::MPS_CAPABLE;
use crate::fault::NodeFault;
use crate::operand::{Operand, OperandPhase, OperandPod, pod_name};
use crate::setup::{Flavour, Strategy};

use super::{Node, Task};

/// What a container says that a fault lets exit.
const EXITS: &str = "the container exits with code 1";

impl Node {
    pub(crate) fn is_wanted(&self, operand: Operand) -> bool {
        let is = |key: &str| self.labels.get(key).is_some_and(|value| value == "true");
        is(operand.deploy_label())
            && match operand {
                Operand::MpsControlDaemon => is(MPS_CAPABLE),
                Operand::MigManager => !self.setup.without_manager,
                Operand::DevicePlugin
                | Operand::GpuFeatureDiscovery
                | Operand::DcgmExporter
                | Operand::Dcgm
                | Operand::OperatorValidator => true,
            }
    }

    pub(crate) fn is_current(&self, operand: Operand, serial: u64) -> bool {
        self.operands.get(&operand).is_some_and(|pod| pod.serial == serial)
    }

    pub(crate) fn terminating(&self) -> Vec<(Operand, u64)> {
        let stops = self.operands.values().filter(|pod| pod.phase == OperandPhase::Terminating);
        stops.map(|pod| (pod.operand, pod.serial)).collect()
    }

    pub(crate) fn set_operand_phase(&mut self, operand: Operand, phase: OperandPhase) {
        if let Some(pod) = self.operands.get_mut(&operand)
            && pod.phase != phase
        {
            pod.phase = phase;
            let name = pod.name.clone();
            self.changed(What::Operand { operand, name, phase: Some(phase) });
        }
    }

    /// Creates what is missing and deletes what is not wanted.
    pub(crate) fn reconcile_operands(&mut self) {
        if !self.ready {
            return;
        }
        for operand in Operand::ALL {
            let wanted = self.is_wanted(operand);
            match self.operands.get(&operand) {
                None if wanted => {
                    let kept_away = self.foreign_taint || self.has_fault(&NodeFault::DoesNotStart(operand));
                    if !kept_away && self.creating.insert(operand) {
                        let at = self.now + self.setup.timings.daemon_set;
                        self.queue.push((at, Task::CreateOperand(operand)));
                    }
                }
                Some(pod) if !wanted && pod.phase != OperandPhase::Terminating => self.stop(operand),
                _ => {}
            }
        }
    }

    /// `spec.mig.strategy` of the ClusterPolicy changed: the device plugin and
    /// GFD are made anew.
    pub fn set_strategy(&mut self, strategy: Strategy) {
        if self.setup.strategy != strategy {
            self.setup.strategy = strategy;
            self.delete_operand(Operand::DevicePlugin);
            self.delete_operand(Operand::GpuFeatureDiscovery);
        }
    }

    /// `spec.migManager.enabled` of the ClusterPolicy: without it the pod goes,
    /// and whatever it was about stays as it is.
    pub fn set_manager_enabled(&mut self, enabled: bool) {
        self.setup.without_manager = !enabled;
        self.reconcile_operands();
    }

    /// Deletes the pod of an operand; its DaemonSet makes another.
    pub fn delete_operand(&mut self, operand: Operand) {
        if self.operands.get(&operand).is_some_and(|pod| pod.phase != OperandPhase::Terminating) {
            self.stop(operand);
        }
    }

    pub(crate) fn stop(&mut self, operand: Operand) {
        self.set_operand_phase(operand, OperandPhase::Terminating);
        if operand == Operand::OperatorValidator {
            // Its last act is to remove the files for which the others wait.
            self.toolkit_ready = false;
        }
        if self.has_fault(&NodeFault::DoesNotStop(operand)) {
            return;
        }
        if let Some(serial) = self.operands.get(&operand).map(|pod| pod.serial) {
            let at = self.now + self.setup.timings.operand_stops;
            self.queue.push((at, Task::OperandGone(operand, serial)));
        }
    }

    pub(crate) fn operand_gone(&mut self, operand: Operand, serial: u64) {
        if !self.is_current(operand, serial) || self.has_fault(&NodeFault::DoesNotStop(operand)) {
            return;
        }
        let Some(pod) = self.operands.remove(&operand) else { return };
        self.changed(What::Operand { operand, name: pod.name, phase: None });
        match operand {
            Operand::DevicePlugin => self.plugin_stopped(serial),
            Operand::GpuFeatureDiscovery if self.setup.flavour == Flavour::OpenShift => {
                self.queue.push((self.now + self.setup.timings.gfd_loss, Task::LoseGfd(serial)));
            }
            Operand::MigManager => self.manager_stopped(),
            Operand::MpsControlDaemon => self.mps_stopped(),
            Operand::DcgmExporter | Operand::Dcgm => self.monitor_closes(operand),
            Operand::GpuFeatureDiscovery | Operand::OperatorValidator => {}
        }
        self.reconcile_operands();
    }

    pub(crate) fn create_operand(&mut self, operand: Operand) {
        self.creating.remove(&operand);
        let kept_away = self.foreign_taint || self.has_fault(&NodeFault::DoesNotStart(operand));
        if !self.ready || !self.is_wanted(operand) || kept_away || self.operands.contains_key(&operand) {
            return;
        }
        self.serial += 1;
        let (serial, created, name) = (self.serial, self.now, pod_name(operand, self.serial));
        self.changed(What::Operand { operand, name: name.clone(), phase: Some(OperandPhase::Starting) });
        let phase = OperandPhase::Starting;
        self.operands.insert(operand, OperandPod { operand, name, created, phase, problem: None, serial });
        let wait = match operand {
            Operand::OperatorValidator => self.setup.timings.validator_ready,
            Operand::MigManager => self.setup.timings.operand_starts,
            // The others wait for the validator, and it may be there already.
            _ if self.toolkit_ready => self.setup.timings.operand_starts,
            _ => return,
        };
        self.queue.push((self.now + wait, Task::OperandReady(operand, serial)));
    }

    pub(crate) fn operand_ready(&mut self, operand: Operand, serial: u64) {
        let starting = |pod: &OperandPod| pod.serial == serial && pod.phase == OperandPhase::Starting;
        if !self.ready || !self.operands.get(&operand).is_some_and(starting) {
            return;
        }
        if self.has_fault(&NodeFault::Crashes(operand)) {
            return self.crash(operand);
        }
        match operand {
            // Its volume cannot be mounted yet.
            Operand::MigManager if !self.map_exists => {}
            Operand::OperatorValidator => self.validator_told(),
            Operand::DevicePlugin => self.plugin_starts(serial),
            Operand::GpuFeatureDiscovery => self.gfd_starts(serial),
            Operand::MigManager => {
                self.set_operand_phase(operand, OperandPhase::Ready);
                self.manager_started(serial);
            }
            Operand::DcgmExporter | Operand::Dcgm => {
                self.set_operand_phase(operand, OperandPhase::Ready);
                self.monitor_opens(operand);
            }
            Operand::MpsControlDaemon => self.mps_looks(),
        }
    }

    /// The operand's container exits, and will again.
    pub(crate) fn crash(&mut self, operand: Operand) {
        let Some(pod) = self.operands.get_mut(&operand) else { return };
        if pod.phase == OperandPhase::Terminating {
            return;
        }
        pod.problem = Some(EXITS.to_owned());
        let (serial, was_ready) = (pod.serial, pod.is_ready());
        self.set_operand_phase(operand, OperandPhase::CrashLooping);
        match operand {
            Operand::DevicePlugin if was_ready => self.plugin_stopped(serial),
            Operand::MigManager => self.manager_stopped(),
            Operand::DcgmExporter | Operand::Dcgm => self.monitor_closes(operand),
            Operand::DevicePlugin
            | Operand::GpuFeatureDiscovery
            | Operand::OperatorValidator
            | Operand::MpsControlDaemon => {}
        }
    }

    /// What crashed because of a fault no longer does.
    pub(crate) fn crashed_start_again(&mut self) {
        for operand in Operand::ALL {
            let Some(pod) = self.operands.get_mut(&operand) else { continue };
            if pod.phase == OperandPhase::CrashLooping && pod.problem.as_deref() == Some(EXITS) {
                pod.problem = None;
                let serial = pod.serial;
                self.set_operand_phase(operand, OperandPhase::Starting);
                let at = self.now + self.setup.timings.operand_starts;
                self.queue.push((at, Task::OperandReady(operand, serial)));
            }
        }
    }

    /// The validator says that the toolkit is ready, if nothing keeps it from
    /// saying so; whoever waited for that starts.
    pub(crate) fn validator_told(&mut self) {
        let there = self.operands.get(&Operand::OperatorValidator);
        if !self.ready
            || there.is_none_or(|pod| pod.phase == OperandPhase::Terminating)
            || self.has_fault(&NodeFault::ValidatorNeverReady)
            || self.toolkit_ready
        {
            return;
        }
        self.set_operand_phase(Operand::OperatorValidator, OperandPhase::Ready);
        self.toolkit_ready = true;
        let at = self.now + self.setup.timings.operand_starts;
        for pod in self.operands.values() {
            if pod.operand.waits_for_validator() && pod.phase == OperandPhase::Starting {
                self.queue.push((at, Task::OperandReady(pod.operand, pod.serial)));
            }
        }
    }
}
