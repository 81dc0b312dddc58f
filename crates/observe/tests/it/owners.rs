//! The owner of a pod: every pod that waits for a slice is one request, whatever its owner and its labels
//! are.

use std::collections::BTreeSet;

use crate::words::*;
use planner::demand::Evidence;
use proptest::prelude::*;
use serde_json::{Value, json};

fn owned(api_version: &str, kind: &str, name: &str, by: Option<(&str, &str)>) -> Value {
    let owners: Vec<_> = by
        .map(|(kind, name)| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}))
        .into_iter()
        .collect();
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": "vision", "name": name, "ownerReferences": owners}, "spec": {}})
}

fn waiting(name: &str, owner: (&str, &str), labels: &Value, asks: u32) -> Value {
    let asks: &[(&str, u32)] = if asks == 0 { &[] } else { &[("mig-1g.10gb", asks)] };
    let mut pod = pod("vision", name, asks, None);
    pod["metadata"]["labels"] = labels.clone();
    let (kind, owner) = owner;
    if !kind.is_empty() {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u", "controller": true}]);
    }
    pod
}

#[test]
fn the_pods_of_a_job_set_are_a_request_each_and_a_launcher_without_a_gpu_hides_nobody() {
    let set = Some(("JobSet", "train"));
    let index = |n: u32| json!({"batch.kubernetes.io/job-completion-index": n.to_string()});
    let mut objects = vec![
        owned("batch/v1", "Job", "train-launcher-0", set),
        owned("batch/v1", "Job", "train-worker-0", set),
        owned("batch/v1", "Job", "train-worker-1", set),
        waiting("train-launcher-0-0-x", ("Job", "train-launcher-0"), &index(0), 0),
    ];
    for job in ["train-worker-0", "train-worker-1"] {
        for n in 0..4 {
            objects.push(waiting(&format!("{job}-{n}-x"), ("Job", job), &index(n), 1));
        }
    }
    let seen = see(&objects);
    let ids: Vec<_> = seen.requests.iter().map(|request| request.id.to_string()).collect();
    assert_eq!(ids.len(), 8, "{ids:?}");
    assert!(ids.iter().all(|id| id.starts_with("Job vision/train-worker-")), "{ids:?}");
}

#[test]
fn model_servers_are_named_by_their_labels_and_other_pods_of_a_component_are_not() {
    let llm = |component: &str| json!({"app.kubernetes.io/component": component, "app.kubernetes.io/name": "granite"});
    let kserve = json!({"serving.kserve.io/inferenceservice": "llama"});
    let seen = see(&[
        waiting(
            "granite-kserve-abc",
            ("ReplicaSet", "granite-kserve"),
            &llm("llminferenceservice-workload"),
            1,
        ),
        waiting("web-abc", ("ReplicaSet", "web"), &llm("frontend"), 1),
        waiting("llama-abc", ("ReplicaSet", "llama"), &kserve, 1),
        waiting("ray-worker-1", ("RayCluster", "ray"), &json!({}), 1),
    ]);
    let ids: BTreeSet<_> = seen.requests.iter().map(|r| format!("{} {}", r.id.kind, r.id.name)).collect();
    let expected =
        ["InferenceService llama", "LLMInferenceService granite", "RayCluster ray", "ReplicaSet web"];
    assert_eq!(ids, expected.map(str::to_owned).into());
}

/// Owners above the direct one, by the direct one's kind.
const ABOVE: [(&str, &str); 7] = [
    ("", ""),
    ("Job", "JobSet"),
    ("Job", "CronJob"),
    ("StatefulSet", "LeaderWorkerSet"),
    ("StatefulSet", "Notebook"),
    ("ReplicaSet", "Deployment"),
    ("MPIJob", ""),
];

fn labels() -> impl Strategy<Value = Value> {
    let number = prop_oneof![Just("0"), Just("1"), Just("4294967295"), Just("many")];
    let key = prop_oneof![
        Just("batch.kubernetes.io/job-completion-index"),
        Just("apps.kubernetes.io/pod-index"),
        Just("statefulset"),
        Just("app"),
    ];
    let root = prop_oneof![
        3 => Just(None),
        1 => Just(Some("notebook-name")),
        1 => Just(Some("serving.kserve.io/inferenceservice")),
    ];
    (key, number, root).prop_map(|(key, number, root)| {
        let mut labels = json!({key: number});
        if let Some(root) = root {
            labels[root] = "shared".into();
        }
        labels
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_pending_pod_that_asks_for_a_slice_is_exactly_one_request(
        pods in prop::collection::vec((0..ABOVE.len(), 0..3_usize, 0..2_usize, labels(), 0..2_u32), 1..12),
    ) {
        let mut objects = Vec::new();
        let mut expected = 0;
        for (n, (tree, direct, above, labels, asks)) in pods.iter().enumerate() {
            let (kind, top) = ABOVE[*tree];
            let (own, top_name) = (format!("{}-{direct}-{above}", kind.to_lowercase()), format!("top-{above}"));
            if !kind.is_empty() {
                objects.push(owned("v1", kind, &own, (!top.is_empty()).then_some((top, &*top_name))));
            }
            // Names that end in a number, as those of sets do, and some that do not.
            let name = if n % 2 == 0 { format!("p{n}-0") } else { format!("p{n}") };
            objects.push(waiting(&name, (kind, &own), labels, *asks));
            expected += usize::from(*asks > 0);
        }
        let seen = see(&objects);
        let of_pods: Vec<_> = seen.requests.iter().filter(|r| r.evidence == Evidence::PendingPod).collect();
        prop_assert_eq!(of_pods.len(), expected);
        let ids: BTreeSet<_> = of_pods.iter().map(|request| &request.id).collect();
        prop_assert_eq!(ids.len(), expected);
    }
}
