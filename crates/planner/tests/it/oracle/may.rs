//! Which node a request may use, as the scheduler decides it: labels, taints,
//! and room for it alone. The worlds select by no label that follows the
//! layout; `tests/it/eligible.rs` is about those.

use planner::demand::{Expression, Operator, Request};
use planner::inventory::Node;
use planner::names::NodeName;
use planner::policy::{LayoutPolicy, Policy, StaticCut};

pub(crate) fn may(request: &Request, name: &NodeName, node: &Node, owner: Option<&Policy>) -> bool {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let selected =
        request.constraints.node_selector.iter().all(|(key, value)| label(key) == Some(value.as_str()));
    let affinity = &request.constraints.affinity;
    let wanted = affinity.is_empty()
        || affinity.iter().any(|term| {
            let some = !term.labels.is_empty() || !term.fields.is_empty();
            some && term.labels.iter().all(|e| holds(e, label(&e.key)))
                && term.fields.iter().all(|e| holds(e, Some(&name.0)))
        });
    let tolerated = node.taints.iter().all(|taint| {
        taint.effect == "PreferNoSchedule"
            || request.constraints.tolerations.iter().any(|t| t.exists && t.key == taint.key)
    });
    let counted = owner.is_none_or(|policy| match &policy.layout {
        LayoutPolicy::Static { .. } => true,
        LayoutPolicy::DemandDriven { namespaces, .. } => {
            namespaces.iter().all(|e| holds(e, request.namespace_labels.get(&e.key).map(String::as_str)))
        }
    });
    // Who asks for whole GPUs gets them where a policy has some, or where there is no policy.
    let offered = request.whole_gpus == 0 || owner.is_none_or(has_whole_gpus);
    node.schedulable && selected && wanted && tolerated && counted && offered && fits(request, node)
}

/// Whether requests, or a rule, make some of its GPUs whole.
pub(crate) fn has_whole_gpus(policy: &Policy) -> bool {
    match &policy.layout {
        LayoutPolicy::DemandDriven { whole_gpus, .. } => whole_gpus.is_some(),
        LayoutPolicy::Static { gpus } => gpus.iter().any(|rule| rule.cut == StaticCut::MigOff),
    }
}

fn fits(request: &Request, node: &Node) -> bool {
    let (takes, room) = (request.takes, node.room);
    takes.cpu_milli <= room.cpu_milli
        && takes.memory_bytes <= room.memory_bytes
        && takes.storage_bytes <= room.storage_bytes
        && takes.pods <= room.pods
}

pub(crate) fn holds(expression: &Expression, label: Option<&str>) -> bool {
    let listed = label.is_some_and(|label| expression.values.iter().any(|value| value == label));
    match expression.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => label.is_some(),
        Operator::DoesNotExist => label.is_none(),
        Operator::Gt | Operator::Lt => panic!("the worlds compare no numbers"),
    }
}
