//! Demand of many kinds: impossible requests do not make planning harder, and demand that is too varied for
//! a proof is still planned.

use planner::check::{check, is_sound};
use planner::decide::{Decision, decide};
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::policy::Policy;
use planner::report::Outcome;
use planner::solver::{Class, Column, Effort, Extra, Instance, Row, Sense, solve};
use planner::testing::generate::Numbers;
use planner::testing::{a100, fleet, node, policy, request};

fn plan(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Decision {
    let decision = decide(inventory, requests, policies);
    let notes = check(&decision.plan, inventory, requests, policies);
    assert!(is_sound(&notes), "{notes:?}");
    for level in &decision.report.certificate {
        assert!(level.bound <= level.value, "{level:?}");
    }
    decision
}

fn served(decision: &Decision) -> Vec<&str> {
    let reports = decision.report.requests.iter();
    let served = reports.filter(|report| !matches!(report.outcome, Outcome::Unserved { .. }));
    served.map(|report| report.id.name.as_str()).collect()
}

/// Nodes with two empty GPUs each.
fn nodes(n: usize) -> Inventory {
    let names: Vec<String> = (0..n).map(|i| format!("n{i}")).collect();
    names.iter().fold(fleet(), |fleet, name| fleet.node(name, node().gpu(a100()).gpu(a100()))).build()
}

/// People may ask for whatever they can spell, each for something else.
#[test]
fn what_no_gpu_can_give_makes_no_difference_to_the_plan() {
    let (inventory, policies) = (nodes(3), [policy("p").build()]);
    let sensible: Vec<Request> =
        (0..9).map(|i| request(&format!("r{i}")).asks("2g.20gb", 1).since(i).build()).collect();
    let alone = plan(&inventory, &sensible, &policies);
    assert_eq!(served(&alone).len(), 9);

    let misspelt = (0..200).map(|i| {
        let profile = format!("1g.{}gb", 100 + i);
        request(&format!("misspelt{i}")).asks(&profile, 1).since(i).build()
    });
    let mut all = sensible;
    all.extend(misspelt);
    let beside = plan(&inventory, &all, &policies);
    assert_eq!((served(&beside), &beside.plan.steps), (served(&alone), &alone.plan.steps));

    // Fifteen and more on one node, where two GPUs can have fourteen together.
    all.extend((15..215).map(|n| request(&format!("too-many{n}")).asks("1g.10gb", n).since(500).build()));
    let beside = plan(&inventory, &all, &policies);
    assert_eq!(served(&beside), served(&alone));
    let gpus = |decision: &Decision| decision.plan.steps.iter().map(|step| step.gpus.len()).sum::<usize>();
    assert_eq!(gpus(&beside), gpus(&alone));
    let level = beside.report.certificate.iter().find(|level| level.level.starts_with("unserved"));
    let compute: i64 = 200 + (15..215).sum::<i64>();
    let counted = level.map(|level| (level.value, level.bound));
    assert_eq!(counted, Some((compute, compute)), "they are counted as unserved, and it is proved");
}

/// Each asks for another combination of slices on one node, and together for
/// far more than there is: no exact answer for all within the effort.
#[test]
fn demand_too_varied_for_a_proof_is_planned_all_the_same() {
    let inventory = nodes(8);
    let policies = [policy("p").build()];
    let requests: Vec<Request> = (0..60)
        .map(|i| {
            let mut asks = request(&format!("r{i}")).asks("1g.10gb", 1 + i % 6).since(i64::from(i));
            if i / 6 % 5 > 0 {
                asks = asks.asks("2g.20gb", i / 6 % 5);
            }
            if i / 30 > 0 {
                asks = asks.asks("3g.40gb", i / 30);
            }
            asks.build()
        })
        .collect();
    let decision = plan(&inventory, &requests, &policies);
    let unserved = decision.report.certificate.iter().find(|level| level.level.starts_with("unserved"));
    let level = unserved.expect("somebody waits");
    let asked: i64 = requests
        .iter()
        .map(|r| r.slices.iter().map(|(p, n)| i64::from(p.compute) * i64::from(*n)).sum::<i64>())
        .sum();
    // Sixteen GPUs have 112 compute slices.
    assert!(level.bound >= asked - 112, "{level:?} of {asked}");
    assert!(level.value - level.bound <= 6, "{level:?} of {asked}");
}

/// A random instance whose rows extras can always meet, at a price.
fn instance(numbers: &mut Numbers) -> Instance {
    let mut number =
        |low: i64, high: i64| low + i64::try_from(numbers.below((high - low + 1) as u64)).unwrap();
    let small = |n: i64| i32::try_from(n).unwrap();
    let (profiles, groups) = (number(3, 5), number(6, 14));
    let mut instance = Instance { levels: 2, ..Instance::default() };
    for _ in 0..profiles {
        instance.rows.push(Row { sense: Sense::AtLeast, rhs: 0 });
    }
    for _ in 0..number(1, 3) {
        let mut columns = vec![Column::default()];
        for _ in 0..number(1, 4) {
            let coefficients =
                (0..profiles).map(|p| (p as usize, small(number(0, 7)))).filter(|(_, n)| *n > 0).collect();
            columns.push(Column { coefficients, costs: vec![0, number(1, 3)] });
        }
        instance.classes.push(Class { count: u32::try_from(number(2, 6)).unwrap(), columns: columns.into() });
    }
    for _ in 0..groups {
        let (asked, row) = (number(1, 3), instance.rows.len());
        instance.rows.push(Row { sense: Sense::Equal, rhs: asked });
        instance.extras.push(Extra { upper: asked, coefficients: vec![(row, 1)], costs: vec![number(1, 7)] });
        let mut coefficients = vec![(row, 1)];
        coefficients
            .extend((0..profiles).map(|p| (p as usize, -small(number(0, 5)))).filter(|(_, n)| *n < 0));
        instance.extras.push(Extra { upper: asked, coefficients, costs: vec![] });
    }
    instance
}

#[test]
fn with_any_effort_there_is_an_answer_and_with_more_a_better_one_and_bounds_hold() {
    let mut numbers = Numbers::new(5);
    let mut open = 0;
    for _ in 0..100 {
        let instance = instance(&mut numbers);
        let long = solve(&instance, Effort::default()).unwrap();
        for nodes in [1, 2, 8] {
            let quick = solve(&instance, Effort { nodes }).unwrap();
            assert!(instance.is_met_by(&quick.classes, &quick.extras), "{instance:?}");
            let (quick_level, long_level) = (quick.levels[0], long.levels[0]);
            assert!(quick_level.bound <= long_level.value, "{quick_level:?} {long_level:?}");
            assert!(long_level.value <= quick_level.value, "{quick_level:?} {long_level:?}");
            open += usize::from(quick.levels.iter().any(|level| !level.is_proven()));
        }
    }
    assert!(open > 20, "only {open} were not proved: too few to say anything");
}
