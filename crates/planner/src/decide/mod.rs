//! Decides which layout every GPU should have, and explains why no more demand is served.
//!
//! The steps, each one function: which policy has which node, which requests may use it, the possible
//! layouts of each GPU (`world`), the integer program (`formulate`), its solution (`choose`, with
//! [`crate::solver`]), names instead of numbers (`hand_out`), the plan's steps, and the report (`explain`,
//! `supply`).
//!
//! # The objective
//! Hard: legality, what is in use, what was promised (`promises`), what is held, how much of a GPU can change,
//! what is left of a node's CPU, memory, ephemeral storage and pod slots, `maxCount`. Then, level
//! by level, each exact given the ones before as far as it is proved (`choose`
//! says where it may not be; the certificate says how far off that can be):
//!
//! 1. GPUs that do not have their static layout;
//! 2. slices missing to `minCount`;
//! 3. compute slices missing to the shares of namespaces (`shares`; at most is hard);
//! 4. unserved compute slices, one level for each pod priority, highest first.
//!    Where a policy says `order: OldestFirst`, before them who is served, the
//!    oldest first (`turns`). Before both, all of the gangs that have their part
//!    of the cluster (`together`);
//! 5. age: the sum of the ranks of the unserved, the youngest of all that
//!    wait having rank 1 (up to 512 waiting requests; beyond that age decides
//!    among requests that ask for the same);
//! 6. slices missing to `spareCount`;
//! 7. under `unrequested: Whole`, idle GPUs that are not one full-size slice;
//! 8. GPUs changed;
//! 9. on GPUs that change as a whole: compute slices that no slice covers.
//!    Without an agent nothing can be added to such a GPU once one of its
//!    slices is in use, so what stays uncut is lost until all of it is idle.
//!    And, twice as much, where nobody sees which slice a pod holds and a GPU
//!    is cut into a profile of another GPU of its node: the other profiles
//!    that it has. While anybody on a node holds a profile, no GPU of the node
//!    that has it can be proved idle; so profiles tie GPUs together;
//! 10. slices created and destroyed;
//! 11. placements of large profiles that are no longer possible;
//! 12. a fixed preference among equals.
//!
//! Nodes are shared by choosing GPUs in the order of their nodes' names
//! within each class; this is a heuristic, and the certificate says how many
//! nodes are touched and what no plan can go below (`nodes`).

mod allocate;
mod change;
mod choose;
mod evict;
mod explain;
mod formulate;
mod group;
mod grown;
mod in_the_way;
mod ineligible;
mod instead;
mod memo;
mod most;
mod nodes;
mod numbered;
mod pieces;
mod promises;
mod reach;
mod seats;
mod service;
mod session;
mod shares;
mod single;
mod situation;
mod steps;
mod supply;
mod targets;
mod together;
mod trial;
mod turn;
mod turns;
mod witness;
mod workloads;
mod world;
mod yields;

use std::collections::BTreeSet;

use self::choose::Chosen;
pub(crate) use self::formulate::SHARES;
use self::formulate::{Counted, Level};
use self::memo::Memo;
use self::promises::{AtStake, Promises};
use self::seats::Seats;
pub use self::session::{Session, decide_next};
use self::trial::Advice;
use crate::demand::Request;
use crate::inventory::Inventory;
use crate::names::RequestId;
use crate::plan::{Plan, UnderWay};
use crate::policy::Policy;
use crate::report::{LevelCertificate, Report};
use crate::solver::SolveError;

/// What was decided.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What is to be done.
    pub plan: Plan,
    /// Why, and why not more.
    pub report: Report,
}

/// Decides. Total and deterministic: the result depends on the content of the
/// arguments, not on their order.
///
/// A node that is on its way to a layout and past the point of return has to
/// be handed in with the slices of that layout (idle, schedulable) and
/// [`Hold::Changing`](crate::inventory::Hold::Changing); otherwise what it is
/// about to offer would be planned a second time elsewhere.
///
/// What is timed (a cooldown, a window) arrives as a hold of its node: no clock is asked.
pub fn decide(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    decide_while(inventory, requests, policies, &UnderWay::default())
}

/// Decides while a plan is being carried out: another one replaces it only
/// where it is better, by proof, at a level up to the number of GPUs changed.
/// So whoever plans after each step comes to an end, also where nothing is proved.
pub fn decide_while(
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
    under_way: &UnderWay,
) -> Decision {
    decide_with(&mut Memo::default(), inventory, requests, policies, under_way)
}

/// Decides, with what is known already.
fn decide_with(
    memo: &mut Memo,
    inventory: &Inventory,
    requests: &[Request],
    policies: &[Policy],
    under_way: &UnderWay,
) -> Decision {
    // Leaving everything as it is meets every row (see `Building::bounds`),
    // so an error is a bug of ours; nothing is changed, and the report says so.
    let gave_up = |error: SolveError| {
        debug_assert!(matches!(error, SolveError::NotFound { .. }), "{error}");
        explain::gave_up(requests, &error)
    };
    let never = workloads::never_whole(inventory, requests, policies);
    let planned = workloads::refused(requests, &never);
    let found = match together::are_any(&planned) {
        true => together::decide((inventory, &planned, policies), under_way, memo),
        false => {
            let planned = together::without_parts(&planned);
            each_alone((inventory, &planned, policies), under_way, Advised::Yes, memo)
        }
    };
    let mut decision = found.unwrap_or_else(gave_up);
    workloads::tell(&never, &mut decision.report);
    decision
}

