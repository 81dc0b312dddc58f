//! A clock that is set in the middle of a change, or that differs from that of another machine: no list
//! looks fresher because of it, and no step later.

use crate::fake::{Caller, answer, on_its_way, seconds, settled, writes_label};
use crate::protection::PAST_RETURN;
use jiff::SignedDuration;
use slicewright_rollout::progress::SetBack;
use slicewright_rollout::{
    Action, ListAsked, Listing, Outlook, Phase, Progress, SliceChange, Trouble, advance,
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Every step that waits for something with a limit.
const LIMITED: [Phase; 6] = [
    Phase::Cordoning,
    Phase::Quiescing,
    Phase::Changing,
    Phase::Verifying,
    Phase::Healing,
    Phase::Relabelling,
];

/// The clock is put forward, and whoever calls us has noticed.
fn put_forward(caller: &mut Caller) {
    caller.world.set_clock(HOUR);
    caller.progress = caller.progress.clone().put_forward(HOUR, caller.world.now);
}

#[test]
fn a_list_of_before_the_clock_was_put_back_writes_no_label() {
    for phase in [Phase::Quiescing, Phase::Relabelling] {
        let mut caller = on_its_way(phase);
        let later = caller.world.now + seconds(60);
        caller.world.pass(later);
        let mut label_on = |at| {
            let seen = caller.world.observe(Listing::Consistent { at });
            writes_label(&answer(&caller, &seen))
        };
        assert!(label_on(later), "{phase:?}: everything else is right");
        assert!(!label_on(later + seconds(1)), "{phase:?}: nobody knows how old it is");
        assert!(!label_on(later + HOUR), "{phase:?}");
    }
}

#[test]
fn a_list_of_before_the_clock_was_put_back_proves_nothing() {
    let mut caller = on_its_way(Phase::Changing);
    let before = caller.progress.target.as_ref().unwrap().plugin_before.clone().unwrap();
    caller.until(Phase::Verifying);
    caller.world.pass(caller.world.now + seconds(120));
    let mut seen = caller.world.observe(Listing::Consistent { at: caller.world.now + HOUR });
    seen.pods.iter_mut().for_each(|pod| {
        if pod.operand.is_some() {
            pod.uid.clone_from(&before);
        }
    });
    let told = answer(&caller, &seen);
    assert_eq!(told.progress.matched_since, None, "{:?}", told.outlook);
    assert_eq!(told.actions, [Action::ListPods], "what is true is asked");
}

#[test]
fn a_clock_that_is_put_forward_makes_no_step_late() {
    for phase in LIMITED {
        let mut caller = on_its_way(phase);
        let told = |caller: &mut Caller| {
            let seen = caller.world.observe(Listing::Cached);
            answer(caller, &seen)
        };
        let before = told(&mut caller);
        put_forward(&mut caller);
        let after = told(&mut caller);
        assert_eq!(after.progress.phase, before.progress.phase, "{phase:?}");
        assert_eq!(after.progress.last_error, before.progress.last_error, "{phase:?}");
        let (Outlook::Working { until: then, .. }, Outlook::Working { until: now, .. }) =
            (&before.outlook, &after.outlook)
        else {
            panic!("{phase:?}: {:?}, {:?}", before.outlook, after.outlook)
        };
        assert_eq!(*now, *then + HOUR, "{phase:?}: it has as much time left as before");
    }
}

#[test]
fn a_clock_that_is_put_forward_lets_no_wait_be_skipped() {
    let mut caller = on_its_way(Phase::Quiescing);
    // Nothing but the clock says that the scheduler had its five seconds.
    caller.progress.target.as_mut().unwrap().cordoned_at = Some(caller.world.now - seconds(1));
    put_forward(&mut caller);
    let at = caller.world.now;
    let seen = caller.world.observe(Listing::Consistent { at });
    assert!(!writes_label(&answer(&caller, &seen)), "the scheduler has had a second to notice the cordon");
    caller.world.pass(at + seconds(4));
    let seen = caller.world.observe(Listing::Consistent { at: caller.world.now });
    assert!(writes_label(&answer(&caller, &seen)));
}

#[test]
fn a_change_goes_on_to_its_end_whichever_way_the_clock_is_set_in_the_middle() {
    for phase in LIMITED {
        for forward in [true, false] {
            let mut caller = on_its_way(phase);
            if forward {
                put_forward(&mut caller);
            } else {
                // Everything that is remembered is dated in the future now.
                caller.world.set_clock(-HOUR);
            }
            // No wait is an hour longer for it.
            caller.run(40);
            caller.check_open_with("0:3g.40gb*1,1g.10gb*3 1:3g.40gb*2");
        }
    }
}

#[test]
fn what_is_dated_in_the_future_counts_from_now_on() {
    for phase in PAST_RETURN {
        let mut caller = on_its_way(phase);
        caller.world.set_clock(-HOUR);
        assert!(caller.progress.since.unwrap() > caller.world.now, "{phase:?}");
        let seen = caller.world.observe(Listing::Cached);
        let now = caller.world.now;
        let next = advance(&seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, now).progress;
        assert_eq!(next.since, Some(now), "{phase:?}");
        let target = next.target.unwrap();
        for at in [target.mapped_at, target.cordoned_at, target.written_at] {
            assert!(at.is_none_or(|at| at <= now), "{phase:?}: {at:?}");
        }
    }
}

#[test]
fn what_is_to_come_moves_with_a_clock_that_is_put_forward() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    let now = caller.world.now;
    caller.progress.cooldown_until = Some(now + seconds(60));
    caller.progress.set_back = Some(SetBack {
        layout: caller.wanted.clone().unwrap(),
        why: Trouble::WriteNotSeen,
        times: 1,
        until: now + seconds(90),
        rolled_back: false,
    });
    let moved = caller.progress.clone().put_forward(HOUR, now + HOUR);
    assert_eq!(moved.cooldown_until, Some(now + HOUR + seconds(60)));
    assert_eq!(moved.set_back.unwrap().until, now + HOUR + seconds(90));
    let same = caller.progress.clone().put_forward(-HOUR, now);
    assert_eq!(same, caller.progress, "one that is put back moves nothing: the future counts from now on");
}

