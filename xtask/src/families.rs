//! The Go modules under `tools/`, and what is built from each: data for
//! [`crate::tools`].

/// What a family of tools is for. A task builds what it runs and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Use {
    /// The control plane of the demo and of the end-to-end tests
    ControlPlane,
    /// What only some scenarios run beside it: JobSet, LeaderWorkerSet, and etcdutl
    Scenarios,
    /// Kueue, which scenarios and a story on kind run
    Queues,
    /// Kueue's newest release, which the release check runs in its place
    NextQueues,
    /// Programs that talk to NVML, run unmodified over the simulated library
    Clients,
    /// What installs us: Helm, krew, and the kinds of OpenShift's console
    Packaging,
    /// What judges an OLM bundle and its catalog
    Bundle,
    /// What reads our alerts: promtool
    Alerts,
    /// What the release check alone runs: Helm 3, Flux, OLM, KServe, KubeRay, the trainers, and OpenShift AI's webhook
    Release,
    /// What publishes a release, and signs it: crane (a registry of its own too) and cosign
    Publish,
    /// What a kind cluster and the nodes of ours are made of
    Kind,
}

impl Use {
    /// What `cargo xtask test` runs.
    pub(crate) const GATE: &'static [Self] =
        &[Self::ControlPlane, Self::Scenarios, Self::Queues, Self::Clients, Self::Packaging, Self::Bundle];
    /// What the demo runs: a control plane, and nothing that only tests need.
    pub(crate) const DEMO: &'static [Self] = &[Self::ControlPlane];
    /// What the scenarios run, where the control plane is processes on this machine.
    pub(crate) const SCENARIOS: &'static [Self] =
        &[Self::ControlPlane, Self::Scenarios, Self::Queues, Self::Packaging];
    /// What a kind cluster with simulated GPUs is made of.
    pub(crate) const CLUSTER: &'static [Self] = &[Self::ControlPlane, Self::Clients, Self::Kind];
    /// What a story on it takes.
    pub(crate) const STORY: &'static [Self] =
        &[Self::ControlPlane, Self::Kind, Self::Packaging, Self::Queues];
    /// What `cargo xtask release-check` runs.
    pub(crate) const RELEASE: &'static [Self] = &[
        Self::ControlPlane,
        Self::Scenarios,
        Self::Queues,
        Self::NextQueues,
        Self::Packaging,
        Self::Bundle,
        Self::Alerts,
        Self::Release,
        Self::Publish,
    ];

    /// As `cargo xtask tools` calls it.
    pub(crate) fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("every use can be asked for");
        value.get_name().to_owned()
    }
}

/// What is built from one Go module of ours for one use.
pub(crate) struct Family {
    /// What it is called: the name of its folder in the cache.
    pub(crate) name: &'static str,
    /// The module's folder under `tools/`.
    pub(crate) module: &'static str,
    /// Who needs it.
    pub(crate) used_for: Use,
    /// The binaries: name, and package; `.` is a program of ours in the module.
    pub(crate) binaries: &'static [(&'static str, &'static str)],
    /// Files and folders of published modules that are taken along: name, module, path.
    pub(crate) files: &'static [(&'static str, &'static str, &'static str)],
    /// Whether C is compiled as well: go-nvml loads NVML through it.
    pub(crate) cgo: bool,
    /// Build tags, where a program of ours needs less than all of it.
    pub(crate) tags: &'static [&'static str],
    /// The packages whose variables say which version this is, and the module
    /// whose version that is. Without them Kubernetes calls itself `v0.0.0`,
    /// and what asks for a minimum version refuses it.
    pub(crate) stamped: Option<(&'static [&'static str], &'static str)>,
}

/// What most families have nothing of.
const PLAIN: Family = Family {
    name: "",
    module: "",
    used_for: Use::ControlPlane,
    binaries: &[],
    files: &[],
    cgo: false,
    tags: &[],
    stamped: None,
};

/// Kubernetes says its version in two places.
const KUBERNETES: Option<(&[&str], &str)> =
    Some((&["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"], "k8s.io/kubernetes"));

