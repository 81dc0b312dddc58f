//! The same in words.

use std::collections::BTreeMap;
use std::fmt;

use planner::names::PodRef;

use crate::names;

use super::{EVICTION, FailureReason, StartBlocker, Trouble, Unproven, WaitsFor};

fn list(pods: &[PodRef]) -> String {
    let names: Vec<_> = pods.iter().take(5).map(ToString::to_string).collect();
    let more = pods.len().saturating_sub(5);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names.join(", "))
}

fn vector(resources: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = resources.iter().map(|(name, n)| format!("{name}: {n}")).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn label_value(found: Option<&String>) -> String {
    found.map_or_else(|| "no value".to_owned(), |value| format!("`{value}`"))
}

impl fmt::Display for StartBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnforced => f.write_str("the policy is paused or only previews"),
            Self::Budget { unavailable, allowed, nodes } => {
                let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "at most {allowed} of the policy's nodes may be unavailable, and {unavailable} are"
                )?;
                if nodes.is_empty() { Ok(()) } else { write!(f, ": {}", nodes.join(", ")) }
            }
            Self::Window { opens: Some(at) } => write!(f, "no window is open; the next opens at {at}"),
            Self::Window { opens: None } => f.write_str("no window is open, and none will open"),
            Self::Cooldown { until } => write!(f, "the node was changed recently, and its cooldown lasts until {until}"),
            Self::BackedOff { until, why } => write!(f, "its change is retried at {until}: {why}"),
            Self::PodsInTheWay { pods } => {
                write!(f, "a slice that would be destroyed is, or may be, held by {}", list(pods))
            }
            Self::CordonedByOthers => f.write_str("somebody else cordoned the node"),
            Self::NotReady => f.write_str("the node is not ready"),
            Self::ForeignLayout { found, ours } => write!(
                f,
                "nvidia.com/mig.config has {}, which the operator did not write; the operator's value was `{ours}`",
                label_value(found.as_ref())
            ),
            Self::ForeignSharing { found, ours } => {
                write!(
                    f,
                    "nvidia.com/device-plugin.config has {}, which the operator did not write",
                    label_value(found.as_ref())
                )?;
                ours.as_ref().map_or(Ok(()), |ours| write!(f, "; the operator's value was `{ours}`"))
            }
            Self::PluginMapNotOurs => {
                f.write_str("ClusterPolicy does not point the device plugin to the map slicewright-plugin-config")
            }
            Self::PluginPodOfBefore { pod } => write!(
                f,
                "the pod {pod} still mounts another map than slicewright-plugin-config, to which ClusterPolicy points the device plugin; its DaemonSet replaces these pods node by node, and if this one stays, delete it"
            ),
            Self::SharingRefused { why } => write!(f, "its GPUs cannot be shared: {why}"),
            Self::SharingUnknown => f.write_str(
                "GPU feature discovery does not say which GPUs the node has (labels nvidia.com/gpu.product and nvidia.com/gpu.count)",
            ),
            Self::SharingMiscounted { expected, found } => write!(
                f,
                "the node offers {}, and GPU feature discovery counts {} (labels nvidia.com/gpu.product and nvidia.com/gpu.count): a GPU is unhealthy, the device plugin is restarting, or the node has GPUs of several models, which the device plugin cannot share",
                vector(found),
                vector(expected)
            ),
            Self::GpusHeld { pods } => {
                write!(
                    f,
                    "its GPUs cannot be shared in another way while pods hold, or may hold, them: {}",
                    list(pods)
                )
            }
            Self::ForeignWork { who } => write!(f, "{who} works on the node"),
            Self::HandsOff { who } => write!(f, "{who} manages the node's devices"),
            Self::NoClusterPolicy => f.write_str("there is no ClusterPolicy"),
            Self::ManagerDisabled => f.write_str("MIG manager is switched off"),
            Self::ManagerNotReady => f.write_str("MIG manager's pod is not ready"),
            Self::MapNotOurs => f.write_str("ClusterPolicy does not use the map slicewright-mig-config"),
            Self::RunInProgress { state } => write!(f, "MIG manager is at work (state `{state}`)"),
            Self::LayoutRefused(why) => write!(f, "{why}"),
            Self::NotAsVerified { expected, found } => {
                write!(f, "the node offers {}; verified was {}", vector(found), vector(expected))
            }
            Self::NotAsReported { expected, found } => write!(
                f,
                "the node offers {}, and by its agent its GPUs have {}: somebody else has changed them, a device is unhealthy, or the device plugin is restarting",
                vector(found),
                vector(expected)
            ),
            Self::AgentAway => f.write_str("the pod of the node's agent is not running or not ready"),
            Self::AgentUnguarded => write!(
                f,
                "what the node's agent reports is not acted upon: the operator does not see the ValidatingAdmissionPolicy {policy} and its binding, without which the agent of another node could have written it",
                policy = names::AGENTS_POLICY
            ),
            Self::AgentCannot { gpu } => {
                write!(
                    f,
                    "the agent cannot change {gpu}: MIG mode is off or has to be switched off, or the driver does not answer; MIG manager switches it if the node gets the label {}={}",
                    names::GIVE_BACK,
                    names::GIVE_BACK_NOW
                )
            }
            Self::HandingOver => {
                f.write_str("MIG manager is being switched off on the node, since its agent changes it")
            }
            Self::HandingBack => {
                f.write_str("the node is being given back to MIG manager, since no agent changes it any more")
            }
            Self::Released => f.write_str("an administrator released the node"),
            Self::Settling { until } => write!(
                f,
                "the data of the API went back in time, as after the restore of an older etcd backup; no node is changed until {until}"
            ),
            Self::WriteRefused { write, words } => {
                write!(f, "the API server refuses a write of the operator ({write}): \"{words}\"")
            }
            Self::WriteUndone { what, times } => write!(
                f,
                "another client has overwritten {what} {times} times in a row, so the operator writes it less often"
            ),
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MapWrite => f.write_str("the map's entry to be written"),
            Self::MapMount => f.write_str("the kubelet to deliver the map's entry to MIG manager"),
            Self::PluginMapWrite => f.write_str("the device plugin's configuration to be written"),
            Self::PluginMapMount => {
                f.write_str("the kubelet to deliver the configuration to the device plugin")
            }
            Self::SharingProof(Unproven::Stability) => f.write_str(
                "the GPUs to be usable (all are offered; the operator waits until this is stable)",
            ),
            Self::SharingProof(missing) => write!(f, "the GPUs to be usable ({missing})"),
            Self::Cordon => f.write_str("the cordon to be noticed"),
            Self::PodList => f.write_str("a consistent list of the node's pods"),
            Self::PodsStarting { pods } => write!(f, "pods to start or fail: {}", list(pods)),
            Self::PodsGoing { pods, refused } => {
                write!(f, "pods to go: {}", list(pods))?;
                refused.iter().try_for_each(|(pod, said)| write!(f, "{EVICTION} of {pod} refused: {said}"))
            }
            Self::Label => f.write_str("the label to be written"),
            Self::Pickup => f.write_str("MIG manager to take up the change"),
            Self::Change => f.write_str("MIG manager to finish"),
            Self::Reboot => f.write_str("the node to come back from its reboot"),
            Self::Proof(missing) => write!(f, "the slices to be schedulable ({missing})"),
            Self::ManagerPod => f.write_str("MIG manager's new pod"),
            Self::ForeignWork { who } => write!(f, "{who} to finish"),
            Self::AgentProof { missing } => write!(f, "the proof that no pod loses a slice ({missing})"),
            Self::Claim => f.write_str("the agent to start"),
            Self::Driver { gpu } => write!(f, "the driver to answer about {gpu}"),
            Self::AgentChange { restoring: false } => f.write_str("the agent to finish"),
            Self::AgentChange { restoring: true } => f.write_str("the agent to restore what it destroyed"),
            Self::Withdrawal => f.write_str("the agent's order to be withdrawn"),
            Self::Uncordon => f.write_str("the cordon to be lifted"),
        }
    }
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("the node is not ready"),
            Self::State => f.write_str("MIG manager has not reported success"),
            Self::OperandsPaused => f.write_str("operands are paused"),
            Self::PluginPod => f.write_str("the device plugin's new pod is not ready; if it lasts, read the log of the pod nvidia-device-plugin-daemonset of the node"),
            Self::DiscoveryPod => f.write_str("GPU feature discovery's pod is not ready, so its labels may be old ones; read the log of the pod gpu-feature-discovery of the node"),
            Self::MpsDaemon => f.write_str("the control daemon of MPS is not ready; read the log of the pod nvidia-device-plugin-mps-control-daemon of the node"),
            Self::MpsDaemonLeft => f.write_str("the control daemon of MPS is still there, and GPUs take no process but its own until it ends; look at the pod nvidia-device-plugin-mps-control-daemon of the node"),
            Self::Allocatable { expected, found } => {
                write!(f, "the node offers {}; expected is {}", vector(found), vector(expected))
            }
            Self::Shared { label } => write!(
                f,
                "its devices are shared (label {label}), so its resources say nothing about slices; let its device plugin use a configuration without sharing, and the node is uncordoned automatically"
            ),
            Self::Offered => f.write_str("kubelet does not offer what the GPUs have"),
            Self::CountLabels => f.write_str("the labels of GPU feature discovery are not up to date"),
            Self::SharingLabel { label, expected } => {
                write!(f, "the label {label} of GPU feature discovery does not say {expected}")
            }
            Self::PluginMapElsewhere => f.write_str(
                "ClusterPolicy no longer points the device plugin to the map slicewright-plugin-config, which has the key that the node's label names; point it there again (the policy's condition Degraded has the command)",
            ),
            Self::PluginPodOfBefore { pod } => write!(
                f,
                "the pod {pod} mounts another map than slicewright-plugin-config, which has the key that the node's label names; delete the pod, and the next one mounts the right map"
            ),
            Self::PluginKeyGone { key } => write!(
                f,
                "somebody removed the key `{key}` of the node from the map slicewright-plugin-config, or edited its text; the operator writes it again, and the device plugin finds it when kubelet has delivered it"
            ),
            Self::Stability => f.write_str("the slices are complete, and are watched for a moment"),
        }
    }
}

