//! What a GPU is in, and what may become of it.

use std::collections::BTreeSet;

use mig::{Counts, Layout, ProfileIndex, ProfileName};

use super::targets::{Aim, Current, Freedom, Goal, Situation, Whole, counts_of};
use crate::inventory::{ChangeScope, Gpu, Node, Slices, Use};
use crate::names::GpuIndex;
use crate::policy::{Drain, LayoutPolicy, Policy, StaticCut, Unrequested, rule_for};

/// What a GPU is in, and what may become of it. `asks_whole`: whether anybody asks for whole GPUs.
pub(super) fn situation(
    geometry: usize,
    node: &Node,
    index: GpuIndex,
    gpu: &Gpu,
    policy: Option<(&Policy, &BTreeSet<ProfileName>)>,
    asks_whole: bool,
) -> Situation {
    let current = current(gpu);
    let bounds = policy.and_then(|(policy, _)| policy.layout.whole_gpus());
    // Nothing of it counts where no GPU is wanted whole.
    let is_whole = match gpu.slices.whole().filter(|_| asks_whole || bounds.is_some()) {
        Some(used) => Whole::Is { free: used.is_idle() },
        None => Whole::No,
    };
    let fixed = |current| Situation {
        geometry,
        current,
        freedom: Freedom::Fixed,
        beside: BTreeSet::new(),
        goal: no_goal(),
        aim: Aim::Any,
        whole: is_whole,
    };
    let Some((policy, menu)) = policy else { return fixed(current) };
    if node.hold.is_some() || gpu.hold.is_some() || policy.mode.starts_nothing() {
        return fixed(current);
    }
    let (goal, evicts) = match &policy.layout {
        LayoutPolicy::DemandDriven { unrequested, .. } => {
            let menu = menu.iter().filter_map(|name| gpu.geometry.profile_named(*name)).collect();
            (
                Goal::Demand { menu, whole: *unrequested == Unrequested::Whole, stays_off: bounds.is_some() },
                false,
            )
        }
        LayoutPolicy::Static { gpus } => {
            let Some(rule) = rule_for(gpus, &gpu.model, index) else { return fixed(current) };
            let goal = match &rule.cut {
                StaticCut::MigOff => Goal::Whole { is_so: gpu.slices.is_mig_off() },
                StaticCut::Slices(slices) => {
                    let Ok(wanted) = counts_of(&gpu.geometry, slices.iter().map(|(name, n)| (name, *n)))
                    else {
                        return fixed(current);
                    };
                    Goal::Static(wanted)
                }
            };
            (goal, policy.drain == Drain::Evict)
        }
    };
    // Where whole GPUs are offered, who has one keeps it: to switch MIG on, nobody is evicted there.
    let drains = policy.drain == Drain::Evict && bounds.is_none();
    let freedom = match goal {
        Goal::Whole { is_so: true } => Freedom::Fixed,
        Goal::Whole { is_so: false } => whole(evicts || node.gpus.values().all(is_idle)),
        Goal::Demand { .. } | Goal::Static(_) => freedom(node, gpu, evicts, drains),
    };
    match freedom {
        Freedom::Fixed => {
            // A static goal stays visible, so that the report can say what is missed.
            let goal = if goal.is_static() { goal } else { no_goal() };
            Situation { goal, ..fixed(current) }
        }
        Freedom::Idle | Freedom::Evict | Freedom::Whole => {
            let beside = match goal {
                Goal::Demand { .. } => beside(node, index, gpu),
                Goal::Static(_) | Goal::Whole { .. } => BTreeSet::new(),
            };
            let may_be = bounds.is_some_and(|bounds| bounds.max != Some(0)) && may_go_off(node, gpu);
            let whole = if may_be { Whole::MayBe } else { is_whole };
            Situation { geometry, current, freedom, beside, goal, aim: Aim::Any, whole }
        }
    }
}

