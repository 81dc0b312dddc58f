//! Checks whether expectations hold under a plan, and gives advice if they do not.
//!
//! All figures are those of the preview: the slices of nodes when the plan is done, the present holders of
//! slices, and the slices promised to requests. Changes of a policy in mode `Preview` are not carried out,
//! so they do not count.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use observe::pods::{Life, life, takes};
use planner::decide::Decision;
use planner::inventory::{Inventory, Node};
use planner::names::{NodeName, PolicyName};
use planner::policy::{LayoutPolicy, Mode, Policy};
use planner::report::{Outcome, RequestReport};

use super::{Check, Expectation, Failed, Judged};
use crate::question::Question;

/// Judges all expectations; `before` is the same fleet under another revision
/// of the policies.
#[must_use]
pub fn judge(
    expectations: &[Expectation],
    now: (&Question, &Decision),
    before: Option<(&Question, &Decision)>,
) -> Vec<Judged> {
    let now = Figures::new(now.0, now.1);
    let before = before.map(|(question, decision)| Figures::new(question, decision));
    expectations
        .iter()
        .map(|expectation| {
            let failures = now.failures(expectation);
            Judged {
                name: expectation.name.clone(),
                holds: failures.is_empty(),
                held_before: before.as_ref().map(|before| before.failures(expectation).is_empty()),
                failures,
                why: expectation.why.clone(),
                place: expectation.place.to_string(),
            }
        })
        .collect()
}

type ByProfile = BTreeMap<ProfileName, u32>;

/// What a plan comes to, node by node.
struct Figures<'a> {
    question: &'a Question,
    decision: &'a Decision,
    policy_of: BTreeMap<NodeName, PolicyName>,
    /// Policies that change nothing.
    only_preview: BTreeSet<&'a PolicyName>,
    planned: BTreeMap<&'a NodeName, ByProfile>,
    /// Slices that pods hold, by node and namespace.
    held: BTreeMap<(String, String), ByProfile>,
    /// Slices that requests will get, by node and namespace.
    promised: BTreeMap<(String, String), ByProfile>,
}

impl<'a> Figures<'a> {
    fn new(question: &'a Question, decision: &'a Decision) -> Self {
        let seen = &question.seen;
        let only_preview: BTreeSet<&PolicyName> =
            seen.policies.iter().filter(|p| p.mode == Mode::Preview).map(|p| &p.name).collect();
        let mut figures = Self {
            question,
            decision,
            policy_of: planner::assign::policy_of(&seen.inventory, &seen.policies).policy_of,
            only_preview,
            planned: BTreeMap::new(),
            held: BTreeMap::new(),
            promised: BTreeMap::new(),
        };
        for (name, node) in &seen.inventory.nodes {
            figures.planned.insert(name, figures.planned_on(name, node));
        }
        for ((namespace, _), pod) in &question.snapshot.objects.pods {
            let Some(spec) = pod.spec.as_ref().filter(|_| life(pod) == Life::Bound) else { continue };
            let Some(node) = &spec.node_name else { continue };
            let held = figures.held.entry((node.clone(), namespace.clone())).or_default();
            for (profile, n) in takes(spec).slices {
                *held.entry(profile).or_insert(0) += n;
            }
        }
        for report in &decision.report.requests {
            let (Outcome::ServedNow { node, gpus } | Outcome::ServedByPlan { node, gpus }) = &report.outcome
            else {
                continue;
            };
            if !figures.is_served(report) {
                continue;
            }
            let promised = figures.promised.entry((node.0.clone(), report.id.namespace.clone())).or_default();
            for profile in gpus.iter().filter_map(|(_, _, offered)| offered.slice()) {
                *promised.entry(profile).or_insert(0) += 1;
            }
        }
        figures
    }

    fn planned_on(&self, name: &NodeName, node: &Node) -> ByProfile {
        let steps = self.decision.plan.steps.iter();
        let mut steps = steps.filter(|s| s.node == *name && !self.only_preview.contains(&s.policy));
        let step = steps.next();
        let mut planned = ByProfile::new();
        for (index, gpu) in &node.gpus {
            let change = step.and_then(|step| step.gpus.iter().find(|change| change.gpu == *index));
            let profiles: Vec<ProfileName> = match change {
                Some(change) => change.after.iter().map(|(profile, _)| *profile).collect(),
                None => gpu.slices.profiles().collect(),
            };
            for profile in profiles {
                *planned.entry(profile).or_insert(0) += 1;
            }
        }
        planned
    }

