//! `explain queue`, from a recording of a fleet with eight GPUs on each node and the queues of two teams:
//! the one that OpenShift AI makes, and one with a check of ours.

use cli::exit::Status;
use serde_json::{Value, json};

use crate::plan::{fleet_file, run};

fn kueue(kind: &str, namespace: Option<&str>, name: &str, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = json!("kueue.x-k8s.io/v1beta2");
    object["kind"] = json!(kind);
    object["metadata"] =
        json!({"name": name, "namespace": namespace, "creationTimestamp": "2026-11-20T07:40:00Z"});
    object
}

fn group(flavor: &str, resource: &str, quota: u32) -> Value {
    json!({"coveredResources": [resource], "flavors": [
        {"name": flavor, "resources": [{"name": resource, "nominalQuota": quota}]}]})
}

/// A workload of one pod, with or without quota.
fn workload(namespace: &str, name: &str, queue: &str, priority: i32, quota: Option<&str>) -> Value {
    let (status, message) = match quota {
        Some(_) => ("True", "Quota reserved"),
        None => (
            "False",
            "couldn't assign flavors to pod set main: resource nvidia.com/mig-3g.40gb unavailable in ClusterQueue",
        ),
    };
    let mut object = kueue(
        "Workload",
        Some(namespace),
        name,
        json!({
            "spec": {"queueName": queue, "priority": priority, "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}]}}}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": status, "reason": "", "message": message,
                "lastTransitionTime": "2026-11-20T07:50:00Z"}]},
        }),
    );
    if let Some(queue) = quota {
        object["status"]["admission"] = json!({"clusterQueue": queue, "podSetAssignments": []});
        object["status"]["admissionChecks"] =
            json!([{"name": "gpu-slices", "state": "Pending", "message": "gpu-2 is changed for it"}]);
    }
    object
}

fn fleet(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = std::fs::read_to_string(root.join("examples/fleet/lab.yaml")).expect("the example");
    for object in [
        kueue(
            "AdmissionCheck",
            None,
            "gpu-slices",
            json!({"spec": {"controllerName": "slicewright.io/slices"}}),
        ),
        kueue("ResourceFlavor", None, "nvidia-gpu-flavor", json!({"spec": {}})),
        kueue("ResourceFlavor", None, "racks", json!({"spec": {"topologyName": "rack-and-host"}})),
        kueue(
            "ClusterQueue",
            None,
            "default",
            json!({"spec": {"resourceGroups": [group("nvidia-gpu-flavor", "nvidia.com/gpu", 0)]}}),
        ),
        kueue(
            "ClusterQueue",
            None,
            "research",
            json!({"spec": {
                "resourceGroups": [group("racks", "nvidia.com/mig-3g.40gb", 4000)],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "gpu-slices", "onFlavors": ["racks"]}]}}}),
        ),
        kueue("LocalQueue", Some("team-a"), "default", json!({"spec": {"clusterQueue": "default"}})),
        kueue("LocalQueue", Some("team-b"), "default", json!({"spec": {"clusterQueue": "default"}})),
        kueue("LocalQueue", Some("team-b"), "research", json!({"spec": {"clusterQueue": "research"}})),
        kueue("LocalQueue", Some("team-c"), "lost", json!({"spec": {"clusterQueue": "nowhere"}})),
        workload("team-a", "statefulset-lab", "default", 0, None),
        workload("team-b", "job-urgent", "default", 10, None),
        workload("team-b", "job-train", "research", 0, Some("research")),
    ] {
        text.push_str(&format!("  - {object}\n"));
    }
    fleet_file(name, &text)
}

#[track_caller]
fn explained(fleet: &str, what: &str) -> String {
    let (status, out, err) = run(&format!("explain queue {what} --fleet {fleet} -f examples/policies"));
    assert_eq!((status, err.as_str()), (Status::Success, ""), "{out}");
    out
}

#[test]
fn the_queue_that_openshift_ai_makes_is_told_with_what_it_lacks_and_who_waits_in_it() {
    let fleet = fleet("queue-of-openshift-ai");
    let lines = explained(&fleet, "default");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "cluster queue default");
    assert!(lines[1].starts_with("  no admission check of Slicewright is on it"), "{lines:?}");
    assert!(lines[2].starts_with("  quota: nvidia.com/mig-3g.40gb is not covered"), "{lines:?}");
    let said = "it has no quota; Kueue says: couldn't assign flavors to pod set main: resource \
                nvidia.com/mig-3g.40gb unavailable in ClusterQueue";
    assert_eq!(
        lines[3..],
        [format!("  team-b/job-urgent waits: {said}"), format!("  team-a/statefulset-lab waits: {said}")],
        "the highest priority first"
    );
    let of_team = explained(&fleet, "team-a/default");
    assert!(
        of_team
            .starts_with("local queue team-a/default\n  it gives the quota of the cluster queue default\n")
    );
    assert!(of_team.contains("statefulset-lab waits") && !of_team.contains("job-urgent waits"), "{of_team}");
}

