//! Exactly the fields that are read are kept: for each kind there is one object that has all of them, and
//! additional fields at each place.

use api::foreign::Workload;
use controller::store::bounds::{Bounded, MOST_CONTAINERS, MOST_OTHER_RESOURCES, MOST_RESOURCES};
use controller::store::{Change, Foreign, Item, Source, Store, trim};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

/// What is kept is this, and trimming it once more changes nothing.
#[track_caller]
fn check<T: DeserializeOwned + Serialize>(full: &Value, trim: fn(T) -> T, expect: Value) {
    let kept = serde_json::to_value(trim(read(full))).unwrap();
    assert_eq!(kept, expect);
    assert_eq!(serde_json::to_value(trim(read(&kept))).unwrap(), expect, "trimmed twice");
}

/// An object with everything that identifies it.
fn identity(extra: Value) -> Value {
    let mut all = json!({
        "name": "o", "namespace": "team", "uid": "u-1", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-11-20T08:00:00Z", "deletionTimestamp": "2026-11-20T09:00:00Z",
    });
    all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    all
}

fn with(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

#[test]
fn of_a_node_what_selects_holds_and_offers_is_kept() {
    let spec = json!({"unschedulable": true, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]});
    let managers = json!([{"manager": "kubectl-cordon", "operation": "Update",
        "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
    let offers = json!({"cpu": "8", "memory": "1Gi", "pods": "110", "nvidia.com/mig-1g.10gb": "7",
        "nvidia.com/hostdev": "8"});
    let full = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": identity(json!({
            "labels": {"any": "label"}, "annotations": {"slicewright.io/x": "y", "other": "z"},
            "managedFields": managers, "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}],
        })),
        "spec": with(spec.clone(), &json!({"podCIDR": "10.0.0.0/24"})),
        "status": {
            "allocatable": with(offers.clone(), &json!({"hugepages-2Mi": "0"})),
            "capacity": with(offers.clone(), &json!({"mig.das.com/1g.10gb": "7"})),
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "m"},
                {"type": "MemoryPressure", "status": "False"},
            ],
            "nodeInfo": {"bootID": "b-1", "kernelVersion": "6.1", "architecture": "", "containerRuntimeVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""},
        },
    });
    let kept: Node = trim::node(read(&full));
    assert_eq!(observe::cordon::owner(&kept), observe::cordon::owner(&read(&full)), "whose the cordon is");
    let mut expect = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": identity(json!({"labels": {"any": "label"}, "annotations": {"slicewright.io/x": "y"}})),
        "spec": spec,
        "status": {
            "allocatable": offers,
            "capacity": {"nvidia.com/mig-1g.10gb": "7", "mig.das.com/1g.10gb": "7"},
            "conditions": [{"type": "Ready", "status": "False"}],
            "nodeInfo": {"bootID": "b-1", "kernelVersion": "", "architecture": "", "containerRuntimeVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""},
        },
    });
    expect["metadata"]["managedFields"] = serde_json::to_value(kept.metadata.managed_fields).unwrap();
    assert!(expect["metadata"]["managedFields"].is_array());
    check(&full, trim::node, expect.clone());
    // Of a node that is open nobody set the cordon.
    let mut open = full;
    open["spec"]["unschedulable"] = json!(false);
    expect["spec"]["unschedulable"] = json!(false);
    expect["metadata"].as_object_mut().unwrap().remove("managedFields");
    check(&open, trim::node, expect);
}

/// A pod that has everything that is read while it waits.
fn waiting() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": identity(json!({
            "labels": {"notebook-name": "n", "app": "x"},
            "annotations": {"slicewright.io/volume-claims": "data,o-scratch"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "n", "uid": "u", "controller": true}],
        })),
        "spec": {
            "containers": [{"name": "c", "resources": {
                "requests": {"cpu": "1", "memory": "1Gi", "rdma/hca": "1"}, "limits": {"nvidia.com/mig-1g.10gb": "1"}}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
            "nodeSelector": {"pool": "lab"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}},
            "tolerations": [{"key": "t", "operator": "Exists"}],
            "overhead": {"cpu": "50m"},
            "priority": 5, "priorityClassName": "high",
            "schedulingGates": [{"name": "g"}],
            "resources": {"limits": {"cpu": "4"}},
            "resourceClaims": [{"name": "r"}],
        },
        "status": {
            "phase": "Pending", "reason": "r", "nominatedNodeName": "a1",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                    "lastTransitionTime": "2026-11-20T08:00:01Z"},
                {"type": "Ready", "status": "False"},
            ],
        },
    })
}

