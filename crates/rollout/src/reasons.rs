//! Every reason why a node does not change, by name, with its meaning and what
//! an administrator should do. Conditions, events and the reference use these
//! texts; `docs/reference/rollout.md` is generated from here.

use crate::outlook::{FailureReason, StartBlocker};

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Its name, in `PascalCase`, as conditions have it.
    pub name: &'static str,
    /// What it means.
    pub means: &'static str,
    /// What a human should do; `NODE` and `VALUE` stand for the node and our label.
    pub help: &'static str,
}

macro_rules! reasons {
    ($($name:ident: $means:literal, $help:literal;)*) => {
        /// All reasons.
        pub const ALL: &[Reason] = &[$($name),*];
        $(#[allow(non_upper_case_globals, reason = "named as the reason is")]
        const $name: Reason = Reason { name: stringify!($name), means: $means, help: $help };)*
    };
}

reasons! {
    NotEnforced: "The policy is paused, only previews, or is gone.",
        "Set `spec.mode: Enforce` if the node should change.";
    Budget: "As many nodes as `spec.rollout.maxUnavailable` allows are unavailable, for whatever reason.",
        "No action is needed: the node changes when another node is available again. If nodes are down for good, repair them or raise `maxUnavailable`.";
    Window: "No window of the policy is open.",
        "No action is needed. Change `spec.rollout.windows` if the wait is too long.";
    Cooldown: "The node was changed recently, and its cooldown has not ended.",
        "No action is needed. Shorten `spec.rollout.cooldown` if the wait is too long.";
    BackedOff: "An earlier attempt at this layout was reverted or rolled back; it is repeated after a pause that doubles each time.",
        "Read the quoted error. Other layouts are not delayed.";
    PodsInTheWay: "Pods hold, or may hold, a slice that would be destroyed, and the policy does not allow their eviction (or evicted pods would return to the node).",
        "Wait until the pods end, stop them, or, for a static layout, set `spec.rollout.drain: Evict`.";
    CordonedByOthers: "Someone else cordoned the node. The operator neither changes nor uncordons it.",
        "Run `kubectl uncordon NODE` when the maintenance is finished.";
    NotReady: "The node is not ready.",
        "Repair the node.";
    ForeignLayout: "`nvidia.com/mig.config` has a value that the operator did not write. The operator never reverts it, and does not change the node.",
        "To restore the operator's layout, run `kubectl label node NODE nvidia.com/mig.config=VALUE --overwrite`. To keep the foreign layout, remove the node from the policy's `nodeSelector`, and run `slicewright release NODE`.";
    ForeignSharing: "`nvidia.com/device-plugin.config` has a value that the operator did not write. The operator never reverts it, and does not change how the node's GPUs are shared.",
        "If the policy is to decide, run `kubectl label node NODE nvidia.com/device-plugin.config=VALUE --overwrite` with the operator's value, or, where it has written none yet, remove the label with `kubectl label node NODE nvidia.com/device-plugin.config-`. To keep the other value, remove the node from the policy's `nodeSelector`.";
    PluginMapNotOurs: "`ClusterPolicy` does not point the device plugin to the map `slicewright-plugin-config`.",
        "Run `kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"devicePlugin\":{\"config\":{\"name\":\"slicewright-plugin-config\"}}}}'` (with Helm its name is `cluster-policy`). It restarts the device plugin and GPU feature discovery on every GPU node once; pods that run keep their GPUs.";
    PluginPodOfBefore: "`ClusterPolicy` points the device plugin to the map `slicewright-plugin-config`, and a pod of the node (of the device plugin, GPU feature discovery, or MPS's control daemon) still mounts the map of before. It would stop on a key that its map does not have, so nothing is changed before it is replaced. The DaemonSets replace these pods node by node, which takes a while in a large cluster.",
        "No action is needed while pods are being replaced. If it lasts, delete the pod that the message names: the next one mounts the right map.";
    SharingRefused: "The GPUs of the node cannot be shared as the policy says; the message says why.",
        "Change the policy, or remove the node from its `nodeSelector`.";
    SharingUnknown: "GPU feature discovery does not say which GPUs the node has, for example in the first minute after it starts; how they should be shared depends on it.",
        "No action is needed. If it lasts, look at the pod of GPU feature discovery on NODE.";
    SharingMiscounted: "No GPU of the node is shared yet, and it offers another number of devices than GPU feature discovery counts: a GPU is unhealthy, the device plugin is restarting, or the node has GPUs of several models, of which feature discovery labels one. What would be shared could not be verified.",
        "Look for XID errors and at the device plugin's pod on NODE. If NODE has GPUs of several models, remove it from the policy's `nodeSelector`.";
    GpusHeld: "A GPU can be switched between one pod and several pods only while no pod holds a GPU of the node. Otherwise a pod with a GPU of its own would have to share it. The number of pods that share a GPU is lowered as soon as the present pods fit the new number.",
        "Wait until the pods end, stop them, or, for a layout of type `Static` or `None`, set `spec.rollout.drain: Evict`.";
    ForeignWork: "The Machine Config Operator or a driver upgrade works on the node.",
        "Wait until this work is finished; investigate if it does not end.";
    HandsOff: "DRA (`GPUCluster`) or DAS manages the node's devices.",
        "Remove the node from the policy's `nodeSelector`.";
    NoClusterPolicy: "There is no `ClusterPolicy`: the GPU Operator is not configured.",
        "Install the GPU Operator and create its `ClusterPolicy`.";
    ManagerDisabled: "MIG manager is disabled, by `ClusterPolicy` or by the label `nvidia.com/gpu.deploy.mig-manager`.",
        "Set `spec.migManager.enabled: true`, and the node's label to `true`.";
    ManagerNotReady: "MIG manager's pod does not exist or is not ready.",
        "Look at the pods of the DaemonSet `nvidia-mig-manager` on NODE.";
    MapNotOurs: "`ClusterPolicy` does not use the map `slicewright-mig-config`.",
        "Run `kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"migManager\":{\"config\":{\"name\":\"slicewright-mig-config\"}}}}'` (with Helm its name is `cluster-policy`).";
    RunInProgress: "MIG manager is applying a layout that the operator did not request, or it has paused operands and not resumed them.",
        "Wait. If it lasts longer than half an hour, delete MIG manager's pod on NODE.";
    LayoutRefused: "The layout cannot be applied under the cluster's MIG strategy, leaves a GPU without slices, or cuts a node whose GPUs are shared through MPS.",
        "Change the policy's layout, or set `spec.mig.strategy: mixed` in `ClusterPolicy`; where GPUs are shared through MPS, write `sharing: {type: None}` into the policy instead.";
    NotAsVerified: "The node offers other slices than those that were verified, although it did not reboot: a device is unhealthy, or the device plugin is restarting.",
        "Look for XID errors and at the device plugin's pod on NODE. A device that became unhealthy comes back only when the plugin restarts.";
    NotAsReported: "The node offers other slices than its agent reports: somebody has changed its GPUs without Slicewright (with nvidia-smi, for example), a device is unhealthy, or the device plugin is restarting. What is there stays as it is, and the node is not planned for.",
        "If somebody has changed the GPUs, delete the device plugin's pod on NODE (`kubectl get pods -A -l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName=NODE`): its next pod offers what there is, and the operator plans from that. Otherwise look for XID errors. A device that became unhealthy comes back only when the plugin restarts.";
    AgentAway: "The agent changes the slices of the node, and its pod does not run, is not ready, or has not reported since the node booted. Pods on the node are not affected; its layout stays.",
        "Look at the agent's pod on NODE: `kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName=NODE`.";
    AgentUnguarded: "The agent changes the slices of the node, and the operator does not see the ValidatingAdmissionPolicy `slicewright-agent` and its binding, which keep each agent to the `GpuNode` of its own node. Without them the agent of any node could report for this one, so its report is not acted upon. Pods on the node are not affected; its layout stays.",
        "Install the chart with `agent.admissionPolicy=true`, or apply what `helm template slicewright charts/slicewright --set agent.enabled=true --show-only templates/agent.yaml` renders. If both are there, let the operator's account `get` them: `docs/reference/rbac.md`.";
    AgentCannot: "The agent of the node cannot change a GPU of the plan: MIG mode is off or is to be switched off, or NVIDIA's driver does not answer about it.",
        "Read `status.observed` of the node's `GpuNode`: `driverError` quotes the driver. Only MIG manager can switch MIG mode. Give it the node with `kubectl label node NODE slicewright.io/give-back=true`, and remove the label (`slicewright.io/give-back-`) when the node has the planned layout.";
    HandingOver: "The operator is switching MIG manager off on the node, because the agent changes its slices from now on. No slice changes.",
        "No action is needed.";
    HandingBack: "No agent changes the node any more: the operator gives it back to MIG manager, with an entry of the map that describes what the GPUs have. No slice changes.",
        "No action is needed. If it lasts, see that `ClusterPolicy` uses the map `slicewright-mig-config`.";
    Released: "An administrator ended the rollout. The operator does not change the node.",
        "Run `slicewright release NODE --resume` when the node may be changed again.";
    Settling: "The data of the API went back in time, as after the restore of an older etcd backup. For two minutes the operator changes no node, so that kubelets and controllers can adapt to the restored state.",
        "No action is needed, but read the runbook SlicewrightDataWentBack: the GPUs of nodes that were being changed may differ from what the API says.";
    WriteRefused: "The API server refuses writes of the operator for this node: permissions are missing, or an admission policy or webhook denies the write. The error is quoted.",
        "Allow the write to the operator's service account in the object that the error names: a role, a ValidatingAdmissionPolicy, or a webhook. The operator retries automatically, at least once a minute.";
    WriteUndone: "Another client overwrites the status of the node's `GpuNode`, in which the operator records its progress, each time. The operator writes it less and less often, and does not change the node.",
        "Find the client with `kubectl get gpunode NODE -o yaml --show-managed-fields`, and stop it: only Slicewright may write that status.";
    ChangeFailed: "The layout could not be reached; a retry, a new MIG manager pod, and a rollback (if there was a previous layout) did not help. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE. The operator notices when the node has a correct layout again, and uncordons it. To end the rollout and uncordon the node with its present layout, run `slicewright release NODE`.";
    RollBackFailed: "Neither the layout nor the previous one could be reached. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE; a reboot ends any process that holds a GPU. The operator notices when the node has a correct layout again, and uncordons it. To end the rollout and uncordon the node with its present layout, run `slicewright release NODE`.";
    RestoreFailed: "The layout from before a reboot, or from before MIG manager ran on its own, could not be restored. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE. The operator notices when the node has a correct layout again, and uncordons it. To end the rollout and uncordon the node with its present layout, run `slicewright release NODE`.";
    SharingFailed: "The device plugin did not offer the GPUs as the policy shares them, and not as before either. The node stays cordoned and counts as unavailable.",
        "Read the log of the device plugin's pod on NODE. The operator notices when the node offers what its key says, and uncordons it. To end the rollout and uncordon the node as it is, run `slicewright release NODE`.";
    ForeignSharingMidway: "Someone else wrote `nvidia.com/device-plugin.config` while the node was changing. The operator does not revert it; the node stays cordoned.",
        "To go on, run `kubectl label node NODE nvidia.com/device-plugin.config=VALUE --overwrite`. To keep the other value, remove the node from the policy's `nodeSelector`, and run `slicewright release NODE`.";
    ForeignLayoutMidway: "Someone else wrote `nvidia.com/mig.config` while the node was changing. The operator does not revert it; once that layout is verified, the node is uncordoned and no longer changed (`ForeignLayout`).",
        "To restore the operator's layout, run `kubectl label node NODE nvidia.com/mig.config=VALUE --overwrite`. To keep the foreign layout, remove the node from the policy's `nodeSelector`, and run `slicewright release NODE`.";
}

