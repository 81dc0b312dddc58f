//! A node as the planner reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::GpuNode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mig::ProfileName;
use planner::inventory::{self, ChangeScope, CountedSlice, Gpu, Hold, Room, Slices, Use};
use planner::names::{GpuIndex, NodeName};
use planner::policy::{LayoutPolicy, Policy};
use rollout::observed::{ManagerState, Observed};
use rollout::progress::Target;
use rollout::{GpuLayout, NodeLayout, PluginConfig, SharingWanted, Strategy};

use super::beside::{Beside, owner};
use super::machine::{room, taints};
use super::strategy_is_not_mixed;
use crate::agent::Agent;
use crate::hardware::Models;
use crate::known_labels::known_labels;
use crate::layouts::{self, Established};
use crate::memory::{Memory, OperandKeys};
use crate::objects::Objects;
use crate::on_node::{self, Bound};
use crate::problem::{Problem, Severity};
use crate::seating;
use crate::usage::{self, Held};
use crate::{holds, names, node_labels, other_resources};

/// What is known of one node.
pub(super) struct OneNode<'a> {
    pub(super) name: &'a NodeName,
    pub(super) node: &'a Node,
    pub(super) gpu_node: Option<&'a GpuNode>,
    pub(super) found: &'a Established<'a>,
    pub(super) facts: &'a Observed,
    pub(super) memory: &'a Memory,
    pub(super) models: &'a Models,
    pub(super) agent: Option<&'a Agent<'a>>,
    /// What kubelet has given to two pods, in words.
    pub(super) twice: &'a [String],
    /// Whether a policy shares its GPUs, or leaves them whole: what its pods
    /// hold says nothing about slices then.
    pub(super) shares: bool,
    /// How its device plugin is told by us to share its devices.
    pub(super) sharing: Option<&'a PluginConfig>,
    /// How its policy wants them to be shared, if it says so.
    pub(super) to_be_shared: Option<&'a SharingWanted>,
}

impl OneNode<'_> {
    /// The node as the planner reads it. One that is past the point of return is
    /// there as it will be.
    pub(super) fn build(
        &self,
        pods: &[Bound<'_>],
        room_taken: Option<Room>,
        beside: &Beside<'_>,
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
        room_taken.iter().for_each(|taken| on_node::leave(&mut room, taken));
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
        let (slices, mut allocated, mut excess) = usage::by_gpu(found, &held);
        self.take_off_what_is_not_offered(&slices, &mut allocated);
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
            && owner(&beside.common.policies, &labels)
                .is_some_and(|policy| matches!(policy.layout, LayoutPolicy::DemandDriven { .. }))
        {
            hold = Some(Hold::NotEstablished { why: single_advice(&beside.common.rest) });
        }
        hold = hold.or_else(|| self.ends_beside_mig(&beside.common.policies, &labels));
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

    /// Where a node offers fewer slices of a profile than its label says, so many of them are free for nobody, though no
    /// pod is known that holds them: the scheduler goes by what is offered. (A node that offers nothing at all may be one
    /// whose device plugin restarts.)
    fn take_off_what_is_not_offered(
        &self,
        slices: &BTreeMap<GpuIndex, Slices>,
        allocated: &mut BTreeMap<ProfileName, u32>,
    ) {
        let Self { node, found, .. } = self;
        let advertised = layouts::advertised(node);
        let is_told_by_profile = found.strategy == Strategy::Mixed && self.sharing.is_none() && !self.shares;
        if found.exact || found.doubt.is_none() || advertised.is_empty() || !is_told_by_profile {
            return;
        }
        let mut exist: BTreeMap<ProfileName, u32> = BTreeMap::new();
        for profile in slices.values().flat_map(Slices::profiles) {
            *exist.entry(profile).or_default() += 1;
        }
        for (profile, exist) in exist {
            let offers = advertised.get(&profile.resource_name()).copied().unwrap_or(0);
            let missing = u64::from(exist).saturating_sub(offers);
            if missing == 0 {
                continue;
            }
            let held = allocated.entry(profile).or_default();
            *held = held.saturating_add(u32::try_from(missing).unwrap_or(u32::MAX)).min(exist);
        }
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
        for more in excess {
            let holders = more.holders();
            let usage::Excess { profile, held, exist, by: _ } = more;
            let what = profile.map_or_else(|| "whole GPU(s)".to_owned(), |p| format!("{p} slice(s)"));
            let why = self.twice.first().map(|twice| format!(", since {twice}")).unwrap_or_default();
            let message = format!("its pods hold {held} {what}, but it has only {exist}{why}");
            let severity =
                if found.exact || found.doubt.is_none() { Severity::Error } else { Severity::Warning };
            // While a node changes, allocatable and pods disagree for a moment.
            if hold.is_none() {
                let named = format!("{message}; they are held by {holders}");
                problems.push(Problem::new(severity, format!("Node {name}"), named));
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

fn single_advice(objects: &Objects) -> String {
    format!("its slices are not offered by profile, since {}", strategy_is_not_mixed(objects))
}
