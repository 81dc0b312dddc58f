//! What is kept of Kueue's objects: who waits in any queue and why, what queues cover and give of GPUs, and
//! nothing of which Kueue only counts.

use controller::publish::discreet::{self, TellNames};
use controller::store::{Change, Foreign, Item, Source, Store, trim};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use reconcile::{CheckAnswer, CheckState};
use serde_json::{Value, json};

/// A store that follows Kueue's objects.
fn store() -> Store {
    let mut store = Store::sparing();
    for source in Foreign::QUEUES.map(Source::Foreign) {
        store.expect(source);
    }
    for source in [Foreign::ClusterQueue, Foreign::LocalQueue].map(Source::Foreign) {
        store.take(&source, Change::Begin(None));
        store.take(&source, Change::End);
    }
    store
}

/// Says whether it is news.
fn put(store: &mut Store, kind: Foreign, version: u32, mut object: Value) -> bool {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    store.take(&Source::Foreign(kind), Change::Put(Item::dynamic(object)))
}

/// A workbench that waits in the queue that OpenShift AI makes: no check is on it.
fn workbench(name: &str, resource: &str, quota: &str, message: &str) -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "team-a", "name": format!("statefulset-{name}"), "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "u"}]},
        "spec": {"queueName": "default", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
            "containers": [{"name": name, "resources": {"limits": {resource: "1", "cpu": "2"}}}]}}}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": quota, "reason": "Pending", "message": message,
            "lastTransitionTime": "2026-11-21T08:00:00Z"}]},
    })
}

fn kept(store: &Store) -> Vec<&str> {
    store.objects.workloads.keys().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn who_waits_for_slices_in_a_queue_without_a_check_is_kept_with_the_reason_until_it_has_its_quota() {
    let mut store = store();
    let why = "couldn't assign flavors to pod set main: resource nvidia.com/mig-3g.40gb unavailable in ClusterQueue";
    let slice = "nvidia.com/mig-3g.40gb";
    put(&mut store, Foreign::Workload, 1, workbench("lab", slice, "False", why));
    put(&mut store, Foreign::Workload, 2, workbench("spark", "cpu", "False", why));
    put(&mut store, Foreign::Workload, 3, workbench("runs", slice, "True", ""));
    assert_eq!(kept(&store), ["statefulset-lab"], "of the others their pods say what there is to know");
    let lab = &store.objects.workloads[&("team-a".to_owned(), "statefulset-lab".to_owned())];
    assert_eq!(lab.status.conditions[0].message, why);
    put(&mut store, Foreign::Workload, 4, workbench("lab", slice, "True", ""));
    assert_eq!(kept(&store), [""; 0]);
}

/// A queue of the namespace, and the cluster queue behind it.
fn strict(store: &mut Store, strategy: &str) {
    let local = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"namespace": "team-a", "name": "default"}, "spec": {"clusterQueue": "default"}});
    put(store, Foreign::LocalQueue, 1, local);
    let queue = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
        "metadata": {"name": "default"}, "spec": {"queueingStrategy": strategy, "resourceGroups": []}});
    put(store, Foreign::ClusterQueue, 1, queue);
}

#[test]
fn who_asks_for_no_gpu_is_kept_where_nobody_may_pass_and_of_that_nothing_but_its_turn() {
    for (strategy, is_kept) in [("StrictFIFO", true), ("BestEffortFIFO", false)] {
        let mut store = store();
        strict(&mut store, strategy);
        let mut spark = workbench("spark", "cpu", "False", "");
        spark["spec"]["priority"] = json!(7);
        spark["metadata"]["creationTimestamp"] = json!("2026-11-21T08:00:00Z");
        assert_eq!(put(&mut store, Foreign::Workload, 2, spark), is_kept, "{strategy}");
        let expected: &[&str] = if is_kept { &["statefulset-spark"] } else { &[] };
        assert_eq!(kept(&store), expected, "{strategy}");
        for workload in store.objects.workloads.values() {
            assert!(workload.spec.pod_sets.is_empty() && workload.metadata.owner_references.is_empty());
            assert_eq!((workload.spec.priority, workload.spec.queue_name.as_str()), (Some(7), "default"));
            assert!(workload.metadata.creation_timestamp.is_some());
        }
        // It has its quota.
        put(&mut store, Foreign::Workload, 3, workbench("spark", "cpu", "True", ""));
        assert_eq!(kept(&store), [""; 0], "{strategy}");
    }
}

