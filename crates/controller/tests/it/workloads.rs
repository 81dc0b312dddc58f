//! What is read of Kueue's workloads from the API server, whatever else stands there.

use std::sync::Arc;

use api::foreign::Workload;
use controller::store::bounds::Bounded;
use controller::store::{Change, Foreign, Item, Source, Store};
use kube::api::DynamicObject;
use serde_json::{Value, json};

const SOURCE: Source = Source::Foreign(Foreign::Workload);

fn store() -> Store {
    let mut store = Store::sparing();
    store.expect(SOURCE);
    store
}

fn as_it_comes(object: &Value) -> Item {
    let read: Bounded<DynamicObject> = serde_json::from_str(&object.to_string()).unwrap();
    Item::bounded(read)
}

/// What is kept of a workload as the API server has it.
fn kept(object: &Value) -> Arc<Workload> {
    let mut store = store();
    store.take(&SOURCE, Change::Put(as_it_comes(object)));
    assert!(store.unreadable.is_empty(), "{:?}", store.unreadable);
    Arc::clone(&store.objects.workloads[&("team".to_owned(), "job".to_owned())])
}

/// A job of a queue, with quota and a check of ours.
fn workload() -> Value {
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "team", "name": "job", "uid": "u-1", "resourceVersion": "7", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": true}]},
        "spec": {"queueName": "default", "podSets": [{"name": "main", "count": 2, "template": {"spec": {
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
                "lastTransitionTime": "2026-11-21T08:00:00Z"}],
            "admission": {"clusterQueue": "research", "podSetAssignments": [
                {"name": "main", "count": 2, "flavors": {"nvidia.com/mig-1g.10gb": "pool"}}]},
            "admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": "planned",
                "lastTransitionTime": "2026-11-21T08:00:00Z", "retryCount": 2}],
        },
    })
}

/// Nobody gives his quota to one who has to stay out of the queue for a while.
#[test]
fn until_when_one_has_to_stay_out_of_its_queue_is_read() {
    let mut waits = workload();
    waits["status"]["conditions"][0]["status"] = "False".into();
    waits["status"]["requeueState"] = json!({"count": 3, "requeueAt": "2026-11-21T09:00:00Z"});
    let until = kept(&waits).status.requeue_state.clone().and_then(|state| state.requeue_at);
    assert_eq!(until.map(|at| at.0.to_string()).as_deref(), Some("2026-11-21T09:00:00Z"));
}

/// The API server takes messages of 32 KiB there.
#[test]
fn what_other_checks_say_at_length_hides_no_check_of_ours() {
    let mut said = workload();
    let theirs = json!({"name": "a-provisioning", "state": "Ready", "message": "x".repeat(32 << 10),
        "lastTransitionTime": "2026-11-21T08:00:00Z",
        "podSetUpdates": [{"name": "main", "annotations": {"a": "y".repeat(32 << 10)}, "nodeSelector": {"zone": "b"}}]});
    said["status"]["admissionChecks"].as_array_mut().unwrap().insert(0, theirs);
    let kept = kept(&said);
    let ours = kept.check("gpu-slices").expect("it is still there");
    assert_eq!(
        (ours.state.as_str(), ours.message.as_str(), ours.retry_count),
        ("Pending", "planned", Some(2))
    );
    let theirs = kept.check("a-provisioning").expect("so is the other");
    assert_eq!(theirs.state, "Ready");
    assert_eq!(theirs.pod_set_updates[0].node_selector.get("zone"), Some("b"));
}

