//! Groups of demand: requests for the same slices that may use the same nodes are planned as a number.
//! Nodes that have to be considered individually: those on which a request needs several slices, and those
//! whose CPU, memory, ephemeral storage or pod slots may run out.

use std::collections::{BTreeMap, HashMap, HashSet};

use mig::ProfileName;

use super::shares::{Whose, of_request};
use crate::demand::{Constraints, Request};
use crate::eligible::Judge;
use crate::inventory::{Inventory, Node, Room};
use crate::offered::Offered;
use crate::policy::{LayoutPolicy, Policy};
use crate::selector;
use crate::solver::MANY_THINGS;

/// Whether a node has to be looked at by itself: only so are "all on one node"
/// and "no more than there is room for" exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alone {
    /// It shares a cell with nodes that are like it.
    No,
    /// Requests for several slices may use it.
    ForSeveralSlices,
    /// Its room may run out.
    ForItsRoom,
    /// There are hundreds of kinds of requests, and elsewhere room runs out: where nodes are looked at one by one anyhow, those
    /// that share a cell would need a row for each kind.
    AmongMany,
}

/// Requests that ask for the same, with the same priority, and may use the
/// same nodes.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) slices: &'a BTreeMap<ProfileName, u32>,
    /// Whole GPUs; who asks for some asks for no slices.
    pub(super) whole: u32,
    /// Seats of slices that several pods share.
    pub(super) shared: &'a BTreeMap<Offered, u32>,
    /// What each of them weighs: as many compute slices as the largest card has
    /// of the nodes that it may use. So seven requests for one slice and one for
    /// a whole GPU are equals.
    whole_weight: i64,
    pub(super) priority: i32,
    /// Whether they are of gangs that have their part of the cluster: who is one of several comes before all others of its priority.
    pub(super) of_gang: bool,
    /// Oldest first.
    pub(super) requests: Vec<&'a Request>,
    /// By position in `Inventory::nodes`.
    pub(super) nodes: Vec<bool>,
    /// What each of them takes of a node, where that is counted; else the most.
    pub(super) takes: Room,
    /// The shares that they have.
    pub(super) shares: Vec<Whose>,
}

/// What requests have in common that are one another's equals to any node: all but their priorities.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Kind<'g> {
    slices: &'g BTreeMap<ProfileName, u32>,
    whole: u32,
    shared: &'g BTreeMap<Offered, u32>,
    nodes: &'g [bool],
    takes: Room,
    shares: &'g [Whose],
}

impl<'a> Group<'a> {
    /// What it has in common with groups of other priorities.
    pub(super) fn kind(&self) -> Kind<'_> {
        let Self { slices, whole, shared, nodes, takes, shares, .. } = self;
        Kind { slices, whole: *whole, shared, nodes, takes: *takes, shares }
    }

    /// The same of one of its requests alone.
    pub(super) fn alone(&self, request: &'a Request) -> Self {
        Self { requests: vec![request], ..self.clone() }
    }

    /// Compute slices that one request of the group asks for: what being
    /// served is worth within its priority.
    pub(super) fn weight(&self) -> i64 {
        self.wants().map(|(offered, n)| offered.weight(self.whole_weight) * i64::from(n)).sum()
    }

    /// What each of its requests wants, and how much of it.
    pub(super) fn wants(&self) -> impl Iterator<Item = (Offered, u32)> {
        wants((self.slices, self.whole, self.shared))
    }
}

/// Slices, whole GPUs, and seats of slices.
type Wishes<'a> = (&'a BTreeMap<ProfileName, u32>, u32, &'a BTreeMap<Offered, u32>);

fn wants((slices, whole, shared): Wishes<'_>) -> impl Iterator<Item = (Offered, u32)> {
    let slices = slices.iter().map(|(profile, n)| (Offered::Slice(*profile), *n));
    let all = slices.chain((whole > 0).then_some((Offered::WholeGpu, whole)));
    all.chain(shared.iter().map(|(offered, n)| (*offered, *n)))
}

