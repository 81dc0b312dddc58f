//! The answer to every request: the node that serves it, or the reason why it is not served and the
//! smallest change that would help. All requests of a group have the same answer; but of what serves only the first of
//! them, the others are told that it serves others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mig::ProfileName;

use super::Decision;
use super::allocate::Allocation;
use super::change::PolicyChange;
use super::group::{Group, counts, is_planned};
use super::ineligible::no_node;
use super::instead;
use super::memo::Memo;
use super::most::{TooMany, most_of, too_many};
use super::pieces;
use super::seats::Seats;
use super::single;
use super::supply::{hold, is_frozen};
use super::trial::{Advice, Inputs, Trials, Tried};
use super::world::World;
use crate::demand::{Refusal, Request};
use crate::eligible::{Eligibility, Ineligible, Judge, judge};
use crate::inventory::{Gpu, Node, Seating};
use crate::names::{GpuId, NodeName, PolicyName, RequestId};
use crate::offered::Offered;
use crate::predicted_labels::LabelsAfter;
use crate::report::{Help, Outcome, Report, RequestReport, Why};
use crate::solver::SolveError;

/// The answers, highest priority first, then oldest.
/// `meets_floors`: whether the plan reaches every static layout and every floor.
pub(super) fn requests(
    world: &World<'_>,
    allocation: &Allocation<'_>,
    seats: &Seats<'_>,
    requests: &[Request],
    (meets_floors, advice): (bool, Advice<'_>),
    memo: &mut Memo,
) -> Vec<RequestReport> {
    let mut judge = Judge::new(world.inventory);
    let inputs = Inputs::new(world, requests);
    let mut trials = Trials::new(&inputs, world, allocation, meets_floors, advice, memo);
    let group_of: BTreeMap<&RequestId, usize> = world
        .groups
        .iter()
        .enumerate()
        .flat_map(|(g, group)| group.requests.iter().map(move |request| (&request.id, g)))
        .collect();
    let mut answers: BTreeMap<(usize, Option<Own<'_>>), (Why, Vec<Tried>)> = BTreeMap::new();
    // How many of each group were told already: those who come first are answered first.
    let mut told: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open: BTreeMap<Own<'_>, bool> = BTreeMap::new();
    let is_served = |id: &RequestId| allocation.served.contains_key(id) || group_of.contains_key(id);
    let of_single =
        single::free_for(world, requests.iter().filter(|r| !is_served(&r.id) && refusal(r, seats).is_none()));
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by(|a, b| {
        (-i64::from(a.priority), a.since, &a.id).cmp(&(-i64::from(b.priority), b.since, &b.id))
    });
    sorted
        .into_iter()
        .map(|request| {
            let outcome = match (allocation.served.get(&request.id), group_of.get(&request.id)) {
                (Some(served), _) => {
                    let (node, gpus) = (served.node.clone(), served.slices.clone());
                    if served.by_plan {
                        Outcome::ServedByPlan { node, gpus }
                    } else {
                        Outcome::ServedNow { node, gpus }
                    }
                }
                (None, Some(g)) => {
                    let unplaced = allocation.unplaced.contains(&request.id);
                    let nodes = judge.nodes_for(request);
                    let of_all = Own { nodes: Arc::as_ptr(&nodes).cast(), namespace: &request.id.namespace };
                    let is_open = *open.entry(of_all).or_insert_with(|| has_open(world, request, &nodes));
                    let (why, help) =
                        answers.entry((*g, (!is_open).then_some(of_all))).or_insert_with(|| {
                            let group = &world.groups[*g];
                            if is_open {
                                return answer(world, allocation, &mut trials, group, &nodes);
                            }
                            // Whoever may use no node is in one group, whatever keeps each of them off.
                            let alone = group.alone(request);
                            answer(world, allocation, &mut trials, &alone, &nodes)
                        });
                    let behind = told.entry(*g).or_default();
                    let help = Tried::told(help, *behind);
                    *behind += 1;
                    // The numbers had a slice for it: what no node has is room.
                    let alone = request.wants().map(|(_, n)| n).sum::<u32>() == 1;
                    let why = if unplaced && alone { Why::NoRoom } else { why.clone() };
                    Outcome::Unserved { why, help }
                }
                (None, None) => match of_single.get(&request.id) {
                    Some(node) => Outcome::ServedNow { node: node.clone(), gpus: vec![] },
                    None => not_planned(world, request, seats),
                },
            };
            let policy = seats.policy(&request.id).or_else(|| policy_for(world, request, &outcome));
            RequestReport { id: request.id.clone(), policy, outcome, broken: None }
        })
        .collect()
}

/// What two requests have in common of which the same nodes are kept off by the same, and whom the same policies count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Own<'r> {
    /// The judgements of the nodes, which those who are alike share.
    nodes: *const Eligibility,
    namespace: &'r str,
}

/// Whether a request may use any node, whose policy counts it.
fn has_open(world: &World<'_>, request: &Request, nodes: &[Eligibility]) -> bool {
    let mut may = world.inventory.nodes.iter().zip(nodes).filter(|(_, eligible)| eligible.is_yes());
    may.any(|((name, _), _)| world.policy_of(name).is_some_and(|policy| counts(policy, request)))
}

/// The policy that answers a request: that of the node that serves it, else
/// the first that counts it.
fn policy_for(world: &World<'_>, request: &Request, outcome: &Outcome) -> Option<PolicyName> {
    match outcome {
        Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
            world.assignment.policy_of.get(node).cloned()
        }
        Outcome::Unserved { .. } => world
            .policies
            .iter()
            .filter(|policy| {
                counts(policy, request) && world.assignment.nodes_of(&policy.name).next().is_some()
            })
            // Of several, one that offers what is asked for.
            .min_by_key(|policy| request.whole_gpus > 0 && !policy.layout.offers_whole_gpus())
            .map(|policy| policy.name.clone()),
    }
}

