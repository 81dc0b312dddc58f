//! The API's data goes back in time: an older copy of etcd was restored, with its original versions, or
//! with raised ones.

use controller::clock;
use controller::store::awaited::Subject;
use controller::store::history::Read;
use controller::store::{Change, Item, Source, Store};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

fn a_node(name: &str, version: u64) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"nvidia.com/gpu.present": "true"}},
    }))
    .unwrap()
}

fn a_pod(name: &str, version: u64, on: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "team", "name": name, "uid": format!("uid-{name}-{on}"),
            "resourceVersion": version.to_string()},
        "spec": {"nodeName": on, "containers": [
            {"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]},
    }))
    .unwrap()
}

fn node(name: &str, version: u64) -> Item {
    Item::node(a_node(name, version))
}

fn pod(name: &str, version: u64, on: &str) -> Item {
    Item::pod(a_pod(name, version, on))
}

fn list(store: &mut Store, source: &Source, version: u64, items: Vec<Item>) {
    store.take(source, Change::Begin(Some(version)));
    for item in items {
        store.take(source, Change::Put(item));
    }
    store.take(source, Change::End);
}

/// Three nodes, listed as of version 100, with some pods.
fn fleet(pods: Vec<Item>) -> Store {
    let mut store = Store::default();
    store.expect(Source::Nodes);
    store.expect(Source::Pods);
    list(&mut store, &Source::Nodes, 100, ["a1", "a2", "a3"].map(|name| node(name, 10)).into());
    list(&mut store, &Source::Pods, 100, pods);
    assert_eq!(store.went_back(), None);
    store
}

fn node_of(store: &Store, name: &str) -> Option<String> {
    store.objects.pods.get(&("team".to_owned(), name.to_owned()))?.spec.as_ref()?.node_name.clone()
}

/// The pod was made anew elsewhere after the copy was taken; then the copy is
/// put back. What the store went on believing until it was mended: that nobody
/// is on a1.
fn moved() -> Store {
    let mut store = fleet(vec![pod("lab-0", 50, "a1")]);
    store.take(&Source::Pods, Change::Gone(pod("lab-0", 200, "a1")));
    store.take(&Source::Pods, Change::Put(pod("lab-0", 210, "a2")));
    assert_eq!(node_of(&store, "lab-0").as_deref(), Some("a2"));
    store
}

#[test]
fn a_list_of_a_lower_version_than_was_told_says_that_the_data_went_back_and_is_the_truth() {
    let mut store = moved();
    list(&mut store, &Source::Pods, 120, vec![pod("lab-0", 50, "a1")]);
    let how = store.went_back().unwrap();
    assert_eq!((&how.source, &how.key, how.seen, how.found), (&Source::Pods, &None, 210, 120));
    assert_eq!(how.to_string(), "pods were listed as of version 120, after version 210 was seen");
    assert_eq!(node_of(&store, "lab-0").as_deref(), Some("a1"));
}

#[test]
fn an_object_that_is_older_than_it_was_says_so_where_the_versions_were_raised() {
    let mut store = moved();
    list(&mut store, &Source::Pods, 1_000_000_300, vec![pod("lab-0", 50, "a1")]);
    let how = store.went_back().unwrap();
    assert_eq!((how.seen, how.found), (210, 50));
    assert_eq!(how.to_string(), "team/lab-0 of pods is at version 50, after it was at 210");
    assert_eq!(node_of(&store, "lab-0").as_deref(), Some("a1"), "and what is listed is the truth");
}

#[test]
fn a_consistent_read_of_a_lower_version_than_was_seen_before_it_says_so() {
    let mut store = moved();
    let read = Read { version: Some(120), highest_before: store.highest(&Source::Pods) };
    assert_eq!(read.highest_before, 210);
    store.take_pods_of("a1", vec![a_pod("lab-0", 50, "a1")], read);
    assert!(store.went_back().is_some());
    assert_eq!(node_of(&store, "lab-0").as_deref(), Some("a1"));

    let mut store = moved();
    let read = Read { version: Some(90), highest_before: store.highest(&Source::Nodes) };
    store.take_node("a1", Some(a_node("a1", 5)), read);
    assert_eq!(store.went_back().map(|how| how.seen), Some(100));
}

