//! Measures after a failed change are taken only where they can do no harm.

use crate::fake::{Caller, answer, on_its_way, seconds, waits_for, writes_label};
use slicewright_rollout::{
    Action, Advance, FailureReason, Listing, Operand, Outlook, Phase, PodPhase, Progress, Rung, Trouble,
    WaitsFor, names,
};

/// The answer a minute after a phase began, on a node on which this is
/// different; the list of its pods is fresh.
fn after(phase: Phase, different: impl FnOnce(&mut Caller)) -> Advance {
    let mut caller = on_its_way(phase);
    caller.progress.since = Some(caller.world.now);
    let later = caller.world.now + seconds(60);
    caller.world.pass(later);
    different(&mut caller);
    caller.world.version += 1;
    let seen = caller.world.observe(Listing::Consistent { at: caller.world.now });
    answer(&caller, &seen)
}

#[test]
fn another_label_is_written_only_on_a_closed_node_that_is_there() {
    let relabelled = |different: fn(&mut Caller)| after(Phase::Relabelling, different);
    assert!(writes_label(&relabelled(|_| {})));
    for away in [
        relabelled(|c| c.world.ready = false),
        relabelled(|c| c.world.set(names::MIG_CONFIG_STATE, "rebooting")),
    ] {
        assert_eq!((away.actions.len(), waits_for(&away)), (0, &WaitsFor::Reboot));
    }
    let opened = relabelled(|c| c.world.opens());
    assert!(matches!(opened.actions[..], [Action::Cordon { .. }]), "{:?}", opened.actions);
    assert_eq!(*waits_for(&opened), WaitsFor::Cordon);
}

#[test]
fn another_label_is_not_written_over_somebody_elses() {
    let theirs = after(Phase::Relabelling, |c| c.world.set(names::MIG_CONFIG, "theirs"));
    assert!(theirs.actions.is_empty(), "{:?}", theirs.actions);
    let Outlook::Failed(failure) = &theirs.outlook else { panic!("{:?}", theirs.outlook) };
    let FailureReason::ForeignLayout { found, .. } = &failure.why else { panic!("{:?}", failure.why) };
    assert_eq!(found.as_deref(), Some("theirs"));
}

/// It got a slice although the node was cordoned: what follows would take it away.
#[test]
fn whoever_got_a_slice_past_the_cordon_is_waited_for_before_anything_else_is_tried() {
    for phase in [Phase::Relabelling, Phase::Healing] {
        let comes = |different: fn(&mut Caller)| {
            after(phase, |c| {
                c.world.pod("late", "mig-1g.10gb", 0);
                different(c);
            })
        };
        let held = comes(|_| {});
        assert_eq!(held.actions, [Action::ListPods], "{phase:?}");
        let WaitsFor::PodsGoing { pods, .. } = waits_for(&held) else { panic!("{:?}", held.outlook) };
        assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["late"]);
        // One that has ended, or that was there before, is in nobody's way.
        let ended = comes(|c| c.world.users.last_mut().unwrap().pod.phase = PodPhase::Ended);
        assert!(ended.actions.iter().any(Action::is_disruptive), "{phase:?}: {:?}", ended.actions);
        let known = comes(|c| {
            let uid = c.world.users.last().unwrap().pod.uid.clone();
            c.progress.target.as_mut().unwrap().bystanders.push(uid);
        });
        assert!(known.actions.iter().any(Action::is_disruptive), "{phase:?}: {:?}", known.actions);
    }
}

