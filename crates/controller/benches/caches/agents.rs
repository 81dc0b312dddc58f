//! A node agent on each node: its pod, and what it reports of eight GPUs.

use std::collections::BTreeMap;

use controller::store::{Change, Item, Source, Store};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// How many GPUs a node has.
const GPUS: usize = 8;
/// The slices of each: profile and start.
const LAYOUT: [(&str, usize); 3] = [("1g.10gb", 0), ("1g.10gb", 1), ("3g.40gb", 4)];
/// The profile of those that pods hold.
const HELD: &str = "1g.10gb";

/// The pod of the agent of a node, ready.
fn pod(node: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("agent-{node}"), "namespace": "slicewright-agent", "uid": uid(node),
            "resourceVersion": "1234567890",
            "labels": {"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "slicewright-agent", "uid": "ds",
                "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .expect("a pod is built from the parts of one")
}

fn uid(node: &str) -> String {
    format!("agent-of-{node}")
}

/// What it writes, where the pods with these uids hold a slice each.
fn report(node: &str, boot_id: &str, holders: &[String]) -> Value {
    let mut holders = holders.iter();
    let gpus: Vec<Value> = (0..GPUS)
        .map(|gpu| {
            let slices = LAYOUT.map(|(profile, start)| {
                let holder = if profile == HELD { holders.next() } else { None };
                json!({
                    "profile": profile, "start": start, "used": if holder.is_some() { "InUse" } else { "Idle" },
                    "devices": [format!("MIG-{node}-{gpu}-{start}")],
                    "holders": holder.map_or(json!([]), |uid| json!([{"uid": uid, "container": "main"}])),
                })
            });
            json!({"index": gpu, "model": "A100-80GB", "uuid": format!("GPU-{node}-{gpu}"), "migEnabled": true,
                "slices": slices})
        })
        .collect();
    let at = "2026-11-20T08:59:00Z";
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
        "metadata": {"name": node, "uid": format!("of-{node}"), "generation": 1, "resourceVersion": "1234567890"},
        "spec": {},
        "status": {
            "observed": {"by": "Agent", "at": at, "bootId": boot_id, "gpus": gpus},
            "agent": {"podUid": uid(node), "bootId": boot_id, "version": "9.8.7", "mode": "Change", "report": 1, "at": at},
        },
    })
}

/// Puts an agent on each of these nodes: by name, its boot id and the uids of who holds a slice.
pub(crate) fn put(store: &mut Store, nodes: &BTreeMap<String, (String, Vec<String>)>) {
    for name in nodes.keys() {
        store.take(&Source::Pods, Change::Put(Item::pod(pod(name))));
    }
    store.expect(Source::GpuNodes);
    store.take(&Source::GpuNodes, Change::Begin(None));
    for (name, (boot_id, holders)) in nodes {
        let object = serde_json::from_value(report(name, boot_id, holders)).expect("a GpuNode is an object");
        store.take(&Source::GpuNodes, Change::Put(Item::dynamic(object)));
    }
    store.take(&Source::GpuNodes, Change::End);
}
