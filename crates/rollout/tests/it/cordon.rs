//! The owner of a cordon whose mark is gone: our own cordon is lifted in the end, and a cordon of others
//! never is.

use crate::fake::{Caller, Fault, World, settled};
use jiff::SignedDuration;
use slicewright_rollout::release::release;
use slicewright_rollout::{
    Action, Admission, Listing, Outlook, Phase, Progress, StartBlocker, WaitsFor, advance, names,
};

const BEFORE: &str = "0:1g.10gb*7 1:3g.40gb*2";
const AFTER: &str = "0:3g.40gb*1,1g.10gb*3 1:3g.40gb*2";

/// A node with two GPUs on its way to a phase, cordoned by us. Somebody trains
/// on the GPU that stays.
fn cordoned(phase: Phase, managed_fields: bool) -> Caller {
    let mut caller = settled("0:off 1:off", BEFORE);
    caller.world.managed_fields = managed_fields;
    caller.world.pod("train", "mig-3g.40gb", 1);
    caller.want(AFTER);
    match phase {
        Phase::Relabelling => caller.world.faults = vec![Fault::Fail],
        Phase::Healing => caller.world.faults = vec![Fault::WedgePending],
        Phase::Failed => caller.world.faults = vec![Fault::Fail; 20],
        _ => {}
    }
    caller.until(phase);
    // In the first of these phases the cordon is only being written.
    while caller.progress.target.as_ref().unwrap().cordoned_at.is_none() {
        caller.round();
    }
    if phase == Phase::Releasing {
        // The write that lifts it failed.
        let version = caller.world.version.to_string();
        assert!(caller.world.apply(&Action::Cordon { if_version: version }));
    }
    assert!(caller.world.unschedulable && caller.world.labels.contains_key(names::CORDONED_BY));
    caller.transcript.clear();
    caller
}

const WITH_CORDON: [Phase; 7] = [
    Phase::Cordoning,
    Phase::Quiescing,
    Phase::Changing,
    Phase::Verifying,
    Phase::Healing,
    Phase::Relabelling,
    Phase::Releasing,
];

#[test]
fn a_lost_cordon_mark_is_put_back_and_the_change_goes_on() {
    for managed_fields in [true, false] {
        for phase in WITH_CORDON {
            let mut caller = cordoned(phase, managed_fields);
            caller.world.mark_goes();
            let seen = caller.world.observe(Listing::Cached);
            let now = caller.world.now;
            let next = advance(&seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, now);
            if phase == Phase::Releasing {
                assert!(matches!(next.actions[..], [Action::Uncordon { .. }]), "{:?}", next.actions);
            } else {
                assert!(
                    matches!(next.actions[..], [Action::Cordon { .. }, ..]),
                    "{phase:?}: {:?}",
                    next.actions
                );
            }
            caller.run(60);
            caller.check_open_with(AFTER);
            assert_eq!(caller.progress.last_error, None, "{phase:?}");
            assert_eq!(caller.world.users.len(), 1);
        }
    }
}

#[test]
fn a_change_that_is_taken_back_lifts_the_cordon_whose_mark_is_lost() {
    for managed_fields in [true, false] {
        for phase in [Phase::Cordoning, Phase::Quiescing] {
            let mut caller = cordoned(phase, managed_fields);
            caller.world.mark_goes();
            caller.rules.admission = Admission::Held(StartBlocker::NotEnforced);
            caller.run(10);
            caller.check_open_with(BEFORE);
            caller.check_never("SetConfigLabel");
        }
    }
}

/// A controller that prunes labels at once, every time.
#[test]
fn whoever_takes_the_mark_away_every_time_neither_stops_us_nor_is_answered_write_for_write() {
    for managed_fields in [true, false] {
        let mut caller = settled("0:off 1:off", BEFORE);
        caller.world.managed_fields = managed_fields;
        caller.want(AFTER).until(Phase::Quiescing);
        let mut writes = 0;
        for _ in 0..300 {
            caller.world.mark_goes();
            let until = caller.turn();
            let actions = &caller.last.as_ref().unwrap().actions;
            writes += actions.iter().filter(|action| matches!(action, Action::Cordon { .. })).count();
            caller.world.pass(until);
        }
        caller.check_open_with(AFTER);
        assert!((1..=2).contains(&writes), "{writes}");
    }
}

#[test]
fn a_cordon_of_which_only_the_api_server_knows_that_it_is_ours_is_lifted() {
    for phase in [Phase::Quiescing, Phase::Releasing] {
        let mut caller = cordoned(phase, true);
        caller.world.mark_goes();
        caller.progress = Progress::default();
        caller.run(60);
        caller.check_open_with(AFTER);
    }
    // Nobody wants anything of the node any more.
    let mut caller = cordoned(Phase::Quiescing, true);
    caller.world.mark_goes();
    (caller.progress, caller.wanted) = (Progress::default(), None);
    caller.run(60);
    caller.check_open_with(BEFORE);
}

