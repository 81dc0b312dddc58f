//! The value of a fleet: the levels of the objective, in their order.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use planner::demand::Request;
use planner::inventory::{Hold, Inventory, Node, Room};
use planner::names::NodeName;
use planner::plan::Plan;
use planner::policy::{Bounds, LayoutPolicy, Order, Policy};

use super::choices::{Choice, planned};
use super::evict::{for_certain, is_off};
use super::{apply, may::may, promises};

/// The levels of the objective; lower is better, and the first that differs decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Values {
    /// Slices missing to `minCount`.
    pub(crate) floors: u32,
    /// Compute slices missing to shares.
    pub(crate) shares: u32,
    /// Who is unserved, by priority, highest first.
    pub(crate) unserved: Vec<Unserved>,
    /// Ranks of the unserved; the youngest of all that wait has rank 1.
    pub(crate) age: u32,
    /// Slices missing to `spareCount`.
    pub(crate) spare: u32,
    /// GPUs that are not one full-size slice where the policy wants that.
    pub(crate) not_whole: u32,
    /// GPUs changed.
    pub(crate) changed: u32,
    /// Compute slices without a slice on GPUs that change as a whole, and two
    /// for each profile that ties such a GPU to its neighbours.
    pub(crate) stranded: u32,
    /// Slices created and destroyed.
    pub(crate) operations: u32,
    /// Nodes on which something changes.
    pub(crate) nodes: u32,
}

/// Who is unserved at a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unserved {
    /// Of those whom the oldest-first order is for, whether each is unserved, the
    /// oldest first. So the first on whom two plans differ decides.
    pub(crate) turns: Vec<bool>,
    /// Compute slices.
    pub(crate) slices: u32,
}

/// A request, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// The position of its priority, highest first.
    level: usize,
    compute: u32,
    rank: u32,
    /// Its place in the queue of its priority, if the oldest comes first there.
    turn: Option<usize>,
    slices: Vec<u32>,
    /// Which nodes it may use.
    may: Vec<bool>,
    takes: Room,
    /// Which shares it counts for.
    shares: Vec<bool>,
}

/// A share of somebody who asks.
#[derive(Debug)]
struct Shared {
    /// The nodes of its policy.
    mine: Vec<bool>,
    /// So many compute slices are to be given, as far as they are asked for.
    wanted: u32,
    /// So many may be given.
    most: Option<u32>,
}

/// Who wants what where.
pub(crate) struct Demand<'a> {
    /// The profiles that matter to anybody. Where numbers are given by profile, the last is that of whole GPUs.
    pub(crate) profiles: Vec<ProfileName>,
    nodes: Vec<(&'a NodeName, &'a Node)>,
    owner: BTreeMap<&'a NodeName, &'a Policy>,
    /// Highest priority first.
    wishes: Vec<Wish>,
    /// Of those who want something, highest first.
    pub(crate) priorities: Vec<i32>,
    levels: usize,
    /// By node, slices of each profile that are kept for somebody, and the room that these take.
    taken: Vec<(Vec<u32>, Room)>,
    /// `(nodes, profile, bounds, how many there are now)`.
    bounds: Vec<(Vec<bool>, usize, Bounds, u32)>,
    shares: Vec<Shared>,
}

pub(crate) fn distinct(profiles: &[ProfileName]) -> BTreeSet<ProfileName> {
    profiles.iter().copied().collect()
}

