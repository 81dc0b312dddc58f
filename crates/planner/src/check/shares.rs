//! Shares: what namespaces hold on the nodes of a policy, and what their requests get there, counted from the
//! fleet as it was seen and from the answers.

use std::collections::{BTreeMap, BTreeSet};

use super::note::{Note, Problem};
use super::promises::{keepable, may_yield};
use super::serves::wants;
use super::winner;
use crate::decide::SHARES;
use crate::demand::Request;
use crate::eligible::judge;
use crate::inventory::{Inventory, Node};
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
    /// By pods, and by those for whom slices are kept.
    held: i64,
    asked: i64,
    given: i64,
}

fn weight(request: &Request) -> i64 {
    let wants = wants(request).filter_map(|(offered, n)| Some((offered.profile()?, n)));
    wants.map(|(profile, n)| i64::from(profile.compute) * i64::from(n)).sum()
}

/// Who gets what: the requests that are served, and those for whom slices are kept, each with its node. What is
/// kept was given before, under the policy of then; so it counts as held, and a share that was lowered
/// since takes it from nobody.
struct Given<'a> {
    served: BTreeMap<&'a RequestId, &'a NodeName>,
    kept: Vec<(&'a Request, &'a NodeName)>,
}

impl<'a> Given<'a> {
    fn new(
        served: impl Iterator<Item = (&'a RequestId, &'a NodeName)>,
        kept: Vec<(&'a Request, &'a NodeName)>,
    ) -> Self {
        let mut served: BTreeMap<_, _> = served.collect();
        served.retain(|id, _| kept.iter().all(|(request, _)| request.id != **id));
        Self { served, kept }
    }

    fn is_kept(&self, request: &Request) -> bool {
        self.kept.iter().any(|(kept, _)| kept.id == request.id)
    }

    /// A node as others find it: what is kept there takes its room.
    fn beside_kept(&self, name: &NodeName, node: &Node) -> Node {
        let here = self.kept.iter().filter(|(_, on)| *on == name);
        let room = here.fold(node.room, |room, (request, _)| room.plus(request.takes, -1));
        Node { room, ..node.clone() }
    }
}

/// Counts the shares of everybody who asks, if these requests are served on these nodes and these pods go.
fn count(
    given: &Given<'_>,
    plan: &Plan,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
) -> Vec<Count> {
    let mut counts = Vec::new();
    for (p, policy) in policies.iter().enumerate() {
        let LayoutPolicy::DemandDriven { shares, namespaces, .. } = &policy.layout else { continue };
        if shares.is_empty() {
            continue;
        }
        let nodes = inventory.nodes.iter();
        let mine = nodes.filter(|(_, node)| winner(node, policies).is_some_and(|w| w.name == policy.name));
        let mine: Vec<_> = mine
            .map(|(name, node)| (name, given.beside_kept(name, node), LabelsAfter::predict(node)))
            .collect();
        let is_mine = |node: &NodeName| mine.iter().any(|(name, ..)| *name == node);
        let waits = |request: &&Request| {
            request.whole_gpus == 0
                && request.blocked_elsewhere.is_none()
                && request.refused.is_none()
                && !given.is_kept(request)
                && selector::matches(namespaces, &request.namespace_labels)
        };
        let may_use = |request: &Request| {
            mine.iter()
                .any(|(name, node, labels)| node.schedulable && judge(request, name, node, labels).is_yes())
        };
        let here: Vec<&Request> = requests.iter().filter(waits).filter(|request| may_use(request)).collect();
        for (position, share) in shares.iter().enumerate() {
            let Share { namespaces, per_namespace, min, max } = share;
            let asks: Vec<&&Request> =
                here.iter().filter(|r| selector::matches(namespaces, &r.namespace_labels)).collect();
            let each: BTreeSet<Option<&String>> =
                asks.iter().map(|r| per_namespace.then_some(&r.id.namespace)).collect();
            for one in each {
                let counts_for = |namespace: &String, labels: Option<&BTreeMap<String, String>>| match one {
                    Some(one) => one == namespace,
                    None => {
                        let named = || {
                            BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.clone())])
                        };
                        let known = inventory.namespaces.get(namespace).or(labels);
                        selector::matches(namespaces, &known.cloned().unwrap_or_else(named))
                    }
                };
                let goes = |name: &NodeName, pod| {
                    plan.steps.iter().any(|step| step.node == *name && step.evicts.contains(pod))
                };
                let held = mine.iter().flat_map(|(name, node, _)| {
                    let stay = node.held.iter().filter(|(pod, _)| !goes(name, pod));
                    stay.filter(|(pod, _)| counts_for(&pod.namespace, None)).map(|(_, n)| i64::from(*n))
                });
                let kept = given.kept.iter().filter(|(request, node)| {
                    is_mine(node) && counts_for(&request.id.namespace, Some(&request.namespace_labels))
                });
                let of_one = asks.iter().filter(|r| one.is_none_or(|one| *one == r.id.namespace));
                let gets = of_one
                    .clone()
                    .filter(|request| given.served.get(&request.id).is_some_and(|node| is_mine(node)));
                counts.push(Count {
                    policy: p,
                    position,
                    min: i64::from(*min),
                    max: max.map(i64::from),
                    held: held.sum::<i64>() + kept.map(|(request, _)| weight(request)).sum::<i64>(),
                    asked: of_one.map(|request| weight(request)).sum(),
                    given: gets.map(|request| weight(request)).sum(),
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
    let served: Vec<_> = by_step.collect();
    // A promise may yield to a higher priority. Which one does, the steps do not say: those that
    // could are not counted here, and are counted by the answers.
    let kept = keepable(inventory, requests, policies);
    let kept = kept.into_iter().filter(|(request, _)| !may_yield(request, requests)).collect();
    let given = Given::new(served.into_iter(), kept);
    notes.extend(too_much(&count(&given, plan, inventory, requests, policies), policies));
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
    let broken: BTreeSet<&RequestId> =
        reports.iter().filter(|report| report.broken.is_some()).map(|report| &report.id).collect();
    let mut kept = keepable(inventory, requests, policies);
    kept.retain(|(request, _)| !broken.contains(&request.id));
    let counts = count(&Given::new(served, kept), plan, inventory, requests, policies);
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
