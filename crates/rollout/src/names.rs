//! The names of labels, annotations, resources and maps in the GPU Operator's contract, and our own: all
//! that `observe` reads or that is written to carry out the [actions](crate::action). No other code needs
//! them. (NVIDIA GPU Operator 26.7, mig-parted 0.15.)

/// Names the map entry that a node should have. Written by us (or by people).
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// What MIG manager made of it.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// How slices are offered: `single` or `mixed`; absent when they are not.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";
/// Whether any GPU of the node can do MIG.
pub const MIG_CAPABLE: &str = "nvidia.com/mig.capable";
/// The product's name.
pub const PRODUCT: &str = "nvidia.com/gpu.product";
/// Tells a node from all others, so that a pod can be kept to it.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// GPU feature discovery: the name of the machine, by its firmware.
pub const MACHINE: &str = "nvidia.com/gpu.machine";
/// Whether the node has GPUs, whoever manages them.
pub const PRESENT: &str = "nvidia.com/gpu.present";
/// How many GPUs; under strategy `single`, how many slices.
pub const COUNT: &str = "nvidia.com/gpu.count";
/// The device plugin's configuration of a node: a key of its `ConfigMap`.
pub const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
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
/// The value with which we pause an operand while the agent changes slices. The
/// GPU Operator honours any value, and a driver upgrade adds its own to it.
pub const PAUSED_FOR_US: &str = "paused-for-slicewright";
/// The operands that are paused while the agent changes slices: the device
/// plugin, whose absence keeps kubelet from giving slices away, and those that
/// keep slices open, or learn of new ones only by a restart.
pub const PAUSED_BY_US: [&str; 3] = [
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/gpu.deploy.dcgm",
    "nvidia.com/gpu.deploy.dcgm-exporter",
];
/// The value of [`MIG_CONFIG`] on a node that the agent changes. No map has such
/// an entry, so a MIG manager that comes back fails before it touches a GPU.
pub const HANDED_TO_AGENT: &str = "slicewright-agent-changes-this-node";
/// The ValidatingAdmissionPolicy that ties each agent to the `GpuNode` of its own node, and its binding: both have this
/// name in every installation, so that the operator may read these two and no others.
pub const AGENTS_POLICY: &str = "slicewright-agent";
/// GPU feature discovery: the node's GPUs are virtual ones.
pub const VGPU_PRESENT: &str = "nvidia.com/vgpu.present";
/// NFD: the features of the processor; without any, NFD did not look.
pub const CPUID_PREFIX: &str = "feature.node.kubernetes.io/cpu-cpuid.";
/// NFD: the processor says that a hypervisor is beneath it.
pub const HYPERVISOR: &str = "feature.node.kubernetes.io/cpu-cpuid.HYPERVISOR";
/// Where a driver upgrade is.
pub const DRIVER_UPGRADE_STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
/// Where the Machine Config Operator is (an annotation).
pub const MCO_STATE: &str = "machineconfiguration.openshift.io/state";
/// The drain that the Machine Config Operator asks for (an annotation).
pub const MCO_DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// The drain that it did last (an annotation).
pub const MCO_LAST_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// The machine config that a node has (an annotation).
pub const MCO_CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// The machine config that a node should have (an annotation).
pub const MCO_DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// Written together with every cordon of ours. It says so to people; whose a
/// cordon is, is judged by more than this (see [`crate::cordon`]).
pub const CORDONED_BY: &str = "slicewright.io/cordoned-by";
/// The value of [`CORDONED_BY`].
pub const CORDONED_BY_US: &str = "slicewright";
/// An administrator, or an uninstallation, wants the node back from its agent: MIG manager gets it, and keeps it as long
/// as the node has this label.
pub const GIVE_BACK: &str = "slicewright.io/give-back";
/// The value of [`GIVE_BACK`] that counts.
pub const GIVE_BACK_NOW: &str = "true";
/// The field manager of all our writes to nodes.
pub const FIELD_MANAGER: &str = "slicewright-node";
/// The prefix of our map entries.
pub const ENTRY_PREFIX: &str = "slicewright-";
/// The prefix of NVIDIA's labels, and of resources, of which most are no GPUs.
pub const NVIDIA_PREFIX: &str = "nvidia.com/";
/// How the label of a resource ends that says how many there are of it.
pub const COUNTS: &str = ".count";
/// How the label of a resource ends that says how often each device counts.
pub const REPLICAS: &str = ".replicas";
/// How the label of a resource ends that says by what its devices are shared.
pub const SHARED_BY: &str = ".sharing-strategy";
/// How the label of a resource ends that names its product.
pub const PRODUCTS: &str = ".product";
/// How that product ends where several pods share a device and its resource
/// keeps its name.
pub const SHARED_PRODUCT: &str = "-SHARED";
/// Whole GPUs, or slices under strategy `single`.
pub const RESOURCE_GPU: &str = mig::GpuResource::GPU;

/// The resource of a node's ephemeral storage: what containers write into their
/// own layers, their logs, and `emptyDir` volumes on disk.
pub const RESOURCE_STORAGE: &str = "ephemeral-storage";
/// The prefix of the resources of the Dynamic Accelerator Slicer.
pub const DAS_PREFIX: &str = "mig.das.com/";
/// The `ConfigMap` that we own.
pub const MAP_NAME: &str = "slicewright-mig-config";
/// The `ConfigMap` that we own with the device plugin's configurations.
pub const PLUGIN_MAP_NAME: &str = "slicewright-plugin-config";
/// The map that the GPU Operator ships.
pub const DEFAULT_MAP: &str = "default-mig-parted-config";
/// The key of a map's text in its `ConfigMap`.
pub const MAP_KEY: &str = "config.yaml";
/// The label that no node has, which stands for where a pod may go when that
/// is too long to be kept: its value is a digest of it.
pub const TOO_LONG: &str = "slicewright.io/too-long-to-be-judged";
/// The name of a namespace, as a label on it.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
