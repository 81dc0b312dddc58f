//! Labels, annotations and resources that we read.

/// The layout that a node should have: a key of the map of layouts.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// What MIG manager says of it.
pub const MIG_STATE: &str = "nvidia.com/mig.config.state";
/// How slices are offered: `single` or `mixed`; absent when they are not.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";
/// Whether any GPU of the node can do MIG.
pub const MIG_CAPABLE: &str = "nvidia.com/mig.capable";
/// The product's name.
pub const PRODUCT: &str = "nvidia.com/gpu.product";
/// The prefix of NVIDIA's labels and resources.
pub const NVIDIA: &str = "nvidia.com/";
/// The end of the labels that say how many share each device of a resource.
pub const REPLICAS: &str = ".replicas";
/// The device plugin's configuration of a node: a key of its `ConfigMap`.
pub const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// Whether the node has GPUs, whoever manages them.
pub const PRESENT: &str = "nvidia.com/gpu.present";
/// How many GPUs; under strategy `single`, how many slices.
pub const COUNT: &str = "nvidia.com/gpu.count";
/// The prefix of the labels that say which operands run.
pub const DEPLOY_PREFIX: &str = "nvidia.com/gpu.deploy.";
/// Written with every cordon of ours (annotation or label).
pub const CORDONED_BY: &str = "slicewright.io/cordoned-by";
/// Whole GPUs; under strategy `single`, slices.
pub const WHOLE_GPU: &str = mig::GpuResource::GPU;
/// The prefix of the resources of the Dynamic Accelerator Slicer.
pub const DAS_PREFIX: &str = rollout::OtherManager::DAS_PREFIX;
/// The map of layouts that we own.
pub const OUR_MAP: &str = "slicewright-mig-config";
/// The map that the GPU Operator ships.
pub const DEFAULT_MAP: &str = "default-mig-parted-config";
/// The key of the map's text in its `ConfigMap`.
pub const MAP_KEY: &str = "config.yaml";
/// The label that no node has, which stands for where a pod may go when that
/// is too long to be kept: its value is a digest of it.
pub const TOO_LONG: &str = "slicewright.io/too-long-to-be-judged";
/// The name of a namespace, as a label on it.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
