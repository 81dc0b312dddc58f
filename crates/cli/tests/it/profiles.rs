//! `profiles export`, and `explain` of the objects that people know.

use cli::exit::Status;
use serde_json::{Value, json};

use crate::plan::{fleet_file, run};

#[test]
fn the_export_has_a_complete_profile_for_each_slice_that_the_policies_allow_and_none_of_the_operators_marks()
{
    let words = "profiles export --fleet examples/fleet/lab.yaml -f examples/policies --queue research --namespace opendatahub";
    let (status, out, err) = run(words);
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    let profiles: Vec<Value> = out
        .split("---\n")
        .filter(|text| !text.is_empty())
        .map(|text| serde_saphyr::from_str(text).expect("YAML"))
        .collect();
    let names: Vec<&str> = profiles.iter().filter_map(|p| p["metadata"]["name"].as_str()).collect();
    assert!(names[0].starts_with("gpu-research-a100-sxm4-80gb-1g-10gb-"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("gpu-q-research-3g-40gb-")), "{names:?}");
    // No policy selects the node with the A30.
    assert!(!names.iter().any(|name| name.contains("-a30-")), "{names:?}");
    for profile in &profiles {
        assert_eq!(profile["metadata"]["namespace"], "opendatahub");
        assert_eq!(profile["metadata"]["labels"], Value::Null, "the operator would take it for its own");
        let resources: Vec<&Value> = profile["spec"]["identifiers"]
            .as_array()
            .expect("identifiers")
            .iter()
            .map(|identifier| &identifier["identifier"])
            .collect();
        assert_eq!(resources.len(), 3);
        assert_eq!((resources[0], resources[1]), (&json!("cpu"), &json!("memory")));
    }
    assert_eq!(run(words).1, out, "the same fleet gives the same file");
}

#[test]
fn an_export_for_a_fleet_that_no_policy_selects_says_so() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("export");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let policy = folder.join("policy.yaml");
    let text = "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {name: p}\nspec:\n  nodeSelector: {matchLabels: {pool: nowhere}}\n  layout: {type: DemandDriven}\n";
    std::fs::write(&policy, text).expect("written");
    let (status, out, err) =
        run(&format!("profiles export --fleet examples/fleet/lab.yaml -f {}", policy.display()));
    assert_eq!((status, out.as_str()), (Status::Data, ""));
    assert!(err.contains("the policies allow no slice on any node of the fleet"), "{err}");
}