/// The answer to a request, if it follows from itself, or from GPUs that are not cut.
fn refusal(request: &Request, seats: &Seats<'_>) -> Option<Outcome> {
    if let Some(Refusal { why, advice }) = &request.refused {
        let help = vec![Help::ChangeRequest { advice: advice.clone() }];
        return Some(Outcome::Unserved { why: Why::Refused { why: why.clone() }, help });
    }
    if let Some(message) = &request.blocked_elsewhere {
        let why = Why::BlockedElsewhere { message: message.clone() };
        return Some(Outcome::Unserved { why, help: vec![] });
    }
    if let Some(node) = &request.finds {
        return Some(Outcome::Unserved { why: Why::Elsewhere { node: node.clone() }, help: vec![] });
    }
    if let Some(outcome) = seats.answer(&request.id) {
        return Some(outcome);
    }
    (!request.shared.is_empty()).then(|| {
        let advice = "ask for one kind of GPU, or make several pods of it".to_owned();
        Outcome::Unserved { why: Why::SeveralKinds, help: vec![Help::ChangeRequest { advice }] }
    })
}

/// The answer to a request that takes no part in planning.
fn not_planned(world: &World<'_>, request: &Request, seats: &Seats<'_>) -> Outcome {
    debug_assert!(!is_planned(request) || request.whole_gpus > 0, "every other request is in a group");
    if let Some(outcome) = refusal(request, seats) {
        return outcome;
    }
    if let Some((why, help)) = single::answer(world, request) {
        return Outcome::Unserved { why, help };
    }
    if let Some((why, help)) = shared_by_others(world, request) {
        return Outcome::Unserved { why, help };
    }
    let advice =
        "ask for slices, such as nvidia.com/mig-1g.10gb: 1, or use nodes with whole GPUs: those outside of every policy, of a DemandDriven policy with `wholeGpus`, or of a Static policy with `mig: Disabled`".to_owned();
    Outcome::Unserved { why: Why::WholeGpu, help: vec![Help::ChangeRequest { advice }] }
}

/// Whole GPUs, where those that it could have otherwise are shared under a name of their own.
fn shared_by_others(world: &World<'_>, request: &Request) -> Option<(Why, Vec<Help>)> {
    let renamed = |eligible: &Eligibility| match eligible.reason() {
        Some(Ineligible::SharesGpus { sharing }) => sharing.renamed,
        _ => false,
    };
    Judge::new(world.inventory).nodes_for(request).iter().any(renamed).then(|| {
        let offered = Offered::SharedGpu;
        let advice =
            format!("ask for {} instead, if it may share the GPU with others", offered.resource_name());
        let why = Why::OtherName { asks: Offered::WholeGpu, offered: Some(offered) };
        (why, vec![Help::ChangeRequest { advice }])
    })
}

