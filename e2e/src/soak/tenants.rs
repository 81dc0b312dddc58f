//! Whose the pods of a soak are: of every two that come, one is the team's and one is their neighbours'.

use serde_json::{Value, json};

use crate::{NEIGHBOURS, TEAM};

/// The namespace of a pod whose name ends in its number.
pub(super) fn namespace_of(name: &str) -> &'static str {
    let is_even = name.ends_with(['0', '2', '4', '6', '8']);
    if is_even { TEAM } else { NEIGHBOURS }
}

/// A pod by its name.
pub(super) fn named(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace_of(name)}})
}
