//! The pods of a workload of Kueue that do not say to which of its pod sets they belong.

use observe::requests::QueuedSet;
use observe::{Objects, Settings, manifest};
use serde_json::json;

use crate::words::*;

const SMALL: &str = "mig-1g.10gb";

/// One leader and two workers are wanted, of which two pods run. Taken for both sets, they would be three, and nobody
/// would keep a slice for the one that is still to come.
#[test]
fn a_pod_is_of_one_pod_set_only_and_the_one_that_is_missing_is_asked_for() {
    let set = |name: &str, count: u32| {
        json!({"name": name, "count": count, "template": {"spec": {"containers": [{"name": "main", "resources":
            {"limits": {"cpu": "1", "memory": "1Gi", format!("nvidia.com/{SMALL}"): "1"}}}]}}})
    };
    let holds = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": "2026-11-21T08:59:30Z"})
    };
    let job = json!([{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "uid": "u",
        "controller": true}]);
    let workload = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "vision", "name": "train", "creationTimestamp": "2026-11-21T08:59:00Z",
            "ownerReferences": job},
        "spec": {"queueName": "research", "podSets": [set("leader", 1), set("workers", 2)]},
        "status": {
            "conditions": [holds("QuotaReserved"), holds("Admitted")],
            "admission": {"clusterQueue": "research", "podSetAssignments": [{"name": "leader", "count": 1},
                {"name": "workers", "count": 2}]},
            "admissionChecks": [{"name": "gpu-slices", "state": "Ready", "message": "",
                "lastTransitionTime": "2026-11-21T08:59:20Z"}],
        },
    });
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}});
    let pods = ["train-x7x2p", "train-k4q9z"].map(|name| {
        let mut pod = pod("vision", name, &[(SMALL, 1)], Some("n1"));
        pod["metadata"]["ownerReferences"] = job.clone();
        pod
    });
    let mut all = Objects::default();
    let mut problems = Vec::new();
    let nodes = ["n1", "n2"].map(|name| cut(node(name), "all-1g.10gb", &[(SMALL, 14)]));
    for object in nodes.iter().chain([&check, &workload]).chain(&pods) {
        manifest::read(&mut all, "test.yaml", &object.to_string(), &mut problems);
    }
    assert_eq!(problems, [], "the objects can be read");
    let seen = observe::observe(&all, mig::Catalog::builtin(), &Settings::default(), now());
    let [queued] = &seen.queued.values().collect::<Vec<_>>()[..] else { panic!("one workload is queued") };
    let of = |set: &QueuedSet| (set.name.clone(), set.running, set.requests.len());
    let sets: Vec<_> = queued.sets.iter().map(of).collect();
    assert_eq!(sets, [("leader".to_owned(), 1, 0), ("workers".to_owned(), 1, 1)]);
    assert_eq!(seen.requests.len(), 1, "one worker is still to come");
}

/// All pods of a workload start together: their requests say of which they are, as long as none of them has a node.
#[test]
fn the_requests_of_a_workload_say_of_which_they_are_until_a_pod_of_it_has_a_node() {
    let workload = |name: &str, count: u32| {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"namespace": "vision", "name": name, "creationTimestamp": "2026-11-21T08:59:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": true}]},
            "spec": {"queueName": "research", "podSets": [{"name": "main", "count": count, "template": {"spec":
                {"containers": [{"name": "main", "resources":
                    {"limits": {"cpu": "1", "memory": "1Gi", format!("nvidia.com/{SMALL}"): "1"}}}]}}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
                    "lastTransitionTime": "2026-11-21T08:59:30Z"}],
                "admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": ""}],
            },
        })
    };
    let check = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}});
    let said = |pods: &[serde_json::Value]| {
        let mut all = Objects::default();
        let mut problems = Vec::new();
        let of_all = [
            cut(node("n1"), "all-1g.10gb", &[(SMALL, 14)]),
            check.clone(),
            workload("train", 8),
            workload("one", 1),
        ];
        for object in of_all.iter().chain(pods) {
            manifest::read(&mut all, "test.yaml", &object.to_string(), &mut problems);
        }
        assert_eq!(problems, [], "the objects can be read");
        let seen = observe::observe(&all, mig::Catalog::builtin(), &Settings::default(), now());
        let of = |name: &str| -> Vec<Option<String>> {
            let own = seen.requests.iter().filter(|request| request.id.name == name);
            own.map(|request| request.together.workload.clone()).collect()
        };
        (of("train"), of("one"))
    };
    assert_eq!(
        said(&[]),
        (vec![Some("vision/train".to_owned()); 8], vec![None]),
        "one alone waits for nobody"
    );
    let mut first = pod("vision", "train-0", &[(SMALL, 1)], Some("n1"));
    first["metadata"]["ownerReferences"] = workload("train", 8)["metadata"]["ownerReferences"].clone();
    assert_eq!(said(&[first]).0, vec![None; 7]);
}