#[test]
fn a_queue_with_a_check_of_ours_and_a_topology_is_told_with_the_answer_to_who_has_quota() {
    let fleet = fleet("queue-with-check");
    let said = explained(&fleet, "research");
    for part in [
        "the admission check of Slicewright is on it: gpu-slices (for racks)",
        "it is topology-aware in racks (topology rack-and-host)",
        "keep slices ready by minCount or spareCount",
        "quota: nvidia.com/mig-3g.40gb in flavor racks: its nominalQuota is 4000, but no layout of its nodes has more than",
        "team-b/job-train waits: it has its quota, and its admission check gpu-slices is Pending: gpu-2 is changed for it",
        "    Workload team-b/job-train",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, out, _) = run(&format!("explain queue research -o json --fleet {fleet} -f examples/policies"));
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["formatVersion"], 1);
    assert_eq!((&value["kind"], &value["name"]), (&json!("cluster queue"), &json!("research")));
    assert_eq!(value["drift"][0]["what"], "more_than_any_layout");
    assert_eq!(value["drift"][0]["quota"], 4000);
    let most = value["drift"][0]["most"].as_u64().expect("a number");
    assert!(most > 0 && value["drift"][0]["by"] == json!(4000 - most), "{value}");
    assert_eq!(value["waiting"][0]["name"], "job-train");
    assert_eq!(value["waiting"][0]["requests"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_queue_that_leads_nowhere_says_so_and_a_name_that_several_have_is_asked_for_in_full() {
    let fleet = fleet("queue-names");
    let lost = explained(&fleet, "lost");
    assert!(lost.contains("there is no cluster queue nowhere, so that nothing is admitted"), "{lost}");
    let (status, _, err) = run(&format!("explain queue reserch --fleet {fleet} -f examples/policies"));
    assert_eq!(status, Status::Usage);
    assert!(err.contains("there is no queue `reserch`; did you mean `research`?"), "{err}");
    let (status, _, err) =
        run(&format!("explain queue team-a/research --fleet {fleet} -f examples/policies"));
    assert_eq!(status, Status::Usage);
    assert!(
        err.contains("there is no local queue `team-a/research`") && err.contains("team-b/research"),
        "{err}"
    );
}

/// A workbench in a queue that nobody makes a pod for yet: it is not told that it has all that it wants.
#[test]
fn a_workbench_without_a_pod_is_said_to_have_none_and_which_queue_it_will_wait_in() {
    let mut text = std::fs::read_to_string(fleet("waits")).expect("the fleet");
    for (name, queue) in [("quick", None), ("queued", Some("research"))] {
        let labels = queue.map(|queue| json!({"kueue.x-k8s.io/queue-name": queue}));
        let lab = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "team-a", "name": name, "labels": labels, "creationTimestamp": "2026-11-20T07:59:50Z"},
            "spec": {"template": {"spec": {"containers": [
                {"name": name, "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}});
        text.push_str(&format!("  - {lab}\n"));
    }
    let fleet = fleet_file("waits-in-a-queue", &text);
    let (_, said, err) =
        run(&format!("explain workbench team-a/queued --fleet {fleet} -f examples/policies"));
    assert!(said.contains("it has no pod yet; its pod will wait for quota in queue research"), "{said}{err}");
    assert!(!said.contains("no slice that it does not have"), "{said}");
    let (_, said, err) = run(&format!("explain workbench team-a/quick --fleet {fleet} -f examples/policies"));
    assert!(said.contains("it has no pod yet"), "{said}{err}");
}

#[test]
fn a_workload_that_is_admitted_is_explained_by_what_its_pods_are_told() {
    let mut text = std::fs::read_to_string(fleet("admitted")).expect("the fleet");
    let mut admitted = workload("team-b", "job-evening", "default", 0, Some("default"));
    admitted["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "evening", "uid": "1", "controller": true}]);
    admitted["status"]["admissionChecks"] = json!([{"name": "other", "state": "Ready", "message": ""}]);
    let conditions = admitted["status"]["conditions"].as_array_mut().expect("a list");
    conditions.push(json!({"type": "Admitted", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-11-20T07:50:00Z"}));
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "team-b", "name": "evening-x", "creationTimestamp": "2026-11-20T07:51:00Z",
            "ownerReferences": admitted["metadata"]["ownerReferences"]},
        "spec": {"containers": [{"name": "t", "resources": {"limits": {"nvidia.com/mig-3g.40gb": "1"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]}});
    text.push_str(&format!("  - {admitted}\n  - {pod}\n"));
    let fleet = fleet_file("admitted-and-waiting", &text);
    let with = format!("--fleet {fleet} -f examples/policies");
    let (_, json, err) = run(&format!("plan {with} -o json"));
    let json: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("JSON: {err}"));
    let mut waiting = json["requests"].as_array().expect("a list").iter();
    let waits =
        waiting.find(|request| request["request"].as_str().is_some_and(|name| name.contains("evening")));
    let answer = waits.and_then(|request| request["answer"].as_str()).expect("it waits");
    let (_, said, _) = run(&format!("explain workload team-b/job-evening {with}"));
    assert!(said.contains(&format!(": {answer}\n")), "{answer}\n{said}");
}