impl<'a> Demand<'a> {
    pub(crate) fn new(inventory: &'a Inventory, requests: &'a [Request], policies: &'a [Policy]) -> Self {
        let nodes: Vec<_> = inventory.nodes.iter().collect();
        let owner: BTreeMap<&NodeName, &Policy> = nodes
            .iter()
            .filter_map(|(name, node)| {
                let mut selecting: Vec<&Policy> = policies.iter().filter(|p| selects(p, node)).collect();
                selecting.sort_by_key(|p| (std::cmp::Reverse(p.priority), &p.name));
                Some((*name, *selecting.first()?))
            })
            .collect();
        let kept = promises::kept(inventory, requests, &|name| owner.get(name).copied());
        let is_kept = |r: &Request| kept.iter().any(|(request, _)| request.id == r.id);
        let counted: Vec<&Request> = requests
            .iter()
            .filter(|r| r.blocked_elsewhere.is_none() && r.refused.is_none() && r.finds.is_none())
            .filter(|r| (r.whole_gpus > 0) != promises::asks_slices(r))
            .filter(|r| r.whole_gpus == 0 || asks_somebody(r, &nodes, &owner, &kept))
            .filter(|r| !is_kept(r))
            .collect();
        let promised = kept.iter().map(|(request, _)| *request);
        let mut profiles: BTreeSet<ProfileName> = counted
            .iter()
            .copied()
            .chain(promised)
            .flat_map(|r| promises::wants(r).map(|(p, ..)| p))
            .collect();
        for policy in policies {
            if let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout {
                profiles.extend(slices.keys());
            }
        }
        let profiles: Vec<ProfileName> = profiles.into_iter().collect();
        let priorities: BTreeSet<_> = counted.iter().map(|r| std::cmp::Reverse(r.priority)).collect();
        let mut by_age = counted.clone();
        by_age.sort_by_key(|r| std::cmp::Reverse((r.since, r.id.clone())));
        let mut wishes: Vec<Wish> = counted
            .iter()
            .map(|request| {
                let level = priorities.iter().position(|p| p.0 == request.priority).expect("collected");
                let slices: Vec<u32> = profiles
                    .iter()
                    .map(|p| request.slices.get(p).copied().unwrap_or(0))
                    .chain([request.whole_gpus])
                    .chain(profiles.iter().map(|p| seats(request, *p)))
                    .collect();
                // What is kept there takes its room, so who needs all of it may not use the node.
                let may = |(name, node): &(&NodeName, &Node)| {
                    let here = kept.iter().filter(|(_, on)| on == name);
                    let room = here.fold(node.room, |room, (request, _)| room.plus(request.takes, -1));
                    may(request, name, &Node { room, ..(*node).clone() }, owner.get(name).copied())
                };
                let rank = 1 + by_age.iter().position(|r| r.id == request.id).expect("sorted");
                let rank = u32::try_from(rank).expect("few");
                let may: Vec<bool> = nodes.iter().map(may).collect();
                let whole = request.whole_gpus * largest_card(&nodes, &may);
                let compute =
                    whole + promises::wants(request).map(|(p, _, n)| u32::from(p.compute) * n).sum::<u32>();
                Wish { level, compute, rank, turn: None, slices, may, takes: request.takes, shares: vec![] }
            })
            .collect();
        let shares = share_out(inventory, policies, &nodes, &owner, &counted, &kept, &mut wishes);
        // Who may use a node of such a policy is in its queue; the oldest has the highest rank.
        let is_queued = |wish: &Wish| {
            let oldest_first = |policy: &&Policy| {
                matches!(policy.layout, LayoutPolicy::DemandDriven { order: Order::OldestFirst, .. })
            };
            let mut nodes = nodes.iter().zip(&wish.may).filter(|(_, may)| **may);
            nodes.any(|((name, _), _)| owner.get(name).is_some_and(oldest_first))
        };
        let queued: Vec<(usize, u32)> =
            wishes.iter().filter(|w| is_queued(w)).map(|w| (w.level, w.rank)).collect();
        for wish in wishes.iter_mut().filter(|w| queued.contains(&(w.level, w.rank))) {
            let before = queued.iter().filter(|(level, rank)| *level == wish.level && *rank > wish.rank);
            wish.turn = Some(before.count());
        }
        wishes.sort();
        let mut bounds = Vec::new();
        for policy in policies {
            let LayoutPolicy::DemandDriven { slices, whole_gpus, .. } = &policy.layout else { continue };
            let mine: Vec<bool> = nodes
                .iter()
                .map(|(name, _)| owner.get(name).is_some_and(|o| o.name == policy.name))
                .collect();
            for (profile, bound) in slices {
                let index = profiles.iter().position(|p| p == profile).expect("collected");
                let of_node = |(_, node): &(&NodeName, &Node)| -> usize {
                    node.gpus.values().flat_map(apply::profiles).filter(|p| p == profile).count()
                };
                let now: usize =
                    nodes.iter().zip(&mine).filter(|(_, mine)| **mine).map(|(n, _)| of_node(n)).sum();
                bounds.push((mine.clone(), index, *bound, u32::try_from(now).expect("few")));
            }
            if let Some(bound) = whole_gpus {
                let mine_now = nodes.iter().zip(&mine).filter(|(_, mine)| **mine);
                let off = mine_now.flat_map(|((_, node), _)| node.gpus.values()).filter(|gpu| is_off(gpu));
                bounds.push((mine.clone(), profiles.len(), *bound, u32::try_from(off.count()).expect("few")));
            }
        }
        let levels = priorities.len();
        let priorities = priorities.into_iter().map(|p| p.0).collect();
        let of_node = |(name, _): &(&NodeName, &Node)| {
            let mut taken = (vec![0; 2 * profiles.len() + 1], Room::ZERO);
            for (request, _) in kept.iter().filter(|(_, on)| on == name) {
                taken.0[profiles.len()] += request.whole_gpus;
                for (n, profile) in taken.0.iter_mut().zip(&profiles) {
                    *n += request.slices.get(profile).copied().unwrap_or(0);
                }
                for (n, profile) in taken.0.iter_mut().skip(profiles.len() + 1).zip(&profiles) {
                    *n += seats(request, *profile);
                }
                taken.1.cpu_milli += request.takes.cpu_milli;
                taken.1.memory_bytes += request.takes.memory_bytes;
                taken.1.storage_bytes += request.takes.storage_bytes;
                taken.1.pods += request.takes.pods;
            }
            taken
        };
        let taken = nodes.iter().map(of_node).collect();
        Self { profiles, nodes, owner, wishes, priorities, levels, taken, bounds, shares }
    }

