//! Publish: what is remembered of nodes, the conditions of policies, and the
//! sentences for people. Only what changed is written.

use std::collections::BTreeMap;

use api::gpu_node::{
    GpuNodeSpec, NodeRollout, Observed, ObservedBy, ObservedGpu, ObservedSlice, PodName, SliceUse,
};
use api::{GpuNode, GpuPartitionPolicyStatus, condition};
use planner::names::NodeName;
use planner::report::{Outcome, RequestReport};
use rollout::{Outlook, Phase, Progress, Settings};

use crate::entry::Who;
use crate::publish::{About, answer, conditions};
use crate::think::{PROGRESS, Thought, progress};
use crate::world::World;

/// Writes what the hardware of every node has into its `GpuNode`: models and
/// indices where the GPU Operator's labels are all that is known, everything
/// where an agent looks at it.
pub(crate) fn remember_hardware(world: &mut World) {
    let World { hosts, gpu_nodes, revision, now, .. } = world;
    for (name, host) in hosts.iter() {
        let gpus: Vec<ObservedGpu> = host
            .node
            .truth()
            .iter()
            .map(|gpu| ObservedGpu {
                index: i32::from(gpu.index),
                model: gpu.model.clone(),
                uuid: None,
                mig_enabled: host.agent && gpu.mig,
                held_by: gpu.holder.iter().filter(|_| host.agent).map(|h| pod_name(h)).collect(),
                unhealthy: (host.agent && gpu.lost).then(|| "it does not answer".to_owned()),
                slices: gpu.slices.iter().filter(|_| host.agent).map(observed_slice).collect(),
            })
            .collect();
        let by = if host.agent { ObservedBy::Agent } else { ObservedBy::Controller };
        let boot_id = Some(host.node.boot_id());
        if gpu_nodes.get(name).is_none() {
            gpu_nodes.put(GpuNode::new(name, GpuNodeSpec::default()), *now, revision);
        }
        gpu_nodes.edit(name, revision, |node| {
            let status = node.status.get_or_insert_default();
            let seen = status.observed.as_ref();
            if !seen.is_some_and(|old| old.gpus == gpus && old.by == by && old.boot_id == boot_id) {
                status.observed = Some(Observed { by, at: *now, boot_id, gpus });
            }
        });
    }
}