/// Groups, highest priority first, and for every node of the inventory
/// whether it is alone.
pub(super) fn group<'a>(
    inventory: &'a Inventory,
    requests: &'a [Request],
    policies: &[&Policy],
    policy_of: &[Option<usize>],
) -> (Vec<Group<'a>>, Vec<Alone>) {
    let mut judge = Judge::new(inventory);
    let has_shares = policies.iter().any(
        |policy| matches!(&policy.layout, LayoutPolicy::DemandDriven { shares, .. } if !shares.is_empty()),
    );
    let mut groups: BTreeMap<Key<'a>, Vec<&'a Request>> = BTreeMap::new();
    for alike in alike(requests, has_shares) {
        let request = alike[0];
        let counted: Vec<bool> = policies.iter().map(|policy| counts(policy, request)).collect();
        let eligible = judge.nodes_for(request);
        // Who asks for whole GPUs asks those policies that offer any; where there is none, it is told so.
        let offers = |policy: usize| request.whole_gpus == 0 || policies[policy].layout.offers_whole_gpus();
        let mut asked = eligible.iter().zip(policy_of).filter(|(eligible, _)| eligible.is_yes());
        if request.whole_gpus > 0 && !asked.any(|(_, policy)| policy.is_some_and(|p| counted[p] && offers(p)))
        {
            continue;
        }
        let open: Vec<bool> = (eligible.iter().zip(policy_of))
            .map(|(eligible, policy)| eligible.is_yes() && policy.is_none_or(|p| counted[p] && offers(p)))
            .collect();
        let schedulable = inventory.nodes.values().map(|node| node.schedulable);
        let nodes: Vec<bool> = open.iter().zip(schedulable).map(|(open, now)| *open && now).collect();
        // Shares count slices.
        let has_shares = has_shares && request.whole_gpus == 0;
        let shares_of = |nodes: &[bool]| {
            let may_use =
                nodes.iter().zip(policy_of).filter(|(may, _)| **may).filter_map(|(_, policy)| *policy);
            if has_shares { of_request(policies, &may_use.collect(), request) } else { vec![] }
        };
        let (shares, open_shares) = (shares_of(&nodes), shares_of(&open));
        let asks = (&request.slices, request.whole_gpus, &request.shared);
        let nodes = Nodes { now: nodes, open, open_shares };
        let first =
            First { priority: std::cmp::Reverse(request.priority), of_gang: request.together.gang.is_some() };
        let key = (first, asks, nodes, request.takes, shares);
        groups.entry(key).or_default().extend(alike);
    }
    let several: Vec<bool> = (0..policy_of.len())
        .map(|i| {
            let is_several = |asks: &Wishes<'_>| wants(*asks).map(|(_, n)| n).sum::<u32>() > 1;
            groups.keys().any(|(_, asks, nodes, _, _)| nodes.now[i] && is_several(asks))
        })
        .collect();
    let tight: Vec<bool> =
        inventory.nodes.values().enumerate().map(|(i, node)| is_tight(i, node, &groups)).collect();
    let alone = several.iter().zip(&tight).map(|(several, tight)| match (several, tight) {
        (_, true) => Alone::ForItsRoom,
        (true, false) => Alone::ForSeveralSlices,
        (false, false) => Alone::No,
    });
    let mut alone: Vec<Alone> = alone.collect();
    let groups = merge(inventory, groups, &alone);
    let kinds = if policies.iter().any(|policy| policy.layout.serves_in_turn()) {
        groups.len()
    } else {
        groups.iter().map(Group::kind).collect::<HashSet<_>>().len()
    };
    if kinds > MANY_THINGS && alone.contains(&Alone::ForItsRoom) {
        alone.iter_mut().filter(|alone| **alone == Alone::No).for_each(|alone| *alone = Alone::AmongMany);
    }
    (groups, alone)
}

