//! From the decision to the label: events that make a change start again or be reverted, and the pause
//! afterwards.

use jiff::SignedDuration;
use slicewright_rollout::progress::SetBack;
use slicewright_rollout::{
    Action, Admission, Advance, Listing, Outlook, Phase, Progress, StartBlocker, Trouble, WaitsFor, names,
};

use crate::fake::{Caller, answer, layout, on_its_way, rules, seconds, settled, start};

/// A node that lacks nothing but its turn.
fn queued() -> Caller {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.rules.admission =
        Admission::Held(StartBlocker::Budget { unavailable: 1, allowed: 1, nodes: Vec::new() });
    caller.want("0:2g.20gb*3 1:3g.40gb*2").run(10);
    assert_eq!(caller.progress.phase, Phase::Mapping);
    caller.rules.admission = Admission::Admitted;
    caller
}

fn answered(caller: &mut Caller) -> Advance {
    caller.world.version += 1;
    let seen = caller.world.observe(Listing::Cached);
    answer(caller, &seen)
}

/// What keeps a change from starting keeps one from being started whose entry is in
/// the map already: the answer is that of a node for which nothing was prepared.
#[test]
fn what_turns_up_while_a_node_waits_for_its_turn_makes_it_start_over() {
    type Different = fn(&mut Caller);
    let mut caller = queued();
    assert!(matches!(answered(&mut caller).actions[..], [Action::Cordon { .. }]), "its turn has come");
    let all: [(&str, Different); 9] = [
        ("another layout is wanted", |c| c.wanted = Some(layout("0:7g.80gb*1 1:3g.40gb*2"))),
        ("nothing is wanted", |c| c.wanted = None),
        ("somebody wrote the label", |c| c.world.set(names::MIG_CONFIG, "theirs")),
        ("our mark is there", |c| c.world.set(names::CORDONED_BY, names::CORDONED_BY_US)),
        ("somebody cordoned the node", |c| c.world.somebody_cordons()),
        ("the node is not ready", |c| c.world.ready = false),
        ("the map is not ours any more", |c| c.world.operator.uses_our_map = false),
        ("MIG manager is switched off", |c| c.world.operator.mig_manager = false),
        ("the policy is paused", |c| c.rules.admission = Admission::Held(StartBlocker::NotEnforced)),
    ];
    for (what, different) in all {
        let mut caller = queued();
        different(&mut caller);
        let told = answered(&mut caller);
        let begun = Progress { target: None, ..caller.progress.clone() };
        caller.progress = Progress { phase: Phase::Idle, ..begun };
        let anew = answered(&mut caller);
        assert_eq!(told.outlook, anew.outlook, "{what}");
        let names = |answer: &Advance| answer.actions.iter().map(Action::name).collect::<Vec<_>>();
        assert_eq!(names(&told), names(&anew), "{what}");
        assert!(!names(&told).contains(&"Cordon"), "{what}");
    }
}

/// What is wanted is judged by the scheduler's view, which follows in its own time.
#[test]
fn the_scheduler_has_its_time_to_notice_the_cordon() {
    let settle = rules().settings.cordon_settle;
    let phase_after = |cordoned: SignedDuration| {
        let mut caller = on_its_way(Phase::Cordoning);
        caller.world.unschedulable = true;
        caller.world.set(names::CORDONED_BY, names::CORDONED_BY_US);
        caller.progress.target.as_mut().unwrap().cordoned_at = Some(caller.world.now - cordoned);
        let answer = answered(&mut caller);
        (answer.progress.phase, answer.outlook)
    };
    for early in [SignedDuration::ZERO, settle - seconds(1)] {
        let (phase, outlook) = phase_after(early);
        assert_eq!(phase, Phase::Cordoning);
        assert!(matches!(outlook, Outlook::Working { waits_for: WaitsFor::Cordon, .. }), "{outlook:?}");
    }
    assert_eq!(phase_after(settle).0, Phase::Quiescing);
}

/// Whoever opens the node while it is closed for our change wins, whether the mark is
/// still there or not.
#[test]
fn a_cordon_that_was_there_and_is_gone_takes_the_change_back() {
    for (remembered, marked) in [(true, false), (false, true), (true, true), (false, false)] {
        let mut caller = on_its_way(Phase::Cordoning);
        caller.world.opens();
        caller.world.labels.remove(names::CORDONED_BY);
        if marked {
            caller.world.set(names::CORDONED_BY, names::CORDONED_BY_US);
        }
        caller.progress.target.as_mut().unwrap().cordoned_at = remembered.then_some(caller.world.now);
        let answer = answered(&mut caller);
        let lifted = answer.progress.last_error == Some(Trouble::Uncordoned);
        assert_eq!(lifted, remembered || marked, "{remembered} {marked}: {:?}", answer.outlook);
        let cordons = answer.actions.iter().any(|action| matches!(action, Action::Cordon { .. }));
        assert_eq!(cordons, !lifted);
    }
}

/// The answer to the label's write was lost, and it is being taken back: what counts
/// is whether the label is there.
#[test]
fn a_label_of_which_nobody_knows_whether_it_was_written_is_looked_for_before_the_node_is_opened() {
    let retreating = |came: bool| {
        let mut caller = on_its_way(Phase::Quiescing);
        let now = caller.world.now;
        let target = caller.progress.target.as_mut().unwrap();
        target.written_at = Some(now);
        let label = target.label.clone();
        caller.progress.phase = Phase::Retreating;
        if came {
            caller.world.set(names::MIG_CONFIG, &label);
            caller.world.set(names::MIG_CONFIG_STATE, "pending");
        }
        answered(&mut caller)
    };
    let lifted = retreating(false);
    assert!(matches!(lifted.actions[..], [Action::Uncordon { .. }]), "{:?}", lifted.actions);
    assert_eq!(lifted.progress.phase, Phase::Retreating);
    let changes = retreating(true);
    assert_eq!((changes.actions.len(), changes.progress.phase), (0, Phase::Changing));
    assert_eq!(changes.progress.target.unwrap().attempt, 1);
}

/// Each time longer, for this layout; for another from the beginning.
#[test]
fn the_pause_before_a_layout_is_tried_again_doubles_each_time_up_to_the_longest() {
    let settings = rules().settings;
    let pause = |before: Option<(&str, u32)>| {
        let mut caller = on_its_way(Phase::Quiescing);
        let wanted = caller.progress.target.as_ref().unwrap().layout.clone();
        caller.progress.set_back = before.map(|(other, times)| SetBack {
            layout: if other.is_empty() { wanted.clone() } else { layout(other) },
            why: Trouble::WriteNotSeen,
            times,
            until: start(),
            rolled_back: false,
        });
        caller.world.opens();
        let back = answered(&mut caller).progress.set_back.unwrap();
        assert_eq!((&back.layout, back.why), (&wanted, Trouble::Uncordoned));
        (back.times, back.until.duration_since(caller.world.now))
    };
    let first = settings.retreat_backoff;
    assert_eq!(pause(None), (1, first));
    assert_eq!(pause(Some(("", 1))), (2, first * 2));
    assert_eq!(pause(Some(("", 2))), (3, first * 4));
    assert_eq!(pause(Some(("", 5))), (6, first * 32));
    assert_eq!(pause(Some(("", 100))), (101, settings.longest_backoff));
    assert_eq!(pause(Some(("", u32::MAX))), (u32::MAX, settings.longest_backoff));
    assert_eq!(pause(Some(("0:7g.80gb*1 1:3g.40gb*2", 5))), (1, first), "another layout went wrong before");
}
