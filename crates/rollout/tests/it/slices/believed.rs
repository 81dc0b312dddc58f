//! What an agent says counts only while it lives, and while nobody else can have written it.

use slicewright_rollout::{Outlook, Phase, StartBlocker};

use super::stories::{notebook, of_mig_manager, phase, recut, round, until};
use super::walk::{Dies, GPUS, Walk};

/// The operator would take MIG manager from the node, and the agent would do nothing there.
#[test]
fn a_node_that_mig_manager_has_stays_with_it_while_its_agent_counts_for_nothing() {
    for (alive, unguarded, why) in
        [(false, false, StartBlocker::AgentAway), (true, true, StartBlocker::AgentUnguarded)]
    {
        let mut walk = of_mig_manager();
        let (gpu, layout) = recut(&walk);
        walk.want(gpu, layout);
        (walk.alive, walk.unguarded) = (alive, unguarded);
        walk.actions.clear();
        for _ in 0..10 {
            round(&mut walk);
        }
        assert_eq!(walk.last.as_ref().map(|answer| answer.outlook.clone()), Some(Outlook::Holding(why)));
        assert!(walk.manager && walk.actions.is_empty(), "{:?}", walk.actions);
    }
}

/// Whoever has the token of any agent names slices at other places, in the same numbers, so that the node offers what is
/// reported. After a reboot they would be made there, and pods would look for theirs in vain.
#[test]
fn what_is_brought_back_after_a_reboot_is_never_by_a_report_that_anybody_can_have_written() {
    let mut walk = Walk::new(["1g@0 2g@2 3g@4", "3g@0 3g@4"]);
    until(&mut walk, "what it has is remembered", |walk| walk.progress.verified.is_some());
    let remembered = |walk: &Walk| walk.progress.verified.as_ref().unwrap().slices.clone();
    let before = remembered(&walk);
    let moves = |walk: &mut Walk| {
        let slices = walk.world.gpus.slices.get_mut(&agent::GpuUuid(GPUS[0].to_owned())).unwrap();
        let (mut place, serial) = slices.pop_first().unwrap();
        place.start = 1;
        slices.insert(place, serial);
        walk.world.kubelet.register(&walk.world.gpus);
    };
    walk.unguarded = true;
    moves(&mut walk);
    for _ in 0..10 {
        round(&mut walk);
        assert_eq!(remembered(&walk), before);
    }
    walk.unguarded = false;
    until(&mut walk, "its agent has said it", |walk| remembered(walk) != before);
}

/// Its slices are there, kubelet offers them, and nobody says any more that the gate is open.
#[test]
fn an_agent_that_is_gone_after_its_outcome_does_not_keep_the_node_closed() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    until(&mut walk, "it is done", |walk| phase(walk) == Phase::Verifying);
    walk.alive = false;
    for _ in 0..30 {
        walk.step(Dies::Never);
        walk.world.plugin();
    }
    assert_eq!((phase(&walk), walk.cordoned, walk.held), (Phase::Idle, false, false), "{:?}", walk.last);
}
