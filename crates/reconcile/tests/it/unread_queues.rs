//! Kueue serves no version of its kinds that is read here, as after an upgrade of Kueue: that is said, and what was
//! promised before is kept.

use std::collections::BTreeMap;

use planner::names::NodeName;
use reconcile::{CheckState, Round};

use crate::cluster::{Cluster, Until};
use crate::queues::{SMALL, add, admit, fleet, of_job, one, pod_of, workload};

/// Two pods that may start, of a job that has made none yet, and more people who want whole GPUs than the other node has.
fn crowded() -> Cluster {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train", SMALL, 2), "train"));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Ready);
    admit(&mut cluster, &answer);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster).len(), 2);
    for n in 0..16 {
        cluster.pod(&format!("large-{n}"), "7g.80gb", None);
    }
    cluster
}

fn promised(cluster: &Cluster) -> Vec<String> {
    let rollout = cluster.objects.gpu_nodes["n1"].status.clone().and_then(|status| status.rollout);
    let promised = rollout.map(|rollout| rollout.promised).unwrap_or_default();
    promised.into_iter().map(|to| format!("{} {} #{}", to.kind, to.name, to.ordinal)).collect()
}

/// What the operator's store has of Kueue from then on.
fn is_unread(cluster: &mut Cluster) {
    cluster.objects.workloads.clear();
    cluster.objects.admission_checks.clear();
    let served = vec!["v1".to_owned(), "v2alpha1".to_owned()];
    cluster.objects.unread_queues = BTreeMap::from([("workloads.kueue.x-k8s.io".to_owned(), served)]);
}

fn changes(round: &Round, node: &str) -> bool {
    round.planned.plan.steps.iter().any(|step| step.node == NodeName(node.to_owned()))
}

#[test]
fn what_was_promised_in_a_queue_that_cannot_be_read_any_more_is_kept_and_the_rest_goes_on() {
    let mut cluster = crowded();
    is_unread(&mut cluster);
    let before = promised(&cluster);
    for _ in 0..5 {
        let round = cluster.step(Until::End);
        assert!(!changes(&round, "n1"), "{:?}", round.planned.plan.steps);
        assert_eq!(promised(&cluster), before);
        assert_eq!(round.checks, []);
    }
    cluster.settle();
    assert_eq!(cluster.offers("n2", "7g.80gb"), "8", "whoever is in no queue gets his slice elsewhere");
    assert_eq!(promised(&cluster), before);
    // The same without what was promised: the node is changed for the others.
    let node = std::sync::Arc::make_mut(cluster.objects.gpu_nodes.get_mut("n1").unwrap());
    node.status.as_mut().unwrap().rollout.as_mut().unwrap().promised.clear();
    assert!(changes(&cluster.round(), "n1"));
}

#[test]
fn a_promise_ends_with_the_pods_that_get_their_nodes_also_while_queues_cannot_be_read() {
    let mut cluster = crowded();
    is_unread(&mut cluster);
    for index in 0..2 {
        cluster.add_pod(pod_of("train", index, SMALL, Some("n1")));
    }
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), [""; 0]);
}

#[test]
fn that_queues_cannot_be_read_is_said_with_the_versions_and_is_over_when_they_can() {
    let mut cluster = crowded();
    let workloads = cluster.objects.workloads.clone();
    let checks = cluster.objects.admission_checks.clone();
    is_unread(&mut cluster);
    let (status, reason, message) = Cluster::condition(&cluster.round(), "Degraded").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "QueuesUnread"));
    assert_eq!(
        message,
        "workloads.kueue.x-k8s.io is served as v1, v2alpha1, and v1beta2 and v1beta1 are read here: the workloads of \
         Kueue are not read. Nothing is planned for them, no check is answered, and nodes with slices that were promised \
         to them are left as they are. Install a release of Slicewright that reads what is served"
    );
    let _ = cluster.step(Until::End);
    cluster.objects.unread_queues.clear();
    (cluster.objects.workloads, cluster.objects.admission_checks) = (workloads, checks);
    let round = cluster.round();
    assert_ne!(
        Cluster::condition(&round, "Degraded").map(|(_, reason, _)| reason).as_deref(),
        Some("QueuesUnread")
    );
    let of_job = round.planned.view.requests.iter().filter(|request| request.id.name == "train");
    let nodes: Vec<_> = of_job.map(|request| request.promised.clone().map(|node| node.0)).collect();
    assert_eq!(nodes, [Some("n1".to_owned()), Some("n1".to_owned())]);
}

/// A part of Kueue would be misread without the rest: a flavor has the labels of its nodes.
#[test]
fn while_a_kind_of_kueue_cannot_be_read_nothing_is_planned_for_those_that_can() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train", SMALL, 2), "train"));
    assert_eq!(cluster.round().planned.view.requests.len(), 2);
    cluster.objects.unread_queues =
        BTreeMap::from([("resourceflavors.kueue.x-k8s.io".to_owned(), Vec::new())]);
    let round = cluster.round();
    assert_eq!((round.planned.view.requests.len(), round.checks.len()), (0, 0));
}
