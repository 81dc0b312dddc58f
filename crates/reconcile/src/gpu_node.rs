//! The wanted `GpuNode` of each node: its wanted layout, the observed state, and the progress of its
//! rollout. Where an agent runs, the agent writes the observed state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api::GpuNode;
use api::gpu_node::{
    GpuNodeSpec, GpuNodeStatus, MOST_PROMISED, Observed, ObservedBy, ObservedGpu, ObservedSlice, PodName,
    PromisedTo, SliceUse,
};
use api::wanted::{WantedGpu, WantedSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mig::ProfileName;
use observe::NodeView;
use planner::inventory::{Hold, Node, Slice, Use};
use planner::names::{NodeName, RequestId};
use planner::plan::NodeStep;
use rollout::Advance;

use crate::advance::policy_of;
use crate::input::Input;
use crate::node_conditions;
use crate::planned_round::PlannedRound;
use crate::remembered;

/// How many characters of what others call their work are told to an agent.
const LONGEST_WORK: usize = 200;

/// A `GpuNode` as it should be. Whoever writes it compares it with what is
/// there, and writes only what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedGpuNode {
    /// The uid of the node, which owns it.
    pub owner_uid: String,
    /// Its spec.
    pub spec: GpuNodeSpec,
    /// Its status.
    pub status: GpuNodeStatus,
}

/// The `GpuNode`s of all nodes that have GPUs, or of which something is
/// remembered.
#[must_use]
pub fn gpu_nodes(
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
    promises: &BTreeMap<NodeName, Vec<RequestId>>,
) -> BTreeMap<NodeName, WantedGpuNode> {
    let steps: BTreeMap<&NodeName, &NodeStep> = planned.plan.steps.iter().map(|s| (&s.node, s)).collect();
    let digest = planned.plan.digest();
    let mut all = BTreeMap::new();
    for (name, object) in &input.objects.nodes {
        let name = NodeName(name.clone());
        let old = input.objects.gpu_nodes.get(&name.0).map(Arc::as_ref);
        let node = planned.view.inventory.nodes.get(&name);
        if node.is_none() && old.is_none() {
            continue;
        }
        let step = steps.get(&name).map(|s| (*s, digest.as_str()));
        let mut spec = spec(input, planned, &name, step, advances.get(&name), old);
        spec.driver_in_use_by = driver_in_use_by(&object.metadata);
        let mut status = status(input, planned, &name, advances.get(&name), old);
        if let Some(rollout) = &mut status.rollout {
            let promised = promises.get(&name).into_iter().flatten().take(MOST_PROMISED);
            rollout.promised = promised.map(promised_to).collect();
        }
        let owner_uid = object.metadata.uid.clone().unwrap_or_default();
        all.insert(name, WantedGpuNode { owner_uid, spec, status });
    }
    all
}

fn promised_to(id: &RequestId) -> PromisedTo {
    let RequestId { kind, namespace, name, ordinal } = id.clone();
    PromisedTo { kind, namespace, name, ordinal: i64::from(ordinal) }
}

/// Who else works on a node now. What is only announced may wait for hours, and needs no closed driver.
fn driver_in_use_by(node: &ObjectMeta) -> Option<String> {
    let none = BTreeMap::new();
    let labels = node.labels.as_ref().unwrap_or(&none);
    let annotations = node.annotations.as_ref().unwrap_or(&none);
    let work = observe::node_labels::work(labels, annotations)?;
    // What others write into an annotation has no bound.
    work.is_under_way().then(|| work.to_string().chars().take(LONGEST_WORK).collect())
}

