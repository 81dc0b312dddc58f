//! What is free of GPUs, in units of memory and compute, whatever it is cut into.

use std::collections::BTreeMap;

use mig::{Layout, ProfileName};

use super::allocate::Allocation;
use super::group::Group;
use super::situation::is_idle;
use crate::inventory::{Gpu, Node, Slices};
use crate::names::{GpuId, NodeName};

/// Memory and compute of a GPU, or of several.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    memory: u32,
    compute: u32,
}

impl Units {
    fn of(gpu: &Gpu) -> Self {
        Self { memory: u32::from(gpu.geometry.memory()), compute: u32::from(gpu.geometry.compute()) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            compute: self.compute.saturating_add(other.compute),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            compute: self.compute.saturating_sub(other.compute),
        }
    }

    const fn holds(self, needs: Self) -> bool {
        needs.memory <= self.memory && needs.compute <= self.compute
    }
}

/// Whether what is neither in use nor planned for anybody, on GPUs that may change, would be enough for one of a group if
/// it were in one piece.
pub(super) fn are_enough(
    allocation: &Allocation<'_>,
    group: &Group<'_>,
    nodes: &[(&NodeName, &Node)],
) -> bool {
    // Of seats it is not looked at.
    if !group.shared.is_empty() {
        return false;
    }
    let mut planned: BTreeMap<&GpuId, Vec<Option<ProfileName>>> = BTreeMap::new();
    for served in allocation.served.values() {
        for (gpu, _, offered) in &served.slices {
            planned.entry(gpu).or_default().push(offered.profile());
        }
    }
    let (mut free, mut least) = (Units::default(), None);
    for (name, node) in nodes {
        if node.hold.is_some() {
            continue;
        }
        let Some(needs) = needs(node, group) else { continue };
        least = Some(least.map_or(needs, |least: Units| Units {
            memory: least.memory.min(needs.memory),
            compute: least.compute.min(needs.compute),
        }));
        for (index, gpu) in node.gpus.iter().filter(|(_, gpu)| gpu.hold.is_none() && has_any(gpu, group)) {
            let id = GpuId { node: (*name).clone(), gpu: *index };
            let given = planned.get(&id).into_iter().flatten().map(|profile| match profile {
                Some(profile) => of_profile(gpu, *profile).unwrap_or_default(),
                None => Units::of(gpu),
            });
            free = free.plus(given.fold(not_in_use(gpu), Units::minus));
        }
    }
    least.is_some_and(|needs| free.holds(needs))
}

/// Whether a node could have all that one of a group asks for at the same time, by what its GPUs have in all.
pub(super) fn may_have(node: &Node, group: &Group<'_>) -> bool {
    let all = node.gpus.values().filter(|gpu| has_any(gpu, group));
    needs(node, group)
        .is_some_and(|needs| all.map(Units::of).fold(Units::default(), Units::plus).holds(needs))
}

/// What one of a group needs of a node; nothing if it does not have one of the profiles.
fn needs(node: &Node, group: &Group<'_>) -> Option<Units> {
    let each = |(profile, n): (&ProfileName, &u32)| {
        let one = node.gpus.values().find_map(|gpu| of_profile(gpu, *profile))?;
        Some(Units { memory: one.memory.saturating_mul(*n), compute: one.compute.saturating_mul(*n) })
    };
    group.slices.iter().map(each).try_fold(Units::default(), |sum, one| Some(sum.plus(one?)))
}

fn has_any(gpu: &Gpu, group: &Group<'_>) -> bool {
    group.slices.keys().any(|profile| gpu.geometry.profile_named(*profile).is_some())
}

fn of_profile(gpu: &Gpu, profile: ProfileName) -> Option<Units> {
    let spec = gpu.geometry.profile(gpu.geometry.profile_named(profile)?);
    Some(Units { memory: u32::from(spec.size), compute: u32::from(spec.compute) })
}

/// What nobody has of a GPU, as far as that is known.
fn not_in_use(gpu: &Gpu) -> Units {
    let Slices::Placed(slices) = &gpu.slices else {
        return if is_idle(gpu) { Units::of(gpu) } else { Units::default() };
    };
    let used: Layout = slices
        .iter()
        .filter(|s| !s.used.is_idle())
        .filter_map(|s| gpu.geometry.placement(gpu.geometry.profile_named(s.profile)?, s.start))
        .collect();
    let memory = used.iter().map(|p| gpu.geometry.units(p).count_ones()).sum();
    Units::of(gpu).minus(Units { memory, compute: gpu.geometry.compute_of(used) })
}
