//! What a node is, apart from its GPUs: the label that tells it from all others, and its CPU and memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use planner::names::NodeName;

use crate::{Objects, names, pods};

/// A node as a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The value of `kubernetes.io/hostname`, by which pods can be kept to this
    /// node; `None` where the label is missing, or another node has the same value.
    pub hostname: Option<String>,
    /// Its allocatable CPU, in thousandths of a core, where that is known.
    pub cpu_milli: Option<i128>,
    /// Its allocatable memory, in bytes, where that is known.
    pub memory_bytes: Option<i128>,
}

/// All nodes, with GPUs and without.
pub(crate) fn all(objects: &Objects) -> BTreeMap<NodeName, Host> {
    let mut nodes_of: BTreeMap<&String, usize> = BTreeMap::new();
    for label in objects.nodes.values().filter_map(|node| hostname(node)) {
        *nodes_of.entry(label).or_default() += 1;
    }
    let host = |node: &Node| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let amount = |resource: &str| pods::amount(resource, allocatable?.get(resource)?);
        Host {
            hostname: hostname(node).filter(|label| nodes_of[label] == 1).cloned(),
            cpu_milli: amount("cpu"),
            memory_bytes: amount("memory"),
        }
    };
    objects.nodes.iter().map(|(name, node)| (NodeName(name.clone()), host(node))).collect()
}

fn hostname(node: &Node) -> Option<&String> {
    node.metadata.labels.as_ref()?.get(names::HOSTNAME)
}
