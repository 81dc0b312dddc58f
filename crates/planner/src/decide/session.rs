//! Deciding again and again for one fleet, as the operator does with every round.
//!
//! Most rounds ask what the round before has answered: a node has come one phase further, somebody else has
//! written an object. What is kept changes how long a decision takes and nothing that it says, so a process
//! that has just started decides as one that has run for months.

use super::memo::Memo;
use super::{Decision, decide_with};
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::plan::UnderWay;
use crate::policy::Policy;

/// What one decision leaves for the next.
///
/// Kept are: the last decision with what it was made for (the fleet, whose nodes it shares with the caller's, and a copy of the requests), the
/// possible layouts of GPUs by situation, and the solver's answers; of both as much as the last two
/// decisions needed, and at most 64 MiB together. A change of a policy clears it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    policies: Vec<Policy>,
    last: Option<Box<Last>>,
    memo: Memo,
}

/// A decision, and what it was made for beside the policies.
#[derive(Clone, Debug)]
struct Last {
    inventory: Inventory,
    requests: Vec<Request>,
    under_way: UnderWay,
    decision: Decision,
}

impl Session {
    /// How many questions the solver has been asked that it had not answered yet: programs to solve, and
    /// bounds and requests to prove. One that is never asked twice has lost its memory.
    #[must_use]
    pub const fn searched(&self) -> u64 {
        self.memo.answers.searched()
    }
}

/// Decides as [`decide_while`](super::decide_while), to the byte, whatever was decided before.
pub fn decide_next(
    session: &mut Session,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
    under_way: &UnderWay,
) -> Decision {
    if session.policies != policies {
        *session = Session { policies: policies.to_vec(), ..Session::default() };
    }
    let is_same = |last: &&Last| {
        last.requests == requests && last.under_way == *under_way && last.inventory == *inventory
    };
    if let Some(last) = session.last.as_deref().filter(is_same) {
        return last.decision.clone();
    }
    session.last = None;
    session.memo.begin();
    let decision = decide_with(&mut session.memo, inventory, requests, policies, under_way);
    session.last = Some(Box::new(Last {
        inventory: inventory.clone(),
        requests: requests.to_vec(),
        under_way: under_way.clone(),
        decision: decision.clone(),
    }));
    decision
}