#[test]
fn mig_managers_pod_is_replaced_once_and_after_its_stale_state_was_cleared() {
    let healed = |different: fn(&mut Caller)| after(Phase::Healing, different);
    let ours = |c: &Caller| c.progress.target.as_ref().unwrap().label.clone();
    let caller = on_its_way(Phase::Healing);
    let clears = healed(|c| c.world.set(names::MIG_CONFIG_STATE, "pending"));
    let [Action::SetConfigLabel { value, clear_state: true, .. }] = &clears.actions[..] else {
        panic!("{:?}", clears.actions)
    };
    assert_eq!(*value, ours(&caller));
    assert!(!clears.progress.target.as_ref().unwrap().cleared);
    let before = caller.progress.target.as_ref().unwrap().manager_before.clone().unwrap();
    let deletes = |answer: &Advance| match &answer.actions[..] {
        [] => false,
        [Action::DeletePod { if_uid, .. }] => {
            assert_eq!(*if_uid, before);
            true
        }
        other => panic!("{other:?}"),
    };
    let cleared = healed(|_| {});
    assert!(deletes(&cleared));
    assert!(cleared.progress.target.as_ref().unwrap().cleared);
    // It is told to go, and says something once more: that is cleared by nobody.
    let again = healed(|c| {
        c.world.set(names::MIG_CONFIG_STATE, "pending");
        c.progress.target.as_mut().unwrap().cleared = true;
    });
    assert!(deletes(&again));
    // A node that reboots says so until it is back.
    assert!(deletes(&healed(|c| c.world.set(names::MIG_CONFIG_STATE, "rebooting"))));
    // It is gone, or another came: nothing is left to delete.
    for new in [false, true] {
        let mut caller = on_its_way(Phase::Healing);
        caller.world.labels.remove(names::MIG_CONFIG_STATE);
        let mut seen = caller.world.observe(Listing::Cached);
        if new {
            let pods = &mut seen.pods;
            let manager = pods.iter_mut().find(|pod| pod.operand == Some(Operand::MigManager)).unwrap();
            (manager.uid, manager.ready) = ("new".to_owned(), false);
        } else {
            seen.pods.retain(|pod| pod.operand != Some(Operand::MigManager));
        }
        let waits = answer(&caller, &seen);
        assert!(!deletes(&waits));
        assert_eq!((waits_for(&waits), waits.progress.phase), (&WaitsFor::ManagerPod, Phase::Healing));
        // As soon as it is ready, its run is waited for.
        seen.pods.iter_mut().filter(|pod| pod.uid == "new").for_each(|pod| pod.ready = true);
        let phase = answer(&caller, &seen).progress.phase;
        assert_eq!(phase, if new { Phase::Changing } else { Phase::Healing });
    }
}

/// On the way down the ladder: this rung, tried so, and MIG manager fails again.
fn fails_on(rung: Rung, healed: bool, restore: bool, different: impl FnOnce(&mut Progress)) -> Progress {
    after(Phase::Changing, |caller| {
        let target = caller.progress.target.as_mut().unwrap();
        (target.rung, target.healed, target.restore, target.attempt) = (rung, healed, restore, 5);
        caller.world.set(names::MIG_CONFIG_STATE, "failed");
        let parked = caller.world.labels.values_mut().filter(|value| *value == names::PAUSED_FOR_MIG);
        parked.for_each(|value| "true".clone_into(value));
        different(&mut caller.progress);
    })
    .progress
}

fn is_on(progress: &Progress) -> (Phase, Rung, u32) {
    let target = progress.target.as_ref().unwrap();
    (progress.phase, target.rung, target.attempt)
}

/// The layout is the one that is there: under another name it would be the same.
#[test]
fn what_is_only_brought_back_gets_a_new_pod_of_mig_manager_once_and_then_a_human() {
    for rung in [Rung::First, Rung::Alias] {
        let healed = fails_on(rung, false, true, |_| {});
        assert_eq!(is_on(&healed), (Phase::Healing, Rung::Restart, 6));
        let given_up = fails_on(rung, true, true, |_| {});
        assert_eq!(given_up.failed, Some(FailureReason::RestoreFailed(Trouble::ManagerFailed)));
    }
    let last = fails_on(Rung::Restart, true, true, |_| {});
    assert_eq!(last.failed, Some(FailureReason::RestoreFailed(Trouble::ManagerFailed)));
    assert_eq!((last.phase, last.set_back), (Phase::Failed, None), "it goes back to nothing else");
}

#[test]
fn a_layout_goes_back_to_the_one_before_if_that_is_another() {
    let back = fails_on(Rung::Restart, true, false, |_| {});
    assert_eq!(is_on(&back), (Phase::Relabelling, Rung::RollBack, 5));
    assert!(back.set_back.is_some_and(|back| back.rolled_back));
    let same = fails_on(Rung::Restart, true, false, |progress| {
        let layout = progress.target.as_ref().unwrap().layout.clone();
        progress.verified.as_mut().unwrap().layout = layout;
    });
    assert_eq!(same.failed, Some(FailureReason::ChangeFailed(Trouble::ManagerFailed)));
    let unknown = fails_on(Rung::Restart, true, false, |progress| progress.verified = None);
    assert_eq!(unknown.failed, Some(FailureReason::ChangeFailed(Trouble::ManagerFailed)));
}

#[test]
fn going_back_that_fails_gets_a_new_pod_once_and_then_a_human() {
    let healed = fails_on(Rung::RollBack, false, false, |_| {});
    assert_eq!(is_on(&healed), (Phase::Healing, Rung::RollBack, 6));
    let given_up = fails_on(Rung::RollBack, true, false, |_| {});
    assert_eq!(given_up.failed, Some(FailureReason::RollBackFailed(Trouble::ManagerFailed)));
}
