//! A node's engine as a Node object, and the difference from the API server's object as a patch. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value, json};

use crate::annotations::NODE;
use crate::fleet::NodeSpec;

/// The node as its kubelet first registers it.
pub(crate) fn registration(node: &operands::Node, spec: &NodeSpec, now: Timestamp) -> core::Node {
    let mut labels = node.labels().clone();
    labels.insert(NODE.to_owned(), "true".to_owned());
    let mut status = extended(node.capacity(), node.allocatable());
    for list in ["capacity", "allocatable"] {
        status[list]["cpu"] = json!(spec.cpu.to_string());
        status[list]["memory"] = json!(spec.memory);
        status[list]["pods"] = json!(spec.pods.to_string());
        status[list]["ephemeral-storage"] = json!("500Gi");
        for (resource, count) in &spec.devices {
            status[list][resource] = json!(count.to_string());
        }
    }
    status["conditions"] = json!([ready(node, now)]);
    status["nodeInfo"] = info(node);
    status["addresses"] = json!([
        {"type": "InternalIP", "address": address(node.name())},
        {"type": "Hostname", "address": node.name()},
    ]);
    serde_json::from_value(json!({
        "metadata": {"name": node.name(), "labels": labels},
        "spec": if spec.taints.is_empty() { json!({}) } else { json!({"taints": spec.taints}) },
        "status": status,
    }))
    .expect("a node is built from the parts of one")
}

/// What has to be patched in the status, strategically; nothing when all is
/// as it should be.
pub(crate) fn status_patch(seen: &core::Node, node: &operands::Node, now: Timestamp) -> Option<Value> {
    let mut patch = Map::new();
    let status = seen.status.as_ref();
    let have = [status.and_then(|s| s.capacity.as_ref()), status.and_then(|s| s.allocatable.as_ref())];
    let want = [node.capacity(), node.allocatable()];
    for ((list, have), want) in ["capacity", "allocatable"].into_iter().zip(have).zip(want) {
        let differs = |(name, count): &(&String, &u64)| {
            have.and_then(|h| h.get(*name)) != Some(&Quantity(count.to_string()))
        };
        let changed: Map<_, _> =
            want.iter().filter(differs).map(|(name, n)| (name.clone(), json!(n.to_string()))).collect();
        if !changed.is_empty() {
            patch.insert(list.to_owned(), Value::Object(changed));
        }
    }
    let wanted = ready(node, now);
    let conditions = status.and_then(|s| s.conditions.as_ref());
    let is_said = conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "Ready"
            && wanted["status"] == condition.status
            && wanted["reason"] == condition.reason.as_deref().unwrap_or_default()
    });
    if !is_said {
        patch.insert("conditions".to_owned(), json!([wanted]));
    }
    if status.and_then(|s| s.node_info.as_ref()).is_none_or(|info| info.boot_id != node.boot_id()) {
        patch.insert("nodeInfo".to_owned(), info(node));
    }
    (!patch.is_empty()).then(|| json!({ "status": patch }))
}

fn extended(capacity: &BTreeMap<String, u64>, allocatable: &BTreeMap<String, u64>) -> Value {
    let text = |of: &BTreeMap<String, u64>| -> Map<String, Value> {
        of.iter().map(|(name, count)| (name.clone(), json!(count.to_string()))).collect()
    };
    json!({"capacity": text(capacity), "allocatable": text(allocatable)})
}

