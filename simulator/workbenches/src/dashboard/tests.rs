use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

/// A moment, in seconds after the workbench was made.
fn at(seconds: i64) -> Timestamp {
    "2026-11-20T08:00:00Z".parse::<Timestamp>().expect("a time") + SignedDuration::from_secs(seconds)
}

fn told(seconds: i64, kind: &str, reason: &str, message: &str) -> ShownEvent {
    ShownEvent {
        warning: kind == "Warning",
        reason: reason.to_owned(),
        message: message.to_owned(),
        at: at(seconds),
    }
}

/// What is read with these events, in every release from the oldest on.
fn read(told: &[ShownEvent], now: i64) -> Vec<String> {
    let containers = ["lab", "kube-rbac-proxy"];
    let workbench =
        Workbench { told, containers: &containers, queue: None, last_activity: at(0), starting: true };
    let line = |release| status_line(release, &workbench, at(now)).expect("one that starts has a line");
    RELEASES.iter().map(|release| line(release).text).collect()
}

/// The same, where all releases agree.
#[track_caller]
fn all_read(told: &[ShownEvent], now: i64, line: &str) {
    assert_eq!(read(told, now), vec![line; RELEASES.len()]);
}

fn weights(told: &[ShownEvent], now: i64) -> Vec<Weight> {
    let workbench =
        Workbench { told, containers: &["lab"], queue: None, last_activity: at(0), starting: true };
    RELEASES
        .iter()
        .filter_map(|release| status_line(release, &workbench, at(now)))
        .map(|l| l.weight)
        .collect()
}

#[test]
fn without_events_it_waits_and_one_that_runs_has_no_line() {
    all_read(&[], 5, "Waiting for server request to start...");
    let started = [told(9, "Normal", "Started", "Started container lab")];
    let workbench = Workbench {
        told: &started,
        containers: &["lab"],
        queue: None,
        last_activity: at(0),
        starting: false,
    };
    assert!(RELEASES.iter().all(|release| status_line(release, &workbench, at(60)).is_none()));
}

#[test]
fn warnings_are_held_back_for_half_a_minute_after_the_last_activity() {
    let events = [
        told(1, "Normal", "SuccessfulCreate", "create Pod lab-0"),
        told(2, "Warning", "FailedScheduling", "0/3 nodes are available"),
    ];
    all_read(&events, 29, "Pod created");
    all_read(&events, 30, "Insufficient resources to start");
    assert_eq!(weights(&events, 30), [Weight::Error; RELEASES.len()]);
}

#[test]
fn the_newest_wins_and_a_series_has_the_time_at_which_it_began() {
    let failed = told(2, "Warning", "FailedScheduling", "0/3 nodes are available");
    let ours = told(40, "Normal", "Scheduled", "assigned");
    all_read(&[ours, failed], 60, "Pod assigned");
}

#[test]
fn within_a_second_a_moment_with_a_fraction_comes_before_one_without() {
    let mut early = told(40, "Normal", "Scheduled", "assigned");
    early.at += SignedDuration::from_millis(900);
    let events = [told(40, "Normal", "AddedInterface", "eth0"), early];
    all_read(&events, 60, "Interface added");
}

#[test]
fn what_is_not_known_reads_as_a_problem_until_3_4_and_as_its_reason_after() {
    let coming = [told(40, "Normal", "SliceComing", "n1 is changed for it")];
    let problem = "There was a problem with the workbench";
    let line = ["There was a problem with the notebook", problem, problem, "SliceComing", "SliceComing"];
    assert_eq!(read(&coming, 60), line);
    assert_eq!(weights(&coming, 60), {
        let (warning, information) = (Weight::Warning, Weight::Information);
        [warning, warning, warning, information, information]
    });
    // As a warning its reason is read nowhere.
    let warning = [told(40, "Warning", "SliceUnavailable", "not served")];
    all_read(&warning, 60, "Issue creating workbench container");
    assert_eq!(weights(&warning, 60), [Weight::Warning; RELEASES.len()]);
}

#[test]
fn a_scale_up_hides_warnings_for_twenty_minutes_after_the_last_activity_and_no_longer() {
    let events = [
        told(40, "Normal", "TriggeredScaleUp", "pool 3->4"),
        told(50, "Warning", "FailedScheduling", "0/3 nodes are available"),
    ];
    all_read(&events, 20 * 60, "Pod triggered scale-up");
    all_read(&events, 20 * 60 + 1, "Insufficient resources to start");
}

