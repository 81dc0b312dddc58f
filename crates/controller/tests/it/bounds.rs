//! Limits for the memory of one object of others, and of one namespace.

use controller::store::bounds::{self, Bounded};
use controller::store::{Change, Item, Source, Store};
use k8s_openapi::api::core::v1::Pod;
use mig::Catalog;
use planner::demand::Request;
use serde_json::{Value, json};

/// A pod that waits for a slice on a node that has one of these values.
fn a_pod(namespace: &str, name: &str, values: usize) -> Value {
    let values: Vec<String> = (0..values).map(|n| format!("v{n}")).collect();
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"),
            "resourceVersion": "7", "creationTimestamp": "2026-11-20T08:00:00Z",
            "annotations": {"note": "of somebody"}},
        "spec": {
            "containers": [{"name": "work", "image": "i", "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": values}]}]}}},
        },
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available"}]},
    })
}

fn read(object: &Value) -> Bounded<Pod> {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn store() -> Store {
    let mut store = Store::sparing();
    for source in [Source::Nodes, Source::Pods] {
        store.expect(source.clone());
        store.take(&source, Change::Begin(None));
        store.take(&source, Change::End);
    }
    store
}

fn put(store: &mut Store, object: &Value) {
    store.take(&Source::Pods, Change::Put(Item::bounded_pod(read(object))));
}

/// What is kept of a pod, as text: its size in memory is some times as much.
fn kept(store: &Store, namespace: &str, name: &str) -> String {
    let pod = &store.objects.pods[&(namespace.to_owned(), name.to_owned())];
    serde_json::to_string(&**pod).unwrap()
}

fn requests(store: &Store) -> Vec<Request> {
    let now = "2026-11-20T09:00:00Z".parse().unwrap();
    observe::observe(&store.objects, Catalog::builtin(), &observe::Settings::default(), now).requests
}

#[test]
fn where_a_pod_may_go_is_kept_while_it_is_short_and_else_as_a_digest_with_an_answer() {
    let mut store = store();
    put(&mut store, &a_pod("team", "short", 20));
    let mut long = a_pod("team", "long", 400_000);
    long["metadata"]["annotations"]["note"] = json!("x".repeat(100_000));
    long["spec"]["containers"][0]["env"][0]["value"] = json!("y".repeat(100_000));
    put(&mut store, &long);
    put(&mut store, &a_pod("team", "middling", 1_000));
    assert!(kept(&store, "team", "short").contains("v19"));
    for name in ["long", "middling"] {
        let kept = kept(&store, "team", name);
        assert!(kept.len() < 2_000, "{} bytes: {kept}", kept.len());
        assert!(kept.contains("nvidia.com/mig-1g.10gb"), "what it asks for is known: {kept}");
    }
    for request in requests(&store) {
        let why = request.refused.map(|refusal| refusal.why).unwrap_or_default();
        assert_eq!(why.contains("too long to be evaluated"), request.id.name != "short", "{why}");
    }
    assert_eq!(requests(&store).len(), 3, "each has an answer");
}

#[test]
fn the_pods_of_one_namespace_cost_so_much_together_and_those_of_others_are_as_they_are() {
    let mut store = store();
    // Each is short enough by itself.
    let one = read(&a_pod("hostile", "one", 150));
    let named = |n: usize| {
        let mut pod = one.0.clone();
        pod.metadata.name = Some(format!("p{n}"));
        Item::pod(pod)
    };
    for n in 0..10_000 {
        store.take(&Source::Pods, Change::Put(named(n)));
    }
    put(&mut store, &a_pod("team", "lab", 150));
    let all: usize = store.objects.pods.keys().map(|(ns, name)| kept(&store, ns, name).len()).sum();
    assert!(all < 24 << 20, "{all} bytes as text");
    assert!(kept(&store, "hostile", "p0").contains("v149"));
    assert!(!kept(&store, "hostile", "p9999").contains("v149"));
    assert!(kept(&store, "team", "lab").contains("v149"), "others are not touched by it");
    // When they are gone there is room again.
    for n in 0..10_000 {
        store.take(&Source::Pods, Change::Gone(named(n)));
    }
    put(&mut store, &a_pod("hostile", "late", 150));
    assert!(kept(&store, "hostile", "late").contains("v149"));
}

/// What a pod takes is never cut, whatever it says of itself besides.
#[test]
fn what_a_pod_holds_is_known_however_many_containers_it_has() {
    let container = |n: usize| {
        json!({"name": format!("c{n}"), "env": [{"name": "LONG", "value": "y".repeat(1_000)}],
            "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1", "cpu": "10m"}}})
    };
    for node in [Some("a1"), None] {
        let mut object = a_pod("team", "many", 400_000);
        object["spec"]["containers"] = (0..1_000).map(container).collect();
        object["spec"]["nodeName"] = json!(node);
        let full: Pod = serde_json::from_value(object.clone()).unwrap();
        let mut store = store();
        put(&mut store, &object);
        let pod = &store.objects.pods[&("team".to_owned(), "many".to_owned())];
        let takes = |pod: &Pod| observe::pods::takes(pod.spec.as_ref().unwrap());
        assert_eq!(takes(pod), takes(&full), "on {node:?}");
        assert!(kept(&store, "team", "many").len() < 2_000);
    }
}