/// No list becomes one of after the report by it.
#[test]
fn when_the_pods_were_asked_for_moves_with_a_clock_that_is_put_forward_and_is_never_in_the_future() {
    let mut caller = on_its_way(Phase::Quiescing);
    let (now, target) = (caller.world.now, caller.progress.target.as_mut().unwrap());
    let listed = Some(ListAsked { report: 7, at: now - seconds(1), older: None });
    target.slices = Some(SliceChange { id: "change-1".to_owned(), gpus: Vec::new(), listed, drained: false });
    let asked_at = |progress: &Progress| {
        progress.target.as_ref().unwrap().slices.as_ref().unwrap().listed.as_ref().unwrap().at
    };
    let forward = caller.progress.clone().put_forward(HOUR, now + HOUR);
    assert_eq!(asked_at(&forward), now + HOUR - seconds(1));
    assert_eq!(asked_at(&forward.no_later_than(now)), now);
}

/// The clock is put back by two hours after a change was taken back, and another operator starts, which knows nothing of it.
#[test]
fn what_was_taken_back_rests_no_longer_for_a_clock_that_is_put_back() {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.want("0:2g.20gb*3 1:3g.40gb*2");
    let rests = |until| SetBack {
        layout: caller.wanted.clone().unwrap(),
        why: Trouble::Uncordoned,
        times: 1,
        until,
        rolled_back: false,
    };
    let written = rests(caller.world.now + seconds(60));
    caller.progress.set_back = Some(written);
    caller.world.set_clock(-HOUR);
    caller.world.set_clock(-HOUR);
    let seen = caller.world.observe(Listing::Cached);
    let next = answer(&caller, &seen).progress;
    let until = next.set_back.as_ref().unwrap().until;
    let longest = caller.rules.settings.retreat_backoff;
    assert_eq!(until, caller.world.now + longest, "as if it had failed just now");
    caller.progress = next;
    caller.world.pass(until - seconds(1));
    let seen = caller.world.observe(Listing::Cached);
    assert_eq!(answer(&caller, &seen).progress.set_back.unwrap().until, until, "and it is said once");
    // The node rests after its last change as well, and for no longer than that.
    caller.run(20);
    caller.check_open_with("0:2g.20gb*3 1:3g.40gb*2");
}