#[test]
fn a_refused_scale_up_beside_one_is_read_whatever_is_newer() {
    let events = [
        told(40, "Normal", "NotTriggerScaleUp", "pod didn't trigger scale-up"),
        told(50, "Normal", "TriggeredScaleUp", "pool 3->4"),
        told(60, "Normal", "SliceComing", "n1 is changed for it"),
    ];
    all_read(&events, 70, "Failed to scale-up");
    // Alone it is one event among others.
    let ours = read(&[events[0].clone(), events[2].clone()], 70);
    assert_eq!(ours[4], "SliceComing");
}

#[test]
fn events_from_before_the_last_activity_count_from_3_4_on() {
    let old = [told(-60, "Normal", "Scheduled", "assigned")];
    let waits = "Waiting for server request to start...";
    assert_eq!(read(&old, 60), [waits, waits, "Pod assigned", "Pod assigned", "Pod assigned"]);
}

#[test]
fn of_several_events_of_one_moment_3_6_reads_the_heaviest() {
    let events = [
        told(40, "Warning", "FailedScheduling", "0/3 nodes are available"),
        told(40, "Normal", "SliceComing", "n1 is changed for it"),
    ];
    let problem = "There was a problem with the workbench";
    let line = [
        "There was a problem with the notebook",
        problem,
        problem,
        "SliceComing",
        "Insufficient resources to start",
    ];
    assert_eq!(read(&events, 60), line);
}

#[test]
fn what_kubelet_says_of_containers() {
    let event =
        |reason: &str, name: &str| [told(40, "Normal", reason, &format!("{reason} container {name}"))];
    let named = |old: &str, new: &str| [old, old, old, new, new].map(str::to_owned).to_vec();
    let line = |reason, name| read(&event(reason, name), 60);
    assert_eq!(line("Pulling", "lab"), named("Pulling workbench image", "Pulling Workbench image"));
    assert_eq!(line("Pulled", "lab"), named("Workbench image pulled", "Workbench image pulled"));
    assert_eq!(line("Created", "lab"), named("Workbench container created", "Workbench container created"));
    assert_eq!(line("Started", "lab"), named("Workbench container started", "Workbench container started"));
    assert_eq!(line("Killing", "lab")[3..], ["Workbench container stopped"; 2]);
    assert_eq!(line("Started", "kube-rbac-proxy")[2..], ["Auth proxy container started"; 3]);
    assert_eq!(line("Started", "other")[3..], ["Started"; 2]);
    let oauth = line("Pulling", "oauth-proxy");
    assert_eq!(oauth[..3], ["Pulling oauth proxy", "Pulling oauth proxy", "Pulling auth proxy"]);
    let strange = [told(40, "Warning", "Failed", "oauth-proxy")];
    assert_eq!(read(&strange, 60)[..2], ["Oauth proxy container created"; 2]);
    let crash = [told(40, "Warning", "BackOff", "Back-off restarting failed container lab")];
    assert_eq!(read(&crash, 60), named("ImagePullBackOff", "CrashLoopBackOff"));
}

#[test]
fn a_set_that_makes_no_pod_and_volumes_and_networks() {
    all_read(&[told(40, "Warning", "FailedCreate", "exceeded quota")], 60, "Failed to create pod");
    all_read(&[told(40, "Normal", "SuccessfulAttachVolume", "pvc")], 60, "PVC attached");
    all_read(&[told(40, "Normal", "AddedInterface", "eth0")], 60, "Interface added");
}

#[test]
fn the_log_has_every_event_with_its_words_and_the_newest_first() {
    let mut ours = told(40, "Warning", "SliceUnavailable", "not served: every slice is in use");
    ours.at += SignedDuration::from_micros(1500);
    let events =
        [told(-5, "Normal", "Killing", "Stopping"), told(2, "Normal", "Scheduled", "assigned"), ours];
    let workbench =
        Workbench { told: &events, containers: &["lab"], queue: None, last_activity: at(0), starting: true };
    let since = [
        "2026-11-20T08:00:40.001500Z [SliceUnavailable] [Warning] not served: every slice is in use",
        "2026-11-20T08:00:02Z [Scheduled] [Normal] assigned",
    ];
    assert_eq!(event_log(&RELEASES[0], &workbench), since);
    let all = event_log(&RELEASES[2], &workbench);
    assert_eq!(all[..2], since);
    assert_eq!(all[2..], ["2026-11-20T07:59:55Z [Killing] [Normal] Stopping"]);
}

