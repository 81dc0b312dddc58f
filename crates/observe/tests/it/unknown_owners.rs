//! Who stands behind a pod that runs may be unknown for a while: the API server did not answer. What follows for a workload
//! of Kueue whose pods it may be, and for which workloads nothing follows.

use std::slice;

use crate::words::*;
use observe::requests::QueuedWorkload;
use observe::{ClusterView, Objects, Settings, manifest};
use serde_json::{Value, json};

const SMALL: &str = "mig-1g.10gb";

/// A `TrainJob` of two pods with quota and a check of ours that is `Ready`; admitted or not.
fn tune(admitted: &str) -> Value {
    let limits = json!({"cpu": "1", "memory": "1Gi", format!("nvidia.com/{SMALL}"): "1"});
    let holds = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": kind, "message": "",
            "lastTransitionTime": "2026-11-21T08:59:30Z"})
    };
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "vision", "name": "trainjob-tune", "creationTimestamp": "2026-11-21T08:59:00Z",
            "ownerReferences": [{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "tune",
                "uid": "u", "controller": true}]},
        "spec": {"queueName": "research", "podSets": [{"name": "node", "count": 2, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"limits": limits}}]}}}]},
        "status": {
            "conditions": [holds("QuotaReserved", "True"), holds("Admitted", admitted)],
            "admission": {"clusterQueue": "research", "podSetAssignments": [{"name": "node", "count": 2}]},
            "admissionChecks": [{"name": "gpu-slices", "state": "Ready", "message": "",
                "lastTransitionTime": "2026-11-21T08:59:20Z"}],
        },
    })
}

/// A pod that a job has made.
fn made_by(job: &str, namespace: &str, on: Option<&str>) -> Value {
    let mut pod = pod(namespace, &format!("{job}-0-x7x2p"), &[(SMALL, 1)], on);
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": true}]);
    pod
}

/// Two nodes, the workload and these pods, while nobody can say who controls these.
fn seen(admitted: &str, pods: &[Value], unknown: &[(&str, &str, &str)]) -> ClusterView {
    seen_of(&tune(admitted), pods, unknown)
}

/// The same with this workload.
fn seen_of(workload: &Value, pods: &[Value], unknown: &[(&str, &str, &str)]) -> ClusterView {
    let mut all = Objects::default();
    let mut problems = Vec::new();
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}});
    let nodes = ["n1", "n2"].map(|name| cut(node(name), "all-1g.10gb", &[(SMALL, 14)]));
    for object in nodes.iter().chain([&check, workload]).chain(pods) {
        manifest::read(&mut all, "test.yaml", &object.to_string(), &mut problems);
    }
    assert_eq!(problems, [], "the objects can be read");
    all.unknown_owners.extend(
        unknown.iter().map(|(kind, namespace, name)| {
            ((*kind).to_owned(), ((*namespace).to_owned(), (*name).to_owned()))
        }),
    );
    observe::observe(&all, mig::Catalog::builtin(), &Settings::default(), now())
}

#[track_caller]
fn workload(seen: &ClusterView) -> &QueuedWorkload {
    let mut queued = seen.queued.values();
    let workload = queued.next().expect("it has quota and a check of ours");
    assert!(queued.next().is_none(), "there is one");
    workload
}

/// It is taken for one of which pods may run, and nothing is planned for it a second time.
#[track_caller]
fn may_run(seen: &ClusterView) {
    assert!(workload(seen).may_run_unseen);
    assert_eq!(seen.requests, [], "its pods may have their slices");
}

/// None of its pods is there: both are asked for.
#[track_caller]
fn does_not_run(seen: &ClusterView) {
    assert!(!workload(seen).may_run_unseen);
    assert_eq!(seen.requests.iter().filter(|request| request.id.name == "tune").count(), 2);
}

const JOB: (&str, &str, &str) = ("Job", "vision", "tune-node-0");

#[test]
fn pods_that_run_may_be_those_of_an_admitted_workload_while_nobody_says_who_controls_them() {
    let pods = [made_by("tune-node-0", "vision", Some("n1"))];
    may_run(&seen("True", &pods, &[JOB]));
    does_not_run(&seen("True", &pods, &[]));
}

/// The job is known to be a `JobSet`'s, and who controls that is not known.
#[test]
fn the_way_up_may_end_at_any_step() {
    let mut pods = vec![made_by("tune-node-0", "vision", Some("n1"))];
    let of_set = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "tune-set", "uid": "u",
        "controller": true}]);
    pods.push(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {},
        "metadata": {"namespace": "vision", "name": "tune-node-0", "ownerReferences": of_set}}));
    may_run(&seen("True", &pods, &[("JobSet", "vision", "tune-set")]));
    does_not_run(&seen("True", &pods, &[("JobSet", "vision", "another-set")]));
}

/// Somebody made it before its job, or nobody has written into it whose it is.
#[test]
fn the_pods_may_also_be_those_of_a_workload_that_nobody_owns() {
    let mut alone = tune("True");
    alone["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    may_run(&seen_of(&alone, &[made_by("tune-node-0", "vision", Some("n1"))], &[JOB]));
}

#[test]
fn a_workload_that_kueue_has_not_let_go_has_no_pods_that_run() {
    does_not_run(&seen("False", &[made_by("tune-node-0", "vision", Some("n1"))], &[JOB]));
}

#[test]
fn a_pod_without_a_node_and_one_of_another_namespace_are_not_in_question() {
    does_not_run(&seen("True", &[made_by("tune-node-0", "vision", None)], &[JOB]));
    let elsewhere = [made_by("tune-node-0", "speech", Some("n1"))];
    does_not_run(&seen("True", &elsewhere, &[("Job", "speech", "tune-node-0")]));
}

/// What is not known of others is no reason to wait.
#[test]
fn an_owner_that_no_pod_of_the_namespace_has_is_not_in_question() {
    let pods = [made_by("tune-node-0", "vision", Some("n1"))];
    does_not_run(&seen("True", &pods, slice::from_ref(&("Job", "vision", "tune-node-9"))));
    does_not_run(&seen("True", &pods, &[("JobSet", "vision", "tune-node-0")]));
}
