//! Reads nodes and the pods on them once: for each node the facts for the planner (the inventory) and those
//! for all other code (its view).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::GpuNode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mig::Catalog;
use planner::inventory::{self, ChangeScope, CountedSlice, Gpu, Hold, Inventory, Room, Slices, Taint, Use};
use planner::names::{GpuIndex, NodeName};
use planner::policy::{LayoutPolicy, Policy};
use rollout::observed::{ManagerState, MapSeen, Observed};
use rollout::progress::Target;
use rollout::{GpuLayout, NodeLayout, PluginConfig, SharingWanted, Strategy};

use crate::agent::{self, Agent};
use crate::facts::{self, OurMap};
use crate::hardware::{self, Models};
use crate::known_labels::known_labels;
use crate::layouts::{self, Established, Maps};
use crate::memory::{Memory, OperandKeys};
use crate::objects::Objects;
use crate::on_node::{self, Bound};
use crate::problem::{Problem, Severity};
use crate::seating::{self, Uncut};
use crate::shared::{self, SharedNode};
use crate::usage::{self, Held};
use crate::view::{Actuator, NodeView};
use crate::{Settings, holds, names, node_labels, other_resources, pods, requests};

/// The nodes of a cluster, and what they share.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// What everybody reads of each node.
    pub nodes: BTreeMap<NodeName, NodeView>,
    /// What the planner reads of those that have GPUs.
    pub inventory: Inventory,
    /// Our map of layouts.
    pub our_map: MapSeen,
}

/// The fleet as the objects show it: every node that has, or may have, GPUs
/// that can be cut, and every other of which something is remembered.
#[must_use]
pub fn read(
    objects: &Objects,
    catalog: &Catalog,
    policies: &[Policy],
    settings: &Settings,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Fleet {
    let maps = Maps::read(objects, problems);
    let ours = OurMap::read(objects, settings);
    let sharing = shared::policies(objects, catalog);
    let on_node = on_node::by_node(objects);
    let (mut views, mut inventory) = (BTreeMap::new(), Inventory::default());
    for (name, node) in &objects.nodes {
        let gpu_node = objects.gpu_nodes.get(name).map(Arc::as_ref);
        let mut memory = Memory::from_gpu_node(gpu_node);
        let strategy = layouts::strategy(node, gpu_node, &memory, objects);
        let pods = on_node.get(name.as_str()).into_iter().flatten();
        let mut pods: Vec<Bound<'_>> = pods.map(|pod| on_node::read(pod, settings)).collect();
        let report = agent::report(node, gpu_node, &pods);
        // Of an agent that is uninstalled nothing is believed.
        let is_gone = memory.progress.agent_gone && report.as_ref().is_some_and(|report| report.has_left);
        let unguarded = objects.unguarded_agents.is_some();
        let agent = agent::read(node, gpu_node, &pods, unguarded).filter(|_| !is_gone);
        // Of one that is away nothing that MIG manager has changed since.
        let is_outdated =
            |agent: &Agent<'_>| agent::is_outdated(node, report.as_ref(), agent, &memory.progress);
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
            false => layouts::establish(name, node, record, strategy, &maps, catalog, problems)
                .or_else(|| elsewhere(node, strategy, objects)),
        };
        // Those are planned for elsewhere: what is wrong with their pods is said there, if anywhere.
        let is_uncut = never_cut || found.is_none();
        let seats = |facts: Option<(&Observed, &Memory)>, pods: &[Bound<'_>], problems: &mut Vec<Problem>| {
            let mut room = room(node);
            objects.room_taken.get(name).into_iter().for_each(|taken| on_node::leave(&mut room, taken));
            let held = on_node::taken(pods, &mut room, &mut Vec::new());
            let (seating, impossible) = seats(&held, facts, room)?;
            problems.extend(impossible.iter().map(|one| one.problem(name)));
            Some(seating)
        };
        if found.is_none() && gpu_node.is_none() {
            let seating = seats(None, &pods, problems);
            inventory.seating.extend(seating.map(|seating| (NodeName(name.clone()), seating)));
            continue;
        }
        if found.as_ref().is_some_and(|found| hardware::was_swapped(found, gpu_node)) {
            memory.forget_swapped();
        }
        let models = hardware::models(found.as_ref(), gpu_node);
        let mut facts = facts::read(node, &pods, &models, strategy, &ours, sharing_seen.clone(), objects);
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
            inventory.seating.insert(NodeName(name.clone()), seating);
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
            let built = one.build(&pods, policies, objects, now, problems);
            // Whole GPUs beside slices that several pods share: nobody plans who gets a seat, and who waits for one is told
            // who has them. What is wrong with their pods was said just now.
            if built.whole_shared.is_some()
                && let Some(seating) = seats(Some((&facts, &memory)), &pods, &mut Vec::new())
            {
                inventory.seating.insert(name.clone(), seating);
            }
            inventory.nodes.insert(name.clone(), built);
        }
        let uid = node.metadata.uid.clone().unwrap_or_default();
        views.insert(name, NodeView::new(uid, actuator, models, memory, facts).shared(shares));
    }
    let holders = inventory.nodes.values().flat_map(|node| node.held.keys().map(|pod| pod.namespace.clone()));
    let namespaces: BTreeSet<String> = holders.collect();
    let labels = |namespace: String| (namespace.clone(), requests::namespace_labels(objects, &namespace));
    inventory.namespaces = namespaces.into_iter().map(labels).collect();
    Fleet { nodes: views, inventory, our_map: ours.seen }
}