/// In a topology Kueue says of each of a thousand hosts how many pods it gets.
#[test]
fn where_kueue_puts_the_pods_of_one_set_hides_no_quota_of_another() {
    let mut placed = workload();
    let domains: Vec<Value> = (0..1_000)
        .map(|n| json!({"count": 1, "values": [format!("block-{n}"), format!("host-{n}")]}))
        .collect();
    let mut second = placed["spec"]["podSets"][0].clone();
    second["name"] = "second".into();
    placed["spec"]["podSets"].as_array_mut().unwrap().push(second);
    let assignments = &mut placed["status"]["admission"]["podSetAssignments"];
    assignments[0]["topologyAssignment"] = json!({"levels": ["block", "host"], "domains": domains});
    let mut second = json!({"name": "second", "count": 1, "flavors": {"nvidia.com/mig-1g.10gb": "racks"}});
    second["resourceUsage"] = json!({"nvidia.com/mig-1g.10gb": "1"});
    assignments.as_array_mut().unwrap().push(second);
    let kept = kept(&placed);
    let of: Vec<_> = kept
        .spec
        .pod_sets
        .iter()
        .map(|set| {
            (kept.count_of(set), kept.assignment_of(set).map(|of| of.flavors.values().cloned().collect()))
        })
        .collect();
    let flavor = |name: &str| Some(vec![name.to_owned()]);
    assert_eq!(of, [(2, flavor("pool")), (1, flavor("racks"))]);
    assert_eq!(kept.status.admission.as_ref().unwrap().cluster_queue, "research");
}

/// Thousands of them come and go each day, most without a GPU.
#[test]
fn of_a_workload_that_is_gone_nothing_is_left() {
    let mut store = store();
    let named = |name: &str, resource: &str| {
        let mut object = workload();
        object["metadata"]["name"] = name.into();
        object["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {resource: "1"}});
        if resource == "cpu" {
            object["status"]["admissionChecks"] = json!([]);
        }
        object
    };
    for object in [named("job", "nvidia.com/mig-1g.10gb"), named("spark", "cpu")] {
        store.take(&SOURCE, Change::Put(as_it_comes(&object)));
    }
    assert_eq!(store.objects.workloads.len(), 1, "who asks for no GPU is not kept");
    let owners: Vec<_> = store.objects.owners.iter().map(|((_, _, name), _)| name).collect();
    assert_eq!(owners, ["job"]);
    let mut gone = named("job", "nvidia.com/mig-1g.10gb");
    gone["metadata"]["resourceVersion"] = "8".into();
    store.take(&SOURCE, Change::Gone(as_it_comes(&gone)));
    assert!(store.objects.owners.is_empty(), "{:?}", store.objects.owners);
}

/// People and their tools note on a workbench what they like.
#[test]
fn that_a_workbench_is_stopped_is_read_whatever_else_is_noted_on_it() {
    let source = Source::Foreign(Foreign::Notebook);
    let mut store = store();
    store.expect(source.clone());
    let lab = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": "team", "name": "lab", "resourceVersion": "7", "annotations": {
            "a-note": "x".repeat(100_000), "kubeflow-resource-stopped": "2026-11-21T08:00:00Z"}},
        "spec": {"template": {"spec": {"containers": [{"name": "lab"}]}}},
    });
    store.take(&source, Change::Put(as_it_comes(&lab)));
    let lab = store.objects.notebooks.values().next().unwrap();
    assert_ne!(lab.intent(), api::foreign::notebook::Intent::Run);
}

