//! How long somebody has not been served is remembered from round to round: it is forgotten by no round that knows nothing, and by
//! no clock that is set back. Who is not served is who could be helped by nobody.

use jiff::SignedDuration;
use planner::report::{Outcome, Why};
use reconcile::{CheckState, PlannedRound, Round};
use serde_json::json;

use super::{
    HOLD, MEDIUM, SMALL, crowded, gets_quota, holds, sixteen_are_admitted, states, stuck, the_workload,
    waits, within,
};
use crate::cluster::Cluster;
use crate::queues::{add, fleet, note, of_job, workload};

/// The same for everybody who asks.
fn for_all(planned: &mut PlannedRound, outcome: &Outcome) {
    for request in &mut planned.report.requests {
        request.outcome = outcome.clone();
    }
}

fn not_served(why: Why) -> Outcome {
    Outcome::Unserved { why, help: Vec::new() }
}

#[test]
fn a_round_that_knows_nothing_forgets_nobodys_time_and_sends_nobody_back() {
    let mut cluster = stuck();
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(1)), []);
    cluster.now += SignedDuration::from_secs(1);
    let before = cluster.objects.unserved_quota.clone();
    assert_eq!(before.since.len(), 1, "{before:?}");
    let keeps = |why: &str, round: Round| {
        assert_eq!(round.unserved_quota, before, "{why}");
        assert!(
            round.checks.iter().all(|check| check.state != CheckState::Retry),
            "{why}: {:?}",
            round.checks
        );
        assert_eq!(round.unserved_quota.asked, before.asked, "{why}: nothing was asked");
    };
    keeps("the plan breaks a rule", cluster.round_that_thinks(|planned| planned.plan.object(note())));
    let gave_up = |planned: &mut PlannedRound| {
        planned.report.gave_up = Some("it took too long".to_owned());
        for_all(planned, &not_served(Why::NoPlan { why: "it took too long".to_owned() }));
    };
    keeps("there is no plan", cluster.round_that_thinks(gave_up));
    // Its data went back in time, and the workload is not among it yet.
    let mut settles = stuck();
    settles.now = cluster.now;
    settles.objects = cluster.objects.clone();
    settles.objects.workloads.remove(&("team".to_owned(), "large".to_owned()));
    settles.obstacles.settles_until = Some(cluster.now + SignedDuration::from_secs(60));
    keeps("the data settles", settles.round());
    // What is known again is acted upon at once.
    assert_eq!(within(&mut cluster, SignedDuration::ZERO).len(), 1);
}

/// The clock of the machine was wrong, and is set back.
#[test]
fn what_is_remembered_of_the_future_keeps_nobody_waiting_for_it() {
    let mut cluster = stuck();
    let tomorrow = cluster.now + SignedDuration::from_hours(24);
    let key = ("team".to_owned(), "large".to_owned());
    cluster.objects.unserved_quota.since.insert(key.clone(), tomorrow);
    cluster.objects.unserved_quota.asked = Some(tomorrow);
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(1)), []);
    assert!(cluster.objects.unserved_quota.since[&key] < cluster.now);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(1)).len(), 1);
}

/// Nothing else has to happen in the cluster for it.
#[test]
fn a_round_comes_by_itself_when_it_is_time_to_ask_again() {
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 20, 0);
    waits(&mut cluster, "other", MEDIUM, 18, 0);
    assert_eq!(within(&mut cluster, HOLD), [], "it is asked, and helps nobody");
    let pause = HOLD / 5;
    let asked = cluster.objects.unserved_quota.asked.unwrap();
    cluster.now += SignedDuration::from_secs(1);
    let round = cluster.round();
    assert_eq!(round.unserved_quota.asked, Some(asked), "not yet again");
    assert_eq!(round.wake_at, Some(asked + pause));
    // The other one may be served now: nobody says so to the operator.
    cluster.now = asked + pause;
    let round = cluster.round();
    assert_eq!(round.unserved_quota.asked, Some(cluster.now));
    assert_eq!(round.wake_at, Some(cluster.now + pause), "and again, while it asks");
}

/// Its slice is there, or nothing is known of it.
#[test]
fn who_is_kept_from_running_by_something_else_is_not_taken_for_one_who_cannot_be_served() {
    let cluster = stuck();
    let unserved = |outcome: Outcome| {
        let round = cluster.round_that_thinks(|planned| for_all(planned, &outcome));
        !round.unserved_quota.since.is_empty()
    };
    assert!(!unserved(not_served(Why::BlockedElsewhere { message: "no image".to_owned() })));
    assert!(!unserved(not_served(Why::NoPlan { why: "it is too large".to_owned() })));
    assert!(unserved(not_served(Why::AllUsed)));
}

