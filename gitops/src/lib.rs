//! What GitOps tools make of our objects: whether they are done, on their
//! way, or in need of a human. Three judges, as the tools have them:
//! [`kstatus`] (Flux without more, `kubectl wait` of cli-utils, kpt),
//! [`flux`] (a Kustomization with expressions), [`argocd`] (a script).
//!
//! For tests. Each judge is written a second time, from what its tool does,
//! and given what we ship: the expressions and the script that users take
//! from `examples/gitops` and `deploy/argocd`. [`judged`] holds one object to
//! all of them at once, so that they never say different things.

pub mod argocd;
mod contract;
pub mod flux;
pub mod kstatus;

use std::path::{Path, PathBuf};

pub use contract::{CUSTOMIZATION, Judges, KUSTOMIZATION, Problem, judged};

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Something in an object, by its path, as a text.
pub(crate) fn text<'a>(object: &'a serde_json::Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// The conditions of an object, in the order in which they stand.
pub(crate) fn conditions(object: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    object.pointer("/status/conditions").and_then(serde_json::Value::as_array).into_iter().flatten()
}