#[test]
fn an_object_within_bounds_is_read_as_it_is() {
    let object = a_pod("team", "short", 20);
    let full: Pod = serde_json::from_value(object.clone()).unwrap();
    let kept = |pod: Pod| controller::store::trim::pod(pod);
    assert_eq!(kept(read(&object).0), kept(full));
    assert_eq!(kube::Resource::meta(&read(&object)), kube::Resource::meta(&read(&object).0));
    let mut named = read(&object);
    kube::Resource::meta_mut(&mut named).name = Some("another".to_owned());
    assert_eq!(named.0.metadata.name.as_deref(), Some("another"));
    assert_eq!(bounds::cut("short".to_owned(), 300), "short");
    assert_eq!(bounds::cut("short".to_owned(), 5), "short");
    // Values of every kind.
    let all = json!({"metadata": {"name": "p"}, "spec": {"identifiers":
        [{"a": true, "b": -1, "c": 7, "d": 0.5, "e": null, "f": "x", "g": [false], "h": {"i": 18_446_744_073_709_551_615_u64}}]}});
    let whole: Bounded<kube::api::DynamicObject> = serde_json::from_str(&all.to_string()).unwrap();
    assert_eq!(whole.0.data["spec"], all["spec"]);
    assert_eq!(bounds::cut("ä".repeat(300), 9), "ääää…");
}

/// What a pod costs is what stands in it: the text, and some words for each.
#[test]
fn what_a_pod_costs_grows_with_each_thing_that_says_where_it_may_go() {
    let cost = |spec: Value| {
        let mut all = json!({"containers": []});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        bounds::cost(&serde_json::from_value(all).unwrap())
    };
    assert_eq!(cost(json!({})), 0);
    assert_eq!(cost(json!({"nodeSelector": {"abc": "de"}})), (3 + 32) + (2 + 32) + 32);
    let toleration = json!({"key": "abc", "value": "de", "effect": "f"});
    assert_eq!(cost(json!({"tolerations": [toleration]})), 128 + (3 + 32) + (2 + 32) + (1 + 32));
    let one = json!({"key": "abc", "operator": "In", "values": ["de", "f"]});
    let affinity = |term: Value| {
        let terms = json!({"nodeSelectorTerms": [term]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    };
    let each = 96 + (3 + 32) + (2 + 32) + (1 + 32);
    assert_eq!(cost(affinity(json!({"matchExpressions": [one]}))), 64 + each);
    assert_eq!(cost(affinity(json!({"matchExpressions": [one, one], "matchFields": [one]}))), 64 + 3 * each);
}

/// What is too long is not kept while it is read, either: a text of megabytes
/// must not stand in memory until it is judged.
#[test]
fn of_a_member_that_is_too_long_the_rest_is_not_read() {
    let long = read(&a_pod("team", "long", 400_000)).0;
    let read_of_it = serde_json::to_string(&long.spec.unwrap().affinity).unwrap();
    assert!(read_of_it.len() < 64 << 10, "{} bytes", read_of_it.len());
}

/// An error of the reader repeats what it could not read.
#[test]
fn what_is_said_of_an_object_that_cannot_be_read_is_short() {
    let mut pod = a_pod("team", "odd", 1);
    pod["spec"]["nodeName"] = json!({"x".repeat(1_000): "y"});
    pod["metadata"]["name"] = json!(["z"]);
    pod["spec"]["priority"] = json!("9".repeat(10_000));
    let error = serde_json::from_str::<Bounded<Pod>>(&pod.to_string()).unwrap_err().to_string();
    assert!(error.contains("invalid type") && error.len() < 400, "{} bytes: {error}", error.len());
}

/// Why a pod is not judged, if it is not.
fn refused(object: &str) -> String {
    let mut store = store();
    let pod: Bounded<Pod> = serde_json::from_str(object).unwrap();
    store.take(&Source::Pods, Change::Put(Item::bounded_pod(pod)));
    let request = requests(&store).pop().expect("it asks for a slice");
    request.refused.map(|refusal| refusal.why).unwrap_or_default()
}

#[test]
fn what_may_have_been_left_out_is_not_judged_and_what_is_nobodys_business_may_be_long() {
    // Within what is read, and too much to be kept.
    assert!(refused(&a_pod("team", "middling", 500).to_string()).contains("too long"));
    // Little of it is kept, and nobody knows what stood behind what was not read.
    let pod = a_pod("team", "hidden", 1).to_string();
    let terms: Vec<String> = (0..4_000).map(|n| format!("{{\"topologyKey\": \"k{n}\"}}")).collect();
    let hidden = format!(
        "\"affinity\":{{\"podAffinity\":{{\"requiredDuringSchedulingIgnoredDuringExecution\":[{}]}},",
        terms.join(",")
    );
    let pod = pod.replacen("\"affinity\":{", &hidden, 1);
    assert!(refused(&pod).contains("too long"), "{}", refused(&pod));
    // People note on their pods what they like.
    let mut noted = a_pod("team", "noted", 20);
    noted["metadata"]["annotations"]["note"] = json!("x".repeat(100_000));
    assert_eq!(refused(&noted.to_string()), "");
}

#[test]
fn two_pods_of_a_namespace_are_kept_as_they_are_and_in_a_full_one_who_goes_anywhere_is() {
    let mut store = store();
    for name in ["one", "two"] {
        put(&mut store, &a_pod("team", name, 150));
    }
    for name in ["one", "two"] {
        assert!(kept(&store, "team", name).contains("v149"), "{name}");
    }
    for n in 0..2_000 {
        put(&mut store, &a_pod("team", &format!("p{n}"), 150));
    }
    assert!(!kept(&store, "team", "p1999").contains("v149"), "the namespace is full");
    let mut anywhere = a_pod("team", "anywhere", 0);
    anywhere["spec"].as_object_mut().unwrap().remove("affinity");
    put(&mut store, &anywhere);
    assert!(!kept(&store, "team", "anywhere").contains("affinity"), "{}", kept(&store, "team", "anywhere"));
}

/// A workbench that is written a thousand times costs what one costs.
#[test]
fn a_workbench_that_changes_costs_what_it_costs_once() {
    use controller::store::Foreign;
    let source = Source::Foreign(Foreign::Notebook);
    let mut store = store();
    store.expect(source.clone());
    let template = &a_pod("team", "n", 150)["spec"];
    for version in 1..=1_000 {
        let notebook = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "team", "name": "n", "resourceVersion": version.to_string()},
            "spec": {"template": {"spec": template}}});
        let object = serde_json::from_value(notebook).unwrap();
        store.take(&source, Change::Put(Item::Dynamic(Box::new(object))));
    }
    let kept = serde_json::to_string(&**store.objects.notebooks.values().next().unwrap()).unwrap();
    assert!(kept.contains("v149"), "{kept}");
}

