//! One node: the machine with its operands and kubelet, and how it looks in
//! the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::node_agent::AgentMode;
use gpu::{DriverBranch, Machine};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use operands::{Opens, OperandPhase, PodName, PodPhase, Setup, SetupError, Strategy, What};
use rollout::NodeLayout;
use serde_json::json;

use crate::agent_process::Process;
use crate::asks::of_pod;
use crate::command::NodeSpec;
use crate::store::path;

/// Where the GPU Operator's pods are.
const OPERATOR_NAMESPACE: &str = "nvidia-gpu-operator";

/// What the kubelet makes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It knows no such pod.
    Unknown,
    /// It starts.
    Starting,
    /// It runs.
    Running,
    /// It was refused, or lost its node.
    Failed { reason: String, message: String },
}

/// A node.
pub(crate) struct Host {
    pub(crate) node: operands::Node,
    pub(crate) agent: Option<AgentMode>,
    /// What its agent remembers.
    pub(crate) process: Process,
    /// The map's entry that was made for this node's first layout.
    pub(crate) begins_with: Option<(String, NodeLayout)>,
    spec: NodeSpec,
}

/// A pod's name as the operands write it.
fn pod_name(key: &str) -> PodName {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    PodName::new(namespace, name)
}

/// Whether a pod is one of the GPU Operator's.
pub(crate) fn is_operand(pod: &Pod) -> bool {
    pod.metadata.namespace.as_deref() == Some(OPERATOR_NAMESPACE)
}

impl Host {
    /// A node on which everything has settled. `config` is the entry of `map`
    /// that was applied long ago.
    pub(crate) fn new(
        name: &str,
        spec: &NodeSpec,
        models: &[Arc<gpu::Model>],
        map: &str,
        config: Option<&str>,
        begins_with: Option<(String, NodeLayout)>,
        now: Timestamp,
    ) -> Result<Self, SetupError> {
        let machine =
            models.iter().fold(Machine::new(name, DriverBranch::default(), now), gpu::Machine::with_gpu);
        let setup = Setup {
            strategy: if spec.single { Strategy::Single } else { Strategy::Mixed },
            ..Setup::default()
        };
        let node = operands::Node::new(setup, machine, spec.labels.clone(), Some(map), config)?;
        let process = Process::default();
        let agent = spec.agent.then_some(AgentMode::Change);
        Ok(Self { node, agent, process, begins_with, spec: spec.clone() })
    }

