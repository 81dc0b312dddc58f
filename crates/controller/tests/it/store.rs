//! The store's interpretation of the messages of watches.

use std::time::Duration;

use controller::clock;
use controller::store::awaited::Subject;
use controller::store::history::Read;
use controller::store::{Change, Foreign, Item, Source, Store, trim};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use serde_json::{Value, json};

fn node(name: &str, version: u64, labels: Value) -> Item {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(), "labels": labels},
    }))
    .unwrap();
    Item::Node(Box::new(trim::node(node)))
}

fn gpu_node(name: &str, version: u64) -> Item {
    node(name, version, json!({"nvidia.com/gpu.present": "true"}))
}

fn a_pod(name: &str, version: u64, on: Option<&str>, resource: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {resource: "1"}}}]},
    }))
    .unwrap()
}

fn pod(name: &str, version: u64, on: Option<&str>, resource: &str) -> Item {
    Item::Pod(Box::new(trim::pod(a_pod(name, version, on, resource))))
}

/// A consistent read of after everything that was seen.
const LATER: Read = read_at(50);

const fn read_at(version: u64) -> Read {
    Read { version: Some(version), highest_before: 0 }
}

fn dynamic(value: Value) -> Item {
    let object: DynamicObject = serde_json::from_value(value).unwrap();
    Item::Dynamic(Box::new(object))
}

/// A store whose watches of nodes and pods have listed these.
fn store(nodes: &[Item], pods: &[Item]) -> Store {
    let mut store = Store::default();
    for (source, items) in [(Source::Nodes, nodes), (Source::Pods, pods)] {
        store.expect(source.clone());
        store.take(&source, Change::Begin(None));
        for item in items {
            store.take(&source, Change::Put(item.clone()));
        }
        store.take(&source, Change::End);
    }
    store
}