/// The pods of a job in a queue are not there to name them: a label that nobody else reads would be missing on every node,
/// and the job would wait for ever.
#[test]
fn a_label_that_only_a_workload_names_is_shown_on_the_nodes() {
    let mut store = store();
    store.expect(Source::Nodes);
    let labels = [
        "nvidia.com/gpu.present",
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.family",
        "nvidia.com/gpu.mode",
        "feature.node.kubernetes.io/cpu-model.family",
        "nvidia.com/cuda.runtime.major",
    ];
    let of_node: serde_json::Map<String, Value> =
        labels.iter().map(|label| ((*label).to_owned(), json!("x"))).collect();
    let node = json!({"metadata": {"name": "a1", "resourceVersion": "1", "labels": of_node}});
    store.take(&Source::Nodes, Change::Put(Item::node(serde_json::from_value(node).unwrap())));
    let shown = |store: &Store| -> Vec<&str> {
        let of_node = store.objects.nodes["a1"].metadata.labels.clone().unwrap();
        labels.into_iter().filter(|label| of_node.contains_key(*label)).collect()
    };
    assert_eq!(shown(&store), ["nvidia.com/gpu.present"]);
    let mut object = workload();
    let template = &mut object["spec"]["podSets"][0]["template"];
    template["metadata"] = json!({"labels": {"app": "x"}});
    template["spec"]["nodeSelector"] = json!({"nvidia.com/gpu.memory": "81920"});
    let term = json!({"matchExpressions": [{"key": "nvidia.com/gpu.family", "operator": "In", "values": ["hopper"]}]});
    template["spec"]["affinity"] = json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "feature.node.kubernetes.io/cpu-model.family"}]},
    });
    object["status"]["admissionChecks"][0]["podSetUpdates"] =
        json!([{"name": "main", "nodeSelector": {"nvidia.com/cuda.runtime.major": "13"}}]);
    store.take(&SOURCE, Change::Put(as_it_comes(&object)));
    let mut all = labels.to_vec();
    all.retain(|label| *label != "nvidia.com/gpu.mode");
    assert_eq!(shown(&store), all);
}

/// Neither its labels nor what it selects of other pods is kept, and by which rules its pods keep apart is.
#[test]
fn the_rules_by_which_the_pods_of_a_workload_will_keep_apart_are_noted() {
    let mut object = workload();
    let template = &mut object["spec"]["podSets"][0]["template"];
    template["metadata"] = json!({"labels": {"app": "x", "team": "y"}, "creationTimestamp": null});
    let selector = json!({"matchLabels": {"app": "x"}});
    template["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]}});
    template["spec"]["topologySpreadConstraints"] = json!([{"labelSelector": selector, "topologyKey": "zone",
        "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]);
    let full: Workload = serde_json::from_value(object.clone()).unwrap();
    let rules = |workload: &Workload| observe::apart::of_template(&workload.spec.pod_sets[0].template);
    assert_eq!(rules(&full).len(), 2);
    // What its author wrote in the place of our note is none of them.
    object["spec"]["podSets"][0]["template"]["metadata"]["annotations"] =
        json!({observe::apart::NOTE: "0123456789abcdef - zone"});
    let kept = kept(&object);
    assert_eq!(rules(&kept), rules(&full));
    let text = serde_json::to_string(&*kept).unwrap();
    assert!(!text.contains("podAntiAffinity") && !text.contains("\"team\":\"y\""), "{text}");
}

/// Kueue writes into thousands of workloads each minute, and most of them ask for no GPU.
#[test]
fn what_is_not_read_of_a_workload_is_no_news() {
    let mut store = store();
    let mut version = 7;
    let mut put = |object: &Value| {
        let mut object = object.clone();
        version += 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        store.take(&SOURCE, Change::Put(as_it_comes(&object)))
    };
    let mut object = workload();
    assert!(put(&object), "it is new");
    assert!(!put(&object), "it is as it was");
    object["status"]["conditions"][0]["message"] = "Quota reserved in ClusterQueue research".into();
    object["status"]["schedulingStats"] = json!({"evictions": []});
    assert!(!put(&object));
    object["status"]["admissionChecks"][0]["state"] = "Ready".into();
    assert!(put(&object));
    let mut spark = workload();
    spark["metadata"]["name"] = "spark".into();
    spark["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1"}});
    spark["status"]["admissionChecks"] = json!([]);
    assert!(!put(&spark), "it is not kept");
    object["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "Finished", "status": "True",
        "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-11-21T09:00:00Z"}));
    assert!(put(&object));
}

