//! The pods on a node as the API shows them: those of the operands, which we create, and those of users,
//! whose status the kubelet writes. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use operands::{Operand, OperandPhase, OperandPod, PodName};
use serde_json::{Value, json};

use crate::node_object::{address, whole_seconds};

/// The group of the stand-ins for DaemonSets.
pub(crate) const GROUP: &str = "sim.slicewright.io";

/// What a pod's status should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its containers are being created.
    Starting,
    /// It runs and is ready.
    Running,
    /// Its container exits again and again, with this.
    Crashing(String),
    /// It ended well.
    Succeeded,
    /// It ended, or was refused: reason and message.
    Failed(String, String),
}

impl Life {
    const fn phase(&self) -> &'static str {
        match self {
            Self::Starting => "Pending",
            Self::Running | Self::Crashing(_) => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed(..) => "Failed",
        }
    }

    const fn is_ready(&self) -> bool {
        matches!(self, Self::Running)
    }
}

/// The name of an operand's pod in the API: the engine's is unique on its
/// node only.
pub(crate) fn operand_pod_name(pod: &OperandPod, node: &str) -> String {
    format!("{}-{node}", pod.name)
}

/// What the status of an operand's pod should say; while it stops, what it
/// said before.
pub(crate) fn operand_life(pod: &OperandPod) -> Option<Life> {
    match pod.phase {
        OperandPhase::Starting => Some(Life::Starting),
        OperandPhase::Ready => Some(Life::Running),
        OperandPhase::CrashLooping => Some(Life::Crashing(pod.problem.clone().unwrap_or_default())),
        OperandPhase::Terminating => None,
    }
}

