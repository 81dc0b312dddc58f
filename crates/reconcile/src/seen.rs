//! Nodes as the rollout sees them: plain data, read from the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::GpuNode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use observe::layouts;
use planner::names::{NodeName, PodRef};
use rollout::map::{MigMap, NodeGpu};
use rollout::observed::{MapSeen, Observed, Operator, Pod as SeenPod, PodPhase};
use rollout::{GpuLayout, NodeLayout, Progress, names};

use crate::cordon;
use crate::hardware::{self, Models};
use crate::input::{Input, LocalState};
use crate::planned_round::PlannedRound;

/// What all nodes share, read once a round.
pub struct NodeReader<'a> {
    input: &'a Input<'a>,
    planned: &'a PlannedRound,
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    map_seen: MapSeen,
    map: MigMap,
}

impl<'a> NodeReader<'a> {
    /// Reads what all nodes share.
    #[must_use]
    pub fn new(input: &'a Input<'a>, planned: &'a PlannedRound) -> Self {
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in input.objects.pods.values() {
            if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
                pods.entry(node).or_default().push(pod);
            }
        }
        let config_map = our_config_map(input);
        let map = our_map(config_map);
        let map_seen = MapSeen {
            resource_version: config_map.and_then(|m| m.metadata.resource_version.clone()),
            entries: map.entries.keys().cloned().collect(),
            changed_at: input.map_changed,
        };
        Self { input, planned, pods, map_seen, map }
    }

    /// One node; `None` when there is none of this name.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<Observed> {
        let node: &Node = self.input.objects.nodes.get(&name.0)?;
        let never = LocalState::default();
        let local = self.input.local.get(name).unwrap_or(&never);
        let status = node.status.as_ref();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let gpus: Vec<NodeGpu<'_>> =
            self.models(name).into_iter().map(|(index, model)| NodeGpu { index, model }).collect();
        let label_layout =
            labels.get(names::MIG_CONFIG).and_then(|label| self.map.layout_for(label, &gpus).ok());
        let label_layout = label_layout.filter(|layout| is_possible(layout, &gpus));
        Some(Observed {
            resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
            work: observe::holds::work(node),
            manager: observe::holds::manager(node, self.input.objects),
            unschedulable: node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false),
            cordon_owner: cordon::owner(node),
            ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            boot_id: status.and_then(|s| s.node_info.as_ref()).map(|i| i.boot_id.clone()).unwrap_or_default(),
            allocatable: extended(status.and_then(|s| s.allocatable.as_ref())),
            pods: self.pods.get(name.0.as_str()).into_iter().flatten().map(|pod| self.pod(pod)).collect(),
            listing: local.listing(),
            refusals: local.refusals.clone(),
            map: self.map_seen.clone(),
            label_layout,
            operator: operator(self.input, node, self.input.objects.gpu_nodes.get(&name.0).map(Arc::as_ref)),
            labels,
        })
    }

    fn pod(&self, pod: &Pod) -> SeenPod {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        // Which GPU a slice is on is not known: Kubernetes counts slices.
        let gpus: Option<BTreeSet<_>> = None;
        SeenPod {
            pod: pod_ref(pod),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            operand: observe::operands::operand(pod, &self.input.settings.observe.gpu_operator_namespace),
            phase: match phase {
                "Succeeded" | "Failed" => PodPhase::Ended,
                "Running" => PodPhase::Started,
                _ => PodPhase::Pending,
            },
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            daemon_set: pod.metadata.owner_references.iter().flatten().any(|o| o.kind == "DaemonSet"),
            requests: pod
                .spec
                .as_ref()
                .map(|spec| observe::pods::takes_of(spec, names::NVIDIA_PREFIX))
                .unwrap_or_default(),
            gpus,
        }
    }

    /// Whether a write for a node is refused, or undone by somebody else.
    #[must_use]
    pub fn is_refused(&self, name: &NodeName) -> bool {
        self.input.local.get(name).is_some_and(|local| local.refused.is_some() || local.undone.is_some())
    }

    /// What is remembered of a node, by the clock as it goes now.
    #[must_use]
    pub fn by_the_clock(&self, name: &NodeName, progress: Progress) -> Progress {
        let put_forward = self.input.local.get(name).map_or(SignedDuration::ZERO, |b| b.put_forward);
        progress.put_forward(put_forward, self.input.now)
    }

    /// The time of this round.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.input.now
    }

    /// The GPUs of a node.
    #[must_use]
    pub fn models(&self, name: &NodeName) -> Models {
        let gpu_node = self.input.objects.gpu_nodes.get(&name.0).map(Arc::as_ref);
        hardware::models(self.planned.inventory.nodes.get(name), gpu_node)
    }
}

/// Whether the GPUs know the profiles of a layout. An entry may be for others:
/// GPUs are swapped, and the label stays.
fn is_possible(layout: &NodeLayout, gpus: &[NodeGpu<'_>]) -> bool {
    gpus.iter().all(|gpu| match (layout.0.get(&gpu.index), gpu.model) {
        (Some(GpuLayout::Mig(slices)), Some(model)) => {
            slices.keys().all(|profile| model.profiles.iter().any(|known| known.name == *profile))
        }
        (Some(GpuLayout::Mig(_)), None) => false,
        (Some(GpuLayout::Off) | None, _) => true,
    })
}

/// Our map as the API server has it.
pub(crate) fn our_config_map<'a>(input: &Input<'a>) -> Option<&'a ConfigMap> {
    input.objects.config_maps.get(&input.settings.map.key())
}

/// The entries of our map; none when it is not there or not a map.
pub(crate) fn our_map(config_map: Option<&ConfigMap>) -> MigMap {
    let text = config_map.and_then(|m| m.data.as_ref()?.get(rollout::names::MAP_KEY));
    text.and_then(|t| t.parse().ok()).unwrap_or_default()
}

/// What the GPU Operator is told to do with a node.
fn operator(input: &Input<'_>, node: &Node, gpu_node: Option<&GpuNode>) -> Operator {
    let policy = input.objects.cluster_policies.values().next();
    let manager = policy.map(|p| &p.spec.mig_manager);
    Operator {
        cluster_policy: policy.is_some(),
        mig_manager: manager.is_some_and(|m| m.enabled.unwrap_or(true)),
        uses_our_map: manager
            .and_then(|m| m.config.as_ref())
            .is_some_and(|c| c.name == input.settings.map.name),
        strategy: layouts::strategy(node, gpu_node, input.objects),
    }
}

/// The GPUs and slices that a node offers, by resource.
fn extended(allocatable: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, u64> {
    let ours = |(name, quantity): (&String, &Quantity)| {
        let n = observe::pods::amount(name, quantity).unwrap_or(0);
        mig::GpuResource::is_one(name).then(|| (name.clone(), u64::try_from(n).unwrap_or(0)))
    };
    allocatable.into_iter().flatten().filter_map(ours).collect()
}

/// The name by which the planner and the rollout know a pod.
#[must_use]
pub fn pod_ref(pod: &Pod) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}
