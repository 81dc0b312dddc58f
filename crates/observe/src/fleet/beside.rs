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

/// What all nodes are read by. When it changes, each is read again.
#[derive(Debug, PartialEq)]
pub(super) struct Common {
    /// The objects that are no node's own, and none besides.
    pub(super) rest: Objects,
    /// The MIG strategy of nodes that do not say it themselves.
    pub(super) of_cluster: Strategy,
    pub(super) policies: Vec<Policy>,
    pub(super) sharing: BTreeMap<PolicyName, SharingPolicy>,
    pub(super) settings: Settings,
}

impl Common {
    /// Of all objects those that the reading of a node may rest on although they are not its own.
    pub(super) fn rest_of(objects: &Objects) -> Objects {
        Objects {
            config_maps: objects.config_maps.clone(),
            cluster_policies: objects.cluster_policies.clone(),
            gpu_cluster: objects.gpu_cluster,
            unguarded_agents: objects.unguarded_agents.clone(),
            ..Objects::default()
        }
    }
}

/// What a node is read by, the same for all of them: what is common, and what was made of it.
pub(super) struct Beside<'a> {
    pub(super) common: &'a Common,
    pub(super) maps: Maps,
    pub(super) ours: OurMap,
    pub(super) catalog: &'a Catalog,
}

/// The policy that has a node: the highest priority, then the first name.
pub(super) fn owner<'a>(policies: &'a [Policy], labels: &BTreeMap<String, String>) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| !policy.nodes.is_empty() && planner::selector::matches(&policy.nodes, labels))
        .min_by_key(|policy| (std::cmp::Reverse(policy.priority), policy.name.clone()))
}
