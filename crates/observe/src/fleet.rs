//! Reads nodes and the pods on them once: for each node the facts for the planner (the inventory) and those
//! for all other code (its view).

mod beside;
mod build;
mod kept;
mod machine;
mod read_node;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use mig::Catalog;
use planner::inventory::Inventory;
use planner::names::NodeName;
use planner::policy::Policy;
use rollout::observed::MapSeen;

use crate::facts::OurMap;
use crate::layouts::{self, Maps};
use crate::objects::Objects;
use crate::problem::Problem;
use crate::view::NodeView;
use crate::{Settings, on_node, requests, shared};

use beside::{Beside, Common};
pub(crate) use kept::NodeReadings;
use read_node::{Own, read_node};

/// The nodes of a cluster, and what they share.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// What everybody reads of each node.
    pub nodes: BTreeMap<NodeName, Arc<NodeView>>,
    /// What the planner reads of those that have GPUs.
    pub inventory: Inventory,
    /// Our map of layouts.
    pub our_map: MapSeen,
}

/// The fleet as the objects show it: every node that has, or may have, GPUs
/// that can be cut, and every other of which something is remembered. A node
/// whose objects are those that its reading was kept of is not read again.
#[must_use]
pub(crate) fn read(
    objects: &Objects,
    catalog: &Catalog,
    policies: &[Policy],
    settings: &Settings,
    now: Timestamp,
    kept: &mut NodeReadings,
    problems: &mut Vec<Problem>,
) -> Fleet {
    let common = kept.common(
        Common {
            rest: Common::rest_of(objects),
            of_cluster: layouts::of_cluster(objects),
            policies: policies.to_vec(),
            sharing: shared::policies(objects, catalog),
            settings: settings.clone(),
        },
        now,
    );
    let beside = Beside {
        common: &common,
        // Of these objects, too: a map that is read of others would change without any node being read again.
        maps: Maps::read(&common.rest, problems),
        ours: OurMap::read(&common.rest, settings),
        catalog,
    };
    let mut on_node = on_node::by_node(objects);
    let (mut nodes, mut inventory) = (BTreeMap::new(), Inventory::default());
    for (name, node) in &objects.nodes {
        let own = Own {
            name,
            node,
            gpu_node: objects.gpu_nodes.get(name),
            pods: on_node.remove(name.as_str()).unwrap_or_default(),
            room_taken: objects.room_taken.get(name).copied(),
        };
        let read = kept.read(&own, now, || read_node(&own, &beside, now));
        let name = NodeName(name.clone());
        problems.extend(read.problems.iter().cloned());
        inventory.nodes.extend(read.node.clone().map(|node| (name.clone(), node)));
        inventory.seating.extend(read.seating.clone().map(|seating| (name.clone(), seating)));
        nodes.extend(read.view.clone().map(|view| (name, view)));
    }
    kept.forget_others(&objects.nodes);
    let holders = inventory.nodes.values().flat_map(|node| node.held.keys().map(|pod| pod.namespace.clone()));
    let namespaces: BTreeSet<String> = holders.collect();
    let labels = |namespace: String| (namespace.clone(), requests::namespace_labels(objects, &namespace));
    inventory.namespaces = namespaces.into_iter().map(labels).collect();
    Fleet { nodes, inventory, our_map: beside.ours.seen }
}

/// Why demand by profile cannot be served under another MIG strategy than
/// `mixed`, and the command that sets it; it goes on from "since".
#[must_use]
pub fn strategy_is_not_mixed(objects: &Objects) -> String {
    let policy = objects.cluster_policies.keys().next().map_or("gpu-cluster-policy", String::as_str);
    // For all nodes it would end the device plugin of those that share through MPS.
    let by_node = match layouts::is_open(objects) {
        true => {
            "; or, for the nodes of this policy alone, write `sharing: {type: None}` into it, which brings the strategy"
        }
        false => "",
    };
    format!(
        "the MIG strategy is not `mixed`, so demand by profile cannot be served; set it with: kubectl patch clusterpolicies.nvidia.com {policy} --type merge -p '{{\"spec\":{{\"mig\":{{\"strategy\":\"mixed\"}}}}}}', or write a Static layout with one profile for all GPUs{by_node}"
    )
}