#[test]
fn of_a_pod_that_waits_what_it_asks_for_and_where_it_may_go_is_kept() {
    let mut full = waiting();
    full["metadata"]["annotations"] = json!({"note": "of somebody"});
    full["metadata"]["labels"]["team"] = json!("x");
    full["spec"]["volumes"] = json!([
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "local"}}}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]);
    let spec = &mut full["spec"];
    spec["serviceAccountName"] = json!("default");
    spec["containers"][0]["image"] = json!("i");
    spec["affinity"]["podAntiAffinity"] = json!({});
    spec["schedulingGates"] = json!([{"name": "g"}, {"name": "h"}]);
    spec["resourceClaims"] = json!([{"name": "r"}, {"name": "s"}]);
    full["status"]["hostIP"] = json!("10.0.0.1");
    full["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Initialized", "status": "True"}));
    check(&full, trim::pod, waiting());
}

/// Its labels are not kept, and by which of them it keeps apart from its siblings is.
#[test]
fn the_rules_by_which_a_pod_keeps_apart_are_noted_wherever_it_is() {
    let term = json!({"labelSelector": {"matchLabels": {"app": "x", "team": "y"}}, "topologyKey": "zone"});
    let mut full = waiting();
    full["metadata"]["labels"]["team"] = json!("y");
    full["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([term]);
    full["spec"]["topologySpreadConstraints"] = json!([{"labelSelector": term["labelSelector"],
        "topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]);
    let rules = |pod: &Pod| observe::apart::rules(pod);
    let full_rules = rules(&read(&full));
    assert_eq!(full_rules.len(), 2);
    // As it is read from the API server, and as it is kept.
    let Bounded(bounded): Bounded<Pod> = read(&full);
    assert_eq!(rules(&trim::pod(bounded)), full_rules);
    full["spec"]["nodeName"] = json!("a1");
    // What its author wrote there is none of them.
    full["metadata"]["annotations"] =
        json!({observe::apart::NOTE: "0123456789abcdef ! zone,fedcba98 - zone"});
    let kept = trim::pod(read(&full));
    assert_eq!(rules(&kept), full_rules);
    assert!(!kept.metadata.labels.unwrap().contains_key("team"));
}

#[test]
fn of_a_pod_with_more_containers_than_are_kept_their_sum_is() {
    let container = |n: usize| json!({"name": format!("c{n}"), "resources": {"requests": {"cpu": "10m"}}});
    let with = |containers: usize, init: usize| {
        let mut pod = waiting();
        pod["spec"].as_object_mut().unwrap().remove("resources");
        pod["spec"]["initContainers"] = (0..init).map(container).collect();
        for n in 1..containers {
            pod["spec"]["containers"].as_array_mut().unwrap().push(container(n));
        }
        pod
    };
    let most = with(MOST_CONTAINERS - 1, 1);
    check(&most, trim::pod, most.clone());
    for pod in [with(MOST_CONTAINERS, 1), with(1, MOST_CONTAINERS)] {
        let (full, kept): (Pod, Pod) = (read(&pod), trim::pod(read(&pod)));
        let takes = |pod: &Pod| observe::pods::takes(pod.spec.as_ref().unwrap());
        assert_eq!(takes(&kept), takes(&full));
        let spec = kept.spec.unwrap();
        assert!(spec.containers.is_empty() && spec.init_containers.is_none(), "{spec:?}");
    }
}

#[test]
fn of_a_pod_that_has_a_node_what_it_takes_there_is_kept() {
    let mut full = waiting();
    full["spec"]["nodeName"] = json!("a1");
    full["spec"].as_object_mut().unwrap().remove("resources");
    let mut expect = waiting();
    expect["spec"] = json!({
        "nodeName": "a1", "priority": 5,
        // What of the GPUs which container has, the proof of an agent's change reads.
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}],
        "overhead": {"cpu": "1150m", "memory": "1073741824", "rdma/hca": "1"},
    });
    // Its volumes are where it is.
    expect["metadata"].as_object_mut().unwrap().remove("annotations");
    expect["status"]["conditions"].as_array_mut().unwrap().remove(0);
    check(&full, trim::pod, expect.clone());
    // What its class means is not known yet.
    full["spec"].as_object_mut().unwrap().remove("priority");
    expect["spec"].as_object_mut().unwrap().remove("priority");
    expect["spec"]["priorityClassName"] = json!("high");
    check(&full, trim::pod, expect);
}

/// Before an agent destroys a slice, kubelet's books must have the devices of each.
#[test]
fn of_a_pod_with_more_containers_on_gpus_than_are_kept_no_request_is_forgotten() {
    let mut full = waiting();
    full["spec"]["nodeName"] = json!("a1");
    let container =
        |n: usize| json!({"name": format!("c{n}"), "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}});
    full["spec"]["containers"] = (0..MOST_CONTAINERS + 3).map(container).collect();
    let kept = observe::pods::containers(&trim::pod(read(&full)).spec.unwrap());
    let rest: Vec<_> = kept.iter().filter(|(name, _)| name.is_empty()).map(|(_, asks)| asks).collect();
    assert_eq!(rest, [&std::collections::BTreeMap::from([("nvidia.com/mig-1g.10gb".to_owned(), 3)])]);
    assert_eq!(kept.len(), MOST_CONTAINERS + 1);
}

#[test]
fn what_a_pod_takes_nothing_of_is_not_kept_and_neither_are_more_resources_than_there_are() {
    let mut full = waiting();
    full["spec"]["nodeName"] = json!("a1");
    let limits = &mut full["spec"]["containers"][0]["resources"]["limits"];
    limits["nvidia.com/gpu"] = json!("0");
    for n in 0..2 * MOST_RESOURCES {
        limits[format!("nvidia.com/mig-{n}g.10gb")] = json!("1");
    }
    let kept: Pod = trim::pod(read(&full));
    let spec = kept.spec.unwrap();
    let takes = spec.overhead.unwrap();
    assert!(takes.len() <= MOST_RESOURCES, "{takes:?}");
    assert!(!takes.contains_key("nvidia.com/gpu"), "{takes:?}");
    let of_container = spec.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap();
    assert_eq!(of_container.len(), MOST_RESOURCES);
    assert!(!of_container.contains_key("nvidia.com/gpu"), "{of_container:?}");
}

#[test]
fn resources_of_others_hide_none_that_is_planned_with() {
    let mut full = waiting();
    for bound in [false, true] {
        if bound {
            full["spec"]["nodeName"] = json!("a1");
        }
        let requests = &mut full["spec"]["containers"][0]["resources"]["requests"];
        for n in 0..4 * MOST_RESOURCES {
            requests[format!("a.example.com/{n:03}")] = json!("1");
        }
        let kept: Pod = trim::pod(read(&full));
        let takes = observe::pods::takes(kept.spec.as_ref().unwrap());
        assert_eq!(takes.slices.values().sum::<u32>(), 1, "bound {bound}");
        assert!(takes.room.cpu_milli > 0 && takes.room.memory_bytes > 0, "bound {bound}");
        assert_eq!(takes.other_resources.len(), MOST_OTHER_RESOURCES, "bound {bound}");
    }
}

#[test]
fn what_claims_are_noted_is_ours_to_say_and_not_long() {
    let mut full = waiting();
    full["metadata"]["annotations"] = json!({"slicewright.io/volume-claims": "x".repeat(100_000)});
    full["spec"]["volumes"] = (0..100)
        .map(|n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("claim-{n:03}")}}))
        .collect();
    let kept: Pod = trim::pod(read(&full));
    let noted = &kept.metadata.annotations.unwrap()["slicewright.io/volume-claims"];
    assert!(noted.starts_with("claim-000,claim-001") && noted.len() <= 1024, "{noted}");
    assert!(kept.spec.unwrap().volumes.is_none(), "a volume is three kilobytes");
}

/// In a large fleet a DaemonSet replaces its pods for hours, and some still mount the map of before.
#[test]
fn of_a_pod_that_reads_keys_of_a_map_it_is_noted_which_maps_it_mounts() {
    let operand = |app: &str, volumes: Value| -> Value {
        json!({"metadata": {"name": "p", "namespace": "gpu-operator", "labels": {"app": app}},
            "spec": {"nodeName": "a1", "containers": [{"name": "main"}], "volumes": volumes}})
    };
    let noted = |full: &Value| {
        let kept: Pod = trim::pod(trim::pod(read(full)));
        assert!(kept.spec.unwrap().volumes.is_none(), "a volume is three kilobytes");
        kept.metadata.annotations.and_then(|all| all.get("slicewright.io/mounted-maps").cloned())
    };
    let maps = json!([{"name": "time-slicing", "configMap": {"name": "time-slicing"}},
        {"name": "host", "hostPath": {"path": "/"}}, {"name": "b", "configMap": {"name": "entrypoint"}}]);
    for app in ["nvidia-device-plugin-daemonset", "gpu-feature-discovery"] {
        assert_eq!(noted(&operand(app, maps.clone())).as_deref(), Some("entrypoint,time-slicing"));
        let none = json!([{"name": "host", "hostPath": {"path": "/"}}]);
        assert_eq!(noted(&operand(app, none)).as_deref(), Some(""), "it is known that it mounts none");
        assert_eq!(noted(&operand(app, Value::Null)), None);
    }
    let mut lies = operand("nvidia-device-plugin-daemonset", maps.clone());
    lies["metadata"]["annotations"] = json!({"slicewright.io/mounted-maps": "slicewright-plugin-config"});
    assert_eq!(noted(&lies).as_deref(), Some("entrypoint,time-slicing"), "what is noted is ours to say");
    assert_eq!(noted(&operand("notebook", maps)), None);
    let long = (0..100).map(|n| json!({"name": "v", "configMap": {"name": format!("a-long-name-{n}")}}));
    assert_eq!(noted(&operand("gpu-feature-discovery", long.collect())), None, "and not long");
}

#[test]
fn a_pod_that_has_a_network_interface_is_not_only_room() {
    let bound = |resource: &str, n: &str| -> Pod {
        read(&json!({"metadata": {"name": "p"}, "spec": {"nodeName": "a1",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", resource: n}}}]}}))
    };
    assert!(trim::only_takes_room(&bound("memory", "1Gi")));
    assert!(!trim::only_takes_room(&bound("nvidia.com/hostdev", "1")));
    assert!(!trim::only_takes_room(&trim::pod(bound("rdma/hca", "1"))), "nor is it once it is trimmed");
}

#[test]
fn a_pod_that_asks_for_a_gpu_in_a_limit_alone_concerns_gpus() {
    let pod = |resources: Value| -> Pod {
        read(
            &json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}),
        )
    };
    assert!(trim::concerns_gpus(&pod(json!({"limits": {"nvidia.com/gpu": "1"}}))));
    assert!(trim::concerns_gpus(&pod(json!({"requests": {"nvidia.com/gpu": "1"}}))));
    assert!(!trim::concerns_gpus(&pod(json!({"requests": {"cpu": "1"}}))));
    for key in ["notebook-name", "serving.kserve.io/inferenceservice"] {
        let mut speaks = pod(json!({}));
        speaks.metadata.labels = Some([(key.to_owned(), "n".to_owned())].into());
        assert!(trim::concerns_gpus(&speaks), "{key}");
    }
}

#[test]
fn an_agents_pod_does_not_only_take_room_whatever_the_chart_is_called() {
    let pod = |labels: Value| -> Pod {
        let spec = json!({"nodeName": "n1", "containers": [{"name": "agent"}]});
        read(
            &json!({"metadata": {"name": "agent-x", "namespace": "slicewright-agent", "labels": labels}, "spec": spec}),
        )
    };
    let agents = json!({
        "app.kubernetes.io/name": "gpu-slices", "app.kubernetes.io/component": "agent",
        "app.kubernetes.io/part-of": "slicewright",
    });
    let agents = pod(agents);
    assert!(!trim::only_takes_room(&agents));
    assert!(!trim::only_takes_room(&trim::pod(agents)), "what is kept of it says so, too");
    let of_others =
        json!({"app.kubernetes.io/component": "agent", "app.kubernetes.io/part-of": "observability"});
    assert!(trim::only_takes_room(&pod(of_others)));
}

#[test]
fn only_owners_that_control_and_have_a_name_that_can_be_are_kept() {
    let owner = |kind: &str, name: &str, controls: bool| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": controls});
    let long = "n".repeat(512 - 3);
    let mut full = waiting();
    full["metadata"]["ownerReferences"] =
        json!([owner("Job", &long, true), owner("Jobs", &long, true), owner("Other", "n", false)]);
    let kept: Pod = trim::pod(read(&full));
    let owners = kept.metadata.owner_references.unwrap();
    assert_eq!(owners.iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(), ["Job"]);
}

#[test]
fn of_classes_and_namespaces_their_number_and_their_labels_are_kept() {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7, "globalDefault": true,
        "description": "long", "metadata": identity(json!({"labels": {"a": "b"}, "annotations": {"c": "d"}})),
    });
    let mut expect = class.clone();
    expect.as_object_mut().unwrap().remove("description");
    expect["metadata"] = identity(json!({}));
    check::<PriorityClass>(&class, trim::priority_class, expect);
    let meta = identity(json!({"labels": {"a": "b"}, "annotations": {"c": "d"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}]}));
    check(&meta, trim::labels_only, identity(json!({"labels": {"a": "b"}})));
}