fn pod_name(holder: &str) -> PodName {
    let (namespace, name) = holder.split_once('/').unwrap_or(("", holder));
    PodName { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn observed_slice(slice: &operands::SliceTruth) -> ObservedSlice {
    ObservedSlice {
        profile: slice.profile.to_string(),
        start: Some(i32::from(slice.start)),
        used: if slice.holder.is_some() { SliceUse::InUse } else { SliceUse::Idle },
        by: slice.holder.iter().map(|h| pod_name(h)).collect(),
    }
}

/// Stores the progress of a node's rollout.
pub(crate) fn store(world: &mut World, name: &str, next: &Progress) {
    let text = serde_json::to_string(next).expect("plain data can be written");
    let World { gpu_nodes, revision, .. } = world;
    gpu_nodes.edit(name, revision, |node| {
        node.metadata.annotations.get_or_insert_default().insert(PROGRESS.to_owned(), text);
        let status = node.status.get_or_insert_default();
        let before = status.rollout.clone().unwrap_or_default();
        let why = next.failed.as_ref().map(ToString::to_string);
        status.rollout = Some(NodeRollout {
            phase: format!("{:?}", next.phase),
            since: next.since,
            attempt: next.target.as_ref().map_or(0, |t| i32::try_from(t.attempt).unwrap_or(i32::MAX)),
            last_error: why.or_else(|| next.last_error.as_ref().map(ToString::to_string)),
            applied: next.applied.clone(),
            verified_label: next.verified.as_ref().map(|v| v.label.clone()),
            verified_at: next.verified.as_ref().map(|v| v.at),
            cooldown_until: next.cooldown_until,
            ..before
        });
    });
}

/// Conditions of policies and sentences for people.
pub(crate) fn publish(world: &mut World, thought: &Thought, outlooks: &BTreeMap<NodeName, Outlook>) {
    remember_supply(world, thought);
    for policy in &thought.policies {
        let mine = |node: &NodeName| thought.policy_of.get(node) == Some(&policy.name);
        let title = format!("GpuPartitionPolicy {}", policy.name);
        let about = About {
            policy,
            report: thought.report.policies.iter().find(|r| r.policy == policy.name),
            requests: thought
                .report
                .requests
                .iter()
                .filter(|r| r.policy.as_ref() == Some(&policy.name))
                .collect(),
            errors: thought
                .problems
                .iter()
                .filter(|p| p.object == title && p.severity == observe::Severity::Error)
                .map(|p| {
                    if p.field.is_empty() { p.message.clone() } else { format!("{}: {}", p.field, p.message) }
                })
                .collect(),
            outlooks: outlooks.iter().filter(|(node, o)| mine(node) && **o != Outlook::Idle).collect(),
            left_alone: thought
                .inventory
                .nodes
                .iter()
                .filter(|(name, _)| mine(name))
                .filter_map(|(name, node)| match &node.hold {
                    Some(hold @ planner::inventory::Hold::NotEstablished { .. }) => {
                        Some(format!("{name}: {hold}"))
                    }
                    _ => None,
                })
                .collect(),
        };
        write_conditions(world, &policy.name.0, conditions(&about));
    }
    for request in &thought.report.requests {
        let told = tell_request(world, request, outlooks);
        let who = format!("{}/{}", request.id.namespace, request.id.name);
        // An estimate alone is no news.
        let gist = told.split(", at about ").next().unwrap_or_default().to_owned();
        world.tell(&who, &gist, &told);
    }
    for problem in &thought.problems {
        if let Some(name) = problem.object.strip_prefix("HardwareProfile ") {
            let name = name.to_owned();
            world.tell(&name, &problem.message, &problem.message);
        }
    }
}

/// Since when a free slice of each profile is there: what still waits two
/// minutes later waits for something else.
fn remember_supply(world: &mut World, thought: &Thought) {
    let World { gpu_nodes, revision, now, .. } = world;
    for (name, node) in &thought.inventory.nodes {
        let mut free: BTreeMap<String, u32> = BTreeMap::new();
        for gpu in node.gpus.values() {
            let profiles: Vec<_> = match &gpu.slices {
                planner::inventory::Slices::Placed(all) => {
                    all.iter().filter(|s| s.used.is_idle()).map(|s| s.profile).collect()
                }
                planner::inventory::Slices::Counted(all) => {
                    all.iter().filter(|s| s.used.is_idle()).map(|s| s.profile).collect()
                }
                planner::inventory::Slices::MigOff { .. } => Vec::new(),
            };
            for profile in profiles {
                *free.entry(profile.to_string()).or_insert(0) += 1;
            }
        }
        let changing = matches!(node.hold, Some(planner::inventory::Hold::Changing));
        if !node.schedulable || changing {
            free.clear();
        }
        gpu_nodes.edit(&name.0, revision, |stored| {
            let rollout = stored.status.get_or_insert_default().rollout.get_or_insert_default();
            rollout.schedulable_since.retain(|profile, _| free.contains_key(profile));
            for profile in free.keys() {
                rollout.schedulable_since.entry(profile.clone()).or_insert(*now);
            }
        });
    }
}

fn write_conditions(world: &mut World, policy: &str, wanted: Vec<condition::Wanted>) {
    let now = world.now;
    let World { policies, revision, .. } = world;
    let Some(before) = policies.get(policy).map(lines_of) else { return };
    policies.edit(policy, revision, |policy| {
        let generation = policy.metadata.generation.unwrap_or(1);
        let status = policy.status.get_or_insert_with(GpuPartitionPolicyStatus::default);
        for one in wanted {
            condition::set(&mut status.conditions, one, generation, now);
        }
    });
    // The message of a condition moves with every step; news is another
    // status or reason.
    let after = world.policies.get(policy).map(lines_of).unwrap_or_default();
    for (what, line) in after.iter().filter(|(what, _)| !before.iter().any(|(b, _)| b == what)) {
        world.tell(policy, what, line);
    }
}

/// The conditions that people look at: `Ready=False (Waiting)`, and the same
/// with its message.
fn lines_of(policy: &api::GpuPartitionPolicy) -> Vec<(String, String)> {
    let conditions = policy.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let shown = conditions.iter().filter(|c| {
        c.type_ != condition::kind::RECONCILING
            && !(c.type_ == condition::kind::PLANNED && c.status == "True")
    });
    let line = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        let what = format!("{}={} ({})", c.type_, c.status, c.reason);
        (what.clone(), format!("{what}: {}", c.message))
    };
    shown.map(line).collect()
}

fn tell_request(world: &World, request: &RequestReport, outlooks: &BTreeMap<NodeName, Outlook>) -> String {
    let node = match &request.outcome {
        Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } => Some(node),
        Outcome::Unserved { .. } => None,
    };
    let estimate = node.and_then(|node| {
        let progress = progress(world, &node.0);
        let began = progress.target.as_ref().map(|_| progress.since.unwrap_or(world.now));
        let settings = Settings::default();
        let began = match progress.phase {
            Phase::Idle => world.now,
            _ => progress.target.as_ref().and_then(|t| t.mapped_at).or(began)?,
        };
        let change =
            settings.map_settle + rollout::fleet::PARK + rollout::fleet::OFFER + rollout::fleet::LABELS;
        Some((began + change).strftime("%H:%M").to_string())
    });
    let on_its_way = node.is_some_and(|node| !crate::think::can_return(progress(world, &node.0).phase));
    match (&request.outcome, node) {
        // Its node is past the point of return: for the planner the slice is there.
        (Outcome::ServedNow { node, gpus }, Some(_)) if on_its_way => {
            let by_plan = RequestReport {
                outcome: Outcome::ServedByPlan { node: node.clone(), gpus: gpus.clone() },
                ..request.clone()
            };
            answer(&by_plan, outlooks.get(node), None)
        }
        _ => answer(request, node.and_then(|n| outlooks.get(n)), estimate),
    }
}

impl World {
    /// Tells somebody something, once: what has the gist of what was said
    /// last is not said again.
    pub(crate) fn tell(&mut self, who: &str, gist: &str, text: &str) {
        if text.is_empty() || self.gists.get(who).is_some_and(|last| last == gist) {
            return;
        }
        self.gists.insert(who.to_owned(), gist.to_owned());
        self.told.push((who.to_owned(), text.to_owned()));
        self.say(Who::Tells(who.to_owned()), text);
    }
}