    /// Whether a request gets its slices by what is really done.
    fn is_served(&self, report: &RequestReport) -> bool {
        match &report.outcome {
            Outcome::ServedNow { .. } => true,
            Outcome::ServedByPlan { node, .. } => {
                self.policy_of.get(node).is_none_or(|policy| !self.only_preview.contains(policy))
            }
            Outcome::Unserved { .. } => false,
        }
    }

    /// The nodes that are meant, or what is wrong with how they are named.
    fn nodes(&self, expectation: &Expectation) -> Result<Vec<&'a NodeName>, Failed> {
        let policies = &self.question.seen.policies;
        if let Some(policy) = &expectation.policy
            && !policies.iter().any(|known| known.name.0 == *policy)
        {
            let names = policies.iter().map(|policy| policy.name.0.as_str());
            let meant = nearest(policy, names.clone());
            let list: Vec<&str> = names.collect();
            return Err(Failed {
                field: "policy",
                message: format!("there is no policy `{policy}`{meant}"),
                next: format!(
                    "keep the policy, or name one of these in the expectation: {}",
                    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
                ),
            });
        }
        if let Some(namespace) = &expectation.namespace {
            self.namespace(namespace)?;
        }
        let inventory = &self.question.seen.inventory;
        let meant: Vec<&NodeName> = inventory
            .nodes
            .iter()
            .filter(|(_, node)| planner::selector::matches(&expectation.nodes, &node.labels))
            .map(|(name, _)| name)
            .filter(|name| {
                let policy = self.policy_of.get(*name).map(|policy| policy.0.as_str());
                expectation.policy.is_none() || policy == expectation.policy.as_deref()
            })
            .collect();
        if meant.is_empty() {
            return Err(Failed {
                field: "nodes",
                message: "it selects no node with GPUs".to_owned(),
                next: "check the labels (`slicewright fleet`), the policy's nodeSelector, and this expectation's `nodes`"
                    .to_owned(),
            });
        }
        if let Some(profile) = expectation.profile {
            self.profile(profile, &meant)?;
        }
        Ok(meant)
    }

    /// What is wrong with a namespace that nothing in the fleet is in.
    fn namespace(&self, namespace: &str) -> Result<(), Failed> {
        let objects = &self.question.snapshot.objects;
        // A fleet that somebody wrote may have no Namespace: then those count in which something is.
        let is_written = objects.namespaces.is_empty();
        let used = objects.pods.keys().chain(objects.notebooks.keys()).chain(objects.workloads.keys());
        let used = used.filter(|_| is_written).map(|(namespace, _)| namespace.as_str());
        let known: BTreeSet<&str> = objects.namespaces.keys().map(String::as_str).chain(used).collect();
        if known.is_empty() || known.contains(namespace) {
            return Ok(());
        }
        let meant = nearest(namespace, known.iter().copied());
        Err(Failed {
            field: "namespace",
            message: format!("the snapshot has no namespace `{namespace}`{meant}"),
            next: match is_written {
                true => "correct the name, or add the Namespace to the fleet".to_owned(),
                false => "correct the name, or record the fleet again".to_owned(),
            },
        })
    }

    /// What is wrong with a profile that no GPU of these nodes can have.
    fn profile(&self, profile: ProfileName, nodes: &[&NodeName]) -> Result<(), Failed> {
        let inventory = &self.question.seen.inventory;
        let gpus = nodes.iter().flat_map(|node| inventory.nodes[*node].gpus.values());
        let known: BTreeSet<ProfileName> =
            gpus.flat_map(|gpu| gpu.geometry.profiles()).map(|profile| profile.name).collect();
        if known.is_empty() || known.contains(&profile) {
            return Ok(());
        }
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        Err(Failed {
            field: "profile",
            message: format!("no GPU of the selected nodes can have {profile}"),
            next: format!("name one that they can have: {}; or other nodes", known.join(", ")),
        })
    }

    fn failures(&self, expectation: &Expectation) -> Vec<Failed> {
        let nodes = match self.nodes(expectation) {
            Ok(nodes) => nodes,
            Err(failed) => return vec![failed],
        };
        let checks = expectation.checks.iter();
        checks.filter_map(|check| self.failure(expectation, *check, &nodes)).collect()
    }

    fn failure(&self, expectation: &Expectation, check: Check, nodes: &[&NodeName]) -> Option<Failed> {
        let whose = match &expectation.namespace {
            Some(namespace) => format!(" for namespace {namespace}"),
            None => String::new(),
        };
        let count = |field, wanted: u32, found: u32, verb: &str| {
            let profile = expectation.profile?;
            (found < wanted).then(|| Failed {
                field,
                message: format!("{field} is {wanted}, but {verb} {found} x {profile}{whose}"),
                next: self.next(expectation, profile, field, wanted, nodes),
            })
        };
        let profile = expectation.profile;
        match check {
            Check::MinSlices(wanted) => {
                let found = self.slices(expectation, profile?, nodes);
                count("minSlices", wanted, found, "when the plan is done, there are")
            }
            Check::MinFree(wanted) => {
                let found = self.free(profile?, nodes);
                count(
                    "minFree",
                    wanted,
                    found,
                    "when the plan is done and all served requests have their slices, the free slices are",
                )
            }
            Check::MinAttainable(wanted) => {
                let found = self.attainable(expectation, profile?, nodes);
                count("minAttainable", wanted, found, "no layout offers more than")
            }
            Check::Served => self.unserved(expectation, nodes),
            Check::MaxEvictions(most) => self.evictions(expectation, most, nodes),
        }
    }

    fn slices(&self, expectation: &Expectation, profile: ProfileName, nodes: &[&NodeName]) -> u32 {
        let namespace = expectation.namespace.as_ref();
        let on = |node: &NodeName| {
            let planned = self.planned[node].get(&profile).copied().unwrap_or(0);
            if namespace.is_none() {
                return planned;
            }
            let others =
                taken(&self.held, node, profile, namespace) + taken(&self.promised, node, profile, namespace);
            planned.saturating_sub(others)
        };
        nodes.iter().map(|node| on(node)).sum()
    }

    fn free(&self, profile: ProfileName, nodes: &[&NodeName]) -> u32 {
        let inventory = &self.question.seen.inventory;
        let on = |node: &NodeName| {
            // Free slices of a node to which no pod can bind serve nobody.
            if !inventory.nodes[node].schedulable {
                return 0;
            }
            let planned = self.planned[node].get(&profile).copied().unwrap_or(0);
            let taken = taken(&self.held, node, profile, None) + taken(&self.promised, node, profile, None);
            planned.saturating_sub(taken)
        };
        nodes.iter().map(|node| on(node)).sum()
    }

    /// The most that some layout of these nodes could offer. What is attainable
    /// is a matter of each GPU alone, so the planner is asked about these nodes
    /// as if there were no others.
    fn attainable(&self, expectation: &Expectation, profile: ProfileName, nodes: &[&NodeName]) -> u32 {
        let seen = &self.question.seen;
        let meant: BTreeSet<&NodeName> = nodes.iter().copied().collect();
        let inventory = Inventory {
            nodes: seen
                .inventory
                .nodes
                .iter()
                .filter(|(name, _)| meant.contains(name))
                .map(|(name, node)| (name.clone(), node.clone()))
                .collect(),
            ..Inventory::default()
        };
        let decided = planner::decide::decide(&inventory, &[], &seen.policies);
        let supplies = decided.report.policies.iter().filter_map(|policy| policy.supply.get(&profile));
        let by_policies: u32 = supplies.map(|supply| supply.attainable).sum();
        // Nobody changes a node without a policy: it offers what it has.
        let without = nodes.iter().filter(|node| !self.policy_of.contains_key(**node));
        let as_it_is: u32 = without.filter_map(|node| self.planned[*node].get(&profile)).sum();
        let namespace = expectation.namespace.as_ref();
        let others: u32 = match namespace {
            Some(_) => nodes.iter().map(|node| taken(&self.held, node, profile, namespace)).sum(),
            None => 0,
        };
        (by_policies + as_it_is).saturating_sub(others)
    }

    fn unserved(&self, expectation: &Expectation, nodes: &[&NodeName]) -> Option<Failed> {
        let asks = |report: &RequestReport| {
            let request = self.question.seen.requests.iter().find(|request| request.id == report.id);
            expectation.profile.is_none_or(|p| request.is_some_and(|r| r.slices.contains_key(&p)))
        };
        let narrow = !expectation.nodes.is_empty();
        let meant = |report: &&RequestReport| {
            let policy = report.policy.as_ref().map(|policy| policy.0.as_str());
            let mine = expectation.namespace.as_ref().is_none_or(|ns| report.id.namespace == *ns)
                && (expectation.policy.is_none() || policy == expectation.policy.as_deref())
                && asks(report);
            // With nodes named, it has to be served there.
            let served = match &report.outcome {
                Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
                    self.is_served(report) && (!narrow || nodes.contains(&node))
                }
                Outcome::Unserved { .. } => false,
            };
            mine && !served
        };
        let waiting: Vec<&RequestReport> = self.decision.report.requests.iter().filter(meant).collect();
        let first = waiting.first()?;
        let names: Vec<String> = waiting.iter().map(|report| report.id.to_string()).collect();
        let next = match &first.outcome {
            Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } => {
                match self.policy_of.get(node).filter(|policy| self.only_preview.contains(policy)) {
                    Some(policy) => format!(
                        "{}: policy {policy} would serve it and is in mode Preview; set spec.mode to Enforce",
                        first.id
                    ),
                    None => {
                        format!("{}: it is served by {node}, which is not among the selected nodes", first.id)
                    }
                }
            }
            Outcome::Unserved { .. } => format!("{}: {}", first.id, first.outcome),
        };
        Some(Failed {
            field: "served",
            message: format!("{} not served: {}", requests(waiting.len()), some(&names)),
            next,
        })
    }

    fn evictions(&self, expectation: &Expectation, most: u32, nodes: &[&NodeName]) -> Option<Failed> {
        let steps = self.decision.plan.steps.iter();
        let steps = steps.filter(|s| nodes.contains(&&s.node) && !self.only_preview.contains(&s.policy));
        let pods: Vec<String> = steps
            .flat_map(|step| &step.evicts)
            .filter(|pod| expectation.namespace.as_ref().is_none_or(|ns| pod.namespace == *ns))
            .map(ToString::to_string)
            .collect();
        (pods.len() > most as usize).then(|| Failed {
            field: "maxEvictions",
            message: format!("maxEvictions is {most}, but {} evicted: {}", count(pods.len(), "pod is", "pods are"), some(&pods)),
            next: "set spec.rollout.drain to Never (the change then waits until they have ended), or make the change after they have ended"
                .to_owned(),
        })
    }

    /// What would make more slices of a profile.
    fn next(
        &self,
        expectation: &Expectation,
        profile: ProfileName,
        field: &'static str,
        wanted: u32,
        nodes: &[&NodeName],
    ) -> String {
        let policies: BTreeSet<&PolicyName> =
            nodes.iter().filter_map(|node| self.policy_of.get(*node)).collect();
        let policies: Vec<&Policy> =
            self.question.seen.policies.iter().filter(|policy| policies.contains(&policy.name)).collect();
        // What is not enforced changes nothing, whatever could be reached.
        if let Some(policy) = policies.iter().find(|policy| policy.mode != Mode::Enforce) {
            return format!("policy {} changes nothing; set spec.mode to Enforce", policy.name);
        }
        let most = self.attainable(expectation, profile, nodes);
        if most < wanted {
            return format!(
                "no layout of these nodes reaches it: the maximum is {most} x {profile} while the slices in use stay; add nodes, wait until pods have ended, or expect less"
            );
        }
        let advice: Vec<String> =
            policies.into_iter().map(|policy| advice(policy, profile, field, wanted)).collect();
        match advice.is_empty() {
            true => "no policy selects these nodes, so they are not changed; write one that selects them"
                .to_owned(),
            false => format!("{most} can be reached: {}", advice.join("; or ")),
        }
    }
}