#[test]
fn a_consistent_read_that_shows_an_older_object_says_so_where_the_versions_were_raised() {
    let mut store = moved();
    let read = Read { version: Some(1_000_000_300), highest_before: store.highest(&Source::Pods) };
    store.take_pods_of("a1", vec![a_pod("lab-0", 50, "a1")], read);
    assert_eq!(store.went_back().map(|how| (how.seen, how.found)), Some((210, 50)));
    assert_eq!(node_of(&store, "lab-0").as_deref(), Some("a1"));
}

#[test]
fn a_write_of_ours_that_a_later_list_does_not_have_says_so() {
    let mut store = fleet(vec![]);
    let cordon = Subject::Version {
        source: Source::Nodes,
        key: (String::new(), "a1".to_owned()),
        version: "150".to_owned(),
    };
    store.wait_for(cordon, clock::instant());
    list(&mut store, &Source::Nodes, 1_000_000_300, ["a1", "a2", "a3"].map(|name| node(name, 10)).into());
    assert_eq!(store.went_back().map(|how| (how.seen, how.found)), Some((150, 10)));
}

/// A list takes a while. What is read or told meanwhile is later than it.
#[test]
fn what_comes_of_different_moments_of_one_history_is_put_in_order_and_nothing_went_back() {
    let mut store = fleet(vec![pod("early", 50, "a1"), pod("late", 60, "a1")]);
    // A watch that broke has listed as of 300; until that is taken in, a1 was read as of 310.
    store.take(&Source::Pods, Change::Begin(Some(300)));
    let read = Read { version: Some(310), highest_before: store.highest(&Source::Pods) };
    store.take_pods_of("a1", vec![a_pod("late", 305, "a1"), a_pod("newest", 308, "a1")], read);
    store.take(&Source::Pods, Change::Put(pod("early", 50, "a1")));
    store.take(&Source::Pods, Change::Put(pod("late", 60, "a2")));
    store.take(&Source::Pods, Change::End);
    assert_eq!(store.went_back(), None);
    assert_eq!(node_of(&store, "late").as_deref(), Some("a1"), "the read was later");
    assert_eq!(node_of(&store, "newest").as_deref(), Some("a1"), "the list could not have it");
    // What the read did not have was gone; the list brings it until the watch says so.
    store.take(&Source::Pods, Change::Gone(pod("early", 301, "a1")));
    assert_eq!(node_of(&store, "early"), None);
    // The watch is behind the read, and tells what it knew then.
    assert!(!store.take(&Source::Pods, Change::Put(pod("late", 302, "a2"))));
    assert_eq!(node_of(&store, "late").as_deref(), Some("a1"));
    // A read that began before the watch told more is of a lower version, and that is all right.
    let began = store.highest(&Source::Pods);
    store.take(&Source::Pods, Change::Put(pod("newest", 400, "a1")));
    store.take_pods_of("a1", vec![], Read { version: Some(350), highest_before: began });
    assert_eq!(store.went_back(), None);
    assert_eq!(node_of(&store, "newest").as_deref(), Some("a1"), "told of a moment after the read");
    assert_eq!(node_of(&store, "late"), None);
}

#[test]
fn a_watch_that_lists_anew_in_one_history_says_nothing() {
    let mut store = moved();
    list(&mut store, &Source::Pods, 250, vec![pod("lab-0", 210, "a2")]);
    list(&mut store, &Source::Pods, 250, vec![pod("lab-0", 210, "a2")]);
    list(&mut store, &Source::Nodes, 250, vec![node("a1", 10), node("a2", 240)]);
    assert_eq!(store.went_back(), None);
    assert_eq!(store.objects.nodes.keys().collect::<Vec<_>>(), ["a1", "a2"]);
}
