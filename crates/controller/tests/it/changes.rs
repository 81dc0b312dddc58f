//! Which messages start a round, and which do not: a change is distinguished from a message without news.

use std::time::Duration;

use controller::clock;
use controller::store::awaited::Subject;
use controller::store::history::Read;
use controller::store::{Change, Foreign, Item, Source, Store, take_outdated};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

fn a_node(name: &str) -> Node {
    let meta = json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
        "labels": {"nvidia.com/gpu.present": "true"}});
    serde_json::from_value(json!({"metadata": meta})).unwrap()
}

fn a_pod(name: &str, on: Option<&str>, asks: &str) -> Value {
    json!({
        "metadata": {"namespace": "team", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {asks: "1"}}}]},
        "status": {"phase": "Running"},
    })
}

/// Something that becomes different.
type Edit = fn(&mut Value);

const SLICE: &str = "nvidia.com/mig-1g.10gb";

fn item(pod: &Value) -> Item {
    Item::pod(serde_json::from_value::<Pod>(pod.clone()).unwrap())
}

fn put(store: &mut Store, pod: &Value) -> bool {
    store.take(&Source::Pods, Change::Put(item(pod)))
}

/// Two nodes with GPUs, and these pods.
fn fleet(pods: &[Value]) -> Store {
    let nodes = ["a1", "a2"].map(|name| Item::node(a_node(name)));
    let pods: Vec<Item> = pods.iter().map(item).collect();
    let mut store = Store::default();
    for (source, items) in [(Source::Nodes, &nodes[..]), (Source::Pods, &pods)] {
        store.expect(source.clone());
        store.take(&source, Change::Begin(None));
        for item in items {
            store.take(&source, Change::Put(item.clone()));
        }
        assert!(store.take(&source, Change::End), "the first list is news");
    }
    store
}

fn names(store: &Store) -> Vec<&str> {
    store.objects.pods.keys().map(|(_, name)| name.as_str()).collect()
}

const fn read_at(version: u64) -> Read {
    Read { version: Some(version), highest_before: 0 }
}

fn key(name: &str) -> (String, String) {
    ("team".to_owned(), name.to_owned())
}

