//! Reads one node and the pods on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use planner::inventory::{self, Hold, Room, Seating};
use planner::names::NodeName;
use planner::policy::Policy;
use rollout::observed::Observed;
use rollout::{GpuLayout, NodeLayout, Strategy};

use super::beside::{Beside, Common, owner};
use super::build::OneNode;
use super::machine::{room, taints};
use crate::agent::{self, Agent};
use crate::facts;
use crate::hardware;
use crate::known_labels::known_labels;
use crate::layouts::{self, Established};
use crate::memory::Memory;
use crate::objects::Objects;
use crate::on_node::{self, Bound};
use crate::problem::{Problem, Severity};
use crate::seating::Uncut;
use crate::shared::SharedNode;
use crate::usage::Held;
use crate::view::{Actuator, NodeView};
use crate::{holds, names};

/// The objects of one node.
#[derive(Clone, Debug)]
pub(super) struct Own<'a> {
    pub(super) name: &'a String,
    pub(super) node: &'a Arc<Node>,
    pub(super) gpu_node: Option<&'a Arc<GpuNode>>,
    /// The pods that are bound to it.
    pub(super) pods: Vec<&'a Arc<Pod>>,
    /// What pods take of it that nobody keeps one by one.
    pub(super) room_taken: Option<Room>,
}

/// What was read of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadNode {
    /// What everybody reads of it, where it has GPUs or something is remembered of it.
    pub(super) view: Option<Arc<NodeView>>,
    /// What the planner reads of it, where it has GPUs.
    pub(super) node: Option<Arc<inventory::Node>>,
    /// The GPUs that several pods share, or that nobody cuts.
    pub(super) seating: Option<Seating>,
    pub(super) problems: Vec<Problem>,
    /// When the same objects mean something else, by time alone.
    pub(super) turns_at: Option<Timestamp>,
}

