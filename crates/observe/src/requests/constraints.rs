//! The scheduling constraints of a pod that we consider.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use planner::demand::{Constraints, Expression, Operator, Term, Toleration, Volume};

use crate::volumes::Volumes;

/// Node selector, required node affinity, and tolerations: what stands in the pod alone.
pub(super) fn from_pod_spec(spec: &PodSpec) -> Constraints {
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let affinity = required.map(|selector| terms(&selector.node_selector_terms)).unwrap_or_default();
    let tolerations = spec
        .tolerations
        .iter()
        .flatten()
        .map(|toleration| Toleration {
            key: toleration.key.clone().unwrap_or_default(),
            exists: toleration.operator.as_deref() == Some("Exists"),
            value: toleration.value.clone().unwrap_or_default(),
            effect: toleration.effect.clone().unwrap_or_default(),
        })
        .collect();
    Constraints {
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        affinity,
        tolerations,
        ..Constraints::default()
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
