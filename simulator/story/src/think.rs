//! Observe, decide, check: from the objects of the simulated cluster to a
//! plan, a report, and what the checker says of the plan. Writes nothing.

use std::collections::BTreeMap;

use mig::Catalog;
use observe::{Objects, Problem, RolloutSpec};
use planner::check::{Note, check};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{ChangeScope, CountedSlice, Gpu, Hold, Inventory, Node, Slices, Use};
use planner::names::{GpuIndex, NodeName, PodRef, PolicyName};
use planner::plan::{NodeStep, Plan};
use planner::policy::Policy;
use planner::report::Report;
use rollout::{GpuLayout, NodeLayout, Phase, Progress, names};
use serde_json::json;

use crate::asks::{is_over, of_pod};
use crate::seen::pod_ref;
use crate::world::World;

/// The annotation of a `GpuNode` that keeps its rollout's progress.
pub(crate) const PROGRESS: &str = "slicewright.io/progress";

/// What the operator thinks at one moment.
pub(crate) struct Thought {
    pub(crate) inventory: Inventory,
    pub(crate) requests: Vec<Request>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) rollouts: BTreeMap<PolicyName, RolloutSpec>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) policy_of: BTreeMap<NodeName, PolicyName>,
    pub(crate) plan: Plan,
    pub(crate) report: Report,
    pub(crate) notes: Vec<Note>,
}

/// The progress of a node's rollout, as it was stored.
pub(crate) fn progress(world: &World, node: &str) -> Progress {
    let stored = world.gpu_nodes.get(node).and_then(|n| n.metadata.annotations.as_ref()?.get(PROGRESS));
    stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Whether a node may still be taken back: for the planner it is as if
/// nothing had begun.
pub(crate) const fn can_return(phase: Phase) -> bool {
    matches!(phase, Phase::Idle | Phase::Mapping | Phase::Cordoning | Phase::Quiescing | Phase::Retreating)
}

/// Observes, decides and checks.
pub(crate) fn think(world: &World) -> Thought {
    let objects = objects(world);
    let catalog = Catalog::builtin();
    let seen = observe::observe(&objects, catalog, &observe::Settings::default(), world.now);
    let observe::Observed { mut inventory, requests, policies, rollouts, problems } = seen;
    for name in world.hosts.keys() {
        let progress = progress(world, name);
        // Once the label is written there is no way back, whatever was stored.
        let label = world.nodes.get(name).and_then(|n| n.metadata.labels.as_ref()?.get(names::MIG_CONFIG));
        let written = progress
            .target
            .as_ref()
            .is_some_and(|t| Some(&t.label) == label && t.label_before.as_ref() != label);
        let on_its_way = (written || !can_return(progress.phase))
            && !matches!(progress.phase, Phase::Failed | Phase::Released);
        if let (true, Some(target)) = (on_its_way, &progress.target) {
            let name = NodeName(name.clone());
            if let Some(node) = inventory.nodes.get_mut(&name) {
                as_it_will_be(node, &target.layout, target.from.as_ref(), world, &name, catalog);
            }
        }
    }
    let Decision { plan, report } = decide(&inventory, &requests, &policies, world.now);
    let notes = check(&plan, &inventory, &requests, &policies);
    let policy_of = planner::assign::policy_of(&inventory, &policies).policy_of;
    Thought { inventory, requests, policies, rollouts, problems, policy_of, plan, report, notes }
}

/// The objects as `observe` takes them.
fn objects(world: &World) -> Objects {
    let mut objects = Objects::default();
    let read = |value| serde_json::from_value(value).ok();
    for (name, node) in world.nodes.iter() {
        let mut node = node.clone();
        // Our own cordon, while it can be taken back, is not a reason to
        // plan around the node.
        let labels = node.metadata.labels.get_or_insert_default();
        let ours = labels.get(names::CORDONED_BY).is_some_and(|by| by == names::CORDONED_BY_US);
        if ours && can_return(progress(world, name).phase) {
            labels.remove(names::CORDONED_BY);
            node.spec.get_or_insert_default().unschedulable = None;
        }
        objects.nodes.insert(name.to_owned(), node);
    }
    for pod in world.pods.values() {
        let r = pod_ref(pod);
        if let Some(owner) =
            pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true))
        {
            let key = ("Pod".to_owned(), (r.namespace.clone(), r.name.clone()));
            objects.owners.insert(key, owner.clone());
        }
        objects.pods.insert((r.namespace, r.name), pod.clone());
    }
    for (name, namespace) in world.namespaces.iter() {
        objects.namespaces.insert(name.to_owned(), namespace.clone());
    }
    for map in world.maps.values() {
        let key = (
            map.metadata.namespace.clone().unwrap_or_default(),
            map.metadata.name.clone().unwrap_or_default(),
        );
        objects.config_maps.insert(key, map.clone());
    }
    for (name, class) in world.priorities.iter() {
        objects.priority_classes.insert(name.to_owned(), class.clone());
    }
    for object in world.notebooks.values() {
        let key = (
            object.metadata.namespace.clone().unwrap_or_default(),
            object.metadata.name.clone().unwrap_or_default(),
        );
        let owner = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": key.1, "controller": true,
            "uid": object.metadata.uid.clone().unwrap_or_default()});
        if let Some(owner) = read(owner) {
            objects.owners.insert(("StatefulSet".to_owned(), key.clone()), owner);
        }
        if let Some(notebook) = serde_json::to_value(object).ok().and_then(|v| serde_json::from_value(v).ok())
        {
            objects.notebooks.insert(key, notebook);
        }
    }
    for object in world.profiles.values() {
        let key = (
            object.metadata.namespace.clone().unwrap_or_default(),
            object.metadata.name.clone().unwrap_or_default(),
        );
        if let Some(profile) = serde_json::to_value(object).ok().and_then(|v| serde_json::from_value(v).ok())
        {
            objects.hardware_profiles.insert(key, profile);
        }
    }
    let strategy = if world.single == Some(true) { "single" } else { "mixed" };
    let cluster_policy = json!({"metadata": {"name": "gpu-cluster-policy"}, "spec": {
        "mig": {"strategy": strategy},
        "migManager": {"enabled": true, "config": {"name": names::MAP_NAME, "default": ""}},
    }});
    if let Some(policy) = serde_json::from_value(cluster_policy).ok().filter(|_| !world.hosts.is_empty()) {
        objects.cluster_policies.insert("gpu-cluster-policy".to_owned(), policy);
    }
    for (name, policy) in world.policies.iter() {
        objects.policies.insert(name.to_owned(), policy.clone());
    }
    for (name, gpu_node) in world.gpu_nodes.iter() {
        let mut gpu_node = gpu_node.clone();
        if can_return(progress(world, name).phase)
            && let Some(rollout) = gpu_node.status.as_mut().and_then(|s| s.rollout.as_mut())
        {
            rollout.phase = "Idle".to_owned();
        }
        objects.gpu_nodes.insert(name.to_owned(), gpu_node);
    }
    objects
}

