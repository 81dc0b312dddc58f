//! Workloads whose pods keep apart from each other, by an anti-affinity of their own: all of them have to get their
//! slices before the first may start, and no two on one node. The fleet is that of the queues: two nodes with eight GPUs.

use std::collections::BTreeSet;

use reconcile::{CheckState, Round};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::queues::{HOSTNAME, SMALL, add, admit, fleet, one, workload};

const ZONE: &str = "topology.kubernetes.io/zone";

fn anti_affinity(by: &str) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "llama"}}, "topologyKey": by}]}})
}

/// A StatefulSet of so many replicas, no two of which may be on one node, or in one zone: they are there, and Kueue gates
/// them.
fn replicas(cluster: &mut Cluster, count: u32, by: &str) {
    let mut group = workload("statefulset-llama", SMALL, count);
    group["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "llama", "uid": "s"}]);
    add(cluster, "Workload", group);
    for n in 0..count {
        cluster.add_pod(json!({
            "metadata": {"namespace": "team", "name": format!("llama-{n}"), "uid": format!("u-{n}"),
                "creationTimestamp": "2026-11-21T08:00:00Z",
                "labels": {"app": "llama", "apps.kubernetes.io/pod-index": n.to_string(),
                    "kueue.x-k8s.io/pod-group-name": "statefulset-llama"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "llama", "uid": "s",
                    "controller": true}]},
            "spec": {"affinity": anti_affinity(by), "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
                "containers": [{"name": "main", "resources": {"limits": {SMALL: "1"}}}]},
            "status": {"phase": "Pending"},
        }));
    }
}

/// The nodes of those who are served.
pub(crate) fn nodes(round: &Round) -> BTreeSet<String> {
    let outcomes = round.planned.report.requests.iter().map(|request| &request.outcome);
    outcomes
        .filter_map(|outcome| match outcome {
            planner::report::Outcome::ServedNow { node, .. }
            | planner::report::Outcome::ServedByPlan { node, .. } => Some(node.to_string()),
            planner::report::Outcome::Unserved { .. } => None,
        })
        .collect()
}

#[test]
fn each_of_them_gets_its_slice_on_a_node_of_its_own_before_the_first_starts() {
    let mut cluster = fleet();
    replicas(&mut cluster, 2, HOSTNAME);
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
    assert!(answer.message.contains("n2 is to be changed for it"), "{}", answer.message);
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
    assert_eq!(nodes(&cluster.round()).len(), 2);
}

#[test]
fn where_there_are_fewer_nodes_than_pods_that_is_what_they_are_told() {
    let mut cluster = fleet();
    replicas(&mut cluster, 3, HOSTNAME);
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending);
    assert!(answer.message.contains("its anti-affinity keeps it apart"), "{}", answer.message);
    assert!(answer.message.starts_with("slices for 2 of 3 pods are free; "), "{}", answer.message);
}

/// A second node in the zone of the first has free slices too, and the scheduler would not use them.
#[test]
fn each_of_them_gets_its_slice_in_a_zone_of_its_own() {
    let zones = |all: [(&str, &str); 3]| {
        let mut cluster = fleet();
        cluster.hgx("n3");
        for (name, zone) in all {
            cluster.edit_node(name, |node| {
                node.metadata.labels.get_or_insert_default().insert(ZONE.to_owned(), zone.to_owned());
            });
        }
        cluster.is_cut("n2", "1g.10gb", 56);
        replicas(&mut cluster, 2, ZONE);
        // Two slices are free, and only one of the two pods may start on them.
        let answer = one(&cluster);
        assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
        cluster.settle();
        cluster
    };
    let cluster = zones([("n1", "a"), ("n2", "a"), ("n3", "b")]);
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Ready, "{}", answer.message);
    assert!(nodes(&cluster.round()).contains("n3"), "{:?}", nodes(&cluster.round()));
    let cluster = zones([("n1", "a"), ("n2", "a"), ("n3", "a")]);
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
    assert!(answer.message.contains("its anti-affinity keeps it apart"), "{}", answer.message);
}

