//! Who cordoned a node, by the field managers that the API server keeps.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use rollout::{CordonOwner, names};
use serde_json::json;

/// Under this name the API server merges the oldest of many managers: whose
/// each field was is lost.
const ANCIENT: &str = "ancient-changes";

/// What is read of a node's managed fields: who owns `spec.unschedulable`.
#[must_use]
pub fn kept(all: Vec<ManagedFieldsEntry>) -> Vec<ManagedFieldsEntry> {
    all.into_iter()
        .filter(owns_cordon)
        .map(|entry| ManagedFieldsEntry {
            manager: entry.manager,
            fields_v1: Some(FieldsV1(json!({"f:spec": {"f:unschedulable": {}}}))),
            ..ManagedFieldsEntry::default()
        })
        .collect()
}

fn owns_cordon(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
    fields.and_then(|fields| fields.get("f:spec")?.get("f:unschedulable")).is_some()
}

/// Who set `spec.unschedulable`.
#[must_use]
pub fn owner(node: &Node) -> CordonOwner {
    let entries = node.metadata.managed_fields.iter().flatten().filter(|entry| owns_cordon(entry));
    let managers: Vec<&str> = entries.map(|entry| entry.manager.as_deref().unwrap_or_default()).collect();
    let other = managers.iter().find(|manager| !matches!(**manager, names::FIELD_MANAGER | ANCIENT | ""));
    match other {
        Some(manager) => CordonOwner::Other { manager: (*manager).to_owned() },
        None if !managers.is_empty() && managers.iter().all(|manager| *manager == names::FIELD_MANAGER) => {
            CordonOwner::Us
        }
        None => CordonOwner::Unknown,
    }
}

/// Whether a node is cordoned, by whomever.
pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

#[cfg(test)]
mod tests {
    use rollout::Progress;

    use super::*;
    use crate::facts::of_node_alone;

    fn node(entries: &serde_json::Value) -> Node {
        let object =
            json!({"metadata": {"name": "n1", "managedFields": entries}, "spec": {"unschedulable": true}});
        serde_json::from_value(object).expect("a node")
    }

    #[track_caller]
    fn check(managers: &[&str], expected: &CordonOwner) {
        let mut entries =
            vec![json!({"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1":
                {"f:metadata": {"f:labels": {}}, "f:spec": {"f:providerID": {}}}})];
        entries.extend(managers.iter().map(|manager| {
            json!({"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1":
                {"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:taints": {}, "f:unschedulable": {}}}})
        }));
        let node = node(&entries.into());
        assert_eq!(owner(&node), *expected, "{managers:?}");
        // What the caches keep of it says the same, and little else.
        let kept = kept(node.metadata.managed_fields.clone().expect("there are some"));
        assert_eq!(kept.len(), managers.len());
        let size = serde_json::to_string(&kept).expect("plain data").len();
        assert!(size <= 2 + managers.len() * 120, "{size}");
        let mut trimmed = node;
        trimmed.metadata.managed_fields = Some(kept);
        assert_eq!(owner(&trimmed), *expected, "{managers:?}, trimmed");
    }

    #[test]
    fn who_set_the_cordon_is_read_from_the_managed_fields() {
        let other = |manager: &str| CordonOwner::Other { manager: manager.to_owned() };
        check(&[], &CordonOwner::Unknown);
        check(&["slicewright-node"], &CordonOwner::Us);
        check(&["kubectl-cordon"], &other("kubectl-cordon"));
        check(&["slicewright-node", "argocd-controller"], &other("argocd-controller"));
        check(&["ancient-changes"], &CordonOwner::Unknown);
        check(&["ancient-changes", "slicewright-node"], &CordonOwner::Unknown);
        check(&["ancient-changes", "kubectl"], &other("kubectl"));
        check(&[""], &CordonOwner::Unknown);
    }

    #[test]
    fn a_cordon_is_ours_by_its_manager_and_only_on_a_node_that_is_cordoned() {
        let ours = json!([{"manager": "slicewright-node", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
        let mut node = node(&ours);
        assert!(of_node_alone(&node).cordoned_by_us(&Progress::default()));
        node.spec = None;
        assert!(!of_node_alone(&node).cordoned_by_us(&Progress::default()));
    }
}
