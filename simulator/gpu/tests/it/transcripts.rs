//! Every transcript of default placement that was found, command by command.

use crate::support::{cgi, cut_ready_labelled};
use gpu::{Labelling, NvmlError};

#[track_caller]
fn check(model: &str, labelling: Labelling, ids: &[u32], expect: &[&str]) {
    let mut machine = cut_ready_labelled(model, labelling);
    assert_eq!(cgi(&mut machine, 0, ids), (expect.iter().map(ToString::to_string).collect(), None));
}

#[test]
fn seven_small_ones_on_an_h100() {
    let ids = [19; 7];
    check(
        "H100-80GB",
        Labelling::V1,
        &ids,
        &["13@6:1", "11@4:1", "12@5:1", "7@0:1", "8@1:1", "9@2:1", "10@3:1"],
    );
}

#[test]
fn seven_small_ones_on_a_chip_whose_halves_are_swapped() {
    let ids = [19; 7];
    check(
        "A100-40GB",
        Labelling::V2,
        &ids,
        &["9@6:1", "7@4:1", "8@5:1", "11@0:1", "12@1:1", "13@2:1", "14@3:1"],
    );
}

#[test]
fn small_ones_first_leave_no_room_for_a_3g() {
    let mut machine = crate::support::cut_ready("A100-40GB");
    let (created, error) = cgi(&mut machine, 0, &[19, 19, 14, 9]);
    assert_eq!(created, ["13@6:1", "11@4:1", "3@0:2"]);
    assert_eq!(error, Some(NvmlError::InsufficientResources));
}

#[test]
fn the_guides_examples() {
    check("A100-40GB", Labelling::V1, &[9, 19, 14, 19], &["2@4:4", "7@0:1", "4@2:2", "8@1:1"]);
    check(
        "A100-40GB",
        Labelling::V1,
        &[14, 19, 19, 19, 19, 19],
        &["5@4:2", "13@6:1", "7@0:1", "8@1:1", "9@2:1", "10@3:1"],
    );
    check("A100-40GB", Labelling::V1, &[19, 14, 5], &["13@6:1", "5@4:2", "1@0:4"]);
}

#[test]
fn each_profile_on_an_empty_gpu_prefers_the_far_end() {
    for (id, order) in [
        (19, &[6, 4, 5, 0, 1, 2, 3][..]),
        (15, &[6, 4, 0, 2]),
        (14, &[4, 0, 2]),
        (9, &[4, 0]),
        (5, &[0]),
        (0, &[0]),
    ] {
        let mut machine = crate::support::cut_ready("A100-40GB");
        let (created, error) = cgi(&mut machine, 0, &vec![id; order.len()]);
        assert_eq!(error, None, "profile {id}");
        let starts: Vec<_> = created
            .iter()
            .map(|gi| gi.split_once('@').unwrap().1.split_once(':').unwrap().0.parse::<u8>().unwrap())
            .collect();
        assert_eq!(starts, order, "profile {id}");
        assert_eq!(cgi(&mut machine, 0, &[id]).1, Some(NvmlError::InsufficientResources), "profile {id}");
    }
}

#[test]
fn an_h100_nvl_with_swapped_halves() {
    check("H100-94GB", Labelling::V2, &[9, 15, 19], &["1@4:4", "5@0:2", "13@2:1"]);
}

#[test]
fn the_double_memory_slice_goes_to_the_last_two_units() {
    check("H100-80GB", Labelling::V1, &[15], &["6@6:2"]);
}

#[test]
fn an_a30_and_an_rtx_pro() {
    check("A30", Labelling::V1, &[14, 14, 5], &["3@0:1", "4@1:1", "2@2:2"]);
    check("RTX-PRO-6000-96GB", Labelling::V1, &[5, 14, 14], &["1@0:6", "5@6:3", "6@9:3"]);
}
