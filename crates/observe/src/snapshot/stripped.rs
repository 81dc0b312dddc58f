//! Objects of administrators without what they noted beside what is planned with.

use api::GpuPartitionPolicy;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A policy as it stands in Git. Its labels and annotations say who owns it,
/// and whether the plan was reviewed; neither is planned with.
pub(super) fn policy(policy: &GpuPartitionPolicy) -> GpuPartitionPolicy {
    let metadata = ObjectMeta { labels: None, annotations: None, ..policy.metadata.clone() };
    GpuPartitionPolicy { metadata, spec: policy.spec.clone(), status: None }
}

/// A map of layouts without the words of who wrote it.
pub(super) fn config_map(map: &ConfigMap) -> ConfigMap {
    let without_comments = |text: &String| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let data = map
        .data
        .as_ref()
        .map(|data| data.iter().map(|(key, text)| (key.clone(), without_comments(text))).collect());
    let metadata = ObjectMeta { labels: None, annotations: None, ..map.metadata.clone() };
    ConfigMap { metadata, data, ..map.clone() }
}