/// A node that is past the point of return is handed to the planner as it
/// will be: with the slices of its target, of which those on GPUs that stay
/// as they are may be held.
fn as_it_will_be(
    node: &mut Node,
    target: &NodeLayout,
    from: Option<&NodeLayout>,
    world: &World,
    name: &NodeName,
    catalog: &Catalog,
) {
    let changed =
        from.map(|from| target.changed_from(from)).unwrap_or_else(|| target.0.keys().copied().collect());
    let models: BTreeMap<GpuIndex, &mig::Model> = world
        .hosts
        .get(&name.0)
        .map(|host| host.node.truth())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|gpu| Some((GpuIndex(gpu.index), catalog.get(&gpu.model)?)))
        .collect();
    let mut held: BTreeMap<mig::ProfileName, Vec<PodRef>> = BTreeMap::new();
    for pod in world.pods.values().filter(|p| !is_over(p)) {
        if pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(&name.0) {
            for (resource, n) in of_pod(pod) {
                let Some(profile) = mig::ProfileName::from_resource_name(&resource) else { continue };
                let times = usize::try_from(n).unwrap_or(0);
                held.entry(profile).or_default().extend(std::iter::repeat_n(pod_ref(pod), times));
            }
        }
    }
    node.allocated = held
        .iter()
        .map(|(profile, pods)| (*profile, u32::try_from(pods.len()).unwrap_or(u32::MAX)))
        .collect();
    let mut gpus: BTreeMap<GpuIndex, Gpu> = BTreeMap::new();
    // GPUs that stay come first: what is held now is held there.
    let mut order: Vec<_> = target.0.iter().collect();
    order.sort_by_key(|(index, _)| (changed.contains(index), **index));
    for (index, layout) in order {
        let Some(model) = models.get(index) else { continue };
        let slices = match layout {
            GpuLayout::Off => Slices::MigOff { used: Use::MaybeInUse { by: Vec::new() } },
            GpuLayout::Mig(counts) => {
                let mut slices = Vec::new();
                for (profile, n) in counts {
                    for _ in 0..*n {
                        let by = held.get_mut(profile).and_then(Vec::pop);
                        let used = by.map_or(Use::Idle, |by| Use::InUse { by });
                        slices.push(CountedSlice { profile: *profile, used });
                    }
                }
                Slices::Counted(slices)
            }
        };
        let geometry = std::sync::Arc::clone(&model.geometry);
        gpus.insert(*index, Gpu { model: model.id.clone(), geometry, slices, hold: None });
    }
    node.gpus = gpus;
    node.scope = ChangeScope::IdleGpus;
    node.hold = Some(Hold::Changing);
    node.schedulable = true;
}

/// The layout of a whole node once a step is done: what the step changes, and
/// everything else as it is.
pub(crate) fn wanted(step: &NodeStep, node: &Node, world: &World) -> NodeLayout {
    let mut layout = NodeLayout::default();
    for gpu in world.hosts.get(&step.node.0).map(|host| host.node.truth()).unwrap_or_default() {
        // A GPU that cannot be cut is named, too, and has MIG off.
        layout.0.insert(GpuIndex(gpu.index), GpuLayout::Off);
    }
    let count = |names: Vec<mig::ProfileName>| {
        let mut counts = BTreeMap::new();
        for name in names {
            *counts.entry(name).or_insert(0u8) += 1;
        }
        GpuLayout::Mig(counts)
    };
    for (index, gpu) in &node.gpus {
        let has = match &gpu.slices {
            Slices::Placed(slices) => count(slices.iter().map(|s| s.profile).collect()),
            Slices::Counted(slices) => count(slices.iter().map(|s| s.profile).collect()),
            Slices::MigOff { .. } => GpuLayout::Off,
        };
        layout.0.insert(*index, has);
    }
    for change in &step.gpus {
        layout.0.insert(change.gpu, count(change.after.iter().map(|(profile, _)| *profile).collect()));
    }
    for (index, gpu) in &mut layout.0 {
        let empty = matches!(gpu, GpuLayout::Mig(counts) if counts.is_empty());
        if let (true, Some(node_gpu)) = (empty, node.gpus.get(index)) {
            // Never MIG on without any slice: the validator crash-loops on it.
            let full =
                node_gpu.geometry.profiles().iter().max_by_key(|p| (p.compute, p.size)).map(|p| p.name);
            *gpu = count(full.into_iter().collect());
        }
    }
    layout
}