/// A node whose GPUs somebody else manages, who writes no labels by which we
/// would know them: it is there, to be left alone with a reason.
fn elsewhere<'a>(node: &Node, strategy: Strategy, objects: &Objects) -> Option<Established<'a>> {
    let present = node.metadata.labels.as_ref()?.get(names::PRESENT).is_some_and(|value| value == "true");
    (present && holds::manager(node, objects).is_some()).then(|| without_slices(strategy))
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

fn single_advice(objects: &Objects) -> String {
    format!("its slices are not offered by profile, since {}", strategy_is_not_mixed(objects))
}

/// Why demand by profile cannot be served under another MIG strategy than
/// `mixed`, and the command that sets it; it goes on from "since".
#[must_use]
pub fn strategy_is_not_mixed(objects: &Objects) -> String {
    let policy = objects.cluster_policies.keys().next().map_or("gpu-cluster-policy", String::as_str);
    // For all nodes it would end the device plugin of those that share through MPS.
    let by_node = match layouts::is_open(objects) {
        true => {
            "; or, for the nodes of this policy alone, write `sharing: {type: None}` into it, which brings the strategy"
        }
        false => "",
    };
    format!(
        "the MIG strategy is not `mixed`, so demand by profile cannot be served; set it with: kubectl patch clusterpolicies.nvidia.com {policy} --type merge -p '{{\"spec\":{{\"mig\":{{\"strategy\":\"mixed\"}}}}}}', or write a Static layout with one profile for all GPUs{by_node}"
    )
}

/// The policy that has a node: the highest priority, then the first name.
fn owner<'a>(policies: &'a [Policy], labels: &BTreeMap<String, String>) -> Option<&'a Policy> {
    policies
        .iter()
        .filter(|policy| !policy.nodes.is_empty() && planner::selector::matches(&policy.nodes, labels))
        .min_by_key(|policy| (std::cmp::Reverse(policy.priority), policy.name.clone()))
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

/// What is known of one node.
struct OneNode<'a> {
    name: &'a NodeName,
    node: &'a Node,
    gpu_node: Option<&'a GpuNode>,
    found: &'a Established<'a>,
    facts: &'a Observed,
    memory: &'a Memory,
    models: &'a Models,
    agent: Option<&'a Agent<'a>>,
    /// What kubelet has given to two pods, in words.
    twice: &'a [String],
    /// Whether a policy shares its GPUs, or leaves them whole: what its pods
    /// hold says nothing about slices then.
    shares: bool,
    /// How its device plugin is told by us to share its devices.
    sharing: Option<&'a PluginConfig>,
    /// How its policy wants them to be shared, if it says so.
    to_be_shared: Option<&'a SharingWanted>,
}

