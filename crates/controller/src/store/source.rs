//! The sources of objects, with one watch each.

use api::foreign::kueue::VERSIONS;

use crate::settings::{MapRef, Settings};

/// Where an object comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Namespaces (labels only).
    Namespaces,
    /// Priority classes.
    PriorityClasses,
    /// The claims of volumes: which volume each is bound to.
    VolumeClaims,
    /// Volumes: which nodes can have each.
    Volumes,
    /// Our policies.
    Policies,
    /// What is known of nodes.
    GpuNodes,
    /// The names of all CRDs.
    Definitions,
    /// One map of layouts.
    Map(MapRef),
    /// A foreign kind whose CRD exists.
    Foreign(Foreign),
}

impl Source {
    /// Whether nodes are judged by what it says. Such a watch is taken for
    /// incomplete from when it broke until it has listed anew: after an outage
    /// of the API server a node that has long been done is not to be judged by
    /// how it stood before, nor changed for a policy that is no more. While our
    /// own kinds are not served, nothing can be remembered, either.
    #[must_use]
    pub const fn is_judged_by(&self) -> bool {
        matches!(self, Self::Nodes | Self::Pods | Self::Policies | Self::GpuNodes)
    }
}

/// Kinds of others, which may appear and vanish while we run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Foreign {
    /// The GPU Operator's settings.
    ClusterPolicy,
    /// The DRA stack of the GPU Operator.
    GpuCluster,
    /// Workbenches.
    Notebook,
    /// What OpenShift AI offers.
    HardwareProfile,
    /// Where OpenShift AI is installed.
    DscInitialization,
    /// Model servers.
    InferenceService,
    /// Model servers for large language models.
    LlmInferenceService,
    /// What waits in Kueue's queues.
    Workload,
    /// What Kueue's queues ask before they admit.
    AdmissionCheck,
    /// For which nodes Kueue's queues give quota.
    ResourceFlavor,
    /// How much quota Kueue's queues give.
    ClusterQueue,
    /// The queues of namespaces.
    LocalQueue,
}

impl Foreign {
    /// Those that are always read.
    pub const ALWAYS: [Self; 4] =
        [Self::ClusterPolicy, Self::GpuCluster, Self::Notebook, Self::HardwareProfile];
    /// Those of Kueue, which are read where somebody wants it.
    ///
    /// The queues come first: what is kept of a workload depends on the one in which it waits.
    pub const QUEUES: [Self; 5] =
        [Self::ClusterQueue, Self::LocalQueue, Self::AdmissionCheck, Self::ResourceFlavor, Self::Workload];

    /// Those that say which hardware profiles may be published and deleted.
    pub const MENU: [Self; 3] = [Self::DscInitialization, Self::InferenceService, Self::LlmInferenceService];

    /// Whether it is one of Kueue's. All others are waited for until they can be read: without them, somebody would be
    /// overlooked who holds something.
    #[must_use]
    pub fn is_of_queues(self) -> bool {
        Self::QUEUES.contains(&self)
    }

    /// Those that an operator with these settings reads.
    pub fn read_with(settings: &Settings) -> impl Iterator<Item = Self> + use<> {
        let (queues, menu) = (settings.kueue.is_read(), settings.hardware_profiles.is_planned());
        let queues = Self::QUEUES.into_iter().filter(move |_| queues);
        let menu = Self::MENU.into_iter().filter(move |_| menu);
        Self::ALWAYS.into_iter().chain(queues).chain(menu)
    }

    /// Group, kind, plural, and the versions that we can read, best first.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::ClusterPolicy => ("nvidia.com", "ClusterPolicy", "clusterpolicies", &["v1"]),
            Self::GpuCluster => ("nvidia.com", "GPUCluster", "gpuclusters", &["v1alpha1"]),
            Self::Notebook => ("kubeflow.org", "Notebook", "notebooks", &["v1", "v1beta1"]),
            Self::Workload => ("kueue.x-k8s.io", "Workload", "workloads", &VERSIONS),
            Self::AdmissionCheck => ("kueue.x-k8s.io", "AdmissionCheck", "admissionchecks", &VERSIONS),
            Self::ResourceFlavor => ("kueue.x-k8s.io", "ResourceFlavor", "resourceflavors", &VERSIONS),
            Self::ClusterQueue => ("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", &VERSIONS),
            Self::LocalQueue => ("kueue.x-k8s.io", "LocalQueue", "localqueues", &VERSIONS),
            Self::DscInitialization => {
                ("dscinitialization.opendatahub.io", "DSCInitialization", "dscinitializations", &["v2", "v1"])
            }
            Self::InferenceService => {
                ("serving.kserve.io", "InferenceService", "inferenceservices", &["v1beta1"])
            }
            Self::LlmInferenceService => (
                "serving.kserve.io",
                "LLMInferenceService",
                "llminferenceservices",
                &["v1alpha2", "v1alpha1"],
            ),
            Self::HardwareProfile => {
                ("infrastructure.opendatahub.io", "HardwareProfile", "hardwareprofiles", &["v1", "v1alpha1"])
            }
        }
    }

    /// The name of its CRD.
    #[must_use]
    pub fn definition(self) -> String {
        let (group, _, plural, _) = self.names();
        format!("{plural}.{group}")
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nodes => f.write_str("nodes"),
            Self::Pods => f.write_str("pods"),
            Self::Namespaces => f.write_str("namespaces"),
            Self::PriorityClasses => f.write_str("priorityclasses"),
            Self::VolumeClaims => f.write_str("persistentvolumeclaims"),
            Self::Volumes => f.write_str("persistentvolumes"),
            Self::Policies => f.write_str("gpupartitionpolicies"),
            Self::GpuNodes => f.write_str("gpunodes"),
            Self::Definitions => f.write_str("customresourcedefinitions"),
            Self::Map(map) => write!(f, "configmap {}/{}", map.namespace, map.name),
            Self::Foreign(foreign) => f.write_str(foreign.names().2),
        }
    }
}
