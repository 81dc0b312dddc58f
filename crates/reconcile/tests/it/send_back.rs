//! Quota that is held by one who cannot be served goes to one who can, and only then. The fleet has two nodes with
//! eight GPUs: others are on all slices of the first, so that sixteen `3g.40gb` can be made, on the second. Kueue's part
//! is played here as it plays it.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod again;
mod flavors;
mod remembered;
mod whose;

use std::sync::Arc;

use api::foreign::Workload;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use planner::inventory::Hold;
use planner::report::{Outcome, Why};
use reconcile::{CheckAnswer, CheckState, Round};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Until};
use crate::queues::{SMALL, add, admit, fleet, of_job, pod_of, workload};

const MEDIUM: &str = "nvidia.com/mig-3g.40gb";
const HOLD: SignedDuration = SignedDuration::from_mins(5);

/// What is otherwise than in the other cases.
type Edit = fn(&mut Cluster);

/// The fleet, with a queue that gives so many `3g.40gb`.
fn crowded(quota: u32) -> Cluster {
    let mut cluster = fleet();
    for n in 0..56 {
        cluster.add_pod(pod_of("small", n, SMALL, Some("n1")));
    }
    add(
        &mut cluster,
        "ResourceFlavor",
        json!({"metadata": {"name": "pool"}, "spec": {"nodeLabels": {"pool": "research"}}}),
    );
    queue(&mut cluster, quota, json!({}));
    let local =
        json!({"metadata": {"namespace": "team", "name": "research"}, "spec": {"clusterQueue": "research"}});
    add(&mut cluster, "LocalQueue", local);
    cluster
}

/// The queue, all of whose quota of `3g.40gb` is reserved, as people have set it up.
fn queue(cluster: &mut Cluster, quota: u32, more: Value) {
    let mut spec = json!({"resourceGroups": [{"coveredResources": [MEDIUM, SMALL], "flavors": [{"name": "pool",
        "resources": [{"name": MEDIUM, "nominalQuota": quota}, {"name": SMALL, "nominalQuota": 56}]}]}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reserved =
        json!({"flavorsReservation": [{"name": "pool", "resources": [{"name": MEDIUM, "total": quota}]}]});
    add(cluster, "ClusterQueue", json!({"metadata": {"name": "research"}, "spec": spec, "status": reserved}));
}

/// A job of so many pods that has its quota.
fn holds(cluster: &mut Cluster, name: &str, count: u32, priority: i32) {
    let mut object = of_job(workload(name, MEDIUM, count), name);
    object["spec"]["priority"] = priority.into();
    object["status"]["admission"] = json!({"clusterQueue": "research", "podSetAssignments": [
        {"name": "main", "count": count, "flavors": {MEDIUM: "pool"}}]});
    add(cluster, "Workload", object);
}

/// A job of so many pods that waits for quota. It came later.
fn waits(cluster: &mut Cluster, name: &str, resource: &str, count: u32, priority: i32) {
    let mut object = of_job(workload(name, resource, count), name);
    object["metadata"]["creationTimestamp"] = "2026-11-21T08:30:00Z".into();
    object["spec"]["priority"] = priority.into();
    object["status"]["conditions"][0]["status"] = "False".into();
    object["status"]["admissionChecks"] = json!([]);
    add(cluster, "Workload", object);
}

fn states(round: &Round) -> Vec<(&str, CheckState)> {
    round.checks.iter().map(|check| (check.workload.1.as_str(), check.state)).collect()
}

/// Everything that happens from now until so long after.
fn within(cluster: &mut Cluster, time: SignedDuration) -> Vec<CheckAnswer> {
    let until = cluster.now + time;
    let mut retried = Vec::new();
    loop {
        let round = cluster.step(Until::End);
        retried.extend(round.checks.iter().filter(|check| check.state == CheckState::Retry).cloned());
        if cluster.now >= until || !retried.is_empty() {
            return retried;
        }
        let next = round.wake_at.unwrap_or(until).max(cluster.now + SignedDuration::from_secs(1));
        cluster.now = next.min(until);
    }
}

/// The same, while nothing of what is asked for is done to nodes.
fn idly_within(cluster: &mut Cluster, time: SignedDuration) -> Vec<(String, CheckState)> {
    let until = cluster.now + time;
    let mut said = Vec::new();
    while cluster.now < until {
        let round = cluster.round();
        said.extend(round.checks.iter().map(|check| (check.workload.1.clone(), check.state)));
        cluster.objects.unserved_quota = round.unserved_quota;
        cluster.now += SignedDuration::from_secs(30);
    }
    said.sort();
    said.dedup();
    said
}

/// Twenty pods hold the quota; sixteen could be served at most. Two wait for quota, and could be.
fn stuck() -> Cluster {
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 20, 0);
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    cluster
}

fn the_workload<'a>(cluster: &'a mut Cluster, name: &str) -> &'a mut Workload {
    Arc::make_mut(cluster.objects.workloads.get_mut(&("team".to_owned(), name.to_owned())).unwrap())
}

