//! The pods of the GPU Operator that a rollout depends on.

/// What a pod of the GPU Operator does. A pod is one only where its namespace
/// and its owner say so (`observe::operands`): anybody may set the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operand {
    /// It offers slices to kubelet.
    DevicePlugin,
    /// It labels the node by its GPUs, and by how they are shared.
    FeatureDiscovery,
    /// It cuts the GPUs.
    MigManager,
    /// It runs the servers through which pods share GPUs side by side.
    MpsControlDaemon,
    /// A check of the Operator's own. It asks for slices, and MIG manager
    /// removes it before it cuts.
    Validator,
}

impl Operand {
    /// The `app` labels of the pods, and what each is.
    pub const APPS: [(&'static str, Self); 6] = [
        ("nvidia-device-plugin-daemonset", Self::DevicePlugin),
        ("gpu-feature-discovery", Self::FeatureDiscovery),
        ("nvidia-mig-manager", Self::MigManager),
        ("nvidia-device-plugin-mps-control-daemon", Self::MpsControlDaemon),
        ("nvidia-cuda-validator", Self::Validator),
        ("nvidia-device-plugin-validator", Self::Validator),
    ];

    /// What an `app` label claims.
    #[must_use]
    pub fn named(app: &str) -> Option<Self> {
        Self::APPS.iter().find(|(name, _)| *name == app).map(|(_, operand)| *operand)
    }
}
