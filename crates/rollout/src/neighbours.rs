//! The other controllers that work on a node, and the other managers of its devices, in terms that planner
//! and rollout share. `observe::node_labels` detects them.

use std::fmt;

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

impl fmt::Display for OtherManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dra => "DRA (GPUCluster)",
            Self::Das => "the Dynamic Accelerator Slicer (DAS)",
        })
    }
}
