//! Who is served in place of somebody younger, where the oldest come first.
//!
//! On a large fleet thousands wait, and each of them is compared with thousands who are served. So what is compared
//! is looked up by name once, and who could not be served before is not looked for again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::turns::oldest_first;
use super::super::world::World;
use super::{Allocation, Pools};
use crate::demand::Request;
use crate::inventory::Room;
use crate::names::NodeName;
use crate::offered::Offered;
use crate::policy::{LayoutPolicy, Policy, Share};

/// Nobody gets what somebody older of the same priority could have, where the
/// oldest come first. Where it is proved who is served, nothing is left to do.
pub(super) fn exchange<'a>(world: &World<'a>, allocation: &mut Allocation<'a>, pools: &mut Pools<'a>) {
    let mut queue = Queue::new(world, allocation);
    let mut next = 0;
    while next < queue.turns.len() {
        let older = next;
        next += 1;
        if queue.turns[older].served_on.is_some() || queue.is_hopeless(older) {
            continue;
        }
        let Some((younger, node)) = queue.who_makes_room(older, pools) else {
            queue.give_up(older);
            continue;
        };
        let (asks, yields) = (queue.turns[older].request, queue.turns[younger].request);
        let Some(mut served) = allocation.served.remove(&yields.id) else { continue };
        if let Some(pool) = pools.nodes.get_mut(served.node) {
            pool.room = pool.room.plus(yields.takes, 1).plus(asks.takes, -1);
        }
        let mut needs: BTreeMap<Offered, u32> = asks.wants().collect();
        served
            .slices
            .retain(|(_, _, offered)| needs.get_mut(offered).filter(|n| **n > 0).map(|n| *n -= 1).is_some());
        allocation.served.insert(&asks.id, served);
        if !allocation.unplaced.remove(&asks.id) {
            allocation.exchanged.push((asks, yields));
        } else {
            allocation.unplaced.insert(&yields.id);
        }
        queue.exchanged(older, younger, node);
        // A node with more room may have some for those who came before. Each exchange serves somebody older, so this
        // comes to an end.
        if !asks.takes.holds(&yields.takes) {
            queue.hopeless.clear();
            next = 0;
        }
    }
}

/// A request that is served in its turn.
#[derive(Debug)]
struct Turn<'a> {
    request: &'a Request,
    group: usize,
    /// The node on which it is served, by position in `Inventory::nodes`.
    served_on: Option<usize>,
}

/// What is compared of a node.
#[derive(Debug)]
struct Place<'a> {
    name: &'a NodeName,
    /// Whether its policy serves the oldest first.
    in_turn: bool,
    /// What its policy says of shares.
    shares: &'a [Share],
}

/// All who are served in turn: the highest priority first, then the oldest.
#[derive(Debug)]
struct Queue<'w, 'a> {
    world: &'w World<'a>,
    turns: Vec<Turn<'a>>,
    /// By position in `Inventory::nodes`.
    places: Vec<Place<'a>>,
    has_shares: bool,
    /// Those for whom nobody younger could make room. Whoever is like them and comes later may ask fewer, so the
    /// answer is the same, until a node has more room than it had.
    hopeless: BTreeSet<(usize, Room, Option<&'a str>)>,
}

impl<'w, 'a> Queue<'w, 'a> {
    fn new(world: &'w World<'a>, allocation: &Allocation<'a>) -> Self {
        let position: BTreeMap<&NodeName, usize> = world.inventory.nodes.keys().zip(0..).collect();
        let in_turn = (0..world.groups.len()).filter(|g| oldest_first(world, *g).is_some());
        let all = in_turn.flat_map(|g| world.groups[g].requests.iter().map(move |request| (*request, g)));
        let mut turns: Vec<Turn<'a>> = all
            .map(|(request, group)| {
                let served = allocation.served.get(&request.id);
                Turn { request, group, served_on: served.map(|served| position[served.node]) }
            })
            .collect();
        turns.sort_by_key(|turn| (Reverse(turn.request.priority), turn.request.since, &turn.request.id));
        let places: Vec<Place<'a>> = world
            .inventory
            .nodes
            .keys()
            .map(|name| {
                let policy = policy_of(world, name);
                Place {
                    name,
                    in_turn: policy.is_some_and(|policy| policy.layout.serves_in_turn()),
                    shares: policy.map_or(&[], shares_of),
                }
            })
            .collect();
        let has_shares = places.iter().any(|place| !place.shares.is_empty());
        Self { world, turns, places, has_shares, hopeless: BTreeSet::new() }
    }

