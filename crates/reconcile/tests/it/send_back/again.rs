//! Kueue from 0.17 on gives quota back to whom it took it from before it asks those who wait for it, so that nobody gains.

use api::foreign::Workload;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use reconcile::{CheckAnswer, CheckState};

use super::{HOLD, MEDIUM, gets_quota, is_sent_back, stuck, the_workload, waits, within};
use crate::cluster::Cluster;

/// Kueue as it is from 0.17 on: who was sent back is in its queue again at the end of the delay, and has its quota a moment
/// later, before others are asked.
pub(super) fn has_its_quota_back_at_once(cluster: &mut Cluster, answer: &CheckAnswer) {
    is_sent_back(cluster, answer);
    cluster.now += SignedDuration::from_secs(answer.retry_after.unwrap().into());
    let at = cluster.now;
    let workload = the_workload(cluster, &answer.workload.1);
    workload.status.conditions.retain(|condition| condition.type_ != "Requeued");
    let mut requeued = workload.status.conditions[0].clone();
    (requeued.type_, requeued.status) = ("Requeued".to_owned(), "True".to_owned());
    requeued.last_transition_time.0 = at;
    workload.status.conditions.push(requeued);
    gets_quota(cluster, &answer.workload.1, 20, at);
}

/// Somebody waits who came only at this time.
pub(super) fn comes_later(cluster: &mut Cluster, name: &str, at: Timestamp) {
    waits(cluster, name, MEDIUM, 2, 0);
    let workload = the_workload(cluster, name);
    workload.metadata.creation_timestamp = Some(Time(at));
    workload.status.conditions[0].last_transition_time.0 = at;
}

/// What is said of a workload now.
fn said(cluster: &Cluster, name: &str) -> (CheckState, String) {
    let round = cluster.round();
    let answer = round.checks.iter().find(|check| check.workload.1 == name).unwrap();
    (answer.state, answer.message.clone())
}

const KEEPS: &str = "; others wait for its quota, but Kueue has given it back once without asking them first, so this \
                     workload keeps it: set spec.active of its Workload to false until it can be served";

/// Nobody gains where Kueue gives the quota back before it asks those who wait. What the operator remembers is of no
/// account.
#[test]
fn who_has_its_quota_back_at_once_is_not_sent_back_again_for_the_same_people() {
    let mut cluster = stuck();
    let answer = within(&mut cluster, HOLD).remove(0);
    assert!(!answer.message.contains("others wait for its quota"), "{}", answer.message);
    assert_eq!(answer.gist, answer.message, "nothing of it moves");
    has_its_quota_back_at_once(&mut cluster, &answer);
    assert_eq!(within(&mut cluster, HOLD * 30), [], "those who wait have been passed over");
    let (state, message) = said(&cluster, "large");
    assert_eq!((state, message.ends_with(KEEPS)), (CheckState::Pending, true), "{message}");
    let round = cluster.round();
    let gist = &round.checks.iter().find(|check| check.workload.1 == "large").unwrap().gist;
    assert!(gist.ends_with(KEEPS), "else it would never be written: {gist}");
    // The operator starts anew.
    cluster.objects.unserved_quota = observe::objects::UnservedQuota::default();
    assert_eq!(within(&mut cluster, HOLD * 30), []);
    // They give up, and nobody waits any more.
    cluster.objects.workloads.remove(&("team".to_owned(), "pair".to_owned()));
    assert!(!said(&cluster, "large").1.contains("others wait"));
}

/// It is tried again for whoever came later, and less often each time: perhaps this Kueue is another by now.
#[test]
fn for_people_who_came_later_it_is_sent_back_after_twice_as_long_each_time() {
    let mut cluster = stuck();
    let mut answer = within(&mut cluster, HOLD).remove(0);
    for (turn, minutes) in [(1, 10), (2, 20), (3, 40), (4, 60), (5, 60)] {
        has_its_quota_back_at_once(&mut cluster, &answer);
        let later = cluster.now + SignedDuration::from_secs(1);
        let name = format!("later-{turn}");
        comes_later(&mut cluster, &name, later);
        let all = SignedDuration::from_mins(minutes);
        assert_eq!(within(&mut cluster, all - SignedDuration::from_secs(1)), [], "{turn}");
        let retried = within(&mut cluster, SignedDuration::from_secs(1));
        assert_eq!(retried.len(), 1, "{turn}");
        answer = retried[0].clone();
        assert!(
            answer.message.starts_with(&format!("its quota goes to team/{name}, ")),
            "{}",
            answer.message
        );
        assert!(!answer.message.contains("others wait for its quota"), "{}", answer.message);
        let gave_back = format!("Kueue has given the quota back to it {turn} times already");
        assert_eq!(answer.message.contains(&gave_back), turn > 1, "{}", answer.message);
    }
}