/// The profiles of a node's other GPUs, as this one would call them; none where
/// it is seen which slice a pod holds.
fn beside(node: &Node, index: GpuIndex, gpu: &Gpu) -> BTreeSet<ProfileIndex> {
    let is_placed = |gpu: &Gpu| matches!(gpu.slices, Slices::Placed(_));
    if node.scope == ChangeScope::SliceBySlice || node.gpus.values().any(is_placed) {
        return BTreeSet::new();
    }
    let others = node.gpus.iter().filter(|(other, _)| **other != index);
    // None of them is placed, as was asked above.
    let profiles = others.flat_map(|(_, other)| other.slices.profiles());
    profiles.filter_map(|profile| gpu.geometry.profile_named(profile)).collect()
}

fn no_goal() -> Goal {
    Goal::Demand { menu: BTreeSet::new(), whole: false, stays_off: false }
}

const fn whole(allowed: bool) -> Freedom {
    if allowed { Freedom::Whole } else { Freedom::Fixed }
}

/// How much of a GPU may change whose MIG mode is on, or goes on. (To switch it off, all of the node has to be
/// idle, as to switch it on: MIG manager clears every GPU of the node then.) `evicts`: pods may be evicted for a layout;
/// `drains`: pods may be evicted to switch MIG on.
fn freedom(node: &Node, gpu: &Gpu, evicts: bool, drains: bool) -> Freedom {
    if gpu.slices.is_mig_off() {
        return whole(drains || node.gpus.values().all(is_idle));
    }
    match (node.scope, &gpu.slices) {
        (ChangeScope::SliceBySlice, Slices::Placed(_)) if evicts => Freedom::Evict,
        (ChangeScope::SliceBySlice, Slices::Placed(_)) => Freedom::Idle,
        (ChangeScope::SliceBySlice | ChangeScope::IdleGpus, _) => whole(evicts || is_idle(gpu)),
        (ChangeScope::EmptyNode, _) => whole(evicts || node.gpus.values().all(is_idle)),
    }
}

/// Whether MIG may be switched off on a GPU for who asks: it clears every GPU
/// of the node, so nobody may be on any of them. An agent does not switch MIG,
/// and under strategy `single` no GPU is whole.
fn may_go_off(node: &Node, gpu: &Gpu) -> bool {
    !gpu.slices.is_mig_off()
        && !node.single_strategy
        && node.scope != ChangeScope::SliceBySlice
        && node.gpus.values().all(is_idle)
}

/// Whether a GPU is provably idle.
pub(super) fn is_idle(gpu: &Gpu) -> bool {
    gpu.slices.uses().all(Use::is_idle)
}

/// What a GPU has. Slices that its geometry does not know are left out: who
/// hands the inventory in has refused them (`inventory::validate`).
fn current(gpu: &Gpu) -> Current {
    let geometry = &gpu.geometry;
    match &gpu.slices {
        Slices::MigOff { .. } => Current::Counted { all: Counts::default(), idle: Counts::default() },
        Slices::Placed(slices) => {
            let (mut used, mut idle) = (Layout::EMPTY, Layout::EMPTY);
            for slice in slices {
                let profile = geometry.profile_named(slice.profile);
                let Some(placement) = profile.and_then(|p| geometry.placement(p, slice.start)) else {
                    continue;
                };
                let side = if slice.used.is_idle() { &mut idle } else { &mut used };
                *side = side.with(placement);
            }
            Current::Placed { used, idle }
        }
        Slices::Counted(slices) => {
            let known = || {
                slices.iter().filter_map(|s| geometry.profile_named(s.profile).map(|p| (p, s.used.is_idle())))
            };
            let all: Counts = known().map(|(profile, _): (ProfileIndex, _)| (profile, 1)).collect();
            let idle: Counts = known().filter(|(_, idle)| *idle).map(|(profile, _)| (profile, 1)).collect();
            Current::Counted { all, idle }
        }
    }
}
