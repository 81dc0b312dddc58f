//! Seats of GPUs that are not cut. Nothing is decided about them: they are there, and the scheduler alone gives
//! them away. So what is said here follows from who holds them, and from who comes first: the highest priority,
//! then the oldest, each on the first node that has enough free for it.
//!
//! What would help is proved by such a placing: a pod whose end makes room for one more, or for one who asks alike and comes first,
//! and so many more GPUs that everybody who waits for the resource at a priority or above it has a seat.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::group::counts;
use super::ineligible::no_node;
use crate::demand::Request;
use crate::eligible::{Eligibility, Judge, judge};
use crate::inventory::{Hold, Inventory, Node, Room, Seating};
use crate::names::{NodeName, PodRef, PolicyName, RequestId};
use crate::offered::Offered;
use crate::policy::Policy;
use crate::predicted_labels::LabelsAfter;
use crate::report::{HeldSeats, Help, Outcome, SeatSupply, Why};
use crate::selector;

/// How many pods are looked at for one whose end would help.
const PODS: usize = 24;

/// The answers to those who wait for a GPU that is not cut.
#[derive(Debug, Default)]
pub(super) struct Seats<'w> {
    nodes: Vec<Place<'w>>,
    waiting: Vec<Waiting<'w>>,
    position: BTreeMap<&'w RequestId, usize>,
}

/// A node with its policy.
#[derive(Debug)]
struct Place<'w> {
    name: &'w NodeName,
    seating: &'w Seating,
    policy: Option<&'w Policy>,
}

/// Somebody who waits.
#[derive(Debug)]
struct Waiting<'w> {
    request: &'w Request,
    asks: Offered,
    n: u32,
    /// Of every node, whether it may use it.
    eligible: Arc<[Eligibility]>,
    /// The node that has a seat for it.
    placed: Option<usize>,
    /// What every node had left when it was its turn, where it was not placed; one list for all between two that were.
    left: Arc<[u32]>,
    /// The policy that answers it.
    policy: Option<&'w Policy>,
}