fn foreign(kind: Foreign, object: &Value) -> Store {
    let source = Source::Foreign(kind);
    let mut store = Store::default();
    store.expect(source.clone());
    store.take(&source, Change::Begin(None));
    let object: DynamicObject = read(object);
    store.take(&source, Change::Put(Item::Dynamic(Box::new(object))));
    store.take(&source, Change::End);
    store
}

/// The environment of a workbench may hold secrets.
#[test]
fn of_a_workbench_and_a_profile_nothing_else_is_kept() {
    let notebook = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": "n", "namespace": "team", "resourceVersion": "1", "labels": {"a": "b"},
            "annotations": {"kubeflow-resource-stopped": "2026", "note": "z"}},
        "spec": {"template": {"spec": {"nodeName": "a1", "containers": [{"name": "c", "env": [{"name": "SECRET", "value": "s"}],
            "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}},
    });
    let store = foreign(Foreign::Notebook, &notebook);
    let kept = serde_json::to_string(&**store.objects.notebooks.values().next().unwrap()).unwrap();
    for (word, is_kept) in [
        ("SECRET", false),
        ("\"note\"", false),
        ("kubeflow-resource-stopped", true),
        ("mig-1g.10gb", true),
        ("\"a1\"", true),
    ] {
        assert_eq!(kept.contains(word), is_kept, "{word}: {kept}");
    }
    let profile = |annotations: Value| {
        json!({
            "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": "p", "namespace": "team", "resourceVersion": "1", "labels": {"a": "b"}, "annotations": annotations},
            "spec": {"identifiers": [{"identifier": "nvidia.com/mig-1g.10gb", "displayName": "slice", "defaultCount": 1, "minCount": 1}]},
        })
    };
    let annotations = json!({"opendatahub.io/disabled": "true", "note": "z"});
    let store = foreign(Foreign::HardwareProfile, &profile(annotations));
    let kept = serde_json::to_string(store.objects.hardware_profiles.values().next().unwrap()).unwrap();
    for (word, is_kept) in [("\"note\"", false), ("opendatahub.io/disabled", true), ("mig-1g.10gb", true)] {
        assert_eq!(kept.contains(word), is_kept, "{word}: {kept}");
    }
    assert!(store.unreadable.is_empty());
}

#[test]
fn the_hour_of_the_last_activity_of_a_workbench_is_kept_and_no_minute_of_it() {
    const LAST_ACTIVITY: &str = "notebooks.kubeflow.org/last-activity";
    let lab = |annotations: Value| {
        let full = json!({"metadata": {"name": "lab", "namespace": "vision", "annotations": annotations}});
        trim::notebook(read(&full)).metadata.annotations
    };
    let kept = |at: &str| lab(json!({LAST_ACTIVITY: at})).get(LAST_ACTIVITY).map(str::to_owned);
    assert_eq!(kept("2026-11-21T08:00:00Z").as_deref(), Some("2026-11-21T08:00:00Z"));
    assert_eq!(kept("2026-11-21T08:59:59.9Z"), kept("2026-11-21T08:00:01Z"), "each minute is no news");
    assert_eq!(kept("2026-11-21T10:30:00+02:00").as_deref(), Some("2026-11-21T08:00:00Z"));
    assert_eq!(kept("half past eight"), None);
}

#[test]
fn of_a_workload_the_claims_are_kept_until_its_pods_say_where_they_may_go() {
    let volumes: Vec<Value> = (0..9)
        .map(|n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("claim-{n}")}}))
        .chain([json!({"name": "settings", "configMap": {"name": "settings"}})])
        .collect();
    let kept = |admitted: &str| {
        let workload = trim::workload(read(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w", "namespace": "n"},
            "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}],
                "volumes": volumes}}}]},
            "status": {"conditions": [{"type": "Admitted", "status": admitted, "reason": "r", "message": "",
                "lastTransitionTime": "2026-11-20T08:00:00Z"}]},
        })));
        assert!(trim::asks_for_gpus(&workload));
        observe::volumes::claims(&workload.spec.pod_sets[0].template.spec.whole(), None, None)
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(kept("False"), ["claim-0", "claim-1", "claim-2", "claim-3"]);
    assert!(kept("True").is_empty());
}