impl OneNode<'_> {
    /// The node as the planner reads it. One that is past the point of return is
    /// there as it will be.
    fn build(
        &self,
        pods: &[Bound<'_>],
        policies: &[Policy],
        objects: &Objects,
        now: Timestamp,
        problems: &mut Vec<Problem>,
    ) -> inventory::Node {
        let Self { name, node, found, facts, memory, .. } = self;
        let mut labels = known_labels(node, self.gpu_node, memory).into_owned();
        let is_cordoned = holds::is_cordoned(facts, memory);
        if !is_cordoned && facts.unschedulable {
            // Our own cordon, which is no reason to plan around a node.
            labels.remove(names::CORDONED_BY);
        }
        let mut room = room(node);
        objects.room_taken.get(&name.0).into_iter().for_each(|taken| on_node::leave(&mut room, taken));
        let mut held = on_node::taken(pods, &mut room, problems);
        let profiles = found.gpus.values().flat_map(|gpu| gpu.model.geometry.profiles()).map(|of| of.name);
        let shared = seating::of_slices(self.sharing, profiles);
        held.replicas = shared.iter().map(|(profile, sharing)| (*profile, sharing.replicas)).collect();
        let is_by_profile = !self.shares && found.strategy == Strategy::Mixed;
        let whole_shared = self.sharing.filter(|_| is_by_profile).and_then(seating::of_whole_gpus);
        held.whole_replicas = whole_shared.map(|sharing| sharing.replicas);
        let impossible = usage::drop_impossible(&mut held, found);
        problems.extend(impossible.iter().map(|one| one.problem(&name.0)));
        let holds = held.compute_slices();
        let taints = taints(node);
        let other_resources = other_resources::free_on(node, &held);
        let single_strategy = found.strategy == Strategy::Single;
        let keys =
            OperandKeys { manager: facts.operands.config.as_deref(), plugin: facts.sharing.key.as_deref() };
        if let Some(target) = memory.heads_for(&keys) {
            return inventory::Node {
                labels,
                single_strategy,
                taints,
                room,
                other_resources,
                scope: ChangeScope::IdleGpus,
                hold: Some(Hold::Changing),
                schedulable: true,
                allocated: held.counts(),
                shared,
                whole_held: if self.shares { 0 } else { held.whole_gpus(found) },
                whole_shared,
                held: holds,
                gpus: match &target.slices {
                    // An agent that has ended says what there is, which is not what was planned if it restored.
                    Some(change) if found.exact && self.agent.is_some_and(|a| a.has_ended(change)) => {
                        gpus_as_found(found, usage::by_gpu(found, &held).0)
                    }
                    Some(change) if found.exact => {
                        let (slices, _, _) = usage::by_gpu(found, &held);
                        slices_to_come(change, gpus_as_found(found, slices))
                    }
                    _ if target.sharing.is_some() && target.layout.0.is_empty() && !self.shares => {
                        gpus_to_come(&uncut(target, self.models), self.models, held)
                    }
                    _ => gpus_to_come(target, self.models, held),
                },
            };
        }
        let (slices, allocated, mut excess) = usage::by_gpu(found, &held);
        if self.shares {
            excess.clear();
        }
        let mut hold = holds::first_hold(node, facts, memory, now);
        // Who could have a slice that is offered there has it already.
        let offered = holds::offers_otherwise(facts, memory, now).is_none();
        hold = self.established(hold, excess, problems);
        if found.strategy != Strategy::Mixed
            && !self.shares
            && hold.is_none()
            && owner(policies, &labels)
                .is_some_and(|policy| matches!(policy.layout, LayoutPolicy::DemandDriven { .. }))
        {
            hold = Some(Hold::NotEstablished { why: single_advice(objects) });
        }
        hold = hold.or_else(|| self.ends_beside_mig(policies, &labels));
        let all_off = !slices.is_empty() && slices.values().all(Slices::is_mig_off);
        inventory::Node {
            labels,
            single_strategy,
            taints,
            room,
            other_resources,
            // Where nothing is cut, every change switches MIG on; that clears the node.
            scope: match (all_off, found.users && facts.agent.is_some()) {
                (true, _) => ChangeScope::EmptyNode,
                (false, true) => ChangeScope::SliceBySlice,
                (false, false) => ChangeScope::IdleGpus,
            },
            hold,
            schedulable: facts.ready && !is_cordoned && !self.is_left_without() && offered,
            allocated,
            shared,
            whole_held: if self.shares { 0 } else { held.whole_gpus(found) },
            whole_shared,
            held: holds,
            gpus: gpus_as_found(found, slices),
        }
    }

    /// Whether MIG manager failed on the node and it offers neither slice nor GPU: the layout that its label names is
    /// then not one from which a pod can be served, and nobody is told that a slice is free there. A device plugin
    /// that only restarts offers nothing either, for a moment, and MIG manager does not say `failed`.
    fn is_left_without(&self) -> bool {
        let Self { node, found, .. } = self;
        found.doubt.is_some()
            && node.metadata.labels.as_ref().map(node_labels::state) == Some(ManagerState::Failed)
            && layouts::advertised(node).is_empty()
    }

    /// The device plugin of a node that shares GPUs through MPS ends beside MIG. Where its policy says how they are shared
    /// otherwise, that is changed first.
    fn ends_beside_mig(&self, policies: &[Policy], labels: &BTreeMap<String, String>) -> Option<Hold> {
        let by_mps = self.sharing.filter(|config| config.is_by_mps() && !self.shares)?;
        let ends_first = matches!(self.to_be_shared, Some(SharingWanted::As(config)) if !config.is_by_mps());
        let policy = owner(policies, labels).filter(|_| !ends_first)?;
        Some(Hold::NotEstablished {
            why: format!(
                "its GPUs are shared through MPS (label {}={}), beside which the device plugin serves no GPU with MIG on, and policy {} says nothing of sharing: write `sharing: {{type: None}}` into it",
                names::PLUGIN_CONFIG,
                by_mps.key(),
                policy.name
            ),
        })
    }

    /// The GPU about which the driver does not answer, if there is one and MIG
    /// manager changes the node: it is told of all GPUs at once, and what this
    /// one is cut into, nobody knows. An agent is told of the others alone.
    fn silent(&self) -> Option<String> {
        let gpus = self.found.gpus.iter().filter(|_| self.facts.agent.is_none());
        let mut silent =
            gpus.filter_map(|(index, gpu)| Some((index, gpu.seen.as_ref()?.driver_error.as_ref()?)));
        let (index, why) = silent.next()?;
        Some(format!(
            "the driver does not answer about GPU {index} ({why}), so what it is cut into is not known, and MIG manager would have to be told"
        ))
    }

    /// The node's hold, unless what its GPUs have is in doubt.
    fn established(
        &self,
        mut hold: Option<Hold>,
        excess: Vec<usage::Excess>,
        problems: &mut Vec<Problem>,
    ) -> Option<Hold> {
        let Self { name, found, facts, .. } = self;
        let mut doubt = found.doubt.clone().or_else(|| self.agent.filter(|a| a.alive)?.doubt());
        doubt = doubt.or_else(|| self.silent());
        // No problem of the cluster's objects: `AgentAway` and `AgentUnguarded` say it.
        let away = facts.agent.as_ref().filter(|agent| hold.is_none() && !agent.alive);
        hold = hold.or(away.map(|agent| Hold::NotEstablished { why: agent.why_away().to_owned() }));
        for usage::Excess { profile, held, exist } in excess {
            let what = profile.map_or_else(|| "whole GPU(s)".to_owned(), |p| format!("{p} slice(s)"));
            let why = self.twice.first().map(|twice| format!(", since {twice}")).unwrap_or_default();
            let message = format!("its pods hold {held} {what}, but it has only {exist}{why}");
            let severity =
                if found.exact || found.doubt.is_none() { Severity::Error } else { Severity::Warning };
            // While a node changes, allocatable and pods disagree for a moment.
            if hold.is_none() {
                problems.push(Problem::new(severity, format!("Node {name}"), message.clone()));
            }
            doubt.get_or_insert(message);
        }
        if let Some(why) = doubt {
            if hold.is_none() {
                problems.push(Problem::new(
                    Severity::Warning,
                    format!("Node {name}"),
                    format!("the layout of its GPUs cannot be determined, so it is not changed: {why}"),
                ));
            }
            hold.get_or_insert(Hold::NotEstablished { why });
        }
        hold
    }
}

