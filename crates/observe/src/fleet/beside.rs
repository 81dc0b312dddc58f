//! What every node is read by beside its own objects.

use std::collections::BTreeMap;

use mig::Catalog;
use planner::names::PolicyName;
use planner::policy::Policy;
use rollout::Strategy;

use crate::Settings;
use crate::facts::OurMap;
use crate::layouts::Maps;
use crate::objects::Objects;
use crate::shared::SharingPolicy;

/// What a node is read by, the same for all of them.
pub(super) struct Beside<'a> {
    /// The objects that are no node's own, and none besides.
    pub(super) rest: &'a Objects,
    pub(super) maps: Maps,
    pub(super) ours: OurMap,
    /// The MIG strategy of nodes that do not say it themselves.
    pub(super) of_cluster: Strategy,
    pub(super) policies: &'a [Policy],
    pub(super) sharing: &'a BTreeMap<PolicyName, SharingPolicy>,
    pub(super) settings: &'a Settings,
    pub(super) catalog: &'a Catalog,
}

/// The policy that has a node: the highest priority, then the first name.
pub(super) fn owner<'a>(policies: &'a [Policy], labels: &BTreeMap<String, String>) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| !policy.nodes.is_empty() && planner::selector::matches(&policy.nodes, labels))
        .min_by_key(|policy| (std::cmp::Reverse(policy.priority), policy.name.clone()))
}
