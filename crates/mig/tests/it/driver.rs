//! The driver's default placement against every public transcript that was
//! found, and what follows from it for the order of creation.

use std::collections::BTreeSet;

use mig::{
    Catalog, Labelling, Lattice, Layout, Model, creation_order, default_placement, instance_id, remaining,
};

fn model(id: &str) -> &'static Model {
    Catalog::builtin().get(id).unwrap()
}

/// Asks for profiles by id, one after the other, and gives instance id and
/// start of each, or `Insufficient Resources`, after which it stops.
fn transcript(model: &Model, labelling: Labelling, requests: &[u16]) -> String {
    let geometry = &model.geometry;
    let mut layout = Layout::EMPTY;
    let mut lines = Vec::new();
    for id in requests {
        let profile = model.profile_with_id(*id).unwrap();
        let Some(placement) = default_placement(geometry, layout, profile) else {
            lines.push("Insufficient Resources".to_owned());
            break;
        };
        let (start, size) = (geometry.start_of(placement), geometry.profile(profile).size);
        let id = instance_id(labelling, geometry.memory(), start, size).unwrap();
        lines.push(format!("{id}@{start}"));
        layout = layout.with(placement);
    }
    lines.join(" ")
}

#[track_caller]
fn check(id: &str, requests: &[u16], expect: &str) {
    assert_eq!(transcript(model(id), Labelling::V1, requests), expect, "{id} {requests:?}");
}

#[track_caller]
fn check_v2(id: &str, requests: &[u16], expect: &str) {
    assert_eq!(transcript(model(id), Labelling::V2, requests), expect, "{id} {requests:?}");
}

#[test]
fn seven_small_slices_start_at_the_far_end() {
    check("H100-80GB", &[19; 7], "13@6 11@4 12@5 7@0 8@1 9@2 10@3");
    check_v2("A100-40GB", &[19; 7], "9@6 7@4 8@5 11@0 12@1 13@2 14@3");
}

#[test]
fn small_slices_first_leave_no_half_for_a_large_one() {
    check("A100-40GB", &[19, 19, 14, 9], "13@6 11@4 3@0 Insufficient Resources");
}

#[test]
fn large_slices_first_leave_room_for_the_small_ones() {
    check("A100-40GB", &[9, 14, 19, 19], "2@4 3@0 9@2 10@3");
    check("A100-40GB", &[9, 19, 14, 19], "2@4 7@0 4@2 8@1");
}

#[test]
fn a_two_and_five_ones() {
    check("A100-40GB", &[14, 19, 19, 19, 19, 19], "5@4 13@6 7@0 8@1 9@2 10@3");
}

#[test]
fn a_one_a_two_and_a_four() {
    check("A100-40GB", &[19, 14, 5], "13@6 5@4 1@0");
}

#[test]
fn a_chip_with_swapped_halves() {
    check_v2("H100-94GB", &[9, 15, 19], "1@4 5@0 13@2");
}

#[test]
fn the_double_memory_slice_goes_where_only_it_has_room() {
    check("H100-80GB", &[15], "6@6");
}

#[test]
fn an_a30() {
    check("A30", &[14, 14, 5], "3@0 4@1 2@2");
}

#[test]
fn twelve_units() {
    check("RTX-PRO-6000-96GB", &[5, 14, 14], "1@0 5@6 6@9");
}

#[test]
fn what_each_profile_prefers_on_an_empty_gpu() {
    check("A100-80GB", &[15; 5], "6@6 5@4 3@0 4@2 Insufficient Resources");
    check("A100-80GB", &[14; 4], "5@4 3@0 4@2 Insufficient Resources");
    check("A100-80GB", &[9; 3], "2@4 1@0 Insufficient Resources");
    check("A100-80GB", &[5; 2], "1@0 Insufficient Resources");
    check("A100-80GB", &[0; 2], "0@0 Insufficient Resources");
}

#[test]
fn a_second_slice_with_media_engines_has_no_room() {
    check("A100-80GB", &[20, 20], "13@6 Insufficient Resources");
    check("A30", &[6, 21], "1@0 Insufficient Resources");
}

