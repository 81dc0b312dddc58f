//! Which map the GPU Operator's pods of a node read keys from, while a DaemonSet replaces them node by node.

use observe::Reading;
use planner::names::NodeName;
use rollout::observed::{Listing, MapSeen};
use serde_json::{Value, json};

use crate::words::{node, see};

const PLUGIN: &str = "nvidia-device-plugin-daemonset";

/// `ClusterPolicy` points the device plugin to this map.
fn points_to(map: &str) -> Value {
    json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"},
        "spec": {"mig": {"strategy": "mixed"}, "devicePlugin": {"config": {"name": map}}}})
}

/// A pod of the GPU Operator on a node, with these volumes.
fn operand(app: &str, node: &str, volumes: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{node}"), "namespace": "nvidia-gpu-operator", "uid": app,
            "labels": {"app": app}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": app,
                "uid": app, "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main"}], "volumes": volumes},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn mounts(maps: &[&str]) -> Value {
    let host = json!({"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}});
    let maps = maps.iter().map(|map| json!({"name": map, "configMap": {"name": map}}));
    maps.chain([host]).collect()
}

/// The pod of node `t1` that mounts another map than the one that `ClusterPolicy` names, if that is ours.
fn of_before(map: &str, pods: &[Value]) -> Option<String> {
    let mut objects = vec![points_to(map), node("t1")];
    objects.extend_from_slice(pods);
    let seen = see(&objects);
    let reading = Reading { listing: Listing::Cached, refusals: Vec::new(), map: MapSeen::default() };
    let facts = seen.nodes[&NodeName::from("t1")].as_read(reading);
    facts.sharing.pod_of_before.map(|pod| pod.name)
}

const OURS: &str = "slicewright-plugin-config";

#[test]
fn a_pod_that_mounts_the_map_of_before_is_known_by_its_volumes() {
    for app in [PLUGIN, "gpu-feature-discovery", "nvidia-device-plugin-mps-control-daemon"] {
        let pod = |maps: &[&str]| operand(app, "t1", &mounts(maps));
        let name = Some(format!("{app}-t1"));
        assert_eq!(of_before(OURS, &[pod(&["time-slicing-config"])]), name, "the map of before");
        assert_eq!(of_before(OURS, &[pod(&[])]), name, "none was named before");
        assert_eq!(of_before(OURS, &[pod(&["entrypoint", OURS])]), None);
        assert_eq!(of_before("time-slicing-config", &[pod(&["time-slicing-config"])]), None, "it is right");
    }
    let of_both = [PLUGIN, "gpu-feature-discovery"].map(|app| operand(app, "t1", &mounts(&[OURS])));
    assert_eq!(of_before(OURS, &of_both), None);
}

#[test]
fn a_pod_of_which_no_volumes_are_kept_is_known_by_what_was_noted_and_otherwise_believed() {
    let noted = |maps: Option<&str>| {
        let mut pod = operand(PLUGIN, "t1", &Value::Null);
        pod["metadata"]["annotations"]["slicewright.io/mounted-maps"] = json!(maps);
        if maps.is_none() {
            pod["metadata"]["annotations"] = Value::Null;
        }
        of_before(OURS, &[pod])
    };
    let name = Some(format!("{PLUGIN}-t1"));
    assert_eq!(noted(Some("time-slicing-config")), name);
    assert_eq!(noted(Some("")), name);
    assert_eq!(noted(Some("entrypoint,slicewright-plugin-config")), None);
    assert_eq!(noted(None), None);
}

#[test]
fn pods_that_go_of_other_nodes_of_others_and_without_keys_say_nothing() {
    let pod = |app: &str, node: &str| operand(app, node, &mounts(&["time-slicing-config"]));
    let mut going = pod(PLUGIN, "t1");
    going["metadata"]["deletionTimestamp"] = "2026-11-22T08:00:00Z".into();
    let mut tenants = pod(PLUGIN, "t1");
    tenants["metadata"]["namespace"] = "team".into();
    for pod in [going, tenants, pod(PLUGIN, "t2"), pod("nvidia-mig-manager", "t1")] {
        assert_eq!(of_before(OURS, std::slice::from_ref(&pod)), None, "{pod}");
    }
}
