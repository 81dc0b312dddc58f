//! The maps of layouts, as ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

/// The namespace of the operator's map.
pub(crate) const MAP_NAMESPACE: &str = "nvidia-gpu-operator";
/// The name of the administrators' own map.
pub(crate) const ADMINISTRATORS_MAP: &str = "their-mig-config";

/// A map of layouts in the namespace of the GPU Operator.
pub(crate) fn config_map(name: &str, text: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": MAP_NAMESPACE}, "data": {"config.yaml": text},
    }))
    .expect("a map is built from the parts of one")
}

/// The operator's map of the device plugin's configurations.
pub(crate) fn plugin_map(data: &BTreeMap<String, String>) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": rollout::names::PLUGIN_MAP_NAME, "namespace": MAP_NAMESPACE}, "data": data,
    }))
    .expect("a map is built from the parts of one")
}
