//! The table of the operator's permissions: each verb with its reason.

use rollout::names::AGENTS_POLICY;

use super::{Right, Scope, When};

pub(super) const fn right(
    scope: Scope,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [(&'static str, &'static str)],
) -> Right {
    Right { scope, when: When::Always, group, resource, name: "", verbs }
}

/// The name of our lease, as the default of the flag says it.
pub(super) const LEASE: &str = "slicewright-operator";
const ADMISSION: &str = "admissionregistration.k8s.io";
const SEES_AGENTS_POLICY: &str = "to see that each node agent can report for its own node alone, before what agents report is acted upon: without it nothing is";
const LIST: &str = "to fill the cache when it starts, and after a break";
const WATCH: &str = "to see changes as they happen";

/// Everything that the operator may do.
pub const RIGHTS: &[Right] = &[
    right(
        Scope::Cluster,
        "",
        "nodes",
        &[
            ("list", LIST),
            ("watch", WATCH),
            (
                "patch",
                "to cordon and uncordon a node that changes, with the label that says who did it, and to write nvidia.com/mig.config and nvidia.com/device-plugin.config",
            ),
        ],
    ),
    right(
        Scope::Cluster,
        "",
        "pods",
        &[
            (
                "list",
                "to fill the cache, to list the pods of a node before its slices are destroyed, and to see whether a pod \
                 still waits before it is told that its slice is free",
            ),
            ("watch", "to see which pods request slices, and which hold them"),
        ],
    ),
    right(
        Scope::Cluster,
        "",
        "pods/eviction",
        &[("create", "to evict pods that block a change, only where a policy says drain: Evict")],
    ),
    right(
        Scope::Cluster,
        "",
        "namespaces",
        &[
            ("list", LIST),
            ("watch", "to know their labels: a policy may count only the requests of some namespaces"),
        ],
    ),
    right(
        Scope::Cluster,
        "scheduling.k8s.io",
        "priorityclasses",
        &[("list", LIST), ("watch", "to know the priority of requests")],
    ),
    right(
        Scope::Cluster,
        "",
        "persistentvolumeclaims",
        &[("list", LIST), ("watch", "to know which volumes a pod that waits has")],
    ),
    right(
        Scope::Cluster,
        "",
        "persistentvolumes",
        &[
            ("list", LIST),
            ("watch", "to know which nodes can have a volume: a slice elsewhere serves nobody"),
        ],
    ),
    right(
        Scope::Cluster,
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &[
            ("list", "to know which foreign kinds exist (names only)"),
            ("watch", "to notice when they are added or removed (names only)"),
        ],
    ),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpupartitionpolicies",
        &[("list", LIST), ("watch", "to carry out the policies")],
    ),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpupartitionpolicies/status",
        &[("patch", "to report what is planned, what is done, and what cannot be served")],
    ),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpunodes",
        &[
            ("list", LIST),
            ("watch", WATCH),
            ("create", "to record the facts about a node, and the progress of its rollout"),
            ("patch", "to set the layout that a node should have"),
            ("delete", "to delete the record of a node when another node has its name"),
        ],
    ),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpunodes/status",
        &[("patch", "to record the progress of a rollout before each step on the node")],
    ),
    right(
        Scope::Cluster,
        "nvidia.com",
        "clusterpolicies",
        &[
            ("list", LIST),
            ("watch", "to know the MIG strategy, and which maps MIG manager and the device plugin read"),
        ],
    ),
    right(
        Scope::Cluster,
        "nvidia.com",
        "gpuclusters",
        &[("list", LIST), ("watch", "to leave GPUs alone that DRA manages")],
    ),
    right(
        Scope::Cluster,
        "kubeflow.org",
        "notebooks",
        &[("list", LIST), ("watch", "to see workbenches that should run; the operator never writes them")],
    ),
    right(
        Scope::Cluster,
        "infrastructure.opendatahub.io",
        "hardwareprofiles",
        &[("list", LIST), ("watch", "to know which profiles users are offered")],
    ),
    right(
        Scope::Cluster,
        "events.k8s.io",
        "events",
        &[
            ("create", "to inform users, on the node, the policy, the workbench and the pod"),
            ("list", "to report why the StatefulSet of a workbench creates no pod (of that set only)"),
        ],
    ),
    right(
        Scope::Cluster,
        "apps",
        "replicasets",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "apps",
        "statefulsets",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "batch",
        "jobs",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "jobset.x-k8s.io",
        "jobsets",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "ray.io",
        "rayclusters",
        &[("get", "to find the owners of a pod that requests slices (metadata only)")],
    ),
    Right {
        when: When::PatchClusterPolicy,
        ..right(
            Scope::Cluster,
            "nvidia.com",
            "clusterpolicies",
            &[(
                "patch",
                "to point spec.migManager.config.name and spec.devicePlugin.config.name to our maps, as the flags allow",
            )],
        )
    },
    Right {
        when: When::SecureMetrics,
        ..right(
            Scope::Cluster,
            "authentication.k8s.io",
            "tokenreviews",
            &[("create", "to identify the owner of a token that is presented at /metrics")],
        )
    },
    Right {
        when: When::SecureMetrics,
        ..right(
            Scope::Cluster,
            "authorization.k8s.io",
            "subjectaccessreviews",
            &[("create", "to check whether its owner may read metrics")],
        )
    },
    Right {
        when: When::ReadsQueues,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "workloads",
            &[("list", LIST), ("watch", "to see which workloads have quota and wait for their slices")],
        )
    },
    Right {
        when: When::ReadsQueues,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "admissionchecks",
            &[("list", LIST), ("watch", "to know which checks are the operator's")],
        )
    },
    Right {
        when: When::ReadsQueues,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "resourceflavors",
            &[("list", LIST), ("watch", "to know the nodes for which a quota is reserved")],
        )
    },
    Right {
        when: When::ReadsQueues,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "clusterqueues",
            &[
                ("list", LIST),
                ("watch", "to report quota that does not fit the layouts, or what people request"),
            ],
        )
    },
    Right {
        when: When::ReadsQueues,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "localqueues",
            &[("list", LIST), ("watch", "to know whose quota a workload gets")],
        )
    },
    Right {
        when: When::AnswersChecks,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "workloads/status",
            &[("patch", "to report whether the slices of a workload exist, in the entry of its own check")],
        )
    },
    Right {
        when: When::AnswersChecks,
        ..right(
            Scope::Cluster,
            "kueue.x-k8s.io",
            "admissionchecks/status",
            &[("patch", "to mark its own checks as active: a queue with an inactive check admits nothing")],
        )
    },
    Right {
        when: When::PlansProfiles,
        ..right(
            Scope::Cluster,
            "dscinitialization.opendatahub.io",
            "dscinitializations",
            &[
                ("list", LIST),
                ("watch", "to know in which namespace hardware profiles are offered to all projects"),
            ],
        )
    },
    Right {
        when: When::PlansProfiles,
        ..right(
            Scope::Cluster,
            "serving.kserve.io",
            "inferenceservices",
            &[
                ("list", LIST),
                ("watch", "to know which hardware profiles model servers name: these are not deleted"),
            ],
        )
    },
    Right {
        when: When::PlansProfiles,
        ..right(
            Scope::Cluster,
            "serving.kserve.io",
            "llminferenceservices",
            &[
                ("list", LIST),
                ("watch", "to know which hardware profiles model servers name: these are not deleted"),
            ],
        )
    },
    Right {
        when: When::PublishesProfiles,
        ..right(
            Scope::OpenShiftAi,
            "infrastructure.opendatahub.io",
            "hardwareprofiles",
            &[
                ("create", "to publish a hardware profile for a slice that the policies allow"),
                ("patch", "to disable it when no node can have the slice any more, and to enable it again"),
                ("delete", "to delete it once it is disabled and nothing names it"),
            ],
        )
    },
    right(
        Scope::Own,
        "coordination.k8s.io",
        "leases",
        &[("create", "to create the lease that decides which replica writes")],
    ),
    Right {
        name: AGENTS_POLICY,
        ..right(Scope::Cluster, ADMISSION, "validatingadmissionpolicies", &[("get", SEES_AGENTS_POLICY)])
    },
    Right {
        name: AGENTS_POLICY,
        ..right(
            Scope::Cluster,
            ADMISSION,
            "validatingadmissionpolicybindings",
            &[("get", SEES_AGENTS_POLICY)],
        )
    },
    Right {
        name: LEASE,
        ..right(
            Scope::Own,
            "coordination.k8s.io",
            "leases",
            &[
                ("get", "to see which replica has the lease, also before each disruptive step"),
                ("update", "to take, renew and give back the lease"),
            ],
        )
    },
    right(
        Scope::GpuOperator,
        "",
        "configmaps",
        &[
            (
                "list",
                "to read the maps of layouts and of the device plugin's configurations: ours, the administrators', those that ClusterPolicy names",
            ),
            ("watch", "to see when one of them changes"),
            ("create", "to create our maps"),
        ],
    ),
    Right {
        name: rollout::names::MAP_NAME,
        ..right(Scope::GpuOperator, "", "configmaps", &[("patch", "to write our map, and no other")])
    },
    Right {
        name: rollout::names::PLUGIN_MAP_NAME,
        ..right(
            Scope::GpuOperator,
            "",
            "configmaps",
            &[("patch", "to write our map of the device plugin's configurations, and no other")],
        )
    },
    right(Scope::GpuOperator, "", "pods", &[("delete", "to replace MIG manager's pod when it is stuck")]),
];
