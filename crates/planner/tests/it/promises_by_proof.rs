//! A promise yields to a higher priority by proof only: what was not looked at within the bound is kept, and so is
//! what somebody might do without, as far as anybody knows.

use std::collections::BTreeSet;

use planner::check::{check, check_promises, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::{Inventory, Node};
use planner::report::Outcome;
use planner::solver::Level;
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::{a100, fleet, node, policy, request};

/// Decides, and has everything checked that can be.
fn decided(inventory: &Inventory, requests: &[Request]) -> Decision {
    let policies = [policy("p").build()];
    let decision = decide(inventory, requests, &policies);
    let Decision { plan, report } = &decision;
    let notes = check(plan, inventory, requests, &policies);
    assert!(is_sound(&notes), "{notes:?}");
    assert_eq!(check_promises(plan, &report.requests, inventory, requests, &policies), vec![]);
    decision
}

fn broken(decision: &Decision) -> BTreeSet<String> {
    let reports = decision.report.requests.iter().filter(|report| report.broken.is_some());
    reports.map(|report| report.id.name.clone()).collect()
}

fn is_served(decision: &Decision, prefix: &str) -> usize {
    let reports = decision.report.requests.iter().filter(|report| report.id.name.starts_with(prefix));
    reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. })).count()
}

/// Near nodes, for each of which somebody of a higher priority waits, and far ones that none of them may use. On
/// each node somebody was promised all that there is; those on far nodes came last.
#[test]
fn of_more_promises_than_can_be_looked_at_those_are_kept_that_nobody_needs() {
    const NEAR: usize = 36;
    const FAR: usize = 8;
    let name = |i: usize| format!("n{i:02}");
    let on = |i: usize| {
        let zone = if i < NEAR { "near" } else { "far" };
        node().label("zone", zone).gpu(a100().counted("3g.40gb", 2))
    };
    let inventory = (0..NEAR + FAR).fold(fleet(), |fleet, i| fleet.node(&name(i), on(i))).build();
    let promised = |i: usize| {
        let since = i64::try_from(i).expect("few");
        request(&format!("of-{}", name(i))).asks("3g.40gb", 2).since(since).promised(&name(i)).build()
    };
    let needs = |i: usize| {
        request(&format!("needs-{i}")).asks("7g.80gb", 1).priority(100).selects("zone", "near").build()
    };
    let mut requests: Vec<Request> = (0..NEAR + FAR).map(promised).chain((0..NEAR).map(needs)).collect();
    let far: BTreeSet<String> = (NEAR..NEAR + FAR).map(|i| format!("of-{}", name(i))).collect();
    let mut rounds = 0;
    loop {
        let decision = decided(&inventory, &requests);
        let now = broken(&decision);
        let for_nothing: Vec<&String> = now.intersection(&far).collect();
        assert_eq!(for_nothing, Vec::<&String>::new(), "nobody needs what was promised to them");
        if now.is_empty() {
            assert_eq!(is_served(&decision, "needs"), NEAR);
            break;
        }
        rounds += 1;
        assert!(is_served(&decision, "needs") >= now.len(), "each promise is broken for somebody");
        // What is broken was told, and is remembered by nobody.
        requests.iter_mut().filter(|r| now.contains(&r.id.name)).for_each(|r| r.promised = None);
    }
    assert!(rounds >= 2, "all were looked at in one round: that proves nothing");
}

/// What of the higher priority is not served.
fn unserved(decision: &Decision) -> Level {
    let mut levels = decision.report.certificate.iter();
    let level = levels.find(|level| level.level == "unserved compute slices at priority 100");
    level.map_or(Level { value: 0, bound: 0 }, |level| Level { value: level.value, bound: level.bound })
}

/// Nodes that are short of CPU and memory, and pods of many kinds, of a higher priority than the oldest, to whom the
/// first node with an idle slice of the right size was promised.
fn short_of_rooms(seed: u64) -> Option<(Inventory, Vec<Request>)> {
    let (inventory, mut requests) = rooms(Rooms { nodes: 12, gpus: 4, pods: 60, kinds: 8 }, seed);
    requests.iter_mut().for_each(|request| request.priority = 100);
    let asked = *requests[0].slices.keys().next()?;
    let has = |node: &Node| {
        node.gpus.values().flat_map(|gpu| gpu.slices.iter()).any(|slice| slice.profile == asked)
    };
    let (name, _) = inventory.nodes.iter().find(|(_, node)| has(node))?;
    requests[0].promised = Some(name.clone());
    requests[0].priority = 0;
    Some((inventory, requests))
}

/// Where the promise is made to somebody of the higher priority, it is kept: what the others get then is compared with
/// what they get without it.
#[test]
fn a_promise_is_broken_where_it_is_proved_that_a_higher_priority_gets_less_and_nowhere_else() {
    let mut yields = 0;
    for seed in [21, 22, 27, 28, 30] {
        let (inventory, requests) = short_of_rooms(seed).expect("a node has an idle slice");
        let with = |priority: i32, promised: bool| {
            let mut requests = requests.clone();
            requests[0].priority = priority;
            requests[0].promised = requests[0].promised.take().filter(|_| promised);
            unserved(&decided(&inventory, &requests))
        };
        let (kept, given_up) = (with(100, true), with(0, false));
        let is_broken = !broken(&decided(&inventory, &requests)).is_empty();
        assert_eq!(is_broken, kept.bound > given_up.value, "fleet {seed}: {kept:?} and {given_up:?}");
        yields += usize::from(is_broken);
    }
    assert!(yields >= 3, "{yields} of five yield: that proves nothing");
}