fn pods(store: &Store) -> Vec<&str> {
    store.objects.pods.keys().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn after_a_watch_broke_nodes_are_judged_only_by_what_was_listed_since() {
    let mut store = store(&[gpu_node("n1", 1)], &[]);
    let notebooks = Source::Foreign(Foreign::Notebook);
    for source in [&Source::Policies, &notebooks] {
        store.expect(source.clone());
        store.take(source, Change::Begin(None));
        store.take(source, Change::End);
    }
    assert!(store.incomplete().is_empty());
    // What people ask for stays as it is until it is heard of anew.
    store.take(&notebooks, Change::Trouble("refused".to_owned()));
    assert!(store.incomplete().is_empty());
    // What they want of nodes may be another thing by now, and a kind of ours may be gone.
    store.take(&Source::Policies, Change::Trouble("404 page not found".to_owned()));
    assert_eq!(store.incomplete(), [(Source::Policies, Some("404 page not found".to_owned()))]);
    store.take(&Source::Policies, Change::Begin(None));
    store.take(&Source::Policies, Change::End);
    assert!(store.incomplete().is_empty());
    store.take(&Source::Nodes, Change::Trouble("refused".to_owned()));
    let incomplete = || vec![(Source::Nodes, None)];
    assert_eq!(store.incomplete(), [(Source::Nodes, Some("refused".to_owned()))]);
    store.take(&Source::Nodes, Change::Begin(None));
    store.take(&Source::Nodes, Change::Put(gpu_node("n1", 2)));
    assert_eq!(store.incomplete(), incomplete(), "one of them is not all of them");
    assert!(store.take(&Source::Nodes, Change::End), "a round looks at it");
    assert!(store.incomplete().is_empty());
}

#[test]
fn nothing_is_complete_before_every_watch_has_listed_everything() {
    let mut store = Store::default();
    store.expect(Source::Nodes);
    assert_eq!(store.incomplete().len(), 1);
    store.take(&Source::Nodes, Change::Begin(None));
    store.take(&Source::Nodes, Change::Trouble("no answer".to_owned()));
    assert_eq!(store.incomplete(), [(Source::Nodes, Some("no answer".to_owned()))]);
    store.take(&Source::Nodes, Change::End);
    assert!(store.incomplete().is_empty());
}

/// What pods that only take room take of a node: CPU in thousandths, and slots.
fn room_taken(store: &Store, node: &str) -> (i64, i64) {
    store.objects.room_taken.get(node).map_or((0, 0), |room| (room.cpu_milli, room.pods))
}

#[test]
fn pods_are_kept_that_ask_for_gpus_and_of_others_on_a_gpu_node_what_they_take() {
    let mut store = store(
        &[gpu_node("a1", 1), node("b1", 1, json!({}))],
        &[
            pod("asks", 1, None, "nvidia.com/mig-1g.10gb"),
            pod("holds", 1, Some("a1"), "nvidia.com/mig-1g.10gb"),
            pod("beside", 1, Some("a1"), "cpu"),
            pod("besides", 1, Some("a1"), "cpu"),
            pod("elsewhere", 1, Some("b1"), "cpu"),
        ],
    );
    assert_eq!(pods(&store), ["asks", "holds"]);
    assert_eq!((room_taken(&store, "a1"), room_taken(&store, "b1")), ((2_000, 2), (0, 0)));
    assert_eq!(store.pods_kept(), 4);
    assert_eq!(store.objects.nodes.keys().collect::<Vec<_>>(), ["a1"]);
    // Told again it takes what it took; a version that is older says nothing.
    assert!(!store.take(&Source::Pods, Change::Put(pod("beside", 3, Some("a1"), "cpu"))));
    assert!(!store.take(&Source::Pods, Change::Gone(pod("beside", 2, Some("a1"), "cpu"))));
    assert_eq!(room_taken(&store, "a1"), (2_000, 2));
    assert!(store.take(&Source::Pods, Change::Gone(pod("beside", 4, Some("a1"), "cpu"))));
    assert_eq!(room_taken(&store, "a1"), (1_000, 1));
    // One that has ended takes nothing any more.
    let mut ended = a_pod("besides", 5, Some("a1"), "cpu");
    ended.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    assert!(store.take(&Source::Pods, Change::Put(Item::Pod(Box::new(trim::pod(ended))))));
    assert_eq!(room_taken(&store, "a1"), (0, 0));
}

/// The watch broke, and meanwhile it was deleted: nobody says so but the list.
#[test]
fn a_list_without_a_pod_that_only_took_room_gives_its_room_back() {
    let there = [pod("beside", 1, Some("a1"), "cpu"), pod("besides", 1, Some("a1"), "cpu")];
    let mut store = store(&[gpu_node("a1", 1)], &there);
    assert_eq!(room_taken(&store, "a1"), (2_000, 2));
    store.take(&Source::Pods, Change::Begin(None));
    store.take(&Source::Pods, Change::Put(there[0].clone()));
    assert!(store.take(&Source::Pods, Change::End), "a round looks at it");
    assert_eq!((room_taken(&store, "a1"), store.pods_kept()), ((1_000, 1), 1));
}

#[test]
fn a_pod_that_comes_to_hold_a_slice_or_no_longer_does_is_counted_once() {
    let mut store = store(&[gpu_node("a1", 1)], &[pod("p", 1, None, "cpu")]);
    assert_eq!((pods(&store), store.pods_kept()), (vec![], 0), "it is nowhere, and wants nothing of ours");
    store.take(&Source::Pods, Change::Put(pod("p", 2, Some("a1"), "cpu")));
    assert_eq!((pods(&store), room_taken(&store, "a1")), (vec![], (1_000, 1)));
    store.take(&Source::Pods, Change::Put(pod("p", 3, Some("a1"), "nvidia.com/gpu")));
    assert_eq!((pods(&store), room_taken(&store, "a1")), (vec!["p"], (0, 0)));
    store.take(&Source::Pods, Change::Put(pod("p", 4, Some("a1"), "cpu")));
    assert_eq!((pods(&store), room_taken(&store, "a1")), (vec![], (1_000, 1)));
    // A list in which they are not ends them, whatever was kept of them.
    store.take_pods_of("a1", Vec::new(), LATER);
    assert_eq!((store.pods_kept(), room_taken(&store, "a1")), (0, (0, 0)));
}

#[test]
fn a_node_that_turns_out_to_have_gpus_is_shown_once_its_pods_are_listed() {
    let mut store = store(&[node("a1", 1, json!({}))], &[pod("old", 1, Some("a1"), "cpu")]);
    assert!(!store.take(&Source::Nodes, Change::Put(gpu_node("a1", 2))), "nothing to look at yet");
    assert!(store.objects.nodes.is_empty(), "it would look as if nobody were on it");
    assert_eq!(store.to_list(), ["a1"]);
    assert!(store.take_pods_of("a1", vec![a_pod("old", 1, Some("a1"), "cpu")], LATER));
    assert_eq!(room_taken(&store, "a1"), (1_000, 1));
    assert!(store.objects.nodes.contains_key("a1") && store.to_list().is_empty());
}

#[test]
fn what_is_older_than_what_is_known_is_left_aside() {
    let mut store = store(&[gpu_node("a1", 1)], &[]);
    let list = vec![a_pod("p", 10, Some("a1"), "nvidia.com/mig-1g.10gb")];
    store.take_pods_of("a1", list, LATER);
    // The watch is behind: it still tells of the pod before it was bound.
    assert!(!store.take(&Source::Pods, Change::Put(pod("p", 5, None, "nvidia.com/mig-1g.10gb"))));
    let bound = |store: &Store| {
        let pod = &store.objects.pods[&("ns".to_owned(), "p".to_owned())];
        pod.spec.as_ref().unwrap().node_name.clone()
    };
    assert_eq!(bound(&store).as_deref(), Some("a1"));
    // And of the end of an earlier pod of this name.
    assert!(!store.take(&Source::Pods, Change::Gone(pod("p", 6, None, "nvidia.com/mig-1g.10gb"))));
    assert_eq!(bound(&store).as_deref(), Some("a1"));
}

#[test]
fn a_consistent_list_ends_pods_that_it_does_not_have() {
    let mut store = store(&[gpu_node("a1", 1)], &[pod("gone", 1, Some("a1"), "nvidia.com/gpu")]);
    assert!(store.take_pods_of("a1", Vec::new(), LATER));
    assert!(pods(&store).is_empty());
}

#[test]
fn a_list_anew_ends_what_it_does_not_have() {
    let mut store = store(&[gpu_node("a1", 1), gpu_node("a2", 1)], &[]);
    store.take(&Source::Nodes, Change::Begin(None));
    store.take(&Source::Nodes, Change::Put(gpu_node("a2", 1)));
    assert_eq!(store.objects.nodes.len(), 2, "until the list is complete nothing is missing");
    store.take(&Source::Nodes, Change::End);
    assert_eq!(store.objects.nodes.keys().collect::<Vec<_>>(), ["a2"]);
}

#[test]
fn a_heartbeat_is_no_change() {
    let mut store = store(&[gpu_node("a1", 1)], &[]);
    assert!(!store.take(&Source::Nodes, Change::Put(gpu_node("a1", 2))));
    assert!(
        store.take(&Source::Nodes, Change::Put(node("a1", 3, json!({"nvidia.com/gpu.present": "false"}))))
    );
}

#[test]
fn a_write_of_ours_is_awaited_until_it_or_something_later_is_seen() {
    let now = clock::instant();
    let mut store = store(&[gpu_node("a1", 3)], &[]);
    let subject = |version: &str| Subject::Version {
        source: Source::Nodes,
        key: (String::new(), "a1".to_owned()),
        version: version.to_owned(),
    };
    store.wait_for(subject("3"), now);
    assert!(store.awaited().is_empty(), "it is there already: the write changed nothing");
    store.wait_for(subject("5"), now);
    store.take(&Source::Nodes, Change::Put(gpu_node("a1", 4)));
    assert!(!store.awaited().is_empty(), "that was somebody else's");
    store.take(&Source::Nodes, Change::Put(gpu_node("a1", 6)));
    assert!(store.awaited().is_empty());
    store.wait_for(subject("9"), now);
    store.take(&Source::Nodes, Change::Gone(gpu_node("a1", 10)));
    assert!(store.awaited().is_empty(), "what is gone is not waited for");
}

/// A round ends some seconds after it wrote. A node that goes away meanwhile takes its `GpuNode` along, and nobody would
/// ever tell of the write again.
#[test]
fn a_write_of_ours_to_what_was_removed_before_the_round_ended_is_not_awaited() {
    let now = clock::instant();
    let mut store = store(&[gpu_node("a1", 3), gpu_node("a2", 3)], &[]);
    let subject = |node: &str, version: &str| Subject::Version {
        source: Source::Nodes,
        key: (String::new(), node.to_owned()),
        version: version.to_owned(),
    };
    store.take(&Source::Nodes, Change::Put(gpu_node("a1", 5)));
    store.take(&Source::Nodes, Change::Gone(gpu_node("a1", 7)));
    store.wait_for(subject("a1", "5"), now);
    assert!(store.awaited().is_empty(), "the watch has told of it, and of its end");
    store.wait_for(subject("a2", "6"), now);
    assert!(!store.awaited().is_empty(), "what is there has to show the write");
    store.take(&Source::Nodes, Change::Put(gpu_node("a2", 6)));
    store.wait_for(subject("a3", "8"), now);
    assert!(!store.awaited().is_empty(), "the watch is not so far yet");
    store.take(&Source::Nodes, Change::Begin(Some(9)));
    store.take(&Source::Nodes, Change::Put(gpu_node("a2", 6)));
    store.take(&Source::Nodes, Change::End);
    assert!(store.awaited().is_empty(), "the list does not have it");
}

/// An object of a node that was made anew is removed, and made again at once: the watch tells of both, one after the
/// other.
#[test]
fn the_end_of_an_object_does_not_end_the_wait_for_its_successor() {
    let now = clock::instant();
    let mut store = store(&[gpu_node("a1", 3)], &[]);
    let (source, key) = (Source::Nodes, (String::new(), "a1".to_owned()));
    store.wait_for(Subject::Version { source, key, version: "9".to_owned() }, now);
    store.take(&Source::Nodes, Change::Gone(gpu_node("a1", 7)));
    assert!(!store.awaited().is_empty(), "the successor is not seen yet");
    store.take(&Source::Nodes, Change::Put(gpu_node("a1", 9)));
    assert!(store.awaited().is_empty());
    // One that is removed after the write is awaited no more.
    let (source, key) = (Source::Nodes, (String::new(), "a1".to_owned()));
    store.wait_for(Subject::Version { source, key, version: "11".to_owned() }, now);
    store.take(&Source::Nodes, Change::Gone(gpu_node("a1", 12)));
    assert!(store.awaited().is_empty());
}

/// What was read by itself is believed like what the watch tells, and what the
/// watch tells later of an earlier moment is not.
#[test]
fn a_node_that_was_read_is_as_new_as_it_is_and_one_that_is_gone_is_gone() {
    let now = clock::instant();
    let mut store = store(&[gpu_node("a1", 1)], &[]);
    let read = |version: u64, cordoned: bool| {
        let Item::Node(node) = gpu_node("a1", version) else { panic!("it is a node") };
        let spec = k8s_openapi::api::core::v1::NodeSpec {
            unschedulable: cordoned.then_some(true),
            ..Default::default()
        };
        k8s_openapi::api::core::v1::Node { spec: Some(spec), ..*node }
    };
    let cordon = Subject::Version {
        source: Source::Nodes,
        key: (String::new(), "a1".to_owned()),
        version: "5".to_owned(),
    };
    store.wait_for(cordon.clone(), now);
    assert_eq!(store.node_of(&cordon).as_deref(), Some("a1"));
    assert!(store.take_node("a1", Some(read(5, true)), read_at(5)), "it is cordoned now");
    assert!(store.awaited().is_empty(), "what was awaited was read");
    assert!(!store.take_node("a1", Some(read(6, true)), read_at(6)), "only its version moved");
    store.take(&Source::Nodes, Change::Put(Item::node(read(3, false))));
    let spec = store.objects.nodes["a1"].spec.clone();
    assert_eq!(spec.and_then(|spec| spec.unschedulable), Some(true), "the watch tells of an earlier moment");
    assert!(store.take_node("a1", None, read_at(7)));
    assert!(store.objects.nodes.is_empty());
}

#[test]
fn an_evicted_pod_is_awaited_until_it_goes_and_not_for_ever() {
    let now = clock::instant();
    let mut store = store(&[gpu_node("a1", 1)], &[pod("p", 1, Some("a1"), "nvidia.com/gpu")]);
    let going = || Subject::Going { key: ("ns".to_owned(), "p".to_owned()), uid: "uid-p".to_owned() };
    store.wait_for(going(), now);
    assert!(!store.awaited().is_empty());
    let mut leaving = a_pod("p", 2, Some("a1"), "nvidia.com/gpu");
    leaving.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    store.take(&Source::Pods, Change::Put(Item::Pod(Box::new(trim::pod(leaving)))));
    assert!(store.awaited().is_empty());
    store.take(&Source::Pods, Change::Put(pod("p", 3, Some("a1"), "nvidia.com/gpu")));
    store.wait_for(going(), now);
    assert!(store.awaited().give_up(Duration::from_secs(30), now + Duration::from_secs(29)).is_empty());
    assert_eq!(store.awaited().give_up(Duration::from_secs(30), now + Duration::from_secs(30)).len(), 1);
}

#[test]
fn a_kind_that_vanishes_takes_its_objects_along() {
    let mut store = Store::default();
    let source = Source::Foreign(Foreign::Notebook);
    store.expect(source.clone());
    store.take(&source, Change::Begin(None));
    let notebook = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": "ns", "name": "n", "resourceVersion": "1"}});
    store.take(&source, Change::Put(dynamic(notebook.clone())));
    store.take(&source, Change::End);
    assert_eq!(store.objects.notebooks.len(), 1);
    store.forget(&source);
    assert!(store.objects.notebooks.is_empty() && store.incomplete().is_empty());
    assert!(!store.take(&source, Change::Put(dynamic(notebook))), "a late word of a watch that was stopped");
    assert!(store.objects.notebooks.is_empty());
}

#[test]
fn claims_and_volumes_come_change_and_go() {
    let mut store = Store::sparing();
    for source in [Source::VolumeClaims, Source::Volumes] {
        store.expect(source.clone());
        store.take(&source, Change::Begin(None));
        store.take(&source, Change::End);
    }
    let claim = |name: &str, version: u64, volume: Option<&str>| {
        let claim = json!({"metadata": {"namespace": "ns", "name": name, "resourceVersion": version.to_string()},
            "spec": {"volumeName": volume}});
        Item::volume_claim(serde_json::from_value(claim).unwrap())
    };
    let volume = |name: &str, zone: Option<&str>| {
        let terms = zone
            .map(|zone| json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]));
        let affinity = terms.map(|terms| json!({"required": {"nodeSelectorTerms": terms}}));
        let volume =
            json!({"metadata": {"name": name, "resourceVersion": "3"}, "spec": {"nodeAffinity": affinity}});
        Item::volume(serde_json::from_value(volume).unwrap())
    };
    let (claims, volumes) = (Source::VolumeClaims, Source::Volumes);
    assert!(!store.take(&claims, Change::Put(claim("data", 1, None))), "one that is not bound says nothing");
    assert!(store.take(&claims, Change::Put(claim("data", 2, Some("pv")))));
    assert!(!store.take(&claims, Change::Put(claim("data", 3, Some("pv")))), "the same once more");
    assert!(
        !store.take(&volumes, Change::Put(volume("nfs", None))),
        "one that every node can have says nothing"
    );
    assert!(store.take(&volumes, Change::Put(volume("pv", Some("a")))));
    assert!(!store.take(&volumes, Change::Put(volume("pv", Some("a")))));
    assert!(store.take(&volumes, Change::Put(volume("pv", Some("b")))));
    let known = &store.objects.volumes;
    assert_eq!((known.claims.len(), known.places.len()), (1, 1));
    // A list anew that has neither.
    for source in [&claims, &volumes] {
        store.take(source, Change::Begin(None));
        assert!(store.take(source, Change::End), "{source}");
    }
    assert_eq!(*store.objects.volumes, observe::volumes::Volumes::default());
    assert!(store.take(&volumes, Change::Put(volume("pv", Some("a")))));
    assert!(store.take(&volumes, Change::Gone(volume("pv", Some("a")))));
    assert_eq!(*store.objects.volumes, observe::volumes::Volumes::default());
}

