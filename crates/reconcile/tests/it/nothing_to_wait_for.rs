//! What our check says of workloads that wait for no slice: it lets them go at once, and says why.

use reconcile::CheckState;

use crate::cluster::Cluster;
use crate::queues::{SMALL, add, admit, fleet, of_job, one, pod_of, workload};

fn passes(cluster: &Cluster, why: &str) {
    let answer = one(cluster);
    let expect = format!("{why}, so there is nothing to wait for");
    assert_eq!((answer.state, answer.message), (CheckState::Ready, expect));
    assert!(answer.updates.is_empty());
}

#[test]
fn who_asks_for_no_slices_is_told_so_whether_its_pods_run_or_not() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", "cpu", 2), "job"));
    passes(&cluster, "it requests no GPU slices");
    for n in 0..2 {
        cluster.add_pod(pod_of("job", n, "cpu", Some("n1")));
    }
    passes(&cluster, "it requests no GPU slices");
}

/// The check comes to a queue whose jobs run already, and Kueue asks it about each of them.
#[test]
fn who_runs_before_the_check_is_asked_is_told_that_its_pods_have_their_nodes() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 2), "job"));
    for n in 0..2 {
        cluster.add_pod(pod_of("job", n, SMALL, Some("n1")));
    }
    passes(&cluster, "its pods have their nodes already");
}

/// Kueue let it go long ago, somebody whom nobody follows makes its pods, and the check is asked now.
#[test]
fn who_was_let_go_and_whose_pods_nobody_finds_is_told_that_none_of_them_waits() {
    let mut cluster = fleet();
    let mut wrapped = of_job(workload("job", SMALL, 2), "job");
    wrapped["metadata"]["ownerReferences"][0]["kind"] = "AppWrapper".into();
    add(&mut cluster, "Workload", wrapped);
    let mut answer = one(&cluster);
    answer.state = CheckState::Pending;
    answer.updates.clear();
    admit(&mut cluster, &answer);
    passes(&cluster, "none of its pods waits for a GPU slice");
}
