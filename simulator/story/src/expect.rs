//! Expectations, and the state that was found instead.

use std::collections::BTreeMap;

use crate::asks::amounts;
use crate::command::Expectation;
use crate::plan_round::{plan_round, progress};
use crate::run::Teller;
use crate::store::path;

impl Teller<'_> {
    /// Whether an expectation holds; if not, what was found, as the rest of a
    /// sentence after "but".
    pub(crate) fn check(&self, expectation: &Expectation) -> Result<(), String> {
        let world = &self.world;
        let same = |found: String, wanted: String| {
            if found == wanted { Ok(()) } else { Err(format!("it is {found}")) }
        };
        match expectation {
            Expectation::Workload { workbench, key, state, node } => {
                let notebook = world.notebooks.get(&path(&key.0, &key.1));
                let pod =
                    if *workbench { crate::notebooks::pod_key(&key.0, &key.1) } else { path(&key.0, &key.1) };
                let pod = world.pods.get(&pod);
                let phase = pod.and_then(|p| p.status.as_ref()?.phase.clone());
                let found = match (phase.as_deref(), *workbench, notebook) {
                    (_, true, None) => "gone",
                    (None, true, Some(n)) if crate::notebooks::is_stopped(n) => "stopped",
                    (None, true, Some(_)) => "pending",
                    (None, false, _) => "gone",
                    (Some("Running"), ..) => "running",
                    (Some("Failed"), ..) => "failed",
                    (Some("Succeeded"), ..) => "succeeded",
                    (Some(_), ..) => "pending",
                };
                let on = pod.and_then(|p| p.spec.as_ref()?.node_name.clone());
                let here = node.is_none() || *node == on;
                if found == *state && here {
                    return Ok(());
                }
                Err(format!("it is {found}{}", on.map(|n| format!(" on {n}")).unwrap_or_default()))
            }
            Expectation::Allocatable { node, resource, count } => {
                let resource = resource
                    .parse::<mig::ProfileName>()
                    .map_or_else(|_| resource.clone(), |p| p.resource_name());
                let node = world.nodes.get(node).ok_or_else(|| format!("there is no node {node}"))?;
                let all = amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()));
                same(all.get(&resource).copied().unwrap_or(0).to_string(), count.to_string())
            }
            Expectation::Node { node, state } => {
                let object = world.nodes.get(node).ok_or_else(|| format!("there is no node {node}"))?;
                let cordoned = object.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
                let phase = progress(world, node).phase;
                let holds = match *state {
                    "cordoned" => cordoned,
                    "schedulable" => !cordoned && world.hosts.get(node).is_some_and(|h| h.node.ready()),
                    "failed" => phase == rollout::Phase::Failed,
                    "settled" => phase == rollout::Phase::Idle && !cordoned,
                    _ => phase != rollout::Phase::Idle,
                };
                let cordon = if cordoned { "cordoned" } else { "not cordoned" };
                if holds { Ok(()) } else { Err(format!("it is {cordon}, and in phase {}", phase.name())) }
            }
            Expectation::Label { node, key, value } => {
                let labels =
                    world.nodes.get(node).and_then(|n| n.metadata.labels.clone()).unwrap_or_default();
                let found = labels.get(key);
                if found == value.as_ref() {
                    Ok(())
                } else {
                    Err(format!("it is {}", found.map_or("not there", String::as_str)))
                }
            }
            Expectation::Gpu { node, gpu, slices } => {
                let host = world.hosts.get(node).ok_or_else(|| format!("there is no node {node}"))?;
                let truth = host.node.truth();
                let truth = truth
                    .iter()
                    .find(|t| t.index == *gpu)
                    .ok_or_else(|| format!("{node} has no gpu{gpu}"))?;
                let mut found = BTreeMap::new();
                for slice in &truth.slices {
                    *found.entry(slice.profile).or_insert(0u32) += 1;
                }
                let found = truth.mig.then_some(found);
                let words = |slices: &Option<BTreeMap<mig::ProfileName, u32>>| match slices {
                    None => "off".to_owned(),
                    Some(slices) => crate::asked::in_words(slices, 0),
                };
                same(words(&found), words(slices))
            }
            Expectation::Plan { changes } => {
                let planned = plan_round(world);
                let nodes: Vec<String> = planned.plan.steps.iter().map(|s| s.node.to_string()).collect();
                if nodes.len() == *changes {
                    Ok(())
                } else {
                    Err(format!("it changes {} ({})", nodes.len(), nodes.join(", ")))
                }
            }
            Expectation::Unserved { count } => {
                let planned = plan_round(world);
                let unserved: Vec<String> = planned
                    .report
                    .requests
                    .iter()
                    .filter(|r| reconcile::answers::is_unserved(r))
                    .map(|r| r.id.to_string())
                    .collect();
                if unserved.len() == *count {
                    Ok(())
                } else {
                    Err(format!("{} are ({})", unserved.len(), unserved.join(", ")))
                }
            }
            Expectation::Notified { who, text } => {
                let mine: Vec<&String> =
                    world.told.iter().filter(|(w, _)| *w == who.text).map(|(_, t)| t).collect();
                if mine.iter().any(|t| t.contains(text)) {
                    return Ok(());
                }
                Err(mine
                    .last()
                    .map_or("nothing was said".to_owned(), |t| format!("the last that was said is: {t}")))
            }
            Expectation::Output { text } => {
                if self.said.iter().any(|line| line.contains(text)) {
                    Ok(())
                } else {
                    Err("it was not".to_owned())
                }
            }
            Expectation::Condition { policy, kind, status, reason } => {
                let policy =
                    world.policies.get(policy).ok_or_else(|| format!("there is no policy {policy}"))?;
                let found = policy.status.iter().flat_map(|s| &s.conditions).find(|c| c.type_ == *kind);
                let Some(found) = found else { return Err("it has no such condition".to_owned()) };
                if found.status == *status && reason.as_ref().is_none_or(|r| *r == found.reason) {
                    return Ok(());
                }
                Err(format!("it is {} ({}): {}", found.status, found.reason, found.message))
            }
            Expectation::Evictions(n) => same(world.evictions.to_string(), n.to_string()),
            Expectation::Changes(n) => same(self.counters.changes.to_string(), n.to_string()),
            Expectation::Breaches(n) => same(world.breaches().len().to_string(), n.to_string()),
        }
    }
}
