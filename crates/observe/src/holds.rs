//! Why a node is left as it is, beside what its policy says.

use std::collections::BTreeMap;

use api::gpu_node::NodeRollout;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use planner::inventory::Hold;
use rollout::{OtherManager, OtherWork};

use crate::names;
use crate::objects::Objects;

/// Whether pods can bind to a node.
#[must_use]
pub fn is_schedulable(node: &Node) -> bool {
    is_ready(node) && !is_cordoned(node)
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// The first reason to leave a node alone. The order is that of how long it
/// will probably last, the longest first.
#[must_use]
pub fn of(node: &Node, rollout: Option<&NodeRollout>, objects: &Objects, now: Timestamp) -> Option<Hold> {
    manager(node, objects)
        .map(|who| Hold::HandsOff { who: who.to_string() })
        .or_else(|| failed(rollout))
        .or_else(|| foreign_layout(node, rollout))
        .or_else(|| work(node).map(|work| Hold::ForeignWork { who: work.to_string() }))
        .or_else(|| is_on_its_way(node, rollout).then_some(Hold::Changing))
        .or_else(|| cordoned(node))
        .or_else(|| (!is_ready(node)).then_some(Hold::NotReady))
        .or_else(|| cooling(rollout, now))
}

/// Who else manages the node's devices.
#[must_use]
pub fn manager(node: &Node, objects: &Objects) -> Option<OtherManager> {
    let none = BTreeMap::new();
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let resources = capacity.into_iter().chain(allocatable).flatten().map(|(resource, _)| resource);
    OtherManager::of(objects.gpu_cluster, node.metadata.labels.as_ref().unwrap_or(&none), resources)
}

/// Who else works on the node.
#[must_use]
pub fn work(node: &Node) -> Option<OtherWork> {
    let none = BTreeMap::new();
    OtherWork::on(
        node.metadata.labels.as_ref().unwrap_or(&none),
        node.metadata.annotations.as_ref().unwrap_or(&none),
    )
}

fn failed(rollout: Option<&NodeRollout>) -> Option<Hold> {
    let rollout = rollout?;
    let why = match rollout.phase.as_str() {
        "Failed" => rollout.last_error.clone().unwrap_or_else(|| "a change of it failed".to_owned()),
        "Released" => "a human ended its rollout".to_owned(),
        _ => return None,
    };
    Some(Hold::Failed { why })
}

/// A layout that we did not write, on a node that we had taken over.
fn foreign_layout(node: &Node, rollout: Option<&NodeRollout>) -> Option<Hold> {
    let written = rollout?.applied.as_deref()?;
    let found = label(node, names::MIG_CONFIG).unwrap_or_default();
    (found != written).then(|| Hold::ForeignLayout { label: found.to_owned() })
}

/// Whether a node is between two layouts, by our doing or somebody else's.
#[must_use]
pub fn is_on_its_way(node: &Node, rollout: Option<&NodeRollout>) -> bool {
    let ours_to_finish = rollout.is_some_and(|r| !matches!(r.phase.as_str(), "" | "Idle"));
    let busy = matches!(label(node, names::MIG_CONFIG_STATE), Some("pending" | "rebooting"));
    let parked = node
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, value)| key.starts_with(names::DEPLOY_PREFIX) && value.starts_with("paused-for-"));
    let ours = label(node, names::CORDONED_BY).or_else(|| annotation(node, names::CORDONED_BY)).is_some();
    ours_to_finish || busy || parked || ours && is_cordoned(node)
}

fn cordoned(node: &Node) -> Option<Hold> {
    is_cordoned(node).then(|| Hold::Cordoned { by: "somebody else".to_owned() })
}

fn cooling(rollout: Option<&NodeRollout>, now: Timestamp) -> Option<Hold> {
    let until = rollout?.cooldown_until?;
    (until > now).then_some(Hold::CoolingDown { until })
}
