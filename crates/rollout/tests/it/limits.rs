//! Each step that waits for something has a limit. It waits exactly that long, states until when, and then
//! states what did not happen; a wait that ends by itself is checked at its end.

use crate::fake::{Caller, answer, on_its_way, rules, seconds, settled, writes_label};
use jiff::SignedDuration;
use planner::policy::Drain;
use slicewright_rollout::progress::SetBack;
use slicewright_rollout::{
    Admission, Advance, Listing, Outlook, Phase, PodPhase, Settings, StartBlocker, Trouble, Unproven, names,
};

const STATE: &str = names::MIG_CONFIG_STATE;

/// The answer so long after a step began, on a node on which this is different.
fn after(phase: Phase, waited: SignedDuration, different: &dyn Fn(&mut Caller)) -> Advance {
    let mut caller = on_its_way(phase);
    different(&mut caller);
    caller.world.version += 1;
    caller.progress.since = Some(caller.world.now - waited);
    let seen = caller.world.observe(Listing::Cached);
    answer(&caller, &seen)
}

/// A moment before the limit the step still waits, until just then; at the limit this
/// is the trouble.
#[track_caller]
fn check_limit(
    phase: Phase,
    limit: SignedDuration,
    expect: impl Fn(&Trouble) -> bool,
    different: impl Fn(&mut Caller),
) {
    let early = after(phase, limit - seconds(1), &different);
    let Outlook::Working { until, .. } = early.outlook else { panic!("{:?}", early.outlook) };
    assert_eq!(early.progress.phase, phase);
    assert_eq!(until, early.progress.since.unwrap() + limit);
    assert_eq!(early.progress.last_error, on_its_way(phase).progress.last_error);
    let late = after(phase, limit, &different);
    assert_ne!(late.progress.phase, phase, "{:?}", late.outlook);
    let trouble = late.progress.last_error.unwrap();
    assert!(expect(&trouble), "{trouble:?}");
}

fn parked(caller: &mut Caller) {
    caller.world.set("nvidia.com/gpu.deploy.device-plugin", names::PAUSED_FOR_MIG);
}

#[test]
fn mig_manager_has_so_long_for_each_part_of_its_run() {
    let Settings { pickup_limit, wedged_after, change_limit, .. } = rules().settings;
    let is = |expect: Trouble| move |trouble: &Trouble| *trouble == expect;
    let state = |state: &'static str| {
        move |caller: &mut Caller| {
            caller.world.set(STATE, state);
            let parked = caller.world.labels.values_mut().filter(|value| *value == names::PAUSED_FOR_MIG);
            parked.for_each(|value| "true".clone_into(value));
        }
    };
    let phase = Phase::Changing;
    check_limit(phase, pickup_limit, is(Trouble::NotPickedUp), |caller| {
        caller.world.labels.remove(STATE);
    });
    check_limit(phase, change_limit, is(Trouble::TooSlow), state("pending"));
    check_limit(phase, change_limit, is(Trouble::TooSlow), state("a state of a later version"));
    check_limit(phase, change_limit, is(Trouble::NotBack), state("rebooting"));
    check_limit(phase, change_limit, is(Trouble::NotBack), |caller| caller.world.ready = false);
    check_limit(phase, wedged_after, is(Trouble::ManagerWedged), |caller| {
        caller.world.set(STATE, "pending");
        parked(caller);
    });
}

/// Neither the run nor the proof is late by itself, since each begins anew.
#[test]
fn runs_and_proofs_that_alternate_are_too_slow_together() {
    let Settings { change_limit, verify_limit, .. } = rules().settings;
    let round = |waited: SignedDuration| {
        after(Phase::Changing, seconds(1), &|caller| {
            caller.world.set(STATE, "pending");
            let written_at = caller.world.now - waited;
            caller.progress.target.as_mut().unwrap().written_at = Some(written_at);
        })
    };
    let early = round(change_limit + verify_limit - seconds(1));
    assert_eq!((early.progress.phase, early.progress.last_error), (Phase::Changing, None));
    let late = round(change_limit + verify_limit);
    assert_eq!(late.progress.last_error, Some(Trouble::TooSlow));
    assert_eq!(late.progress.phase, Phase::Relabelling);
}

