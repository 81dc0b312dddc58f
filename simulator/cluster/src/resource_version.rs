//! Which of two sights of an object is the newer one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The version of an object, by which newer is told from older.
pub(crate) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