/// All of a request by which it is told which group it is in. The namespace is of account only to shares.
#[derive(PartialEq, Eq, Hash)]
struct Asks<'a> {
    priority: i32,
    of_gang: bool,
    slices: &'a BTreeMap<ProfileName, u32>,
    whole_gpus: u32,
    shared: &'a BTreeMap<Offered, u32>,
    constraints: &'a Constraints,
    takes: Room,
    labels: &'a BTreeMap<String, String>,
    namespace: Option<&'a str>,
}

/// The requests that are planned, those that ask alike together: hundreds of pods are of a few kinds, and
/// what is found out of one of a kind holds for all of it.
fn alike(requests: &[Request], has_shares: bool) -> Vec<Vec<&Request>> {
    let mut position: HashMap<Asks<'_>, usize> = HashMap::new();
    let mut alike: Vec<Vec<&Request>> = Vec::new();
    for request in requests.iter().filter(|r| is_planned(r)) {
        let Request {
            priority,
            slices,
            whole_gpus,
            shared,
            constraints,
            takes,
            namespace_labels,
            id,
            together,
            ..
        } = request;
        let namespace = has_shares.then_some(id.namespace.as_str());
        let labels = namespace_labels;
        let asks = Asks {
            priority: *priority,
            of_gang: together.gang.is_some(),
            slices,
            whole_gpus: *whole_gpus,
            shared,
            constraints,
            takes: *takes,
            labels,
            namespace,
        };
        let position = *position.entry(asks).or_insert(alike.len());
        match alike.get_mut(position) {
            Some(known) => known.push(request),
            None => alike.push(vec![request]),
        }
    }
    alike
}

/// Which nodes a request may use: now, and if each were schedulable, with the shares that it would have then.
/// Who differs in the latter is told that other things would help: a cordon that ends helps those that
/// tolerate the node's taints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nodes {
    now: Vec<bool>,
    open: Vec<bool>,
    open_shares: Vec<Whose>,
}

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    priority: std::cmp::Reverse<i32>,
    of_gang: bool,
}

/// Who comes first, what is asked for, nodes, what is taken of a node, and shares.
type Key<'a> = (First, Wishes<'a>, Nodes, Room, Vec<Whose>);

/// Whether a node's room may run out before its slices do: the requests that
/// take most of it, as many as it could ever serve, take more than there is.
fn is_tight(position: usize, node: &Node, groups: &BTreeMap<Key<'_>, Vec<&Request>>) -> bool {
    let slices: usize = node.gpus.values().map(|gpu| usize::from(gpu.geometry.compute())).sum();
    // Of a slice that several share, each of them takes of the room.
    let seats = node.shared.values().map(|sharing| sharing.replicas).max().unwrap_or(1);
    let slices = slices.saturating_mul(usize::try_from(seats).unwrap_or(usize::MAX));
    let here: Vec<(Room, usize)> = groups
        .iter()
        .filter(|((_, _, nodes, _, _), _)| nodes.now[position])
        .map(|((_, _, _, takes, _), requests)| (*takes, requests.len()))
        .collect();
    let runs_out = |of: fn(&Room) -> i64| {
        let mut takes: Vec<(i64, usize)> = here.iter().map(|(takes, n)| (of(takes), *n)).collect();
        takes.sort_by_key(|(takes, _)| std::cmp::Reverse(*takes));
        let (mut sum, mut left) = (0_i64, slices);
        for (takes, n) in takes {
            let n = n.min(left);
            left -= n;
            sum = sum.saturating_add(takes.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)));
        }
        sum > of(&node.room)
    };
    runs_out(|room| room.cpu_milli)
        || runs_out(|room| room.memory_bytes)
        || runs_out(|room| room.storage_bytes)
        || runs_out(|room| room.pods)
}

