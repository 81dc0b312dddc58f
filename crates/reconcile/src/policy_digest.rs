//! What a plan was made with, as one short text.

use std::collections::BTreeMap;

use planner::plan::digest;

/// The digest of the specs of all policies, in the order of their names: what
/// was planned with. A preview prints the same.
#[must_use]
pub fn policy_digest(policies: &BTreeMap<String, api::GpuPartitionPolicy>) -> String {
    let specs: BTreeMap<&String, _> = policies.iter().map(|(name, policy)| (name, &policy.spec)).collect();
    digest(&serde_json::to_vec(&specs).expect("policies are plain data"))
}
