//! Checks the certificate of a plan: values that can be counted are counted again, and no bound is better
//! than possible.

use std::collections::BTreeSet;

use super::note::{Note, Problem};
use crate::inventory::Inventory;
use crate::plan::Plan;
use crate::report::LevelCertificate;

/// Says everything that is wrong with a plan's certificate.
#[must_use]
pub fn check_certificate(plan: &Plan, inventory: &Inventory, certificate: &[LevelCertificate]) -> Vec<Note> {
    let mut notes = Vec::new();
    let nodes: BTreeSet<_> = plan.steps.iter().map(|step| &step.node).collect();
    let gpus: usize = plan.steps.iter().map(|step| step.gpus.len()).sum();
    let most = inventory.nodes.values().map(|node| node.gpus.len()).max().unwrap_or(0).max(1);
    for LevelCertificate { level, value, bound } in certificate {
        let mut say = |problem: Problem| notes.push(problem.everywhere());
        if bound > value {
            say(Problem::BelowBound { level: level.clone(), value: *value, bound: *bound });
        }
        let counted = match level.as_str() {
            "GPUs changed" => gpus,
            "nodes touched" => nodes.len(),
            _ => continue,
        };
        if usize::try_from(*value) != Ok(counted) {
            say(Problem::Miscounted { level: level.clone(), value: *value, counted });
        }
        // So many GPUs are on no fewer nodes than this, whoever counts.
        let fewest = i64::try_from(gpus.div_ceil(most)).unwrap_or(i64::MAX);
        if level == "nodes touched" && *bound < fewest {
            say(Problem::LooseBound { level: level.clone(), bound: *bound, fewest });
        }
    }
    notes
}