/// Where its pods have to be is kept: what Kueue's topology wants, and what their own affinity says, as a note.
#[test]
fn of_a_workload_it_is_kept_which_part_of_the_cluster_its_pods_need() {
    let mut store = store();
    let zone = "topology.kubernetes.io/zone";
    let mut object = workbench("lab", "nvidia.com/mig-3g.40gb", "False", "");
    let set = &mut object["spec"]["podSets"][0];
    set["topologyRequest"] = json!({"required": zone, "podIndexLabel": "x"});
    set["template"]["metadata"] = json!({"labels": {"app": "train"}});
    set["template"]["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": zone}]}});
    put(&mut store, Foreign::Workload, 1, object);
    let kept =
        &store.objects.workloads[&("team-a".to_owned(), "statefulset-lab".to_owned())].spec.pod_sets[0];
    assert_eq!(kept.required_topology().map(String::as_str), Some(zone));
    let rules = observe::apart::of_template(&kept.template);
    assert!(rules.iter().any(|rule| rule.is_together() && rule.topology() == Some(zone)), "{rules:?}");
}

/// Of those who waited in it before, who asks for no GPU was passed over.
#[test]
fn when_a_queue_becomes_strict_its_workloads_are_listed_again() {
    let workloads = Source::Foreign(Foreign::Workload);
    let mut store = store();
    strict(&mut store, "BestEffortFIFO");
    put(&mut store, Foreign::Workload, 2, workbench("spark", "cpu", "False", ""));
    assert_eq!(kept(&store), Vec::<String>::new());
    assert_eq!(store.take_passed_over(), [].into());
    let queue = |strategy: &str| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "default"},
            "spec": {"queueingStrategy": strategy, "resourceGroups": []}})
    };
    put(&mut store, Foreign::ClusterQueue, 3, queue("StrictFIFO"));
    assert_eq!(store.take_passed_over(), [workloads.clone()].into());
    put(&mut store, Foreign::ClusterQueue, 4, queue("StrictFIFO"));
    assert_eq!(store.take_passed_over(), [].into(), "once is enough");
    store.take(&workloads, Change::Begin(Some(5)));
    put(&mut store, Foreign::Workload, 2, workbench("spark", "cpu", "False", ""));
    store.take(&workloads, Change::End);
    assert_eq!(kept(&store), ["statefulset-spark"]);
}

#[test]
fn who_came_before_the_queues_were_listed_is_kept_until_it_is_known_that_it_keeps_nobody_waiting() {
    for (strategy, is_kept) in [("StrictFIFO", true), ("BestEffortFIFO", false)] {
        let mut store = Store::sparing();
        for source in Foreign::QUEUES.map(Source::Foreign) {
            store.expect(source);
        }
        put(&mut store, Foreign::Workload, 2, workbench("spark", "cpu", "False", ""));
        put(&mut store, Foreign::Workload, 3, workbench("lab", "nvidia.com/mig-3g.40gb", "False", ""));
        assert_eq!(kept(&store), ["statefulset-lab", "statefulset-spark"]);
        for kind in [Foreign::ClusterQueue, Foreign::LocalQueue] {
            store.take(&Source::Foreign(kind), Change::Begin(None));
            strict(&mut store, strategy);
            store.take(&Source::Foreign(kind), Change::End);
        }
        assert_eq!(kept(&store).contains(&"statefulset-spark"), is_kept, "{strategy}");
        assert!(kept(&store).contains(&"statefulset-lab"));
    }
}

/// The queue that OpenShift AI makes, of which so much CPU and so many GPUs are reserved.
fn default_queue(cpu: &str, gpus: &str) -> Value {
    let quota = |name: &str, n: &str| json!({"name": name, "nominalQuota": n});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
        "metadata": {"name": "default", "annotations": {"opendatahub.io/managed": "false"}, "labels": {"a": "b"}},
        "spec": {"namespaceSelector": {}, "preemption": {"withinClusterQueue": "Never"}, "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default-flavor", "resources": [
                quota("cpu", "512"), quota("memory", "4Ti")]}]},
            {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "nvidia-gpu-flavor", "resources": [
                quota("nvidia.com/gpu", "16")]}]}]},
        "status": {"pendingWorkloads": 3, "conditions": [{"type": "Active", "status": "True", "reason": "Ready",
            "message": "Can admit new workloads", "lastTransitionTime": "2026-11-21T08:00:00Z"}],
            "flavorsReservation": [
                {"name": "default-flavor", "resources": [{"name": "cpu", "total": cpu, "borrowed": "0"}]},
                {"name": "nvidia-gpu-flavor", "resources": [{"name": "nvidia.com/gpu", "total": gpus, "borrowed": "0"}]}]},
    })
}

