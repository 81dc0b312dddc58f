//! The maps of layouts, as ConfigMaps.

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