/// Reads a node.
pub(super) fn read_node(own: &Own<'_>, beside: &Beside<'_>, now: Timestamp) -> ReadNode {
    let Own { name, node, .. } = *own;
    let gpu_node = own.gpu_node.map(Arc::as_ref);
    let Beside { common, maps, ours, catalog } = beside;
    let Common { rest, of_cluster, policies, sharing, settings } = common;
    let mut read = ReadNode::default();
    let mut found_wrong = Vec::new();
    let problems = &mut found_wrong;
    let mut memory = Memory::from_gpu_node(gpu_node);
    let strategy = layouts::strategy(node, gpu_node, &memory, rest, *of_cluster);
    let mut pods: Vec<Bound<'_>> = own.pods.iter().map(|pod| on_node::read(pod, settings)).collect();
    let report = agent::report(node, gpu_node, &pods);
    // Of an agent that is uninstalled nothing is believed.
    let is_gone = memory.progress.agent_gone && report.as_ref().is_some_and(|report| report.has_left);
    let unguarded = rest.unguarded_agents.is_some();
    let agent = agent::read(node, gpu_node, &pods, unguarded).filter(|_| !is_gone);
    // Of one that is away nothing that MIG manager has changed since.
    let is_outdated = |agent: &Agent<'_>| agent::is_outdated(node, report.as_ref(), agent, &memory.progress);
    let is_past = is_gone || agent.as_ref().is_some_and(is_outdated);
    let agent = agent.filter(|_| !is_past);
    let living = agent.as_ref().filter(|agent| agent.alive);
    if let Some(agent) = living {
        for pod in &mut pods {
            pod.seen.gpus = agent.gpus_of(pod);
        }
    }
    let twice = living.map(|agent| agent.given_twice(&pods)).unwrap_or_default();
    let of_node = |why: &String| Problem::new(Severity::Warning, format!("Node {name}"), why.clone());
    problems.extend(twice.iter().map(of_node));
    let users = living.map(|agent| agent.gpus(&pods));
    let sharing_seen = ours.sharing_of(node);
    let told = sharing_seen.config.clone();
    let record = layouts::Record { gpu_node, users: users.as_ref(), is_past, sharing: told.as_ref() };
    let known = known_labels(node, gpu_node, &memory);
    let shares = owner(policies, &known)
        .and_then(|policy| Some((policy, sharing.get(&policy.name)?)))
        .filter(|(_, shares)| shares.is_for(&known))
        .map(|(policy, shares)| SharedNode {
            policy: policy.name.clone(),
            never_cut: shares.never_cuts(&known),
            wanted: shares.wanted_of(&known, sharing_seen.is_cut),
        });
    let never_cut = shares.as_ref().is_some_and(|shares| shares.never_cut);
    let seats = |held: &Held, facts: Option<(&Observed, &Memory)>, room: Room| {
        let hold = facts.and_then(|(facts, memory)| holds::first_hold(node, facts, memory, now));
        let is_cordoned = match facts {
            Some((facts, memory)) => holds::is_cordoned(facts, memory),
            None => crate::cordon::is_cordoned(node),
        };
        let ready = holds::is_ready(node);
        let cordoned = is_cordoned.then(|| Hold::Cordoned { by: "somebody else".to_owned() });
        let uncut = Uncut {
            node,
            labels: known.clone().into_owned(),
            taints: taints(node),
            room,
            held,
            sharing: &sharing_seen,
            hold: hold.or(cordoned).or((!ready).then_some(Hold::NotReady)),
            schedulable: ready && !is_cordoned,
        };
        uncut.seats()
    };
    let found = match never_cut {
        true => Some(without_slices(strategy)),
        false => layouts::establish(name, node, record, strategy, maps, catalog, problems)
            .or_else(|| elsewhere(node, strategy, rest)),
    };
    // Those are planned for elsewhere: what is wrong with their pods is said there, if anywhere.
    let is_uncut = never_cut || found.is_none();
    let seats = |facts: Option<(&Observed, &Memory)>, pods: &[Bound<'_>], problems: &mut Vec<Problem>| {
        let mut room = room(node);
        own.room_taken.iter().for_each(|taken| on_node::leave(&mut room, taken));
        let held = on_node::taken(pods, &mut room, &mut Vec::new());
        let (seating, impossible) = seats(&held, facts, room)?;
        problems.extend(impossible.iter().map(|one| one.problem(name)));
        Some(seating)
    };
    if found.is_none() && gpu_node.is_none() {
        let seating = seats(None, &pods, problems);
        read.seating = seating;
        read.problems = found_wrong;
        return read;
    }
    if found.as_ref().is_some_and(|found| hardware::was_swapped(found, gpu_node)) {
        memory.forget_swapped();
    }
    let models = hardware::models(found.as_ref(), gpu_node);
    let mut facts = facts::read(node, &pods, &models, strategy, ours, sharing_seen.clone(), rest);
    facts.sharing.never_cut = never_cut;
    facts.sharing.layout = found.as_ref().and_then(layout_in_effect);
    let is_whole = |found: &Established<'_>| {
        let labels = known_labels(node, gpu_node, &memory);
        has_whole_gpus(found) || wants_whole_gpus(found, owner(policies, &labels))
    };
    // By its policy, or by a key that a policy has left there.
    let is_shared = shares.as_ref().is_some_and(|shares| shares.never_cut || shares.wanted.is_some())
        || told.as_ref().is_some_and(|told| told.sharing.is_some());
    let is_mig_off = found.as_ref().is_some_and(is_whole);
    let actuator = Actuator::choose(agent.as_ref(), &memory, &facts, is_mig_off, is_shared);
    facts.report = report;
    if is_uncut && let Some(seating) = seats(Some((&facts, &memory)), &pods, problems) {
        read.seating = Some(seating);
    }
    facts.agent = agent.as_ref().filter(|_| actuator == Actuator::Agent).map(agent::Agent::seen);
    let name = NodeName(name.clone());
    if let Some(found) = &found {
        let one = OneNode {
            name: &name,
            node,
            gpu_node,
            found,
            facts: &facts,
            memory: &memory,
            models: &models,
            agent: agent.as_ref(),
            twice: &twice,
            shares: never_cut,
            sharing: told.as_ref(),
            to_be_shared: shares.as_ref().and_then(|shares| shares.wanted.as_ref()),
        };
        let built = one.build(&pods, own.room_taken, beside, now, problems);
        // Whole GPUs beside slices that several pods share: nobody plans who gets a seat, and who waits for one is told
        // who has them. What is wrong with their pods was said just now.
        if built.whole_shared.is_some()
            && let Some(seating) = seats(Some((&facts, &memory)), &pods, &mut Vec::new())
        {
            read.seating = Some(seating);
        }
        read.node = Some(Arc::new(built));
    }
    let uid = node.metadata.uid.clone().unwrap_or_default();
    read.turns_at = holds::turns_at(&memory, now);
    read.view = Some(Arc::new(NodeView::new(uid, actuator, models, memory, facts).shared(shares)));
    read.problems = found_wrong;
    read
}

/// A node whose GPUs somebody else manages, who writes no labels by which we
/// would know them: it is there, to be left alone with a reason.
fn elsewhere<'a>(node: &Node, strategy: Strategy, rest: &Objects) -> Option<Established<'a>> {
    let present = node.metadata.labels.as_ref()?.get(names::PRESENT).is_some_and(|value| value == "true");
    (present && holds::manager(node, rest).is_some()).then(|| without_slices(strategy))
}

/// What the GPUs of a node are cut into, where one is and that is no matter of
/// doubt.
fn layout_in_effect(found: &Established<'_>) -> Option<NodeLayout> {
    let cut = NodeLayout(found.gpus.iter().map(|(index, gpu)| (*index, gpu.cut.clone())).collect());
    (found.doubt.is_none() && cut.0.values().any(GpuLayout::is_mig)).then_some(cut)
}

/// A node of which no GPU is to be cut: nothing is planned for it.
const fn without_slices<'a>(strategy: Strategy) -> Established<'a> {
    Established { gpus: BTreeMap::new(), strategy, exact: false, users: false, doubt: None }
}

fn has_whole_gpus(found: &Established<'_>) -> bool {
    found.gpus.values().any(|gpu| !gpu.cut.is_mig())
}

/// Whether the policy of a node wants MIG off on one of its GPUs, or lets requests decide it.
fn wants_whole_gpus(found: &Established<'_>, policy: Option<&Policy>) -> bool {
    let may = |policy: &Policy| {
        found.gpus.iter().any(|(index, gpu)| policy.layout.may_be_whole(&gpu.model.id, *index))
    };
    policy.is_some_and(may)
}
