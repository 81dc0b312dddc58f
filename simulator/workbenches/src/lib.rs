//! The values that OpenShift AI's webhook writes into a Notebook from its hardware profile (release 3.5:
//! limits equal requests). Pure: the stories call it when a Notebook is written; on a real API server there
//! is no webhook of ours, and the replacement of the notebook controller calls it instead.
//!
//! The operator reads profiles with code of its own (`observe`), so the tests are independent of it.

pub mod dashboard;

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::Identifier;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

/// What the webhook makes of a Notebook.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// The pod's spec.
    pub spec: Value,
    /// The local queue, for the label.
    pub queue: Option<String>,
}

/// Injects a hardware profile into the pod spec of a Notebook of this name.
/// Keys that the user gave stay.
#[must_use]
pub fn inject(name: &str, mut spec: Value, profile: &HardwareProfile) -> Injected {
    if let Some(container) = target(&mut spec, name) {
        for Identifier { identifier, default_count, .. } in &profile.spec.identifiers {
            let count = match default_count {
                Some(IntOrString::Int(n)) => n.to_string(),
                Some(IntOrString::String(text)) => text.clone(),
                None => continue,
            };
            for list in ["requests", "limits"] {
                object(object(container, "resources"), list)
                    .entry(identifier)
                    .or_insert_with(|| json!(count));
            }
        }
    }
    let Some(scheduling) = &profile.spec.scheduling else { return Injected { spec, queue: None } };
    if scheduling.type_ == "Queue" {
        // A queue decides where: neither selector nor tolerations.
        let queue = scheduling.kueue.as_ref().map(|kueue| kueue.local_queue_name.clone());
        return Injected { spec, queue };
    }
    if let (Some(node), Some(pod)) = (&scheduling.node, spec.as_object_mut()) {
        for (key, value) in &node.node_selector {
            object(pod, "nodeSelector").insert(key.clone(), json!(value));
        }
        let wanted: Vec<Value> = node.tolerations.iter().map(|toleration| json!(toleration)).collect();
        if !wanted.is_empty() {
            let own = pod.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
            let own = own.into_iter().filter(|toleration| !wanted.contains(toleration));
            pod.insert("tolerations".to_owned(), wanted.iter().cloned().chain(own).collect());
        }
    }
    Injected { spec, queue: None }
}

/// The only container, or the one that is named like the Notebook.
fn target<'a>(spec: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let containers = spec.get_mut("containers")?.as_array_mut()?;
    let at = if containers.len() == 1 { 0 } else { containers.iter().position(|c| c["name"] == name)? };
    containers[at].as_object_mut()
}

/// The map under a key, which is made when it is not there.
fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(scheduling: Value) -> HardwareProfile {
        serde_json::from_value(json!({
            "metadata": {"name": "slice", "namespace": "redhat-ods-applications"},
            "spec": {"identifiers": [
                {"identifier": "nvidia.com/mig-1g.5gb", "defaultCount": 1},
                {"identifier": "cpu", "defaultCount": 8}, {"identifier": "memory", "defaultCount": "32Gi"},
            ], "scheduling": scheduling},
        }))
        .expect("a profile")
    }

    #[test]
    fn keys_that_the_user_gave_stay_and_the_others_come_from_the_profile() {
        let spec = json!({
            "containers": [{"name": "side"}, {"name": "lab", "resources": {"requests": {"cpu": "2"}}}],
            "tolerations": [{"key": "own"}, {"key": "workload"}], "nodeSelector": {"gpu": "maybe"},
        });
        let profile = profile(json!({"type": "Node", "node": {
            "nodeSelector": {"gpu": "yes"}, "tolerations": [{"key": "workload"}]}}));
        let Injected { spec, queue } = inject("lab", spec, &profile);
        assert_eq!(
            spec["containers"][1]["resources"]["requests"],
            json!({"cpu": "2", "memory": "32Gi", "nvidia.com/mig-1g.5gb": "1"})
        );
        assert_eq!(spec["containers"][0], json!({"name": "side"}));
        assert_eq!(spec["nodeSelector"], json!({"gpu": "yes"}), "the profile wins");
        assert_eq!(spec["tolerations"], json!([{"key": "workload"}, {"key": "own"}]));
        assert_eq!(queue, None);
    }

    #[test]
    fn a_queue_gets_its_label_and_neither_selector_nor_tolerations() {
        let profile = profile(json!({"type": "Queue", "kueue": {"localQueueName": "gpus"}}));
        let injected = inject("lab", json!({"containers": [{"name": "other"}]}), &profile);
        assert_eq!(injected.queue.as_deref(), Some("gpus"));
        assert_eq!(injected.spec.get("nodeSelector"), None);
        assert_eq!(injected.spec["containers"][0]["resources"]["limits"]["cpu"], "8", "the only container");
    }
}
