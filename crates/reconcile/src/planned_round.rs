//! Observe, decide, check: from the objects to a plan, a report, and what the
//! checker says of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use mig::Catalog;
use observe::operands::operand;
use observe::usage::Held;
use observe::{Objects, Problem};
use planner::check::JudgedPlan;
use planner::decide::{Decision, decide_while};
use planner::demand::Request;
use planner::inventory::{ChangeScope, CountedSlice, Gpu, Hold, Inventory, Node, Slices, Use};
use planner::names::{NodeName, PolicyName};
use planner::plan::UnderWay;
use planner::policy::Policy;
use planner::report::Report;
use rollout::fleet::PolicyRollout;
use rollout::{GpuLayout, NodeLayout, Operand, Phase, Progress, names};

use crate::cordon;
use crate::hardware;
use crate::input::Input;
use crate::remembered::{self, Unreadable};
use crate::seen::pod_ref;
use crate::under_way::under_way;

/// What the operator thinks at one moment.
#[derive(Clone, Debug)]
pub struct PlannedRound {
    /// What the fleet has. A node on its way is there as it will be.
    pub inventory: Inventory,
    /// What is asked for and not bound.
    pub requests: Vec<Request>,
    /// The workbenches that should run and have no pod, since when: to be
    /// handed in with the objects of the next round.
    pub starting: BTreeMap<observe::objects::Key, jiff::Timestamp>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// How they roll out.
    pub rollouts: BTreeMap<PolicyName, PolicyRollout>,
    /// What is wrong with the objects, or worth knowing.
    pub problems: Vec<Problem>,
    /// The policy of each node that has one.
    pub policy_of: BTreeMap<NodeName, PolicyName>,
    /// What is to be done, and what the checker says of it.
    pub plan: JudgedPlan,
    /// Why, and why not more.
    pub report: Report,
    /// What is remembered of the rollout of every node that has a `GpuNode`.
    pub progress: BTreeMap<NodeName, Progress>,
    /// Nodes of which something is remembered that cannot be read.
    pub unreadable: BTreeMap<NodeName, Unreadable>,
    /// Nodes with other GPUs than before, whose rollout was forgotten for that.
    pub swapped: BTreeSet<NodeName>,
}

impl PlannedRound {
    /// What is remembered of a node's rollout.
    #[must_use]
    pub fn progress_of(&self, node: &NodeName) -> Progress {
        self.progress.get(node).cloned().unwrap_or_default()
    }
}

/// What is observed and remembered, before anything is decided.
#[derive(Clone, Debug, Default)]
pub struct ObservedCluster {
    /// The fleet, the demand and the policies. A node on its way is there as
    /// it will be.
    pub seen: observe::Observed,
    /// The plan that is being carried out: it goes on unless another one is
    /// better by proof.
    pub under_way: UnderWay,
    /// What is remembered of the rollout of every node that has a `GpuNode`.
    pub progress: BTreeMap<NodeName, Progress>,
    /// Nodes of which something is remembered that cannot be read.
    pub unreadable: BTreeMap<NodeName, Unreadable>,
    /// Nodes with other GPUs than before, whose rollout was forgotten for that.
    pub swapped: BTreeSet<NodeName>,
}

/// Observes. A preview sees a recorded fleet through this too, so that what is
/// planned from a file is what is planned on the cluster.
#[must_use]
pub fn see(input: &Input<'_>) -> ObservedCluster {
    let mut progress = BTreeMap::new();
    let mut unreadable = BTreeMap::new();
    for (name, gpu_node) in &input.objects.gpu_nodes {
        match remembered::read(Some(gpu_node)) {
            Ok(read) => {
                progress.insert(NodeName(name.clone()), read);
            }
            Err(error) => {
                unreadable.insert(NodeName(name.clone()), error);
            }
        }
    }
    let objects = as_the_planner_sees_them(input.objects, &progress);
    let catalog = Catalog::builtin();
    let mut seen = observe::observe(&objects, catalog, &input.settings.observe, input.now);
    let inventory = &mut seen.inventory;
    let swapped = forget_swapped(&mut progress, inventory, input.objects);
    for (name, progress) in &progress {
        let Some(object) = input.objects.nodes.get(&name.0) else { continue };
        // Once the label is written there is no way back, whatever was stored.
        let label = object.metadata.labels.as_ref().and_then(|labels| labels.get(names::MIG_CONFIG));
        let written = progress
            .target
            .as_ref()
            .is_some_and(|t| Some(&t.label) == label && t.label_before.as_ref() != label);
        let on_its_way = (written || !progress.phase.can_return())
            && !matches!(progress.phase, Phase::Failed | Phase::Released);
        if let (true, Some(target)) = (on_its_way, &progress.target)
            && let Some(node) = inventory.nodes.get_mut(name)
        {
            let (layout, from) = (&target.layout, target.from.as_ref());
            as_it_will_be(node, name, layout, from, input.objects, &input.settings.observe);
        }
    }
    for (name, error) in &unreadable {
        if let Some(node) = inventory.nodes.get_mut(name) {
            node.hold = Some(Hold::NotEstablished { why: error.to_string() });
        }
    }
    let mut under_way = under_way(&seen.inventory, &input.objects.gpu_nodes);
    // What was wanted of other GPUs is wanted of none.
    under_way.gpus.retain(|(node, _), _| !swapped.contains(node));
    ObservedCluster { seen, under_way, progress, unreadable, swapped }
}

