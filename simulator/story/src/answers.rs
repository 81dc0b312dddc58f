//! The output of `plan` and `explain`: the report, as text for people.

use std::collections::BTreeMap;

use planner::inventory::{Gpu, Inventory, Node, Slices, Use};
use planner::names::{NodeName, PolicyName};
use planner::plan::{GpuChange, NodeStep, Plan};
use planner::report::{Outcome, PolicyReport, Report, RequestReport};
use planner::words::counted;
use reconcile::answers::{is_unserved, plural};

use crate::asked::in_words;
use planner::demand::Request;

/// What the plan does and does not do. `waits` says for nodes of the plan why
/// they do not start now.
pub(crate) fn plan(plan: &Plan, report: &Report, waits: &BTreeMap<NodeName, String>) -> Vec<String> {
    let unserved: Vec<&RequestReport> = report.requests.iter().filter(|r| is_unserved(r)).collect();
    let mut lines = vec![match plan.steps.len() {
        0 => "  Plan: no changes.".to_owned(),
        n => format!("  Plan: {} to change.", plural(n, "node")),
    }];
    for step in &plan.steps {
        lines.extend(step_lines(step, waits.get(&step.node)));
    }
    for request in unserved {
        lines.push(format!("  {}: {}", request.id, request.outcome));
    }
    for policy in &report.policies {
        lines.extend(unmet_lines(policy));
    }
    lines
}

fn step_lines(step: &NodeStep, waits: Option<&String>) -> Vec<String> {
    let NodeStep { node, policy, gpus, enable_mig, evicts, serves } = step;
    let mut lines = vec![format!("  {node} (policy {policy})")];
    if *enable_mig {
        lines.push("    MIG is switched on first: once, on every GPU of the node that knows it".to_owned());
    }
    if gpus.iter().any(GpuChange::switches_mig_off) {
        lines.push("    MIG is switched off on a GPU, which clears every GPU of the node".to_owned());
    }
    lines.extend(gpus.iter().map(|change| format!("    {change}")));
    if !serves.is_empty() {
        let serves: Vec<String> = serves.iter().map(ToString::to_string).collect();
        lines.push(format!("    for {}", serves.join(", ")));
    }
    if !evicts.is_empty() {
        let evicts: Vec<String> = evicts.iter().map(ToString::to_string).collect();
        lines.push(format!("    evicts {}", evicts.join(", ")));
    }
    lines.extend(waits.map(|why| format!("    now it {why}")));
    lines
}

fn unmet_lines(policy: &PolicyReport) -> Vec<String> {
    let name = &policy.policy;
    let unmet = policy.unmet.iter().map(|bound| {
        format!(
            "  policy {name}: {} wants {}, and {} can be reached",
            bound.field, bound.wanted, bound.reached
        )
    });
    let unknown = policy.unknown_profiles.iter().map(|unknown| {
        let who = if unknown.everywhere {
            "no model of its nodes has it"
        } else {
            "not every model of its nodes has it"
        };
        format!("  policy {name}: profile {}: {who} (not {})", unknown.profile, unknown.lacking.join(", "))
    });
    unmet.chain(unknown).collect()
}

/// What a request asks for: slices, whole GPUs, and seats of those that several pods share.
fn asks_for(request: &Request) -> String {
    let seats = request.shared.iter().map(|(offered, n)| format!("{n} x {}", offered.resource_name()));
    let mut parts: Vec<String> = seats.collect();
    if parts.is_empty() || !request.slices.is_empty() || request.whole_gpus > 0 {
        parts.insert(0, in_words(&request.slices, request.whole_gpus));
    }
    parts.join(", ")
}

/// Why one request is as it is. `bound` is the node of a pod that runs already.
pub(crate) fn request(
    name: &str,
    request: Option<&Request>,
    answer: Option<&RequestReport>,
    bound: Option<&str>,
) -> Vec<String> {
    if let Some(answer) = answer {
        let asks = request.map(asks_for).unwrap_or_default();
        let mut lines = vec![format!("  {} asks for {asks}.", answer.id)];
        if let Some(policy) = &answer.policy {
            lines.push(format!("  Policy {policy} answers it."));
        }
        lines.extend(answer.broken.as_ref().map(|broken| format!("  {broken}.")));
        match &answer.outcome {
            Outcome::Unserved { why, help } => {
                lines.push(format!("  It is not served: {why}."));
                lines.extend(help.iter().map(|help| format!("  What would help: {help}.")));
            }
            served => lines.push(format!("  It is {served}.")),
        }
        return lines;
    }
    vec![match bound {
        Some(node) => format!("  {name} has its slices: its pod is on {node}."),
        None => format!("  {name} asks for nothing now."),
    }]
}

