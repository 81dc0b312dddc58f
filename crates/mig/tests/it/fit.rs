//! Fitting slices on one GPU, against plain enumeration.

use mig::{
    Catalog, Counts, Geometry, Layout, Model, NoFit, ProfileIndex, ProfileName, ProfileSpec, fit, fit_beside,
};
use proptest::prelude::*;

fn model(id: &str) -> &'static Model {
    Catalog::builtin().get(id).unwrap()
}

fn counts(geometry: &Geometry, slices: &[(&str, u8)]) -> Counts {
    slices.iter().map(|(name, n)| (geometry.profile_named(name.parse().unwrap()).unwrap(), *n)).collect()
}

#[track_caller]
fn check_why(id: &str, slices: &[(&str, u8)], expect: &str) {
    let geometry = &model(id).geometry;
    let error = fit(geometry, &counts(geometry, slices)).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn too_much_compute() {
    check_why("A100-80GB", &[("1g.10gb", 8)], "they need 8 compute slices, and the GPU has 7");
}

#[test]
fn too_much_memory() {
    let slices = [("3g.40gb", 2), ("1g.10gb", 1)];
    check_why("A100-80GB", &slices, "they need 9 memory units, and the GPU has 8");
}

#[test]
fn media_engines_twice() {
    let expect = "1g.10gb+me and 1g.10gb+me want the same media engines, and a GPU has them once";
    check_why("A100-80GB", &[("1g.10gb+me", 2)], expect);
    let expect = "1g.24gb and 1g.24gb+me.all want the same media engines, and a GPU has them once";
    check_why("RTX-PRO-6000-96GB", &[("1g.24gb", 1), ("1g.24gb+me.all", 1)], expect);
}

#[test]
fn no_place_for_so_many_of_one() {
    let expect = "2 4g.40gb are asked for, and there is room for 1: 4g.40gb starts at 0 only";
    let geometry = Geometry::new(8, 8, model("A100-80GB").geometry.profiles().to_vec()).unwrap();
    let error = fit(&geometry, &counts(&geometry, &[("4g.40gb", 2)])).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn enough_of_all_and_still_no_arrangement() {
    let expect = "compute and memory would suffice, but no choice of starts keeps them apart: \
                  1g.10gb starts at 0, 1, 2, 3, 4, 5 or 6, 3g.40gb starts at 0 or 4; \
                  the rest fits without one 1g.10gb or 3g.40gb";
    let geometry = &model("A100-80GB").geometry;
    let there = geometry.layout([("1g.10gb".parse().unwrap(), 5)]).unwrap();
    let error =
        fit_beside(geometry, there, &counts(geometry, &[("1g.10gb", 3), ("3g.40gb", 1)])).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn what_others_hold_is_said() {
    let geometry = &model("A100-80GB").geometry;
    let there = geometry.layout([("3g.40gb".parse().unwrap(), 4)]).unwrap();
    let error = fit_beside(geometry, there, &counts(geometry, &[("7g.80gb", 1)])).unwrap_err();
    let expect = "they need 7 compute slices, and the GPU has 4 left beside the 3 that others hold";
    assert_eq!(error.to_string(), expect);
}

#[test]
fn small_slices_beside_a_three_need_it_in_the_far_half() {
    let geometry = &model("A100-80GB").geometry;
    let fit = fit(geometry, &counts(geometry, &[("3g.40gb", 1), ("1g.10gb", 4)])).unwrap();
    let three = geometry.layout([("3g.40gb".parse().unwrap(), 4)]).unwrap();
    assert!(three.is_subset_of(fit.layout));
    assert!(fit.creation_order.is_some());
}

/// Every multiset with up to one more of each profile than an empty GPU takes.
fn multisets(model: &Model) -> Vec<Counts> {
    let mut all = vec![Counts::default()];
    for (index, profile) in model.profiles.iter().enumerate() {
        let index = ProfileIndex(u8::try_from(index).unwrap());
        all = (0..=profile.max_instances + 1)
            .flat_map(|n| all.iter().map(move |counts| counts.iter().chain([(index, n)]).collect::<Counts>()))
            .collect();
    }
    all
}

#[test]
fn a_multiset_fits_exactly_if_some_legal_state_has_it() {
    for id in ["A100-80GB", "A30"] {
        let model = model(id);
        for counts in multisets(model) {
            let listed = model.lattice().find_multiset(&counts).is_some();
            match fit(&model.geometry, &counts) {
                Ok(fit) => {
                    assert!(listed, "{id} {counts:?}");
                    assert!(model.geometry.is_legal(fit.layout));
                    assert_eq!(model.geometry.counts(fit.layout), counts);
                    assert!(fit.creation_order.is_some(), "{id} {counts:?}: some order always exists");
                }
                Err(reason) => assert!(!listed, "{id} {counts:?}: {reason}"),
            }
        }
    }
}

/// A random GPU: one to three profiles, any starts.
fn geometries() -> impl Strategy<Value = Geometry> {
    let profile = |memory: u8| {
        (1..=memory, 1..=4u8, 1u16..=u16::MAX).prop_map(move |(size, compute, mask)| {
            let last = memory - size;
            let mut starts: Vec<u8> = (0..=last).filter(|start| mask >> start & 1 == 1).collect();
            if starts.is_empty() {
                starts.push(last);
            }
            (compute, size, starts)
        })
    };
    (2..=8u8, 4..=7u8)
        .prop_flat_map(move |(memory, compute)| {
            (Just((memory, compute)), prop::collection::vec(profile(memory), 1..=3))
        })
        .prop_map(|((memory, compute), rows)| {
            let specs = rows.into_iter().enumerate().map(|(i, (compute, size, starts))| ProfileSpec {
                name: ProfileName {
                    compute,
                    memory_gb: 10 * (u16::try_from(i).unwrap() + 1),
                    attribute: mig::Attribute::Plain,
                },
                compute,
                size,
                starts,
            });
            Geometry::new(memory, compute, specs.collect()).unwrap()
        })
}

/// Whether slices can be laid out, by trying all starts on an array of units.
fn can_be_laid_out(left: &mut Vec<&ProfileSpec>, units: &mut [bool], compute: u32) -> bool {
    let Some(spec) = left.pop() else { return true };
    let takes = u32::from(spec.compute);
    let fits = takes <= compute
        && spec.starts.iter().any(|start| {
            let span = usize::from(*start)..usize::from(start + spec.size);
            if units[span.clone()].iter().any(|taken| *taken) {
                return false;
            }
            units[span.clone()].fill(true);
            let done = can_be_laid_out(left, units, compute - takes);
            units[span].fill(false);
            done
        });
    left.push(spec);
    fits
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_gpu_takes_what_can_be_laid_out_on_it(geometry in geometries(), ns in [0..4u8, 0..4u8, 0..4u8]) {
        let specs = geometry.profiles();
        let counts: Counts = (0u8..).map(ProfileIndex).zip(ns).take(specs.len()).collect();
        let mut wanted: Vec<&ProfileSpec> = counts
            .iter()
            .flat_map(|(profile, n)| std::iter::repeat_n(geometry.profile(profile), n.into()))
            .collect();
        let mut units = vec![false; geometry.memory().into()];
        let expect = can_be_laid_out(&mut wanted, &mut units, geometry.compute().into());
        match fit(&geometry, &counts) {
            Ok(fit) => {
                prop_assert!(expect);
                prop_assert!(geometry.is_legal(fit.layout));
                prop_assert_eq!(geometry.counts(fit.layout), counts);
            }
            Err(NoFit::Media { .. }) => prop_assert!(false, "there are no media engines here"),
            Err(reason) => {
                prop_assert!(!expect, "{}", reason);
                prop_assert!(!reason.to_string().is_empty());
            }
        }
    }

    #[test]
    fn legal_is_what_an_array_of_units_allows(geometry in geometries(), bits: u64) {
        let all = (1u64 << geometry.placement_count()) - 1;
        let layout = Layout::from_bits(bits & bits.rotate_left(17) & all);
        let mut units = vec![0u32; geometry.memory().into()];
        let mut compute = 0;
        for placement in layout.iter() {
            let spec = geometry.profile(geometry.profile_of(placement));
            let start = geometry.start_of(placement);
            units[usize::from(start)..usize::from(start + spec.size)].iter_mut().for_each(|n| *n += 1);
            compute += u32::from(spec.compute);
        }
        let expect = units.iter().all(|n| *n <= 1) && compute <= u32::from(geometry.compute());
        prop_assert_eq!(geometry.is_legal(layout), expect);
        if expect {
            let free: Layout = geometry
                .placements()
                .filter(|p| !layout.contains(*p) && geometry.is_legal(layout.with(*p)))
                .collect();
            prop_assert_eq!(geometry.free(layout), free);
        }
    }
}
