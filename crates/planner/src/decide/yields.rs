//! Which promises yield to a higher priority: those of which it is proved that somebody of a higher priority
//! gets less while they are kept. Where that was not proved within the bound, a promise is kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::choose::Chosen;
use super::formulate::{Counted, Level};
use super::turn::Turn;
use crate::names::RequestId;
use crate::solver::{self, SolveError};

/// So many plans are made to find out which promises a higher priority needs. One more costs as much as the
/// decision itself; a promise that was not looked at by then is kept.
const LOOKS: usize = 60;

/// A promise that could be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promised<'k> {
    pub(super) to: &'k RequestId,
    pub(super) priority: i32,
}

/// The promises that yield. `promises` come in the order in which they are kept: the highest priority first.
/// `gets` plans with those given up that it is asked about.
///
/// # Errors
/// If there is no plan at all.
pub(super) fn yielding<'k>(
    promises: &[Promised<'k>],
    mut gets: impl FnMut(&BTreeSet<&'k RequestId>) -> Result<Gets, SolveError>,
) -> Result<BTreeSet<&'k RequestId>, SolveError> {
    let kept = gets(&BTreeSet::new())?;
    let mut asked: Vec<Promised<'k>> =
        promises.iter().copied().filter(|promised| kept.misses_above(promised.priority)).collect();
    while let (Some(first), Some(last)) = (asked.first().copied(), asked.last().copied()) {
        let mut given_up: BTreeSet<&RequestId> = asked.iter().map(|promised| promised.to).collect();
        let mut now = gets(&given_up)?;
        // Mostly it is of no use to anybody.
        if first.priority == last.priority && !now.is_better_above(last.priority, &kept) {
            break;
        }
        // Many at once, since mostly few of them are needed: those that cannot be kept together are
        // halved, down to each by itself, the first ones first. Who can be kept beside more can be kept
        // beside fewer, so the outcome is that of looking at one after the other. Those of one priority
        // at a time: what is gained at a priority says nothing about those below it.
        let mut open: Vec<&[Promised<'k>]> = asked.chunk_by(|a, b| a.priority == b.priority).collect();
        open.reverse();
        for _ in 0..LOOKS {
            let Some(part) = open.pop() else { break };
            let mut fewer = given_up.clone();
            for promised in part {
                fewer.remove(promised.to);
            }
            let with = gets(&fewer)?;
            if !now.is_better_above(part[0].priority, &with) {
                (given_up, now) = (fewer, with);
            } else if part.len() > 1 {
                let (first, second) = part.split_at(part.len() / 2);
                open.extend([second, first]);
            }
        }
        if open.is_empty() {
            return Ok(given_up);
        }
        // What is left is kept. That others have to yield was found while all of it was given up, and beside it
        // they may do so for nothing: they are looked at again. To find `n` of them took `2n - 1` looks at least,
        // and no more are needed now, so the second time there are enough.
        for promised in open.into_iter().flatten() {
            given_up.remove(promised.to);
        }
        asked.retain(|promised| given_up.contains(promised.to));
    }
    Ok(BTreeSet::new())
}

/// What the requests get by a plan, priority by priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Gets {
    /// Who is served in turn, the oldest first.
    turns: BTreeMap<Reverse<i32>, Vec<(RequestId, Turn)>>,
    /// Compute slices that are not served.
    unserved: BTreeMap<Reverse<i32>, solver::Level>,
}

impl Gets {
    pub(super) fn from_chosen(chosen: &Chosen<'_>) -> Self {
        let groups = &chosen.world.groups;
        let mut places = vec![0; groups.len()];
        let mut named = |turn: &Turn| {
            let place = places[turn.group];
            places[turn.group] += 1;
            (groups[turn.group].requests[place].id.clone(), *turn)
        };
        let mut turns = BTreeMap::new();
        for queue in &chosen.turns.queues {
            turns.insert(queue.priority, queue.turns.iter().map(&mut named).collect());
        }
        let levels = chosen.program.levels.iter().zip(chosen.levels());
        let unserved = levels.filter_map(|(level, solved)| match level {
            Level::Unserved(priority, Counted::Slices) => Some((*priority, solved)),
            _ => None,
        });
        Self { turns, unserved: unserved.collect() }
    }

