//! What nobody can do better, worked out by hand.

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
