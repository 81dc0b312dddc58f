//! The closed list of conditions, their reasons, and how they are set.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The types of conditions; there are no others.
pub mod kind {
    /// The spec is valid.
    pub const ACCEPTED: &str = "Accepted";
    /// The plan serves what it can, and says what it cannot.
    pub const PLANNED: &str = "Planned";
    /// Every node has its layout.
    pub const READY: &str = "Ready";
    /// Nodes are being changed. Present only while true.
    pub const RECONCILING: &str = "Reconciling";
    /// An administrator has to act. Present only while true.
    pub const STALLED: &str = "Stalled";
    /// The policy works, but not as it should. Present only while true.
    pub const DEGRADED: &str = "Degraded";
}

/// Declares reasons, and the list of them with their meaning: the reference
/// prints what the documentation of each says.
macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $name:ident = $word:literal;)+) => {
        /// Reasons, one word each.
        pub mod reason {
            $($(#[doc = $meaning])+ pub const $name: &str = $word;)+

            /// All of them, each with its meaning.
            pub const ALL: &[(&str, &str)] = &[$(($name, concat!($($meaning),+))),+];
        }
    };
}

reasons! {
    /// The operator has not seen the object yet.
    PENDING = "Pending";
    /// The spec is valid.
    VALID = "Valid";
    /// The spec is not valid; the message names the field.
    INVALID = "Invalid";
    /// No GPU model of the nodes has a profile that the spec names.
    UNKNOWN_PROFILE = "UnknownProfile";
    /// Another policy applies to every node that this policy selects.
    OVERRULED = "Overruled";
    /// The policy selects no node with GPUs.
    NO_NODES = "NoNodes";
    /// A demand-driven layout needs MIG strategy `mixed`.
    STRATEGY_SINGLE = "StrategySingle";
    /// All requests are served.
    DEMAND_SERVED = "DemandServed";
    /// Some requests are not served.
    DEMAND_UNSERVED = "DemandUnserved";
    /// A floor or a spare is not met.
    BOUND_UNMET = "BoundUnmet";
    /// Every node has its layout.
    CONVERGED = "Converged";
    /// Nodes are being changed.
    CHANGING = "Changing";
    /// Nodes wait for the budget, a window, the cooldown or pods.
    WAITING = "Waiting";
    /// The policy only shows what it would do.
    PREVIEW = "Preview";
    /// The policy starts no new changes.
    PAUSED = "Paused";
    /// A change failed, and an administrator has to act.
    ROLLOUT_FAILED = "RolloutFailed";
    /// A node has a layout that the operator did not choose.
    FOREIGN_LAYOUT = "ForeignLayout";
    /// The layout of a node cannot be determined.
    NOT_ESTABLISHED = "NotEstablished";
    /// Another system (DRA, DAS) manages a node's devices.
    HANDS_OFF = "HandsOff";
    /// Kueue serves no version of its kinds that the operator reads.
    QUEUES_UNREAD = "QueuesUnread";
    /// Reports of node agents are not acted upon: the operator does not see the
    /// admission policy that keeps each to its own node.
    AGENT_UNGUARDED = "AgentUnguarded";
    /// `ClusterPolicy` does not point to the operator's map.
    MAP_NOT_OURS = "MapNotOurs";
    /// The operator's map cannot be written correctly.
    MAP_INVALID = "MapInvalid";
    /// A node's `nvidia.com/device-plugin.config` has a value that the operator
    /// did not write.
    FOREIGN_SHARING = "ForeignSharing";
    /// `ClusterPolicy` does not point the device plugin to the operator's map.
    PLUGIN_MAP_NOT_OURS = "PluginMapNotOurs";
    /// The operator's map of the device plugin's configurations cannot be
    /// written correctly.
    PLUGIN_MAP_INVALID = "PluginMapInvalid";
    /// The GPUs of a node cannot be shared as the policy says.
    SHARING_REFUSED = "SharingRefused";
    /// The GPU Operator is not configured.
    NO_CLUSTER_POLICY = "NoClusterPolicy";
    /// MIG manager is disabled.
    MANAGER_DISABLED = "ManagerDisabled";
    /// A layout cannot be applied with the cluster's configuration.
    LAYOUT_REFUSED = "LayoutRefused";
    /// An administrator ended the rollout of a node.
    RELEASED = "Released";
    /// The checker rejected the plan. This is a bug in Slicewright, and nothing
    /// is changed.
    PLAN_REFUSED = "PlanRefused";
    /// No policy selects the node.
    NO_POLICY = "NoPolicy";
    /// The data of the API went back in time, as after the restore of an older
    /// etcd backup.
    DATA_WENT_BACK = "DataWentBack";
    /// The API server refuses writes of the operator; the message quotes the
    /// error.
    WRITE_REFUSED = "WriteRefused";
    /// Another client reverts what the operator writes, each time.
    WRITE_UNDONE = "WriteUndone";
}

/// Whether a type of condition is present only while it is true.
#[must_use]
pub fn is_abnormal(kind: &str) -> bool {
    matches!(kind, kind::RECONCILING | kind::STALLED | kind::DEGRADED)
}

/// A condition as it should be from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its type, of [`kind`].
    pub kind: &'static str,
    /// Whether it holds.
    pub status: Tri,
    /// Why, of [`reason`].
    pub reason: &'static str,
    /// A sentence that ends in what to do.
    pub message: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tri {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Not known yet.
    Unknown,
}

impl Tri {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Makes `conditions` say what is wanted. The transition time moves only when
/// the status does; an abnormal condition that does not hold is removed.
pub fn set(conditions: &mut Vec<Condition>, wanted: Wanted, generation: i64, now: Timestamp) {
    let Wanted { kind, status, reason, message } = wanted;
    if is_abnormal(kind) && status != Tri::True {
        conditions.retain(|c| c.type_ != kind);
        return;
    }
    let before = conditions.iter().position(|c| c.type_ == kind);
    let since = match before.map(|at| &conditions[at]) {
        Some(old) if old.status == status.as_str() => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        type_: kind.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: since,
    };
    match before {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: &'static str, status: Tri) -> Wanted {
        Wanted { kind, status, reason: reason::CHANGING, message: "2 nodes are on their way".to_owned() }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let (t1, t2, t3) = (at(1), at(2), at(3));
        let mut conditions = Vec::new();
        set(&mut conditions, wanted(kind::READY, Tri::False), 1, t1);
        set(&mut conditions, wanted(kind::READY, Tri::False), 2, t2);
        assert_eq!(conditions[0].last_transition_time.0, t1);
        assert_eq!(conditions[0].observed_generation, Some(2));
        set(&mut conditions, wanted(kind::READY, Tri::True), 2, t3);
        assert_eq!(conditions[0].last_transition_time.0, t3);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn an_abnormal_condition_is_there_only_while_it_holds() {
        let mut conditions = Vec::new();
        set(&mut conditions, wanted(kind::STALLED, Tri::True), 1, at(1));
        assert_eq!(conditions.len(), 1);
        set(&mut conditions, wanted(kind::STALLED, Tri::False), 1, at(2));
        assert!(conditions.is_empty());
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }
}