/// Why a group's unserved requests are not served, and what would help how many of them.
fn answer(
    world: &World<'_>,
    allocation: &Allocation<'_>,
    trials: &mut Trials<'_, '_>,
    group: &Group<'_>,
    eligible: &Arc<[Eligibility]>,
) -> (Why, Vec<Tried>) {
    let each = |(why, help): (Why, Vec<Help>)| (why, help.into_iter().map(Tried::each).collect());
    let nodes: Vec<(&NodeName, &Node)> = world.inventory.nodes.iter().collect();
    let may: Vec<(&NodeName, &Node)> =
        nodes.iter().zip(eligible.iter()).filter(|(_, e)| e.is_yes()).map(|(node, _)| *node).collect();
    if may.is_empty() {
        let none_is_cut = nodes.iter().all(|(_, node)| node.gpus.is_empty());
        let answer = if none_is_cut { never_cut(world, group) } else { None };
        return each(answer.unwrap_or_else(|| no_node(world.inventory.nodes.keys().zip(eligible.iter()))));
    }
    let counted: Vec<(&NodeName, &Node)> = may
        .iter()
        .copied()
        .filter(|(name, _)| {
            world.policy_of(name).is_some_and(|policy| {
                counts(policy, group.requests[0]) && (group.whole == 0 || policy.layout.offers_whole_gpus())
            })
        })
        .collect();
    if counted.is_empty() {
        return (Why::NoPolicy, vec![]);
    }
    if counted.iter().all(|(_, node)| node.gpus.is_empty())
        && let Some(answer) = never_cut(world, group)
    {
        return each(answer);
    }
    if let Some(answer) = no_profile(group, &counted) {
        return each(answer);
    }
    let too_many = too_many(world, group, &counted);
    if let Some(TooMany { why, help, by_policy: false }) = too_many {
        return each((why, help.into_iter().collect()));
    }
    if let Some(answer) = never_together(group, &counted) {
        return each(answer);
    }
    let change = trials.policy_change(group);
    let mut help = trials.help(group, &counted, change.clone());
    help.extend(too_many.iter().filter_map(|too_many| too_many.help.clone()).map(Tried::each));
    // Whoever asks for it instead gets it.
    help.extend(instead::free_now(world, allocation, group, &counted).map(Tried::each));
    let frozen = counted.iter().flat_map(|(name, node)| {
        let gpus = node.gpus.iter().filter(|(_, gpu)| is_frozen(node, gpu) && could_serve(gpu, group));
        gpus.map(|(index, _)| GpuId { node: (*name).clone(), gpu: *index })
    });
    let frozen: Vec<GpuId> = frozen.collect();
    let why = if let Some(PolicyChange { policy, field, .. }) = change {
        Why::PolicyForbids { policy, field }
    } else if let Some(TooMany { why, .. }) = too_many {
        why
    } else if trials.is_short_of_room(group) {
        Why::NoRoom
    } else if trials.is_held(group) {
        let able = counted.iter().filter(|(_, node)| node.gpus.values().any(|gpu| could_serve(gpu, group)));
        let held = able.filter_map(|(name, node)| Some(((*name).clone(), hold(node)?.clone())));
        Why::Held { nodes: held.collect() }
    } else if group.whole == 0 && !frozen.is_empty() && trials.is_unprovable(group) {
        Why::IdlenessNotProvable { gpus: frozen }
    } else if let Some(policy) = trials.oldest_first(world, group) {
        Why::NotItsTurn { policy }
    } else if group.whole > 0 {
        Why::NoIdleNode
    } else if pieces::are_enough(allocation, group, &counted) {
        Why::Fragmented
    } else {
        Why::AllUsed
    };
    (why, help)
}

/// Whether a GPU can have any of the slices that the group asks for.
fn could_serve(gpu: &Gpu, group: &Group<'_>) -> bool {
    let has = |profile| gpu.geometry.profile_named(profile).is_some();
    group.whole > 0 || group.wants().filter_map(|(offered, _)| offered.profile()).any(has)
}

