//! The bounds of demand-driven policies, over all of their nodes.

use std::collections::BTreeMap;

use super::note::{Note, Problem};
use super::supply::{count, uses_of};
use super::winner;
use crate::inventory::Inventory;
use crate::names::{GpuIndex, NodeName};
use crate::offered::Offered;
use crate::plan::{GpuChange, Plan};
use crate::policy::{LayoutPolicy, Policy};

pub(super) fn check(plan: &Plan, inventory: &Inventory, policies: &[Policy], notes: &mut Vec<Note>) {
    let changes: BTreeMap<(&NodeName, GpuIndex), &GpuChange> = plan
        .steps
        .iter()
        .flat_map(|step| step.gpus.iter().map(move |change| ((&step.node, change.gpu), change)))
        .collect();
    let (mut missing_before, mut missing_after) = (0, 0);
    let mut broken = Vec::new();
    for policy in policies {
        let LayoutPolicy::DemandDriven { slices, whole_gpus, .. } = &policy.layout else { continue };
        let nodes: Vec<_> = inventory
            .nodes
            .iter()
            .filter(|(_, node)| winner(node, policies).is_some_and(|w| w.name == policy.name))
            .collect();
        let slices = slices.iter().map(|(profile, bounds)| (Offered::Slice(*profile), bounds));
        for (profile, bounds) in slices.chain(whole_gpus.iter().map(|bounds| (Offered::WholeGpu, bounds))) {
            let (mut before, mut after) = (0_u32, 0_u32);
            for (name, node) in &nodes {
                for (index, gpu) in &node.gpus {
                    let now = u32::try_from(uses_of(gpu, profile).len()).unwrap_or(u32::MAX);
                    before += now;
                    after += changes.get(&(*name, *index)).map_or(now, |change| count(change, profile));
                }
            }
            let policy = policy.name.clone();
            if let Some(max) = bounds.max
                && after > max
                && after > before
            {
                let policy = policy.clone();
                notes.push(Problem::AboveMax { policy, profile, max, after }.everywhere());
            }
            missing_before += bounds.min.saturating_sub(before);
            missing_after += bounds.min.saturating_sub(after);
            if before >= bounds.min && after < bounds.min {
                broken.push(Problem::BreaksMin { policy, profile, min: bounds.min, after });
            }
        }
    }
    // One floor may be broken to mend another; all together may not get worse.
    if missing_after > missing_before {
        notes.extend(broken.into_iter().map(Problem::everywhere));
        let (before, after) = (missing_before, missing_after);
        notes.push(Problem::FloorsWorse { before, after }.everywhere());
    } else {
        notes.extend(broken.into_iter().map(Problem::warn_everywhere));
    }
}
