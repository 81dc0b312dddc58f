//! Workloads whose pods start together, and of which the fleet could never have all pods at the same time. For these nothing
//! is planned: slices for some of the pods would wait for the others for good, and nobody else could have them.
//!
//! Each profile is looked at by itself: what all pods of a workload ask for of it, and the most that the nodes which any of
//! them may use could have of it if everything were idle, as far as their policies allow ([`most`](super::most)). So
//! whoever is found here can never be complete, and not whoever cannot is found: it is not looked at whether several profiles
//! fit beside each other, nor whether what one pod asks for is on one node, nor how a static layout cuts its GPUs. Whole GPUs and seats of
//! them are left out, since nodes that are not planned for have some, too.
//!
//! What passes is no obstacle here: a node counts that is full, cordoned or held, and one where other pods keep these off.
//! A node that no policy has counts with the slices that it has, since nobody here changes it. As long as it is not known
//! of a node which GPUs it has, nothing is said of those who may use it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::group::{counts, is_planned};
use super::most::{allowed, as_allowed, most_of};
use crate::assign;
use crate::demand::{Refusal, Request};
use crate::eligible::{Eligibility, Ineligible, Judge};
use crate::inventory::{Inventory, Node, Room};
use crate::names::{PolicyName, RequestId};
use crate::offered::Offered;
use crate::policy::Policy;
use crate::report::{Help, Outcome, Report, Why};

/// Requests of a workload that can never be complete.
#[derive(Debug)]
pub(super) struct Never<'r> {
    ids: BTreeSet<&'r RequestId>,
    why: Why,
    advice: String,
}

/// What is lacking of one profile.
struct Short<'a> {
    most: u64,
    /// The policy whose maximum is why it is not more.
    by: Option<&'a Policy>,
}

/// The requests of all workloads that can never be complete.
pub(super) fn never_whole<'r>(
    inventory: &Inventory,
    requests: &'r [Request],
    policies: &[Policy],
) -> Vec<Never<'r>> {
    let mut workloads: HashMap<&str, Vec<&'r Request>> = HashMap::new();
    for request in requests {
        if let Some(workload) = &request.together.workload {
            workloads.entry(workload).or_default().push(request);
        }
    }
    workloads.retain(|_, pods| pods.len() > 1);
    if workloads.is_empty() {
        return Vec::new();
    }
    let mut fleet = Fleet::new(inventory, policies);
    workloads.into_values().filter_map(|pods| fleet.never(&pods)).collect()
}

/// The requests, of which those are refused that can never be complete.
pub(super) fn refused<'r>(requests: &'r [Request], never: &[Never<'_>]) -> Cow<'r, [Request]> {
    if never.is_empty() {
        return Cow::Borrowed(requests);
    }
    let of: HashMap<&RequestId, &Never<'_>> =
        never.iter().flat_map(|never| never.ids.iter().map(move |id| (*id, never))).collect();
    let mut requests = requests.to_vec();
    for request in &mut requests {
        if let Some(Never { why, advice, .. }) = of.get(&request.id) {
            request.refused = Some(Refusal { why: why.to_string(), advice: advice.clone() });
        }
    }
    Cow::Owned(requests)
}

/// Tells them so.
pub(super) fn tell(never: &[Never<'_>], report: &mut Report) {
    let of: HashMap<&RequestId, &Never<'_>> =
        never.iter().flat_map(|never| never.ids.iter().map(move |id| (*id, never))).collect();
    if of.is_empty() {
        return;
    }
    for report in &mut report.requests {
        if let Some(Never { why, advice, .. }) = of.get(&report.id) {
            let help = vec![Help::ChangeRequest { advice: advice.clone() }];
            report.outcome = Outcome::Unserved { why: why.clone(), help };
        }
    }
}

/// The nodes, and what they could have.
struct Fleet<'a> {
    inventory: &'a Inventory,
    policies: &'a [Policy],
    /// The position of its policy, for each node in its order.
    owner: Vec<Option<usize>>,
    judge: Judge<'a>,
    /// The most that each node could have, in the order of the nodes.
    most: HashMap<Offered, Vec<u32>>,
    /// The most that a policy allows.
    allowed: HashMap<(Offered, usize), Option<u32>>,
}

/// Pods that are alike: one of them, which nodes it may use, and which policies count it.
struct Kind<'r> {
    pod: &'r Request,
    nodes: Arc<[Eligibility]>,
    counted: Vec<bool>,
}

impl Kind<'_> {
    /// Whether nothing that the nodes are asked about tells another pod from it.
    fn is_like(&self, other: &Request) -> bool {
        let Self { pod, .. } = self;
        pod.slices == other.slices
            && pod.shared == other.shared
            && pod.constraints == other.constraints
            && pod.namespace_labels == other.namespace_labels
    }

    /// Whether it may ever use a node, of this policy or of none.
    fn may_use(&self, node: usize, policy: Option<usize>) -> bool {
        policy.is_none_or(|policy| self.counted[policy]) && is_open(&self.nodes[node])
    }
}

/// Whether a node may be used, as soon as what passes has passed.
fn is_open(eligible: &Eligibility) -> bool {
    match eligible.reason() {
        None | Some(Ineligible::KeptOff { .. } | Ineligible::Lacks { .. } | Ineligible::NoRoom { .. }) => {
            true
        }
        Some(
            Ineligible::SingleStrategy
            | Ineligible::SharesGpus { .. }
            | Ineligible::SingleForm { .. }
            | Ineligible::Volume { .. }
            | Ineligible::NodeSelector { .. }
            | Ineligible::Affinity { .. }
            | Ineligible::Taint { .. },
        ) => false,
    }
}

