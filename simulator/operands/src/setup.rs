//! The configuration of a cluster, as far as it affects a node; and the durations of operations.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::apply::ApplyError;
use crate::config::ConfigError;
use crate::version::{ManagerVersion, PluginVersion};

/// How the GPU Operator was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// By OLM on OpenShift: no default `mig.config` label, and GFD writes a
    /// file, so that its labels vanish while it is parked.
    #[default]
    OpenShift,
    /// By Helm: `mig.config=all-disabled` is stamped, and GFD writes a
    /// `NodeFeature`, which outlives its pod.
    Helm,
}

/// Who hands devices to pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// The device plugin, under a ClusterPolicy.
    #[default]
    DevicePlugin,
    /// DRA, under a `GPUCluster`: no MIG manager, no GFD, no device plugin,
    /// and none of their labels.
    Dra,
}

/// `spec.mig.strategy` of the ClusterPolicy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One resource for each profile, `nvidia.com/mig-<profile>`.
    #[default]
    Mixed,
    /// `nvidia.com/gpu` for MIG devices too; they must be of one profile.
    Single,
    /// `nvidia.com/gpu` for GPUs; MIG devices are not seen.
    None,
    /// Empty: what the device plugin's configuration says, and else none.
    #[serde(rename = "")]
    Configured,
}

/// How the cluster is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setup {
    /// How the GPU Operator was installed.
    pub flavour: Flavour,
    /// Who hands devices to pods.
    pub stack: Stack,
    /// How MIG devices become resources.
    pub strategy: Strategy,
    /// `spec.migManager.enabled: false`: MIG manager is not installed.
    pub without_manager: bool,
    /// The MIG manager.
    pub manager: ManagerVersion,
    /// The device plugin and GFD.
    pub plugin: PluginVersion,
    /// `WITH_REBOOT`: reboot the host when a mode change does not take effect.
    pub with_reboot: bool,
    /// How long things take.
    pub timings: Timings,
}

/// How long each step takes. The defaults lie in the middle of what was seen
/// or estimated (`facts/nvidia-kubernetes-contract.md` section 9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timings {
    /// From a change of a ConfigMap to its arrival in a pod, at least.
    pub map_mount: SignedDuration,
    /// How much longer it takes at most: the kubelet looks when it looks. How
    /// much of it follows from the node's name and the number of the change.
    pub map_mount_spread: SignedDuration,
    /// From a change of the label that names the device plugin's
    /// configuration until the plugin has been told.
    pub config_manager: SignedDuration,
    /// From a label's change until MIG manager begins to work on it; the old
    /// state stays meanwhile.
    pub manager_wakes: SignedDuration,
    /// MIG manager reads and checks the configuration.
    pub validate: SignedDuration,
    /// An operand's pod stops.
    pub operand_stops: SignedDuration,
    /// How long MIG manager waits for each operand to stop.
    pub phase_timeout: SignedDuration,
    /// A change of MIG mode, with resets.
    pub mode: SignedDuration,
    /// A change of geometry.
    pub geometry: SignedDuration,
    /// The CDI specification is written.
    pub cdi: SignedDuration,
    /// The new validator pod says that the toolkit is ready.
    pub validator_ready: SignedDuration,
    /// The DaemonSet controller creates a pod.
    pub daemon_set: SignedDuration,
    /// An operand's pod starts, once the toolkit is ready.
    pub operand_starts: SignedDuration,
    /// The kubelet publishes a change of devices.
    pub status_sync: SignedDuration,
    /// Between the registrations of two resources.
    pub register_step: SignedDuration,
    /// From GFD's start to its labels on the node.
    pub gfd_labels: SignedDuration,
    /// From GFD's stop to the loss of its labels, in file mode.
    pub gfd_loss: SignedDuration,
    /// How long the kubelet keeps the capacity of a plugin that is gone.
    pub capacity_grace: SignedDuration,
    /// From the kubelet's choice of devices to the plugin's answer.
    pub plugin_answers: SignedDuration,
    /// From that answer to the entry in the kubelet's books.
    pub books_entered: SignedDuration,
    /// From then on to a running container.
    pub pod_starts: SignedDuration,
    /// The host reboots: from going down to a ready node.
    pub reboot: SignedDuration,
    /// From a ready node to MIG manager's pod; the device plugin is earlier.
    pub manager_after_boot: SignedDuration,
    /// The Operator puts back a deploy label that is absent.
    pub operator: SignedDuration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            map_mount: SignedDuration::from_secs(60),
            map_mount_spread: SignedDuration::ZERO,
            config_manager: SignedDuration::from_secs(2),
            manager_wakes: SignedDuration::from_secs(1),
            validate: SignedDuration::from_secs(1),
            operand_stops: SignedDuration::from_secs(10),
            phase_timeout: SignedDuration::from_mins(5),
            mode: SignedDuration::from_secs(30),
            geometry: SignedDuration::from_secs(3),
            cdi: SignedDuration::from_secs(1),
            validator_ready: SignedDuration::from_secs(8),
            daemon_set: SignedDuration::from_secs(3),
            operand_starts: SignedDuration::from_secs(5),
            status_sync: SignedDuration::from_secs(5),
            register_step: SignedDuration::from_secs(1),
            gfd_labels: SignedDuration::from_secs(30),
            gfd_loss: SignedDuration::from_secs(1),
            capacity_grace: SignedDuration::from_mins(5),
            plugin_answers: SignedDuration::ZERO,
            books_entered: SignedDuration::ZERO,
            pod_starts: SignedDuration::from_secs(4),
            reboot: SignedDuration::from_mins(5),
            manager_after_boot: SignedDuration::from_secs(30),
            operator: SignedDuration::from_secs(2),
        }
    }
}

/// Why a node cannot be set up as wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The map is not valid, or has no such configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration cannot be applied to these GPUs.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}