/// All of them, in the order in which they are built.
pub(crate) const FAMILIES: &[Family] = &[
    Family { name: "etcd", module: "etcd", binaries: &[("etcd", "go.etcd.io/etcd/server/v3")], ..PLAIN },
    Family {
        name: "etcdutl",
        module: "etcdutl",
        used_for: Use::Scenarios,
        binaries: &[("etcdutl", "go.etcd.io/etcd/etcdutl/v3")],
        ..PLAIN
    },
    Family {
        name: "kube",
        module: "kube",
        binaries: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        stamped: KUBERNETES,
        ..PLAIN
    },
    Family {
        name: "kueue",
        module: "kueue",
        used_for: Use::Queues,
        binaries: &[("kueue", "sigs.k8s.io/kueue/cmd/kueue")],
        files: &[("kueue-components", "sigs.k8s.io/kueue", "config/components")],
        ..PLAIN
    },
    // One module with Kueue, whose build has nearly all of their packages.
    Family {
        name: "pod-groups",
        module: "kueue",
        used_for: Use::Scenarios,
        binaries: &[("jobset-controller", "sigs.k8s.io/jobset"), ("lws-controller", "sigs.k8s.io/lws/cmd")],
        files: &[
            ("jobset-components", "sigs.k8s.io/jobset", "config/components"),
            ("lws-config", "sigs.k8s.io/lws", "config"),
        ],
        ..PLAIN
    },
    Family {
        name: "console",
        module: "console",
        used_for: Use::Packaging,
        files: &[("console-crds", "github.com/openshift/api", "console/v1/zz_generated.crd-manifests")],
        ..PLAIN
    },
    Family {
        name: "mig-parted",
        module: "mig-parted",
        used_for: Use::Clients,
        binaries: &[("nvidia-mig-parted", "github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted")],
        files: &[(
            "mig-parted-config.yaml",
            "github.com/NVIDIA/mig-parted",
            "deployments/systemd/config-default.yaml",
        )],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "gpu-feature-discovery",
        module: "device-plugin",
        used_for: Use::Clients,
        binaries: &[
            ("gpu-feature-discovery", "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery"),
            ("nvidia-device-plugin", "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"),
            ("plugin-kubelet", "."),
        ],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "go-nvml",
        module: "go-nvml",
        used_for: Use::Clients,
        binaries: &[("go-nvml-session", ".")],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "nvidia-ctk",
        module: "nvidia-ctk",
        used_for: Use::Clients,
        binaries: &[("nvidia-ctk", "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk")],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "dra-driver",
        module: "dra-driver",
        used_for: Use::Clients,
        binaries: &[
            ("gpu-kubelet-plugin", "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin"),
            ("dra-kubelet", "."),
        ],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "helm",
        module: "helm",
        used_for: Use::Packaging,
        binaries: &[("helm", "helm.sh/helm/v4/cmd/helm")],
        ..PLAIN
    },
    Family {
        name: "krew",
        module: "krew",
        used_for: Use::Packaging,
        binaries: &[
            ("krew", "sigs.k8s.io/krew/cmd/krew"),
            ("validate-krew-manifest", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
        ],
        ..PLAIN
    },
    Family {
        name: "bundle",
        module: "bundle",
        used_for: Use::Bundle,
        binaries: &[("bundle-validate", ".")],
        ..PLAIN
    },
    Family {
        name: "opm",
        module: "opm",
        used_for: Use::Bundle,
        binaries: &[("opm", "github.com/operator-framework/operator-registry/cmd/opm")],
        tags: &["json1", "containers_image_openpgp"],
        ..PLAIN
    },
    Family {
        name: "crdify",
        module: "crdify",
        used_for: Use::Bundle,
        binaries: &[("crdify", "sigs.k8s.io/crdify")],
        ..PLAIN
    },
    Family {
        name: "scorecard",
        module: "scorecard",
        used_for: Use::Bundle,
        binaries: &[("scorecard-test", "github.com/operator-framework/operator-sdk/images/scorecard-test")],
        tags: &["containers_image_openpgp"],
        ..PLAIN
    },
    Family {
        name: "promtool",
        module: "promtool",
        used_for: Use::Alerts,
        binaries: &[("promtool", "github.com/prometheus/prometheus/cmd/promtool")],
        ..PLAIN
    },
    Family {
        name: "helm3",
        module: "helm3",
        used_for: Use::Release,
        binaries: &[("helm3", "helm.sh/helm/v3/cmd/helm")],
        ..PLAIN
    },
    Family {
        name: "kueue-next",
        module: "kueue-next",
        used_for: Use::NextQueues,
        binaries: &[("kueue-next", "sigs.k8s.io/kueue/cmd/kueue")],
        files: &[("kueue-next-components", "sigs.k8s.io/kueue", "config/components")],
        ..PLAIN
    },
    Family {
        name: "flux",
        module: "flux",
        used_for: Use::Release,
        binaries: &[
            ("source-controller", "github.com/fluxcd/source-controller"),
            ("kustomize-controller", "github.com/fluxcd/kustomize-controller"),
        ],
        files: &[
            ("source-controller-crds", "github.com/fluxcd/source-controller", "config/crd/bases"),
            ("kustomize-controller-crds", "github.com/fluxcd/kustomize-controller", "config/crd/bases"),
        ],
        ..PLAIN
    },
    Family {
        name: "olm",
        module: "olm",
        used_for: Use::Release,
        binaries: &[("olm", "github.com/operator-framework/operator-lifecycle-manager/cmd/olm")],
        files: &[("olm-crds", "github.com/operator-framework/api", "crds")],
        ..PLAIN
    },
    Family {
        name: "olm-steps",
        module: "olm",
        used_for: Use::Release,
        binaries: &[("olm-steps", ".")],
        ..PLAIN
    },
    Family {
        name: "monitoring",
        module: "monitoring",
        used_for: Use::Release,
        files: &[(
            "monitoring-crds",
            "github.com/prometheus-operator/prometheus-operator",
            "example/prometheus-operator-crd",
        )],
        ..PLAIN
    },
    Family {
        name: "kserve",
        module: "kserve",
        used_for: Use::Release,
        binaries: &[
            ("kserve-manager", "github.com/kserve/kserve/cmd/manager"),
            ("kserve-llmisvc", "github.com/kserve/kserve/cmd/llmisvc"),
        ],
        files: &[("kserve-config", "github.com/kserve/kserve", "config")],
        ..PLAIN
    },
    Family {
        name: "hardware-profiles",
        module: "hardware-profiles",
        used_for: Use::Release,
        binaries: &[("hardware-profile-webhook", ".")],
        files: &[
            (
                "hardware-profile-kinds",
                "github.com/opendatahub-io/opendatahub-operator/v2",
                "config/crd/bases",
            ),
            (
                "hardware-profile-manifests",
                "github.com/opendatahub-io/opendatahub-operator/v2",
                "config/webhook",
            ),
        ],
        ..PLAIN
    },
    // Nearly all of their packages are those of Kueue, JobSet and LeaderWorkerSet, in the same versions.
    Family {
        name: "workloads",
        module: "workloads",
        used_for: Use::Release,
        binaries: &[
            ("kuberay-operator", "github.com/ray-project/kuberay/ray-operator"),
            ("trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"),
            ("training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1"),
        ],
        files: &[
            ("kuberay-config", "github.com/ray-project/kuberay/ray-operator", "config"),
            ("trainer-manifests", "github.com/kubeflow/trainer/v2", "manifests/base"),
            ("training-operator-manifests", "github.com/kubeflow/training-operator", "manifests/base"),
        ],
        ..PLAIN
    },
    Family {
        name: "crane",
        module: "crane",
        used_for: Use::Publish,
        binaries: &[("crane", "github.com/google/go-containerregistry/cmd/crane")],
        ..PLAIN
    },
    Family {
        name: "cosign",
        module: "cosign",
        used_for: Use::Publish,
        binaries: &[("cosign", "github.com/sigstore/cosign/v3/cmd/cosign")],
        ..PLAIN
    },
    Family {
        name: "kube-node",
        module: "kube",
        used_for: Use::Kind,
        binaries: &[
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
        ],
        stamped: KUBERNETES,
        ..PLAIN
    },
    Family {
        name: "containerd",
        module: "containerd",
        used_for: Use::Kind,
        binaries: &[
            ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
            ("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
        tags: &["no_btrfs", "no_devmapper", "no_zfs", "no_aufs", "no_tracing"],
        ..PLAIN
    },
    Family {
        name: "crictl",
        module: "crictl",
        used_for: Use::Kind,
        binaries: &[("crictl", "sigs.k8s.io/cri-tools/cmd/crictl")],
        ..PLAIN
    },
    Family {
        name: "kind",
        module: "kind",
        used_for: Use::Kind,
        binaries: &[("kind", "sigs.k8s.io/kind")],
        files: &[("kind-node-files", "sigs.k8s.io/kind", "images/base/files")],
        ..PLAIN
    },
    Family {
        name: "coredns",
        module: "coredns",
        used_for: Use::Kind,
        binaries: &[("coredns", ".")],
        ..PLAIN
    },
    Family {
        name: "nfd",
        module: "nfd",
        used_for: Use::Kind,
        binaries: &[
            ("nfd-master", "sigs.k8s.io/node-feature-discovery/cmd/nfd-master"),
            ("nfd-worker", "sigs.k8s.io/node-feature-discovery/cmd/nfd-worker"),
        ],
        files: &[("nfd-crds", "sigs.k8s.io/node-feature-discovery", "deployment/base/nfd-crds")],
        ..PLAIN
    },
    Family {
        name: "device-plugin",
        module: "device-plugin",
        used_for: Use::Kind,
        binaries: &[
            ("nvidia-device-plugin", "github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"),
            ("config-manager", "github.com/NVIDIA/k8s-device-plugin/cmd/config-manager"),
            // The clients have these two as well; whoever brings a cluster up has built no clients.
            ("gpu-feature-discovery", "github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery"),
        ],
        cgo: true,
        ..PLAIN
    },
    Family {
        name: "mig-manager",
        module: "mig-parted",
        used_for: Use::Kind,
        binaries: &[("nvidia-mig-manager", "github.com/NVIDIA/mig-parted/cmd/nvidia-mig-manager")],
        cgo: true,
        ..PLAIN
    },
];
