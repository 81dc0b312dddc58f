//! The kubelet registers its node again after the Node object was deleted while the machine stayed: labels
//! and annotations of other clients are lost.

use std::collections::BTreeMap;

use crate::discovery;
use crate::operand::Operand;

use super::{Node, Task};

impl Node {
    /// The Node object was deleted, and is made anew. It has the labels with
    /// which its kubelet registers (`labels`), and those that NFD and the
    /// Operator write at once; GFD's follow. Whose configuration was wanted, how
    /// far MIG manager was with it and whether it was cordoned nobody knows any
    /// more. What the GPUs are cut into, what runs, and a run of MIG manager
    /// that is under way stay.
    pub fn register_anew(&mut self, labels: BTreeMap<String, String>) {
        let mut registered = discovery::identity(&self.name, &self.machine, &self.setup);
        registered.extend(labels);
        self.gfd_keys.clear();
        let lost: Vec<String> =
            self.labels.keys().filter(|key| !registered.contains_key(*key)).cloned().collect();
        for key in lost {
            self.set_label(&key, None);
        }
        for (key, value) in registered {
            self.set_label(&key, Some(value));
        }
        self.set_unschedulable(false);
        self.foreign_taint = false;
        if let Some(gfd) = self.operands.get(&Operand::GpuFeatureDiscovery).filter(|pod| pod.is_ready()) {
            let at = self.now + self.setup.timings.gfd_labels;
            self.queue.push((at, Task::WriteGfd(gfd.serial)));
        }
        // It stamps the default configuration, where it does so at all.
        self.queue.push((self.now + self.setup.timings.operator, Task::Operator));
        self.labels_changed();
    }
}
