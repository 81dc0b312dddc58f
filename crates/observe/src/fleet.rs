//! Nodes and the pods on them become the inventory.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use mig::Catalog;
use planner::inventory::{self, ChangeScope, Gpu, Hold, Inventory, Room, Slices, Taint};
use planner::names::{NodeName, PodRef};
use planner::policy::{LayoutPolicy, Policy};
use rollout::{Operand, Strategy};

use crate::layouts::{self, Maps};
use crate::objects::{Objects, title};
use crate::operands::operand;
use crate::problem::{Problem, Severity};
use crate::usage::{self, Held};
use crate::{Settings, holds, labels, names, pods};

/// The fleet as the objects show it: every node that has, or may have, GPUs
/// that can be cut.
#[must_use]
pub fn inventory(
    objects: &Objects,
    catalog: &Catalog,
    policies: &[Policy],
    settings: &Settings,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Inventory {
    let maps = Maps::of(objects, problems);
    let mut on_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in objects.pods.values() {
        if pods::life(pod) == pods::Life::Bound
            && let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
        {
            on_node.entry(node).or_default().push(pod);
        }
    }
    let mut inventory = Inventory::default();
    for (name, node) in &objects.nodes {
        let gpu_node = objects.gpu_nodes.get(name).map(Arc::as_ref);
        let found = layouts::establish(name, node, gpu_node, objects, &maps, catalog, problems)
            .or_else(|| elsewhere(node, objects));
        let Some(found) = found else { continue };
        let bound = on_node.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        let built = build(name, node, gpu_node, &found, bound, objects, settings, now, problems);
        inventory.nodes.insert(NodeName(name.clone()), built);
    }
    for (name, strategy) in strategies(objects) {
        let Some(node) = inventory.nodes.get_mut(&name) else { continue };
        if strategy != Strategy::Mixed && node.hold.is_none() {
            let demand_driven = owner(policies, &node.labels)
                .is_some_and(|policy| matches!(policy.layout, LayoutPolicy::DemandDriven { .. }));
            if demand_driven {
                node.hold = Some(Hold::NotEstablished { why: single_advice(objects) });
            }
        }
    }
    inventory
}

/// A node whose GPUs somebody else manages, who writes no labels by which we
/// would know them: it is there, to be left alone with a reason.
fn elsewhere<'a>(node: &Node, objects: &Objects) -> Option<layouts::Established<'a>> {
    let present = node.metadata.labels.as_ref()?.get(names::PRESENT).is_some_and(|value| value == "true");
    (present && holds::manager(node, objects).is_some()).then(|| layouts::Established {
        gpus: BTreeMap::new(),
        strategy: layouts::strategy(node, None, objects),
        exact: false,
        doubt: None,
    })
}

fn strategies(objects: &Objects) -> Vec<(NodeName, Strategy)> {
    let nodes = objects.nodes.iter();
    let strategy =
        |name, node| layouts::strategy(node, objects.gpu_nodes.get(name).map(Arc::as_ref), objects);
    nodes.map(|(name, node)| (NodeName(name.clone()), strategy(name, node))).collect()
}

fn single_advice(objects: &Objects) -> String {
    format!("its slices are not offered by profile, since {}", strategy_is_not_mixed(objects))
}

/// Why demand by profile cannot be served under another MIG strategy than
/// `mixed`, and the command that sets it; it goes on from "since".
#[must_use]
pub fn strategy_is_not_mixed(objects: &Objects) -> String {
    let policy = objects.cluster_policies.keys().next().map_or("gpu-cluster-policy", String::as_str);
    format!(
        "the MIG strategy is not `mixed`, so demand by profile cannot be served; set it with: kubectl patch clusterpolicies.nvidia.com {policy} --type merge -p '{{\"spec\":{{\"mig\":{{\"strategy\":\"mixed\"}}}}}}', or write a Static layout with one profile for all GPUs"
    )
}

/// The policy that has a node: the highest priority, then the first name.
fn owner<'a>(policies: &'a [Policy], labels: &BTreeMap<String, String>) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| !policy.nodes.is_empty() && planner::selector::matches(&policy.nodes, labels))
        .min_by_key(|policy| (std::cmp::Reverse(policy.priority), policy.name.clone()))
}