#[test]
fn a_profile_that_is_too_long_is_said_to_be_and_is_not_kept() {
    use controller::store::Foreign;
    let source = Source::Foreign(Foreign::HardwareProfile);
    let mut store = store();
    store.expect(source.clone());
    for (name, keys) in [("short", 10), ("long", 10_000)] {
        let selector: serde_json::Map<String, Value> =
            (0..keys).map(|n| (format!("key-{n}"), json!("value"))).collect();
        let profile = json!({
            "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": name, "namespace": "team", "resourceVersion": "1"},
            "spec": {"identifiers": [], "scheduling": {"type": "Node", "node": {"nodeSelector": selector}}},
        });
        let read: Bounded<kube::api::DynamicObject> = serde_json::from_str(&profile.to_string()).unwrap();
        store.take(&source, Change::Put(Item::Dynamic(Box::new(read.0))));
    }
    let said: Vec<String> =
        store.unreadable.iter().map(|((_, key), why)| format!("{}: {why:?}", key.1)).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("long: ") && said[0].contains("too long to be evaluated"), "{said:?}");
}

/// Without it, no node would ever be believed to know our map.
#[test]
fn of_the_device_plugins_pod_its_maps_are_read_by_name() {
    let mut store = store();
    let mut pod = a_pod("nvidia-gpu-operator", "plugin", 0);
    pod["metadata"]["labels"] = json!({"app": "nvidia-device-plugin-daemonset"});
    pod["spec"]["nodeName"] = json!("a1");
    pod["spec"]["volumes"] = json!([
        {"name": "host", "hostPath": {"path": "/"}},
        {"name": "config", "configMap": {"name": "slicewright-plugin-config", "items": [{"key": "a", "path": "b"}]}},
    ]);
    put(&mut store, &pod);
    let kept = kept(&store, "nvidia-gpu-operator", "plugin");
    assert!(kept.contains(r#""slicewright.io/mounted-maps":"slicewright-plugin-config""#), "{kept}");
}

/// A volume of a thousand files is as long as it likes: of each the name of its claim is read.
#[test]
fn long_volumes_keep_nobody_from_being_planned_for() {
    let mut store = store();
    let mut pod = a_pod("team", "p", 2);
    let files: Vec<Value> =
        (0..3_000).map(|n| json!({"key": format!("key-{n}"), "path": format!("path-{n}")})).collect();
    pod["spec"]["volumes"] = json!([
        {"name": "files", "configMap": {"name": "files", "items": files}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"l": "x".repeat(100_000)}}}}},
        {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
    ]);
    put(&mut store, &pod);
    let kept = kept(&store, "team", "p");
    assert!(kept.contains("disk,p-scratch") && kept.len() < 2_000, "{kept}");
    assert!(requests(&store)[0].refused.is_none());
}