impl Reason {
    fn for_node(&self, node: &str, value: Option<&str>) -> String {
        let help = self.help.replace("NODE", node);
        value.map_or_else(|| help.clone(), |value| help.replace("VALUE", value))
    }
}

impl StartBlocker {
    /// The reason's name, meaning and help.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotEnforced => NotEnforced,
            Self::Budget { .. } => Budget,
            Self::Window { .. } => Window,
            Self::Cooldown { .. } => Cooldown,
            Self::BackedOff { .. } => BackedOff,
            Self::PodsInTheWay { .. } => PodsInTheWay,
            Self::CordonedByOthers => CordonedByOthers,
            Self::NotReady => NotReady,
            Self::ForeignLayout { .. } => ForeignLayout,
            Self::ForeignSharing { .. } => ForeignSharing,
            Self::PluginMapNotOurs => PluginMapNotOurs,
            Self::PluginPodOfBefore { .. } => PluginPodOfBefore,
            Self::SharingRefused { .. } => SharingRefused,
            Self::SharingUnknown => SharingUnknown,
            Self::SharingMiscounted { .. } => SharingMiscounted,
            Self::GpusHeld { .. } => GpusHeld,
            Self::ForeignWork { .. } => ForeignWork,
            Self::HandsOff { .. } => HandsOff,
            Self::NoClusterPolicy => NoClusterPolicy,
            Self::ManagerDisabled => ManagerDisabled,
            Self::ManagerNotReady => ManagerNotReady,
            Self::MapNotOurs => MapNotOurs,
            Self::RunInProgress { .. } => RunInProgress,
            Self::LayoutRefused(_) => LayoutRefused,
            Self::NotAsVerified { .. } => NotAsVerified,
            Self::NotAsReported { .. } => NotAsReported,
            Self::AgentAway => AgentAway,
            Self::AgentUnguarded => AgentUnguarded,
            Self::AgentCannot { .. } => AgentCannot,
            Self::HandingOver => HandingOver,
            Self::HandingBack => HandingBack,
            Self::Released => Released,
            Self::Settling { .. } => Settling,
            Self::WriteRefused { .. } => WriteRefused,
            Self::WriteUndone { .. } => WriteUndone,
        }
    }

    /// What a human should do, with the commands for this node.
    #[must_use]
    pub fn help(&self, node: &str) -> String {
        let value = match self {
            Self::ForeignLayout { ours, .. } => Some(ours.as_str()),
            Self::ForeignSharing { ours, .. } => ours.as_deref(),
            _ => None,
        };
        self.reason().for_node(node, value)
    }
}

impl FailureReason {
    /// The reason's name, meaning and help.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::ChangeFailed(_) => ChangeFailed,
            Self::RollBackFailed(_) => RollBackFailed,
            Self::RestoreFailed(_) => RestoreFailed,
            Self::SharingFailed(_) => SharingFailed,
            Self::ForeignSharing { .. } => ForeignSharingMidway,
            Self::ForeignLayout { .. } => ForeignLayoutMidway,
        }
    }

    /// What a human should do, with the commands for this node.
    #[must_use]
    pub fn help(&self, node: &str) -> String {
        let value = match self {
            Self::ForeignLayout { ours, .. } => Some(ours.as_str()),
            Self::ForeignSharing { ours, .. } => ours.as_deref(),
            Self::ChangeFailed(_)
            | Self::RollBackFailed(_)
            | Self::RestoreFailed(_)
            | Self::SharingFailed(_) => None,
        };
        self.reason().for_node(node, value)
    }
}
