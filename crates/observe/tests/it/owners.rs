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
    assert!(ids.iter().all(|id| id.starts_with("JobSet vision/train")), "{ids:?}");
    assert_eq!(seen.requests.iter().map(|request| &request.id).collect::<BTreeSet<_>>().len(), 8, "{ids:?}");
}

/// The leaders are of the set's own StatefulSet, the workers of StatefulSets that the leaders own. A leader that asks
/// for no GPU need not be known.
#[test]
fn the_pods_of_a_leader_worker_set_are_its_own_whether_they_lead_or_work() {
    let server = Some(("LLMInferenceService", "granite"));
    let label = |index: &str| json!({"apps.kubernetes.io/pod-index": index, "leaderworkerset.sigs.k8s.io/name": "granite-mn"});
    let mut objects = vec![
        owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "granite-mn", server),
        owned("apps/v1", "StatefulSet", "granite-mn", Some(("LeaderWorkerSet", "granite-mn"))),
    ];
    for group in 0..2 {
        let leader = format!("granite-mn-{group}");
        objects.push(owned("apps/v1", "StatefulSet", &leader, Some(("Pod", &leader))));
        if group == 0 {
            objects.push(waiting(&leader, ("StatefulSet", "granite-mn"), &label("0"), 1));
        }
        for worker in 1..4 {
            let name = format!("{leader}-{worker}");
            objects.push(waiting(&name, ("StatefulSet", &leader), &label(&worker.to_string()), 1));
        }
    }
    let seen = see(&objects);
    let ids: BTreeSet<_> = seen.requests.iter().map(|request| &request.id).collect();
    assert_eq!(ids.len(), 7, "{ids:?}");
    assert!(ids.iter().all(|id| id.kind == "LLMInferenceService" && id.name == "granite"), "{ids:?}");
}

/// Pods that a set numbers under somebody who has several sets are numbered by age: none gets another number because
/// younger ones come.
#[test]
fn a_pod_keeps_its_number_while_younger_ones_come() {
    let mut objects = vec![
        owned("batch/v1", "Job", "train-a-0", Some(("JobSet", "train"))),
        owned("batch/v1", "Job", "train-b-0", Some(("JobSet", "train"))),
    ];
    let mut before: Vec<(String, String)> = Vec::new();
    for (n, (job, index)) in
        [("train-b-0", 2), ("train-b-0", 0), ("train-a-0", 1), ("train-b-0", 1), ("train-a-0", 0)]
            .iter()
            .enumerate()
    {
        let labels = json!({"batch.kubernetes.io/job-completion-index": index.to_string()});
        let mut pod = waiting(&format!("{job}-{index}-x"), ("Job", job), &labels, 1);
        // What tells them apart in the report is since when they wait.
        pod["metadata"]["creationTimestamp"] = format!("2026-11-21T08:00:0{n}Z").into();
        objects.push(pod);
        let seen = see(&objects);
        let now: Vec<(String, String)> =
            seen.requests.iter().map(|r| (r.since.to_string(), format!("{:?}", r.id))).collect();
        assert_eq!(now.len(), n + 1);
        assert!(before.iter().all(|known| now.contains(known)), "{before:?} became {now:?}");
        before = now;
    }
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
        waiting("sched-abc", ("ReplicaSet", "sched"), &llm("llminferenceservice-router-scheduler"), 1),
        waiting("llama-abc", ("ReplicaSet", "llama"), &kserve, 1),
        waiting("ray-worker-1", ("RayCluster", "ray"), &json!({}), 1),
    ]);
    let ids: BTreeSet<_> = seen.requests.iter().map(|r| format!("{} {}", r.id.kind, r.id.name)).collect();
    let expected = [
        "InferenceService llama",
        "LLMInferenceService granite",
        "RayCluster ray",
        "ReplicaSet sched",
        "ReplicaSet web",
    ];
    assert_eq!(ids, expected.map(str::to_owned).into());
}

/// KServe serves a large model by several sets of pods: those that read the prompt, and the leaders and workers of
/// servers that span nodes.
#[test]
fn every_part_of_an_llm_inference_service_that_serves_is_its_own() {
    let parts = ["", "-prefill", "-worker", "-leader", "-worker-prefill", "-leader-prefill"];
    let mut objects = Vec::new();
    for part in parts {
        let component = format!("llminferenceservice-workload{part}");
        let labels = json!({"app.kubernetes.io/component": component, "app.kubernetes.io/name": "granite"});
        for n in 0..2 {
            let set = format!("granite-kserve{part}");
            objects.push(waiting(&format!("{set}-{n}"), ("StatefulSet", &set), &labels, 1));
        }
    }
    let seen = see(&objects);
    let ids: BTreeSet<_> = seen.requests.iter().map(|request| &request.id).collect();
    assert_eq!(ids.len(), 2 * parts.len(), "{ids:?}");
    assert!(ids.iter().all(|id| id.kind == "LLMInferenceService" && id.name == "granite"), "{ids:?}");
}

/// The kinds above a pod, from its own controller to the topmost.
const ABOVE: [&[&str]; 11] = [
    &[],
    &["Job"],
    &["Job", "JobSet"],
    &["Job", "JobSet", "TrainJob"],
    &["Job", "CronJob"],
    &["StatefulSet", "LeaderWorkerSet"],
    &["StatefulSet", "Pod", "StatefulSet", "LeaderWorkerSet"],
    &["StatefulSet", "Notebook"],
    &["ReplicaSet", "Deployment"],
    &["Pod"],
    &["MPIJob"],
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
        1 => Just(Some("leaderworkerset.sigs.k8s.io/name")),
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
            let kinds = ABOVE[*tree];
            // The nearest are several, and what is above them is the same for some.
            let name = |step: usize| {
                let of = if step == 0 { format!("{direct}-{above}") } else { above.to_string() };
                format!("{}-{tree}-{step}-{of}", kinds[step].to_lowercase())
            };
            for (step, kind) in kinds.iter().enumerate() {
                let by = kinds.get(step + 1).map(|kind| (*kind, name(step + 1)));
                let mut object = owned("v1", kind, &name(step), by.as_ref().map(|(kind, name)| (*kind, name.as_str())));
                if *kind == "Pod" {
                    object["spec"] = json!({"containers": []});
                }
                objects.push(object);
            }
            let (kind, own) = kinds.first().map_or(("", String::new()), |kind| (*kind, name(0)));
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
