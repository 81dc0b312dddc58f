//! Our field managers: one for each concern, so that whose a field is can be read from the object.

use super::Manager;

/// `spec.unschedulable`, `slicewright.io/cordoned-by` and NVIDIA's labels of nodes.
pub const NODE: Manager = Manager { name: rollout::names::FIELD_MANAGER, ours_alone: false };
/// A map that has the name of ours, and may be somebody else's.
pub const MAP: Manager = Manager { name: "slicewright-map", ours_alone: false };
/// A map that we have made. What somebody else writes into what we wrote there is taken back.
pub const OUR_MAP: Manager = Manager { ours_alone: true, ..MAP };
/// The map reference of `ClusterPolicy`, where the flag allows it.
pub const CLUSTER_POLICY: Manager = Manager { name: "slicewright-clusterpolicy", ours_alone: false };
/// `GpuNode`: the layout that is wanted.
pub const PLAN: Manager = Manager { name: "slicewright-plan", ours_alone: true };
/// `GpuNode.status.observed`, where no agent writes it.
pub const OBSERVED: Manager = Manager { name: "slicewright-observed", ours_alone: false };
/// `GpuNode.status.rollout` and its conditions.
pub const ROLLOUT: Manager = Manager { name: "slicewright-rollout", ours_alone: true };
/// The status of policies.
pub const STATUS: Manager = Manager { name: "slicewright-status", ours_alone: true };
/// What our admission checks say, in the status of Kueue's workloads: one
/// entry of a list. Kueue makes the entry, resets it, and gives it to whoever
/// the check names, so that it is taken from Kueue by force; a version in
/// every write sees to it that nothing newer is overwritten.
pub const KUEUE: Manager = Manager { name: "slicewright-kueue", ours_alone: true };
/// The hardware profiles that we publish.
pub const MENU: Manager = Manager { name: "slicewright-profiles", ours_alone: false };
/// Events.
pub const EVENTS: Manager = Manager { name: "slicewright-events", ours_alone: true };
/// The scale of the operator's own Deployment, when it is uninstalled.
pub const RELEASE: Manager = Manager { name: "slicewright-release", ours_alone: false };
/// The lease.
pub const LEASE: Manager = Manager { name: "slicewright-lease", ours_alone: true };
/// The agent of a node: `GpuNode.status.agent`, and `status.observed` but its
/// labels, which only the operator knows.
pub const AGENT: Manager = Manager { name: "slicewright-agent", ours_alone: false };
