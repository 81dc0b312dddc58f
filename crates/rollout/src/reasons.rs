//! Every reason why a node does not move, by name, with what it means and
//! what a human should do. Conditions, events and the reference use these
//! words; `docs/reference/rollout.md` is generated from here.

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
        "Nothing, or set `spec.mode: Enforce`.";
    Budget: "As many nodes as `spec.rollout.maxUnavailable` allows are unavailable, for whatever reason.",
        "Nothing: it is this node's turn when another is back. If nodes are down for good, repair them or raise `maxUnavailable`.";
    Window: "No window of the policy is open.",
        "Nothing, or change `spec.rollout.windows`.";
    Cooldown: "The node changed a moment ago and rests.",
        "Nothing, or shorten `spec.rollout.cooldown`.";
    BackedOff: "An earlier attempt at this layout was taken back or rolled back; it is repeated after a pause that doubles each time.",
        "Read the error that is quoted. Another layout is not held back by this.";
    PodsInTheWay: "Pods hold, or may hold, a slice that would go, and the policy does not allow to evict them (or eviction would only bring them back).",
        "Wait for them, stop them, or, for a static layout, set `spec.rollout.drain: Evict`.";
    CordonedByOthers: "Somebody else cordoned the node. We neither change nor uncordon it.",
        "`kubectl uncordon NODE` when their work is done.";
    NotReady: "The node is not ready.",
        "Repair the node.";
    ForeignLayout: "`nvidia.com/mig.config` has a value that we did not write. It is never reverted, and the node is frozen.",
        "Give it back: `kubectl label node NODE nvidia.com/mig.config=VALUE --overwrite`. Keep theirs: take the node out of the policy's `nodeSelector`, and run `slicewright release NODE`.";
    ForeignWork: "The Machine Config Operator or a driver upgrade works on the node.",
        "Wait until it is done; look into it if it does not end.";
    HandsOff: "DRA (`GPUCluster`) or DAS manages the node's devices.",
        "Take the node out of the policy's `nodeSelector`.";
    NoClusterPolicy: "There is no `ClusterPolicy`: the GPU Operator is not set up.",
        "Install the GPU Operator and create its `ClusterPolicy`.";
    ManagerDisabled: "MIG manager is switched off, by `ClusterPolicy` or by the label `nvidia.com/gpu.deploy.mig-manager`.",
        "Set `spec.migManager.enabled: true`, and the node's label to `true`.";
    ManagerNotReady: "MIG manager's pod is not there, or not ready.",
        "Look at the pods of the DaemonSet `nvidia-mig-manager` on NODE.";
    MapNotOurs: "`ClusterPolicy` does not use the map `slicewright-mig-config`.",
        "`kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"migManager\":{\"config\":{\"name\":\"slicewright-mig-config\"}}}}'` (with Helm its name is `cluster-policy`).";
    RunInProgress: "MIG manager is at work, and not for us, or left operands parked.",
        "Wait. If it lasts longer than half an hour, delete MIG manager's pod on NODE.";
    LayoutRefused: "The layout cannot be applied under the cluster's MIG strategy, or leaves a GPU without slices.",
        "Change the policy's layout, or set `spec.mig.strategy: mixed` in `ClusterPolicy`.";
    NotAsVerified: "The node offers something else than was proved, without a reboot: a device is unhealthy, or the device plugin is restarting.",
        "Look for XID errors and at the device plugin's pod on NODE. A device that became unhealthy comes back only when the plugin restarts.";
    Released: "A human ended the rollout. We do nothing to the node.",
        "`slicewright release NODE --resume` when it may be changed again.";
    Settling: "The API's data went back in time, as after an older copy of etcd was put back. For two minutes nothing is done to any node, so that kubelets and controllers come to terms with what is true now.",
        "Nothing, but read the runbook SlicewrightDataWentBack: nodes that were being changed may not be as the API says.";
    WriteRefused: "The API server refuses what we write for this node: rights are missing, or an admission policy or webhook denies it. The refuser's own words are quoted.",
        "Allow the write to the operator's service account, in what the words name: a role, a ValidatingAdmissionPolicy, a webhook. It is tried again by itself, at least once a minute.";
    WriteUndone: "Somebody else changes the status of the node's `GpuNode`, in which we remember what we do, each time that we have written it. We write it less and less often, and nothing is done to the node.",
        "Find out who it is with `kubectl get gpunode NODE -o yaml --show-managed-fields`, and stop them: nobody but Slicewright writes that status.";
    ChangeFailed: "The layout could not be reached; a retry, a new MIG manager pod, and going back (where there was something to go back to) did not help. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE. When the node is right again it is noticed and uncordoned; to end the rollout and uncordon it as it is, run `slicewright release NODE`.";
    RollBackFailed: "Neither the layout nor the one before could be reached. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE; a reboot clears what holds a GPU. When the node is right again it is noticed and uncordoned; to end the rollout and uncordon it as it is, run `slicewright release NODE`.";
    RestoreFailed: "What the node had before a reboot, or before MIG manager ran by itself, did not come back. The node stays cordoned and counts as unavailable.",
        "Read MIG manager's log on NODE. When the node is right again it is noticed and uncordoned; to end the rollout and uncordon it as it is, run `slicewright release NODE`.";
    ForeignLayoutMidway: "Somebody wrote `nvidia.com/mig.config` while the node was changing. It is not reverted; once their layout is proved schedulable, the node is uncordoned and frozen as `ForeignLayout`.",
        "Give it back: `kubectl label node NODE nvidia.com/mig.config=VALUE --overwrite`. Keep theirs: take the node out of the policy's `nodeSelector`, and run `slicewright release NODE`.";
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
            Self::ForeignWork { .. } => ForeignWork,
            Self::HandsOff { .. } => HandsOff,
            Self::NoClusterPolicy => NoClusterPolicy,
            Self::ManagerDisabled => ManagerDisabled,
            Self::ManagerNotReady => ManagerNotReady,
            Self::MapNotOurs => MapNotOurs,
            Self::RunInProgress { .. } => RunInProgress,
            Self::LayoutRefused(_) => LayoutRefused,
            Self::NotAsVerified { .. } => NotAsVerified,
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
            Self::ForeignLayout { .. } => ForeignLayoutMidway,
        }
    }

    /// What a human should do, with the commands for this node.
    #[must_use]
    pub fn help(&self, node: &str) -> String {
        let value = match self {
            Self::ForeignLayout { ours, .. } => Some(ours.as_str()),
            Self::ChangeFailed(_) | Self::RollBackFailed(_) | Self::RestoreFailed(_) => None,
        };
        self.reason().for_node(node, value)
    }
}