#[test]
fn an_object_that_cannot_be_read_concerns_nobody_else_and_a_node_is_not_forgotten_for_it() {
    let mut store = Store::default();
    store.expect(Source::GpuNodes);
    store.take(&Source::GpuNodes, Change::Begin(None));
    let gpu_node = |name: &str, spec: Value| {
        dynamic(json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
            "metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}))
    };
    store.take(&Source::GpuNodes, Change::Put(gpu_node("good", json!({}))));
    store.take(&Source::GpuNodes, Change::Put(gpu_node("bad", json!({"gpus": "of a later release"}))));
    store.take(&Source::GpuNodes, Change::End);
    assert!(store.incomplete().is_empty());
    assert_eq!(store.unreadable.len(), 1);
    let read = |name: &str| reconcile::remembered::read(store.objects.gpu_nodes.get(name).map(AsRef::as_ref));
    assert!(read("good").is_ok());
    assert!(read("bad").is_err(), "its node is held, as one of which something unknown is remembered");
}

#[test]
fn only_what_is_read_is_kept_of_nodes_and_pods() {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "a1", "managedFields": [{"manager": "kubelet"}],
            "annotations": {"csi.volume.kubernetes.io/nodeid": "x", "machineconfiguration.openshift.io/state": "Done"}},
        "status": {"images": [{"names": ["registry/large"]}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "allocatable": {"cpu": "8", "ephemeral-storage": "9", "hugepages-2Mi": "0", "nvidia.com/gpu": "1"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                {"type": "DiskPressure", "status": "False"}]},
    }))
    .unwrap();
    let kept = serde_json::to_value(trim::node(node)).unwrap();
    assert_eq!(
        kept,
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a1", "annotations": {"machineconfiguration.openshift.io/state": "Done"}},
            "status": {"allocatable": {"cpu": "8", "ephemeral-storage": "9", "nvidia.com/gpu": "1"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    );
    let mut pod = a_pod("p", 1, Some("a1"), "nvidia.com/gpu");
    pod.metadata.labels =
        Some([("app".to_owned(), "x".to_owned()), ("team".to_owned(), "y".to_owned())].into());
    pod.spec.as_mut().unwrap().service_account_name = Some("default".to_owned());
    let kept = trim::pod(pod);
    assert_eq!(kept.metadata.labels.unwrap().into_keys().collect::<Vec<_>>(), ["app"]);
    assert_eq!(kept.spec.unwrap().service_account_name, None);
}

const AVX: &str = "feature.node.kubernetes.io/cpu-cpuid.AVX512F";
const MEMORY: &str = "nvidia.com/mig-1g.10gb.memory";

fn shows(store: &Store, key: &str) -> bool {
    store.objects.nodes["a1"].metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key))
}

