//! What objects are called, and short names for texts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use operands::PodName;

/// Namespace and name.
pub(crate) fn name_of(meta: &ObjectMeta) -> PodName {
    PodName::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// A short name for a text (FNV-1a).
pub(crate) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
