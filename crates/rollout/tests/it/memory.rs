//! Nodes about which nothing, or too little, is recorded.

use crate::fake::{Caller, World, answer, layout, settled, start};
use slicewright_rollout::{
    Action, CordonOwner, Listing, ManagerState, NodeLayout, Observed, Outlook, Phase, Progress, names,
};

const HAS: &str = "0:1g.10gb*7 1:3g.40gb*2";

/// A node that nobody of us ever changed, under a label of somebody else's that
/// stands for what its GPUs have.
fn under_their_label(wanted: &str) -> (Caller, Observed) {
    let mut world = World::new(HAS);
    world.map.insert("theirs".to_owned(), (layout(HAS), start()));
    world.labels.insert(names::MIG_CONFIG.to_owned(), "theirs".to_owned());
    world.labels.insert(names::MIG_CONFIG_STATE.to_owned(), "success".to_owned());
    let mut caller = Caller::new(world, wanted);
    let seen = caller.world.observe(Listing::Cached);
    (caller, seen)
}

/// What the node is taken to have: whoever holds a slice of it that stays keeps it.
fn taken_to_have(different: fn(&mut Observed)) -> Option<NodeLayout> {
    let (caller, mut seen) = under_their_label("0:2g.20gb*3 1:3g.40gb*2");
    different(&mut seen);
    let answer = answer(&caller, &seen);
    assert_eq!(answer.progress.phase, Phase::Mapping, "{:?}", answer.outlook);
    answer.progress.target.unwrap().from
}

#[test]
fn what_a_node_has_is_known_only_when_it_offers_just_that_and_no_run_failed() {
    assert_eq!(taken_to_have(|_| {}), Some(layout(HAS)));
    let silent = |seen: &mut Observed| seen.operands.state = ManagerState::Absent;
    assert_eq!(taken_to_have(silent), Some(layout(HAS)));
    let fewer = |seen: &mut Observed| {
        seen.allocatable.insert("nvidia.com/mig-1g.10gb".to_owned(), 6);
    };
    assert_eq!(taken_to_have(fewer), None, "a slice is missing, nobody knows which");
    let failed = |seen: &mut Observed| {
        seen.operands.state = ManagerState::Failed;
    };
    assert_eq!(taken_to_have(failed), None, "what kubelet offers is of before the run");
    // A node that seems to have what is wanted is not left as it is unless it does.
    let (caller, mut seen) = under_their_label(HAS);
    assert_eq!(answer(&caller, &seen).outlook, Outlook::Idle);
    fewer(&mut seen);
    assert_ne!(answer(&caller, &seen).outlook, Outlook::Idle);
}

#[test]
fn a_node_that_is_found_with_what_is_wanted_under_our_label_is_ours_from_then_on() {
    let mut caller = settled("0:off 1:off", HAS);
    let label = caller.world.labels[names::MIG_CONFIG].clone();
    caller.progress = Progress::default();
    caller.run(1);
    assert_eq!(caller.progress.applied, Some(label.clone()));
    let verified = caller.progress.verified.clone().unwrap();
    assert_eq!((verified.layout, verified.label), (layout(HAS), label));
    // Whoever writes another label freezes it.
    caller.world.set(names::MIG_CONFIG, "theirs");
    caller.want("0:2g.20gb*3 1:3g.40gb*2").run(10);
    caller.check_said("holding: nvidia.com/mig.config has `theirs`, which the operator did not write");
    caller.check_never("SetConfigLabel");
    // Under somebody else's label it is theirs: the first change may replace it.
    let (caller, seen) = under_their_label(HAS);
    let progress = answer(&caller, &seen).progress;
    assert_eq!((progress.applied, progress.verified), (None, None));
}

/// MIG manager failed there while nobody of us looked: what our label stands for
/// is brought back first, and the node is closed until it is proved.
#[test]
fn under_our_label_what_a_failed_run_left_is_restored_although_nothing_is_remembered() {
    let mut caller = settled("0:off 1:off", HAS);
    let label = caller.world.labels[names::MIG_CONFIG].clone();
    caller.progress = Progress::default();
    caller.want("0:2g.20gb*3 1:3g.40gb*2");
    let mut seen = caller.world.observe(Listing::Cached);
    seen.operands.state = ManagerState::Failed;
    let answer = answer(&caller, &seen);
    let target = answer.progress.target.expect("something is done");
    assert!(target.restore, "{target:?}");
    assert_eq!((target.layout, target.label), (layout(HAS), label));
}

/// The memory was lost, and the cordon is not ours, or gone: nothing of ours is
/// left to be proved.
#[test]
fn a_mark_that_is_left_on_a_node_without_a_cordon_of_ours_is_taken_away_at_once() {
    for theirs in [false, true] {
        let mut caller = settled("0:off 1:off", HAS);
        caller.progress = Progress::default();
        caller.world.set(names::CORDONED_BY, names::CORDONED_BY_US);
        let mut seen = caller.world.observe(Listing::Cached);
        if theirs {
            seen.unschedulable = true;
            seen.cordon_owner = CordonOwner::Other { manager: "kubectl-cordon".to_owned() };
        }
        let answer = answer(&caller, &seen);
        assert!(matches!(answer.actions[..], [Action::RemoveCordonedBy { .. }]), "{:?}", answer.actions);
        assert_eq!(answer.progress.phase, Phase::Retreating);
    }
}