/// What a node has that nobody changes.
fn there(node: &Node, asks: Offered) -> u64 {
    let Some(profile) = asks.profile() else { return 0 };
    let (offered, seats) = node.seats_of(profile);
    if offered != asks {
        return 0;
    }
    let slices = node.gpus.values().flat_map(|gpu| gpu.slices.iter()).filter(|of| of.profile == profile);
    slices.count() as u64 * u64::from(seats)
}

impl<'a> Fleet<'a> {
    fn new(inventory: &'a Inventory, policies: &'a [Policy]) -> Self {
        let assignment = assign::policy_of(inventory, policies);
        let position = |name: &PolicyName| policies.iter().position(|policy| policy.name == *name);
        let owner = inventory.nodes.keys().map(|node| assignment.policy_of.get(node).and_then(position));
        Self {
            inventory,
            policies,
            owner: owner.collect(),
            judge: Judge::new(inventory),
            most: HashMap::new(),
            allowed: HashMap::new(),
        }
    }

    /// Who of a workload is served in vain, if anybody is.
    fn never<'r>(&mut self, pods: &[&'r Request]) -> Option<Never<'r>> {
        let asked: BTreeSet<Offered> = pods.iter().flat_map(|pod| pod.wants()).map(|(of, _)| of).collect();
        asked.into_iter().filter(|of| of.profile().is_some()).find_map(|asks| {
            let n = |pod: &Request| pod.wants().find(|(of, _)| *of == asks).map_or(0, |(_, n)| n);
            let asking: Vec<&Request> = pods.iter().copied().filter(|pod| n(pod) > 0).collect();
            let wanted: u64 = asking.iter().map(|pod| u64::from(n(pod))).sum();
            let Short { most, by } = self.short(asks, &asking, wanted)?;
            // Where there is none at all, each that asks for it has a reason of its own.
            let told = pods.iter().filter(|pod| is_planned(pod) && (most > 0 || n(pod) == 0));
            let ids: BTreeSet<&RequestId> = told.map(|pod| &pod.id).collect();
            let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            let why = Why::NeverWhole { asks: number(wanted), most: number(most), profile: asks };
            let resource = asks.resource_name();
            let advice = match most {
                0 => format!("start the workload without pods that ask for {resource}"),
                n => format!(
                    "start the workload with fewer pods, which ask for at most {n} of {resource} in all"
                ),
            };
            let advice = match by {
                Some(policy) => as_allowed(&advice, policy, asks),
                None => advice,
            };
            (!ids.is_empty()).then_some(Never { ids, why, advice })
        })
    }

    /// What is lacking, if these pods ask for more than their nodes could ever have.
    fn short(&mut self, asks: Offered, pods: &[&Request], wanted: u64) -> Option<Short<'a>> {
        let mut kinds: Vec<Kind<'_>> = Vec::new();
        for pod in pods {
            // Pods of one kind mostly stand side by side.
            if !kinds.last().is_some_and(|kind| kind.is_like(pod)) {
                let counted = self.policies.iter().map(|policy| counts(policy, pod)).collect();
                // Full nodes are open, so what it takes is of no account: fewer are judged.
                let nodes = self.judge.nodes_for(&Request { takes: Room::ZERO, ..(*pod).clone() });
                kinds.push(Kind { pod, nodes, counted });
            }
        }
        let mut without_policy = 0;
        let mut of_policy: Vec<u64> = vec![0; self.policies.len()];
        let mut most = 0;
        for (at, (name, node)) in self.inventory.nodes.iter().enumerate() {
            let owner = self.owner[at];
            if !kinds.iter().any(|kind| kind.may_use(at, owner)) {
                continue;
            }
            if node.gpus.is_empty() && !self.inventory.seating.contains_key(name) {
                return None;
            }
            match owner {
                Some(policy) => {
                    let more = u64::from(self.most(asks)[at]);
                    let limit = self.allowed(asks, policy).map_or(u64::MAX, u64::from);
                    let before = of_policy[policy].min(limit);
                    of_policy[policy] += more;
                    most += of_policy[policy].min(limit) - before;
                }
                None => without_policy += there(node, asks),
            }
            if most + without_policy >= wanted {
                return None;
            }
        }
        let limits = |policy: &usize| {
            self.allowed
                .get(&(asks, *policy))
                .copied()
                .flatten()
                .is_some_and(|max| of_policy[*policy] > u64::from(max))
        };
        let by = (0..self.policies.len()).find(limits).map(|policy| &self.policies[policy]);
        Some(Short { most: most + without_policy, by })
    }

    /// The most that each node could have, in the order of the nodes.
    fn most(&mut self, asks: Offered) -> &[u32] {
        let nodes = &self.inventory.nodes;
        self.most.entry(asks).or_insert_with(|| nodes.values().map(|node| most_of(node, asks)).collect())
    }

    /// The most that a policy allows, if it says.
    fn allowed(&mut self, asks: Offered, policy: usize) -> Option<u32> {
        let Self { inventory, policies, owner, .. } = self;
        *self.allowed.entry((asks, policy)).or_insert_with(|| {
            let own = inventory.nodes.values().zip(owner.iter()).filter(|(_, owner)| **owner == Some(policy));
            allowed(&policies[policy], own.map(|(node, _)| node), asks)
        })
    }
}
