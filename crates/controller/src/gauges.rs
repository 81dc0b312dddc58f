//! The gauges, from what a round found.

use std::collections::BTreeMap;
use std::time::Duration;

use observe::Objects;
use planner::inventory::{Node, Slices, Use};
use planner::report::Outcome;
use reconcile::Round;
use rollout::{Phase, Progress};

use crate::metrics::{Metrics, PolicyGauges};

/// Sets every gauge to what the round found, and counts changes that ended.
pub fn set(metrics: &Metrics, objects: &Objects, round: &Round) {
    cached(metrics, objects);
    metrics.slices(slices(round));
    let mut pending: BTreeMap<String, i64> = BTreeMap::new();
    for request in &round.thought.requests {
        for (profile, n) in &request.slices {
            *pending.entry(profile.to_string()).or_default() += i64::from(*n);
        }
    }
    metrics.pending(pending);
    metrics.policies(policies(objects, round));
    let gpus = round.thought.plan.steps.iter().map(|step| step.gpus.len()).sum();
    metrics.plan(round.thought.plan.steps.len(), gpus);
    for node in round.nodes.values() {
        let (before, next) = (&node.before, &node.advance.progress);
        if before.phase == next.phase {
            continue;
        }
        let rolled_back = next.set_back.as_ref().is_some_and(|back| back.rolled_back);
        let result = match (before.phase, next.phase) {
            (Phase::Releasing, Phase::Idle) if rolled_back => "rolled_back",
            (Phase::Releasing, Phase::Idle) => "verified",
            (Phase::Retreating, Phase::Idle) => "taken_back",
            (_, Phase::Failed) => "failed",
            _ => continue,
        };
        let cordoned = before.target.as_ref().and_then(|target| target.cordoned_at);
        let away = cordoned.zip(next.verified.as_ref().map(|v| v.at)).filter(|_| result == "verified");
        let away = away.and_then(|(from, to)| Duration::try_from(from.duration_until(to)).ok());
        metrics.repartitioned(result, reason(next), away);
    }
}

fn cached(metrics: &Metrics, objects: &Objects) {
    for (kind, n) in [
        ("nodes", objects.nodes.len()),
        ("pods", objects.pods.len()),
        ("gpunodes", objects.gpu_nodes.len()),
        ("gpupartitionpolicies", objects.policies.len()),
        ("notebooks", objects.notebooks.len()),
        ("hardwareprofiles", objects.hardware_profiles.len()),
        ("namespaces", objects.namespaces.len()),
    ] {
        metrics.cached(kind, n);
    }
}

fn slices(round: &Round) -> impl Iterator<Item = (String, String, &'static str, i64)> {
    let mut all: BTreeMap<(String, String, &'static str), i64> = BTreeMap::new();
    for (name, node) in &round.thought.inventory.nodes {
        for gpu in node.gpus.values() {
            let mut count = |profile: String, used: &Use| {
                let state = match used {
                    Use::Idle => "free",
                    Use::InUse { .. } => "in_use",
                    Use::MaybeInUse { .. } => "maybe_in_use",
                };
                *all.entry((name.0.clone(), profile, state)).or_default() += 1;
            };
            match &gpu.slices {
                Slices::Placed(all) => all.iter().for_each(|s| count(s.profile.to_string(), &s.used)),
                Slices::Counted(all) => all.iter().for_each(|s| count(s.profile.to_string(), &s.used)),
                Slices::MigOff { used } => count("gpu".to_owned(), used),
            }
        }
    }
    all.into_iter().map(|((node, profile, state), n)| (node, profile, state, n))
}

/// Why a change did not end as it should have, in one word.
fn reason(next: &Progress) -> &'static str {
    match (&next.failed, &next.last_error) {
        (Some(why), _) => why.reason().name,
        (None, Some(trouble)) => trouble.name(),
        (None, None) => "none",
    }
}

