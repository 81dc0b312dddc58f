//! The gauges, from what a round found.

use std::collections::BTreeMap;
use std::time::Duration;

use observe::Objects;
use planner::inventory::{Slices, Use};
use planner::report::Outcome;
use reconcile::Round;
use rollout::Phase;

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
    metrics.policies(policies(round));
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
        metrics.repartitioned(result, away);
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

fn policies(round: &Round) -> impl Iterator<Item = (String, PolicyGauges)> {
    let mut all: BTreeMap<String, PolicyGauges> = BTreeMap::new();
    for (name, status) in &round.policies {
        let conditions = status.conditions.iter().map(|c| (c.type_.clone(), c.status.clone())).collect();
        all.insert(name.0.clone(), PolicyGauges { conditions, ..PolicyGauges::default() });
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