/// What is read with these conditions, as `type=status reason: message`, in
/// 3.4, 3.5 and 3.6.
fn queued(conditions: &[&str]) -> Vec<String> {
    let condition = |text: &&str| -> Condition {
        let (head, message) = text.split_once(": ").unwrap_or((text, ""));
        let (kind, rest) = head.split_once('=').expect("type=status");
        let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let value: Value = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-20T08:00:00Z"});
        serde_json::from_value(value).expect("a condition")
    };
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    let ours = [told(40, "Normal", "SliceComing", "n1 is changed for it")];
    let queue = Some(InQueue { name: Some("research"), conditions: &conditions });
    let workbench =
        Workbench { told: &ours, containers: &["lab"], queue, last_activity: at(0), starting: true };
    let lines = RELEASES.iter().map(|release| status_line(release, &workbench, at(60)).expect("a line").text);
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines[1], "There was a problem with the workbench", "3.0 knows no queues");
    lines[2..].to_vec()
}

#[track_caller]
fn all_queued(conditions: &[&str], line: &str) {
    assert_eq!(queued(conditions), [line; 3]);
}

#[test]
fn while_our_check_is_pending_it_waits_for_quota_although_it_has_it() {
    all_queued(
        &["QuotaReserved=True QuotaReserved: Quota reserved in ClusterQueue"],
        "Waiting for quota in research",
    );
    all_queued(&[], "Waiting for quota in research");
}

#[test]
fn who_waits_for_quota_reads_so_and_who_waits_for_something_else_too() {
    let quota =
        "QuotaReserved=False Pending: couldn't assign flavors to pod set main: insufficient unused quota";
    all_queued(&[quota], "Waiting for quota in research");
    let other = ["Waiting for available resources"; 2];
    let lines = queued(&["QuotaReserved=False Pending: the pods are not ready"]);
    assert_eq!(lines[..2], other);
    assert_eq!(lines[2], "Waiting for resources in research");
    // A condition that it does not know speaks where no other does; in 3.4 none.
    let lines = queued(&["QuotaReserved=True", "Requeued=True BackoffFinished: it was requeued"]);
    assert_eq!(
        lines,
        [
            "Waiting for quota in research",
            "Waiting for available resources",
            "Waiting for resources in research"
        ]
    );
}

#[test]
fn after_a_retry_it_is_evicted_which_3_4_calls_paused() {
    let lines = queued(&["Evicted=True AdmissionCheck: At least one admission check is false"]);
    assert_eq!(
        lines,
        ["Paused by a higher-priority job", "Evicted: admission check failed", "Admission check failed"]
    );
    let lines = queued(&["Evicted=True Preempted: for a pod of a higher priority"]);
    let paused = "Paused by a higher-priority job";
    assert_eq!(lines, [paused, paused, "Paused by higher-priority job"]);
    let lines = queued(&["Evicted=True InactiveWorkload: The workload is deactivated"]);
    assert_eq!(lines[1..], ["Evicted: workload was deactivated", "Deactivated"]);
    let lines = queued(&["Evicted=True ClusterQueueStopped: The ClusterQueue is stopped"]);
    assert_eq!(lines[1..], ["Evicted: queue was stopped", "Manually removed from queue"]);
}

#[test]
fn what_can_never_be_admitted_says_so() {
    all_queued(
        &["QuotaReserved=False Inadmissible: LocalQueue research doesn't exist"],
        "Queue research does not exist",
    );
    all_queued(
        &["QuotaReserved=False Inadmissible: couldn't assign flavors: request > maximum capacity"],
        "Exceeded quota for research",
    );
    let large = queued(&["QuotaReserved=False Pending: couldn't assign flavors: (7 > maximum capacity 4)"]);
    let quota = "Waiting for quota in research";
    assert_eq!(large, [quota, quota, "Exceeded quota for research"]);
}

#[test]
fn an_admitted_one_reads_as_its_pod_does_even_with_a_check_pending() {
    let problem = "There was a problem with the workbench";
    for kind in ["Admitted=True", "PodsReady=True"] {
        assert_eq!(queued(&["QuotaReserved=True", kind]), [problem, "SliceComing", "SliceComing"]);
    }
}

#[test]
fn what_has_ended_says_how() {
    all_queued(&["Finished=True JobFinished: Pods succeeded"], "Pods succeeded");
    all_queued(&["Finished=True JobFailed: the image is wrong"], "the image is wrong");
    all_queued(&["Finished=True JobFailed: it timed out"], "Queue timed out");
}

#[test]
fn the_red_line_of_an_error_is_before_the_queue() {
    let failed = [told(40, "Warning", "FailedScheduling", "0/3 nodes are available")];
    let queue = Some(InQueue { name: Some("research"), conditions: &[] });
    let workbench =
        Workbench { told: &failed, containers: &["lab"], queue, last_activity: at(0), starting: true };
    for release in &RELEASES[2..] {
        let line = status_line(release, &workbench, at(60)).expect("a line");
        assert_eq!(line.text, "Insufficient resources to start", "{}", release.name);
    }
}