#[test]
fn slices_have_so_long_to_become_schedulable() {
    let limit = rules().settings.verify_limit;
    let missing = |trouble: &Trouble| {
        matches!(trouble, Trouble::NotSchedulable { missing: Unproven::Allocatable { .. } })
    };
    let offers_nothing = |caller: &mut Caller| caller.world.allocatable.clear();
    check_limit(Phase::Verifying, limit, missing, offers_nothing);
}

#[test]
fn a_write_has_so_long_to_be_seen() {
    let limit = rules().settings.write_limit;
    let unseen = |trouble: &Trouble| *trouble == Trouble::WriteNotSeen;
    check_limit(Phase::Mapping, limit, unseen, |caller| caller.world.map.clear());
    check_limit(Phase::Cordoning, limit, unseen, |caller| {
        caller.world.opens();
        caller.world.mark_goes();
        caller.progress.target.as_mut().unwrap().cordoned_at = None;
    });
    check_limit(Phase::Healing, limit, |trouble| *trouble == Trouble::ManagerGone, |_| {});
}

/// Nobody tried to write for days: a node that waits for its turn is not late.
#[test]
fn an_entry_that_somebody_deletes_while_the_node_waits_for_a_pod_is_written_again() {
    let mut caller = settled("0:off", "0:1g.10gb*7");
    caller.world.pod("train", "mig-1g.10gb", 0);
    caller.want("0:3g.40gb*2").run(60);
    let in_the_way = |caller: &Caller| {
        matches!(caller.last.as_ref().unwrap().outlook, Outlook::Holding(StartBlocker::PodsInTheWay { .. }))
    };
    assert!(in_the_way(&caller) && caller.progress.phase == Phase::Mapping);
    caller.world.map.clear();
    caller.run(5);
    assert!(in_the_way(&caller), "{}", caller.transcript.join("\n"));
    assert_eq!((&caller.progress.set_back, &caller.progress.last_error), (&None, &None));
    caller.world.users.clear();
    caller.run(10);
    caller.check_open_with("0:3g.40gb*2");
}

#[test]
fn a_cordoned_node_whose_entry_somebody_deletes_has_no_longer_for_it() {
    let mut caller = on_its_way(Phase::Relabelling);
    caller.progress.target.as_mut().unwrap().mapped_at = Some(caller.world.now);
    caller.world.map.clear();
    let since = Some(caller.world.now - SignedDuration::from_mins(4));
    caller.progress.since = since;
    let seen = caller.world.observe(Listing::Cached);
    let next = answer(&caller, &seen).progress;
    assert_eq!((next.phase, next.since), (Phase::Relabelling, since));
}

#[test]
fn pods_have_so_long_to_start_and_to_go_and_their_list_to_come() {
    let Settings { quiesce_limit, drain_limit, .. } = rules().settings;
    let phase = Phase::Quiescing;
    for (drain, limit) in [(Drain::Never, quiesce_limit), (Drain::Evict, drain_limit)] {
        let unseen = |trouble: &Trouble| *trouble == Trouble::WriteNotSeen;
        check_limit(phase, limit, unseen, |caller| caller.rules.drain = drain);
        let in_the_way = |trouble: &Trouble| matches!(trouble, Trouble::PodsInTheWay { pods, .. } if pods[0].name == "ending");
        check_limit(phase, limit, in_the_way, |caller| {
            caller.rules.drain = drain;
            caller.world.pod("ending", "mig-1g.10gb", 0).pod.terminating = true;
        });
    }
    let starting =
        |trouble: &Trouble| matches!(trouble, Trouble::PodsNotStarting { pods } if pods[0].name == "new");
    check_limit(phase, quiesce_limit, starting, |caller| {
        caller.world.pod("new", "mig-3g.40gb", 1).pod.phase = PodPhase::Pending;
    });
}