#[test]
fn each_thing_that_is_read_of_a_pod_is_a_change_by_itself() {
    let before = a_pod("p", Some("a1"), SLICE);
    let changes: [(&str, Edit); 5] = [
        ("its uid", |pod| pod["metadata"]["uid"] = json!("another")),
        ("it goes", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T08:00:00Z")),
        ("its labels", |pod| pod["metadata"]["labels"] = json!({"app": "x"})),
        ("what it asks for", |pod| pod["spec"]["containers"][0]["resources"]["requests"][SLICE] = json!("2")),
        ("how far it is", |pod| pod["status"]["phase"] = json!("Succeeded")),
    ];
    for (what, change) in changes {
        let mut store = fleet(std::slice::from_ref(&before));
        let mut after = before.clone();
        after["metadata"]["resourceVersion"] = json!("2");
        assert!(!put(&mut store, &after), "its version alone says nothing");
        after["metadata"]["resourceVersion"] = json!("3");
        change(&mut after);
        assert!(put(&mut store, &after), "{what}");
    }
}

#[test]
fn a_namespace_is_its_labels() {
    let mut store = Store::default();
    store.expect(Source::Namespaces);
    assert!(!store.is_synced(&Source::Namespaces));
    store.take(&Source::Namespaces, Change::Begin(None));
    store.take(&Source::Namespaces, Change::End);
    assert!(store.is_synced(&Source::Namespaces) && !store.is_synced(&Source::Pods));
    let mut put = |version: &str, labels: Value| {
        let meta = json!({"name": "team", "resourceVersion": version, "labels": labels});
        let meta = serde_json::from_value(meta).unwrap();
        store.take(&Source::Namespaces, Change::Put(Item::Namespace(Box::new(meta))))
    };
    assert!(put("1", json!({"a": "b"})));
    assert!(!put("2", json!({"a": "b"})));
    assert!(put("3", json!({"a": "c"})));
    assert_eq!(store.objects.namespaces["team"].metadata.labels.as_ref().unwrap()["a"], "c");
}

#[test]
fn a_list_anew_is_news_only_when_something_is_gone() {
    let mut store = fleet(&[a_pod("p", Some("a1"), SLICE)]);
    store.take(&Source::Pods, Change::Begin(None));
    put(&mut store, &a_pod("p", Some("a1"), SLICE));
    assert!(!store.take(&Source::Pods, Change::End));
    store.take(&Source::Pods, Change::Begin(None));
    assert!(store.take(&Source::Pods, Change::End));
    assert!(names(&store).is_empty());
}

#[test]
fn a_consistent_list_of_one_node_ends_no_pod_of_another() {
    let mut store = fleet(&[
        a_pod("here", Some("a1"), SLICE),
        a_pod("there", Some("a2"), SLICE),
        a_pod("waits", None, SLICE),
    ]);
    let here = || vec![serde_json::from_value::<Pod>(a_pod("here", Some("a1"), SLICE)).unwrap()];
    assert!(!store.take_pods_of("a1", here(), read_at(50)), "nothing is new");
    assert_eq!(names(&store), ["here", "there", "waits"]);
    assert!(store.take_pods_of("a1", Vec::new(), read_at(50)));
    assert_eq!(names(&store), ["there", "waits"]);
    // One is gone, and another is as it was: that is news, whichever comes first.
    let mut store = fleet(&[a_pod("gone", Some("a1"), SLICE), a_pod("here", Some("a1"), SLICE)]);
    assert!(store.take_pods_of("a1", here(), read_at(50)));
    assert_eq!(names(&store), ["here"]);
}

#[test]
fn a_node_of_which_the_watch_tells_later_than_it_was_read_is_there() {
    let mut store = fleet(&[]);
    let mut newer = a_node("a1");
    newer.metadata.resource_version = Some("9".to_owned());
    store.take(&Source::Nodes, Change::Put(Item::node(newer)));
    assert!(!store.take_node("a1", None, read_at(8)), "it was registered anew after the read");
    assert!(store.objects.nodes.contains_key("a1"));
    assert!(store.take_node("a1", None, read_at(10)));
    assert!(!store.objects.nodes.contains_key("a1"));
}

#[test]
fn a_read_of_the_very_version_that_was_seen_is_of_the_same_history() {
    let mut store = fleet(&[a_pod("p", Some("a1"), SLICE)]);
    store.take_pods_of("a1", Vec::new(), Read { version: Some(50), highest_before: 50 });
    assert_eq!(store.went_back(), None);
    store.take_pods_of("a1", Vec::new(), Read { version: Some(49), highest_before: 50 });
    assert!(store.went_back().is_some());
}

#[test]
fn an_evicted_pod_is_awaited_until_just_that_pod_goes() {
    let now = clock::instant();
    let going = |uid: &str| Subject::Going { key: key("p"), uid: uid.to_owned() };
    let mut store = fleet(&[a_pod("p", Some("a1"), SLICE)]);
    store.wait_for(going("uid-of-one-before"), now);
    assert!(store.awaited().is_empty(), "that one is gone: another has its name");
    store.wait_for(going("uid-p"), now);
    assert_eq!(store.node_of(&going("uid-p")).as_deref(), Some("a1"));
    let mut pod = a_pod("p", Some("a1"), SLICE);
    pod["metadata"]["resourceVersion"] = json!("2");
    pod["metadata"]["labels"] = json!({"app": "x"});
    put(&mut store, &pod);
    assert!(!store.awaited().is_empty(), "it was changed, and is not going");
    // It is gone, and made anew under its name before anybody looked.
    pod["metadata"]["resourceVersion"] = json!("3");
    pod["metadata"]["uid"] = json!("another");
    put(&mut store, &pod);
    assert!(store.awaited().is_empty());
    // It goes, or is gone.
    for leaves in [true, false] {
        let mut store = fleet(&[a_pod("p", Some("a1"), SLICE)]);
        store.wait_for(going("uid-p"), now);
        let mut pod = a_pod("p", Some("a1"), SLICE);
        pod["metadata"]["resourceVersion"] = json!("2");
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T08:00:00Z");
        let change = if leaves { Change::Put(item(&pod)) } else { Change::Gone(item(&pod)) };
        store.take(&Source::Pods, change);
        assert!(store.awaited().is_empty());
    }
    // It goes already when we begin to wait.
    let mut store = fleet(&[]);
    let mut pod = a_pod("p", Some("a1"), SLICE);
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T08:00:00Z");
    put(&mut store, &pod);
    store.wait_for(going("uid-p"), now);
    assert!(store.awaited().is_empty());
}

#[test]
fn only_what_is_late_is_given_up() {
    let now = clock::instant();
    let second = Duration::from_secs(1);
    let mut store = fleet(&[a_pod("p", Some("a1"), SLICE), a_pod("q", Some("a1"), SLICE)]);
    let node = |name: &str| Subject::Version {
        source: Source::Nodes,
        key: (String::new(), name.to_owned()),
        version: "5".to_owned(),
    };
    let going = |name: &str| Subject::Going { key: key(name), uid: format!("uid-{name}") };
    for (subject, since) in
        [(node("a1"), now), (node("a2"), now + second), (going("p"), now), (going("q"), now + second)]
    {
        store.wait_for(subject, since);
    }
    assert_eq!(store.awaited().give_up(second, now + second), [node("a1"), going("p")]);
    assert!(store.awaited().give_up(second, now + second).is_empty(), "that was said");
    assert!(!store.awaited().is_empty(), "the others are awaited still");
    assert_eq!(store.awaited().give_up(second, now + 2 * second), [node("a2"), going("q")]);
    assert!(store.awaited().is_empty());
}

#[test]
fn pods_that_only_take_room_are_counted_until_the_last_of_a_node_is_gone() {
    let plain = |name: &str| a_pod(name, Some("a1"), "cpu");
    let mut store = fleet(&[a_pod("gpu", Some("a1"), SLICE), plain("one"), plain("two"), plain("three")]);
    assert_eq!(store.pods_kept(), 4);
    for (left, name) in [(2, "one"), (1, "two")] {
        assert!(store.take(&Source::Pods, Change::Gone(item(&plain(name)))));
        assert_eq!(store.objects.room_taken["a1"].pods, left);
    }
    store.take(&Source::Pods, Change::Gone(item(&plain("three"))));
    assert!(!store.objects.room_taken.contains_key("a1"), "{:?}", store.objects.room_taken);
    assert_eq!(store.pods_kept(), 1);
}

/// A node that was deleted, and another that has its name.
#[test]
fn what_is_remembered_of_a_node_that_is_gone_says_nothing_of_the_next_one() {
    let remembered = |uid: Option<&str>| {
        let owners = uid.map(|uid| json!([{"apiVersion": "v1", "kind": "Node", "name": "a1", "uid": uid}]));
        let mut owners = owners.unwrap_or(json!([]));
        // Another owner of it says nothing of the node.
        owners
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"}));
        let object = json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
            "metadata": {"name": "a1", "ownerReferences": owners}, "spec": {}});
        let object: api::GpuNode = serde_json::from_value(object).unwrap();
        let mut store = fleet(&[]);
        store.objects.gpu_nodes.insert("a1".to_owned(), std::sync::Arc::new(object));
        let outdated = take_outdated(&mut store.objects);
        assert_eq!(outdated.len() + store.objects.gpu_nodes.len(), 1);
        outdated.len()
    };
    assert_eq!(remembered(Some("uid-a1")), 0);
    assert_eq!(remembered(None), 0, "of a node that nobody named it is believed");
    assert_eq!(remembered(Some("uid-of-the-one-before")), 1);
}