/// What is wanted: the plan's step; without one what was wanted before, while
/// the node is on its way there.
fn spec(
    input: &Input<'_>,
    planned: &PlannedRound,
    name: &NodeName,
    step: Option<(&NodeStep, &str)>,
    advance: Option<&Advance>,
    old: Option<&GpuNode>,
) -> GpuNodeSpec {
    let progress = advance.map_or_else(|| planned.progress_of(name), |a| a.progress.clone());
    let policy = policy_of(name, &progress, input, planned).map(|policy| policy.0);
    let old = old.map(|node| node.spec.clone()).unwrap_or_default();
    // Of a node that nobody advances it stays what it is: an agent may have claimed it.
    let change = match advance {
        Some(advance) => advance.change.as_ref().map(api::node_agent::change),
        None => old.change.clone(),
    };
    match step {
        Some((step, digest)) => GpuNodeSpec {
            policy,
            plan_digest: Some(digest.to_owned()),
            gpus: step
                .gpus
                .iter()
                .map(|change| WantedGpu {
                    index: i32::from(change.gpu.0),
                    model: change.model.clone(),
                    slices: change
                        .after
                        .iter()
                        .map(|(profile, start)| WantedSlice {
                            profile: profile.to_string(),
                            start: i32::from(*start),
                        })
                        .collect(),
                })
                .collect(),
            change,
            driver_in_use_by: None,
        },
        None => GpuNodeSpec { policy, change, ..old },
    }
}

fn status(
    input: &Input<'_>,
    planned: &PlannedRound,
    name: &NodeName,
    advance: Option<&Advance>,
    old: Option<&GpuNode>,
) -> GpuNodeStatus {
    let none = GpuNodeStatus::default();
    let before = old.and_then(|node| node.status.as_ref()).unwrap_or(&none);
    let node = planned.view.inventory.nodes.get(name);
    let mut rollout =
        match (advance, planned.memory_of(name).is_some_and(|memory| memory.unreadable.is_some())) {
            (Some(advance), _) => remembered::write(&advance.progress, before.rollout.as_ref()),
            // What we do not understand is kept as it is.
            (None, true) => before.rollout.clone().unwrap_or_default(),
            (None, false) => remembered::write(&planned.progress_of(name), before.rollout.as_ref()),
        };
    let changing = node.is_some_and(|node| matches!(node.hold, Some(Hold::Changing)));
    rollout.schedulable_since = match node.filter(|_| !changing) {
        Some(node) => observe::free::schedulable_since(&rollout.schedulable_since, node, input.now),
        None => BTreeMap::new(),
    };
    // What an agent has left behind is taken out first; what we see is written when it is gone.
    let left_behind = planned.view.node(name).is_some_and(NodeView::is_without_agent);
    let observed = match node {
        _ if left_behind => None,
        Some(node) if !observe::hardware::has_report_of_agent(old) => {
            let last = before
                .observed
                .as_ref()
                .filter(|_| !planned.memory_of(name).is_some_and(|memory| memory.swapped));
            observed(input, name, node, last)
        }
        _ => before.observed.clone(),
    };
    let generation = old.and_then(|node| node.metadata.generation);
    let progress = advance.map_or_else(|| planned.progress_of(name), |a| a.progress.clone());
    let policy = policy_of(name, &progress, input, planned);
    let mut conditions = before.conditions.clone();
    let outlook = advance.map(|advance| &advance.outlook);
    for wanted in node_conditions::conditions(name, node, policy.as_ref(), outlook, input.now) {
        // A new object has generation 1.
        api::condition::set(&mut conditions, wanted, generation.unwrap_or(1), input.now);
    }
    // A node whose change ends in this round is ready in this write: what it has must not be what it had. The
    // view shows a node past the point of return as it will be, which is what was proved now.
    let on_its_way = changing && !matches!(outlook, Some(rollout::Outlook::Idle));
    let slices = match node {
        Some(node) if !on_its_way => {
            let shared = planned.view.node(name).and_then(NodeView::shared_gpus);
            Some(shared.map_or_else(
                || in_one_line(node),
                |(gpus, config)| {
                    let gpus = usize::try_from(gpus).unwrap_or(usize::MAX);
                    format!("{}: {config}", crate::answers::plural(gpus, "GPU"))
                },
            ))
        }
        _ => before.slices.clone(),
    };
    GpuNodeStatus {
        observed_generation: Some(generation.unwrap_or(1)),
        conditions,
        slices,
        observed,
        agent: before.agent.clone().filter(|_| !left_behind),
        rollout: Some(rollout),
    }
}

