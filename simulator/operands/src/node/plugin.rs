//! The device plugin: when it looks for devices, and the resulting values in the node's status.

use jiff::SignedDuration;

use crate::change::What;
use crate::devices::{Devices, devices};
use crate::fault::NodeFault;
use crate::operand::{Operand, OperandPhase, OperandPod};
use crate::sharing::{self, Method};

use super::{Node, Task};

/// How long the plugin waits before it asks again whether MPS's server is there.
const MPS_RETRY: SignedDuration = SignedDuration::from_secs(30);

/// The Xid errors after which the plugin still takes a GPU for healthy:
/// they are the application's.
const HARMLESS_XIDS: [u32; 6] = [13, 31, 43, 45, 68, 109];

impl Node {
    /// The plugin's pod is up: it looks for devices and registers them.
    pub(crate) fn plugin_starts(&mut self, serial: u64) {
        if !self.is_current(Operand::DevicePlugin, serial) {
            return;
        }
        if let Err(why) = self.configure(Operand::DevicePlugin) {
            return self.plugin_crashes(&why);
        }
        self.plugin_looks(serial);
    }

    /// It looks for devices and registers them, or exits.
    pub(crate) fn plugin_looks(&mut self, serial: u64) {
        let config = self.active(Operand::DevicePlugin);
        let found = match devices(&self.machine, self.strategy(), self.setup.plugin, &config) {
            Devices::CrashLoop(why) => {
                // What it had registered before is lost with it.
                if !self.registered.is_empty() {
                    self.plugin_stopped(serial);
                }
                return self.plugin_crashes(&why);
            }
            Devices::Of(found) => found,
        };
        self.set_operand_phase(Operand::DevicePlugin, OperandPhase::Ready);
        self.unhealthy.clear();
        if self.has_fault(&NodeFault::PluginNeverRegisters) {
            return;
        }
        let by_mps = config.sharing.as_ref().is_some_and(|sharing| sharing.method == Method::Mps);
        if by_mps && !self.operands.get(&Operand::MpsControlDaemon).is_some_and(OperandPod::is_ready) {
            if !self.registered.is_empty() {
                self.plugin_stopped(serial);
            }
            return self.queue.push((self.now + MPS_RETRY, Task::PluginLooks(serial)));
        }
        self.registered = found;
        let mut resources: Vec<_> = self.registered.keys().cloned().collect();
        // What is offered under another name now is offered no more.
        let gone =
            self.allocatable.iter().filter(|(name, n)| **n > 0 && !self.registered.contains_key(*name));
        resources.extend(gone.map(|(name, _)| name.clone()));
        // What the status still shows and the plugin no longer has keeps its
        // key, and its capacity until the grace is over.
        for resource in self.capacity.keys() {
            if !self.registered.contains_key(resource) {
                let wait = self.setup.timings.capacity_grace;
                self.queue.push((self.now + wait, Task::DropCapacity(serial, resource.clone())));
            }
        }
        resources.sort();
        let mut at = self.now + self.setup.timings.status_sync;
        for resource in resources {
            self.queue.push((at, Task::Publish(serial, resource)));
            at += self.setup.timings.register_step;
        }
        self.refresh_allocations();
        self.hardware_changed();
    }

    pub(crate) fn plugin_crashes(&mut self, why: &str) {
        if let Some(pod) = self.operands.get_mut(&Operand::DevicePlugin) {
            pod.problem = Some(why.to_owned());
        }
        self.set_operand_phase(Operand::DevicePlugin, OperandPhase::CrashLooping);
    }

    /// The plugin's pod is gone: its devices are unhealthy at once, and their
    /// capacity goes after a grace.
    pub(crate) fn plugin_stopped(&mut self, serial: u64) {
        self.registered.clear();
        self.plugin_does_not_answer();
        let at = self.now + self.setup.timings.status_sync;
        self.queue.push((at, Task::ZeroAllocatable(serial)));
        let at = self.now + self.setup.timings.capacity_grace;
        for resource in self.capacity.keys() {
            self.queue.push((at, Task::DropCapacity(serial, resource.clone())));
        }
    }

    pub(crate) fn publish(&mut self, serial: u64, resource: &str) {
        if !self.is_current(Operand::DevicePlugin, serial) {
            return;
        }
        let Some(uuids) = self.registered.get(resource) else { return self.set_allocatable(resource, 0) };
        let wrong = self.faults.iter().find_map(|fault| match fault {
            NodeFault::PluginCounts { resource: r, by } if r == resource => Some(*by),
            _ => None,
        });
        let healthy = uuids.iter().filter(|id| !self.unhealthy.contains(sharing::uuid(id))).count();
        let counted = |n: usize| {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            u64::try_from(n.saturating_add(wrong.unwrap_or(0))).unwrap_or(0)
        };
        let (all, healthy) = (counted(uuids.len()), counted(healthy));
        self.set_capacity(resource, all);
        self.set_allocatable(resource, healthy);
    }

    pub(crate) fn zero_allocatable(&mut self, serial: u64) {
        // A pod that started meanwhile publishes its own.
        if self.operands.get(&Operand::DevicePlugin).is_some_and(|p| p.serial != serial && p.is_ready()) {
            return;
        }
        for resource in self.allocatable.keys().cloned().collect::<Vec<_>>() {
            self.set_allocatable(&resource, 0);
        }
    }

    /// The grace is over: a resource that nobody registers now is of capacity 0.
    pub(crate) fn drop_capacity(&mut self, resource: &str) {
        if !self.registered.contains_key(resource) {
            self.set_allocatable(resource, 0);
            self.set_capacity(resource, 0);
        }
    }

    fn set_capacity(&mut self, resource: &str, count: u64) {
        if self.capacity.insert(resource.to_owned(), count) != Some(count) {
            self.changed(What::Capacity { resource: resource.to_owned(), count });
        }
    }

    fn set_allocatable(&mut self, resource: &str, count: u64) {
        if self.allocatable.insert(resource.to_owned(), count) != Some(count) {
            self.changed(What::Allocatable { resource: resource.to_owned(), count });
        }
    }

    /// Something happened to the hardware: devices of a GPU that is lost, or
    /// had a grave Xid error, are unhealthy until the plugin starts anew.
    pub(crate) fn hardware_changed(&mut self) {
        let Some(plugin) = self.operands.get(&Operand::DevicePlugin).filter(|p| p.is_ready()) else { return };
        let serial = plugin.serial;
        let sick = |gpu: &gpu::Gpu| gpu.lost || gpu.last_xid.is_some_and(|xid| !HARMLESS_XIDS.contains(&xid));
        let mut lost: Vec<String> = Vec::new();
        for gpu in self.machine.gpus().iter().filter(|gpu| sick(gpu)) {
            lost.push(gpu.uuid.clone());
            lost.extend(gpu.mig_devices().map(|(gi, ci)| gpu.mig_uuid(gi, ci)));
        }
        let is_of = |ids: &[String], uuid: &str| ids.iter().any(|id| sharing::uuid(id) == uuid);
        let known = |uuid: &String| self.registered.values().any(|ids| is_of(ids, uuid));
        lost.retain(|uuid| known(uuid) && !self.unhealthy.contains(uuid));
        if lost.is_empty() {
            return;
        }
        let touched: Vec<String> = self
            .registered
            .iter()
            .filter(|(_, ids)| lost.iter().any(|uuid| is_of(ids, uuid)))
            .map(|(resource, _)| resource.clone())
            .collect();
        self.unhealthy.extend(lost);
        for resource in touched {
            self.queue.push((self.now + self.setup.timings.status_sync, Task::Publish(serial, resource)));
        }
    }
}