#[test]
fn of_a_cluster_queue_what_it_gives_of_gpus_is_kept_and_news_only_when_that_changes() {
    let mut store = store();
    assert!(put(&mut store, Foreign::ClusterQueue, 1, default_queue("3", "2")));
    let kept = serde_json::to_string(&store.objects.cluster_queues["default"]).unwrap();
    for (word, is_kept) in [
        ("\"cpu\"", false),
        ("opendatahub", false),
        ("Can admit", false),
        ("nvidia-gpu-flavor", true),
        ("\"16\"", true),
        ("\"2\"", true),
    ] {
        assert_eq!(kept.contains(word), is_kept, "{word}: {kept}");
    }
    assert!(!put(&mut store, Foreign::ClusterQueue, 2, default_queue("90", "2")), "CPU is not read");
    assert!(put(&mut store, Foreign::ClusterQueue, 3, default_queue("90", "3")));
}

#[test]
fn that_kueue_counts_who_waits_in_a_local_queue_is_no_news() {
    let local = |to: &str, pending: u32| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
            "metadata": {"namespace": "team-a", "name": "default"}, "spec": {"clusterQueue": to},
            "status": {"pendingWorkloads": pending}})
    };
    let mut store = store();
    assert!(put(&mut store, Foreign::LocalQueue, 1, local("default", 0)));
    assert!(!put(&mut store, Foreign::LocalQueue, 2, local("default", 7)));
    assert!(put(&mut store, Foreign::LocalQueue, 3, local("research", 7)));
    let key = ("team-a".to_owned(), "default".to_owned());
    assert_eq!(store.objects.local_queues[&key].spec.cluster_queue, "research");
    store.forget(&Source::Foreign(Foreign::LocalQueue));
    assert!(store.objects.local_queues.is_empty(), "Kueue was uninstalled");
}

/// A flavor may select nodes by a label that nobody else reads.
#[test]
fn a_label_that_only_a_flavor_names_is_shown_on_the_nodes() {
    let mut store = store();
    store.expect(Source::Nodes);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "a1", "resourceVersion": "1", "labels": {
        "nvidia.com/gpu.present": "true", "nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.mode": "compute"}}}))
    .unwrap();
    store.take(&Source::Nodes, Change::Put(Item::node(node)));
    let shown = |store: &Store| -> Vec<String> {
        let labels = store.objects.nodes["a1"].metadata.labels.clone().unwrap();
        labels.into_keys().filter(|key| key.starts_with("nvidia.com/gpu.")).collect()
    };
    assert_eq!(shown(&store), ["nvidia.com/gpu.present"]);
    let flavor = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"},
        "spec": {"nodeLabels": {"nvidia.com/gpu.family": "ampere"}}});
    put(&mut store, Foreign::ResourceFlavor, 2, flavor);
    assert_eq!(shown(&store), ["nvidia.com/gpu.family", "nvidia.com/gpu.present"]);
}

/// By them an update is known from a second group of pods.
#[test]
fn the_set_and_the_revision_of_a_leader_worker_sets_pod_are_kept() {
    let labels = json!({"leaderworkerset.sigs.k8s.io/name": "granite",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": "5f8"});
    let mut all = labels.clone();
    all["leaderworkerset.sigs.k8s.io/group-key"] = json!("k");
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "granite-0", "namespace": "team-a", "labels": all},
        "spec": {"nodeName": "a1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-7g.80gb": "1"}}}]}}))
    .unwrap();
    assert_eq!(json!(trim::pod(pod).metadata.labels), labels);
}

/// Quota that goes from one team to another: each reads that it is another namespace's, and not whose.
#[test]
fn who_is_sent_back_for_another_team_does_not_read_who_that_is() {
    let node = |name: &str| -> Node { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    let mut objects = observe::Objects::default();
    objects.nodes.insert("gpu-2".to_owned(), std::sync::Arc::new(node("gpu-2")));
    let text = "its quota goes to team-b/job-pair, which waits for it and can be served; it could not be served for \
                5 min: pod team-b/alice-0 ends (or moves), it holds 7g.80gb on gpu-2/gpu0, or team-a/mine-0 does";
    let answer = CheckAnswer {
        workload: ("team-a".to_owned(), "job-large".to_owned()),
        check: "gpu-slices".to_owned(),
        state: CheckState::Retry,
        message: text.to_owned(),
        gist: text.to_owned(),
        updates: vec![],
        retry_after: Some(300),
    };
    let told = discreet::answer(TellNames::OwnNamespace, &answer, &objects);
    for text in [&told.message, &told.gist] {
        assert!(!text.contains("team-b") && !text.contains("alice") && !text.contains("pair"), "{text}");
        assert!(
            text.starts_with("its quota goes to a pod of another namespace, which waits for it"),
            "{text}"
        );
        assert!(text.contains("gpu-2/gpu0") && text.contains("team-a/mine-0"), "its own is named: {text}");
    }
    // Nothing else of it is another one, and an administrator may have all names told.
    assert_eq!(CheckAnswer { message: text.to_owned(), gist: text.to_owned(), ..told }, answer);
    assert_eq!(discreet::answer(TellNames::All, &answer, &objects), answer);
}