/// The label's write counts from the first try, however long the pods took before.
#[test]
fn the_label_has_so_long_to_be_seen_from_its_first_write() {
    let limit = rules().settings.write_limit;
    let tried = |ago: SignedDuration| {
        let mut caller = on_its_way(Phase::Quiescing);
        caller.world.pass(caller.world.now + seconds(60));
        let now = caller.world.now;
        caller.progress.target.as_mut().unwrap().written_at = Some(now - ago);
        let seen = caller.world.observe(Listing::Consistent { at: now });
        answer(&caller, &seen)
    };
    let again = tried(limit - seconds(1));
    assert!(writes_label(&again), "{:?}", again.outlook);
    let Outlook::Working { until, .. } = again.outlook else { panic!("{:?}", again.outlook) };
    assert_eq!(again.progress.target.unwrap().written_at.unwrap() + limit, until, "it is not put off");
    let late = tried(limit);
    assert_eq!(late.progress.last_error, Some(Trouble::WriteNotSeen));
    assert_eq!(late.progress.phase, Phase::Retreating);
}

#[test]
fn another_label_has_so_long_to_be_written() {
    let limit = rules().settings.change_limit;
    check_limit(
        Phase::Relabelling,
        limit,
        |trouble| *trouble == Trouble::WriteNotSeen,
        |caller| caller.world.ready = false,
    );
}

/// It is told at once, not only when the node is open again.
#[test]
fn the_rest_after_a_change_is_known_from_its_proof_on() {
    let mut caller = on_its_way(Phase::Verifying);
    caller.until(Phase::Releasing);
    let rests = caller.progress.changed_at.unwrap() + caller.rules.cooldown;
    assert_eq!(caller.progress.cooldown_until, Some(rests));
}

/// What ends a hold is looked at when it ends; and soon, not in the past, when it
/// should have ended already.
#[test]
fn a_hold_is_looked_at_again_when_it_ends() {
    let minutes = SignedDuration::from_mins;
    let wakes = |different: &dyn Fn(&mut Caller)| {
        let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
        caller.want("0:2g.20gb*3 1:3g.40gb*2");
        different(&mut caller);
        let seen = caller.world.observe(Listing::Cached);
        let answer = answer(&caller, &seen);
        assert!(matches!(answer.outlook, Outlook::Holding(_)), "{:?}", answer.outlook);
        answer.wake_at.unwrap().duration_since(caller.world.now)
    };
    let cooldown = wakes(&|caller| caller.progress.changed_at = Some(caller.world.now - minutes(7)));
    assert_eq!(cooldown, minutes(3), "the node rests for ten");
    let backed_off = wakes(&|caller| {
        caller.progress.set_back = Some(SetBack {
            layout: caller.wanted.clone().unwrap(),
            why: Trouble::Uncordoned,
            times: 1,
            until: caller.world.now + minutes(4),
            rolled_back: false,
        });
    });
    assert_eq!(backed_off, minutes(4));
    let not_ready = wakes(&|caller| caller.world.ready = false);
    assert_eq!(not_ready, minutes(1), "whatever ends this is mostly seen");
}

#[test]
fn a_window_is_looked_at_when_it_opens_and_soon_when_it_should_be_open_already() {
    let opens_in = |length: SignedDuration| {
        let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
        caller.rules.admission =
            Admission::Held(StartBlocker::Budget { unavailable: 1, allowed: 1, nodes: Vec::new() });
        caller.want("0:2g.20gb*3 1:3g.40gb*2").run(10);
        assert_eq!(caller.progress.phase, Phase::Mapping, "its turn is all that it lacks");
        let opens = Some(caller.world.now + length);
        caller.rules.admission = Admission::Held(StartBlocker::Window { opens });
        let seen = caller.world.observe(Listing::Cached);
        let answer = answer(&caller, &seen);
        assert_eq!(answer.outlook, Outlook::Holding(StartBlocker::Window { opens }));
        answer.wake_at.unwrap().duration_since(caller.world.now)
    };
    for hours in [1, 12] {
        assert_eq!(opens_in(SignedDuration::from_hours(hours)), SignedDuration::from_hours(hours));
    }
    assert_eq!(opens_in(-SignedDuration::from_hours(1)), seconds(1));
    assert_eq!(opens_in(SignedDuration::ZERO), seconds(1));
}