/// The GPUs of a node as they are.
fn gpus_as_found(found: &Established<'_>, mut slices: BTreeMap<GpuIndex, Slices>) -> BTreeMap<GpuIndex, Gpu> {
    let gpu = |(index, gpu): (&GpuIndex, &layouts::GpuFound<'_>)| {
        // Whether or not the agent that saw it still lives.
        let seen = gpu.seen.as_ref();
        let unhealthy = seen.and_then(|seen| seen.driver_error.clone().or_else(|| seen.unhealthy.clone()));
        let gpu = Gpu {
            model: gpu.model.id.clone(),
            geometry: Arc::clone(&gpu.model.geometry),
            slices: slices.remove(index)?,
            hold: unhealthy.map(|what| Hold::Unhealthy { what }),
        };
        Some((*index, gpu))
    };
    found.gpus.iter().filter_map(gpu).collect()
}

/// A change of how the devices of a node are shared none of whose GPUs is cut: they stay as they are.
fn uncut(target: &Target, models: &Models) -> Target {
    let layout = NodeLayout(models.keys().map(|index| (*index, GpuLayout::Off)).collect());
    Target { from: Some(layout.clone()), layout, ..target.clone() }
}

/// The GPUs of a node as they will be: with the slices of its target, of which
/// those on GPUs that stay as they are may be held.
fn gpus_to_come(target: &Target, models: &Models, mut held: Held) -> BTreeMap<GpuIndex, Gpu> {
    let Target { layout, from, .. } = target;
    let changed: BTreeSet<GpuIndex> = match from {
        Some(from) => layout.changed_from(from),
        None => layout.0.keys().copied().collect(),
    };
    let mut gpus = BTreeMap::new();
    // GPUs that stay come first: what is held now is held there.
    let mut order: Vec<_> = layout.0.iter().collect();
    order.sort_by_key(|(index, _)| (changed.contains(index), **index));
    for (index, layout) in order {
        let Some(Some(model)) = models.get(index) else { continue };
        let slices = match layout {
            GpuLayout::Off => {
                let used = held.sits_on_whole();
                let used = used.or_else(|| Some(Use::InUse { by: held.take_whole()? }));
                Slices::MigOff { used: used.unwrap_or(Use::Idle) }
            }
            GpuLayout::Mig(counts) => {
                let mut slices = Vec::new();
                for (profile, n) in counts {
                    for _ in 0..*n {
                        let sits = held.sits_on(*profile);
                        let used = sits
                            .or_else(|| Some(Use::InUse { by: held.take(*profile)? }))
                            .unwrap_or(Use::Idle);
                        slices.push(CountedSlice { profile: *profile, used });
                    }
                }
                Slices::Counted(slices)
            }
        };
        let geometry = Arc::clone(&model.geometry);
        gpus.insert(*index, Gpu { model: model.id.clone(), geometry, slices, hold: None });
    }
    gpus
}

