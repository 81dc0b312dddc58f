//! The upper bound, calculated by hand.

use replay::bound;

use crate::support::{fleet, trace};

#[test]
fn the_bound_is_what_fits_at_each_moment() {
    let fleet = fleet("1x1xA100-80GB");
    // 0 to 10: 3g. 10 to 20: 3g, 3g. 20 to 30: three 3g, of which two fit. 30 to 40: 7g and 1g: 7 at most.
    let trace = trace(
        "0,30,a,3g.40gb,1\n10,30,b,3g.40gb,1\n20,30,c,3g.40gb,1\n30,40,d,7g.80gb,1\n30,40,e,1g.10gb,1\n",
        &fleet,
    );
    let bound = bound(&trace, &fleet);
    assert_eq!(bound.slice_seconds, 10 * 3 + 10 * 6 + 10 * 6 + 10 * 7);
    assert_eq!(bound.gpus, Some(2));
}

#[test]
fn two_models_share_what_both_have_and_no_number_of_gpus_is_told() {
    let fleet = fleet("1x1xA100-80GB,1x1xA30");
    let trace = trace("0,10,a,7g.80gb,1\n0,10,b,4g.24gb,1\n0,10,c,2g.12gb,1\n", &fleet);
    let bound = bound(&trace, &fleet);
    assert_eq!(bound.slice_seconds, 10 * (7 + 4));
    assert_eq!(bound.gpus, None);
}

#[test]
fn slices_of_one_request_may_be_anywhere_for_the_bound() {
    let fleet = fleet("2x1xA100-80GB");
    let trace = trace("0,10,a,7g.80gb,2\n", &fleet);
    assert_eq!(bound(&trace, &fleet).slice_seconds, 140);
}

/// The most compute slices of these single slices that fit these GPUs, by
/// trying every choice of who is on which GPU or nowhere.
fn most(asked: &[mig::ProfileName], gpus: &mut Vec<Vec<mig::ProfileName>>, geometry: &mig::Geometry) -> u32 {
    let Some((first, rest)) = asked.split_first() else { return 0 };
    let mut best = most(rest, gpus, geometry);
    for gpu in 0..gpus.len() {
        gpus[gpu].push(*first);
        let of = |name: &mig::ProfileName| (geometry.profile_named(*name).unwrap(), 1);
        if mig::fit(geometry, &gpus[gpu].iter().map(of).collect()).is_ok() {
            best = best.max(u32::from(first.compute) + most(rest, gpus, geometry));
        }
        gpus[gpu].pop();
    }
    best
}

/// As many GPUs as it takes until all of them fit.
fn fewest(asked: &[mig::ProfileName], geometry: &mig::Geometry) -> u64 {
    let all: u32 = asked.iter().map(|name| u32::from(name.compute)).sum();
    (1..).find(|n| most(asked, &mut vec![vec![]; *n], geometry) == all).unwrap() as u64
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 40, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..Default::default() })]

    /// Of one moment the bound is exactly what trying everything finds.
    #[test]
    fn of_one_moment_the_bound_is_what_trying_everything_finds(
        asked in proptest::collection::vec(0..5usize, 1..7),
        gpus in 1..3usize,
    ) {
        let names = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
        let fleet = fleet(&format!("1x{gpus}xA100-80GB"));
        let lines: Vec<String> =
            asked.iter().enumerate().map(|(i, p)| format!("0,1,p{i},{},1\n", names[*p])).collect();
        let trace = trace(&lines.concat(), &fleet);
        let profiles: Vec<mig::ProfileName> = trace.requests.iter().map(|asked| asked.profile).collect();
        let geometry = &fleet.nodes[0].gpus[0].geometry;
        let bound = bound(&trace, &fleet);
        proptest::prop_assert_eq!(bound.slice_seconds, u128::from(most(&profiles, &mut vec![vec![]; gpus], geometry)));
        proptest::prop_assert_eq!(bound.gpus, Some(fewest(&profiles, geometry)));
    }
}