    /// Whether somebody of a higher priority is not served.
    fn misses_above(&self, than: i32) -> bool {
        self.unserved.iter().any(|(priority, unserved)| priority.0 > than && unserved.value > 0)
    }

    /// Whether those of a higher priority get more, by proof, than they could by any plan like the other one.
    fn is_better_above(&self, than: i32, other: &Self) -> bool {
        let nothing = solver::Level { value: 0, bound: 0 };
        let all: BTreeSet<_> = self.unserved.keys().chain(other.unserved.keys()).copied().collect();
        for priority in all.into_iter().filter(|priority| priority.0 > than) {
            if let Some(is_better) = self.comes_earlier(other, priority) {
                return is_better;
            }
            let mine = self.unserved.get(&priority).unwrap_or(&nothing);
            let theirs = other.unserved.get(&priority).unwrap_or(&nothing);
            if mine.value != theirs.bound {
                return mine.value < theirs.bound;
            }
        }
        false
    }

    /// Whether the first in turn on whom they differ is served here, and could not be there. Nothing, where as
    /// much as is proved the same are served.
    fn comes_earlier(&self, other: &Self, priority: Reverse<i32>) -> Option<bool> {
        let of = |gets: &Self| gets.turns.get(&priority).cloned().unwrap_or_default();
        let (mine, theirs) = (of(self), of(other));
        let may_be_served = |turn: &Turn| turn.served || !turn.proved;
        // What is kept may leave no node to somebody, who is in no queue then, and as unserved as before.
        if !mine.iter().map(|(id, _)| id).eq(theirs.iter().map(|(id, _)| id)) {
            let open = theirs.iter().any(|(_, turn)| !turn.served && !turn.proved);
            return open.then_some(false);
        }
        let mut pairs = mine.iter().zip(&theirs);
        pairs.find_map(|((_, mine), (_, theirs))| match (mine.served, may_be_served(theirs)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (true, true) => (!theirs.served).then_some(false),
            (false, false) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    fn ids(n: usize) -> Vec<RequestId> {
        (0..n).map(|i| request(&format!("p{i:03}")).build().id).collect()
    }

    fn promised(ids: &[RequestId], priority: i32) -> Vec<Promised<'_>> {
        ids.iter().map(|to| Promised { to, priority }).collect()
    }

    /// So many compute slices of the priority 100 are not served, and so many cannot be.
    fn unserved(value: i64, bound: i64) -> Gets {
        let level = solver::Level { value, bound };
        Gets { unserved: [(Reverse(100), level)].into(), ..Gets::default() }
    }

    /// Which promises yield where somebody needs each of `needed`, and how many plans it took.
    fn yields(n: usize, needed: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
        let ids = ids(n);
        let (mut plans, of) = (0, |id: &RequestId| ids.iter().position(|other| other == id).unwrap());
        let given_up = yielding(&promised(&ids, 0), |given_up| {
            plans += 1;
            let met = given_up.iter().filter(|id| needed(of(id))).count();
            let value = i64::try_from((0..n).filter(|i| needed(*i)).count() - met).unwrap();
            Ok(unserved(value, value))
        });
        (given_up.unwrap().into_iter().map(of).collect(), plans)
    }

    #[test]
    fn those_yield_whom_a_higher_priority_needs() {
        assert_eq!(yields(20, |i| i == 3 || i == 17).0, [3, 17]);
        assert_eq!(yields(20, |_| false).0, Vec::<usize>::new());
        assert_eq!(yields(1, |_| true).0, [0]);
    }

    #[test]
    fn who_was_not_looked_at_within_the_bound_is_kept() {
        // Every other one is needed: too many to look at each.
        let (given_up, plans) = yields(100, |i| i % 2 == 0);
        assert!(given_up.iter().all(|i| i % 2 == 0), "nobody needs {given_up:?}");
        assert!((10..=30).contains(&given_up.len()), "{given_up:?}");
        assert!(plans <= 2 * LOOKS + 3, "{plans}");
    }

    /// A node is needed as a whole: to break one promise on it is of use to nobody while the other is kept.
    #[test]
    fn nobody_yields_for_nothing_beside_who_is_kept() {
        let ids = ids(80);
        let of = |id: &RequestId| ids.iter().position(|other| other == id).unwrap();
        // The first and the last are on one node, the second and the last but one on the next, and so on.
        let nodes_free = |given_up: &BTreeSet<&RequestId>| {
            let given_up: BTreeSet<usize> = given_up.iter().map(|id| of(id)).collect();
            (0..40).filter(|i| given_up.contains(i) && given_up.contains(&(79 - i))).count()
        };
        let mut plans = 0;
        let given_up = yielding(&promised(&ids, 0), |given_up| {
            plans += 1;
            let value = 40 - i64::try_from(nodes_free(given_up)).unwrap();
            Ok(unserved(value, value))
        });
        assert_eq!(given_up.unwrap(), BTreeSet::new(), "the last ones were not looked at");
        assert!(plans <= 2 * LOOKS + 3, "{plans}");
    }

    #[test]
    fn what_was_found_is_no_proof() {
        let ids = ids(1);
        let yields = |kept: Gets| {
            let given_up = yielding(&promised(&ids, 0), |given_up| {
                Ok(if given_up.is_empty() { kept.clone() } else { unserved(3, 3) })
            });
            !given_up.unwrap().is_empty()
        };
        assert!(!yields(unserved(7, 3)), "another search may serve as much");
        assert!(yields(unserved(7, 4)), "no search can");
        // Of a priority above it is not known whether it could have more.
        let above = |value, bound| {
            let level = solver::Level { value, bound };
            let mut gets = unserved(7, 7);
            gets.unserved.insert(Reverse(200), level);
            gets
        };
        assert!(!yields(above(0, -1)) && yields(above(0, 0)));
    }

    #[test]
    fn whose_turn_it_may_be_is_no_proof_either() {
        let ids = ids(3);
        let queue = |turns: &[(usize, bool, bool)]| {
            let turn = |(of, served, proved): &(usize, bool, bool)| {
                (ids[*of].clone(), Turn { group: *of, served: *served, proved: *proved })
            };
            let mut gets = unserved(1, 1);
            gets.turns.insert(Reverse(100), turns.iter().map(turn).collect());
            gets
        };
        let now = queue(&[(1, true, true), (2, false, true)]);
        let is_better = |other: &[(usize, bool, bool)]| now.is_better_above(0, &queue(other));
        assert!(is_better(&[(1, false, true), (2, true, true)]), "the first is served");
        assert!(!is_better(&[(1, false, false), (2, true, true)]), "and may be there");
        assert!(!is_better(&[(1, true, true), (2, true, true)]), "more are served there");
        assert!(!is_better(&[(1, true, true), (2, false, false)]), "more may be served there");
        assert!(!is_better(&[(1, true, true), (2, false, true)]), "the same are served");
        // Who is in no queue there is as unserved as before: the sum decides.
        assert!(!is_better(&[(2, false, true)]));
        let mut fewer = queue(&[(2, false, true)]);
        fewer.unserved.insert(Reverse(100), solver::Level { value: 2, bound: 2 });
        assert!(now.is_better_above(0, &fewer));
        fewer.turns.insert(Reverse(100), queue(&[(2, false, false)]).turns[&Reverse(100)].clone());
        assert!(!now.is_better_above(0, &fewer), "it may be served");
    }

    /// The one of the priority 50 yields to the 100, and so does the one of 10: that 50 has more when it is kept
    /// is no reason to keep both.
    #[test]
    fn what_one_priority_gains_does_not_outweigh_what_another_one_above_the_next_loses() {
        let ids = ids(2);
        let promises = [Promised { to: &ids[0], priority: 50 }, Promised { to: &ids[1], priority: 10 }];
        let level = |value| solver::Level { value, bound: value };
        let given_up = yielding(&promises, |given_up| {
            // The promise to 10 is what somebody of 20 waits for; that to 50 is needed by nobody.
            let waits = |id| i64::from(!given_up.contains(id));
            let of_50 = i64::from(given_up.contains(&ids[0]));
            let levels = [(100, 1), (50, of_50), (20, waits(&ids[1]))];
            let unserved = levels.map(|(priority, value)| (Reverse(priority), level(value)));
            Ok(Gets { unserved: unserved.into(), ..Gets::default() })
        });
        assert_eq!(given_up.unwrap(), BTreeSet::from([&ids[1]]));
    }
}