/// A store that lays aside what nobody reads, with one node.
fn sparing() -> Store {
    let labels = json!({"nvidia.com/gpu.present": "true", "pool": "a", AVX: "true", MEMORY: "9728"});
    let mut store = Store::sparing();
    for source in
        [Source::Policies, Source::Foreign(Foreign::Notebook), Source::Foreign(Foreign::HardwareProfile)]
    {
        store.expect(source);
    }
    for source in [Source::Nodes, Source::Pods] {
        store.expect(source.clone());
        store.take(&source, Change::Begin(None));
        if source == Source::Nodes {
            store.take(&source, Change::Put(node("a1", 1, labels.clone())));
        }
        store.take(&source, Change::End);
    }
    store
}

#[test]
fn labels_that_nobody_reads_are_laid_aside_and_are_there_once_somebody_names_them() {
    let store = sparing();
    assert!(shows(&store, "pool") && shows(&store, "nvidia.com/gpu.present"));
    assert!(!shows(&store, AVX) && !shows(&store, MEMORY));
    let policy = json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy", "metadata": {"name": "p"},
        "spec": {"nodeSelector": {"matchExpressions": [{"key": AVX, "operator": "Exists"}]},
            "layout": {"type": "DemandDriven"}}});
    let meta = json!({"namespace": "ns", "name": "x"});
    let notebook = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": meta,
        "spec": {"template": {"spec": {"containers": [], "nodeSelector": {AVX: "true"}}}}});
    let profile = json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile", "metadata": meta,
        "spec": {"scheduling": {"type": "Node", "node": {"nodeSelector": {AVX: "true"}}}}});
    let mut waits = a_pod("p", 1, None, "nvidia.com/mig-1g.10gb");
    let terms = json!([{"matchExpressions": [{"key": AVX, "operator": "In", "values": ["true"]}]}]);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    waits.spec.as_mut().unwrap().affinity = serde_json::from_value(affinity).unwrap();
    let who = [
        (Source::Policies, dynamic(policy)),
        (Source::Foreign(Foreign::Notebook), dynamic(notebook)),
        (Source::Foreign(Foreign::HardwareProfile), dynamic(profile)),
        (Source::Pods, Item::Pod(Box::new(trim::pod(waits)))),
    ];
    for (source, item) in who {
        let mut store = sparing();
        store.take(&source, Change::Put(item));
        assert!(shows(&store, AVX), "{source} names it");
        assert!(!shows(&store, MEMORY), "{source} does not");
        // And what comes later shows it, too.
        let labels = json!({"nvidia.com/gpu.present": "true", AVX: "false", MEMORY: "9728"});
        assert!(store.take(&Source::Nodes, Change::Put(node("a1", 2, labels))));
        assert_eq!(store.objects.nodes["a1"].metadata.labels.as_ref().unwrap()[AVX], "false");
    }
}

