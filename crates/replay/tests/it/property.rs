//! For any trace: the journal is consistent, and no method exceeds the bound.

use proptest::prelude::*;
use replay::{Actuator, Player, bound};

use crate::support::{all, fleet, play, play_from, rules, trace};

const PROFILES: [&str; 5] = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];

fn lines() -> impl Strategy<Value = String> {
    let one = (0..400i64, 1..3000i64, 0..PROFILES.len(), 1..3u32);
    proptest::collection::vec(one, 1..25).prop_map(|requests| {
        let mut at = 0;
        let mut text = String::new();
        for (i, (later, stays, profile, count)) in requests.into_iter().enumerate() {
            at += later;
            text.push_str(&format!("{at},{},p{i},{},{count}\n", at + stays, PROFILES[profile]));
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_serves_what_capacity_forbids_and_nobody_beats_the_bound(
        lines in lines(),
        size in prop::sample::select(vec!["1x1xA100-80GB", "2x1xA100-80GB", "1x2xA100-80GB", "2x2xA100-80GB"]),
        actuator in prop::sample::select(Actuator::ALL.to_vec()),
        profile in 0..PROFILES.len(),
    ) {
        let fleet = fleet(size);
        let trace = trace(&lines, &fleet);
        let bound = bound(&trace, &fleet);
        prop_assert!(bound.slice_seconds <= trace.slice_seconds());
        let rules = rules(actuator);
        // `play` has every journal audited.
        for player in [Player::Slicewright, Player::FirstFit, Player::BestFit] {
            let played = play(&trace, &fleet, &player, &rules);
            prop_assert!(played.figures.held_slice_seconds <= bound.slice_seconds, "{player:?}");
            prop_assert_eq!(played, play(&trace, &fleet, &player, &rules), "the same twice");
        }
        let cut = all(&fleet, PROFILES[profile]);
        let played = play_from(&trace, &fleet, &Player::Static, &rules, &cut);
        prop_assert!(played.figures.held_slice_seconds <= bound.slice_seconds);
    }
}