#[test]
fn a_pod_that_gives_up_its_slice_is_news_and_takes_room_from_then_on() {
    let mut store = fleet(&[a_pod("p", Some("a1"), SLICE)]);
    let mut plain = a_pod("p", Some("a1"), "cpu");
    plain["metadata"]["resourceVersion"] = json!("2");
    assert!(put(&mut store, &plain));
    assert!(names(&store).is_empty());
    assert_eq!(store.objects.room_taken["a1"].pods, 1);
    plain["metadata"]["resourceVersion"] = json!("3");
    assert!(!put(&mut store, &plain), "it takes the same");
}

#[test]
fn classes_and_maps_that_come_as_they_were_are_no_news() {
    let class = |value: i32| -> Item {
        let class = json!({"metadata": {"name": "high", "resourceVersion": "1"}, "value": value});
        Item::PriorityClass(Box::new(serde_json::from_value(class).unwrap()))
    };
    let map = |text: &str| -> Item {
        let map = json!({"metadata": {"name": "m", "namespace": "ns", "resourceVersion": "1"}, "data": {"config.yaml": text}});
        Item::ConfigMap(Box::new(serde_json::from_value(map).unwrap()))
    };
    let our_map = controller::settings::MapRef { namespace: "ns".to_owned(), name: "m".to_owned() };
    for (source, one, other) in
        [(Source::PriorityClasses, class(1), class(2)), (Source::Map(our_map), map("a"), map("b"))]
    {
        let mut store = Store::default();
        store.expect(source.clone());
        assert!(store.take(&source, Change::Put(one.clone())));
        assert!(!store.take(&source, Change::Put(one)));
        assert!(store.take(&source, Change::Put(other)));
    }
}