/// A JobSet whose jobs are placed exclusively is asked for when its workload waits, and no watch brings it.
#[test]
fn a_label_by_which_jobs_are_placed_exclusively_is_there_once_that_is_known() {
    let mut store = sparing();
    let named = ("JobSet".to_owned(), ("ns".to_owned(), "x".to_owned()));
    store.objects.placed_alone.insert(named, AVX.to_owned());
    assert!(!shows(&store, AVX));
    store.name_labels_of_placed_alone();
    assert!(shows(&store, AVX) && !shows(&store, MEMORY));
}

#[test]
fn a_label_that_nobody_reads_is_no_change_and_a_recording_has_them_all() {
    let mut store = sparing();
    let labels = json!({"nvidia.com/gpu.present": "true", "pool": "a", AVX: "false", MEMORY: "1"});
    assert!(!store.take(&Source::Nodes, Change::Put(node("a1", 2, labels))));
    let labels = json!({"nvidia.com/gpu.present": "true", "pool": "b", AVX: "false"});
    assert!(store.take(&Source::Nodes, Change::Put(node("a1", 3, labels))));
    let mut whole = Store::default();
    whole.expect(Source::Nodes);
    whole.take(
        &Source::Nodes,
        Change::Put(node("a1", 1, json!({"nvidia.com/gpu.present": "true", AVX: "true"}))),
    );
    assert!(shows(&whole, AVX));
}

