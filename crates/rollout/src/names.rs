//! The names of labels, annotations and pods in the GPU Operator's contract,
//! and our own. (NVIDIA GPU Operator 26.7, mig-parted 0.15.)

/// Names the map entry that a node should have. Written by us (or by people).
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// What MIG manager made of it.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// The prefix of the labels that say which operands run on a node.
pub const DEPLOY_PREFIX: &str = "nvidia.com/gpu.deploy.";
/// The operand label of MIG manager.
pub const DEPLOY_MIG_MANAGER: &str = "nvidia.com/gpu.deploy.mig-manager";
/// The operand label of the DRA driver: such a node is not ours.
pub const DEPLOY_DRA: &str = "nvidia.com/gpu.deploy.dra-driver";
/// The value with which MIG manager parks an operand.
pub const PAUSED_FOR_MIG: &str = "paused-for-mig-change";
/// The value with which a driver upgrade parks an operand.
pub const PAUSED_FOR_DRIVER: &str = "paused-for-driver-upgrade";
/// Where a driver upgrade is.
pub const DRIVER_UPGRADE_STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
/// Where the Machine Config Operator is (an annotation).
pub const MCO_STATE: &str = "machineconfiguration.openshift.io/state";
/// The drain that the Machine Config Operator asks for (an annotation).
pub const MCO_DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// The drain that it did last (an annotation).
pub const MCO_LAST_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Written together with every cordon of ours; a cordon without it is not ours.
pub const CORDONED_BY: &str = "slicewright.io/cordoned-by";
/// The value of [`CORDONED_BY`].
pub const CORDONED_BY_US: &str = "slicewright";
/// The prefix of our map entries.
pub const ENTRY_PREFIX: &str = "slicewright-";
/// The value that DAS puts into [`MIG_CONFIG`].
pub const DAS_CONFIG: &str = "all-enabled";
/// The `app` label of the device plugin's pod.
pub const APP_PLUGIN: &str = "nvidia-device-plugin-daemonset";
/// The `app` label of MIG manager's pod.
pub const APP_MANAGER: &str = "nvidia-mig-manager";
/// The `app` labels of pods that the Operator uses for its own checks. They
/// ask for slices, and MIG manager removes them itself.
pub const APP_VALIDATORS: [&str; 2] = ["nvidia-cuda-validator", "nvidia-device-plugin-validator"];
/// The prefix of every resource of NVIDIA's device plugin.
pub const RESOURCE_PREFIX: &str = "nvidia.com/";
/// How the label of a resource ends that says how often each device counts.
pub const REPLICAS: &str = ".replicas";
/// Whole GPUs, or slices under strategy `single`.
pub const RESOURCE_GPU: &str = "nvidia.com/gpu";
/// The `ConfigMap` that we own.
pub const MAP_NAME: &str = "slicewright-mig-config";