impl<'w> Waiting<'w> {
    /// The first policy by name whose nodes offer what it asks for and that counts it.
    fn first_policy(&self, nodes: &[Place<'w>]) -> Option<&'w Policy> {
        let mine = nodes.iter().enumerate().filter(|(i, place)| self.may_use(*i, place.seating));
        let policies =
            mine.filter_map(|(_, place)| place.policy).filter(|policy| counts(policy, self.request));
        policies.min_by(|a, b| a.name.cmp(&b.name))
    }

    /// Whether it may have a seat of a node, now or once somebody has left.
    fn may_use(&self, place: usize, seating: &Seating) -> bool {
        seating.offers() == self.asks && self.eligible[place].is_yes()
    }

    /// Whether nothing tells two requests apart.
    fn is_like(&self, other: &Self) -> bool {
        self.asks == other.asks
            && self.n == other.n
            && self.request.priority == other.request.priority
            && Arc::ptr_eq(&self.eligible, &other.eligible)
    }
}

impl<'w> Seats<'w> {
    /// Looks at everybody who waits, and is not planned for.
    pub(super) fn new(
        inventory: &'w Inventory,
        policies: &[&'w Policy],
        requests: &'w [Request],
        is_planned: impl Fn(&RequestId) -> bool,
    ) -> Self {
        let asks = |request: &'w Request| {
            let (asks, n) = request.seats()?;
            let is_open = request.refused.is_none() && request.blocked_elsewhere.is_none();
            (is_open && !is_planned(&request.id)).then_some((request, asks, n))
        };
        let owner = |node: &Node| {
            let selecting =
                policies.iter().filter(|p| !p.nodes.is_empty() && selector::matches(&p.nodes, &node.labels));
            selecting.min_by_key(|p| (Reverse(p.priority), &p.name)).copied()
        };
        let place = |(name, seating): (&'w NodeName, &'w Seating)| Place {
            name,
            seating,
            policy: owner(&seating.node),
        };
        let nodes: Vec<Place<'w>> = inventory.seating.iter().map(place).collect();
        let mut asking: Vec<_> = requests.iter().filter_map(asks).collect();
        if asking.is_empty() {
            return Self { nodes, ..Self::default() };
        }
        asking.sort_by_key(|(request, _, _)| (Reverse(request.priority), request.since, &request.id));
        let judged = inventory.seating.iter().map(|(name, seating)| (name.clone(), seating.node.clone()));
        let judged = Inventory { nodes: judged.collect(), ..Inventory::default() };
        let mut judge = Judge::new(&judged);
        let free = |place: &Place<'_>| match place.seating.node.schedulable {
            true => place.seating.total().saturating_sub(place.seating.held()),
            false => 0,
        };
        let mut left: Arc<[u32]> = nodes.iter().map(free).collect();
        let mut waiting: Vec<Waiting<'w>> = Vec::new();
        for (request, asks, n) in asking {
            let eligible = judge.nodes_for(request);
            let mut one =
                Waiting { request, asks, n, eligible, placed: None, left: Arc::default(), policy: None };
            one.policy = one.first_policy(&nodes);
            one.placed = (0..nodes.len()).find(|i| one.may_use(*i, nodes[*i].seating) && left[*i] >= n);
            match one.placed {
                Some(i) => Arc::make_mut(&mut left)[i] -= n,
                None => one.left = Arc::clone(&left),
            }
            waiting.push(one);
        }
        let position = waiting.iter().enumerate().map(|(i, one)| (&one.request.id, i)).collect();
        Self { nodes, waiting, position }
    }

    /// The answer to a request; nothing for one that asks for whole GPUs and may use none of these nodes.
    pub(super) fn answer(&self, id: &RequestId) -> Option<Outcome> {
        let one = &self.waiting[*self.position.get(id)?];
        if let Some(i) = one.placed {
            return Some(Outcome::ServedNow { node: self.nodes[i].name.clone(), gpus: vec![] });
        }
        let (why, help) = self.why(one)?;
        Some(Outcome::Unserved { why, help })
    }

    /// Why a request waits, and what would help.
    fn why(&self, one: &Waiting<'_>) -> Option<(Why, Vec<Help>)> {
        let indices = 0..self.nodes.len();
        let offering: Vec<usize> =
            indices.clone().filter(|i| self.nodes[*i].seating.offers() == one.asks).collect();
        let usable: Vec<usize> = offering.iter().copied().filter(|i| one.eligible[*i].is_yes()).collect();
        if usable.is_empty() {
            return self.of_none(one, &offering);
        }
        let total = |i: &usize| self.nodes[*i].seating.total();
        let most = usable.iter().map(total).max().unwrap_or(0);
        if most < one.n {
            let advice = format!("ask for at most {most} of {}", one.asks.resource_name());
            let why = Why::TooLarge { most, profile: one.asks };
            return Some((why, vec![Help::ChangeRequest { advice }]));
        }
        let open: Vec<usize> =
            usable.iter().copied().filter(|i| self.nodes[*i].seating.node.schedulable).collect();
        let help = self.holder(one, &open).into_iter().chain(self.enough(one, &usable));
        let mut help: Vec<Help> = help.collect();
        help.sort_by_key(|help| matches!(help, Help::ForOthers { .. }));
        if open.is_empty() {
            let hold = |i: &usize| self.nodes[*i].seating.node.hold.clone().unwrap_or(Hold::NotReady);
            let nodes = usable.iter().map(|i| (self.nodes[*i].name.clone(), hold(i))).collect();
            return Some((Why::Held { nodes }, help));
        }
        let held = |i: &usize| {
            let Place { name, seating, .. } = &self.nodes[*i];
            HeldSeats {
                node: (*name).clone(),
                replicas: seating.sharing.replicas,
                total: seating.total(),
                held: seating.held(),
                by: seating.held.keys().cloned().collect(),
            }
        };
        let why = Why::SeatsHeld { asks: one.asks, nodes: open.iter().map(held).collect() };
        Some((why, help))
    }

    /// The answer to somebody who may use no node that offers what it asks for.
    fn of_none(&self, one: &Waiting<'_>, offering: &[usize]) -> Option<(Why, Vec<Help>)> {
        let may = (0..self.nodes.len()).filter(|i| one.eligible[*i].is_yes());
        let other = may.map(|i| self.nodes[i].seating.offers()).next();
        if let Some(other) = other {
            let advice = match other {
                Offered::SharedGpu => "if it may share the GPU with others",
                _ => "if it needs the GPU for itself, or as that node shares it",
            };
            let advice = format!("ask for {} instead, {advice}", other.resource_name());
            let why = Why::OtherName { asks: one.asks, offered: Some(other) };
            return Some((why, vec![Help::ChangeRequest { advice }]));
        }
        let judged = offering.iter().map(|i| (self.nodes[*i].name, &one.eligible[*i]));
        if one.asks == Offered::WholeGpu {
            // Whoever means other nodes is told of all ways to a whole GPU; room is looked at last, so that a node
            // without it is one that is meant.
            let full: Vec<_> = judged.filter(|(_, eligibility)| eligibility.lacks_room()).collect();
            return (!full.is_empty()).then(|| no_node(full.into_iter()));
        }
        if offering.is_empty() {
            let advice = "ask for nvidia.com/gpu or for slices; a policy with `sharing` and `rename: true` offers shared GPUs";
            let help = vec![Help::ChangeRequest { advice: advice.to_owned() }];
            return Some((Why::OtherName { asks: one.asks, offered: None }, help));
        }
        Some(no_node(judged))
    }

    /// The pod with the fewest seats whose end makes room for it; else for one of those who ask alike and come before it.
    fn holder(&self, one: &Waiting<'_>, open: &[usize]) -> Option<Help> {
        let holders = open.iter().flat_map(|i| {
            let pods = self.nodes[*i].seating.held.iter();
            pods.map(|(pod, n)| (*n, pod, *i)).collect::<Vec<_>>()
        });
        let mut holders: Vec<(u32, &PodRef, usize)> = holders.filter(|(n, _, _)| *n > 0).collect();
        holders.sort_unstable();
        let before = self.waiting.iter().take_while(|other| other.request.id != one.request.id);
        // Whoever comes first and asks for something else takes what becomes free.
        let before = before.filter(|other| other.placed.is_none());
        let (alike, before): (Vec<&Waiting<'_>>, Vec<&Waiting<'_>>) =
            before.partition(|other| other.is_like(one));
        let mut for_others = None;
        let own = holders.into_iter().take(PODS).find_map(|(n, pod, i)| {
            let seating = self.nodes[i].seating;
            let held = seating.held().saturating_sub(n);
            let taken = seating.total().saturating_sub(seating.held()).saturating_sub(one.left[i]);
            let mut left = seating.total().saturating_sub(held).saturating_sub(taken);
            for other in before.iter().filter(|other| other.may_use(i, seating)) {
                left -= if other.n <= left { other.n } else { 0 };
            }
            let (pod, node) = (pod.clone(), self.nodes[i].name.clone());
            // Those who ask alike and come first take it before this one does.
            let serves = usize::try_from(left / one.n.max(1)).unwrap_or(usize::MAX);
            let help = Help::HolderEnds { pod, node, holds: one.asks };
            if serves > alike.len() {
                return Some(help);
            }
            if serves > 0 && for_others.is_none() {
                for_others = Some(Help::ForOthers { help: Box::new(help) });
            }
            None
        });
        own.or(for_others)
    }

    /// So many more GPUs that everybody who waits for the resource at this priority or above it has a seat.
    fn enough(&self, one: &Waiting<'_>, usable: &[usize]) -> Option<Help> {
        let like =
            usable.iter().map(|i| &self.nodes[*i]).find(|place| one.n <= place.seating.sharing.replicas)?;
        let replicas = like.seating.sharing.replicas;
        let empty =
            Node { room: Room::UNLIMITED, schedulable: true, hold: None, ..like.seating.node.clone() };
        let after = LabelsAfter::predict(&empty);
        let mut wait: Vec<u32> = Vec::new();
        for other in self.waiting.iter().filter(|other| {
            other.placed.is_none() && other.asks == one.asks && other.request.priority >= one.request.priority
        }) {
            let may = judge(other.request, like.name, &empty, &after).is_yes();
            if !may || other.n > replicas {
                return None;
            }
            wait.push(other.n);
        }
        // The largest first, each onto the first GPU that has enough left.
        wait.sort_unstable_by_key(|n| Reverse(*n));
        let mut left: Vec<u32> = Vec::new();
        for n in wait {
            match left.iter_mut().find(|left| **left >= n) {
                Some(left) => *left -= n,
                None => left.push(replicas - n),
            }
        }
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        let (card, asks) = (like.seating.card.clone(), one.asks);
        (count > 0).then_some(Help::EnoughSeats { count, card, replicas, asks })
    }

    /// The policy that answers a request.
    pub(super) fn policy(&self, id: &RequestId) -> Option<PolicyName> {
        let one = &self.waiting[*self.position.get(id)?];
        one.policy.map(|policy| policy.name.clone())
    }

    /// Supply and demand of a policy's nodes.
    pub(super) fn supply(&self, policy: &PolicyName) -> BTreeMap<Offered, SeatSupply> {
        let mut all: BTreeMap<Offered, SeatSupply> = BTreeMap::new();
        for Place { seating, .. } in
            self.nodes.iter().filter(|place| place.policy.is_some_and(|of| of.name == *policy))
        {
            let supply = all.entry(seating.offers()).or_default();
            supply.devices = supply.devices.saturating_add(seating.gpus);
            supply.total = supply.total.saturating_add(seating.total());
            supply.planned = supply.total;
            supply.held = supply.held.saturating_add(seating.held());
        }
        for one in &self.waiting {
            if one.policy.is_some_and(|of| of.name == *policy)
                && let Some(supply) = all.get_mut(&one.asks)
            {
                supply.requested = supply.requested.saturating_add(one.n);
                let unserved = if one.placed.is_none() { one.n } else { 0 };
                supply.unserved = supply.unserved.saturating_add(unserved);
            }
        }
        all
    }
}
