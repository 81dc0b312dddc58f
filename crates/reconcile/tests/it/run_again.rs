//! Workloads that Kueue takes back and starts again: what has become of their first pods says nothing of the pods that
//! are still to come. The fleet is that of the queues: two nodes with eight GPUs.

use std::sync::Arc;

use reconcile::CheckState;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::queues::{HOSTNAME, SMALL, add, admit, fleet, of_job, one, pod_of, says, workload};

const LARGE: &str = "nvidia.com/mig-3g.40gb";

/// A pod of the job that has ended, or is about to: since when it is not ready any more.
fn gone(cluster: &mut Cluster, index: u32, resource: &str, phase: &str, at: &str) {
    let mut pod = pod_of("job", index, resource, Some("n1"));
    // Random names: only indexed jobs number their pods.
    pod["metadata"]["labels"] = json!({});
    if phase == "Running" {
        pod["metadata"]["deletionTimestamp"] = at.into();
    } else {
        pod["status"] = json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False",
            "lastTransitionTime": at}]});
    }
    cluster.add_pod(pod);
}

/// Two pods of four have succeeded, the others were taken from it by a higher priority, and it has quota again.
fn again(resource: &str, count: u32) -> Value {
    let mut job = of_job(workload("job", resource, 4), "job");
    job["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T08:40:00Z".into();
    job["status"]["reclaimablePods"] = json!([{"name": "main", "count": 4 - count}]);
    job["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
        {"name": "main", "count": count, "flavors": {resource: "any"}}]});
    job
}

#[test]
fn pods_that_ended_before_it_had_quota_again_are_not_those_that_it_waits_for() {
    for phase in ["Succeeded", "Failed"] {
        let mut cluster = fleet();
        gone(&mut cluster, 0, LARGE, phase, "2026-11-21T08:10:00Z");
        gone(&mut cluster, 1, LARGE, phase, "2026-11-21T08:20:00Z");
        add(&mut cluster, "Workload", again(LARGE, 2));
        let answer = one(&cluster);
        assert_eq!(answer.state, CheckState::Pending, "{phase}: {}", answer.message);
        assert!(answer.message.contains("slices for 0 of 2 pods are free"), "{}", answer.message);
        cluster.settle();
        let ready = one(&cluster);
        assert_eq!((ready.state, ready.updates.len()), (CheckState::Ready, 1), "{}", ready.message);
        // Once it is let go, too: its slices are kept for the pods that come.
        admit(&mut cluster, &ready);
        assert_eq!(cluster.round().planned.view.requests.len(), 2, "{phase}");
        // Of those that come, one that has ended asks for nothing more.
        let ended = cluster.now.to_string();
        gone(&mut cluster, 2, LARGE, phase, &ended);
        assert_eq!(cluster.round().planned.view.requests.len(), 1, "{phase}");
    }
}

/// Kubelet had refused them, and never said whether they were ready.
#[test]
fn pods_that_never_ran_are_not_those_that_it_waits_for() {
    let mut cluster = fleet();
    let mut refused = pod_of("job", 0, LARGE, Some("n1"));
    refused["status"] = json!({"phase": "Failed", "reason": "OutOfnvidia.com/mig-3g.40gb"});
    cluster.add_pod(refused);
    add(&mut cluster, "Workload", again(LARGE, 1));
    assert_eq!(one(&cluster).state, CheckState::Pending);
}

/// Kueue has stopped the job, and gives it quota again while its pods come to their end.
#[test]
fn pods_that_are_being_deleted_are_not_those_that_it_waits_for() {
    let mut cluster = fleet();
    gone(&mut cluster, 0, SMALL, "Running", "2026-11-21T08:41:00Z");
    add(&mut cluster, "Workload", again(LARGE, 1));
    assert_eq!(one(&cluster).state, CheckState::Pending);
    let mut cluster = fleet();
    gone(&mut cluster, 0, SMALL, "Running", "2026-11-21T08:41:00Z");
    add(&mut cluster, "Workload", again(SMALL, 1));
    let ready = one(&cluster);
    assert_eq!(json!(ready.updates), json!([{"name": "main", "nodeSelector": {HOSTNAME: "n1.cluster"}}]));
    // While it runs, one that somebody deletes is one that had a node.
    admit(&mut cluster, &ready);
    assert_eq!(cluster.round().planned.view.requests.len(), 0);
}

/// A check that comes to a queue later is pending for those who run, too; some of their pods may have ended.
#[test]
fn who_runs_already_has_had_its_slices() {
    let mut cluster = fleet();
    gone(&mut cluster, 0, LARGE, "Succeeded", "2026-11-21T08:50:00Z");
    cluster.add_pod(pod_of("job", 1, LARGE, Some("n1")));
    let job = Arc::new(serde_json::from_value(again(LARGE, 2)).unwrap());
    cluster.objects.workloads.insert(("team".to_owned(), "job".to_owned()), job);
    let states: Vec<CheckState> = says(&cluster).iter().map(|answer| answer.state).collect();
    assert_eq!(states, [CheckState::Ready]);
}
