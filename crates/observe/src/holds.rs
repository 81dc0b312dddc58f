//! Why a node is left as it is, beside what its policy says.

use api::gpu_node::NodeRollout;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use planner::inventory::Hold;

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
    hands_off(node, objects)
        .or_else(|| failed(rollout))
        .or_else(|| foreign_layout(node, rollout))
        .or_else(|| foreign_work(node))
        .or_else(|| changing(node, rollout))
        .or_else(|| cordoned(node))
        .or_else(|| (!is_ready(node)).then_some(Hold::NotReady))
        .or_else(|| cooling(rollout, now))
}

/// Another system manages the node's slices.
pub(crate) fn hands_off(node: &Node, objects: &Objects) -> Option<Hold> {
    let hands_off = |who: &str| Some(Hold::HandsOff { who: who.to_owned() });
    if objects.gpu_cluster || label(node, names::DEPLOY_DRA) == Some("true") {
        return hands_off("DRA (GPUCluster)");
    }
    let resources = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    if resources.into_iter().flatten().any(|(resource, _)| resource.starts_with(names::DAS_PREFIX)) {
        return hands_off("the Dynamic Accelerator Slicer (DAS)");
    }
    None
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

fn foreign_work(node: &Node) -> Option<Hold> {
    let works = |who: String| Some(Hold::ForeignWork { who });
    if let Some(state) = label(node, names::DRIVER_UPGRADE)
        && state != "upgrade-done"
    {
        return works(format!("a driver upgrade ({state})"));
    }
    let machine_config = || "the Machine Config Operator".to_owned();
    if let Some(state) = annotation(node, names::MCO_STATE)
        && state != "Done"
    {
        return works(format!("{} ({state})", machine_config()));
    }
    let (current, desired) = (annotation(node, names::MCO_CURRENT), annotation(node, names::MCO_DESIRED));
    if desired.is_some() && current != desired {
        return works(machine_config());
    }
    None
}

fn changing(node: &Node, rollout: Option<&NodeRollout>) -> Option<Hold> {
    let on_its_way = rollout.is_some_and(|r| !matches!(r.phase.as_str(), "" | "Idle"));
    let busy = matches!(label(node, names::MIG_STATE), Some("pending" | "rebooting"));
    let parked = node
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, value)| key.starts_with(names::DEPLOY_PREFIX) && value.starts_with("paused-for-"));
    let ours = label(node, names::CORDONED_BY).or_else(|| annotation(node, names::CORDONED_BY)).is_some();
    (on_its_way || busy || parked || ours && is_cordoned(node)).then_some(Hold::Changing)
}

fn cordoned(node: &Node) -> Option<Hold> {
    is_cordoned(node).then(|| Hold::Cordoned { by: "somebody else".to_owned() })
}

fn cooling(rollout: Option<&NodeRollout>, now: Timestamp) -> Option<Hold> {
    let until = rollout?.cooldown_until?;
    (until > now).then_some(Hold::CoolingDown { until })
}
