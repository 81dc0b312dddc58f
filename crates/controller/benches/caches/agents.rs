//! Nodes that have agents: what each reports of its eight GPUs, and its pod.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::host;

/// What the pods of the bench ask for.
const SMALL: &str = "1g.10gb";

const AT: &str = "2026-11-20T08:59:00Z";

fn uid(n: usize) -> String {
    format!("30000000-0000-4000-8000-{n:012}")
}

/// The node has been handed over to its agent.
pub(crate) fn has(mut node: Node) -> Node {
    let labels = node.metadata.labels.get_or_insert_default();
    for (key, value) in [
        ("nvidia.com/gpu.deploy.mig-manager", "false"),
        ("nvidia.com/mig.config", rollout::names::HANDED_TO_AGENT),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    node
}

/// The agent's own pod on a node.
pub(crate) fn pod(n: usize) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("slicewright-agent-{n}"), "namespace": "slicewright-agent", "uid": uid(n),
            "resourceVersion": "1234567890", "creationTimestamp": "2026-11-20T08:00:00Z",
            "labels": {"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "slicewright-agent",
                "uid": "slicewright-agent", "controller": true}]},
        "spec": {"nodeName": host(n), "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .expect("a pod is built from the parts of one")
}

/// What the agent of a node reports: each GPU has two small slices and a large one, and the first small ones are
/// these pods'.
pub(crate) fn report(n: usize, number: u64, pods: &[Pod]) -> Value {
    let mut holders = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
    let mut slice = |gpu: usize, profile: &str, start: u8| {
        let holder = if profile == SMALL { holders.next() } else { None };
        json!({
            "profile": profile, "start": start, "used": if holder.is_some() { "InUse" } else { "Idle" },
            "devices": [format!("MIG-40000000-{n:04}-4000-800{gpu}-{start:012}")],
            "holders": holder.map_or(json!([]), |uid| json!([{"uid": uid, "container": "main"}])),
        })
    };
    let gpus: Vec<_> = (0..8)
        .map(|gpu| {
            let slices = [(SMALL, 0), (SMALL, 1), ("3g.40gb", 4)].map(|(profile, at)| slice(gpu, profile, at));
            json!({"index": gpu, "model": "A100-80GB", "uuid": format!("GPU-40000000-{n:04}-4000-800{gpu}-000000000000"),
                "migEnabled": true, "slices": slices})
        })
        .collect();
    let boot = format!("{n:032}");
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
        "metadata": {"name": host(n), "uid": format!("50000000-0000-4000-8000-{n:012}"), "resourceVersion": "1",
            "generation": 1},
        "spec": {"policy": "research"},
        "status": {
            "observed": {"by": "Agent", "at": AT, "bootId": boot, "gpus": gpus},
            "agent": {"podUid": uid(n), "bootId": boot, "version": "1.2.3", "mode": "Change", "report": number, "at": AT},
        },
    })
}