/// Nobody has made its pods yet.
#[test]
fn pods_that_are_to_come_keep_apart_as_their_template_says() {
    let mut cluster = fleet();
    let mut job = workload("job", SMALL, 2);
    let template = &mut job["spec"]["podSets"][0]["template"];
    template["metadata"] = json!({"labels": {"app": "llama"}});
    template["spec"]["affinity"] = anti_affinity(HOSTNAME);
    add(&mut cluster, "Workload", job);
    assert_eq!(one(&cluster).state, CheckState::Pending);
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
    assert_eq!(nodes(&cluster.round()).len(), 2);
}

/// The workload of a JobSet whose jobs have a rack to themselves, and another job on the first node, whose slices are free.
fn exclusive(annotation: &str, priority_class: &str) -> Cluster {
    let mut cluster = fleet();
    cluster.objects.add_value(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({"metadata": {"name": "urgent"}, "value": 7}),
        &mut |problem| panic!("{problem}"),
    );
    let rack = "example.com/rack";
    for name in ["n1", "n2"] {
        cluster.edit_node(name, |node| {
            node.metadata.labels.get_or_insert_default().insert(rack.to_owned(), name.to_owned());
        });
    }
    let of = "jobset.sigs.k8s.io/job-key";
    cluster.add_pod(json!({
        "metadata": {"namespace": "rivals", "name": "first-1", "uid": "first",
            "labels": {of: "first", "jobset.sigs.k8s.io/priority": "0"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": {SMALL: "1"}}}]},
        "status": {"phase": "Running"},
    }));
    cluster.objects.add_value(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        json!({"metadata": {"namespace": "team", "name": "tune", "annotations": {annotation: rack}}}),
        &mut |problem| panic!("{problem}"),
    );
    let mut tune = workload("jobset-tune", SMALL, 2);
    tune["spec"]["podSets"][0]["template"]["spec"]["priorityClassName"] = priority_class.into();
    tune["metadata"]["ownerReferences"] = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "name": "tune", "uid": "u", "controller": true}]);
    add(&mut cluster, "Workload", tune);
    cluster
}

/// Its pods say where they may be only when they are there, so nothing of ours keeps them to a node.
#[test]
fn a_job_set_with_exclusive_placement_gets_its_slices_beside_no_other_job_and_is_kept_to_no_node() {
    const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    let mut cluster = exclusive(EXCLUSIVE, "");
    assert_eq!(one(&cluster).state, CheckState::Pending, "the slices that are free are beside another job");
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
    assert_eq!(nodes(&cluster.round()), BTreeSet::from(["n2".to_owned()]));
    // Once its first pod is there, the other one follows it: both are of one job, whatever that is called.
    let of = "jobset.sigs.k8s.io/job-key";
    let others = json!([{"key": of, "operator": "Exists"}, {"key": of, "operator": "NotIn", "values": ["tune-0"]},
        {"key": "jobset.sigs.k8s.io/priority", "operator": "In", "values": ["0"]}]);
    admit(&mut cluster, &answer);
    cluster.add_pod(json!({
        "metadata": {"namespace": "team", "name": "tune-0-0", "uid": "tune-0-0",
            "labels": {of: "tune-0", "jobset.sigs.k8s.io/priority": "0"},
            "ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "tune", "uid": "u",
                "controller": true}]},
        "spec": {"nodeName": "n2", "containers": [{"name": "main", "resources": {"limits": {SMALL: "1"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchExpressions": others}, "topologyKey": "example.com/rack",
                    "namespaceSelector": {}}]}}},
        "status": {"phase": "Running"},
    }));
    assert_eq!(nodes(&cluster.round()), BTreeSet::from(["n2".to_owned()]));
    // Beside a job of another priority it may be.
    let answer = one(&exclusive(EXCLUSIVE, "urgent"));
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
    // And so may one without exclusive placement, which is kept to the node.
    let answer = one(&exclusive("example.com/exclusive-topology", ""));
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 1), "{}", answer.message);
}
