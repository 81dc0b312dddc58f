//! What cannot be read: of an object that it names a hardware profile is known, of a kind which versions are served.

use controller::store::{Change, Foreign, Item, Source, Store};
use kube::api::DynamicObject;
use serde_json::{Value, json};

fn dynamic(value: Value) -> Item {
    let object: DynamicObject = serde_json::from_value(value).unwrap();
    Item::dynamic(object)
}

#[test]
fn of_a_workbench_that_cannot_be_read_its_hardware_profile_is_known_until_it_is_gone() {
    let source = Source::Foreign(Foreign::Notebook);
    let mut store = Store::default();
    store.expect(source.clone());
    store.take(&source, Change::Begin(None));
    store.take(&source, Change::End);
    let workbench = |version: &str, spec: Value| {
        dynamic(json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "spec": {"template": spec},
            "metadata": {"namespace": "team", "name": "lab", "resourceVersion": version,
                "annotations": {"opendatahub.io/hardware-profile-name": "small"}}}))
    };
    let good = || json!({"spec": {"containers": [{"name": "lab"}]}});
    let named = |store: &Store| -> Vec<String> {
        store.objects.unread_users.values().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    };
    store.take(&source, Change::Put(workbench("1", good())));
    assert_eq!((store.objects.notebooks.len(), named(&store)), (1, vec![]));
    store.take(&source, Change::Put(workbench("2", json!("of a later release"))));
    assert_eq!((store.objects.notebooks.len(), named(&store)), (0, vec!["team/small".to_owned()]));
    store.take(&source, Change::Put(workbench("3", good())));
    assert_eq!((store.objects.notebooks.len(), named(&store)), (1, vec![]));
    store.take(&source, Change::Put(workbench("4", json!(7))));
    store.take(&source, Change::Gone(workbench("5", json!(7))));
    assert_eq!((store.unreadable.len(), named(&store)), (0, vec![]));
    // It may also end while the watch is broken.
    store.take(&source, Change::Put(workbench("6", json!(7))));
    assert_eq!(named(&store), ["team/small"]);
    store.take(&source, Change::Begin(None));
    store.take(&source, Change::End);
    assert_eq!((store.unreadable.len(), named(&store)), (0, vec![]));
}

/// An upgrade of Kueue may end all versions that are read. Who cannot be read holds nobody else up, and nodes and their
/// pods are waited for all the same.
#[test]
fn kinds_of_kueue_that_are_served_in_no_version_that_is_read_are_told_of_and_not_waited_for() {
    let (queues, notebooks) = (Source::Foreign(Foreign::Workload), Source::Foreign(Foreign::Notebook));
    let workload = || {
        dynamic(json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"namespace": "team", "name": "job", "resourceVersion": "7"},
            "status": {"admissionChecks": [{"name": "gpu-slices", "state": "Pending"}]}}))
    };
    let served = || vec!["v1".to_owned()];
    let mut store = Store::default();
    for source in [&queues, &notebooks] {
        store.expect(source.clone());
        store.take(source, Change::Trouble("no version is served".to_owned()));
        store.take(source, Change::Unread(served()));
    }
    let waited_for =
        |store: &Store| store.incomplete().into_iter().map(|(source, _)| source).collect::<Vec<_>>();
    assert_eq!(waited_for(&store), std::slice::from_ref(&notebooks));
    let unread = |store: &Store| store.objects.unread_queues.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(unread(&store), [("workloads.kueue.x-k8s.io".to_owned(), served())]);
    // One that is read is served again.
    store.take(&queues, Change::Begin(None));
    store.take(&queues, Change::Put(workload()));
    store.take(&queues, Change::End);
    assert_eq!((unread(&store), store.objects.workloads.len()), (vec![], 1));
    // And ends while we run: what was known may have ended since.
    assert!(store.take(&queues, Change::Unread(served())));
    assert!(!store.take(&queues, Change::Unread(served())), "it is told once");
    assert_eq!((unread(&store).len(), store.objects.workloads.len()), (1, 0));
    store.forget(&queues);
    assert_eq!(unread(&store), [], "Kueue is gone");
}

#[test]
fn a_watch_that_broke_shows_what_was_until_it_has_listed_again() {
    let source = Source::Foreign(Foreign::Notebook);
    let mut store = Store::default();
    assert!(store.is_current(&source), "there is no such kind");
    store.expect(source.clone());
    assert!(!store.is_current(&source));
    for _ in 0..2 {
        store.take(&source, Change::Begin(None));
        store.take(&source, Change::End);
        assert!(store.is_current(&source));
        store.take(&source, Change::Trouble("forbidden".to_owned()));
        assert!(!store.is_current(&source));
        assert!(store.incomplete().is_empty(), "nobody waits for it");
    }
}
