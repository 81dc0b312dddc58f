//! A node that waits for an administrator: what is done to it in the meantime, how it recovers, and the
//! result of a release.

use crate::fake::{Caller, Fault, World, layout};
use jiff::SignedDuration;
use slicewright_rollout::release::release;
use slicewright_rollout::{Action, Advance, Listing, Outlook, Phase, Progress, advance, names};

const LAYOUT: &str = "0:1g.10gb*7";

/// A node whose every run of MIG manager failed.
fn failed() -> Caller {
    let mut caller = Caller::new(World::new("0:off"), LAYOUT);
    caller.world.faults = vec![Fault::Fail; 20];
    caller.until(Phase::Failed);
    caller
}

fn answer(caller: &mut Caller) -> Advance {
    let seen = caller.world.observe(Listing::Cached);
    advance(&seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, caller.world.now)
}

/// Whether operands that MIG manager left parked are started again, on a failed
/// node on which this is different.
fn unpauses(different: impl FnOnce(&mut Caller)) -> bool {
    let mut caller = failed();
    caller.world.set("nvidia.com/gpu.deploy.dcgm", names::PAUSED_FOR_MIG);
    different(&mut caller);
    let answer = answer(&mut caller);
    assert!(matches!(answer.outlook, Outlook::Failed(_)), "{:?}", answer.outlook);
    assert!(answer.wake_at.is_some_and(|at| at > caller.world.now));
    match &answer.actions[..] {
        [] => false,
        [Action::UnpauseOperands { labels, .. }] => {
            assert_eq!(*labels, ["nvidia.com/gpu.deploy.dcgm"]);
            true
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn operands_that_stay_parked_on_a_failed_node_are_started_unless_somebody_is_at_work_there() {
    let state = |state: &'static str| move |c: &mut Caller| c.world.set(names::MIG_CONFIG_STATE, state);
    assert!(unpauses(|_| {}));
    assert!(unpauses(state("success")));
    assert!(!unpauses(|c| c.world.set("nvidia.com/gpu.deploy.dcgm", "true")), "nothing is parked");
    // Somebody else's label is their run, and their doing.
    assert!(!unpauses(|c| c.world.set(names::MIG_CONFIG, "theirs")));
    assert!(!unpauses(|c| {
        c.world.labels.remove(names::MIG_CONFIG);
        c.progress.applied = None;
    }));
    assert!(!unpauses(|c| c.world.set(names::DRIVER_UPGRADE_STATE, "drain-required")));
    assert!(unpauses(|c| c.world.set(names::DRIVER_UPGRADE_STATE, "upgrade-required")), "only announced");
    // A run that is under way parks them itself.
    assert!(!unpauses(state("rebooting")));
    assert!(!unpauses(state("validating")));
    for (after, expected) in [(299, true), (300, false)] {
        for said in ["pending", ""] {
            let unpaused = unpauses(|c| {
                let now = c.progress.since.unwrap() + SignedDuration::from_secs(after);
                c.world.pass(now);
                c.world.set(names::MIG_CONFIG_STATE, said);
            });
            assert_eq!(unpaused, expected, "`{said}` after {after} s");
        }
    }
}

#[test]
fn a_failed_node_that_is_right_again_stays_closed_until_it_has_been_so_for_a_while() {
    let mut caller = failed();
    caller.world.faults.clear();
    caller.world.restart_manager();
    loop {
        let until = caller.turn();
        assert!(caller.world.unschedulable);
        if caller.progress.matched_since.is_some() {
            break;
        }
        caller.world.pass(until);
    }
    let right = caller.progress.matched_since.unwrap();
    let stable = right + caller.rules.settings.stable_for;
    caller.world.pass(stable - SignedDuration::from_secs(1));
    let early = answer(&mut caller);
    assert_eq!(early.progress.phase, Phase::Failed);
    assert_eq!((early.actions.len(), early.wake_at), (0, Some(stable)));
    caller.world.pass(stable);
    let proved = answer(&mut caller);
    assert!(matches!(proved.actions[..], [Action::Uncordon { .. }]), "{:?}", proved.actions);
    assert_eq!(proved.progress.verified.as_ref().unwrap().layout, layout(LAYOUT));
    assert_eq!(proved.progress.changed_at, Some(stable), "it rests like any node that was changed");
}

/// Whoever made it right wrote a label of their own: the node is opened, and
/// nothing of it is taken as ours.
#[test]
fn a_failed_node_that_somebody_else_made_right_is_opened_and_not_taken_as_proved() {
    let mut caller = failed();
    caller.world.faults.clear();
    let hour = SignedDuration::from_hours(1);
    caller.world.map.insert("theirs".to_owned(), (layout(LAYOUT), caller.world.now - hour));
    caller.world.set(names::MIG_CONFIG, "theirs");
    caller.run(30);
    assert!(!caller.world.unschedulable, "{}", caller.transcript.join("\n"));
    assert_eq!(caller.progress.verified, None);
    caller.check_said("holding: nvidia.com/mig.config has `theirs`, which the operator did not write");
}

#[test]
fn a_release_ends_all_that_was_under_way_and_keeps_what_was_proved() {
    let mut caller = crate::fake::settled("0:off", LAYOUT);
    caller.world.faults = vec![Fault::Fail; 20];
    caller.want("0:3g.40gb*2").until(Phase::Failed);
    let now = caller.world.now;
    let mut progress = caller.progress.clone();
    (progress.matched_since, progress.interrupted_since) = (Some(now), Some(now));
    assert!(progress.target.is_some() && progress.failed.is_some() && progress.verified.is_some());
    let released = release(&caller.world.observe(Listing::Cached), &progress).progress;
    let kept = Progress {
        phase: Phase::Released,
        since: progress.since,
        applied: progress.applied,
        verified: progress.verified,
        cooldown_until: progress.cooldown_until,
        changed_at: progress.changed_at,
        marked_again_at: progress.marked_again_at,
        set_back: progress.set_back,
        last_error: progress.last_error,
        ..Progress::default()
    };
    assert_eq!(released, kept);
}

#[test]
fn a_release_tells_of_operands_that_stay_parked_and_only_then() {
    let mut caller = failed();
    let told = |caller: &mut Caller| {
        let left = release(&caller.world.observe(Listing::Cached), &caller.progress).left;
        left.iter().any(|left| left.contains("operands are paused"))
    };
    assert!(!told(&mut caller));
    caller.world.set("nvidia.com/gpu.deploy.dcgm", names::PAUSED_FOR_MIG);
    assert!(told(&mut caller));
}
