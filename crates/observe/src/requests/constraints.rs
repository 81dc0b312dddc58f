//! The scheduling constraints of a pod that we consider.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint};
use planner::demand::{Constraints, Expression, Operator, Term, Toleration, Volume};
use planner::inventory;

use crate::volumes::Volumes;

/// Node selector, required node affinity, and tolerations: what stands in the pod alone.
pub(super) fn from_pod_spec(spec: &PodSpec) -> Constraints {
    Constraints {
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        affinity: affinity(spec),
        tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
        ..Constraints::default()
    }
}

/// The required node affinity of a pod.
#[must_use]
pub fn affinity(spec: &PodSpec) -> Vec<Term> {
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(|selector| terms(&selector.node_selector_terms)).unwrap_or_default()
}

/// A toleration, as the planner knows it.
#[must_use]
pub fn toleration(toleration: &k8s_openapi::api::core::v1::Toleration) -> Toleration {
    Toleration {
        key: toleration.key.clone().unwrap_or_default(),
        exists: toleration.operator.as_deref() == Some("Exists"),
        value: toleration.value.clone().unwrap_or_default(),
        effect: toleration.effect.clone().unwrap_or_default(),
    }
}

/// A taint, as the planner knows it.
#[must_use]
pub fn taint(taint: &Taint) -> inventory::Taint {
    inventory::Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    }
}

/// Those of some claims of a namespace whose volumes only some nodes can have.
pub(super) fn of_volumes(known: &Volumes, namespace: &str, claims: BTreeSet<String>) -> Vec<Volume> {
    let place = |claim: String| {
        let volume = known.claims.get(&(namespace.to_owned(), claim.clone()))?;
        Some(Volume { claim, nodes: terms(known.places.get(volume)?) })
    };
    claims.into_iter().filter_map(place).collect()
}

/// The terms of a node selector.
fn terms(terms: &[NodeSelectorTerm]) -> Vec<Term> {
    let term = |term: &NodeSelectorTerm| Term {
        labels: term.match_expressions.iter().flatten().map(expression).collect(),
        fields: term.match_fields.iter().flatten().map(expression).collect(),
    };
    terms.iter().map(term).collect()
}

fn expression(requirement: &NodeSelectorRequirement) -> Expression {
    let mut values = requirement.values.clone().unwrap_or_default();
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        // An operator of tomorrow: nothing is known to match it.
        _ => {
            values.clear();
            Operator::In
        }
    };
    Expression { key: requirement.key.clone(), operator, values }
}