/// Kueue takes the quota back, and keeps the workload out of the queue for as long as it was told.
fn is_sent_back(cluster: &mut Cluster, answer: &CheckAnswer) {
    let back = cluster.now + SignedDuration::from_secs(answer.retry_after.unwrap().into());
    let workload = the_workload(cluster, &answer.workload.1);
    workload.status.conditions[0].status = "False".to_owned();
    let evicted = Condition {
        type_: "Evicted".to_owned(),
        status: "True".to_owned(),
        ..workload.status.conditions[0].clone()
    };
    workload.status.conditions.push(evicted);
    workload.status.admission = None;
    workload.status.requeue_state = serde_json::from_value(json!({"requeueAt": back})).unwrap();
    let check = &mut workload.status.admission_checks[0];
    check.message = "Reset to Pending after eviction. Previously: Retry".to_owned();
    check.retry_count = Some(check.retry_count.unwrap_or(0) + 1);
}

/// Kueue gives quota.
fn gets_quota(cluster: &mut Cluster, name: &str, count: u32, at: Timestamp) {
    let workload = the_workload(cluster, name);
    workload.status.conditions.retain(|condition| condition.type_ != "Evicted");
    workload.status.conditions[0].status = "True".to_owned();
    workload.status.conditions[0].last_transition_time.0 = at;
    workload.status.requeue_state = None;
    workload.status.admission =
        serde_json::from_value(json!({"clusterQueue": "research", "podSetAssignments": [
        {"name": "main", "count": count, "flavors": {MEDIUM: "pool"}}]}))
        .unwrap();
    if workload.status.admission_checks.is_empty() {
        workload.status.admission_checks =
            serde_json::from_value(json!([{"name": "gpu-slices", "state": "Pending", "message": ""}]))
                .unwrap();
    }
}

#[test]
fn who_cannot_be_served_gives_its_quota_to_one_who_can_after_a_while() {
    let mut cluster = stuck();
    let before = within(&mut cluster, HOLD - SignedDuration::from_secs(1));
    assert_eq!(before, [], "it may be served yet");
    let looks_again = cluster.now + SignedDuration::from_secs(1);
    assert_eq!(cluster.round().wake_at, Some(looks_again), "when its time is up, whatever else happens");
    let retried = within(&mut cluster, SignedDuration::from_secs(1));
    let [answer] = retried.as_slice() else { panic!("{retried:?}") };
    assert_eq!((answer.workload.1.as_str(), answer.retry_after), ("large", Some(30)));
    assert!(
        answer.message.starts_with(
            "its quota goes to team/pair, which waits for it and can be served; it could not be served for 5m, and \
             goes back into its queue; "
        ),
        "{}",
        answer.message
    );
    // Then the other one is served.
    let answer = answer.clone();
    is_sent_back(&mut cluster, &answer);
    let at = cluster.now;
    gets_quota(&mut cluster, "pair", 2, at);
    cluster.settle();
    assert_eq!(states(&cluster.round()), [("pair", CheckState::Ready)]);
}

