//! Nodes that offer `nvidia.com/gpu` and are not planned for, since their GPUs have no MIG: whoever finds whole GPUs
//! there needs none of a node on which MIG would have to be switched off.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use planner::demand::Request;
use planner::eligible::judge;
use planner::inventory::{self, ChangeScope, Inventory};
use planner::names::NodeName;
use planner::predicted_labels::LabelsAfter;

use crate::objects::Objects;
use crate::{fleet, names, on_node, pods};

/// Says of each request for whole GPUs whether such a node has as many free as
/// it asks for. Each is looked at by itself: that several find the same ones
/// only makes them wait for the scheduler.
pub(super) fn find(
    requests: &mut [Request],
    objects: &Objects,
    inventory: &Inventory,
    gpu_operator_namespace: &str,
) {
    if requests.iter().all(|request| request.whole_gpus == 0) {
        return;
    }
    let pods = on_node::by_node(objects);
    let others = objects.nodes.iter().filter(|(name, _)| {
        let is_planned_for = inventory.nodes.contains_key(&NodeName((*name).clone()));
        !is_planned_for
    });
    let offering: Vec<(NodeName, inventory::Node, u32)> = others
        .filter_map(|(name, node)| {
            let here = pods.get(name.as_str()).into_iter().flatten();
            let here: Vec<_> = here.map(|pod| on_node::read(pod, gpu_operator_namespace)).collect();
            let mut room = fleet::room(node);
            objects.crowd.get(name).into_iter().for_each(|crowd| on_node::leave(&mut room, crowd));
            // What is wrong with these pods is said where they are planned for, if anywhere.
            let held = on_node::taken(&here, &mut room, &mut Vec::new());
            let free = offered(node)?.saturating_sub(held.whole.values().sum());
            (free > 0).then(|| (NodeName(name.clone()), as_planned(node, room), free))
        })
        .collect();
    for request in requests.iter_mut().filter(|request| request.whole_gpus > 0) {
        let has = |(name, node, free): &&(NodeName, inventory::Node, u32)| {
            *free >= request.whole_gpus && judge(request, name, node, &LabelsAfter::predict(node)).is_yes()
        };
        request.finds = offering.iter().find(has).map(|(name, _, _)| name.clone());
    }
}

/// How many whole GPUs a node offers to pods; nothing, if none can come to it.
fn offered(node: &Node) -> Option<u32> {
    let status = node.status.as_ref()?;
    let quantity = status.allocatable.as_ref()?.get(names::RESOURCE_GPU)?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    let amount = pods::amount(names::RESOURCE_GPU, quantity).filter(|_| is_ready && !is_cordoned)?;
    u32::try_from(amount).ok()
}

/// The node as requests are judged by it.
fn as_planned(node: &Node, room: inventory::Room) -> inventory::Node {
    inventory::Node {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        single_strategy: false,
        taints: fleet::taints(node),
        room,
        scope: ChangeScope::EmptyNode,
        hold: None,
        schedulable: true,
        allocated: BTreeMap::new(),
        whole_held: 0,
        held: BTreeMap::new(),
        gpus: BTreeMap::new(),
    }
}
