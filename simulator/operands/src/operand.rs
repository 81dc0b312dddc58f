//! The pods of the GPU Operator's DaemonSets on the node.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An operand that a MIG change stops, restarts or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operand {
    /// The MIG manager itself.
    MigManager,
    /// The device plugin.
    DevicePlugin,
    /// GPU feature discovery.
    GpuFeatureDiscovery,
    /// The exporter of metrics.
    DcgmExporter,
    /// DCGM's host engine.
    Dcgm,
    /// The validator, for whose word that the toolkit is ready the others wait.
    OperatorValidator,
    /// MPS's server, where GPUs are shared through it.
    MpsControlDaemon,
}

impl Operand {
    /// All of them, in the order in which they start.
    pub const ALL: [Self; 7] = [
        Self::OperatorValidator,
        Self::DevicePlugin,
        Self::GpuFeatureDiscovery,
        Self::Dcgm,
        Self::DcgmExporter,
        Self::MigManager,
        Self::MpsControlDaemon,
    ];

    /// Those that MIG manager stops, in the order in which it waits for them.
    pub const PARKED: [Self; 4] =
        [Self::DevicePlugin, Self::GpuFeatureDiscovery, Self::DcgmExporter, Self::Dcgm];

    /// Its name in the words of stories, files and annotations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MigManager => "mig-manager",
            Self::DevicePlugin => "device-plugin",
            Self::GpuFeatureDiscovery => "gpu-feature-discovery",
            Self::DcgmExporter => "dcgm-exporter",
            Self::Dcgm => "dcgm",
            Self::OperatorValidator => "operator-validator",
            Self::MpsControlDaemon => "mps-control-daemon",
        }
    }

    /// All names, MIG manager's first.
    #[must_use]
    pub fn names() -> [&'static str; 7] {
        let mut all = Self::ALL;
        all.sort_unstable();
        all.map(Self::name)
    }

    /// The operand of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operand| operand.name() == name)
    }

    /// The `app` label of its pods.
    #[must_use]
    pub const fn app(self) -> &'static str {
        match self {
            Self::MigManager => "nvidia-mig-manager",
            Self::DevicePlugin => "nvidia-device-plugin-daemonset",
            Self::GpuFeatureDiscovery => "gpu-feature-discovery",
            Self::DcgmExporter => "nvidia-dcgm-exporter",
            Self::Dcgm => "nvidia-dcgm",
            Self::OperatorValidator => "nvidia-operator-validator",
            Self::MpsControlDaemon => "nvidia-device-plugin-mps-control-daemon",
        }
    }

    /// The node label that its DaemonSet selects. MPS's server has none of its
    /// own: it is where the device plugin is, if GFD says `mps.capable`.
    #[must_use]
    pub const fn deploy_label(self) -> &'static str {
        match self {
            Self::MigManager => "nvidia.com/gpu.deploy.mig-manager",
            Self::DevicePlugin | Self::MpsControlDaemon => "nvidia.com/gpu.deploy.device-plugin",
            Self::GpuFeatureDiscovery => "nvidia.com/gpu.deploy.gpu-feature-discovery",
            Self::DcgmExporter => "nvidia.com/gpu.deploy.dcgm-exporter",
            Self::Dcgm => "nvidia.com/gpu.deploy.dcgm",
            Self::OperatorValidator => "nvidia.com/gpu.deploy.operator-validator",
        }
    }

    /// Whether its init container waits for the validator.
    pub(crate) const fn waits_for_validator(self) -> bool {
        !matches!(self, Self::OperatorValidator | Self::MigManager)
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.app())
    }
}

/// Where an operand's pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum OperandPhase {
    /// Created; its containers are not ready.
    Starting,
    /// Ready.
    Ready,
    /// Its container exits again and again.
    CrashLooping,
    /// It was deleted and stops.
    Terminating,
}

/// One pod of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperandPod {
    /// Whose.
    pub operand: Operand,
    /// Its name, new for each pod.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// Where it is in its life.
    pub phase: OperandPhase,
    /// What its container said when it last exited.
    pub problem: Option<String>,
    pub(crate) serial: u64,
}

impl OperandPod {
    /// Its `app` label.
    #[must_use]
    pub const fn app(&self) -> &'static str {
        self.operand.app()
    }

    /// Whether it is ready.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self.phase, OperandPhase::Ready)
    }
}

/// The name that the DaemonSet controller gives a pod: five characters that
/// follow from the serial number, so that names never repeat and never vary.
pub(crate) fn pod_name(operand: Operand, serial: u64) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = serial.wrapping_mul(2_654_435_761) % 27u64.pow(5);
    let mut suffix = String::with_capacity(5);
    for _ in 0..5 {
        let digit = usize::try_from(rest % 27).unwrap_or_default();
        suffix.push(char::from(ALPHABET[digit]));
        rest /= 27;
    }
    format!("{}-{suffix}", operand.app())
}
