//! Which scenarios can run on real GPU nodes. Those that can are marked in the code
//! ([`scenario_on_any_nodes`](crate::scenario_on_any_nodes)); for the others this module has the reasons,
//! by the beginning of their names.

/// What is not there on real nodes, or makes no difference there.
const WHY: &[(&str, &str)] = &[
    ("admission_steps::", "Kueue is a process beside the control plane there"),
    ("agent::", "its agents are processes beside virtual nodes"),
    (
        "agent_changes::",
        "its agents and kubelets are processes beside virtual nodes, and their GPUs are simulated",
    ),
    (
        "agent_evictions::",
        "its agents and kubelets are processes beside virtual nodes, and their GPUs are simulated",
    ),
    (
        "agent_handover::",
        "its agents and kubelets are processes beside virtual nodes, and their GPUs are simulated",
    ),
    (
        "agent_reboots::",
        "its agents and kubelets are processes beside virtual nodes, and their GPUs are simulated",
    ),
    ("alerts::", "it is about what is scraped from the operator, and makes virtual nodes fail"),
    ("apart::", "it wants four nodes with eight GPUs each"),
    (
        "bad_weather::",
        "it stops the leader, and gives up calls and the lease sooner than an operator there does",
    ),
    ("bounds::", "it counts slices of a fleet of its own: nodes with one GPU each"),
    ("budget::", "it wants ten nodes"),
    ("clocks::", "it counts slices of a fleet of its own, in four changes one after another"),
    ("cluster_faults::", "it lets things go wrong on virtual nodes"),
    ("cluster_workbenches::", "it wants a user's own CPU request kept, and small workers cannot host it"),
    ("comparison::", "this part of it wants virtual nodes"),
    ("contested::", "it wants two free nodes of its own"),
    ("crashes::", "it begins anew at each step of a rollout: an hour where a minute is a minute"),
    ("crds::", "it is about the API server alone"),
    ("demand::", "it wants nodes with one GPU each, or more CPU than there is"),
    ("demo_ends::", "it is about the control plane that the demo starts"),
    ("foreign_hands::", "it plays with the names of layouts of a fleet of its own"),
    ("gitops_tools::", "it reads the audit log"),
    ("hostile_pods::", "it measures the memory of an operator in the test's own process"),
    ("impostors::", "it makes MIG manager get stuck, and its agent is a process beside a virtual node"),
    ("installation::", "it is about the chart and the API server alone"),
    ("menu::", "OpenShift AI's own namespace and installation are not there on the kind cluster"),
    ("metrics::", "it is about what is scraped from the operator"),
    ("mid_way::", "it takes nodes away and restarts them, or reads the audit log"),
    ("model_servers::", "it wants two nodes with eight GPUs each"),
    ("modes::", "it reads the audit log"),
    ("nothing_can_be_done::", "it takes our CRDs, and a namespace, from a running operator"),
    ("olm_bundle::", "it is about the bundle and the API server alone"),
    ("onboarding::", "it lets things go wrong on virtual nodes, or wants a fleet of its own"),
    ("openshift_ai::", "it takes OpenShift AI's CRDs away, which came with the kind cluster"),
    ("other_stacks::", "it wants clusters that are set up in other ways"),
    ("owners::", "it makes a node of its own go and come back, or starts with a fleet of its own"),
    ("pod_groups::", "the controllers are processes beside the control plane there"),
    ("pods_in_the_way::", "it tells a pod when to start"),
    ("queues::", "Kueue is a process beside the control plane there"),
    ("queues_later::", "Kueue is a process beside the control plane there"),
    ("quiet::", "it counts what an operator says at rest, where nothing else moves"),
    ("quota::", "Kueue is a process beside the control plane there"),
    ("refusals::", "this part of it wants virtual nodes"),
    ("refused_writes::", "it keeps everybody's nodes, maps or events from being written"),
    ("release::", "it lets things go wrong on virtual nodes"),
    ("restless::", "it restarts the API server, deletes what is remembered, or wants twenty nodes"),
    ("restored_etcd::", "it puts back etcd's data, which are not ours there"),
    ("reviewed::", "it is about the API server alone"),
    ("seed_000::", "it wants strategy single, and the kind cluster is set up with mixed"),
    ("selectors::", "it counts the nodes of a fleet of its own"),
    ("sharing::", "it wants cards without MIG, or makes MPS's daemon fail"),
    ("sidecars::", "it wants two nodes with eight GPUs each"),
    ("snapshot::", "it reads what virtual nodes say and the simulator knows"),
    ("soak::", "it lets things go wrong on virtual nodes, and its agents are processes beside them"),
    ("static_policy::", "this part of it wants virtual nodes"),
    ("support_bundle::", "it counts the files that a fleet of its own leaves behind"),
    ("topology::", "Kueue is a process beside the control plane there"),
    ("trouble::", "it lets things go wrong on virtual nodes"),
    ("tutorial::", "it walks through a cluster that is not set up yet"),
    ("unmade::", "it wants two nodes with eight GPUs each"),
    ("versions::", "it is about the API server alone"),
    ("virtual_nodes::", "it is about the virtual nodes themselves"),
    ("volumes::", "it wants three nodes with eight GPUs each"),
    ("whole_gpus::", "it wants a node with eight GPUs"),
    ("zones::", "Kueue is a process beside the control plane there"),
];

/// Why a scenario is left out where GPU nodes are real; `None` when nobody
/// has said it yet.
#[must_use]
pub fn why_not_on_real_nodes(scenario: &str) -> Option<&'static str> {
    WHY.iter().find(|(beginning, _)| scenario.starts_with(beginning)).map(|(_, why)| *why)
}