#[test]
fn nobody_is_sent_back_where_it_helps_nobody() {
    let cases: [(&str, Edit); 13] = [
        ("nobody waits", |_| {}),
        ("who waits cannot be served either", |c| waits(c, "other", MEDIUM, 18, 0)),
        ("who waits asks for what it does not hold", |c| waits(c, "other", SMALL, 1, 0)),
        ("who waits asks for more than it holds", |c| waits(c, "other", MEDIUM, 21, 0)),
        ("who waits is not to run", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            the_workload(c, "other").spec.active = Some(false);
        }),
        ("who waits has been sent back for longer", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            the_workload(c, "other").status.requeue_state =
                serde_json::from_value(json!({"requeueAt": "2026-11-22T00:00:00Z"})).unwrap();
        }),
        ("who waits is being deleted", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            let at = serde_json::from_value(json!("2026-11-21T08:59:00Z")).unwrap();
            the_workload(c, "other").metadata.deletion_timestamp = at;
        }),
        ("who waits is in a local queue that is held", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            let held = json!({"clusterQueue": "research", "stopPolicy": "Hold"});
            add(c, "LocalQueue", json!({"metadata": {"namespace": "team", "name": "held"}, "spec": held}));
            the_workload(c, "other").spec.queue_name = "held".to_owned();
        }),
        ("who waits selects other nodes than those of the flavor", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            let selects = [("pool".to_owned(), "another".to_owned())];
            let spec = &mut the_workload(c, "other").spec.pod_sets[0].template.spec;
            spec.change(|spec| spec.node_selector = Some(selects.into()));
        }),
        ("the queue is not active", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            let queue = c.objects.cluster_queues.get_mut("research").unwrap();
            let inactive = json!([{"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "",
                "lastTransitionTime": "2026-11-21T08:00:00Z"}]);
            queue.status.conditions = serde_json::from_value(inactive).unwrap();
        }),
        ("the queue is stopped", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            queue(c, 20, json!({"stopPolicy": "Hold"}));
        }),
        ("who is first cannot be served, and nobody passes it", |c| {
            waits(c, "first", MEDIUM, 18, 5);
            waits(c, "other", MEDIUM, 2, 0);
            queue(c, 20, json!({"queueingStrategy": "StrictFIFO"}));
        }),
        ("there is quota for who waits, and Kueue has another reason", |c| {
            waits(c, "other", MEDIUM, 2, 0);
            queue(c, 24, json!({}));
            let queue = c.objects.cluster_queues.get_mut("research").unwrap();
            queue.status.flavors_reservation[0].resources[0].total.0 = "20".to_owned();
        }),
    ];
    for (why, edit) in cases {
        let mut cluster = crowded(20);
        holds(&mut cluster, "large", 20, 0);
        edit(&mut cluster);
        assert_eq!(within(&mut cluster, HOLD * 3), [], "{why}");
    }
}

/// Sixteen pods can be served, and are: the slices are made for them, whoever else waits, and for as long as it takes.
#[test]
fn who_can_be_served_is_never_sent_back() {
    let mut cluster = crowded(16);
    holds(&mut cluster, "sixteen", 16, 0);
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    // Its node does not change for long.
    assert_eq!(idly_within(&mut cluster, HOLD * 3), [("sixteen".to_owned(), CheckState::Pending)]);
    cluster.settle();
    assert_eq!(states(&cluster.round()), [("sixteen", CheckState::Ready)]);
}

/// A check that comes to a queue later is pending for those who run, too.
#[test]
fn work_that_runs_is_never_sent_back() {
    let mut cluster = stuck();
    cluster.add_pod(pod_of("large", 0, MEDIUM, Some("n2")));
    assert_eq!(within(&mut cluster, HOLD * 3), [], "one of its pods has a node");
    let since = &cluster.objects.unserved_quota.since;
    assert!(
        since.is_empty(),
        "it is not among those that could be, although nobody has seen it admitted: {since:?}"
    );

    let mut cluster = stuck();
    let now = cluster.now;
    let workload = the_workload(&mut cluster, "large");
    let mut admitted = workload.status.conditions[0].clone();
    admitted.type_ = "Admitted".to_owned();
    admitted.last_transition_time.0 = now;
    workload.status.conditions.push(admitted);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(60)), []);
    let since = cluster.objects.unserved_quota.since.clone();
    assert!(since.is_empty(), "{since:?}");
}