/// What the node has, as far as the controller knows. While that is not
/// established, or the node is on its way, what was seen last stays.
fn observed(input: &Input<'_>, name: &NodeName, node: &Node, before: Option<&Observed>) -> Option<Observed> {
    if matches!(node.hold, Some(Hold::NotEstablished { .. } | Hold::Changing | Hold::Failed { .. }))
        || node.gpus.is_empty()
    {
        return before.cloned();
    }
    let object = input.objects.nodes.get(&name.0);
    let info = object.and_then(|object| object.status.as_ref()?.node_info.as_ref());
    let seen = Observed {
        by: ObservedBy::Controller,
        at: input.now,
        boot_id: info.map(|info| info.boot_id.clone()),
        labels: object.map(|object| observe::labels::to_remember(object)).unwrap_or_default(),
        gpus: node.gpus.iter().map(|(index, gpu)| observed_gpu(index.0, gpu)).collect(),
        doubts: None,
    };
    let same = before.filter(|before| {
        let Observed { by, at: _, boot_id, labels, gpus, doubts: _ } = &seen;
        (*by, boot_id, labels, gpus) == (before.by, &before.boot_id, &before.labels, &before.gpus)
    });
    // What was seen before was seen then, and is not seen anew.
    Some(match same {
        Some(before) => Observed { at: before.at, doubts: before.doubts.clone(), ..seen },
        None => seen,
    })
}

fn observed_gpu(index: u16, gpu: &planner::inventory::Gpu) -> ObservedGpu {
    let slice = |slice: Slice<'_>| ObservedSlice {
        profile: slice.profile.to_string(),
        start: slice.start.map(i32::from),
        used: match slice.used {
            Use::Idle => SliceUse::Idle,
            Use::InUse { .. } => SliceUse::InUse,
            Use::MaybeInUse { .. } => SliceUse::MaybeInUse,
        },
        by: users(slice.used),
        devices: Vec::new(),
        holders: Vec::new(),
        unexplained: false,
    };
    ObservedGpu {
        index: i32::from(index),
        model: gpu.model.clone(),
        uuid: None,
        mig_enabled: !gpu.slices.is_mig_off(),
        held_by: gpu.slices.whole().map(users).unwrap_or_default(),
        holders: Vec::new(),
        unhealthy: None,
        driver_error: None,
        slices: gpu.slices.iter().map(slice).collect(),
    }
}

/// `7 x 1g.10gb (3 free)`, or `3g.40gb`.
pub(crate) fn slices_in_words(what: impl fmt::Display, n: u32, free: u32) -> String {
    let free = if free == 0 { String::new() } else { format!(" ({free} free)") };
    if n == 1 { format!("{what}{free}") } else { format!("{n} x {what}{free}") }
}

/// `7 x 1g.10gb (3 free), 3g.40gb, 1 GPU without MIG`.
fn in_one_line(node: &Node) -> String {
    let mut counts: BTreeMap<ProfileName, u32> = BTreeMap::new();
    let mut off = 0;
    for gpu in node.gpus.values() {
        off += usize::from(gpu.slices.is_mig_off());
        for profile in gpu.slices.profiles() {
            *counts.entry(profile).or_default() += 1;
        }
    }
    let mut parts: Vec<String> = counts
        .into_iter()
        .map(|(profile, n)| slices_in_words(profile, n, observe::free::free_slices(node, profile)))
        .collect();
    if off > 0 {
        parts.push(format!("{} without MIG", crate::answers::plural(off, "GPU")));
    }
    if parts.is_empty() { "no slice".to_owned() } else { parts.join(", ") }
}

/// How many pods the CRD takes for one slice.
const MOST_USERS: usize = 32;

fn users(used: &Use) -> Vec<PodName> {
    let name =
        |pod: &planner::names::PodRef| PodName { namespace: pod.namespace.clone(), name: pod.name.clone() };
    used.holders().iter().take(MOST_USERS).map(name).collect()
}