    /// A node as it may be planned for: nothing on it changes while anything is kept there.
    pub(crate) fn as_promised(&self, name: &NodeName, node: &Node) -> Node {
        let position = self.nodes.iter().position(|(other, _)| *other == name).expect("a node of the fleet");
        let mut node = node.clone();
        if self.taken[position].0.iter().any(|n| *n > 0) {
            node.hold.get_or_insert(Hold::Changing);
        }
        node
    }

    /// What is worth creating under a policy: what it lists, what is asked for
    /// on its nodes, and what is in use there; never what it caps at nothing.
    pub(crate) fn menu(&self, policy: &Policy) -> BTreeSet<ProfileName> {
        let mine = |name: &NodeName| self.policy_of(name).is_some_and(|p| p.name == policy.name);
        let mut menu = BTreeSet::new();
        for (i, (_, node)) in self.nodes.iter().enumerate().filter(|(_, (name, _))| mine(name)) {
            for wish in self.wishes.iter().filter(|wish| wish.may[i]) {
                menu.extend(self.named(&wish.slices));
            }
            menu.extend(self.named(&self.taken[i].0));
            menu.extend(node.allocated.iter().filter(|(_, n)| **n > 0).map(|(p, _)| *p));
        }
        if let LayoutPolicy::DemandDriven { slices, .. } = &policy.layout {
            menu.extend(slices.keys());
            menu.retain(|profile| slices.get(profile).is_none_or(|bounds| bounds.max != Some(0)));
        }
        menu
    }

    /// The profiles of which there are some, by either name.
    fn named(&self, numbers: &[u32]) -> Vec<ProfileName> {
        let by_name = |from: usize| self.profiles.iter().zip(&numbers[from..]).filter(|(_, n)| **n > 0);
        by_name(0).chain(by_name(self.profiles.len() + 1)).map(|(profile, _)| *profile).collect()
    }

    /// Slices that are free on some nodes: of those that several share, as many as their free seats come to.
    fn spare(&self, profile: usize, nodes: impl Iterator<Item = usize>, free: &[Vec<u32>]) -> u32 {
        // Shared by two, three or four.
        const UNIT: u32 = 12;
        let twelfths = nodes.map(|n| {
            let sharing = self.profiles.get(profile).and_then(|p| self.nodes[n].1.shared.get(p));
            let seats = self.profiles.get(profile).map_or(0, |_| free[n][self.profiles.len() + 1 + profile]);
            (free[n][profile] + seats) * (UNIT / sharing.map_or(1, |s| s.replicas))
        });
        twelfths.sum::<u32>() / UNIT
    }

