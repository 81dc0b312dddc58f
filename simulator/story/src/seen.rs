//! One node as the rollout sees it: plain data, read from the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use planner::names::{GpuIndex, PodRef};
use rollout::observed::{Listing, MapSeen, Observed, Operator, Pod as SeenPod, PodPhase, Refusal};
use rollout::{NodeLayout, names};

use crate::asks::{amounts, of_pod};

/// What the operator knows beside the objects.
#[derive(Clone, Debug)]
pub(crate) struct Beside<'a> {
    /// How the pods were read.
    pub(crate) listing: Listing,
    /// Evictions that were refused since the last call.
    pub(crate) refusals: Vec<Refusal>,
    /// Our map.
    pub(crate) map: Option<&'a ConfigMap>,
    /// When we changed it last.
    pub(crate) map_changed: Option<Timestamp>,
    /// The names of its entries.
    pub(crate) entries: BTreeSet<String>,
    /// What the node's label means.
    pub(crate) label_layout: Option<NodeLayout>,
    /// The GPU Operator's settings.
    pub(crate) operator: Operator,
    /// The GPUs that pods hold, by pod, where an agent says so.
    pub(crate) gpus: BTreeMap<PodRef, BTreeSet<GpuIndex>>,
}

/// A node, its pods and what is known beside.
pub(crate) fn observed<'a>(node: &Node, pods: impl Iterator<Item = &'a Pod>, beside: Beside<'_>) -> Observed {
    let Beside { listing, refusals, map, map_changed, entries, label_layout, operator, gpus } = beside;
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let bound = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(name);
    Observed {
        resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        unschedulable: node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false),
        ready,
        boot_id: status.node_info.map(|i| i.boot_id).unwrap_or_default(),
        allocatable: of_nvidia(amounts(status.allocatable.as_ref())),
        pods: pods.filter(bound).map(|pod| seen_pod(pod, &gpus)).collect(),
        listing,
        refusals,
        map: MapSeen {
            resource_version: map.and_then(|m| m.metadata.resource_version.clone()),
            entries,
            changed_at: map_changed,
        },
        label_layout,
        operator,
    }
}

fn of_nvidia(amounts: BTreeMap<String, i64>) -> BTreeMap<String, u64> {
    let ours = |(name, n): (String, i64)| {
        name.starts_with(names::RESOURCE_PREFIX).then(|| (name, u64::try_from(n).unwrap_or(0)))
    };
    amounts.into_iter().filter_map(ours).collect()
}

/// The name by which the planner and the rollout know a pod.
pub(crate) fn pod_ref(pod: &Pod) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}

fn seen_pod(pod: &Pod, gpus: &BTreeMap<PodRef, BTreeSet<GpuIndex>>) -> SeenPod {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let name = pod_ref(pod);
    SeenPod {
        gpus: gpus.get(&name).cloned(),
        pod: name,
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        app: pod.metadata.labels.as_ref().and_then(|l| l.get("app")).cloned(),
        phase: match phase {
            "Succeeded" | "Failed" => PodPhase::Ended,
            "Running" => PodPhase::Started,
            _ => PodPhase::Pending,
        },
        terminating: pod.metadata.deletion_timestamp.is_some(),
        ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        daemon_set: pod.metadata.owner_references.iter().flatten().any(|o| o.kind == "DaemonSet"),
        requests: of_nvidia(of_pod(pod)),
    }
}
