//! A node as a machine that takes pods.

use k8s_openapi::api::core::v1::Node;
use planner::inventory::{Room, Taint};

use crate::requests::constraints;
use crate::{names, pods};

/// What a node has for pods. One that does not say is not judged by it.
pub(super) fn room(node: &Node) -> Room {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let has = |resource: &str| {
        let quantity = allocatable?.get(resource)?;
        i64::try_from(pods::amount(resource, quantity)?).ok()
    };
    Room {
        cpu_milli: has("cpu").unwrap_or(i64::MAX),
        memory_bytes: has("memory").unwrap_or(i64::MAX),
        storage_bytes: has(names::RESOURCE_STORAGE).unwrap_or(i64::MAX),
        pods: has("pods").unwrap_or(i64::MAX),
    }
}

pub(super) fn taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints: Vec<Taint> = taints.into_iter().flatten().map(constraints::taint).collect();
    taints.sort();
    taints
}