    pub(crate) fn policy_of(&self, node: &NodeName) -> Option<&'a Policy> {
        self.owner.get(node).copied()
    }

    /// Leaves out what is never better: no more slices at no lower cost. Where
    /// a profile has a ceiling, more is not always better.
    pub(crate) fn undominated(&self, choices: &[Choice]) -> Vec<Choice> {
        let capped: Vec<bool> = (0..=self.profiles.len())
            .map(|p| self.bounds.iter().any(|(_, index, bound, _)| *index == p && bound.max.is_some()))
            .collect();
        let beats = |a: &Choice, b: &Choice| {
            (a.cost, &a.counts, &a.free) != (b.cost, &b.counts, &b.free)
                && a.cost <= b.cost
                && a.free.iter().zip(&b.free).all(|(a, b)| a >= b)
                && (0..capped.len())
                    .all(|p| if capped[p] { a.counts[p] == b.counts[p] } else { a.counts[p] >= b.counts[p] })
        };
        choices.iter().filter(|b| !choices.iter().any(|a| beats(a, b))).cloned().collect()
    }

    /// The values of a fleet whose nodes are chosen so, if it is allowed and
    /// better than `limit`.
    pub(crate) fn values(&self, chosen: &[&Choice], limit: Option<&Values>) -> Option<Values> {
        let mut floors = 0;
        let mut spare_missing = Vec::new();
        for (mine, profile, bound, now) in &self.bounds {
            let on_mine =
                |of: &dyn Fn(usize) -> u32| -> u32 { (0..chosen.len()).filter(|n| mine[*n]).map(of).sum() };
            let total = on_mine(&|node| chosen[node].counts[*profile]);
            if bound.max.is_some_and(|max| total > max.max(*now)) {
                return None;
            }
            floors += bound.min.saturating_sub(total);
            spare_missing.push((mine, *profile, bound.spare));
        }
        if limit.is_some_and(|limit| floors > limit.floors) {
            return None;
        }
        let mut free: Vec<Vec<u32>> = chosen.iter().map(|choice| choice.free.clone()).collect();
        let mut room: Vec<Room> = self.nodes.iter().map(|(_, node)| node.room).collect();
        for ((free, room), (slices, takes)) in free.iter_mut().zip(&mut room).zip(&self.taken) {
            for (free, n) in free.iter_mut().zip(slices) {
                *free = free.checked_sub(*n)?;
            }
            room.cpu_milli -= takes.cpu_milli;
            room.memory_bytes -= takes.memory_bytes;
            room.storage_bytes -= takes.storage_bytes;
            room.pods -= takes.pods;
        }
        let cost = chosen.iter().fold([0; 4], |mut sum, choice| {
            sum.iter_mut().zip(choice.cost).for_each(|(sum, cost)| *sum += cost);
            sum
        });
        let mut best = None;
        let given = vec![0; self.shares.len()];
        let mut left = Left { free: &mut free, room: &mut room, given };
        self.hand_out(0, &mut left, &mut self.nobody_unserved(), 0, &spare_missing, &mut best);
        let (shares, unserved, age, spare) = best.expect("serving nobody is possible");
        let [not_whole, changed, stranded, operations] = cost;
        let touched = chosen.iter().filter(|choice| !choice.targets.is_empty()).count();
        let nodes = u32::try_from(touched).expect("few");
        let values =
            Values { floors, shares, unserved, age, spare, not_whole, changed, stranded, operations, nodes };
        limit.is_none_or(|limit| values < *limit).then_some(values)
    }

    fn nobody_unserved(&self) -> Vec<Unserved> {
        let queued = |level| self.wishes.iter().filter(|w| w.level == level && w.turn.is_some()).count();
        (0..self.levels).map(|level| Unserved { turns: vec![false; queued(level)], slices: 0 }).collect()
    }

    /// Hands slices to one request after the other, in every possible way.
    fn hand_out(
        &self,
        next: usize,
        left: &mut Left<'_>,
        unserved: &mut Vec<Unserved>,
        age: u32,
        spares: &[(&Vec<bool>, usize, u32)],
        best: &mut Option<ShareValues>,
    ) {
        let Some(Wish { level, compute, rank, turn, slices, may, takes, shares }) = self.wishes.get(next)
        else {
            let missing = spares
                .iter()
                .map(|(mine, profile, spare)| {
                    let open = (0..left.free.len()).filter(|n| mine[*n] && self.nodes[*n].1.schedulable);
                    spare.saturating_sub(self.spare(*profile, open, left.free))
                })
                .sum();
            let to_shares =
                self.shares.iter().zip(&left.given).map(|(share, n)| share.wanted.saturating_sub(*n));
            let found = (to_shares.sum(), unserved.clone(), age, missing);
            if best.as_ref().is_none_or(|best| found < *best) {
                *best = Some(found);
            }
            return;
        };
        let has_wanted = self.shares.iter().any(|share| share.wanted > 0);
        if !has_wanted && best.as_ref().is_some_and(|(_, best, _, _)| *unserved > *best) {
            return;
        }
        for (node, may) in may.iter().enumerate() {
            let concerns = |s: &usize| shares[*s] && self.shares[*s].mine[node];
            let concerned: Vec<usize> = (0..shares.len()).filter(concerns).collect();
            let is_too_much =
                |s: &usize| self.shares[*s].most.is_some_and(|most| left.given[*s] + compute > most);
            if *may && !concerned.iter().any(is_too_much) && left.take(node, slices, *takes) {
                concerned.iter().for_each(|s| left.given[*s] += compute);
                self.hand_out(next + 1, left, unserved, age, spares, best);
                concerned.iter().for_each(|s| left.given[*s] -= compute);
                left.give_back(node, slices, *takes);
            }
        }
        let mut without = |is_unserved: bool| {
            let of_level = &mut unserved[*level];
            if let Some(turn) = turn {
                of_level.turns[*turn] = is_unserved;
            }
            if is_unserved {
                of_level.slices += compute;
                self.hand_out(next + 1, left, unserved, age + rank, spares, best);
            } else {
                of_level.slices -= compute;
            }
        };
        without(true);
        without(false);
    }

    /// What a plan is worth, whoever made it, with slices handed out as well
    /// as possible; and who has to go for it, node by node.
    pub(crate) fn values_of(&self, plan: &Plan) -> (Option<Values>, Vec<Choice>) {
        let choices: Vec<Choice> = self
            .nodes
            .iter()
            .map(|(name, node)| {
                let steps = plan.steps.iter().filter(|step| step.node == **name);
                let targets = steps.flat_map(|step| &step.gpus).map(|c| (c.gpu, c.after.as_slice()));
                planned(self, &self.as_promised(name, node), self.policy_of(name), &targets.collect())
            })
            .collect();
        (self.values(&choices.iter().collect::<Vec<_>>(), None), choices)
    }
}

