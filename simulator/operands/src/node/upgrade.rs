//! A driver upgrade by the Operator, as far as others notice it: the state label, the cordon, the paused
//! operands, and a reloaded driver.

use jiff::{SignedDuration, Timestamp};

use crate::operand::Operand;
use crate::pod::PodName;

use super::{Node, Task};

/// The label that says how far an upgrade is.
pub(crate) const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
/// Its value while pods are being deleted.
const DELETES: &str = "pod-deletion-required";
const PAUSED: &str = "paused-for-driver-upgrade";

/// The steps of an upgrade. Whether the node was cordoned before decides
/// whether it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Waits for the pods that hold devices, which it has deleted.
    Drain {
        was_cordoned: bool,
        until: Timestamp,
    },
    Park {
        was_cordoned: bool,
    },
    Reload {
        was_cordoned: bool,
    },
    Finish {
        was_cordoned: bool,
    },
}

/// Which operands the driver manager parks.
const PARKED: [Operand; 7] = Operand::ALL;
/// How long it waits for pods to be gone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

impl Node {
    /// With `drains`, the pods that hold devices are deleted first, as
    /// `upgradePolicy.podDeletion` has it; without, they make it fail.
    pub(crate) fn begin_upgrade(&mut self, drains: bool) {
        let was_cordoned = self.unschedulable;
        self.set_label(STATE, Some("cordon-required".to_owned()));
        self.set_unschedulable(true);
        let until = self.now + PATIENCE;
        self.later(if drains { Step::Drain { was_cordoned, until } } else { Step::Park { was_cordoned } });
    }

    /// The pods that the Operator deletes before it takes the driver away.
    #[must_use]
    pub fn pods_to_delete(&self) -> Vec<PodName> {
        if self.labels.get(STATE).is_none_or(|state| state != DELETES) {
            return Vec::new();
        }
        let holders = self.pods.values().filter(|pod| pod.holds() && !pod.devices.is_empty());
        holders.map(|pod| pod.spec.name.clone()).collect()
    }

    fn later(&mut self, step: Step) {
        let after = match step {
            Step::Drain { .. } => SignedDuration::from_secs(1),
            Step::Park { .. } => self.setup.timings.operator,
            Step::Reload { .. } => self.setup.timings.operand_stops * 3,
            Step::Finish { .. } => self.setup.timings.operand_starts,
        };
        self.queue.push((self.now + after, Task::Upgrade(step)));
    }

    pub(crate) fn upgrade(&mut self, step: Step) {
        match step {
            Step::Drain { was_cordoned, until } => {
                self.set_label(STATE, Some(DELETES.to_owned()));
                if self.pods_to_delete().is_empty() {
                    return self.later(Step::Park { was_cordoned });
                }
                if self.now >= until {
                    return self.set_label(STATE, Some("upgrade-failed".to_owned()));
                }
                self.later(step);
            }
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