#[test]
fn nobody_loses_what_is_planned_for_it_to_one_who_gets_quota() {
    let mut cluster = stuck();
    // Sixteen pods of a job without a queue get all slices that are left; who waits for quota has a higher priority.
    waits(&mut cluster, "pair", MEDIUM, 2, 10);
    the_workload(&mut cluster, "large").spec.priority = Some(-1);
    for n in 0..16 {
        let mut pod = pod_of("plain", n, MEDIUM, None);
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/2 nodes are available"}]);
        cluster.add_pod(pod);
    }
    assert_eq!(idly_within(&mut cluster, HOLD * 2), [("large".to_owned(), CheckState::Pending)]);
}

#[test]
fn who_was_served_meanwhile_has_all_of_its_time_again() {
    let mut cluster = stuck();
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(10)), []);
    // A third node comes, and goes again.
    cluster.hgx("n3");
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(1)), []);
    assert!(cluster.objects.unserved_quota.since.is_empty(), "{:?}", cluster.round().answers);
    cluster.objects.nodes.remove("n3");
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(10)), []);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(20)).len(), 1);
}

/// Kueue takes quota back and gives it again within a second: no round has seen it without.
#[test]
fn who_has_quota_anew_has_all_of_its_time_again() {
    let mut cluster = stuck();
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(10)), []);
    let at = cluster.now;
    gets_quota(&mut cluster, "large", 20, at);
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(10)), []);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(20)).len(), 1);
}

/// Kueue would take the quota from the other one again, whose pods run by then.
#[test]
fn who_would_come_back_by_force_keeps_its_quota() {
    let preempts = |policy: &str| json!({"preemption": {"withinClusterQueue": policy}});
    for (policy, priority, goes) in [
        ("Never", 10, true),
        ("LowerPriority", 10, false),
        ("LowerPriority", 0, true),
        ("LowerOrNewerEqualPriority", 0, false),
        ("LowerOrNewerEqualPriority", -1, true),
    ] {
        let mut cluster = crowded(20);
        holds(&mut cluster, "large", 20, priority);
        waits(&mut cluster, "pair", MEDIUM, 2, 0);
        queue(&mut cluster, 20, preempts(policy));
        let goes_back = !within(&mut cluster, HOLD * 2).is_empty();
        assert_eq!(goes_back, goes, "{policy} {priority}");
    }
    // Not from the one who waits, but from a third one that runs.
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 20, 10);
    waits(&mut cluster, "pair", MEDIUM, 2, 10);
    let mut runs = of_job(workload("small", SMALL, 56), "small");
    runs["status"]["admission"] = json!({"clusterQueue": "research", "podSetAssignments": [
        {"name": "main", "count": 56, "flavors": {SMALL: "pool"}}]});
    runs["status"]["admissionChecks"][0]["state"] = "Ready".into();
    add(&mut cluster, "Workload", runs);
    queue(&mut cluster, 20, preempts("LowerPriority"));
    assert_eq!(within(&mut cluster, HOLD * 2), []);
}

/// Of several the lowest priority goes first, then the youngest, and no more than one gains by.
#[test]
fn no_more_are_sent_back_than_one_needs() {
    let mut cluster = crowded(8);
    for name in ["a", "b", "c", "d"] {
        holds(&mut cluster, name, 2, i32::from(name == "d"));
        let minute = name.as_bytes()[0] - b'a';
        the_workload(&mut cluster, name).metadata.creation_timestamp =
            serde_json::from_value(json!(format!("2026-11-21T08:0{minute}:00Z"))).unwrap();
        // They ask for nodes that are full.
        let spec = &mut the_workload(&mut cluster, name).spec.pod_sets[0].template.spec;
        let host = ("kubernetes.io/hostname".to_owned(), "n1.cluster".to_owned());
        spec.change(|spec| spec.node_selector = Some([host].into()));
    }
    waits(&mut cluster, "three", MEDIUM, 3, 0);
    let names: Vec<String> = within(&mut cluster, HOLD).into_iter().map(|of| of.workload.1).collect();
    assert_eq!(names, ["b", "c"], "two of them are enough, and d comes before them");
}