fn ready(node: &operands::Node, now: Timestamp) -> Value {
    let (status, reason, message) = if node.ready() {
        ("True", "KubeletReady", "kubelet is posting ready status")
    } else {
        ("False", "KubeletNotReady", "node is shutting down")
    };
    let now = whole_seconds(now);
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

fn info(node: &operands::Node) -> Value {
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    json!({
        "architecture": "amd64", "operatingSystem": "linux", "bootID": node.boot_id(),
        "machineID": node.name(), "systemUUID": node.name(),
        "kernelVersion": label("feature.node.kubernetes.io/kernel-version.full"),
        "osImage": label("feature.node.kubernetes.io/system-os_release.ID"),
        "containerRuntimeVersion": "cri-o://1.33.4", "kubeletVersion": "v1.33.5", "kubeProxyVersion": "",
    })
}

/// An address that follows from the name: nobody listens there.
pub(crate) fn address(name: &str) -> String {
    let hash = name.bytes().fold(17u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("10.{}.{}.{}", (hash >> 16) & 0x7f, (hash >> 8) & 0xff, hash & 0xff)
}

/// Times of the API have no fractions, other than those of leases.
pub(crate) fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Whether a taint keeps the Operator's pods away: they tolerate their own
/// and those that the DaemonSet controller tolerates for everybody.
pub(crate) fn is_foreign(taint: &core::Taint) -> bool {
    taint.effect != "PreferNoSchedule"
        && taint.key != "nvidia.com/gpu"
        && !taint.key.starts_with("node.kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;

    fn now() -> Timestamp {
        "2026-11-22T08:00:00.5Z".parse().expect("a time")
    }

    fn fleet() -> (operands::Node, NodeSpec) {
        let spec = NodeSpec::new("gpu-1", 1, "A100-80GB").layout("all-1g.10gb").label("pool", "research");
        let node = Fleet::default().node(&spec, None, now()).expect("it is possible");
        (node, spec)
    }

    #[test]
    fn what_was_just_registered_needs_no_patch() {
        let (node, spec) = fleet();
        let object = registration(&node, &spec, now());
        assert_eq!(status_patch(&object, &node, now()), None);
        let allocatable = object.status.expect("a status").allocatable.expect("a list");
        assert_eq!(allocatable["nvidia.com/mig-1g.10gb"], Quantity("7".to_owned()));
        assert_eq!(allocatable["cpu"], Quantity("64".to_owned()));
        let labels = object.metadata.labels.expect("labels");
        assert_eq!(labels["pool"], "research");
        assert_eq!(labels["nvidia.com/mig.config.state"], "success");
        assert_eq!(labels[NODE], "true");
    }

    #[test]
    fn only_what_changed_is_patched_and_foreign_resources_stay() {
        let (mut node, spec) = fleet();
        let mut object = registration(&node, &spec, now());
        let status = object.status.as_mut().expect("a status");
        let list = status.allocatable.as_mut().expect("a list");
        list.insert("example.com/fpga".to_owned(), Quantity("2".to_owned()));
        list.insert("nvidia.com/mig-1g.10gb".to_owned(), Quantity("6".to_owned()));
        let patch = status_patch(&object, &node, now());
        assert_eq!(patch, Some(json!({"status": {"allocatable": {"nvidia.com/mig-1g.10gb": "7"}}})));

        node.reboot();
        let patch = status_patch(&object, &node, now()).expect("it is down");
        assert_eq!(patch["status"]["conditions"][0]["status"], "False");
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-11-22T08:00:00Z");
        assert_eq!(patch["status"].get("nodeInfo"), None, "while it is down its boot id is the old one");
        let boot = node.next_event().expect("it comes back");
        node.tick(boot + jiff::SignedDuration::from_mins(10));
        let patch = status_patch(&object, &node, now()).expect("it booted");
        assert_eq!(patch["status"]["nodeInfo"]["bootID"], node.boot_id());
    }

    #[test]
    fn operands_tolerate_their_own_taint_and_no_foreign_one() {
        let taint = |key: &str, effect: &str| core::Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..core::Taint::default()
        };
        assert!(!is_foreign(&taint("nvidia.com/gpu", "NoSchedule")));
        assert!(!is_foreign(&taint("node.kubernetes.io/unschedulable", "NoSchedule")));
        assert!(!is_foreign(&taint("team", "PreferNoSchedule")));
        assert!(is_foreign(&taint("team", "NoSchedule")));
    }
}
