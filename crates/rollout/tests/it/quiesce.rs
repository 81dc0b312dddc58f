//! Between the cordon and the label: for which pods a change waits, which pods are evicted, and which make
//! the change be reverted.

use crate::fake::{Caller, UserPod, answer, seconds, settled, waits_for, writes_label};
use planner::policy::Drain;
use slicewright_rollout::{
    Action, Advance, Listing, Outlook, Phase, PodPhase, StartBlocker, Trouble, WaitsFor, advance,
};

/// A node that is cordoned, and of which the first of two GPUs is to be cut anew.
fn quiescing(drain: Drain) -> Caller {
    let mut caller = settled("0:off 1:off", "0:1g.10gb*7 1:3g.40gb*2");
    caller.rules.drain = drain;
    caller.want("0:2g.20gb*3 1:3g.40gb*2").until(Phase::Quiescing);
    let later = caller.world.now + seconds(60);
    caller.world.pass(later);
    caller
}

/// The answer to what is cached, and to a fresh list.
fn answers(caller: &mut Caller) -> [Advance; 2] {
    let now = caller.world.now;
    [Listing::Cached, Listing::Consistent { at: now }].map(|listing| {
        let seen = caller.world.observe(listing);
        answer(caller, &seen)
    })
}

fn is_going(answer: &Advance, name: &str) -> bool {
    matches!(waits_for(answer), WaitsFor::PodsGoing { pods, .. } if pods.len() == 1 && pods[0].name == name)
}

fn is_starting(answer: &Advance, name: &str) -> bool {
    matches!(waits_for(answer), WaitsFor::PodsStarting { pods } if pods.len() == 1 && pods[0].name == name)
}

/// A cached list may show a pod that has gone: it is not what ends a change.
#[test]
fn a_pod_in_the_way_ends_the_change_when_a_fresh_list_shows_it_too() {
    let mut caller = quiescing(Drain::Never);
    caller.world.pod("notebook", "mig-1g.10gb", 0);
    let [cached, fresh] = answers(&mut caller);
    assert_eq!(cached.actions, [Action::ListPods]);
    assert!(is_going(&cached, "notebook"));
    let Some(Trouble::PodsInTheWay { pods, .. }) = &fresh.progress.last_error else {
        panic!("{:?}", fresh.progress)
    };
    assert_eq!((fresh.progress.phase, pods[0].name.as_str()), (Phase::Retreating, "notebook"));
}

#[test]
fn where_pods_may_be_evicted_nobody_waits_for_a_list() {
    let mut caller = quiescing(Drain::Evict);
    let pod = caller.world.pod("notebook", "mig-1g.10gb", 0).pod.clone();
    for answer in answers(&mut caller) {
        assert_eq!(answer.actions, [Action::Evict { pod: pod.pod.clone(), if_uid: pod.uid.clone() }]);
        assert!(is_going(&answer, "notebook"));
    }
    // Once is enough.
    caller.world.users[0].pod.terminating = true;
    for answer in answers(&mut caller) {
        assert!(answer.actions.is_empty(), "{:?}", answer.actions);
        assert!(is_going(&answer, "notebook"));
    }
    // When they have gone, the label is written on a fresh list as ever.
    caller.world.users.clear();
    let [cached, fresh] = answers(&mut caller);
    assert_eq!(cached.actions, [Action::ListPods]);
    assert!(writes_label(&fresh));
}

/// Its DaemonSet would bring it again at once: whoever else is in the way is left
/// where it is.
#[test]
fn a_daemonsets_pod_that_turns_up_ends_the_change_before_anybody_is_evicted() {
    let mut caller = quiescing(Drain::Evict);
    caller.world.pod("notebook", "mig-1g.10gb", 0);
    caller.world.pod("exporter", "mig-1g.10gb", 0).pod.daemon_set = true;
    for answer in answers(&mut caller) {
        assert!(!answer.actions.iter().any(|action| matches!(action, Action::Evict { .. })));
        let Some(Trouble::PodsInTheWay { pods, .. }) = &answer.progress.last_error else {
            panic!("{:?}", answer.progress)
        };
        assert_eq!(pods.len(), 1);
        assert_eq!((answer.progress.phase, pods[0].name.as_str()), (Phase::Retreating, "exporter"));
    }
}

/// Kubelet may still give a pod that is bound and has not started any free slice.
#[test]
fn a_bound_pod_that_has_not_started_is_waited_for_wherever_it_will_land() {
    let comes = |drain: Drain, resource: &str, different: fn(&mut UserPod)| {
        let mut caller = quiescing(drain);
        let pod = caller.world.pod("late", resource, 1);
        pod.pod.phase = PodPhase::Pending;
        different(pod);
        answers(&mut caller)
    };
    for drain in [Drain::Never, Drain::Evict] {
        // It loses nothing, and nothing is evicted for it.
        for answer in comes(drain, "mig-3g.40gb", |_| {}) {
            assert!(is_starting(&answer, "late"), "{drain:?}: {:?}", answer.outlook);
        }
        // One that has ended, or has started, holds up nobody.
        let [_, ended] = comes(drain, "mig-3g.40gb", |pod| pod.pod.phase = PodPhase::Ended);
        assert!(writes_label(&ended));
        let [_, started] = comes(drain, "mig-3g.40gb", |pod| pod.pod.phase = PodPhase::Started);
        assert!(writes_label(&started));
        // One that ends before it started will not start.
        for answer in comes(drain, "mig-1g.10gb", |pod| pod.pod.terminating = true) {
            assert!(is_going(&answer, "late"), "{drain:?}: {:?}", answer.outlook);
        }
    }
    // In the way it is waited for, or evicted where that is allowed.
    assert!(comes(Drain::Never, "mig-1g.10gb", |_| {}).iter().all(|answer| is_starting(answer, "late")));
    let evicted = comes(Drain::Evict, "mig-1g.10gb", |_| {});
    assert!(evicted.iter().all(|answer| matches!(answer.actions[..], [Action::Evict { .. }])));
}

#[test]
fn a_layout_that_was_taken_back_is_tried_again_when_it_was_said_and_not_before() {
    let mut caller = quiescing(Drain::Never);
    caller.world.pod("notebook", "mig-1g.10gb", 0);
    caller.run(2);
    caller.world.users.clear();
    let until = caller.progress.set_back.as_ref().unwrap().until;
    caller.world.pass(until - seconds(1));
    let phase = |caller: &mut Caller| {
        let seen = caller.world.observe(Listing::Cached);
        let now = caller.world.now;
        let answer = advance(&seen, caller.wanted.as_ref(), &caller.rules, &caller.progress, now);
        (answer.progress.phase, matches!(answer.outlook, Outlook::Holding(StartBlocker::BackedOff { .. })))
    };
    assert_eq!(phase(&mut caller), (Phase::Idle, true));
    // Another layout need not wait for it.
    let wanted = caller.wanted.clone();
    caller.want("0:7g.80gb*1 1:3g.40gb*2");
    assert_eq!(phase(&mut caller), (Phase::Mapping, false));
    caller.wanted = wanted;
    caller.world.pass(until);
    assert_eq!(phase(&mut caller), (Phase::Cordoning, false));
}