/// Observes, decides and checks.
#[must_use]
pub fn plan_round(input: &Input<'_>) -> PlannedRound {
    let ObservedCluster { seen, under_way, progress, unreadable, swapped } = see(input);
    let observe::Observed { inventory, requests, starting, policies, rollouts, problems } = seen;
    let Decision { plan, report } = decide_while(&inventory, &requests, &policies, &under_way, input.now);
    let plan = JudgedPlan::new(plan, &inventory, &requests, &policies);
    let policy_of = planner::assign::policy_of(&inventory, &policies).policy_of;
    PlannedRound {
        inventory,
        requests,
        starting,
        policies,
        rollouts,
        problems,
        policy_of,
        plan,
        report,
        progress,
        unreadable,
        swapped,
    }
}

/// A layout that was proved on other GPUs says nothing of those that are there
/// now: a node whose GPUs were swapped is new to us, so that it is neither held
/// to the layout before nor failed for want of it. One that is on its way to a
/// new layout finds out by itself that it does not get there.
fn forget_swapped(
    progress: &mut BTreeMap<NodeName, Progress>,
    inventory: &Inventory,
    objects: &Objects,
) -> BTreeSet<NodeName> {
    let mut swapped = BTreeSet::new();
    for (name, progress) in progress {
        let (Some(node), Some(gpu_node)) = (inventory.nodes.get(name), objects.gpu_nodes.get(&name.0)) else {
            continue;
        };
        let restores = progress.target.as_ref().is_some_and(|target| target.restore);
        let may_forget = restores || matches!(progress.phase, Phase::Idle | Phase::Failed);
        if may_forget && *progress != Progress::default() && hardware::was_swapped(node, gpu_node) {
            *progress = Progress::default();
            swapped.insert(name.clone());
        }
    }
    swapped
}

/// The objects without what we did to nodes that can still be taken back: our
/// own cordon is not a reason to plan around a node.
fn as_the_planner_sees_them(objects: &Objects, progress: &BTreeMap<NodeName, Progress>) -> Objects {
    let mut seen = objects.clone();
    let untouched = Progress::default();
    for (name, node) in &mut seen.nodes {
        let progress = progress.get(&NodeName(name.clone())).unwrap_or(&untouched);
        if progress.phase.can_return() && cordon::is_ours(node, progress) {
            let node = Arc::make_mut(node);
            node.metadata.labels.get_or_insert_default().remove(names::CORDONED_BY);
            node.spec.get_or_insert_default().unschedulable = None;
        }
    }
    for (name, gpu_node) in &mut seen.gpu_nodes {
        let Some(progress) = progress.get(&NodeName(name.clone())) else { continue };
        let phase = gpu_node.status.as_ref().and_then(|s| Some(s.rollout.as_ref()?.phase.as_str()));
        if progress.phase.can_return()
            && phase.is_some_and(|phase| phase != "Idle")
            && let Some(rollout) =
                Arc::make_mut(gpu_node).status.as_mut().and_then(|status| status.rollout.as_mut())
        {
            rollout.phase = "Idle".to_owned();
        }
    }
    seen
}

/// A node that is past the point of return is handed to the planner as it
/// will be: with the slices of its target, of which those on GPUs that stay
/// as they are may be held.
fn as_it_will_be(
    node: &mut Node,
    name: &NodeName,
    target: &NodeLayout,
    from: Option<&NodeLayout>,
    objects: &Objects,
    settings: &observe::Settings,
) {
    let changed =
        from.map(|from| target.changed_from(from)).unwrap_or_else(|| target.0.keys().copied().collect());
    let models = hardware::models(Some(node), objects.gpu_nodes.get(&name.0).map(Arc::as_ref));
    let mut held = held(name, objects.pods.values().map(Arc::as_ref), settings);
    node.allocated = held.counts();
    let mut gpus = BTreeMap::new();
    // GPUs that stay come first: what is held now is held there.
    let mut order: Vec<_> = target.0.iter().collect();
    order.sort_by_key(|(index, _)| (changed.contains(index), **index));
    for (index, layout) in order {
        let Some(Some(model)) = models.get(index) else { continue };
        let slices = match layout {
            GpuLayout::Off => Slices::MigOff { used: Use::MaybeInUse { by: Vec::new() } },
            GpuLayout::Mig(counts) => {
                let mut slices = Vec::new();
                for (profile, n) in counts {
                    for _ in 0..*n {
                        let used = held.take(*profile).map_or(Use::Idle, |by| Use::InUse { by });
                        slices.push(CountedSlice { profile: *profile, used });
                    }
                }
                Slices::Counted(slices)
            }
        };
        let geometry = Arc::clone(&model.geometry);
        gpus.insert(*index, Gpu { model: model.id.clone(), geometry, slices, hold: None });
    }
    node.gpus = gpus;
    node.scope = ChangeScope::IdleGpus;
    node.hold = Some(Hold::Changing);
    node.schedulable = true;
}

/// What the pods of a node hold.
fn held<'a>(node: &NodeName, pods: impl Iterator<Item = &'a Pod>, settings: &observe::Settings) -> Held {
    let mut held = Held::default();
    for pod in pods.filter(|pod| observe::pods::life(pod) == observe::pods::Life::Bound) {
        let Some(spec) = pod.spec.as_ref().filter(|spec| spec.node_name.as_deref() == Some(&node.0)) else {
            continue;
        };
        if operand(pod, &settings.gpu_operator_namespace) == Some(Operand::Validator) {
            continue;
        }
        for (profile, n) in observe::pods::takes(spec).slices {
            held.slices.entry(profile).or_default().insert(pod_ref(pod), n);
        }
    }
    held
}