#[expect(clippy::too_many_arguments, reason = "one call, and every argument is another kind of knowledge")]
fn build(
    name: &str,
    node: &Node,
    gpu_node: Option<&GpuNode>,
    found: &layouts::Established<'_>,
    bound: &[&Pod],
    objects: &Objects,
    settings: &Settings,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> inventory::Node {
    let (mut held, room) = taken(node, bound, objects.crowd.get(name), settings, problems);
    for pod in usage::drop_impossible(&mut held, found) {
        let usage::Impossible { pod, resource, asks, most } = pod;
        let message = format!(
            "asks for {asks} {resource}, and node {name} can never have more than {most}: the kubelet will refuse it, and it holds nothing"
        );
        problems.push(Problem::new(Severity::Warning, format!("Pod {pod}"), message));
    }
    let (mut slices, allocated, excess) = usage::of(found, &held);
    let rollout = gpu_node.and_then(|n| n.status.as_ref()?.rollout.as_ref());
    let mut hold = holds::of(node, rollout, objects, now);
    let mut doubt = found.doubt.clone();
    for usage::Excess { profile, held, exist } in excess {
        let what = profile.map_or_else(|| "whole GPU(s)".to_owned(), |p| format!("{p} slice(s)"));
        let message = format!("its pods hold {held} {what}, and it has {exist}");
        let severity = if found.exact || found.doubt.is_none() { Severity::Error } else { Severity::Warning };
        // While a node changes, allocatable and pods disagree for a moment.
        if hold.is_none() {
            problems.push(Problem::new(severity, format!("Node {name}"), message.clone()));
        }
        doubt.get_or_insert(message);
    }
    if let Some(why) = doubt {
        if hold.is_none() {
            problems.push(Problem::new(
                Severity::Warning,
                format!("Node {name}"),
                format!("what its GPUs have cannot be established, so it is left alone: {why}"),
            ));
        }
        hold.get_or_insert(Hold::NotEstablished { why });
    }
    let any_off = slices.values().any(|s| matches!(s, Slices::MigOff { .. }));
    let scope = match (any_off, found.exact) {
        (true, _) => ChangeScope::EmptyNode,
        (false, true) => ChangeScope::SliceBySlice,
        (false, false) => ChangeScope::IdleGpus,
    };
    let gpus = found
        .gpus
        .iter()
        .filter_map(|(index, gpu)| {
            let unhealthy = gpu.seen.as_ref().and_then(|seen| seen.unhealthy.clone());
            Some((
                *index,
                Gpu {
                    model: gpu.model.id.clone(),
                    geometry: Arc::clone(&gpu.model.geometry),
                    slices: slices.remove(index)?,
                    hold: unhealthy.map(|what| Hold::Unhealthy { what }),
                },
            ))
        })
        .collect();
    inventory::Node {
        labels: labels::of(node, gpu_node),
        taints: taints(node),
        room,
        scope,
        hold,
        schedulable: holds::is_schedulable(node),
        allocated,
        gpus,
    }
}

fn taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints: Vec<Taint> = taints
        .into_iter()
        .flatten()
        .map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: taint.effect.clone(),
        })
        .collect();
    taints.sort();
    taints
}

/// What the pods of a node hold, and what is left for others.
fn taken(
    node: &Node,
    bound: &[&Pod],
    crowd: Option<&Room>,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> (Held, Room) {
    let mut held = Held::default();
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let has = |resource: &str| {
        let quantity = allocatable?.get(resource)?;
        i64::try_from(pods::amount(resource, quantity)?).ok()
    };
    // A node that does not say what it has is not judged by it.
    let mut room = Room {
        cpu_milli: has("cpu").unwrap_or(i64::MAX),
        memory_bytes: has("memory").unwrap_or(i64::MAX),
        pods: has("pods").unwrap_or(i64::MAX),
    };
    let mut leave = |taken: &Room| {
        let Room { cpu_milli, memory_bytes, pods } = &mut room;
        *cpu_milli = cpu_milli.saturating_sub(taken.cpu_milli).max(0);
        *memory_bytes = memory_bytes.saturating_sub(taken.memory_bytes).max(0);
        *pods = pods.saturating_sub(taken.pods).max(0);
    };
    crowd.into_iter().for_each(&mut leave);
    for pod in bound {
        let Some(spec) = &pod.spec else { continue };
        let takes = pods::takes(spec);
        leave(&takes.room);
        // MIG manager removes the Operator's own checks before it cuts.
        if operand(pod, &settings.gpu_operator_namespace) == Some(Operand::Validator) {
            continue;
        }
        for resource in &takes.unreadable {
            problems.push(Problem::new(
                Severity::Warning,
                title("Pod", &pod.metadata),
                format!("asks for {resource}, which is no profile's resource; nothing is planned for it"),
            ));
        }
        let waits = pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Running");
        let pod = PodRef {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
        };
        if waits {
            held.waiting.insert(pod.clone());
        }
        for (profile, n) in takes.slices {
            held.slices.entry(profile).or_default().insert(pod.clone(), n);
        }
        if takes.whole_gpus > 0 {
            held.whole.insert(pod, takes.whole_gpus);
        }
    }
    (held, room)
}
