//! Nodes that are alike, planned together: as on a large fleet, on fleets that are small enough for brute force.
//! Here what is found need not be the best; what is proved has to be true.

use planner::check::{check, check_certificate, is_sound};
use planner::decide::{Decision, decide_by_classes};
use planner::report::LevelCertificate;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::oracle::values::{Demand, Values};
use crate::oracle::world::{World, worlds};

/// What the certificate says of each level that brute force counts in the same way, with what the plan and the best plan come to.
fn levels<'a>(
    certificate: &'a [LevelCertificate],
    mine: &Values,
    best: &Values,
) -> Vec<(&'a LevelCertificate, i64, i64)> {
    let mut unserved = mine.unserved.iter().zip(&best.unserved);
    let known = certificate.iter().filter_map(|level| {
        let (mine, best) = match level.level.as_str() {
            "slices missing to minCount" => (mine.floors, best.floors),
            name if name.starts_with("unserved compute slices") => {
                let (mine, best) = unserved.next()?;
                (mine.slices, best.slices)
            }
            "age of the unserved, in ranks" => (mine.age, best.age),
            "slices missing to spareCount" => (mine.spare, best.spare),
            "GPUs changed" => (mine.changed, best.changed),
            _ => return None,
        };
        Some((level, i64::from(mine), i64::from(best)))
    });
    known.collect()
}

/// What the plan and the best plan come to, and what the certificate says.
fn compared(world: &World) -> (Values, Values, Decision) {
    let World { inventory, requests, policies } = world;
    let decision = decide_by_classes(inventory, requests, policies);
    let (_, best) = crate::oracle::best(inventory, requests, policies);
    let mine =
        Demand::new(inventory, requests, policies).values_of(&decision.plan).0.expect("rules are kept");
    // How many nodes are touched is bounded, not minimal: see the certificate.
    let best = Values { nodes: mine.nodes, ..best };
    (mine, best, decision)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_breaks_a_rule_and_nothing_is_proved_that_is_not_so(world in worlds()) {
        let World { inventory, requests, policies } = &world;
        let (mine, best, Decision { plan, report }) = compared(&world);
        let notes = check(&plan, inventory, requests, policies);
        prop_assert!(is_sound(&notes), "{:?}", notes);
        prop_assert_eq!(check_certificate(&plan, inventory, &report.certificate), vec![]);
        prop_assert!(best <= mine, "brute force finds less: {:?}\nthan: {:?}", best, mine);
        // A bound holds for all plans that come to the same at the levels before.
        for (level, mine, best) in levels(&report.certificate, &mine, &best) {
            prop_assert!(level.bound <= best && best <= level.value, "{:?}: {}", level, best);
            if mine != best {
                break;
            }
        }
        let mut deciding = report.certificate.iter().filter(|level| level.level != "nodes touched");
        if deciding.all(LevelCertificate::is_proven) {
            prop_assert_eq!(mine, best);
        }
    }
}

/// Good plans, mostly the best, of fleets of which a third is short of CPU and memory.
#[test]
fn hardly_any_plan_leaves_more_unserved_than_the_best() {
    let mut runner = TestRunner::deterministic();
    let (mut all, mut served, mut same) = (0, 0, 0);
    for _ in 0..200 {
        let world = worlds().new_tree(&mut runner).expect("a world").current();
        let (mine, best, _) = compared(&world);
        all += 1;
        served += usize::from(mine.unserved == best.unserved);
        same += usize::from(mine == best);
    }
    assert!(served * 100 >= all * 97 && same * 100 >= all * 80, "{served} and {same} of {all}");
}