/// The pod of an operand, bound to its node as the DaemonSet controller and
/// the scheduler would have done. `owners` are the UIDs of the stand-ins for
/// the DaemonSets, by `app`, and `map` the ConfigMap that `ClusterPolicy` names
/// for the device plugin, which those mount that read a key of it.
pub(crate) fn operand_pod(
    pod: &OperandPod,
    node: &str,
    namespace: &str,
    owners: &BTreeMap<String, String>,
    map: &str,
) -> Pod {
    let app = pod.app();
    let volume = match map {
        "" => json!({"name": "run", "emptyDir": {}}),
        map => json!({"name": map, "configMap": {"name": map}}),
    };
    let reads_a_key = matches!(pod.operand, Operand::DevicePlugin | Operand::GpuFeatureDiscovery);
    let volumes = reads_a_key.then(|| json!([volume]));
    let owner = owners.get(app).map(|uid| {
        json!([{"apiVersion": format!("{GROUP}/v1"), "kind": "DaemonSet", "name": app, "uid": uid,
            "controller": true, "blockOwnerDeletion": false}])
    });
    serde_json::from_value(json!({
        "metadata": {
            "name": operand_pod_name(pod, node), "namespace": namespace, "labels": {"app": app},
            "ownerReferences": owner.unwrap_or(Value::Null),
        },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "priorityClassName": "system-node-critical",
            "containers": [{"name": app, "image": format!("simulated/{app}")}],
            "volumes": volumes,
            "tolerations": [
                {"operator": "Exists", "effect": "NoExecute"},
                {"operator": "Exists", "key": "nvidia.com/gpu", "effect": "NoSchedule"},
                {"operator": "Exists", "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            ],
        },
    }))
    .expect("a pod is built from the parts of one")
}

/// Whether a pod is one of the operands' on our nodes, by the Operator's
/// namespace: other pods may have stand-ins for their DaemonSets, too.
pub(crate) fn is_operand(pod: &Pod, namespace: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    pod.metadata.namespace.as_deref() == Some(namespace)
        && owners.any(|owner| owner.api_version.starts_with(GROUP) && owner.kind == "DaemonSet")
}

/// Namespace and name.
pub(crate) fn name_of(pod: &Pod) -> PodName {
    crate::names::name_of(&pod.metadata)
}

/// Its phase, as its status says.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether it is over: it holds nothing any more.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// What has to be patched in a pod's status, strategically; nothing when it
/// says so already.
pub(crate) fn status_patch(seen: &Pod, life: &Life, now: Timestamp) -> Option<Value> {
    let status = seen.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready").map(|c| c.status == "True");
    let states = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let crashes = states.iter().any(|state| {
        let waiting = state.state.as_ref().and_then(|s| s.waiting.as_ref());
        waiting.is_some_and(|w| w.reason.as_deref() == Some("CrashLoopBackOff"))
    });
    let is_said = phase(seen) == life.phase()
        && ready == Some(life.is_ready())
        && crashes == matches!(life, Life::Crashing(_));
    if is_said {
        return None;
    }
    let at = whole_seconds(now);
    let condition = |kind: &str, holds: bool| {
        let reason = match life {
            Life::Succeeded => json!("PodCompleted"),
            _ if holds => Value::Null,
            Life::Failed(..) => json!("PodFailed"),
            _ => json!("ContainersNotReady"),
        };
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": at})
    };
    let node = seen.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let started = status.and_then(|s| s.start_time.as_ref()).map_or(json!(at), |time| json!(time));
    let mut patch = json!({
        "phase": life.phase(), "startTime": started,
        "hostIP": address(node), "hostIPs": [{"ip": address(node)}],
        "conditions": [
            condition("Initialized", true), condition("PodReadyToStartContainers", life.is_ready()),
            condition("ContainersReady", life.is_ready()), condition("Ready", life.is_ready()),
        ],
    });
    let refused = matches!(life, Life::Failed(..)) && states.is_empty();
    if let Life::Failed(reason, message) = life {
        patch["reason"] = json!(reason);
        patch["message"] = json!(message);
    }
    if !refused {
        let containers = seen.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
        patch["containerStatuses"] = containers.iter().map(|c| container(c, life, &at)).collect();
    }
    Some(json!({ "status": patch }))
}

fn container(container: &Container, life: &Life, at: &str) -> Value {
    let image = container.image.as_deref().unwrap_or("none");
    let ended = |code: i32, reason: &str, message: &str| json!({"exitCode": code, "reason": reason, "message": message, "startedAt": at, "finishedAt": at});
    let (state, last) = match life {
        Life::Starting => (json!({"waiting": {"reason": "ContainerCreating"}}), Value::Null),
        Life::Running => (json!({"running": {"startedAt": at}}), Value::Null),
        Life::Crashing(why) => (
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": why}}),
            json!({"terminated": ended(1, "Error", why)}),
        ),
        Life::Succeeded => (json!({"terminated": ended(0, "Completed", "")}), Value::Null),
        Life::Failed(reason, message) => (json!({"terminated": ended(137, reason, message)}), Value::Null),
    };
    // A patch replaces the keys that it has: those of the other states go.
    let states = ["waiting", "running", "terminated"];
    let mut whole = serde_json::Map::new();
    for key in states {
        whole.insert(key.to_owned(), state.get(key).cloned().unwrap_or(Value::Null));
    }
    json!({
        "name": container.name, "image": image, "imageID": format!("simulated://{image}"),
        "ready": life.is_ready(), "started": life.is_ready(),
        "restartCount": i32::from(matches!(life, Life::Crashing(_))), "state": whole, "lastState": last,
    })
}

/// What a pod asks of the extended resources, limits being requests.
pub(crate) fn requests(pod: &Pod) -> BTreeMap<String, u64> {
    let Some(spec) = &pod.spec else { return BTreeMap::new() };
    let of = |container: &Container| {
        let mut asks: BTreeMap<String, u64> = BTreeMap::new();
        for list in container.resources.iter().flat_map(|r| [&r.limits, &r.requests]).flatten() {
            for (name, quantity) in list.iter().filter(|(name, _)| name.starts_with("nvidia.com/")) {
                asks.insert(name.clone(), quantity.0.parse().unwrap_or(0));
            }
        }
        asks
    };
    let mut asks: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in spec.containers.iter().flat_map(of) {
        *asks.entry(name).or_insert(0) += count;
    }
    for (name, count) in spec.init_containers.iter().flatten().flat_map(of) {
        let entry = asks.entry(name).or_insert(0);
        *entry = count.max(*entry);
    }
    asks.retain(|_, count| *count > 0);
    asks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-22T08:00:00Z".parse().expect("a time")
    }

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "lab-0", "namespace": "a"},
            "spec": {"nodeName": "gpu-1", "containers": [
                {"name": "lab", "image": "lab:1", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1", "cpu": "2"}}},
                {"name": "side", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "2"}}},
            ], "initContainers": [{"name": "first", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            "status": status,
        }))
        .expect("a pod")
    }

    /// The pod after the patch, as far as the keys of these tests go.
    fn after(mut seen: Pod, life: &Life) -> Pod {
        let patch = status_patch(&seen, life, now()).expect("something changes");
        seen.status = serde_json::from_value(patch["status"].clone()).expect("a status");
        seen
    }

    #[test]
    fn requests_are_summed_over_containers_and_init_containers_count_once() {
        let expect =
            BTreeMap::from([("nvidia.com/gpu".to_owned(), 1), ("nvidia.com/mig-1g.10gb".to_owned(), 3)]);
        assert_eq!(requests(&pod(json!({}))), expect);
    }

    #[test]
    fn a_status_that_says_so_already_is_left_alone() {
        for life in [
            Life::Starting,
            Life::Running,
            Life::Crashing("no devices".to_owned()),
            Life::Succeeded,
            Life::Failed("UnexpectedAdmissionError".to_owned(), "no device".to_owned()),
        ] {
            let seen = after(pod(json!({"phase": "Pending"})), &life);
            assert_eq!(phase(&seen), life.phase());
            assert_eq!(status_patch(&seen, &life, now()), None, "{life:?}");
        }
    }

    #[test]
    fn what_was_refused_never_had_containers() {
        let life = Life::Failed("UnexpectedAdmissionError".to_owned(), "no device".to_owned());
        let status = after(pod(json!({"phase": "Pending"})), &life).status.expect("a status");
        assert_eq!(status.reason.as_deref(), Some("UnexpectedAdmissionError"));
        assert_eq!(status.container_statuses, None);
    }
}