    /// Of those of its priority who are younger and could make room the youngest, and the node.
    fn who_makes_room(&self, older: usize, pools: &Pools<'_>) -> Option<(usize, usize)> {
        let Turn { request: asks, group, .. } = &self.turns[older];
        let may_use = &self.world.groups[*group].nodes;
        let makes_room = |turn: &Turn<'_>| {
            let node = turn.served_on.filter(|node| may_use[*node])?;
            let (place, younger) = (&self.places[node], turn.request);
            let is_one = place.in_turn
                && younger.covers(asks)
                && is_share_alike(place.shares, asks, younger)
                && pools.nodes.get(place.name)?.room.plus(younger.takes, 1).holds(&asks.takes);
            is_one.then_some(node)
        };
        let same = self.turns[older + 1..].iter().take_while(|turn| turn.request.priority == asks.priority);
        let end = older + 1 + same.count();
        (older + 1..end).rev().find_map(|i| Some((i, makes_room(&self.turns[i])?)))
    }

    /// All that the answer depends on, besides who is younger.
    fn kind(&self, older: usize) -> (usize, Room, Option<&'a str>) {
        let Turn { request, group, .. } = &self.turns[older];
        (*group, request.takes, self.has_shares.then_some(&request.id.namespace))
    }

    fn is_hopeless(&self, older: usize) -> bool {
        self.hopeless.contains(&self.kind(older))
    }

    fn give_up(&mut self, older: usize) {
        self.hopeless.insert(self.kind(older));
    }

    fn exchanged(&mut self, older: usize, younger: usize, node: usize) {
        self.turns[younger].served_on = None;
        self.turns[older].served_on = Some(node);
    }
}

fn policy_of<'a>(world: &World<'a>, node: &NodeName) -> Option<&'a Policy> {
    let name = world.assignment.policy_of.get(node)?;
    world.policies.iter().copied().find(|policy| policy.name == *name)
}

/// What a policy says of shares.
fn shares_of(policy: &Policy) -> &[Share] {
    match &policy.layout {
        LayoutPolicy::DemandDriven { shares, .. } => shares,
        LayoutPolicy::Static { .. } => &[],
    }
}

/// Whether the older one may have what the younger one gets, as far as shares are concerned: it is of the
/// same namespace, and no less is given to a namespace that should have at least so much.
fn is_share_alike(shares: &[Share], older: &Request, younger: &Request) -> bool {
    shares.is_empty()
        || older.id.namespace == younger.id.namespace
            && (older.slices == younger.slices && older.shared == younger.shared
                || shares.iter().all(|share| share.min == 0))
}

#[cfg(test)]
mod tests {
    use super::super::super::memo::Targets;
    use super::super::super::world::Grain;
    use super::super::pools;
    use super::*;
    use crate::testing::{PolicyBuilder, RequestBuilder, a100, fleet, node, policy, request};

    /// A request for a slice that takes so much of a node's CPU, in thousandths.
    fn takes((name, cpu): (&str, i64)) -> RequestBuilder {
        request(name).asks("7g.80gb", 1).takes(cpu, 0)
    }

