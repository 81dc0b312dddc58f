//! The maps whose texts MIG manager and the device plugin read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;

use super::{keep, metadata};

/// A map of layouts, or of the device plugin's configurations: of the first the
/// key `config.yaml` is read, of the second all, but of what is not text only the names.
#[must_use]
pub fn config_map(full: ConfigMap) -> ConfigMap {
    let ConfigMap { metadata: meta, data, binary_data, .. } = full;
    let mut meta = metadata(meta);
    meta.annotations = keep(meta.annotations, |key| key.starts_with("slicewright.io/"));
    let layouts = data.as_ref().and_then(|data| data.get(rollout::names::MAP_KEY));
    let is_of_layouts = layouts.is_some_and(|text| text.contains("mig-configs"));
    let is_read = |key: &str| !is_of_layouts || key == rollout::names::MAP_KEY;
    let data = data.map(|all| all.into_iter().filter(|(key, _)| is_read(key)).collect());
    let binary = binary_data.filter(|_| !is_of_layouts).unwrap_or_default().into_keys();
    let binary: BTreeMap<String, ByteString> = binary.map(|key| (key, ByteString::default())).collect();
    let binary_data = (!binary.is_empty()).then_some(binary);
    ConfigMap { metadata: meta, data, binary_data, ..ConfigMap::default() }
}
