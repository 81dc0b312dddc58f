//! One GPU's change: precondition, target, order of creation.

use std::collections::{BTreeMap, BTreeSet};

use mig::{Geometry, ProfileName};

use super::grid;
use super::note::{Note, Problem};
use crate::inventory::{ChangeScope, Gpu, PlacedSlice, Slices};
use crate::names::{GpuIndex, NodeName};
use crate::plan::GpuChange;
use crate::policy::{LayoutPolicy, Policy, StaticCut, StaticRule};

pub(super) fn check(
    node: &NodeName,
    change: &GpuChange,
    gpu: &Gpu,
    scope: ChangeScope,
    policy: &Policy,
    notes: &mut Vec<Note>,
) {
    let GpuChange { gpu: index, model, before, after, creation_order } = change;
    let mut say = |problem: Problem| notes.push(problem.at(node, *index));
    if let Some(hold) = &gpu.hold {
        say(Problem::Held { hold: hold.clone() });
    }
    if *model != gpu.model {
        say(Problem::WrongModel { named: model.clone(), model: gpu.model.clone() });
    }
    if !same(before, &gpu.slices) {
        say(Problem::WrongBefore);
    }
    if after.is_empty() && !stays_whole(policy, *index, gpu) {
        say(Problem::NoSlice);
    }
    // A static layout is not asked: who hands in its nodes says that MIG manager changes them.
    let on_demand = matches!(policy.layout, LayoutPolicy::DemandDriven { .. });
    if after.is_empty() && on_demand && scope == ChangeScope::SliceBySlice {
        say(Problem::AgentSwitches);
    }
    if after.windows(2).any(|pair| (pair[0].1, pair[0].0) >= (pair[1].1, pair[1].0)) {
        say(Problem::SlicesOutOfOrder);
    }
    if let Some(problem) = grid::obstacle(&gpu.geometry, after) {
        say(problem);
        return;
    }
    let target: BTreeSet<(ProfileName, u8)> = after.iter().copied().collect();
    if is_same_layout(&gpu.slices, &target, scope) {
        say(Problem::NoChange);
    }
    // Only a change slice by slice keeps anything; every other clears the GPU.
    let kept = match (&gpu.slices, scope) {
        (Slices::Placed(slices), ChangeScope::SliceBySlice) => {
            slices.iter().map(|s| (s.profile, s.start)).filter(|s| target.contains(s)).collect()
        }
        _ => BTreeSet::new(),
    };
    match creation_order {
        Some(order) => {
            if let Some(problem) = follow(&gpu.geometry, &kept, &target, order) {
                say(problem);
            }
        }
        None => {
            if let Some(order) = grid::order(&gpu.geometry, &kept, &target) {
                notes.push(Problem::OrderExists { order }.warn(node, *index));
            }
        }
    }
}

/// Whether the policy says of a GPU that it is not cut, or lets requests decide it.
pub(super) fn stays_whole(policy: &Policy, index: GpuIndex, gpu: &Gpu) -> bool {
    match &policy.layout {
        LayoutPolicy::DemandDriven { whole_gpus, .. } => whole_gpus.is_some(),
        LayoutPolicy::Static { gpus } => {
            first_rule(gpus, index, gpu).is_some_and(|rule| rule.cut == StaticCut::MigOff)
        }
    }
}

fn first_rule<'p>(rules: &'p [StaticRule], index: GpuIndex, gpu: &Gpu) -> Option<&'p StaticRule> {
    rules.iter().find(|StaticRule { model, indices, cut: _ }| {
        model.as_ref().is_none_or(|m| *m == gpu.model) && indices.as_ref().is_none_or(|i| i.contains(&index))
    })
}

/// Whether two descriptions say the same, in whatever order.
fn same(a: &Slices, b: &Slices) -> bool {
    let sorted = |slices: &Slices| {
        let mut slices = slices.clone();
        match &mut slices {
            Slices::Placed(slices) => slices.sort(),
            Slices::Counted(slices) => slices.sort(),
            Slices::MigOff { .. } => {}
        }
        slices
    };
    a == b || sorted(a) == sorted(b)
}

/// Whether the GPU has this already. An actuator that cannot place sees no
/// difference between two placements of the same slices.
fn is_same_layout(now: &Slices, target: &BTreeSet<(ProfileName, u8)>, scope: ChangeScope) -> bool {
    let count = |profiles: &mut dyn Iterator<Item = ProfileName>| {
        let mut profiles: Vec<_> = profiles.collect();
        profiles.sort();
        profiles
    };
    let wanted = count(&mut target.iter().map(|(profile, _)| *profile));
    match now {
        Slices::MigOff { .. } => target.is_empty(),
        // Without a slice, MIG is on all the same.
        Slices::Placed(_) | Slices::Counted(_) if target.is_empty() => false,
        Slices::Placed(slices) if scope == ChangeScope::SliceBySlice => {
            slices.len() == target.len()
                && slices
                    .iter()
                    .all(|PlacedSlice { profile, start, used: _ }| target.contains(&(*profile, *start)))
        }
        Slices::Placed(_) | Slices::Counted(_) => count(&mut now.profiles()) == wanted,
    }
}

fn follow(
    geometry: &Geometry,
    kept: &BTreeSet<(ProfileName, u8)>,
    target: &BTreeSet<(ProfileName, u8)>,
    order: &[ProfileName],
) -> Option<Problem> {
    let mut wanted: Vec<ProfileName> = target.difference(kept).map(|(profile, _)| *profile).collect();
    let mut ordered = order.to_vec();
    wanted.sort();
    ordered.sort();
    if wanted != ordered {
        return Some(Problem::WrongCreations);
    }
    let mut slices = kept.clone();
    for profile in order {
        let Some(start) = grid::best_fit(geometry, &slices, *profile) else {
            return Some(Problem::OrderFails { profile: *profile });
        };
        slices.insert((*profile, start));
    }
    (slices != *target).then(|| Problem::OrderLeadsElsewhere { to: slices.into_iter().collect() })
}

/// A static layout is met exactly, by the first rule that matches.
pub(super) fn check_static(
    node: &NodeName,
    change: &GpuChange,
    gpu: &Gpu,
    rules: &[StaticRule],
    notes: &mut Vec<Note>,
) {
    let rule = first_rule(rules, change.gpu, gpu);
    let mut has: BTreeMap<ProfileName, u8> = BTreeMap::new();
    for (profile, _) in &change.after {
        *has.entry(*profile).or_default() += 1;
    }
    // A GPU for which nothing is said gets one full-size slice.
    let whole =
        |(profile, count): (&ProfileName, &u8)| *count == 1 && profile.compute == gpu.geometry.compute();
    let met = match rule.map(|rule| &rule.cut) {
        None => false,
        Some(StaticCut::MigOff) => has.is_empty(),
        Some(StaticCut::Slices(slices)) => {
            let mut wanted = slices.clone();
            wanted.retain(|_, count| *count > 0);
            if wanted.is_empty() { has.len() == 1 && has.iter().all(whole) } else { has == wanted }
        }
    };
    if !met {
        notes.push(Problem::NotTheStaticLayout.at(node, change.gpu));
    }
}