/// Several slices that no node could have at the same time: by what they need of all its GPUs together.
fn never_together(group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<(Why, Vec<Help>)> {
    let slices = || group.slices.iter().map(|(profile, n)| (*profile, *n));
    // Of seats it is not looked at.
    if !group.shared.is_empty()
        || slices().count() < 2
        || nodes.iter().any(|(_, node)| pieces::may_have(node, group))
    {
        return None;
    }
    let advice = "ask for less, or make several pods of it".to_owned();
    let why = Why::NeverTogether { slices: slices().collect() };
    Some((why, vec![Help::ChangeRequest { advice }]))
}

/// Slices, where nothing is cut: the nodes that it may use have whole GPUs, for one pod each or for several.
fn never_cut(world: &World<'_>, group: &Group<'_>) -> Option<(Why, Vec<Help>)> {
    let (offered, _) = group.wants().find(|(offered, _)| offered.profile().is_some())?;
    let asks = group.requests[0];
    // Beside shared GPUs some are cut, and the planner knows of them.
    let is_cut =
        |name: &NodeName| world.inventory.nodes.get(name).is_some_and(|node: &Node| !node.gpus.is_empty());
    let may = |(name, seating): &(&NodeName, &Seating)| {
        !is_cut(name) && judge(asks, name, &seating.node, &LabelsAfter::predict(&seating.node)).is_yes()
    };
    let uncut: Vec<(&NodeName, &Seating)> = world.inventory.seating.iter().filter(may).collect();
    let (_, first) = uncut.first()?;
    let advice = match first.offers() {
        Offered::SharedGpu => "if it may share the GPU with others",
        _ if first.sharing.replicas > 1 => "which it shares with others there",
        _ => "a GPU for itself",
    };
    let advice = format!("ask for {} instead, {advice}", first.offers().resource_name());
    let nodes = uncut.iter().map(|(name, seating)| ((*name).clone(), seating.card.clone())).collect();
    let why = Why::NeverCut { profile: offered.profile()?, nodes };
    Some((why, vec![Help::ChangeRequest { advice }]))
}

/// A profile that no GPU has.
fn no_profile(group: &Group<'_>, nodes: &[(&NodeName, &Node)]) -> Option<(Why, Vec<Help>)> {
    for (offered, _) in group.wants() {
        let Some(profile) = offered.profile() else { continue };
        let most = nodes.iter().map(|(_, node)| most_of(node, offered)).max().unwrap_or(0);
        if most == 0
            && let Some(answer) = other_name(offered, profile, nodes)
        {
            return Some(answer);
        }
        if most == 0 {
            let there: BTreeSet<ProfileName> = nodes
                .iter()
                .flat_map(|(_, node)| node.gpus.values())
                .flat_map(|gpu| gpu.geometry.profiles().iter().map(|p| p.name))
                .collect();
            let nearest = there.into_iter().min_by_key(|other| instead::unlikeness(profile, *other));
            let help = nearest.map(|nearest| Help::ChangeRequest {
                advice: format!("ask for {} instead of {}", nearest.resource_name(), profile.resource_name()),
            });
            return Some((Why::NoSuchProfile { profile }, help.into_iter().collect()));
        }
    }
    None
}

/// The nodes have such slices, and offer them under another name: shared, or not shared.
fn other_name(asks: Offered, profile: ProfileName, nodes: &[(&NodeName, &Node)]) -> Option<(Why, Vec<Help>)> {
    let has = |node: &Node| node.gpus.values().any(|gpu| gpu.geometry.profile_named(profile).is_some());
    let (_, node) = nodes.iter().find(|(_, node)| has(node))?;
    let (offered, _) = node.seats_of(profile);
    let advice = match offered {
        Offered::SharedSlice(_) => "if it may share the slice with others",
        _ => "a slice for itself",
    };
    let advice = format!("ask for {} instead, {advice}", offered.resource_name());
    let why = Why::OtherName { asks, offered: Some(offered) };
    (offered != asks).then(|| (why, vec![Help::ChangeRequest { advice }]))
}

/// The decision where there is no plan: nothing changes, and every request is
/// told. Instances whose rows can always be met, as ours can, come to it only
/// by a bug of ours.
pub(super) fn gave_up(requests: &[Request], error: &SolveError) -> Decision {
    let reports = requests.iter().map(|request| RequestReport {
        id: request.id.clone(),
        policy: None,
        outcome: Outcome::Unserved { why: Why::NoPlan { why: error.to_string() }, help: vec![] },
        broken: None,
    });
    let report =
        Report { requests: reports.collect(), gave_up: Some(error.to_string()), ..Report::default() };
    Decision { report, ..Decision::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn who_asks_is_told_that_there_is_no_plan_and_nothing_changes() {
        let requests = [request("a").asks("1g.10gb", 1).build()];
        let Decision { plan, report } = gave_up(&requests, &SolveError::NotFound { nodes: 5 });
        assert!(plan.steps.is_empty());
        assert_eq!(report.gave_up.as_deref(), Some("no solution was found within 5 nodes"));
        let Outcome::Unserved { why, help } = &report.requests[0].outcome else { panic!("{report:?}") };
        let said = why.to_string();
        assert!(said.contains("the planner gave up and changes nothing") && help.is_empty(), "{said}");
    }
}