/// Of the compute slices that nobody holds, the share on GPUs of which
/// somebody holds, or may hold, another.
fn fragmentation<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<f64> {
    let (mut free, mut in_pieces) = (0u32, 0u32);
    for gpu in nodes.flat_map(|node| node.gpus.values()) {
        let held = |used: &Use, compute: u8| if matches!(used, Use::Idle) { 0 } else { u32::from(compute) };
        let all = u32::from(gpu.geometry.compute());
        let held: u32 = match &gpu.slices {
            Slices::Placed(slices) => slices.iter().map(|s| held(&s.used, s.profile.compute)).sum(),
            Slices::Counted(slices) => slices.iter().map(|s| held(&s.used, s.profile.compute)).sum(),
            Slices::MigOff { used } => held(used, gpu.geometry.compute()),
        };
        let left = all.saturating_sub(held);
        free += left;
        in_pieces += if held > 0 { left } else { 0 };
    }
    (free > 0).then(|| f64::from(in_pieces) / f64::from(free))
}

fn policies(objects: &Objects, round: &Round) -> impl Iterator<Item = (String, PolicyGauges)> {
    let mut all: BTreeMap<String, PolicyGauges> = BTreeMap::new();
    for (name, status) in &round.policies {
        let conditions = status.conditions.iter().map(|c| (c.type_.clone(), c.status.clone())).collect();
        let info = objects
            .policies
            .get(&name.0)
            .map(|policy| (format!("{:?}", policy.spec.mode), format!("{:?}", policy.spec.layout.type_)));
        let mine = round.thought.policy_of.iter().filter(|(_, owner)| *owner == name);
        let nodes = mine.filter_map(|(node, _)| round.thought.inventory.nodes.get(node));
        let gauges =
            PolicyGauges { conditions, info, fragmentation: fragmentation(nodes), ..PolicyGauges::default() };
        all.insert(name.0.clone(), gauges);
    }
    for (node, policy) in &round.thought.policy_of {
        let Some(gauges) = all.get_mut(&policy.0) else { continue };
        let phase = round.nodes.get(node).map_or(Phase::Idle, |node| node.advance.progress.phase);
        *gauges.nodes.entry(format!("{phase:?}")).or_default() += 1;
    }
    for request in &round.thought.report.requests {
        let unserved = matches!(request.outcome, Outcome::Unserved { .. });
        if let Some(gauges) = request.policy.as_ref().and_then(|policy| all.get_mut(&policy.0)) {
            gauges.unserved += i64::from(unserved);
        }
    }
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use planner::inventory::{ChangeScope, CountedSlice, Gpu, Room};
    use planner::names::{GpuIndex, PodRef};

    use super::*;

    fn node(gpus: &[&[(&str, bool)]]) -> Node {
        let model = mig::Catalog::builtin().get("A100-80GB").expect("known");
        let slice = |(profile, held): &(&str, bool)| CountedSlice {
            profile: profile.parse().expect("a profile"),
            used: match held {
                true => Use::InUse { by: PodRef { namespace: "a".to_owned(), name: "p".to_owned() } },
                false => Use::Idle,
            },
        };
        let gpu = |slices: &&[(&str, bool)]| Gpu {
            model: model.id.clone(),
            geometry: Arc::clone(&model.geometry),
            slices: Slices::Counted(slices.iter().map(slice).collect()),
            hold: None,
        };
        Node {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            room: Room { cpu_milli: 0, memory_bytes: 0, pods: 0 },
            scope: ChangeScope::IdleGpus,
            hold: None,
            schedulable: true,
            allocated: BTreeMap::new(),
            gpus: gpus
                .iter()
                .enumerate()
                .map(|(i, g)| (GpuIndex(u16::try_from(i).expect("few")), gpu(g)))
                .collect(),
        }
    }

    #[test]
    fn what_is_left_beside_a_held_slice_is_in_pieces() {
        // Of the first GPU four of seven are left, and all seven of the second.
        let nodes = node(&[&[("3g.40gb", true), ("1g.10gb", false)], &[("7g.80gb", false)]]);
        assert_eq!(fragmentation([&nodes].into_iter()), Some(4.0 / 11.0));
        assert_eq!(fragmentation([&node(&[&[("7g.80gb", true)]])].into_iter()), None);
        assert_eq!(fragmentation([&node(&[&[("1g.10gb", false)]])].into_iter()), Some(0.0));
    }
}