/// NVIDIA's DRA driver owns the fleet where this object exists.
#[test]
fn a_gpu_cluster_is_there_until_a_list_lacks_it() {
    let source = Source::Foreign(Foreign::GpuCluster);
    let mut store = Store::default();
    store.expect(source.clone());
    let mut list = |there: bool| {
        store.take(&source, Change::Begin(None));
        if there {
            let object =
                json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "c"}});
            store
                .take(&source, Change::Put(Item::Dynamic(Box::new(serde_json::from_value(object).unwrap()))));
        }
        let news = store.take(&source, Change::End);
        (news, store.objects.gpu_cluster)
    };
    assert_eq!(list(false), (true, false), "the first list is news");
    assert_eq!(list(false), (false, false));
    assert!(list(true).1);
    assert_eq!(list(false), (true, false));
}

#[test]
fn what_could_not_be_read_of_a_kind_that_vanished_is_forgotten_and_the_rest_is_not() {
    let mut store = Store::default();
    let notebooks = Source::Foreign(Foreign::Notebook);
    for (source, version, kind) in [
        (&notebooks, "kubeflow.org/v1", "Notebook"),
        (&Source::GpuNodes, "slicewright.io/v1alpha1", "GpuNode"),
    ] {
        store.expect(source.clone());
        let bad = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "n", "namespace": "team"}, "spec": 7});
        store.take(source, Change::Put(Item::Dynamic(Box::new(serde_json::from_value(bad).unwrap()))));
    }
    assert_eq!(store.unreadable.len(), 2);
    store.forget(&notebooks);
    let left: Vec<&Source> = store.unreadable.keys().map(|(source, _)| source).collect();
    assert_eq!(left, [&Source::GpuNodes]);
}

/// They are looked for among the cluster's definitions by these names.
#[test]
fn each_foreign_kind_is_looked_for_by_the_name_of_its_definition() {
    let names = [Foreign::ClusterPolicy, Foreign::GpuCluster, Foreign::Notebook, Foreign::HardwareProfile]
        .map(Foreign::definition);
    let expected = [
        "clusterpolicies.nvidia.com",
        "gpuclusters.nvidia.com",
        "notebooks.kubeflow.org",
        "hardwareprofiles.infrastructure.opendatahub.io",
    ];
    assert_eq!(names, expected);
}

/// Kubelet brings a map to the nodes some time after it changed.
#[test]
fn when_our_map_changed_is_what_it_says_itself() {
    use controller::apply::map::{CHANGED_AT, changed_at};
    let map = |annotations: Value| {
        let map = json!({"metadata": {"name": "m", "annotations": annotations}});
        changed_at(Some(&serde_json::from_value(map).unwrap()))
    };
    let at = "2026-11-20T08:00:00Z";
    assert_eq!(map(json!({CHANGED_AT: at})), Some(at.parse().unwrap()));
    assert_eq!(map(json!({CHANGED_AT: "yesterday"})), None);
    assert_eq!((map(json!({})), changed_at(None)), (None, None));
}
