//! Workloads of Kueue that take the place of others, and such as somebody made before their jobs: each pod is one request,
//! and what was promised is kept for it.

use api::foreign::workload::REPLACES;
use reconcile::CheckState;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Until};
use crate::queues::{SMALL, add, admit, fleet, of_job, one, pod_of, says, workload};

/// The workload of a job that has grown to so many pods, in the place of another one.
fn grown(job: &str, name: &str, count: u32, before: &str) -> Value {
    let mut object = of_job(workload(name, SMALL, count), job);
    object["metadata"]["annotations"] = json!({REPLACES: before});
    object["metadata"]["creationTimestamp"] = "2026-11-21T08:30:00Z".into();
    object
}

/// A job of two pods that run, by a workload of its own.
fn running() -> Cluster {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train-a", SMALL, 2), "train"));
    let answer = one(&cluster);
    admit(&mut cluster, &answer);
    for index in 0..2 {
        cluster.add_pod(pod_of("train", index, SMALL, Some("n1")));
    }
    cluster
}

fn asked(cluster: &Cluster) -> Vec<String> {
    cluster.round().planned.view.requests.iter().map(|request| request.id.to_string()).collect()
}

/// Kueue gives the new workload its quota, and ends the old one afterwards.
#[test]
fn an_elastic_job_that_grows_asks_for_its_new_pods_once() {
    let mut cluster = running();
    assert_eq!(asked(&cluster), [""; 0]);
    add(&mut cluster, "Workload", grown("train", "train-b", 5, "team/train-a"));
    for index in 2..5 {
        cluster.add_pod(pod_of("train", index, SMALL, None));
    }
    assert_eq!(asked(&cluster), [2, 3, 4].map(|n| format!("Job team/train #{n}")));
    let answers = says(&cluster);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].workload.1.as_str(), answers[0].state), ("train-b", CheckState::Ready));
}

/// `Retry` would end all of its pods, and those that run need none of the others.
#[test]
fn a_job_that_runs_is_not_taken_back_for_what_it_has_grown_by() {
    for is_elastic in [true, false] {
        let mut cluster = running();
        // The other node is somebody else's.
        cluster.objects.nodes.remove("n2");
        let mut object = grown("train", "train-b", 5, "team/train-a");
        if !is_elastic {
            object["metadata"]["annotations"] = json!({});
        }
        cluster.objects.workloads.clear();
        add(&mut cluster, "Workload", object);
        let ready = one(&cluster);
        assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
        admit(&mut cluster, &ready);
        for n in 0..54 {
            cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
        }
        let retried = says(&cluster).iter().any(|answer| answer.state == CheckState::Retry);
        assert!(!retried, "elastic: {is_elastic}");
    }
}

#[test]
fn an_elastic_job_that_grows_before_it_has_started_asks_for_each_pod_once() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train-a", SMALL, 2), "train"));
    add(&mut cluster, "Workload", grown("train", "train-b", 5, "team/train-a"));
    assert_eq!(asked(&cluster).len(), 5);
}

/// Anybody who may write a workload may write that.
#[test]
fn nobody_is_silenced_by_a_workload_of_another_job_or_by_one_that_waits_for_no_check_of_ours() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train-a", SMALL, 2), "train"));
    add(&mut cluster, "Workload", grown("other", "other-b", 5, "team/train-a"));
    assert_eq!(asked(&cluster).len(), 7);

    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train-a", SMALL, 2), "train"));
    let mut unchecked = grown("train", "train-b", 5, "team/train-a");
    unchecked["status"]["admissionChecks"] = json!([]);
    add(&mut cluster, "Workload", unchecked);
    assert_eq!(asked(&cluster).len(), 2);

    let mut cluster = fleet();
    add(&mut cluster, "Workload", grown("train", "train-a", 2, "team/train-a"));
    assert_eq!(asked(&cluster).len(), 2, "nobody takes his own place");
}

/// Kueue changes the count of its pods, and says later for how many of them there is quota.
#[test]
fn an_elastic_job_that_shrinks_asks_for_no_more_than_it_is() {
    let mut cluster = fleet();
    let mut job = of_job(workload("train-a", SMALL, 2), "train");
    job["status"]["admission"] = json!({"clusterQueue": "research",
        "podSetAssignments": [{"name": "main", "count": 5, "flavors": {SMALL: "pool"}}]});
    add(&mut cluster, "Workload", job);
    assert_eq!(asked(&cluster).len(), 2);
}

/// To whom something is promised on the first node.
fn promised(cluster: &Cluster) -> Vec<String> {
    let rollout = cluster.objects.gpu_nodes["n1"].status.clone().and_then(|status| status.rollout);
    let promised = rollout.map(|rollout| rollout.promised).unwrap_or_default();
    promised.into_iter().map(|to| format!("{} {} #{}", to.kind, to.name, to.ordinal)).collect()
}

#[test]
fn what_was_promised_to_a_workload_is_kept_for_the_job_that_takes_it() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("made-before", SMALL, 2));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Ready);
    admit(&mut cluster, &answer);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["Workload made-before #0", "Workload made-before #1"]);
    let key = ("team".to_owned(), "made-before".to_owned());
    let mut adopted = of_job(workload("made-before", SMALL, 2), "train");
    adopted["status"] = json!(cluster.objects.workloads[&key].status);
    add(&mut cluster, "Workload", adopted);
    let keeps = |cluster: &Cluster| -> Vec<Option<String>> {
        let requests = cluster.round().planned.view.requests;
        requests.iter().map(|request| request.promised.as_ref().map(|node| node.0.clone())).collect()
    };
    let on_n1 = Some("n1".to_owned());
    assert_eq!(keeps(&cluster), [on_n1.clone(), on_n1.clone()]);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["Job train #0", "Job train #1"]);
    // Its owner is read, and somebody stands above it.
    let above = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "all", "uid": "u",
        "controller": true});
    let job = ("team".to_owned(), "train".to_owned());
    cluster.objects.owners.insert("Job", job, serde_json::from_value(above).unwrap());
    assert_eq!(keeps(&cluster), [on_n1.clone(), on_n1]);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["JobSet all #0", "JobSet all #1"]);
}