/// What a request takes of a node matters only where that is counted:
/// elsewhere requests that differ in nothing else are one group.
fn merge<'a>(
    inventory: &Inventory,
    groups: BTreeMap<Key<'a>, Vec<&'a Request>>,
    alone: &[Alone],
) -> Vec<Group<'a>> {
    let mut merged: BTreeMap<_, Group<'a>> = BTreeMap::new();
    for ((first, asks, nodes, takes, shares), requests) in groups {
        let counted = nodes.now.iter().zip(alone).any(|(may, alone)| *may && *alone == Alone::ForItsRoom);
        let key = (first, asks, nodes.clone(), counted.then_some(takes), shares.clone());
        let (slices, whole, shared) = asks;
        let group = merged.entry(key).or_insert_with(|| Group {
            slices,
            whole,
            shared,
            whole_weight: if whole > 0 { largest_card(inventory, &nodes.now) } else { 0 },
            priority: first.priority.0,
            of_gang: first.of_gang,
            requests: vec![],
            nodes: nodes.now,
            takes,
            shares,
        });
        group.requests.extend(requests);
        group.takes = group.takes.max(takes);
    }
    let mut groups: Vec<Group<'a>> = merged.into_values().collect();
    for group in &mut groups {
        group.requests.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    }
    groups
}

/// The most compute slices that a card of these nodes has; of any, where there are none.
fn largest_card(inventory: &Inventory, nodes: &[bool]) -> i64 {
    let of_nodes = |may: fn(bool) -> bool| {
        let nodes = inventory.nodes.values().zip(nodes).filter(move |(_, used)| may(**used));
        nodes.flat_map(|(node, _)| node.gpus.values()).map(|gpu| i64::from(gpu.geometry.compute())).max()
    };
    of_nodes(|used| used).or_else(|| of_nodes(|_| true)).unwrap_or(0)
}

/// Whether a request takes part in planning at all; one for whole GPUs only
/// where a policy offers some.
pub(super) fn is_planned(request: &Request) -> bool {
    let is_seat = |offered: &Offered| matches!(offered, Offered::SharedSlice(_));
    let asks_for_slices =
        request.slices.values().any(|n| *n > 0) || request.shared.iter().any(|(of, n)| is_seat(of) && *n > 0);
    request.blocked_elsewhere.is_none()
        && request.refused.is_none()
        && request.finds.is_none()
        && request.shared.keys().all(is_seat)
        && asks_for_slices != (request.whole_gpus > 0)
}

/// Whether the requests of this one's namespace count for a policy.
pub(super) fn counts(policy: &Policy, request: &Request) -> bool {
    match &policy.layout {
        LayoutPolicy::DemandDriven { namespaces, .. } => {
            selector::matches(namespaces, &request.namespace_labels)
        }
        LayoutPolicy::Static { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{a100, fleet, node, policy, request};

    /// How two nodes are looked at, of which one is short of CPU and the other never is, if so many ask that all differ.
    fn alone_of(kinds: usize) -> Vec<Alone> {
        let plenty = 1 << 40;
        let inventory = fleet()
            .node("short", node().gpu(a100()).room(8_000, plenty, plenty))
            .node("wide", node().gpu(a100()).room(plenty, plenty, plenty))
            .build();
        let ask = |at: usize| {
            let cpu = 1_000 + i64::try_from(at).expect("it is small");
            request(&format!("pod-{at}")).asks("1g.10gb", 1).takes(cpu, 1 << 30).build()
        };
        let requests: Vec<Request> = (0..kinds).map(ask).collect();
        let policy = policy("p").build();
        let (groups, alone) = group(&inventory, &requests, &[&policy], &[Some(0), Some(0)]);
        assert_eq!(groups.len(), kinds, "each is a kind of its own");
        alone
    }

    /// In one cell they would need a row for each kind.
    #[test]
    fn where_hundreds_ask_that_all_differ_no_node_shares_a_cell_if_one_is_looked_at_alone() {
        assert_eq!(alone_of(MANY_THINGS), [Alone::ForItsRoom, Alone::No]);
        assert_eq!(alone_of(MANY_THINGS + 1), [Alone::ForItsRoom, Alone::AmongMany]);
    }
}
