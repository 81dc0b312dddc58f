//! What people select by: without it, a redacted recording would lead to another plan.

use std::collections::BTreeSet;

use super::placed::waited_for;
use crate::apart;
use crate::names::NAMESPACE_NAME;
use crate::objects::Objects;

/// Namespaces that policies name: whoever reads the policies knows them.
pub(super) fn named_by_policies(objects: &Objects) -> BTreeSet<String> {
    let selectors = objects.policies.values().filter_map(|p| p.spec.layout.demand_driven.as_ref());
    let mut named = BTreeSet::new();
    for selector in selectors.map(|demand| &demand.namespace_selector) {
        named.extend(selector.match_labels.get(NAMESPACE_NAME).cloned());
        for expression in selector.match_expressions.iter().filter(|e| e.key == NAMESPACE_NAME) {
            named.extend(expression.values.iter().cloned());
        }
    }
    named
}

/// Keys of labels that somebody selects by.
pub(super) fn selected_by(objects: &Objects) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut of = |selector: &api::selector::Selector| {
        keys.extend(selector.match_labels.keys().cloned());
        keys.extend(selector.match_expressions.iter().map(|expression| expression.key.clone()));
    };
    for policy in objects.policies.values() {
        of(&policy.spec.node_selector);
        if let Some(demand) = &policy.spec.layout.demand_driven {
            of(&demand.namespace_selector);
        }
    }
    let pods = objects.pods.values().filter_map(|pod| pod.spec.as_ref());
    let workbenches = objects.notebooks.values().map(|notebook| notebook.spec.template.spec.shape());
    for spec in pods.chain(workbenches) {
        keys.extend(spec.node_selector.iter().flatten().map(|(key, _)| key.clone()));
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        for term in required.iter().flat_map(|selector| &selector.node_selector_terms) {
            keys.extend(term.match_expressions.iter().flatten().map(|expression| expression.key.clone()));
        }
    }
    for pod in objects.pods.values() {
        keys.extend(apart::rules(pod).iter().filter_map(|rule| rule.topology().map(str::to_owned)));
    }
    keys.extend(objects.placed_alone.values().cloned());
    keys.extend(waited_for(objects).labels().cloned());
    for flavor in objects.resource_flavors.values() {
        keys.extend(flavor.spec.node_labels.keys().cloned());
    }
    for set in objects.workloads.values().flat_map(|workload| &workload.spec.pod_sets) {
        keys.extend(
            apart::of_template(&set.template).iter().filter_map(|rule| rule.topology().map(str::to_owned)),
        );
        keys.extend(set.required_topology().cloned());
        keys.extend(set.template.spec.shape().node_selector.iter().flat_map(|labels| labels.keys().cloned()));
    }
    for profile in objects.hardware_profiles.values() {
        let node = profile.spec.scheduling.as_ref().and_then(|scheduling| scheduling.node.as_ref());
        keys.extend(node.iter().flat_map(|node| node.node_selector.keys().cloned()));
    }
    keys
}
