//! A driver upgrade by the Operator, as far as others notice: the state label,
//! the cordon, the parked operands, and a driver that was reloaded.

use crate::node::{Node, Task};
use crate::operand::Operand;

/// The label that says how far an upgrade is.
pub(crate) const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
const PAUSED: &str = "paused-for-driver-upgrade";

/// The steps of an upgrade. Whether the node was cordoned before decides
/// whether it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Park { was_cordoned: bool },
    Reload { was_cordoned: bool },
    Finish { was_cordoned: bool },
}

/// Which operands the driver manager parks.
const PARKED: [Operand; 6] = Operand::ALL;

impl Node {
    pub(crate) fn begin_upgrade(&mut self) {
        let was_cordoned = self.unschedulable;
        self.set_label(STATE, Some("cordon-required".to_owned()));
        self.set_unschedulable(true);
        self.later(Step::Park { was_cordoned });
    }

    fn later(&mut self, step: Step) {
        let after = match step {
            Step::Park { .. } => self.setup.timings.operator,
            Step::Reload { .. } => self.setup.timings.operand_stops * 3,
            Step::Finish { .. } => self.setup.timings.operand_starts,
        };
        self.queue.push((self.now + after, Task::Upgrade(step)));
    }

    pub(crate) fn upgrade(&mut self, step: Step) {
        match step {
            Step::Park { was_cordoned } => {
                self.set_label(STATE, Some("pod-restart-required".to_owned()));
                self.park_as(PAUSED);
                self.later(Step::Reload { was_cordoned });
            }
            Step::Reload { was_cordoned } => {
                let is_held = self.pods.values().any(|pod| pod.holds() && !pod.devices.is_empty());
                if is_held || self.machine.reload_driver().is_err() {
                    self.set_label(STATE, Some("upgrade-failed".to_owned()));
                    self.park_as("true");
                    return;
                }
                self.hardware_changed();
                self.set_label(STATE, Some("uncordon-required".to_owned()));
                self.park_as("true");
                self.later(Step::Finish { was_cordoned });
            }
            Step::Finish { was_cordoned } => {
                if !was_cordoned {
                    self.set_unschedulable(false);
                }
                self.set_label(STATE, Some("upgrade-done".to_owned()));
            }
        }
    }

    fn park_as(&mut self, value: &str) {
        for operand in PARKED {
            let key = operand.deploy_label();
            if self.labels.get(key).is_some_and(|value| value != "false") {
                self.set_label(key, Some(value.to_owned()));
            }
        }
        self.labels_changed();
    }
}