/// Of a map of layouts one key is read. A map of the device plugin is taken over as a whole, whatever its keys are called:
/// a node whose key is missing has no device plugin.
#[test]
fn a_map_of_the_device_plugin_keeps_all_keys_and_one_of_layouts_its_own() {
    let map = |data: Value| {
        json!({"metadata": {"name": "m", "namespace": "n", "annotations": {"slicewright.io/about": "x", "team": "y"}},
            "data": data, "binaryData": {"odd": "AAECAw=="}})
    };
    let metadata = json!({"name": "m", "namespace": "n", "annotations": {"slicewright.io/about": "x"}});
    let layouts = "version: v1\nmig-configs: {}";
    check(
        &map(json!({"config.yaml": layouts, "notes": "x"})),
        trim::config_map,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": layouts}}),
    );
    let plugin = json!({"config.yaml": "version: v1", "tesla-t4": "version: v1"});
    check(
        &map(plugin.clone()),
        trim::config_map,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": plugin, "binaryData": {"odd": ""}}),
    );
}

/// Also where it has so many containers that only their sum is kept, and where it comes through a watch again.
#[test]
fn a_workload_asks_for_gpus_whichever_of_its_containers_does() {
    let asks = |n: usize, resource: &str| -> Value {
        json!({"name": format!("c{n}"), "resources": {"requests": {resource: "1"}}})
    };
    let workload = |containers: Value, init: Value| -> Workload {
        read(&json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w", "namespace": "n"},
            "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": containers, "initContainers": init}}}]},
        }))
    };
    let slice = "nvidia.com/mig-1g.10gb";
    let many: Vec<Value> = (0..=MOST_CONTAINERS).map(|n| asks(n, slice)).collect();
    for (containers, init) in [
        (json!([asks(0, slice)]), json!([])),
        (json!([asks(0, "cpu"), asks(1, slice)]), json!([])),
        (json!([asks(0, "cpu")]), json!([asks(1, slice)])),
        (json!(many), json!([])),
    ] {
        let full = workload(containers, init);
        let kept = trim::workload(full.clone());
        assert!(trim::asks_for_gpus(&full) && trim::asks_for_gpus(&kept), "{full:?}");
        assert!(trim::may_wait(&trim::workload(kept)));
    }
    assert!(!trim::asks_for_gpus(&workload(json!([asks(0, "cpu")]), json!([asks(1, "memory")]))));
}