/// The youngest is asked first, and then it turns out that the other one alone is enough.
#[test]
fn whose_quota_is_not_needed_after_all_keeps_it() {
    let mut cluster = crowded(6);
    for (name, count, created) in
        [("little", 2, "2026-11-21T08:02:00Z"), ("large", 4, "2026-11-21T08:01:00Z")]
    {
        holds(&mut cluster, name, count, 0);
        let workload = the_workload(&mut cluster, name);
        workload.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        // They ask for nodes that are full.
        let host = ("kubernetes.io/hostname".to_owned(), "n1.cluster".to_owned());
        let spec = &mut workload.spec.pod_sets[0].template.spec;
        spec.change(|spec| spec.node_selector = Some([host].into()));
    }
    waits(&mut cluster, "four", MEDIUM, 4, 0);
    let names: Vec<String> = within(&mut cluster, HOLD).into_iter().map(|of| of.workload.1).collect();
    assert_eq!(names, ["large"]);
}

/// What a queue of a cohort has left, others may have borrowed.
#[test]
fn in_a_cohort_quota_that_seems_to_be_left_is_not_counted_on() {
    let mut cluster = stuck();
    queue(&mut cluster, 24, json!({"cohortName": "all"}));
    let queue = cluster.objects.cluster_queues.get_mut("research").unwrap();
    queue.status.flavors_reservation[0].resources[0].total.0 = "20".to_owned();
    let names: Vec<String> = within(&mut cluster, HOLD * 2).into_iter().map(|of| of.workload.1).collect();
    assert_eq!(names, ["large"]);
}

/// A node that has just been changed rests, and is changed again after that.
#[test]
fn who_waits_for_what_passes_by_itself_is_not_taken_for_one_who_cannot_be_served() {
    let cluster = stuck();
    let unserved = |hold: Hold| {
        let why = Why::Held { nodes: vec![("n2".into(), hold)] };
        let round = cluster.round_that_thinks(|planned| {
            for request in &mut planned.report.requests {
                request.outcome = Outcome::Unserved { why: why.clone(), help: Vec::new() };
            }
        });
        !round.unserved_quota.since.is_empty()
    };
    assert!(!unserved(Hold::CoolingDown { until: cluster.now + HOLD }));
    assert!(!unserved(Hold::Changing));
    assert!(unserved(Hold::Cordoned { by: "somebody else".to_owned() }), "that may last");
}

/// It waits outside of the queue, then for quota, then for all of its time again; and longer each time.
#[test]
fn who_was_sent_back_does_not_go_round_in_circles() {
    let mut cluster = stuck();
    let mut moments = Vec::new();
    for turn in 0..4 {
        let retried = within(&mut cluster, HOLD * 2);
        let [answer] = retried.as_slice() else { panic!("{turn}: {retried:?}") };
        moments.push((cluster.now, answer.retry_after.unwrap()));
        let answer = answer.clone();
        is_sent_back(&mut cluster, &answer);
        assert_eq!(within(&mut cluster, SignedDuration::from_secs(29)), [], "{turn}: while it is away");
        // The other one is deleted, another one comes, and Kueue gives the quota as it is asked for.
        cluster.now += SignedDuration::from_secs(answer.retry_after.unwrap().into());
        let at = cluster.now;
        gets_quota(&mut cluster, "large", 20, at);
    }
    let pauses: Vec<u32> = moments.iter().map(|(_, pause)| *pause).collect();
    assert_eq!(pauses, [30, 60, 120, 120]);
    for pair in moments.windows(2) {
        let apart = pair[0].0.duration_until(pair[1].0);
        assert!(apart >= HOLD + SignedDuration::from_secs(pair[0].1.into()), "{apart:#}");
    }
}

