//! DCGM and its exporter where they keep slices open: a fault switches it on. Their handles are no processes that NVML
//! lists, and they learn of new slices by a restart.

use gpu::{Activity, Client, Target};

use crate::fault::NodeFault;
use crate::operand::Operand;

use super::Node;

const MONITORS: [Operand; 2] = [Operand::Dcgm, Operand::DcgmExporter];

impl Node {
    /// Each monitor that is ready opens the slices that are there.
    pub(crate) fn monitors_open(&mut self) {
        for operand in MONITORS {
            self.monitor_opens(operand);
        }
    }

    /// One of them opens the slices that are there, if it keeps any open at all.
    pub(crate) fn monitor_opens(&mut self, operand: Operand) {
        let is_ready = self.operands.get(&operand).is_some_and(crate::operand::OperandPod::is_ready);
        if !is_ready || !self.has_fault(&NodeFault::DcgmHoldsSlices) || self.monitors.contains_key(&operand) {
            return;
        }
        let gpus = self.machine.gpus().iter().zip(0u16..);
        let slices: Vec<Target> = gpus
            .flat_map(|(gpu, index)| gpu.instances.keys().map(move |gi| Target::GpuInstance(index, *gi)))
            .collect();
        let client = |target| {
            let (pid, name) = (1, operand.app().to_owned());
            Client { pid, name, target, activity: Activity::Watches, memory_mib: 0 }
        };
        let open = slices.into_iter().filter_map(|slice| self.machine.open(client(slice)).ok()).collect();
        self.monitors.insert(operand, open);
    }

    /// Its process is gone, and with it what it had open.
    pub(crate) fn monitor_closes(&mut self, operand: Operand) {
        for client in self.monitors.remove(&operand).unwrap_or_default() {
            self.machine.close(client);
        }
    }

    /// The same of all of them.
    pub(crate) fn monitors_close_all(&mut self) {
        for operand in MONITORS {
            self.monitor_closes(operand);
        }
    }
}
