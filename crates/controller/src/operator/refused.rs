//! Writes that the API server refuses until an administrator allows them, each
//! with the quoted error. A refusal is a fact that users are told like any
//! other; it is not a missing observation.

use std::collections::BTreeMap;

use planner::names::{NodeName, PolicyName};
use reconcile::{LocalState, RefusedWrite, Round};

use crate::calls::CallError;

/// What a write is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum For {
    /// A node's labels and its cordon.
    Node(NodeName),
    /// What is remembered of a node.
    GpuNode(NodeName),
    /// The status of a policy.
    Policy(PolicyName),
    /// Our map.
    Map,
    /// Our map of the device plugin's configurations.
    PluginMap,
    /// The reference to our map.
    ClusterPolicy,
    /// The reference to our map of the device plugin's configurations.
    DevicePlugin,
    /// What a check says of a workload in a queue, or that it is active.
    Queue(String),
    /// A hardware profile.
    Profile(String),
    /// The events of a namespace.
    Events(String),
}

impl For {
    /// The kind, for a metric.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "Node",
            Self::GpuNode(_) => "GpuNode",
            Self::Policy(_) => "GpuPartitionPolicy",
            Self::Map | Self::PluginMap => "ConfigMap",
            Self::ClusterPolicy | Self::DevicePlugin => "ClusterPolicy",
            Self::Queue(_) => "Workload",
            Self::Profile(_) => "HardwareProfile",
            Self::Events(_) => "Event",
        }
    }
}

/// All kinds, for a metric.
const KINDS: [&str; 8] = [
    "Node",
    "GpuNode",
    "GpuPartitionPolicy",
    "ConfigMap",
    "ClusterPolicy",
    "Workload",
    "HardwareProfile",
    "Event",
];

/// All that are refused now.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<For, RefusedWrite>);

impl Refused {
    /// Notes what came of a write. An error of another kind says nothing: who
    /// refused may still do so.
    pub(super) fn note<T>(&mut self, of: For, outcome: &Result<T, CallError>) {
        match outcome {
            Ok(_) => drop(self.0.remove(&of)),
            Err(error) => {
                if let Some(words) = error.words() {
                    self.0.insert(of, RefusedWrite { write: error.what().to_string(), words });
                }
            }
        }
    }

    /// Our map, if it is refused.
    pub(super) fn map(&self) -> Option<RefusedWrite> {
        self.0.get(&For::Map).cloned()
    }

    /// Our map of the device plugin's configurations, if it is refused.
    pub(super) fn plugin_map(&self) -> Option<RefusedWrite> {
        self.0.get(&For::PluginMap).cloned()
    }

    /// The reference of the device plugin to that map, if it is refused.
    pub(super) fn plugin_pointer(&self) -> Option<RefusedWrite> {
        self.0.get(&For::DevicePlugin).cloned()
    }

    /// Tells of each node what is refused for it.
    pub(super) fn tell(&self, local: &mut BTreeMap<NodeName, LocalState>) {
        local.values_mut().for_each(|local| local.refused = None);
        for (of, refused) in &self.0 {
            if let For::Node(node) | For::GpuNode(node) = of {
                local.entry(node.clone()).or_default().refused = Some(refused.clone());
            }
        }
    }

    /// Forgets what is not to be written any more.
    pub(super) fn keep_up_with(&mut self, round: &Round) {
        self.0.retain(|of, _| match of {
            For::Node(node) => round.nodes.get(node).is_some_and(|node| !node.advance.actions.is_empty()),
            For::GpuNode(node) => round.gpu_nodes.contains_key(node),
            For::Policy(policy) => round.policies.contains_key(policy),
            For::Map => round.map.write.is_some(),
            For::PluginMap => round.plugin_map.write.is_some(),
            For::DevicePlugin => round.plugin_map.repoint.is_some(),
            For::Queue(_) => !round.checks.is_empty(),
            For::Profile(name) => round.menu.writes.iter().any(|write| write.name == *name),
            For::ClusterPolicy | For::Events(_) => true,
        });
    }

    /// How many there are, by kind.
    pub(super) fn count(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        KINDS.iter().map(|kind| (*kind, self.0.keys().filter(|of| of.kind() == *kind).count()))
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::calls::{Verb, What};

    fn refused(code: u16, message: &str) -> Result<(), CallError> {
        let what = What { verb: Verb::Patch, object: "Node a1".to_owned() };
        let status = Status::failure(message, "No").with_code(code);
        Err(CallError::Refused { what, source: kube::Error::Api(status.boxed()) })
    }

    fn a1() -> NodeName {
        NodeName("a1".to_owned())
    }

    fn told(refused: &Refused) -> Option<RefusedWrite> {
        let mut local = BTreeMap::new();
        refused.tell(&mut local);
        local.remove(&a1()).and_then(|local| local.refused)
    }

    #[test]
    fn a_refusal_is_known_in_the_refusers_words_until_the_write_is_taken() {
        let mut all = Refused::default();
        let message = format!("nodes \"a1\" is forbidden: not\n  on Fridays {}", "ä".repeat(300));
        all.note(For::Node(a1()), &refused(403, &message));
        let RefusedWrite { write, words } = told(&all).expect("it is refused");
        assert_eq!(write, "patch Node a1");
        assert!(words.starts_with("nodes \"a1\" is forbidden: not on Fridays ää"), "{words}");
        assert!(words.len() <= 303 && words.ends_with('…'), "{}", words.len());
        assert_eq!(all.count().filter(|(_, n)| *n > 0).collect::<Vec<_>>(), [("Node", 1)]);
        // That somebody was faster, or nobody answers, changes nothing of it.
        all.note(For::Node(a1()), &refused(409, "the object has been modified"));
        all.note(For::Node(a1()), &refused(503, "busy"));
        assert!(told(&all).is_some());
        all.note(For::Node(a1()), &Ok(()));
        assert_eq!(told(&all), None);
    }

    #[test]
    fn what_was_refused_is_no_longer_said_of_a_node_that_is_told_of_anew() {
        let mut all = Refused::default();
        all.note(For::GpuNode(a1()), &refused(422, "gpunodes \"a1\" is forbidden: no"));
        let mut local = BTreeMap::new();
        all.tell(&mut local);
        assert!(local[&a1()].refused.is_some());
        all.note(For::GpuNode(a1()), &Ok(()));
        all.tell(&mut local);
        assert_eq!(local[&a1()].refused, None);
    }
}