/// Compute slices missing to shares, who is unserved, their ranks, spares missing.
type ShareValues = (u32, Vec<Unserved>, u32, u32);

/// The shares of those who ask; says of each wish which it counts for.
fn share_out<'a>(
    inventory: &Inventory,
    policies: &'a [Policy],
    nodes: &[(&'a NodeName, &'a Node)],
    owner: &BTreeMap<&NodeName, &'a Policy>,
    counted: &[&Request],
    kept: &[(&Request, &NodeName)],
    wishes: &mut [Wish],
) -> Vec<Shared> {
    let mut shares = vec![];
    for policy in policies {
        let LayoutPolicy::DemandDriven { shares: all, .. } = &policy.layout else { continue };
        let is_mine = |name: &NodeName| owner.get(name).is_some_and(|o| o.name == policy.name);
        let mine: Vec<bool> = nodes.iter().map(|(name, _)| is_mine(name)).collect();
        for share in all {
            let is_of = |namespace: &str, labels: &BTreeMap<String, String>| {
                share.namespaces.iter().all(|e| match labels.get(&e.key) {
                    Some(value) => e.values.contains(value),
                    None => {
                        e.key == "kubernetes.io/metadata.name" && e.values.contains(&namespace.to_owned())
                    }
                })
            };
            let asks = |i: &usize| {
                let may = wishes[*i].may.iter().zip(&mine).any(|(may, mine)| *may && *mine);
                // Shares count slices.
                may && counted[*i].whole_gpus == 0
                    && is_of(&counted[*i].id.namespace, &counted[*i].namespace_labels)
            };
            let all: Vec<usize> = (0..counted.len()).filter(asks).collect();
            let mut each: Vec<Option<String>> =
                all.iter().map(|i| share.per_namespace.then(|| counted[*i].id.namespace.clone())).collect();
            each.sort();
            each.dedup();
            for one in each {
                let in_it = |namespace: &str| match &one {
                    Some(one) => one == namespace,
                    None => is_of(namespace, inventory.namespaces.get(namespace).unwrap_or(&BTreeMap::new())),
                };
                // On a node that is drained, those who go hold nothing.
                let stay = nodes.iter().filter(|(name, _)| is_mine(name)).flat_map(|(name, node)| {
                    // Nobody goes from where something is kept.
                    let is_kept = kept.iter().any(|(_, on)| on == name);
                    let gone = if is_kept { BTreeSet::new() } else { for_certain(node, policy) };
                    let stay = node.held.iter().filter(move |(pod, _)| !gone.contains(*pod));
                    stay.filter(|(pod, _)| in_it(&pod.namespace)).map(|(_, n)| *n)
                });
                let promised = kept.iter().filter(|(_, node)| is_mine(node));
                let promised = promised.filter(|(request, _)| in_it(&request.id.namespace));
                let of =
                    |r: &Request| promises::wants(r).map(|(p, _, n)| u32::from(p.compute) * n).sum::<u32>();
                let held = stay.sum::<u32>() + promised.map(|(request, _)| of(request)).sum::<u32>();
                let mut asked = 0;
                let is_one = |i: &usize| one.as_ref().is_none_or(|one| *one == counted[*i].id.namespace);
                let those: Vec<usize> = all.iter().copied().filter(is_one).collect();
                for (i, wish) in wishes.iter_mut().enumerate() {
                    wish.shares.push(those.contains(&i));
                    asked += if those.contains(&i) { wish.compute } else { 0 };
                }
                shares.push(Shared {
                    mine: mine.clone(),
                    wanted: share.min.saturating_sub(held).min(asked),
                    most: share.max.map(|max| max.saturating_sub(held)),
                });
            }
        }
    }
    shares
}

