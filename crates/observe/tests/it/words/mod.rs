//! Builders for objects, as the API server would return them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of them")]

use jiff::Timestamp;
use mig::Catalog;
use observe::{ClusterView, Objects, Problem, Settings, manifest};
use planner::inventory::{Node, Slices, Use};
use planner::names::{GpuIndex, NodeName};
use serde_json::{Value, json};

pub const NOW: &str = "2026-11-21T09:00:00Z";

pub fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// Reads manifests that are right, and looks at them.
#[track_caller]
pub fn see(objects: &[Value]) -> ClusterView {
    see_with(objects, |_| ())
}

/// The same, with what the operator knows beside the objects.
#[track_caller]
pub fn see_with(objects: &[Value], knows: impl FnOnce(&mut Objects)) -> ClusterView {
    let mut all = Objects::default();
    let mut problems = Vec::new();
    for object in objects {
        manifest::read(&mut all, "test.yaml", &object.to_string(), &mut problems);
    }
    assert_eq!(problems, [], "the objects can be read");
    knows(&mut all);
    observe::observe(&all, Catalog::builtin(), &Settings::default(), now())
}

/// Reads a text of manifests, and gives the problems as a reader sees them.
pub fn problems_of(text: &str) -> Vec<String> {
    let mut all = Objects::default();
    let mut problems = Vec::new();
    manifest::read_all(&mut all, [("p.yaml", text)], &mut problems);
    let seen = observe::observe(&all, Catalog::builtin(), &Settings::default(), now());
    problems.iter().chain(&seen.problems).map(ToString::to_string).collect()
}

pub fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// A ready node with two A100-80GB under strategy mixed, MIG off.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "pool": "research",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            "nvidia.com/gpu.count": "2",
            "nvidia.com/mig.capable": "true",
            "nvidia.com/mig.strategy": "mixed",
        }},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "b-1"},
        },
    })
}

/// Sets the layout label and what the node advertises.
pub fn cut(mut node: Value, entry: &str, advertises: &[(&str, u32)]) -> Value {
    node["metadata"]["labels"]["nvidia.com/mig.config"] = entry.into();
    node["metadata"]["labels"]["nvidia.com/mig.config.state"] = "success".into();
    let allocatable = &mut node["status"]["allocatable"];
    allocatable["nvidia.com/gpu"] = "0".into();
    for (resource, n) in advertises {
        allocatable[format!("nvidia.com/{resource}")] = n.to_string().into();
    }
    node
}

/// A pod that asks for slices; bound where a node is given, else called
/// unschedulable by the scheduler.
pub fn pod(namespace: &str, name: &str, asks: &[(&str, u32)], on: Option<&str>) -> Value {
    let mut limits = json!({"cpu": "1", "memory": "1Gi"});
    for (resource, n) in asks {
        limits[format!("nvidia.com/{resource}")] = n.to_string().into();
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    });
    match on {
        Some(node) => {
            pod["spec"]["nodeName"] = node.into();
            pod["status"]["phase"] = "Running".into();
        }
        None => {
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb.",
            }]);
        }
    }
    pod
}

pub fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"matchLabels": {"pool": "research"}},
            "layout": {"type": "DemandDriven"},
        },
    })
}

pub fn notebook(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": "2026-11-21T08:30:00Z"},
        "spec": {"template": {"spec": {"containers": [
            {"name": name, "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}},
        ]}}},
    })
}

#[track_caller]
pub fn node_of<'a>(seen: &'a ClusterView, name: &str) -> &'a Node {
    seen.inventory.nodes.get(&NodeName::from(name)).expect("the node is in the inventory")
}

/// The slices of one GPU in a short notation: `1g.10gb idle`, `3g.40gb in use by a/b`.
#[track_caller]
pub fn slices(node: &Node, gpu: u16) -> Vec<String> {
    let used = |used: &Use| match used {
        Use::Idle => "idle".to_owned(),
        Use::InUse { by } => format!("in use by {by}"),
        Use::MaybeInUse { by } => {
            let by: Vec<_> = by.iter().map(ToString::to_string).collect();
            format!("maybe in use by {}", by.join(", "))
        }
    };
    match &node.gpus[&GpuIndex(gpu)].slices {
        Slices::MigOff { used: u } => vec![format!("off, {}", used(u))],
        Slices::Counted(all) => all.iter().map(|s| format!("{} {}", s.profile, used(&s.used))).collect(),
        Slices::Placed(all) => {
            all.iter().map(|s| format!("{}@{} {}", s.profile, s.start, used(&s.used))).collect()
        }
    }
}