    /// Who is served of requests, each of which waits longer than the next, if the numbers serve these of them, and the
    /// one node has no room for others.
    fn after(policy: PolicyBuilder, all: Vec<RequestBuilder>, served: &[&str]) -> Vec<String> {
        let requests: Vec<Request> =
            all.into_iter().zip(1..).map(|(request, since)| request.since(since).build()).collect();
        let served: Vec<&Request> =
            requests.iter().filter(|request| served.contains(&request.id.name.as_str())).collect();
        let room = served.iter().map(|request| request.takes.cpu_milli).sum();
        let mut node = node().room(room, 1 << 30, 9);
        for _ in &served {
            node = node.gpu(a100().idle("7g.80gb", 0));
        }
        let inventory = fleet().node("n1", node).build();
        let policies = [policy.build()];
        let world = World::new(&inventory, &requests, &policies, Grain::Nodes, &mut Targets::default());
        let mut pools = pools(&world, &BTreeMap::new());
        let mut allocation = Allocation::default();
        let names: Vec<&NodeName> = inventory.nodes.keys().collect();
        for request in &served {
            let slice = pools.take(&names, request).expect("there is a slice");
            allocation.served.insert(&request.id, slice);
        }
        exchange(&world, &mut allocation, &mut pools);
        let kept = served.iter().filter(|request| allocation.served.contains_key(&request.id)).count();
        assert_eq!(allocation.served.len(), served.len(), "as many as before are served");
        assert_eq!(allocation.exchanged.len(), served.len() - kept, "each exchange is told");
        allocation.served.keys().map(|id| id.name.clone()).collect()
    }

    fn queue() -> PolicyBuilder {
        policy("p").oldest_first()
    }

    #[test]
    fn who_is_older_gets_what_the_younger_one_would_have_had_if_it_fits() {
        let two = |cpu| vec![takes(("early", cpu)), takes(("late", 3_000))];
        assert_eq!(after(queue(), two(3_000), &["late"]), ["early"]);
        assert_eq!(after(queue(), two(3_001), &["late"]), ["late"], "there is no room for it");
        assert_eq!(after(policy("p"), two(3_000), &["late"]), ["late"], "the sum decides");
    }

    #[test]
    fn nobody_has_the_place_of_whoever_has_a_higher_priority() {
        let all = vec![takes(("early", 3_000)), takes(("urgent", 3_000)).priority(1), takes(("late", 3_000))];
        assert_eq!(after(queue(), all, &["urgent"]), ["urgent"]);
    }

    #[test]
    fn where_namespaces_have_shares_each_exchanges_among_its_own() {
        let each = || queue().share(None, 0, Some(7));
        let all = ["a/first", "b/second", "a/third", "b/fourth"].map(|name| takes((name, 3_000)));
        assert_eq!(after(each(), all.to_vec(), &["third", "fourth"]), ["first", "second"]);
        // Also those who have none themselves, and are alike but for that.
        let of_another = || queue().share(Some("c"), 0, Some(7));
        let all = ["a/first", "b/second", "b/third"].map(|name| takes((name, 3_000)));
        assert_eq!(after(of_another(), all.to_vec(), &["third"]), ["second"]);
    }

    #[test]
    fn whoever_asks_for_something_else_does_not_decide_for_those_who_come_later() {
        let all = vec![
            request("1-other").asks("1g.10gb", 1).takes(3_000, 0),
            takes(("2-larger", 3_001)),
            takes(("3", 3_000)),
            takes(("4", 3_000)),
        ];
        assert_eq!(after(queue(), all, &["4"]), ["3"]);
    }

    #[test]
    fn room_that_an_exchange_leaves_is_for_the_oldest_who_had_none_before() {
        let all = [("1-large", 4_000), ("2-small", 2_000), ("3-large", 4_000), ("4", 3_000), ("5", 3_000)];
        let all = all.map(takes).to_vec();
        assert_eq!(after(queue(), all, &["4", "5"]), ["1-large", "2-small"]);
    }

    #[test]
    fn of_many_who_are_alike_the_oldest_are_served_in_place_of_the_youngest() {
        let all = [("1", 1_000), ("2", 1_000), ("3", 1_000), ("4", 1_000), ("5", 1_000)].map(takes).to_vec();
        assert_eq!(after(queue(), all, &["3", "4", "5"]), ["1", "2", "3"]);
    }
}
