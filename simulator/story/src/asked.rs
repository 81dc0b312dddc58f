//! The objects behind the short commands, as a user or the dashboard would have written them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::DynamicObject;
use mig::ProfileName;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::command::{Key, PodSpec, WorkbenchSpec};
use crate::webhook::{APPLICATION_NAMESPACE, PROFILE_NAME, PROFILE_NAMESPACE};

/// What a workbench of the dashboard has beside its slices.
const CPU: u32 = 2;
const MEMORY: u32 = 8;

/// `1 x 3g.40gb, 2 x 1g.10gb`.
pub(crate) fn in_words(slices: &BTreeMap<ProfileName, u32>, whole_gpus: u32) -> String {
    let mut parts: Vec<String> = slices.iter().map(|(profile, n)| format!("{n} x {profile}")).collect();
    if whole_gpus > 0 {
        parts.push(format!("{whole_gpus} x nvidia.com/gpu"));
    }
    if parts.is_empty() { "no slice".to_owned() } else { parts.join(", ") }
}

/// The same for everything that a workbench or a pod asks for.
pub(crate) fn asks_in_words(asks: &WorkbenchSpec) -> String {
    let shares = (asks.shares > 0).then(|| format!("{} x nvidia.com/gpu.shared", asks.shares));
    match shares {
        Some(shares) if asks.slices.is_empty() && asks.whole_gpus == 0 => shares,
        Some(shares) => format!("{}, {shares}", in_words(&asks.slices, asks.whole_gpus)),
        None => in_words(&asks.slices, asks.whole_gpus),
    }
}

fn pod_spec(container: &str, asks: &WorkbenchSpec, defaults: bool) -> Value {
    let mut list = Map::new();
    let cpu = asks.cpu.or(defaults.then_some(CPU));
    let memory = asks.memory.or(defaults.then_some(MEMORY));
    cpu.map(|n| list.insert("cpu".to_owned(), json!(n.to_string())));
    memory.map(|n| list.insert("memory".to_owned(), json!(format!("{n}Gi"))));
    for (profile, n) in &asks.slices {
        list.insert(profile.resource_name(), json!(n.to_string()));
    }
    if asks.whole_gpus > 0 {
        list.insert("nvidia.com/gpu".to_owned(), json!(asks.whole_gpus.to_string()));
    }
    if asks.shares > 0 {
        list.insert("nvidia.com/gpu.shared".to_owned(), json!(asks.shares.to_string()));
    }
    let mut spec =
        json!({"containers": [{"name": container, "resources": {"requests": list, "limits": list}}]});
    if !asks.selector.is_empty() {
        spec["nodeSelector"] = json!(asks.selector);
    }
    if asks.priority != 0 {
        spec["priority"] = json!(asks.priority);
    }
    spec
}

/// A Notebook as the dashboard writes it.
pub(crate) fn notebook((namespace, name): &Key, asks: &WorkbenchSpec) -> DynamicObject {
    let mut annotations = json!({
        "openshift.io/display-name": name,
        "notebooks.opendatahub.io/inject-auth": "true",
    });
    if let Some(profile) = &asks.profile {
        let (space, profile) = profile.text.split_once('/').unwrap_or((APPLICATION_NAMESPACE, &profile.text));
        annotations[PROFILE_NAME] = json!(profile);
        annotations[PROFILE_NAMESPACE] = json!(space);
    }
    // With a profile, CPU and memory come from it unless the user said otherwise.
    let spec = pod_spec(name, asks, asks.profile.is_none());
    serde_json::from_value(json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {"app": name, "opendatahub.io/dashboard": "true", "opendatahub.io/odh-managed": "true"},
            "annotations": annotations,
        },
        "spec": {"template": {"spec": spec}},
    }))
    .expect("an object is built from the parts of one")
}

/// A bare pod.
pub(crate) fn pod((namespace, name): &Key, asks: &PodSpec) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": pod_spec("main", &asks.asks, true),
    }))
    .expect("a pod is built from the parts of one")
}

/// A disruption budget.
pub(crate) fn budget(
    (namespace, name): &Key,
    labels: &BTreeMap<String, String>,
    min: i32,
) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": min, "selector": {"matchLabels": labels}},
    }))
    .expect("a budget is built from the parts of one")
}