impl Trouble {
    /// Its name, for metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::WriteNotSeen => "WriteNotSeen",
            Self::PodsNotStarting { .. } => "PodsNotStarting",
            Self::PodsInTheWay { .. } => "PodsInTheWay",
            Self::Uncordoned => "Uncordoned",
            Self::NotPickedUp => "NotPickedUp",
            Self::ManagerFailed => "ManagerFailed",
            Self::ManagerWedged => "ManagerWedged",
            Self::TooSlow => "TooSlow",
            Self::NotBack => "NotBack",
            Self::NotSchedulable { .. } => "NotSchedulable",
            Self::GpusHeld { .. } => "GpusHeld",
            Self::NotShared { .. } => "NotShared",
            Self::HoldLifted => "HoldLifted",
            Self::NotProved { .. } => "NotProved",
            Self::NotClaimed => "NotClaimed",
            Self::AgentAway => "AgentAway",
            Self::AgentSlow => "AgentSlow",
            Self::NotOffered { .. } => "NotOffered",
            Self::AgentEnded { .. } => "AgentEnded",
            Self::ManagerGone => "ManagerGone",
            Self::Interrupted { .. } => "Interrupted",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteNotSeen => f.write_str("a write was not observed"),
            Self::PodsNotStarting { pods } => write!(f, "pods neither started nor failed: {}", list(pods)),
            Self::PodsInTheWay { pods, refused } => {
                write!(f, "a slice that would be destroyed is, or may be, held by {}", list(pods))?;
                refused.iter().try_for_each(|said| write!(f, "{EVICTION} refused: {said}"))
            }
            Self::Uncordoned => f.write_str("someone lifted the operator's cordon"),
            Self::NotPickedUp => f.write_str("MIG manager did not take up the change"),
            Self::ManagerFailed => f.write_str("MIG manager reported `failed`"),
            Self::ManagerWedged => f.write_str("MIG manager stopped and left operands paused"),
            Self::TooSlow => f.write_str("MIG manager did not finish in time"),
            Self::NotBack => f.write_str("the node did not come back from its reboot"),
            Self::NotSchedulable { missing } => {
                write!(f, "MIG manager reported `success`, but the slices were not schedulable: {missing}")
            }
            Self::GpusHeld { pods, refused } => {
                write!(f, "GPUs of the node are, or may be, held by {}", list(pods))?;
                refused.iter().try_for_each(|said| write!(f, "{EVICTION} refused: {said}"))
            }
            Self::NotShared { missing } => {
                write!(
                    f,
                    "the device plugin did not come to offer the GPUs as the policy shares them: {missing}"
                )
            }
            Self::HoldLifted => {
                f.write_str("somebody lifted the cordon, or resumed an operand that the operator had paused")
            }
            Self::NotProved { missing } => {
                write!(f, "it was not proved in time that no pod loses a slice: {missing}")
            }
            Self::NotClaimed => f.write_str("the agent did not start"),
            Self::AgentAway => f.write_str("the agent of the node is not there"),
            Self::AgentSlow => f.write_str("the agent did not finish in time"),
            Self::NotOffered { missing } => {
                write!(f, "the slices did not become schedulable: {missing}")
            }
            Self::AgentEnded { said } => write!(f, "the agent did not make the change: {said}"),
            Self::ManagerGone => f.write_str("MIG manager's pod did not come back"),
            Self::Interrupted { who } => write!(f, "{who} did not finish"),
        }
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChangeFailed(trouble) => write!(f, "the layout could not be reached: {trouble}"),
            Self::RollBackFailed(trouble) => {
                write!(f, "neither the layout nor the previous one could be reached: {trouble}")
            }
            Self::RestoreFailed(trouble) => {
                write!(f, "the previous layout could not be restored: {trouble}")
            }
            Self::SharingFailed(trouble) => {
                write!(f, "neither the sharing nor the previous one could be reached: {trouble}")
            }
            Self::ForeignSharing { found, ours } => write!(
                f,
                "nvidia.com/device-plugin.config became {} while the node was changing to {}",
                label_value(found.as_ref()),
                label_value(ours.as_ref())
            ),
            Self::ForeignLayout { found, ours } => write!(
                f,
                "nvidia.com/mig.config became {} while the node was changing to `{ours}`",
                label_value(found.as_ref())
            ),
        }
    }
}