/// Another check keeps it from starting meanwhile.
#[test]
fn whose_slices_were_ready_and_are_lost_is_told_that_and_is_not_among_those_who_cannot_be_served() {
    let mut cluster = sixteen_are_admitted();
    the_workload(&mut cluster, "sixteen").status.conditions.retain(|condition| condition.type_ != "Admitted");
    cluster.objects.nodes.remove("n2");
    let round = cluster.round();
    assert_eq!(states(&round), [("sixteen", CheckState::Retry)]);
    assert!(round.checks[0].message.starts_with("its slices were lost"), "{}", round.checks[0].message);
    assert!(round.unserved_quota.since.is_empty(), "{:?}", round.unserved_quota);
}

/// A namespace is planned for so many pods at a time as the fleet can have slices. A workload with more is served by no plan.
#[test]
fn who_has_more_pods_than_are_planned_for_is_not_served_and_gains_nothing() {
    let nowhere = |cluster: &mut Cluster, name: &str| {
        let host = ("kubernetes.io/hostname".to_owned(), "nowhere".to_owned());
        let spec = &mut the_workload(cluster, name).spec.pod_sets[0].template.spec;
        spec.change(|spec| spec.node_selector = Some([host].into()));
    };
    let sent_back = |pods: u32| {
        let mut cluster = fleet();
        let pool = json!({"metadata": {"name": "pool"}, "spec": {"nodeLabels": {"pool": "research"}}});
        add(&mut cluster, "ResourceFlavor", pool);
        let quota = |resource: &str| json!({"name": resource, "nominalQuota": 200});
        add(
            &mut cluster,
            "ClusterQueue",
            json!({"metadata": {"name": "research"}, "spec": {"resourceGroups": [
                {"coveredResources": [SMALL], "flavors": [{"name": "pool", "resources": [quota(SMALL)]}]}]},
                "status": {"flavorsReservation": [{"name": "pool", "resources": [{"name": SMALL, "total": 200}]}]}}),
        );
        let local = json!({"metadata": {"namespace": "team", "name": "research"}, "spec": {"clusterQueue": "research"}});
        add(&mut cluster, "LocalQueue", local);
        let mut held = of_job(workload("stuck", SMALL, 200), "stuck");
        held["status"]["admission"] = json!({"clusterQueue": "research", "podSetAssignments": [
            {"name": "main", "count": 200, "flavors": {SMALL: "pool"}}]});
        add(&mut cluster, "Workload", held);
        nowhere(&mut cluster, "stuck");
        waits(&mut cluster, "many", SMALL, pods, 0);
        within(&mut cluster, HOLD).len()
    };
    assert_eq!(sent_back(112), 1, "both nodes can have so many");
    assert_eq!(sent_back(113), 0);

    // As one who has quota it is not served either, although all that is planned for is there.
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("many", SMALL, 113), "many"));
    let round = cluster.round_that_thinks(|planned| {
        let node = "n1".into();
        for_all(planned, &Outcome::ServedNow { node, gpus: Vec::new() });
    });
    assert_eq!(round.unserved_quota.since.len(), 1, "{:?}", round.checks);
}

/// A large time switches it off, also where Kueue has given quota back at once.
#[test]
fn a_time_that_never_ends_is_not_shortened_by_that_of_those_who_were_sent_back() {
    let mut cluster = stuck();
    let answer = within(&mut cluster, HOLD).remove(0);
    super::again::has_its_quota_back_at_once(&mut cluster, &answer);
    cluster.settings.quota_hold = SignedDuration::from_hours(8760);
    // The operator was started anew for it.
    cluster.objects.unserved_quota = observe::objects::UnservedQuota::default();
    let later = cluster.now + SignedDuration::from_secs(1);
    super::again::comes_later(&mut cluster, "later", later);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(2)), []);
    cluster.now += SignedDuration::from_hours(30);
    assert_eq!(within(&mut cluster, SignedDuration::ZERO), []);
    // Kueue counts on, as long as it lasts.
    cluster.settings.quota_hold = HOLD;
    the_workload(&mut cluster, "large").status.admission_checks[0].retry_count = Some(40);
    let at = cluster.now;
    gets_quota(&mut cluster, "large", 20, at);
    let conditions = &mut the_workload(&mut cluster, "large").status.conditions;
    conditions.iter_mut().filter(|of| of.type_ == "Requeued").for_each(|of| of.last_transition_time.0 = at);
    super::again::comes_later(&mut cluster, "later", at + SignedDuration::from_secs(1));
    assert_eq!(within(&mut cluster, SignedDuration::from_mins(60) - SignedDuration::from_secs(1)), []);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(1)).len(), 1);
}