#[test]
fn all_media_engines_leave_room_for_slices_without() {
    check("RTX-PRO-6000-96GB", &[65, 14], "3@0 Insufficient Resources");
    check("RTX-PRO-6000-96GB", &[65, 67, 66], "3@0 4@3 2@6");
}

/// What `nvidia-smi mig -lgip` shows as free, for the profiles without suffix.
fn free(id: &str, placements: &[(&str, u8)]) -> Vec<u8> {
    let model = model(id);
    let there = placements.iter().map(|(name, start)| (name.parse().unwrap(), *start));
    let layout = model.geometry.layout(there).unwrap();
    let plain = model.profiles.iter().filter(|p| p.name.attribute == mig::Attribute::Plain);
    plain.map(|p| remaining(&model.geometry, layout, model.geometry.profile_named(p.name).unwrap())).collect()
}

#[test]
fn what_is_left_depends_on_where_the_large_slice_is() {
    // 1g, 1g of double memory, 2g, 3g, 4g, 7g
    assert_eq!(free("A100-80GB", &[]), [7, 4, 3, 2, 1, 1]);
    assert_eq!(free("A100-80GB", &[("3g.40gb", 4)]), [4, 2, 2, 1, 1, 0]);
    assert_eq!(free("A100-80GB", &[("3g.40gb", 0)]), [3, 2, 1, 1, 0, 0]);
    assert_eq!(free("A100-80GB", &[("7g.80gb", 0)]), [0; 6]);
}

#[track_caller]
fn check_reachable(id: &str, [states, reachable, maximal, multisets]: [usize; 4]) {
    let geometry = model(id).geometry.plain();
    let lattice = Lattice::enumerate(&geometry).unwrap();
    let found: Vec<_> = lattice
        .indices()
        .filter(|state| creation_order(&geometry, Layout::EMPTY, lattice.state(*state)).is_some())
        .collect();
    assert_eq!(lattice.states().len(), states, "states");
    assert_eq!(found.len(), reachable, "reachable by default placement");
    assert_eq!(found.iter().filter(|state| lattice.is_maximal(**state)).count(), maximal, "maximal");
    assert_eq!(lattice.maximal().count(), maximal, "all maximal ones are among them");
    let distinct: BTreeSet<_> = found.iter().map(|state| lattice.multiset_of(*state)).collect();
    assert_eq!(distinct.len(), multisets, "multisets");
    assert_eq!(lattice.multisets().len(), multisets, "all multisets are among them");
}

#[test]
fn all_that_one_can_want_can_be_had_in_some_order() {
    check_reachable("A100-80GB", [723, 179, 78, 78]);
    check_reachable("A30", [26, 12, 5, 10]);
    check_reachable("RTX-PRO-6000-96GB", [26, 12, 5, 10]);
}

#[test]
fn an_order_of_creation_ends_in_exactly_the_wanted_layout() {
    for model in Catalog::builtin().models() {
        let geometry = &model.geometry;
        for wanted in model.lattice().states() {
            let Some(order) = creation_order(geometry, Layout::EMPTY, *wanted) else { continue };
            let mut layout = Layout::EMPTY;
            for placement in order {
                let profile = geometry.profile_of(placement);
                assert_eq!(default_placement(geometry, layout, profile), Some(placement));
                layout = layout.with(placement);
            }
            assert_eq!(layout, *wanted, "{}", model.id);
        }
    }
}

#[test]
fn an_order_can_begin_beside_what_is_there() {
    let geometry = &model("A100-80GB").geometry;
    let layout = |slices: &[(&str, u8)]| {
        geometry.layout(slices.iter().map(|(name, start)| (name.parse().unwrap(), *start))).unwrap()
    };
    let there = layout(&[("1g.10gb", 0)]);
    // The driver puts the next small slice beside it, never at 2.
    assert!(creation_order(geometry, there, layout(&[("1g.10gb", 0), ("1g.10gb", 2)])).is_none());
    let wanted = layout(&[("1g.10gb", 0), ("3g.40gb", 4)]);
    let order = creation_order(geometry, there, wanted).unwrap();
    assert_eq!(order.into_iter().collect::<Layout>(), wanted.difference(there));
    // And it takes nothing away.
    assert!(creation_order(geometry, there, layout(&[("3g.40gb", 4)])).is_none());
}
