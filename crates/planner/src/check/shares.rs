//! Shares: what namespaces hold on the nodes of a policy, and what their requests get there, counted from the
//! fleet as it was seen and from the answers.

use std::collections::{BTreeMap, BTreeSet};

use super::note::{Note, Problem};
use super::winner;
use crate::decide::SHARES;
use crate::demand::Request;
use crate::eligible::judge;
use crate::inventory::Inventory;
use crate::names::{NodeName, RequestId};
use crate::plan::Plan;
use crate::policy::{LayoutPolicy, Policy, Share};
use crate::predicted_labels::LabelsAfter;
use crate::report::{LevelCertificate, Outcome, RequestReport};
use crate::selector;

/// What one share comes to.
struct Count {
    policy: usize,
    position: usize,
    min: i64,
    max: Option<i64>,
    held: i64,
    asked: i64,
    given: i64,
}

fn weight(request: &Request) -> i64 {
    request.slices.iter().map(|(profile, n)| i64::from(profile.compute) * i64::from(*n)).sum()
}

/// Counts the shares of everybody who asks, if these requests are served on these nodes and these pods go.
fn count(
    served: &BTreeMap<&RequestId, &NodeName>,
    plan: &Plan,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
) -> Vec<Count> {
    let mut counts = Vec::new();
    for (p, policy) in policies.iter().enumerate() {
        let LayoutPolicy::DemandDriven { shares, namespaces, .. } = &policy.layout else { continue };
        let nodes = inventory.nodes.iter();
        let mine = nodes.filter(|(_, node)| winner(node, policies).is_some_and(|w| w.name == policy.name));
        let mine: Vec<_> = mine.map(|(name, node)| (name, node, LabelsAfter::predict(node))).collect();
        let waits = |request: &&Request| {
            request.whole_gpus == 0
                && request.blocked_elsewhere.is_none()
                && request.refused.is_none()
                && selector::matches(namespaces, &request.namespace_labels)
        };
        let may_use = |request: &Request| {
            mine.iter()
                .any(|(name, node, labels)| node.schedulable && judge(request, name, node, labels).is_yes())
        };
        if shares.is_empty() {
            continue;
        }
        let here: Vec<&Request> = requests.iter().filter(waits).filter(|request| may_use(request)).collect();
        for (position, share) in shares.iter().enumerate() {
            let Share { namespaces, per_namespace, min, max } = share;
            let asks: Vec<&&Request> =
                here.iter().filter(|r| selector::matches(namespaces, &r.namespace_labels)).collect();
            let each: BTreeSet<Option<&String>> =
                asks.iter().map(|r| per_namespace.then_some(&r.id.namespace)).collect();
            for one in each {
                let counts_for = |namespace: &String| match one {
                    Some(one) => one == namespace,
                    None => {
                        let named = || {
                            BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.clone())])
                        };
                        let labels = inventory.namespaces.get(namespace).cloned().unwrap_or_else(named);
                        selector::matches(namespaces, &labels)
                    }
                };
                let goes = |name: &NodeName, pod| {
                    plan.steps.iter().any(|step| step.node == *name && step.evicts.contains(pod))
                };
                let held = mine.iter().flat_map(|(name, node, _)| {
                    let stay = node.held.iter().filter(|(pod, _)| !goes(name, pod));
                    stay.filter(|(pod, _)| counts_for(&pod.namespace)).map(|(_, n)| i64::from(*n))
                });
                let of_one = asks.iter().filter(|r| one.is_none_or(|one| *one == r.id.namespace));
                let given = of_one.clone().filter(|request| {
                    served.get(&request.id).is_some_and(|node| mine.iter().any(|(name, ..)| name == node))
                });
                counts.push(Count {
                    policy: p,
                    position,
                    min: i64::from(*min),
                    max: max.map(i64::from),
                    held: held.sum(),
                    asked: of_one.map(|request| weight(request)).sum(),
                    given: given.map(|request| weight(request)).sum(),
                });
            }
        }
    }
    counts
}

fn too_much(counts: &[Count], policies: &[Policy]) -> Vec<Note> {
    let over = counts.iter().filter_map(|Count { policy, position, max, held, given, .. }| {
        let max = (*max)?;
        (*given > 0 && held + given > max).then(|| {
            let field = format!("spec.layout.demandDriven.shares[{position}].maxComputeSlices");
            let policy = policies[*policy].name.clone();
            Problem::AboveShare { policy, field, max, after: held + given }.everywhere()
        })
    });
    over.collect()
}

/// Says where the steps of a plan give somebody more than their share.
pub(super) fn check(
    plan: &Plan,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
    notes: &mut Vec<Note>,
) {
    if plan.steps.is_empty() {
        return;
    }
    let by_step = plan.steps.iter().flat_map(|step| step.serves.iter().map(move |id| (id, &step.node)));
    notes.extend(too_much(&count(&by_step.collect(), plan, inventory, requests, policies), policies));
}

/// Says where the answers give somebody more than their share, and whether the
/// certificate counts what is missing to shares as it is.
#[must_use]
pub fn check_shares(
    plan: &Plan,
    reports: &[RequestReport],
    certificate: &[LevelCertificate],
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
) -> Vec<Note> {
    let served = reports.iter().filter_map(|report| match &report.outcome {
        Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some((&report.id, node)),
        Outcome::Unserved { .. } => None,
    });
    let counts = count(&served.collect(), plan, inventory, requests, policies);
    let mut notes = too_much(&counts, policies);
    let missing: i64 = counts
        .iter()
        .map(|Count { min, held, asked, given, .. }| ((min - held).min(*asked) - given).max(0))
        .sum();
    let level = certificate.iter().find(|level| level.level == SHARES);
    let value = level.map_or(0, |level| level.value);
    if value != missing {
        let counted = usize::try_from(missing).unwrap_or(0);
        notes.push(Problem::Miscounted { level: SHARES.to_owned(), value, counted }.everywhere());
    }
    notes
}