/// Slices of a node that others than the namespace `except` hold, or were promised.
fn taken(
    taken: &BTreeMap<(String, String), ByProfile>,
    node: &NodeName,
    profile: ProfileName,
    except: Option<&String>,
) -> u32 {
    taken
        .iter()
        .filter(|((on, namespace), _)| *on == node.0 && Some(namespace) != except)
        .filter_map(|(_, by)| by.get(&profile))
        .sum()
}

fn advice(policy: &Policy, profile: ProfileName, field: &str, wanted: u32) -> String {
    let name = &policy.name;
    match &policy.layout {
        LayoutPolicy::Static { .. } => {
            format!("add more {profile} in spec.layout.static.gpus of policy {name}")
        }
        LayoutPolicy::DemandDriven { slices, .. } => {
            let bounds = slices.get(&profile).copied().unwrap_or_default();
            let at = format!("spec.layout.demandDriven.slices[{profile}] of policy {name}");
            match bounds.max {
                Some(max) if max < wanted => {
                    format!("raise maxCount to {wanted} or more in {at} (it is {max})")
                }
                _ if field == "minFree" => {
                    format!("set spareCount to {wanted} in {at} (it is {})", bounds.spare)
                }
                _ => format!("set minCount to {wanted} in {at} (it is {})", bounds.min),
            }
        }
    }
}

fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    api::spelling::nearest(name, known).map(|right| format!("; did you mean `{right}`?")).unwrap_or_default()
}

fn count(n: usize, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}

fn requests(n: usize) -> String {
    count(n, "request is", "requests are")
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