#[test]
fn a_bound_pod_takes_the_same_before_and_after_it_is_trimmed() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "a", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "a1", "overhead": {"cpu": "50m"},
            "initContainers": [
                {"name": "large", "resources": {"requests": {"cpu": "4"}}},
                {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "150m"}}},
            ],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1500m", "memory": "1.5Gi", "nvidia.com/mig-1g.10gb": "1"},
                    "limits": {"memory": "2Gi", "nvidia.com/mig-1g.10gb": "1"}}},
                {"name": "b", "resources": {"limits": {"memory": "100M", "nvidia.com/gpu": "1"}}},
                {"name": "c", "resources": {"requests": {"nvidia.com/mig-2g.20gb": "1"}, "limits": {"nvidia.com/mig-2g.20gb": "2"}}},
            ]},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]},
    }))
    .unwrap();
    let takes = |pod: &Pod| observe::pods::takes(pod.spec.as_ref().unwrap());
    let kept = trim::pod(pod.clone());
    assert_eq!(takes(&kept), takes(&pod));
    let by_container = |pod: &Pod| observe::pods::containers(pod.spec.as_ref().unwrap());
    assert_eq!(by_container(&kept), by_container(&pod));
    let asks = kept.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap();
    assert!(asks.requests.is_none() && asks.limits.is_some(), "what is the same is kept once");
    assert_eq!(trim::pod(kept.clone()), kept, "it is trimmed once");
    assert!(trim::concerns_gpus(&kept) && kept.metadata.owner_references.is_some());
    assert_eq!(kept.status.unwrap().conditions.unwrap().len(), 1);

    let mut plain = pod;
    for container in &mut plain.spec.as_mut().unwrap().containers {
        let resources = container.resources.as_mut().unwrap();
        for list in [&mut resources.requests, &mut resources.limits] {
            list.iter_mut().for_each(|list| list.retain(|resource, _| !resource.starts_with("nvidia.com/")));
        }
    }
    let kept = trim::pod(plain.clone());
    assert_eq!(takes(&kept), takes(&plain));
    assert!(kept.metadata.labels.is_none() && kept.metadata.owner_references.is_none());
    assert_eq!(kept.status.unwrap().phase.as_deref(), Some("Running"));
}