/// The mark is still there, and the cordon is another: who set it is told.
#[test]
fn a_cordon_that_somebody_else_set_anew_is_theirs_and_stays() {
    for phase in WITH_CORDON {
        let mut caller = cordoned(phase, true);
        caller.world.opens();
        caller.world.somebody_cordons();
        caller.run(90);
        let story = caller.transcript.join("\n");
        assert!(caller.world.unschedulable, "{phase:?}: {story}");
        assert_eq!(caller.did("Uncordon"), 0, "{phase:?}: {story}");
        assert!(!caller.world.labels.contains_key(names::CORDONED_BY), "{phase:?}: {story}");
        assert_eq!(caller.progress.phase, Phase::Idle, "{phase:?}: {story}");
    }
}

#[test]
fn somebody_elses_cordon_without_our_mark_is_never_ours() {
    for managed_fields in [true, false] {
        let mut caller = settled("0:off 1:off", BEFORE);
        caller.world.managed_fields = managed_fields;
        caller.want(AFTER);
        caller.world.somebody_cordons();
        caller.run(30);
        caller.check_said("holding: somebody else cordoned the node");
        assert!(caller.transcript.iter().all(|line| !line.starts_with("  ")));
        assert!(caller.world.unschedulable);
        // After a reboot what was there is brought back, under their cordon.
        caller.world.reboot();
        caller.want(BEFORE).run(60);
        assert!(caller.world.unschedulable);
        assert_eq!(caller.did("Uncordon") + caller.did("Cordon"), 0, "{}", caller.transcript.join("\n"));
    }
}

#[test]
fn a_failed_node_whose_mark_is_lost_is_released_and_opened_when_it_is_right_again() {
    for managed_fields in [true, false] {
        let mut caller = cordoned(Phase::Failed, managed_fields);
        caller.world.mark_goes();
        let seen = caller.world.observe(Listing::Cached);
        let released = release(&seen, &caller.progress);
        assert!(matches!(released.actions[..], [Action::Uncordon { .. }]), "{:?}", released.actions);
        assert!(!released.left.iter().any(|left| left.contains("not by us")), "{:?}", released.left);
        caller.run(1);
        assert_eq!(caller.did("Cordon"), 1, "the mark is put back: {}", caller.transcript.join("\n"));
        caller.world.mark_goes();
        caller.world.faults.clear();
        caller.world.restart_manager();
        caller.run(20);
        assert!(!caller.world.unschedulable, "{}", caller.transcript.join("\n"));
    }
    // Another's cordon is left to them.
    let mut caller = cordoned(Phase::Failed, true);
    caller.world.opens();
    caller.world.somebody_cordons();
    let seen = caller.world.observe(Listing::Cached);
    let released = release(&seen, &caller.progress);
    assert!(matches!(released.actions[..], [Action::RemoveCordonedBy { .. }]), "{:?}", released.actions);
    assert!(released.left.iter().any(|left| left.contains("not by us")), "{:?}", released.left);
}

/// The API server refuses to uncordon: what was promised is told as it was, however
/// long ago, and the write is tried again.
#[test]
fn a_deadline_that_has_passed_stays_where_it_was() {
    let mut caller = cordoned(Phase::Releasing, true);
    let since = caller.progress.since.unwrap();
    let promised = since + caller.rules.settings.write_limit;
    for minutes in [0, 1, 5, 6, 60, 600] {
        let now = since + SignedDuration::from_mins(minutes);
        caller.world.pass(now);
        let now = caller.world.now;
        let seen = caller.world.observe(Listing::Cached);
        let answer = advance(&seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, now);
        assert_eq!(answer.outlook, Outlook::Working { waits_for: WaitsFor::Uncordon, until: promised });
        assert!(matches!(answer.actions[..], [Action::Uncordon { .. }]));
        let wake = answer.wake_at.unwrap();
        assert!(now < wake && wake <= now + caller.rules.settings.poll, "{minutes}: {wake}");
        caller.progress = answer.progress;
    }
}

#[test]
fn a_node_rests_as_long_as_the_policy_in_force_says() {
    let minutes = SignedDuration::from_mins;
    let rests = |caller: &mut Caller| {
        caller.turn();
        match &caller.last.as_ref().unwrap().outlook {
            Outlook::Holding(StartBlocker::Cooldown { until }) => Some(*until),
            _ => None,
        }
    };
    let mut caller = Caller::new(World::new("0:off 1:off"), BEFORE);
    caller.settle();
    let changed = caller.progress.changed_at.unwrap();
    assert_eq!(caller.progress.cooldown_until, Some(changed + minutes(10)));
    caller.want(AFTER);
    assert_eq!(rests(&mut caller), Some(changed + minutes(10)));
    // Another policy follows, or this one is edited.
    caller.rules.cooldown = minutes(30);
    assert_eq!(rests(&mut caller), Some(changed + minutes(30)));
    caller.world.pass(changed + minutes(20));
    caller.rules.cooldown = minutes(20) + SignedDuration::from_secs(1);
    assert!(rests(&mut caller).is_some());
    caller.rules.cooldown = minutes(20);
    assert_eq!(rests(&mut caller), None);
    assert_eq!(caller.progress.cooldown_until, None);
    caller.run(30);
    caller.check_open_with(AFTER);
    // What an older version remembers has the moment only.
    let mut caller = settled("0:off 1:off", BEFORE);
    let until = caller.world.now + minutes(3);
    (caller.progress.changed_at, caller.progress.cooldown_until) = (None, Some(until));
    caller.want(AFTER);
    assert_eq!(rests(&mut caller), Some(until));
    caller.world.pass(until);
    assert_eq!(rests(&mut caller), None);
}
