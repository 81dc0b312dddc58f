//! Changes beside a GPU about which the driver does not answer, or of which the answer cannot be read, while NVIDIA's
//! plugin goes on offering what it has: nobody can say what the node has to offer then. No node may stay closed for it.

use slicewright_rollout::Phase;

use super::model::places;
use super::stories::{phase, round, until};
use super::walk::Walk;

const FIRST: &str = "1g@0 1g@1 2g@2 3g@4";
const SECOND: &str = "3g@0 3g@4";
const RECUT: &str = "1g@0 1g@1 1g@2 1g@3 3g@4";

#[track_caller]
fn is_open(walk: &Walk) {
    assert!(!walk.cordoned && !walk.held, "{:?}", walk.phases);
    assert!(!walk.phases.contains(&Phase::Failed), "{:?}", walk.phases);
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

#[test]
fn beside_a_gpu_that_cannot_be_read_and_is_offered_all_the_same_another_one_is_changed() {
    let mut walk = Walk::new([FIRST, SECOND]);
    walk.cannot_read("gpu-b");
    walk.want(0, RECUT);
    until(&mut walk, "it is done", |walk| walk.has("gpu-a") == places(RECUT) && walk.rests());
    is_open(&walk);
    assert_eq!(walk.has("gpu-b"), places(SECOND));
}

#[test]
fn a_gpu_that_falls_silent_amid_the_change_of_another_one_does_not_keep_the_node_closed() {
    for at in [Phase::Cordoning, Phase::Quiescing, Phase::Changing, Phase::Verifying] {
        let mut walk = Walk::new([FIRST, SECOND]);
        walk.want(0, RECUT);
        until(&mut walk, "it has begun", |walk| phase(walk) == at);
        walk.cannot_read("gpu-b");
        until(&mut walk, "it is done", |walk| walk.has("gpu-a") == places(RECUT) && walk.rests());
        is_open(&walk);
    }
}

/// What nobody has claimed is refused, and nothing was changed.
#[test]
fn a_gpu_that_falls_silent_before_its_own_change_is_claimed_serves_on_with_what_it_has() {
    let mut walk = Walk::new([FIRST, SECOND]);
    walk.want(0, RECUT);
    until(&mut walk, "it has begun", |walk| {
        phase(walk) == Phase::Cordoning || phase(walk) == Phase::Quiescing
    });
    walk.cannot_read("gpu-a");
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    is_open(&walk);
    assert_eq!(walk.has("gpu-a"), places(FIRST));
}

/// The slices that are known have to be there all the same.
#[test]
fn a_silent_gpu_opens_no_node_on_which_the_plugin_offers_less_than_what_is_known() {
    let mut walk = Walk::new([FIRST, SECOND]);
    walk.cannot_read("gpu-b");
    walk.want(0, RECUT);
    let mut late = walk.offers();
    *late.get_mut("nvidia.com/mig-1g.10gb").unwrap() = 2;
    walk.late_status = Some(late);
    until(&mut walk, "it is changed", |walk| {
        walk.has("gpu-a") == places(RECUT) && phase(walk) == Phase::Verifying
    });
    for _ in 0..10 {
        round(&mut walk);
        assert!(walk.cordoned && phase(&walk) == Phase::Verifying, "{:?}", walk.phases);
    }
    walk.late_status = None;
    until(&mut walk, "it rests", Walk::rests);
    is_open(&walk);
}
