//! Workloads of very many pods. So many are planned for as the fleet could have slices for, and nobody is let go for a
//! part of its pods. The fleet is that of the queues: two nodes with eight GPUs, so at most 112 slices.

use reconcile::CheckState;
use serde_json::json;

use crate::cluster::Cluster;
use crate::queues::{SMALL, add, fleet, of_job, one, pod_of, says, workload};

/// All of it is cut into small slices.
fn of_small_slices() -> Cluster {
    let mut cluster = fleet();
    cluster.is_cut("n2", "1g.10gb", 56);
    cluster
}

#[test]
fn a_workload_is_not_let_go_while_some_of_its_pods_are_not_planned_for() {
    let mut cluster = of_small_slices();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 200), "job"));
    assert_eq!(cluster.round().planned.view.requests.len(), 112);
    let answer = one(&cluster);
    assert_eq!(
        (answer.state, answer.message.as_str()),
        (
            CheckState::Pending,
            "slices for 112 of 200 pods are free; the other 88 are not planned for: of the queued workloads of a \
             namespace, as many pods are planned for at a time as the fleet can have slices"
        )
    );
    // Where some that are planned for wait, that is what is said.
    cluster.add_pod(pod_of("other", 0, SMALL, Some("n1")));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending);
    assert!(answer.message.starts_with("slices for 111 of 200 pods are free; "), "{}", answer.message);
}

/// Who computes without a GPU takes nothing of what is planned for others.
#[test]
fn pods_that_ask_for_no_slice_do_not_count() {
    let mut cluster = of_small_slices();
    cluster.objects.nodes.remove("n2");
    for n in 0..55 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    let mut spark = of_job(workload("a-spark", "cpu", 900), "spark");
    spark["metadata"]["creationTimestamp"] = "2026-11-21T07:00:00Z".into();
    add(&mut cluster, "Workload", spark);
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 4), "job"));
    assert_eq!(cluster.round().planned.view.requests.len(), 4);
    let states: Vec<(String, CheckState)> =
        says(&cluster).into_iter().map(|answer| (answer.workload.1, answer.state)).collect();
    assert_eq!(states, [("a-spark".to_owned(), CheckState::Ready), ("job".to_owned(), CheckState::Pending)]);
}

/// A pod is an object that the API server took in.
#[test]
fn pods_that_are_there_do_not_count_either() {
    let mut cluster = of_small_slices();
    cluster.objects.nodes.remove("n2");
    let mut first = of_job(workload("first", SMALL, 100), "first");
    first["metadata"]["creationTimestamp"] = "2026-11-21T07:00:00Z".into();
    first["status"]["admissionChecks"][0]["state"] = "Ready".into();
    add(&mut cluster, "Workload", first);
    for n in 0..100 {
        let mut pod = pod_of("first", n, SMALL, (n < 50).then_some("n1"));
        pod["spec"]["schedulingGates"] = if n < 50 { json!(null) } else { json!([{"name": "a-gate"}]) };
        cluster.add_pod(pod);
    }
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 60), "job"));
    let requests = cluster.round().planned.view.requests;
    assert_eq!(requests.iter().filter(|request| request.id.name == "first").count(), 50);
    assert_eq!(requests.iter().filter(|request| request.id.name == "job").count(), 60);
}

/// A number is no pod, and of less than none there are none.
#[test]
fn absurd_numbers_of_pods_end_no_round() {
    for (count, requests) in [(i32::MAX, 112), (-1, 0), (i32::MIN, 0), (0, 0)] {
        let mut cluster = of_small_slices();
        let mut job = of_job(workload("job", SMALL, 1), "job");
        job["spec"]["podSets"][0]["count"] = count.into();
        add(&mut cluster, "Workload", job);
        let round = cluster.round();
        assert_eq!(round.planned.view.requests.len(), requests, "{count}");
        let ready = round.checks.iter().any(|answer| answer.state == CheckState::Ready);
        assert_eq!(ready, count <= 0, "{count}");
    }
}