/// Whether a policy with whole GPUs counts the request on a node that it might use, cordoned or not.
fn asks_somebody(
    request: &Request,
    nodes: &[(&NodeName, &Node)],
    owner: &BTreeMap<&NodeName, &Policy>,
    kept: &[(&Request, &NodeName)],
) -> bool {
    nodes.iter().any(|(name, node)| {
        let here = kept.iter().filter(|(_, on)| on == name);
        let room = here.fold(node.room, |room, (request, _)| room.plus(request.takes, -1));
        let open = Node { schedulable: true, room, ..(*node).clone() };
        owner.get(name).is_some_and(|policy| may(request, name, &open, Some(policy)))
    })
}

/// How many seats it asks for of slices of a profile, by the name of shared ones.
fn seats(request: &Request, profile: ProfileName) -> u32 {
    promises::wants(request).filter(|(p, shared, _)| *p == profile && *shared).map(|(_, _, n)| n).sum()
}

/// What a whole GPU weighs: the compute slices of the largest card of these nodes, or of any.
fn largest_card(nodes: &[(&NodeName, &Node)], may: &[bool]) -> u32 {
    let of = |all: bool| {
        let nodes = nodes.iter().zip(may).filter(|(_, may)| all || **may);
        nodes.flat_map(|((_, node), _)| node.gpus.values()).map(|gpu| gpu.geometry.compute()).max()
    };
    of(false).or_else(|| of(true)).map_or(0, u32::from)
}

fn selects(policy: &Policy, node: &Node) -> bool {
    !policy.nodes.is_empty()
        && policy.nodes.iter().all(|e| node.labels.get(&e.key).is_some_and(|value| e.values.contains(value)))
}

/// What is not handed out yet.
struct Left<'a> {
    free: &'a mut [Vec<u32>],
    room: &'a mut [Room],
    /// What each share got.
    given: Vec<u32>,
}

impl Left<'_> {
    fn take(&mut self, node: usize, slices: &[u32], takes: Room) -> bool {
        let (free, room) = (&mut self.free[node], &mut self.room[node]);
        let fits = slices.iter().zip(free.iter()).all(|(wanted, free)| wanted <= free)
            && takes.cpu_milli <= room.cpu_milli
            && takes.memory_bytes <= room.memory_bytes
            && takes.storage_bytes <= room.storage_bytes
            && takes.pods <= room.pods;
        if fits {
            free.iter_mut().zip(slices).for_each(|(free, n)| *free -= n);
            room.cpu_milli -= takes.cpu_milli;
            room.memory_bytes -= takes.memory_bytes;
            room.storage_bytes -= takes.storage_bytes;
            room.pods -= takes.pods;
        }
        fits
    }

    fn give_back(&mut self, node: usize, slices: &[u32], takes: Room) {
        self.free[node].iter_mut().zip(slices).for_each(|(free, n)| *free += n);
        let room = &mut self.room[node];
        room.cpu_milli += takes.cpu_milli;
        room.memory_bytes += takes.memory_bytes;
        room.storage_bytes += takes.storage_bytes;
        room.pods += takes.pods;
    }
}
