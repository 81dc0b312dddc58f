//! Who else works on a node, and who else manages its devices. Planner and
//! rollout ask here, so that both have the same answer in the same words.

use std::collections::BTreeMap;
use std::fmt;

use crate::names;

/// Work of somebody else on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherWork {
    /// The GPU Operator is going to upgrade the driver, and has not begun.
    DriverUpgradeAnnounced,
    /// The GPU Operator upgrades the driver.
    DriverUpgrade {
        /// The state that its label gives.
        state: String,
    },
    /// The GPU Operator has paused its operands for a driver upgrade.
    OperandsPaused,
    /// The Machine Config Operator works, by its state.
    MachineConfig {
        /// The state that its annotation gives.
        state: String,
    },
    /// The Machine Config Operator drains, or has not uncordoned yet.
    MachineConfigDrain {
        /// The drain that was asked for last.
        desired: String,
    },
    /// The node is to get another machine config.
    MachineConfigWanted {
        /// Its name.
        desired: String,
    },
}

impl OtherWork {
    /// The work that labels and annotations of a node tell of, the work that
    /// is under way first.
    #[must_use]
    pub fn on(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Option<Self> {
        let annotation = |key: &str| annotations.get(key).map_or("", String::as_str);
        let upgrade = labels.get(names::DRIVER_UPGRADE_STATE).map_or("", String::as_str);
        if !matches!(upgrade, "" | "upgrade-done" | "upgrade-required") {
            return Some(Self::DriverUpgrade { state: upgrade.to_owned() });
        }
        let paused = |(key, value): (&String, &String)| {
            key.starts_with(names::DEPLOY_PREFIX) && value == names::PAUSED_FOR_DRIVER
        };
        if labels.iter().any(paused) {
            return Some(Self::OperandsPaused);
        }
        let state = annotation(names::MCO_STATE);
        if !matches!(state, "" | "Done") {
            return Some(Self::MachineConfig { state: state.to_owned() });
        }
        let drain = annotation(names::MCO_DESIRED_DRAIN);
        if drain != annotation(names::MCO_LAST_DRAIN) {
            return Some(Self::MachineConfigDrain { desired: drain.to_owned() });
        }
        let config = annotation(names::MCO_DESIRED_CONFIG);
        if !config.is_empty() && config != annotation(names::MCO_CURRENT_CONFIG) {
            return Some(Self::MachineConfigWanted { desired: config.to_owned() });
        }
        (upgrade == "upgrade-required").then_some(Self::DriverUpgradeAnnounced)
    }

    /// Whether it has begun, so that a change of ours stands still. What is
    /// only announced keeps a change from starting: a driver upgrade waits for
    /// its turn, perhaps for hours, and a node that is half done cannot.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        match self {
            Self::DriverUpgradeAnnounced => false,
            Self::DriverUpgrade { .. }
            | Self::OperandsPaused
            | Self::MachineConfig { .. }
            | Self::MachineConfigDrain { .. }
            | Self::MachineConfigWanted { .. } => true,
        }
    }
}

impl fmt::Display for OtherWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DriverUpgradeAnnounced => f.write_str("a driver upgrade (upgrade-required)"),
            Self::DriverUpgrade { state } => write!(f, "a driver upgrade ({state})"),
            Self::OperandsPaused => f.write_str("a driver upgrade (operands are paused)"),
            Self::MachineConfig { state } => write!(f, "the Machine Config Operator ({state})"),
            Self::MachineConfigDrain { desired } => write!(f, "the Machine Config Operator ({desired})"),
            Self::MachineConfigWanted { desired } => {
                write!(f, "the Machine Config Operator (it wants {desired})")
            }
        }
    }
}

/// Another system that manages the devices of a node: such a node is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherManager {
    /// Dynamic resource allocation, by NVIDIA's `GPUCluster`.
    Dra,
    /// The Dynamic Accelerator Slicer of OpenShift.
    Das,
}

impl OtherManager {
    /// Who manages the devices of a node: by the cluster's `GPUCluster`, the
    /// node's labels, and every resource in its capacity or allocatable. A
    /// resource that counts zero tells as much as another: the slicer's plugin
    /// may be away for a while.
    #[must_use]
    pub fn of<'a>(
        gpu_cluster: bool,
        labels: &BTreeMap<String, String>,
        resources: impl IntoIterator<Item = &'a String>,
    ) -> Option<Self> {
        if gpu_cluster || labels.get(names::DEPLOY_DRA).is_some_and(|value| value == "true") {
            return Some(Self::Dra);
        }
        resources.into_iter().any(|name| name.starts_with(names::DAS_PREFIX)).then_some(Self::Das)
    }
}

impl fmt::Display for OtherManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dra => "DRA (GPUCluster)",
            Self::Das => "the Dynamic Accelerator Slicer (DAS)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: Option<&str>, annotations: &[(&str, &str)], expect: Option<(&str, bool)>) {
        let label = label.map(|state| (names::DRIVER_UPGRADE_STATE.to_owned(), state.to_owned()));
        let prefix = "machineconfiguration.openshift.io/";
        let annotations =
            annotations.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned()));
        let found = OtherWork::on(&label.into_iter().collect(), &annotations.collect());
        let found = found.map(|work| (work.to_string(), work.is_under_way()));
        assert_eq!(found, expect.map(|(text, under_way)| (text.to_owned(), under_way)));
    }

    #[test]
    fn one_answer_says_who_else_works_on_a_node() {
        let done = [("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "a")];
        check(None, &[], None);
        check(Some("upgrade-done"), &done, None);
        check(Some("upgrade-required"), &done, Some(("a driver upgrade (upgrade-required)", false)));
        check(Some("drain-required"), &[], Some(("a driver upgrade (drain-required)", true)));
        check(None, &[("state", "Working")], Some(("the Machine Config Operator (Working)", true)));
        let wants = [("state", "Done"), ("currentConfig", "a"), ("desiredConfig", "b")];
        check(None, &wants, Some(("the Machine Config Operator (it wants b)", true)));
        check(Some("upgrade-required"), &wants, Some(("the Machine Config Operator (it wants b)", true)));
        let drains = [("desiredDrain", "drain-b"), ("lastAppliedDrain", "uncordon-a")];
        check(None, &drains, Some(("the Machine Config Operator (drain-b)", true)));
    }

    #[test]
    fn a_slicers_resource_tells_of_it_even_when_it_counts_nothing() {
        let das = "mig.das.com/mig-1g.10gb".to_owned();
        let nic = "nvidia.com/hostdev".to_owned();
        let labels = BTreeMap::new();
        assert_eq!(OtherManager::of(false, &labels, [&nic]), None);
        assert_eq!(OtherManager::of(false, &labels, [&nic, &das]), Some(OtherManager::Das));
        assert_eq!(OtherManager::of(true, &labels, [&das]), Some(OtherManager::Dra));
    }
}
