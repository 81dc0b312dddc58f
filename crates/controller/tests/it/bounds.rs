//! What one object of somebody else may cost, and one namespace.

use controller::store::bounds::{self, Bounded};
use controller::store::{Change, Item, Source, Store};
use k8s_openapi::api::core::v1::Pod;
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
    let inventory = planner::inventory::Inventory::default();
    let settings = observe::Settings::default();
    let now = "2026-11-20T09:00:00Z".parse().unwrap();
    observe::requests::all(&store.objects, &inventory, &settings, now, &mut Vec::new()).0
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
        assert_eq!(why.contains("too long to be judged here"), request.id.name != "short", "{why}");
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
    assert_eq!(bounds::cut("short".to_owned(), 300), "short");
    assert_eq!(bounds::cut("ä".repeat(300), 9), "ääää…");
}
