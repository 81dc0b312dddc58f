//! What an operation is about, as retries and logs name it.

use planner::names::{NodeName, PolicyName};

pub(super) fn node_subject(node: &NodeName) -> String {
    format!("Node {node}")
}

pub(super) fn policy_subject(policy: &PolicyName) -> String {
    format!("GpuPartitionPolicy {policy}")
}
