//! A write (or a consistent read) that is due now, with the state on which the decision was based. A write
//! whose precondition no longer holds must fail; the next call then decides again.

use planner::names::PodRef;

use crate::layout::NodeLayout;
use crate::sharing::PluginConfig;

/// One step. The caller does them in order and stops at the first that fails;
/// an eviction that is refused is an answer, not a failure, and the next is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a layout's entry and its two aliases into our map (see [`crate::map`]).
    EnsureMapEntry {
        /// The layout.
        layout: NodeLayout,
        /// The entry's name.
        entry: String,
        /// The map's resource version; `None` when there is no map yet.
        if_map_version: Option<String>,
    },
    /// Cordon the node and set `slicewright.io/cordoned-by` in the same merge
    /// patch. On a node that we cordoned it puts back the label alone.
    Cordon {
        /// The node's resource version.
        if_version: String,
    },
    /// Uncordon and remove `slicewright.io/cordoned-by` in the same merge patch.
    Uncordon {
        /// The node's resource version.
        if_version: String,
    },
    /// Remove `slicewright.io/cordoned-by` only: somebody else uncordoned, or
    /// the cordon is theirs now.
    RemoveCordonedBy {
        /// The node's resource version.
        if_version: String,
    },
    /// List the node's pods with a consistent read, not from the cache.
    ListPods,
    /// Evict a pod by the eviction API; what it refuses comes back as a
    /// [`crate::observed::Refusal`].
    Evict {
        /// The pod.
        pod: PodRef,
        /// Its uid.
        if_uid: String,
    },
    /// Set `nvidia.com/mig.config`, and clear `nvidia.com/mig.config.state`,
    /// in one merge patch.
    SetConfigLabel {
        /// The value.
        value: String,
        /// Whether the stale state goes with it (not while MIG manager reads
        /// it for `rebooting`).
        clear_state: bool,
        /// The node's resource version.
        if_version: String,
    },
    /// Put a configuration of the device plugin into our map of them (see
    /// [`crate::sharing`]).
    EnsurePluginConfig {
        /// Its key.
        key: String,
        /// The configuration.
        config: PluginConfig,
    },
    /// Set `nvidia.com/device-plugin.config`, or remove it.
    SetPluginConfigLabel {
        /// The value; `None` removes the label.
        value: Option<String>,
        /// The node's resource version.
        if_version: String,
    },
    /// Delete MIG manager's pod, so that its DaemonSet brings a new one.
    DeletePod {
        /// The pod.
        pod: PodRef,
        /// Its uid.
        if_uid: String,
    },
    /// Set operand labels that MIG manager left parked back to `true`: the
    /// last resort, when it will not do so itself.
    UnpauseOperands {
        /// The labels.
        labels: Vec<String>,
        /// The node's resource version.
        if_version: String,
    },
    /// In one merge patch: cordon the node, set `slicewright.io/cordoned-by`, and
    /// set the deploy labels of the device plugin, DCGM and its exporter to
    /// `paused-for-slicewright`, as far as they are `true`.
    HoldForAgent {
        /// The labels.
        labels: Vec<String>,
        /// The node's resource version.
        if_version: String,
    },
    /// Set the labels that we paused back to `true`.
    ResumeOperands {
        /// The labels.
        labels: Vec<String>,
        /// The node's resource version.
        if_version: String,
    },
    /// Switch MIG manager off on a node that its agent changes: set
    /// `nvidia.com/gpu.deploy.mig-manager` to `false`.
    StandDownManager {
        /// The node's resource version.
        if_version: String,
    },
    /// Give a node that its agent changed back to MIG manager. In one merge
    /// patch: set `nvidia.com/mig.config` to an entry that describes what the
    /// node has, clear its state, and switch MIG manager on. It then finds that
    /// nothing is to be changed.
    HandBack {
        /// The entry.
        value: String,
        /// Whether MIG manager is switched on: where it was not us who switched
        /// it off, it stays off.
        with_manager: bool,
        /// The node's resource version.
        if_version: String,
    },
}

impl Action {
    /// Whether it may cost somebody a slice, or a node: what is not begun
    /// without the lease, nor on a plan that breaks a rule.
    #[must_use]
    pub const fn is_disruptive(&self) -> bool {
        match self {
            Self::Cordon { .. }
            | Self::Evict { .. }
            | Self::SetConfigLabel { .. }
            | Self::SetPluginConfigLabel { .. }
            | Self::DeletePod { .. }
            | Self::UnpauseOperands { .. }
            | Self::HoldForAgent { .. }
            | Self::StandDownManager { .. }
            | Self::HandBack { .. } => true,
            Self::EnsureMapEntry { .. }
            | Self::EnsurePluginConfig { .. }
            | Self::Uncordon { .. }
            | Self::RemoveCordonedBy { .. }
            | Self::ResumeOperands { .. }
            | Self::ListPods => false,
        }
    }

    /// Its name, for logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EnsureMapEntry { .. } => "EnsureMapEntry",
            Self::Cordon { .. } => "Cordon",
            Self::Uncordon { .. } => "Uncordon",
            Self::RemoveCordonedBy { .. } => "RemoveCordonedBy",
            Self::ListPods => "ListPods",
            Self::Evict { .. } => "Evict",
            Self::SetConfigLabel { .. } => "SetConfigLabel",
            Self::EnsurePluginConfig { .. } => "EnsurePluginConfig",
            Self::SetPluginConfigLabel { .. } => "SetPluginConfigLabel",
            Self::DeletePod { .. } => "DeletePod",
            Self::UnpauseOperands { .. } => "UnpauseOperands",
            Self::HoldForAgent { .. } => "HoldForAgent",
            Self::ResumeOperands { .. } => "ResumeOperands",
            Self::StandDownManager { .. } => "StandDownManager",
            Self::HandBack { .. } => "HandBack",
        }
    }
}