/// The notebook controller writes the status of a workbench each time that it looks at it.
#[test]
fn that_somebody_has_looked_at_a_workbench_is_no_news() {
    let source = Source::Foreign(Foreign::Notebook);
    let mut store = store();
    store.expect(source.clone());
    let mut put = |version: u32, annotations: Value, ready: u32| {
        let object = json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "team", "name": "lab", "resourceVersion": version.to_string(),
                "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "lab"}]}}},
            "status": {"readyReplicas": ready, "conditions": [{"type": "Ready", "lastProbeTime": version.to_string()}]},
        });
        store.take(&source, Change::Put(as_it_comes(&object)))
    };
    assert!(put(1, json!({}), 0));
    assert!(!put(
        2,
        json!({"notebooks.kubeflow.org/last_activity_check_timestamp": "2026-11-21T09:00:00Z"}),
        0
    ));
    assert!(put(3, json!({"kubeflow-resource-stopped": "2026-11-21T09:00:00Z"}), 0));
    assert!(put(4, json!({}), 0));
    assert!(put(5, json!({}), 1));
}

/// Anybody may note on it as much as the API server takes.
#[test]
fn whose_place_a_workload_takes_is_read_whatever_else_is_noted_on_it() {
    let mut grown = workload();
    grown["metadata"]["annotations"] = json!({"a-note": "x".repeat(100_000),
        "kueue.x-k8s.io/workload-slice-replacement-for": "team/job-a1"});
    let kept = kept(&grown);
    assert_eq!(kept.replaces(), Some(("team", "job-a1")));
    assert_eq!(kept.metadata.annotations.iter().count(), 1, "and nothing else is kept of that");
    grown["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"] =
        "team/x".repeat(1_000).into();
    assert_eq!(self::kept(&grown).replaces(), None);
}

/// Of each resource that Kueue counts instead of a slice nothing but that it is none of GPUs.
#[test]
fn what_kueue_counts_of_a_workload_is_read() {
    let mut waits = workload();
    waits["status"]["conditions"][0]["status"] = "False".into();
    waits["status"]["admission"] = Value::Null;
    let counts = |resource: &str| {
        let mut waits = waits.clone();
        waits["status"]["resourceRequests"] =
            json!([{"name": "main", "resources": {"cpu": "1", resource: "80"}}]);
        kept(&waits).counts("nvidia.com/mig-1g.10gb")
    };
    assert_eq!(counts("example.com/accelerator-memory"), Some(false));
    assert_eq!(counts("nvidia.com/mig-1g.10gb"), Some(true));
    assert_eq!(kept(&waits).counts("nvidia.com/mig-1g.10gb"), None, "it has not looked yet");
}

/// What is not kept was never counted, and frees no room for others of its namespace.
#[test]
fn a_workload_that_is_not_kept_gives_its_namespace_no_more_room() {
    let mut store = store();
    let with = |name: &str, resource: &str, terms: usize| {
        let mut object = workload();
        object["metadata"]["name"] = name.into();
        object["status"]["admissionChecks"] = json!([]);
        let quota = if resource == "cpu" { "True" } else { "False" };
        object["status"]["conditions"][0]["status"] = quota.into();
        let spec = &mut object["spec"]["podSets"][0]["template"]["spec"];
        spec["containers"][0]["resources"] = json!({"limits": {resource: "1"}});
        let selector: serde_json::Map<String, Value> =
            (0..terms).map(|n| (format!("{name}-{n}-{}", "k".repeat(200)), json!("x"))).collect();
        spec["nodeSelector"] = Value::Object(selector);
        object
    };
    let is_short = |store: &Store, name: &str| {
        let workload = &store.objects.workloads[&("team".to_owned(), name.to_owned())];
        workload.spec.pod_sets[0].template.spec.shape().node_selector.is_none()
    };
    let mut whole = 0;
    for n in 0..1_000 {
        let name = format!("job-{n}");
        store.take(&SOURCE, Change::Put(as_it_comes(&with(&name, "nvidia.com/mig-1g.10gb", 20))));
        whole += usize::from(!is_short(&store, &name));
        // Somebody who has no GPU, and is let go.
        store.take(&SOURCE, Change::Put(as_it_comes(&with(&format!("spark-{n}"), "cpu", 20))));
    }
    assert!((1..1_000).contains(&whole), "{whole} of 1000 are kept whole");
}
