//! The pods that are bound to a node, read once for all uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use planner::inventory::Room;
use planner::names::PodRef;
use rollout::Operand;
use rollout::observed::{Pod as SeenPod, PodPhase};

use crate::Settings;
use crate::objects::{Objects, title};
use crate::operands::operand;
use crate::pods::{self, Takes};
use crate::problem::{Problem, Severity};
use crate::usage::Held;

/// A pod that is bound to a node.
#[derive(Clone, Debug)]
pub(crate) struct Bound<'a> {
    object: &'a Pod,
    /// The pod as the rollout sees it.
    pub seen: SeenPod,
    /// Whether it is a node agent of ours.
    pub is_agent: bool,
    /// What it takes of its node.
    takes: Takes,
}

impl Bound<'_> {
    /// Whether it is a pod of the GPU Operator that goes on, and reads keys of another map than this one.
    pub(crate) fn reads_another(&self, map: &str) -> bool {
        let goes_on = !self.seen.terminating && self.seen.phase != PodPhase::Ended;
        self.seen.operand.is_some() && goes_on && crate::operands::reads_another(self.object, map)
    }
}

/// The name by which everybody knows a pod.
#[must_use]
pub fn pod_ref(pod: &Pod) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
    }
}

/// The annotation of a static pod's mirror that has its uid.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// The uid by which kubelet knows a pod. Anybody can write the annotation; the
/// mirror of a static pod is also owned by its node, as the API server demands
/// of every pod that a kubelet makes.
fn kubelet_uid(pod: &Pod) -> String {
    let mirrored = pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR));
    let mirrored = mirrored.filter(|_| is_owned_by_its_node(pod));
    mirrored.or(pod.metadata.uid.as_ref()).cloned().unwrap_or_default()
}

fn is_owned_by_its_node(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    controller(pod).is_some_and(|owner| {
        owner.api_version == "v1" && owner.kind == "Node" && Some(owner.name.as_str()) == node
    })
}

/// The owner that controls a pod.
fn controller(pod: &Pod) -> Option<&OwnerReference> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// All pods that have a node, by node.
pub(crate) fn by_node(objects: &Objects) -> BTreeMap<&str, Vec<&Arc<Pod>>> {
    let mut on_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in objects.pods.values() {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            on_node.entry(node).or_default().push(pod);
        }
    }
    on_node
}

/// Reads a pod that has a node.
pub(crate) fn read<'a>(pod: &'a Pod, settings: &Settings) -> Bound<'a> {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    // Which GPU a slice is on is not known: Kubernetes counts slices.
    let gpus: Option<BTreeSet<_>> = None;
    let none = PodSpec::default();
    let takes = pods::takes(pod.spec.as_ref().unwrap_or(&none));
    let seen = SeenPod {
        pod: pod_ref(pod),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        operand: operand(pod, &settings.gpu_operator_namespace),
        phase: match status.and_then(|s| s.phase.as_deref()).unwrap_or("Pending") {
            "Succeeded" | "Failed" => PodPhase::Ended,
            "Running" => PodPhase::Started,
            _ => PodPhase::Pending,
        },
        terminating: pod.metadata.deletion_timestamp.is_some(),
        ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
        daemon_set: pod.metadata.owner_references.iter().flatten().any(|o| o.kind == "DaemonSet"),
        requests: takes.extended.clone(),
        gpus,
        kubelet_uid: kubelet_uid(pod),
        containers: pod.spec.as_ref().map(pods::containers).unwrap_or_default(),
    };
    Bound { object: pod, seen, is_agent: is_agent(pod, settings.agent_namespace.as_deref()), takes }
}

/// Whether a pod is a node agent of ours: it has the labels of one, is in the
/// agents' namespace, where no tenant can create a pod, and a DaemonSet
/// controls it.
fn is_agent(pod: &Pod, agent_namespace: Option<&str>) -> bool {
    agent_namespace.is_none_or(|theirs| pod.metadata.namespace.as_deref() == Some(theirs))
        && has_labels_of_agent(pod)
        && controller(pod).is_some_and(|owner| owner.kind == "DaemonSet")
}

/// The labels of a node agent of ours, the same in every installation.
pub const AGENT: [(&str, &str); 2] =
    [("app.kubernetes.io/part-of", "slicewright"), ("app.kubernetes.io/component", "agent")];

/// Whether a pod has the labels of a node agent of ours, which anybody can
/// write. The agent's name is the chart's `nameOverride` if there is one; these
/// two labels are not to be chosen.
#[must_use]
pub fn has_labels_of_agent(pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    AGENT.iter().all(|(key, value)| labels.and_then(|all| all.get(*key)).is_some_and(|has| has == value))
}

/// What the pods of a node hold, and what they leave of its room.
pub(crate) fn taken(bound: &[Bound<'_>], room: &mut Room, problems: &mut Vec<Problem>) -> Held {
    let mut held = Held::default();
    for Bound { object, seen, is_agent: _, takes } in
        bound.iter().filter(|bound| bound.seen.phase != PodPhase::Ended)
    {
        leave(room, &takes.room);
        for (resource, n) in &takes.other_resources {
            let all = held.other_resources.entry(resource.clone()).or_default();
            *all = all.saturating_add(*n);
        }
        // MIG manager removes the Operator's own checks before it cuts.
        if seen.operand == Some(Operand::Validator) {
            continue;
        }
        for resource in &takes.unreadable {
            problems.push(Problem::new(
                Severity::Warning,
                title("Pod", &object.metadata),
                format!(
                    "asks for {resource}, which is not the resource of a profile; nothing is planned for it"
                ),
            ));
        }
        if seen.phase != PodPhase::Started {
            held.waiting.insert(seen.pod.clone());
        }
        for (profile, n) in &takes.slices {
            held.slices.entry(*profile).or_default().insert(seen.pod.clone(), *n);
        }
        for (offered, n) in &takes.shared {
            match offered.profile() {
                Some(profile) => add(held.slices.entry(profile).or_default(), &seen.pod, *n),
                None => add(&mut held.gpus, &seen.pod, *n),
            }
        }
        if takes.whole_gpus > 0 {
            add(&mut held.gpus, &seen.pod, takes.whole_gpus);
            held.whole.insert(seen.pod.clone(), takes.whole_gpus);
        }
    }
    held
}

/// Adds to what a pod holds. The numbers are other people's.
fn add(held: &mut BTreeMap<PodRef, u32>, pod: &PodRef, n: u32) {
    let all = held.entry(pod.clone()).or_default();
    *all = all.saturating_add(n);
}

/// Takes something from a node's room.
pub(crate) fn leave(room: &mut Room, taken: &Room) {
    *room = room.plus(*taken, -1).max(Room::ZERO);
}