    /// When something happens by itself next, after this moment.
    pub(crate) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        [self.node.next_event(), self.process.busy_until(now)].into_iter().flatten().min()
    }

    /// Lets time pass; says what people would notice.
    pub(crate) fn advance(&mut self, to: Timestamp) -> Vec<(Timestamp, String)> {
        self.node
            .tick(to)
            .into_iter()
            .filter_map(|change| Some((change.at, noticed(&change.what)?)))
            .collect()
    }

    /// The node as it first registers.
    pub(crate) fn as_node(&self) -> Node {
        let taints: Vec<_> = self
            .spec
            .taints
            .iter()
            .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}))
            .collect();
        let mut node = serde_json::from_value(json!({
            "metadata": {"name": self.node.name()},
            "spec": if taints.is_empty() { json!({}) } else { json!({"taints": taints}) },
        }))
        .expect("a node is built from the parts of one");
        self.write_status(&mut node);
        node
    }

    /// Writes labels, cordon and status into the node's object.
    pub(crate) fn write_status(&self, node: &mut Node) {
        let amounts = |of: &BTreeMap<String, u64>| {
            let mut list = json!({
                "cpu": self.spec.cpu.to_string(), "memory": format!("{}Gi", self.spec.memory), "pods": "250",
            });
            for (name, n) in of {
                list[name] = json!(n.to_string());
            }
            list
        };
        let ready = if self.node.ready() { "True" } else { "False" };
        let status = json!({
            "capacity": amounts(self.node.capacity()),
            "allocatable": amounts(self.node.allocatable()),
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": self.node.boot_id(), "containerRuntimeVersion": "cri-o://1.33",
                "kernelVersion": "5.14.0", "kubeProxyVersion": "v1.33.0", "kubeletVersion": "v1.33.0",
                "machineID": "", "operatingSystem": "linux", "osImage": "RHCOS", "systemUUID": "",
            },
        });
        node.status = Some(serde_json::from_value(status).expect("a status is built from the parts of one"));
        node.metadata.labels = Some(self.node.labels().clone());
        node.spec.get_or_insert_default().unschedulable = self.node.unschedulable().then_some(true);
    }

    /// The key of an operand's pod. Names follow from a serial number of the
    /// node, so the node's name has to make them differ between nodes.
    fn operand_key(&self, pod: &operands::OperandPod) -> String {
        path(OPERATOR_NAMESPACE, &format!("{}-{}", pod.name, self.node.name()))
    }

    /// The Operator's pods on the node.
    pub(crate) fn operand_pods(&self) -> Vec<Pod> {
        self.node
            .operand_pods()
            .map(|pod| {
                let ready = pod.is_ready();
                let phase = if pod.phase == OperandPhase::Starting { "Pending" } else { "Running" };
                let mut object = json!({
                    "metadata": {
                        "name": format!("{}-{}", pod.name, self.node.name()), "namespace": OPERATOR_NAMESPACE, "labels": {"app": pod.app()},
                        "creationTimestamp": pod.created,
                        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": pod.app(),
                            "uid": pod.app(), "controller": true}],
                    },
                    "spec": {"nodeName": self.node.name(), "containers": [{"name": "main"}]},
                    "status": {"phase": phase, "conditions": [{
                        "type": "Ready", "status": if ready { "True" } else { "False" },
                    }]},
                });
                if pod.phase == OperandPhase::Terminating {
                    object["metadata"]["deletionTimestamp"] = json!(self.node.now());
                }
                serde_json::from_value(object).expect("a pod is built from the parts of one")
            })
            .collect()
    }

    /// Deletes a pod of the Operator, by its key; says whether it is one here.
    pub(crate) fn delete_operand(&mut self, key: &str) -> bool {
        let operand = self.node.operand_pods().find(|p| self.operand_key(p) == key).map(|p| p.operand);
        operand.map(|operand| self.node.delete_operand(operand)).is_some()
    }

    pub(crate) fn knows(&self, key: &str) -> bool {
        self.node.pod(&pod_name(key)).is_some()
    }

    pub(crate) fn bind(&mut self, pod: &Pod, opens: bool) {
        let requests = of_pod(pod)
            .into_iter()
            .filter(|(name, n)| name.starts_with("nvidia.com/") && *n > 0)
            .map(|(name, n)| (name, u64::try_from(n).unwrap_or(0)))
            .collect();
        let name = pod_name(&crate::store::key_of(pod));
        self.node.bind(operands::PodSpec {
            name,
            requests,
            opens: if opens { Opens::AtOnce } else { Opens::Never },
        });
    }

    pub(crate) fn life(&self, key: &str) -> Life {
        match self.node.pod(&pod_name(key)).map(|pod| &pod.phase) {
            None => Life::Unknown,
            Some(PodPhase::Starting) => Life::Starting,
            Some(PodPhase::Running) => Life::Running,
            Some(PodPhase::Failed { reason, message }) => {
                Life::Failed { reason: reason.clone(), message: message.clone() }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.node.end(&pod_name(key));
    }

    pub(crate) fn open(&mut self, key: &str) {
        self.node.open(&pod_name(key));
    }

    pub(crate) fn close(&mut self, key: &str) {
        self.node.close(&pod_name(key));
    }

    /// What a pod holds, in the hardware: `1g.10gb on gpu0`.
    pub(crate) fn held_by(&self, key: &str) -> Vec<String> {
        let mut held = Vec::new();
        for gpu in self.node.truth() {
            if gpu.holder.as_deref() == Some(key) {
                held.push(format!("gpu{}", gpu.index));
            }
            let slices = gpu.slices.iter().filter(|s| s.holder.as_deref() == Some(key));
            held.extend(slices.map(|s| format!("{} on gpu{}", s.profile, gpu.index)));
        }
        held
    }
}

/// What of a node's changes goes into the transcript: what administrators
/// would look for, and not every pod and label.
fn noticed(what: &What) -> Option<String> {
    match what {
        What::ManagerLog { text } => Some(format!("MIG manager: {text}")),
        What::Label { key, value: Some(value) } if key == operands::MIG_CONFIG_STATE => {
            Some(format!("MIG manager says `{value}`"))
        }
        What::Allocatable { resource, count } => Some(format!("offers {count} {resource}")),
        What::Ready(true) => Some("is ready".to_owned()),
        What::Ready(false) => Some("goes down".to_owned()),
        What::Booted { .. } => Some("booted; its instances are lost".to_owned()),
        What::Operand { name, phase: Some(OperandPhase::CrashLooping), .. } => {
            Some(format!("{name} crashes again and again"))
        }
        What::Label { .. }
        | What::Unschedulable(_)
        | What::Capacity { .. }
        | What::Operand { .. }
        | What::Pod { .. } => None,
    }
}