/// Those who were there before have waited in vain, unless they had quota since, or were in their queue anew: then Kueue looks at
/// them as at one who came later.
#[test]
fn whoever_lost_quota_or_came_back_into_its_queue_after_that_came_later() {
    let in_time = |why: &str, expected: usize, edit: &dyn Fn(&mut Workload, Timestamp)| {
        let mut cluster = stuck();
        let answer = within(&mut cluster, HOLD).remove(0);
        has_its_quota_back_at_once(&mut cluster, &answer);
        let at = cluster.now;
        edit(the_workload(&mut cluster, "pair"), at);
        assert_eq!(within(&mut cluster, HOLD * 2).len(), expected, "{why}");
    };
    let second = SignedDuration::from_secs(1);
    let turned = |workload: &mut Workload, kind: &str, at: Timestamp| {
        let mut condition = workload.status.conditions[0].clone();
        condition.type_ = kind.to_owned();
        condition.last_transition_time.0 = at;
        workload.status.conditions.push(condition);
    };
    in_time("it has waited all the time", 0, &|_, _| {});
    in_time("it lost quota since", 1, &|pair, at| {
        pair.status.conditions[0].last_transition_time.0 = at + second;
    });
    in_time("it came back since", 1, &|pair, at| turned(pair, "Requeued", at + second));
    in_time("its pods were ready for a moment since", 0, &|pair, at| turned(pair, "PodsReady", at + second));
    in_time("it was made since", 1, &|pair, at| pair.metadata.creation_timestamp = Some(Time(at + second)));
    in_time("it was made in the same second, and nobody knows", 1, &|pair, at| {
        pair.metadata.creation_timestamp = Some(Time(at));
    });
}

/// Only what has come to nothing is left: where somebody else had the quota meanwhile, or no check of ours took it, all is as
/// it was.
#[test]
fn who_has_its_quota_back_after_others_had_it_is_sent_back_as_before() {
    let long_before = |workload: &mut Workload| {
        let mut conditions = workload.status.conditions.iter_mut();
        let requeued = conditions.find(|condition| condition.type_ == "Requeued").unwrap();
        requeued.last_transition_time.0 -= SignedDuration::from_secs(6);
    };
    let in_time = |why: &str, edit: &dyn Fn(&mut Workload)| {
        let mut cluster = stuck();
        let answer = within(&mut cluster, HOLD).remove(0);
        has_its_quota_back_at_once(&mut cluster, &answer);
        edit(the_workload(&mut cluster, "large"));
        let (state, message) = said(&cluster, "large");
        assert_eq!(
            (state, message.contains("others wait")),
            (CheckState::Pending, false),
            "{why}: {message}"
        );
        assert_eq!(within(&mut cluster, HOLD).len(), 1, "{why}");
    };
    in_time("it waited for its quota", &long_before);
    in_time("it was in its queue again only afterwards", &|workload| {
        let mut conditions = workload.status.conditions.iter_mut();
        let requeued = conditions.find(|condition| condition.type_ == "Requeued").unwrap();
        requeued.last_transition_time.0 += SignedDuration::from_secs(1);
    });
    in_time("its slices were ready in between", &|workload| {
        workload.status.admission_checks[0].retry_count = None;
    });
    in_time("it was never in its queue again", &|workload| {
        workload.status.conditions.retain(|condition| condition.type_ != "Requeued");
    });
    in_time("another check took it", &|workload| {
        let ours = workload.status.admission_checks[0].clone();
        let others = api::foreign::workload::AdmissionCheckState { name: "others".to_owned(), ..ours };
        workload.status.admission_checks.push(others);
        workload.status.admission_checks[0].retry_count = None;
    });
}
