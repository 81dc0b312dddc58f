//! The plan checker: every rule about a plan, stated a second time. It shares only the vocabulary with the
//! planner: legality is derived here from memory units and compute slices, and the driver's behaviour from
//! its best-fit rule, so that a mistake would have to be made twice.
//!
//! A fatal note means a bug in the planner; nothing of the plan may be applied.

mod bounds;
mod certificate;
mod change;
mod grid;
mod judged;
mod note;
mod promises;
mod serves;
mod shares;
mod supply;
mod together;
mod touch;
mod turns;

use std::collections::BTreeSet;

use crate::demand::Request;
use crate::inventory::{Inventory, Node};
use crate::names::GpuIndex;
use crate::plan::{NodeStep, Plan};
use crate::policy::{LayoutPolicy, Policy};
use crate::selector;

pub use certificate::check_certificate;
pub use judged::{CheckedPlan, JudgedPlan};
pub use note::{Note, Problem, Severity};
pub use promises::check_promises;
pub use shares::check_shares;
pub use together::check_together;
pub use turns::check_turns;

/// Says everything that is wrong with a plan; nothing when it may be applied.
/// Notes come in the plan's order, then those about policies as a whole.
#[must_use]
pub fn check(plan: &Plan, inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut seen = BTreeSet::new();
    let mut served = serves::Served::new(requests);
    for step in &plan.steps {
        if !seen.insert(&step.node) {
            notes.push(Problem::NodeTwice.on(&step.node));
        }
        let Some(node) = inventory.nodes.get(&step.node) else {
            notes.push(Problem::UnknownNode.on(&step.node));
            continue;
        };
        let Some(policy) = winner(node, policies).filter(|p| p.name == step.policy) else {
            let owner = winner(node, policies).map(|p| p.name.clone());
            notes.push(Problem::WrongPolicy { named: step.policy.clone(), owner }.on(&step.node));
            continue;
        };
        check_step(step, node, policy, &mut notes);
        served.check(step, node, policy, &mut notes);
    }
    bounds::check(plan, inventory, policies, &mut notes);
    promises::check(plan, inventory, requests, policies, &mut notes);
    shares::check(plan, inventory, requests, policies, &mut notes);
    together::check(plan, inventory, requests, &mut notes);
    notes
}

/// Whether nothing is fatal.
#[must_use]
pub fn is_sound(notes: &[Note]) -> bool {
    notes.iter().all(|note| note.severity != Severity::Fatal)
}

/// The policy that has a node, derived without `assign`.
fn winner<'a>(node: &Node, policies: &'a [Policy]) -> Option<&'a Policy> {
    let mut winner: Option<&Policy> = None;
    for policy in policies {
        if policy.nodes.is_empty() || !selector::matches(&policy.nodes, &node.labels) {
            continue;
        }
        let better = winner.is_none_or(|w| {
            policy.priority > w.priority || policy.priority == w.priority && policy.name < w.name
        });
        if better {
            winner = Some(policy);
        }
    }
    winner
}

fn check_step(step: &NodeStep, node: &Node, policy: &Policy, notes: &mut Vec<Note>) {
    let NodeStep { node: name, policy: _, gpus, enable_mig, evicts: _, serves: _ } = step;
    if gpus.is_empty() {
        notes.push(Problem::EmptyStep.on(name));
    }
    if policy.mode.starts_nothing() {
        notes.push(Problem::PolicyPaused.on(name));
    }
    if let Some(hold) = &node.hold {
        notes.push(Problem::Held { hold: hold.clone() }.on(name));
    }
    if gpus.windows(2).any(|pair| pair[0].gpu >= pair[1].gpu) {
        notes.push(Problem::GpusOutOfOrder.on(name));
    }
    let switches = |index: &GpuIndex| node.gpus.get(index).is_some_and(touch::is_mig_off);
    if *enable_mig != gpus.iter().any(|change| !change.after.is_empty() && switches(&change.gpu)) {
        notes.push(Problem::MigMode { enable_mig: *enable_mig }.on(name));
    }
    if *enable_mig {
        let changed: BTreeSet<GpuIndex> = gpus.iter().map(|change| change.gpu).collect();
        for (index, gpu) in &node.gpus {
            let left_off = touch::is_mig_off(gpu) && !changed.contains(index);
            if left_off && !change::stays_whole(policy, *index, gpu) {
                notes.push(Problem::LeftOff.warn(name, *index));
            }
        }
    }
    for change in gpus {
        let Some(gpu) = node.gpus.get(&change.gpu) else {
            notes.push(Problem::UnknownGpu.at(name, change.gpu));
            continue;
        };
        change::check(name, change, gpu, node.scope, policy, notes);
        if let LayoutPolicy::Static { gpus } = &policy.layout {
            change::check_static(name, change, gpu, gpus, notes);
        }
    }
    touch::check(step, node, policy, notes);
}