/// What is known of a node, and what may change on it.
pub(crate) fn node(
    name: &str,
    node: Option<&Node>,
    policy: Option<&PolicyName>,
    outlook: Option<&str>,
    sharing: Option<&str>,
) -> Vec<String> {
    let Some(node) = node else {
        return vec![format!("  {name} has no GPU with MIG, so nothing is planned for it.")];
    };
    let mut lines = vec![match policy {
        Some(policy) => format!("  {name} belongs to policy {policy}."),
        None => format!("  No policy selects {name}."),
    }];
    let is_cut = !node.gpus.is_empty();
    lines.extend(sharing.map(|sharing| match is_cut {
        true => format!("  How it is shared: {sharing}."),
        false => format!("  Its GPUs are not cut; {sharing}."),
    }));
    if is_cut || sharing.is_none() {
        lines.push(format!("  What may change on it: {}.", scope(node)));
    }
    if let Some(hold) = &node.hold {
        lines.push(format!("  It is not changed: {hold}."));
    }
    if !node.schedulable {
        lines.push("  Pods cannot bind to it now.".to_owned());
    }
    lines.extend(outlook.map(|o| format!("  Rollout: {o}.")));
    for (index, gpu) in &node.gpus {
        lines.push(format!("  gpu{index} {}: {}", gpu.model, gpu_line(gpu)));
    }
    lines
}

const fn scope(node: &Node) -> &'static str {
    match node.scope {
        planner::inventory::ChangeScope::SliceBySlice => {
            "single slices, beside others that are in use (an agent)"
        }
        planner::inventory::ChangeScope::IdleGpus => {
            "whole GPUs, when every slice of theirs is provably idle (the GPU Operator)"
        }
        planner::inventory::ChangeScope::EmptyNode => {
            "everything, when every slice of the node is provably idle"
        }
    }
}

fn gpu_line(gpu: &Gpu) -> String {
    let held = |uses: Vec<(String, &Use)>| {
        let held: Vec<String> = uses
            .into_iter()
            .filter(|(_, used)| !used.is_idle())
            .map(|(name, used)| format!("{name} {used}"))
            .collect();
        if held.is_empty() { "all idle".to_owned() } else { held.join("; ") }
    };
    let text = match &gpu.slices {
        Slices::Placed(slices) if slices.is_empty() => "no slice, placements known".to_owned(),
        Slices::Placed(slices) => format!(
            "{}, placements known; {}",
            gpu.slices,
            held(slices.iter().map(|s| (format!("{}@{}", s.profile, s.start), &s.used)).collect())
        ),
        Slices::Counted(slices) => format!(
            "{}, counted; {}",
            gpu.slices,
            held(slices.iter().map(|s| (s.profile.to_string(), &s.used)).collect())
        ),
        Slices::MigOff { used } => format!("MIG is off; {}", held(vec![("the GPU".to_owned(), used)])),
    };
    gpu.hold.as_ref().map_or_else(|| text.clone(), |hold| format!("{text}; not changed: {hold}"))
}

/// What a policy has and wants.
pub(crate) fn policy(report: &PolicyReport, inventory: &Inventory) -> Vec<String> {
    let name = &report.policy;
    let models = counted(
        report
            .nodes
            .iter()
            .filter_map(|n| inventory.nodes.get(n))
            .flat_map(|n| n.gpus.values())
            .map(|g| &g.model),
    );
    let nodes: Vec<String> = report.nodes.iter().map(ToString::to_string).collect();
    let nodes = if nodes.is_empty() { "no node".to_owned() } else { nodes.join(", ") };
    let mut lines = vec![format!("  Policy {name} has {nodes} ({models}).")];
    for (node, winner) in &report.lost {
        lines.push(format!("  It selects {node}, too, which belongs to policy {winner}."));
    }
    if report.offers().next().is_some() {
        lines.push(format!(
            "  {:<12} {:>10} {:>7} {:>9} {:>7} {:>9} {:>8}",
            "profile", "attainable", "present", "allocated", "planned", "requested", "unserved"
        ));
    }
    for (what, s) in report.offers() {
        lines.push(format!(
            "  {what:<12} {:>10} {:>7} {:>9} {:>7} {:>9} {:>8}",
            s.attainable, s.present, s.allocated, s.planned, s.requested, s.unserved
        ));
    }
    lines.extend(unmet_lines(report));
    lines
}
