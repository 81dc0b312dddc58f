//! Idle nodes of A100-80GB, and pods that ask for one slice each, with CPU and memory: which pods nodes can be given, by
//! first fit and by trying every node for every pod. It shares only the vocabulary with the planner.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::RequestId;

/// An idle node, with what it was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    gpus: i64,
    cpu_milli: i64,
    memory_bytes: i64,
    pods: i64,
    /// Slices of one, two, three and seven compute slices.
    slices: [i64; 4],
}

impl Node {
    /// Whether the GPUs can be cut into these: each has a 7g, or halves that have a 3g or four units for smaller ones.
    fn can_be_cut(gpus: i64, [ones, twos, threes, sevens]: [i64; 4]) -> bool {
        let left = gpus - sevens;
        (0..=left).any(|with_two| {
            let with_one = (threes - 2 * with_two).max(0);
            let with_none = left - with_two - with_one;
            let (twos_at_most, units) = (2 * with_one + 3 * with_none, 4 * with_one + 7 * with_none);
            with_none >= 0 && twos <= twos_at_most && 2 * twos + ones <= units
        })
    }

    /// The node with a request beside what it has, if there is room for it.
    fn with(&self, request: &Request) -> Option<Self> {
        let mut with = self.clone();
        with.cpu_milli -= request.takes.cpu_milli;
        with.memory_bytes -= request.takes.memory_bytes;
        with.pods -= 1;
        with.slices[[1, 2, 3, 7].iter().position(|n| *n == compute(request)).unwrap()] += 1;
        let has_room = with.cpu_milli >= 0 && with.memory_bytes >= 0 && with.pods >= 0;
        (has_room && Self::can_be_cut(self.gpus, with.slices)).then_some(with)
    }
}

fn nodes(inventory: &Inventory) -> Vec<Node> {
    let nodes = inventory.nodes.values().map(|node| Node {
        gpus: i64::try_from(node.gpus.len()).unwrap(),
        cpu_milli: node.room.cpu_milli,
        memory_bytes: node.room.memory_bytes,
        pods: node.room.pods,
        slices: [0; 4],
    });
    nodes.collect()
}

/// Its compute slices: each asks for one slice.
pub(crate) fn compute(request: &Request) -> i64 {
    request.slices.keys().map(|profile| i64::from(profile.compute)).sum()
}

pub(crate) fn by_age(requests: &[Request]) -> Vec<&Request> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by_key(|r| (r.since, &r.id));
    order
}

pub(crate) fn by_size(requests: &[Request]) -> Vec<&Request> {
    let mut order = by_age(requests);
    order.sort_by_key(|r| Reverse((compute(r), r.takes.cpu_milli, r.takes.memory_bytes)));
    order
}

/// Who is served if each in turn goes to the first node that has room for it, with whatever layouts.
pub(crate) fn first_fit<'r>(inventory: &Inventory, order: &[&'r Request]) -> BTreeSet<&'r RequestId> {
    let mut nodes = nodes(inventory);
    let mut fits = |request: &Request| {
        let found = nodes.iter().enumerate().find_map(|(n, node)| Some((n, node.with(request)?)));
        found.map(|(n, with)| nodes[n] = with).is_some()
    };
    order.iter().filter(|request| fits(request)).map(|request| &request.id).collect()
}

/// Who is served if each in turn is served that can be, wherever those before it are: every way of placing them is
/// looked at. Nothing, if there come to be more ways than so many.
pub(crate) fn one_after_the_other<'r>(
    inventory: &Inventory,
    order: &[&'r Request],
    most: usize,
) -> Option<BTreeSet<&'r RequestId>> {
    let mut ways = BTreeSet::from([nodes(inventory)]);
    let mut served = BTreeSet::new();
    for request in order {
        let with = |way: &Vec<Node>| {
            let places = way.iter().enumerate();
            let found = places.filter_map(|(n, node)| {
                let mut next = way.clone();
                next[n] = node.with(request)?;
                Some(next)
            });
            found.collect::<Vec<_>>()
        };
        let next: BTreeSet<Vec<Node>> = ways.iter().flat_map(with).collect();
        if next.len() > most {
            return None;
        }
        if !next.is_empty() {
            ways = next;
            served.insert(&request.id);
        }
    }
    Some(served)
}