/// Kueue may take the quota of one who was sent back only after the delay. Until then who waits for it still waits.
#[test]
fn nobody_else_is_sent_back_while_the_quota_of_one_is_on_its_way() {
    let mut cluster = crowded(4);
    for name in ["a", "b"] {
        holds(&mut cluster, name, 2, 0);
        let spec = &mut the_workload(&mut cluster, name).spec.pod_sets[0].template.spec;
        let host = ("kubernetes.io/hostname".to_owned(), "n1.cluster".to_owned());
        spec.change(|spec| spec.node_selector = Some([host].into()));
    }
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    let retried = within(&mut cluster, HOLD);
    assert_eq!(retried.len(), 1, "{retried:?}");
    the_workload(&mut cluster, &retried[0].workload.1).status.admission_checks[0].state = "Retry".to_owned();
    assert_eq!(within(&mut cluster, HOLD * 2), []);
}

/// A plan is not made for it in every round: a fleet may be large, and a queue full.
#[test]
fn it_is_asked_a_few_times_in_the_time_that_a_holder_has() {
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 20, 0);
    waits(&mut cluster, "other", MEDIUM, 18, 0);
    let (end, mut asked) = (cluster.now + HOLD * 3, Vec::new());
    while cluster.now < end {
        let _ = cluster.step(Until::End);
        let last = cluster.objects.unserved_quota.asked;
        if last.is_some() && asked.last() != Some(&last) {
            asked.push(last);
        }
        cluster.now += SignedDuration::from_secs(7);
    }
    assert!((8..=11).contains(&asked.len()), "{}", asked.len());
}

#[test]
fn an_operator_that_does_not_answer_sends_nobody_back_and_one_that_begins_anew_waits_anew() {
    let mut cluster = stuck();
    cluster.settings.answers_checks = false;
    assert_eq!(within(&mut cluster, HOLD * 2), []);
    cluster.settings.answers_checks = true;
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(1)), []);
    cluster.objects.unserved_quota = observe::objects::UnservedQuota::default();
    assert_eq!(within(&mut cluster, HOLD - SignedDuration::from_secs(1)), []);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(1)).len(), 1);
}

/// Sixteen who had quota, and whose slices were there.
fn sixteen_are_admitted() -> Cluster {
    let mut cluster = crowded(16);
    holds(&mut cluster, "sixteen", 16, 0);
    cluster.settle();
    let answer = cluster.round().checks.remove(0);
    assert_eq!(answer.state, CheckState::Ready, "{}", answer.message);
    admit(&mut cluster, &answer);
    cluster
}

/// What is ready has been let go.
#[test]
fn who_is_ready_is_not_sent_back_for_others() {
    let mut cluster = sixteen_are_admitted();
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    assert_eq!(within(&mut cluster, SignedDuration::from_secs(60)), []);
    assert!(cluster.objects.unserved_quota.since.is_empty());
}

/// Kueue counts of a job that grows what is new of it, and how much that is nobody says here.
#[test]
fn quota_goes_to_nobody_who_takes_the_place_of_one_that_has_quota() {
    let mut cluster = stuck();
    let pair = the_workload(&mut cluster, "pair");
    pair.metadata.annotations.insert(api::foreign::workload::REPLACES.to_owned(), "team/large".to_owned());
    assert_eq!(within(&mut cluster, HOLD * 3), []);
}

/// Where nobody passes the first who waits, those behind it get nothing, whatever it asks for.
#[test]
fn quota_goes_to_nobody_behind_one_who_asks_for_no_gpu_where_nobody_may_pass() {
    let sent_back = |strategy: &str, created: &str| {
        let mut cluster = stuck();
        queue(&mut cluster, 20, json!({"queueingStrategy": strategy}));
        // As it is kept: of its pods nothing is read.
        add(
            &mut cluster,
            "Workload",
            json!({"metadata": {"namespace": "team", "name": "first", "creationTimestamp": created},
                "spec": {"queueName": "research", "priority": 0, "podSets": []}}),
        );
        within(&mut cluster, HOLD * 3).len()
    };
    assert_eq!(sent_back("StrictFIFO", "2026-11-21T08:10:00Z"), 0);
    assert_eq!(sent_back("BestEffortFIFO", "2026-11-21T08:10:00Z"), 1);
    assert_eq!(sent_back("StrictFIFO", "2026-11-21T08:40:00Z"), 1, "whoever came later is passed by nobody");
}