/// The GPUs of a node whose agent changes single slices: with those that come.
fn slices_to_come(
    change: &rollout::SliceChange,
    mut gpus: BTreeMap<GpuIndex, Gpu>,
) -> BTreeMap<GpuIndex, Gpu> {
    for changed in &change.gpus {
        let Some(gpu) = gpus.get_mut(&changed.gpu) else { continue };
        let slice = |place: &rollout::SlicePlace| {
            let rollout::SlicePlace { profile, start } = *place;
            let same = gpu.slices.iter().find(|slice| (slice.profile, slice.start) == (profile, Some(start)));
            let used = same.map_or(Use::Idle, |slice| slice.used.clone());
            inventory::PlacedSlice { profile, start, used }
        };
        let mut slices: Vec<_> = changed.after.iter().map(slice).collect();
        slices.sort_by_key(|slice| (slice.start, slice.profile));
        gpu.slices = Slices::Placed(slices);
    }
    gpus
}

/// What a node has for pods. One that does not say is not judged by it.
pub(crate) fn room(node: &Node) -> Room {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let has = |resource: &str| {
        let quantity = allocatable?.get(resource)?;
        i64::try_from(pods::amount(resource, quantity)?).ok()
    };
    Room {
        cpu_milli: has("cpu").unwrap_or(i64::MAX),
        memory_bytes: has("memory").unwrap_or(i64::MAX),
        storage_bytes: has(names::RESOURCE_STORAGE).unwrap_or(i64::MAX),
        pods: has("pods").unwrap_or(i64::MAX),
    }
}

pub(crate) fn taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints: Vec<Taint> = taints
        .into_iter()
        .flatten()
        .map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: taint.effect.clone(),
        })
        .collect();
    taints.sort();
    taints
}