/// Whether those who are not served are told what would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advised {
    Yes,
    No,
}

/// Decides as if each request were for itself: nobody has to start with others, or near them.
fn each_alone(
    fleet: (&Inventory, &[Request], &[Policy]),
    under_way: &UnderWay,
    advised: Advised,
    memo: &mut Memo,
) -> Result<Decision, SolveError> {
    let (inventory, requests, policies) = fleet;
    let tried = |at_stake| match advised {
        Advised::Yes => Advice::Tried { at_stake },
        Advised::No => Advice::None,
    };
    if !promises::are_made(requests) {
        return plan(fleet, under_way, tried(None), memo);
    }
    let promises = Promises::new(inventory, requests, policies, under_way, memo)?;
    let at_stake = promises.may_yield().then_some(AtStake { inventory, requests, under_way });
    // Where a promise yields already, it may be kept in a changed fleet: no trial looks at that.
    let advice = if promises.some_yield() { Advice::None } else { tried(at_stake) };
    let beside = (&promises.inventory, promises.requests.as_slice(), policies);
    let mut decision = plan(beside, under_way, advice, memo)?;
    promises.answer(&mut decision.report, requests);
    Ok(decision)
}

/// Decides, and tells nobody what would help: so that what telling it costs can be measured.
///
/// # Panics
/// If there is no plan: a bug of ours.
#[cfg(any(test, feature = "testing"))]
pub fn decide_without_advice(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let fleet = (inventory, requests, policies);
    plan(fleet, &UnderWay::default(), Advice::None, &mut Memo::default())
        .expect("leaving everything as it is")
}

/// Decides as on a large fleet, where nodes that are alike are planned together, however few they are: so that
/// brute force can be asked about that, too. Nobody is told what would help.
///
/// # Panics
/// If there is no plan: a bug of ours.
#[cfg(any(test, feature = "testing"))]
pub fn decide_by_classes(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let fleet = (inventory, requests, policies);
    let mut memo = Memo { by_classes: true, ..Memo::default() };
    plan(fleet, &UnderWay::default(), Advice::None, &mut memo).expect("leaving everything as it is")
}

/// Decides as on a large fleet, where each part of the cluster is planned by itself for a gang, however small the fleet is.
///
/// # Panics
/// If there is no plan: a bug of ours.
#[cfg(any(test, feature = "testing"))]
pub fn decide_near(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let fleet = (inventory, requests, policies);
    let mut memo = Memo { by_parts: true, ..Memo::default() };
    together::decide(fleet, &UnderWay::default(), &mut memo).expect("leaving everything as it is")
}

/// The plan for a fleet, and the report.
fn plan(
    (inventory, requests, policies): (&Inventory, &[Request], &[Policy]),
    under_way: &UnderWay,
    advice: Advice<'_>,
    memo: &mut Memo,
) -> Result<Decision, SolveError> {
    let chosen = choose::choose(inventory, requests, policies, under_way, memo)?;
    let levels = chosen.levels();
    let allocation = allocate::allocate(&chosen);
    let Chosen { world, turns, program, .. } = chosen;
    let turns = turns.seen(|group, place| {
        let request = world.groups[group].requests[place];
        allocation.served.contains_key(&request.id)
    });
    let plan = Plan { steps: steps::steps(&world, &allocation) };
    let planned: BTreeSet<&RequestId> =
        world.groups.iter().flat_map(|group| group.requests.iter().map(|request| &request.id)).collect();
    let seats = Seats::new(inventory, &world.policies, requests, |id| planned.contains(id));
    let mut certificate: Vec<LevelCertificate> = program
        .levels
        .iter()
        .zip(&levels)
        .filter(|(level, _)| level.is_reported())
        .map(|(level, solved)| {
            let (value, bound) = match level {
                Level::Unserved(priority, Counted::Turns) => (turns.unproved(*priority), 0),
                _ => (solved.value, solved.bound),
            };
            LevelCertificate { level: level.name(), value, bound }
        })
        .collect();
    supply::add_unplaced(&world, &allocation, &mut certificate);
    certificate.push(nodes::certificate(&world, &allocation));
    let floors = [Level::Static, Level::Minimum, Level::Share];
    let mut before_all = program.levels.iter().zip(&levels).filter(|(level, _)| floors.contains(level));
    let meets_floors = before_all.all(|(_, solved)| solved.value == 0);
    let report = Report {
        requests: explain::requests(&world, &allocation, &seats, requests, (meets_floors, advice), memo),
        policies: supply::policies(&world, &allocation, &seats),
        frozen_in_doubt: supply::frozen(&world),
        certificate,
        gave_up: None,
    };
    Ok(Decision { plan, report })
}