/// The fleet of the examples, with workbenches, model servers, a workload in a queue, and hardware profiles.
fn fleet(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = std::fs::read_to_string(root.join("examples/fleet/lab.yaml")).expect("the example");
    let profile = |name: &str, resource: &str| {
        let identifier = |resource: &str| json!({"identifier": resource, "displayName": resource, "minCount": 1, "defaultCount": 1, "maxCount": 1});
        json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"namespace": "redhat-ods-applications", "name": name},
            "spec": {"identifiers": [identifier("cpu"), identifier("memory"), identifier(resource)]}})
    };
    let served = |kind: &str, name: &str, profile: &str| {
        json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": kind,
            "metadata": {"namespace": "team-b", "name": name, "annotations": {
                "opendatahub.io/hardware-profile-name": profile,
                "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications"}}})
    };
    let limits = json!({"nvidia.com/mig-3g.40gb": "1"});
    for object in [
        json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "team-a", "name": "churn", "annotations": {
                "opendatahub.io/hardware-profile-name": "small",
                "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications"}},
            "spec": {"template": {"spec": {"containers": [{"name": "churn"}]}}}}),
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "gpu-slices"},
            "spec": {"controllerName": "slicewright.io/slices"}}),
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"namespace": "team-b", "name": "job-train-1",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": true}]},
            "spec": {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": [{"name": "train", "resources": {"limits": limits}}]}}}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "reason": "", "message": "",
                "lastTransitionTime": "2026-11-20T07:50:00Z"}],
                "admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": "planned"}]}}),
        // As OpenShift AI up to 3.3 leaves it: the proxy has got the slice, too.
        json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "team-b", "name": "twice", "annotations": {
                "opendatahub.io/hardware-profile-name": "small",
                "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications"}},
            "spec": {"template": {"spec": {"containers": [
                {"name": "twice", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1", "cpu": "2"}}},
                {"name": "oauth-proxy", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1", "cpu": "1"}}}]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "team-b", "name": "pair", "creationTimestamp": "2026-11-20T07:55:00Z"},
            "spec": {"containers": [
                    {"name": "left", "resources": {"limits": {"nvidia.com/mig-2g.20gb": "1"}}},
                    {"name": "right", "resources": {"limits": {"nvidia.com/mig-2g.20gb": "1"}}}],
                "initContainers": [{"name": "warm-up", "resources": {"limits": {"nvidia.com/mig-2g.20gb": "1"}}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]}}),
        // Model servers keep a profile from being deleted, as workbenches do.
        served("InferenceService", "llama", "small"),
        served("LLMInferenceService", "granite", "idle"),
        profile("small", "nvidia.com/mig-1g.10gb"),
        profile("idle", "nvidia.com/mig-3g.40gb"),
        profile("unnamed", "nvidia.com/mig-7g.80gb"),
        profile("wrong", "nvidia.com/mig-1g.5gb"),
    ] {
        text.push_str(&format!("  - {object}\n"));
    }
    fleet_file(name, &text)
}

#[test]
fn a_workbench_a_pod_a_workload_and_a_profile_are_explained_by_the_name_that_people_know() {
    let fleet = fleet("explained");
    let explained = |what: &str| {
        let (status, out, err) = run(&format!("explain {what} --fleet {fleet} -f examples/policies"));
        assert_eq!((status, err.as_str()), (Status::Success, ""), "{out}");
        out
    };
    let workbench = explained("workbench team-a/churn");
    assert!(workbench.contains("its pod churn-0 runs on gpu-1"), "{workbench}");
    assert_eq!(explained("workbench churn"), workbench, "one name is enough where there is one");
    let pod = explained("pod team-a/fraud-lab-0");
    assert!(pod.contains("3g.40gb on gpu-2/gpu0"), "{pod}");
    let workload = explained("workload team-b/job-train-1");
    assert!(workload.contains("its admission check gpu-slices is Pending: planned"), "{workload}");
    assert!(workload.contains("Job team-b/train"), "{workload}");
    let small = explained("profile small");
    assert!(small.contains("some node can have what it offers (nvidia.com/mig-1g.10gb)"), "{small}");
    assert!(small.contains("these workbenches name it: team-a/churn, team-b/twice"), "{small}");
    assert!(small.contains("these model servers name it: InferenceService team-b/llama"), "{small}");
    let idle = explained("profile idle");
    assert!(idle.contains("these model servers name it: LLMInferenceService team-b/granite"), "{idle}");
    assert!(!idle.contains("workbench"), "{idle}");
    let unnamed = explained("profile unnamed");
    assert!(unnamed.contains("no workbench and no model server names it"), "{unnamed}");
    let wrong = explained("profile wrong");
    assert!(wrong.contains("offers 1g.5gb, which no GPU of the fleet can have"), "{wrong}");
    let (_, json, _) =
        run(&format!("explain workload job-train-1 -o json --fleet {fleet} -f examples/policies"));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["requests"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["formatVersion"], 1);
}

/// Profiles of whole GPUs and of seats of shared ones are judged as those of slices are.
#[test]
fn a_profile_that_offers_whole_gpus_or_seats_of_them_is_explained_as_one_that_offers_something() {
    let node = |name: &str, resource: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
                "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "4",
                "nvidia.com/mig.capable": "false", "pool": name}},
            "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "250", resource: "4"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let profile = |name: &str, resource: &str| {
        let identifier = |resource: &str| json!({"identifier": resource, "displayName": resource, "minCount": 1, "defaultCount": 1, "maxCount": 1});
        json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"namespace": "redhat-ods-applications", "name": name},
            "spec": {"identifiers": [identifier("cpu"), identifier("memory"), identifier(resource)]}})
    };
    let mut text = "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: 2026-11-20T08:00:00Z\ncluster: lab\nobjects:\n".to_owned();
    for object in [
        node("t4-1", "nvidia.com/gpu"),
        node("t4-2", "nvidia.com/gpu.shared"),
        profile("whole", "nvidia.com/gpu"),
        profile("seat", "nvidia.com/gpu.shared"),
        profile("slice-seat", "nvidia.com/mig-1g.10gb.shared"),
        profile("plain", "example.com/fpga"),
    ] {
        text.push_str(&format!("  - {object}\n"));
    }
    let fleet = fleet_file("whole-and-seats", &text);
    let explained =
        |name: &str| run(&format!("explain profile {name} --fleet {fleet} -f examples/policies")).1;
    for (name, resource) in [("whole", "nvidia.com/gpu"), ("seat", "nvidia.com/gpu.shared")] {
        let said = explained(name);
        assert!(said.contains(&format!("some node can have what it offers ({resource})")), "{said}");
        assert!(!said.contains("it offers neither"), "{said}");
    }
    let never = explained("slice-seat");
    assert!(
        never.contains("it offers nvidia.com/mig-1g.10gb.shared, which no GPU of the fleet can have"),
        "{never}"
    );
    assert!(!never.contains("some node can have") && !never.contains("it offers neither"), "{never}");
    assert!(explained("plain").contains("it offers neither a slice nor a GPU"));
}

#[test]
fn whose_pod_needs_a_slice_for_each_of_its_containers_is_told_why_and_how_to_have_one() {
    let fleet = fleet("sidecars");
    let explained = |what: &str| run(&format!("explain {what} --fleet {fleet} -f examples/policies")).1;
    let twice = explained("workbench team-b/twice");
    for part in [
        "2 of its containers ask for nvidia.com/mig-1g.10gb (twice, oauth-proxy), so that its pod needs 2 on one node",
        "OpenShift AI up to 3.3 writes into every container",
        "write nvidia.com/mig-1g.10gb: \"0\" into requests and limits of the other containers",
    ] {
        assert!(twice.contains(part), "{part}: {twice}");
    }
    // No profile: somebody wrote it so. The container that ends before counts for none.
    let pair = explained("pod team-b/pair");
    assert!(pair.contains("2 of its containers ask for nvidia.com/mig-2g.20gb (left, right)"), "{pair}");
    assert!(!pair.contains("OpenShift AI"), "{pair}");
    let churn = explained("workbench team-a/churn");
    assert!(!churn.contains("of its containers"), "{churn}");
}

#[test]
fn a_name_that_nothing_has_is_refused_with_those_that_there_are() {
    let fleet = fleet("refused");
    let (status, out, err) = run(&format!("explain workbench chrun --fleet {fleet} -f examples/policies"));
    assert_eq!((status, out.as_str()), (Status::Usage, ""));
    assert!(err.contains("there is no workbench `chrun`"), "{err}");
    assert!(err.contains("There are: team-a/churn, team-b/twice"), "{err}");
}
