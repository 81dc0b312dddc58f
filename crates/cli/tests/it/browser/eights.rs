//! A fleet as data centres have it: nodes with eight GPUs and long names, people at work on some of them, others waiting.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn node(name: &str, product: &str, layout: &str, slices: &[(&str, u32)], more: &Value) -> Value {
    let mut allocatable = json!({"cpu": "192", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": "0"});
    for (profile, count) in slices {
        allocatable[format!("nvidia.com/mig-{profile}")] = json!(count.to_string());
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "slicewright.io/pool": "research", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.count": "8", "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.config": layout, "nvidia.com/mig.config.state": "success",
        }},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if !more.is_null() {
        node["spec"] = more.clone();
    }
    node
}

fn pod(name: &str, profile: &str, count: u32, on: Option<&str>) -> Value {
    let status = match on {
        Some(_) => json!({"phase": "Running"}),
        None => json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes are available"},
        ]}),
    };
    let limits = json!({format!("nvidia.com/mig-{profile}"): count.to_string()});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "computational-fluid-dynamics-and-turbulence", "name": name,
            "creationTimestamp": "2026-11-20T07:41:00Z",
        },
        "spec": {"containers": [{"name": "notebook", "resources": {"limits": limits}}]},
        "status": status,
    });
    if let Some(node) = on {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// The recorded fleet and its policy, as files.
pub(crate) fn files() -> (PathBuf, PathBuf) {
    let long = "gpu-h100-rack-17-chassis-03.research.cluster-a.example.internal";
    let objects = json!([
        node(long, "NVIDIA-H100-80GB-HBM3", "all-1g.10gb", &[("1g.10gb", 56)], &Value::Null),
        node("gpu-h100-2", "NVIDIA-H100-80GB-HBM3", "all-7g.80gb", &[("7g.80gb", 8)], &Value::Null),
        node("gpu-h100-3", "NVIDIA-H100-80GB-HBM3", "all-7g.80gb", &[("7g.80gb", 8)], &Value::Null),
        node("gpu-h200-1", "NVIDIA-H200", "all-1g.18gb", &[("1g.18gb", 56)], &json!({"unschedulable": true})),
        node("gpu-a30-1", "NVIDIA-A30", "all-1g.6gb", &[("1g.6gb", 32)], &Value::Null),
        pod("turbulence-of-a-wing-in-transonic-flow-0", "1g.10gb", 3, Some(long)),
        pod("pretrain-0", "7g.80gb", 2, Some("gpu-h100-2")),
        pod("somebody-who-waits-for-half-a-gpu-0", "3g.40gb", 1, None),
        pod("somebody-who-waits-for-half-a-gpu-1", "3g.40gb", 4, None),
        pod("somebody-who-waits-for-a-quarter-0", "2g.20gb", 3, None),
    ]);
    let fleet = json!({
        "apiVersion": "snapshot.slicewright.io/v1", "kind": "Snapshot", "takenAt": "2026-11-20T08:00:00Z",
        "cluster": "eights", "objects": objects,
    });
    let policy = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy", "metadata": {"name": "research"},
        "spec": {
            "nodeSelector": {"matchLabels": {"slicewright.io/pool": "research"}},
            "layout": {"type": "DemandDriven", "demandDriven": {"slices": [
                {"profile": "1g.10gb", "spareCount": 1}, {"profile": "3g.40gb", "minCount": 1},
            ]}},
        },
    });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("eights");
    fs::create_dir_all(&folder).unwrap();
    let (recorded, policies) = (folder.join("fleet.yaml"), folder.join("policies.yaml"));
    fs::write(&recorded, fleet.to_string()).unwrap();
    fs::write(&policies, policy.to_string()).unwrap();
    (recorded, policies)
}
