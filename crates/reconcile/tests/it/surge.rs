//! Updates of model servers on full nodes with eight GPUs: an answer says that only older pods of the same
//! set are in the way where a plan proves it, and nothing of it where others would come first.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const UPDATE: &str = "this is an update of";

/// Two nodes with eight GPUs, of which others hold all but so many.
fn fleet(free: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.hgx(node);
        for gpu in 0..8 {
            if node == "n1" || gpu < 8 - free {
                cluster.pod(&format!("holder-{node}-{gpu}"), "7g.80gb", Some(node));
            }
        }
    }
    cluster.policy(json!({"type": "DemandDriven"}));
    cluster
}

/// A pod of a revision of a Deployment, on a node or waiting; each is younger than the one before.
fn server(cluster: &mut Cluster, deployment: &str, revision: u32, pod: &str, on: Option<&str>) {
    let set = format!("{deployment}-{revision}");
    let owner = |kind: &str, name: &str| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true});
    let above: OwnerReference = serde_json::from_value(owner("Deployment", deployment)).expect("an owner");
    cluster.objects.owners.insert("ReplicaSet", ("team".to_owned(), set.clone()), above);
    let name = format!("{set}-{pod}");
    let meta = json!({"labels": {"serving.kserve.io/inferenceservice": deployment},
        "ownerReferences": [owner("ReplicaSet", &set)]});
    add(cluster, &name, on, meta);
}

fn add(cluster: &mut Cluster, name: &str, on: Option<&str>, meta: Value) {
    cluster.now += SignedDuration::from_secs(10);
    let waits =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "creationTimestamp": cluster.now},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-7g.80gb": "1"}}}]},
        "status": {"phase": if on.is_some() { "Running" } else { "Pending" },
            "conditions": if on.is_some() { json!([]) } else { waits }},
    });
    pod["metadata"].as_object_mut().expect("a map").extend(meta.as_object().expect("a map").clone());
    cluster.add_pod(pod);
}

/// What the container of a pod asks for.
fn limits<'a>(cluster: &'a mut Cluster, pod: &str) -> &'a mut BTreeMap<String, Quantity> {
    let key = ("team".to_owned(), pod.to_owned());
    let pod = std::sync::Arc::make_mut(cluster.objects.pods.get_mut(&key).expect("it is there"));
    let container = &mut pod.spec.as_mut().expect("a spec").containers[0];
    container.resources.as_mut().expect("it asks").limits.as_mut().expect("limits")
}

/// What those who wait are told.
fn told(cluster: &Cluster) -> Vec<String> {
    cluster.round().answers.into_iter().map(|answer| answer.text).collect()
}

#[test]
fn an_update_that_waits_for_its_own_old_pod_is_told_both_ways_out_in_event_and_status() {
    let mut cluster = fleet(1);
    server(&mut cluster, "llama", 1, "a", Some("n2"));
    server(&mut cluster, "llama", 2, "b", None);
    let told = told(&cluster);
    assert_eq!(told.len(), 1);
    for part in [
        "this is an update of Deployment team/llama, and only its own older pods are in the way (team/llama-1-a on n2)",
        "set maxSurge: 0 and maxUnavailable: 1 in spec.strategy.rollingUpdate",
        "spec.predictor.deploymentStrategy.rollingUpdate",
        "(for later updates, not for this one: policy research, set spec.layout.demandDriven.slices[7g.80gb].spareCount to 1; it is kept free where there is room for it)",
    ] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    assert!(!told[0].contains("pod team/llama-1-a ends"), "it ends only after the new one runs: {}", told[0]);
    let round = cluster.round();
    let status = round.policies.values().next().expect("a policy");
    let unserved = &status.unserved.as_ref().expect("who waits").requests[0];
    assert!(unserved.message.contains(UPDATE), "{}", unserved.message);
}

#[test]
fn a_server_of_several_pods_that_surges_by_all_of_them_is_told_so_once_for_each() {
    let mut cluster = fleet(2);
    for pod in ["a", "b"] {
        server(&mut cluster, "llama", 1, pod, Some("n2"));
    }
    for pod in ["c", "d"] {
        server(&mut cluster, "llama", 2, pod, None);
    }
    let told = told(&cluster);
    assert_eq!(told.len(), 2);
    for text in told {
        assert!(text.contains("(team/llama-1-a on n2, team/llama-1-b on n2)"), "{text}");
        assert!(text.contains("set maxSurge: 0 and maxUnavailable: 1 in"), "whichever ends first: {text}");
        assert!(text.contains("spareCount to 2"), "{text}");
    }
}

/// Whatever the message names beside it, a slice that is kept for updates does not serve the one that waits: nobody has one
/// to spare. That it serves the next one holds only where there is room for it.
#[test]
fn a_slice_that_is_kept_for_updates_serves_none_that_waits() {
    let mut cluster = fleet(1);
    server(&mut cluster, "llama", 1, "a", Some("n2"));
    server(&mut cluster, "llama", 2, "b", None);
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": "7g.80gb", "spareCount": 1}]}}));
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains(UPDATE), "{told:?}");
    assert!(told[0].contains("spareCount to 2"), "one more than is kept already: {told:?}");
}

/// More of them are allowed to nobody, so none can be kept free.
#[test]
fn no_slice_is_to_be_kept_for_later_updates_where_the_policy_bounds_their_number() {
    let mut cluster = fleet(1);
    server(&mut cluster, "llama", 1, "a", Some("n2"));
    server(&mut cluster, "llama", 2, "b", None);
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": "7g.80gb", "maxCount": 16}]}}));
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains(UPDATE) && !told[0].contains("spareCount"), "{told:?}");
}

/// That any one of them is enough is proved of up to eight; of the others the first three are named.
#[test]
fn of_many_older_pods_some_are_named_and_that_one_is_enough_is_said_only_where_it_is_proved() {
    for (old, names, one_at_a_time) in [(4, "and 1 more", true), (8, "and 5 more", true)] {
        let mut cluster = fleet(old);
        for n in 0..old {
            server(&mut cluster, "llama", 1, &format!("o{n}"), Some("n2"));
        }
        server(&mut cluster, "llama", 2, "b", None);
        let told = told(&cluster);
        assert!(told.len() == 1 && told[0].contains(names), "{old}: {told:?}");
        assert_eq!(told[0].contains("maxUnavailable: 1 in"), one_at_a_time, "{old}: {told:?}");
    }
    // A ninth runs on the other node.
    let mut cluster = fleet(8);
    cluster.objects.pods.remove(&("team".to_owned(), "holder-n1-0".to_owned()));
    for n in 0..9 {
        server(&mut cluster, "llama", 1, &format!("o{n}"), Some(if n < 8 { "n2" } else { "n1" }));
    }
    server(&mut cluster, "llama", 2, "b", None);
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains("that fewer are enough is not proved"), "{told:?}");
}

/// Slices are free, and CPU is not.
#[test]
fn an_update_that_waits_for_the_cpu_of_its_old_pod_is_told_so_and_nobody_else_is() {
    let mut cluster = fleet(3);
    server(&mut cluster, "llama", 1, "a", Some("n2"));
    server(&mut cluster, "llama", 2, "b", None);
    // Somebody else waits for what no node has, and is none of the update.
    add(&mut cluster, "younger", None, json!({}));
    for (name, cpu) in [("llama-1-a", "20"), ("llama-2-b", "20"), ("younger", "500")] {
        limits(&mut cluster, name).insert("cpu".to_owned(), Quantity(cpu.to_owned()));
    }
    let told: BTreeMap<String, bool> = (cluster.round().answers.into_iter())
        .map(|answer| (answer.id.name, answer.text.contains(UPDATE)))
        .collect();
    assert_eq!(told, [("llama".to_owned(), true), ("younger".to_owned(), false)].into());
}

/// A team has its share of the fleet, and its server has all of that.
#[test]
fn an_update_that_waits_for_the_share_of_its_old_pod_is_told_so() {
    let mut cluster = fleet(3);
    cluster.objects.nodes.remove("n1");
    cluster.objects.pods.retain(|(_, name), _| !name.starts_with("holder-n1-"));
    let team = json!({"metadata": {"name": "team", "labels": {"team": "media"}}});
    cluster.objects.add_value("v1", "Namespace", team, &mut |problem| panic!("{problem}"));
    // The holders are of the same namespace.
    let media = json!({"namespaceSelector": {"matchLabels": {"team": "media"}}, "maxComputeSlices": 6 * 7});
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {"shares": [media]}}));
    server(&mut cluster, "llama", 1, "a", Some("n2"));
    server(&mut cluster, "llama", 2, "b", None);
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains(UPDATE), "{told:?}");
}

/// The new revision asks for two GPUs where the older one had one each: only when both have ended can one run.
#[test]
fn where_one_older_pod_is_not_enough_it_is_not_said_that_it_is() {
    let mut cluster = fleet(2);
    for pod in ["a", "b"] {
        server(&mut cluster, "llama", 1, pod, Some("n2"));
    }
    server(&mut cluster, "llama", 2, "c", None);
    limits(&mut cluster, "llama-2-c").values_mut().for_each(|n| n.0 = "2".to_owned());
    let told = told(&cluster);
    let part = "set maxSurge: 0 and a maxUnavailable by which all of them may end at once (that fewer are enough is not proved) in";
    assert!(told.len() == 1 && told[0].contains(part), "{told:?}");
}

/// One of the two older pods has as much as the new one asks for, and the other has half of it.
#[test]
fn where_not_each_of_the_older_pods_is_enough_alone_it_is_not_said_that_one_is() {
    let mut cluster = fleet(3);
    for pod in ["a", "b"] {
        server(&mut cluster, "llama", 1, pod, Some("n2"));
    }
    server(&mut cluster, "llama", 2, "c", None);
    for pod in ["llama-1-a", "llama-2-c"] {
        limits(&mut cluster, pod).values_mut().for_each(|n| n.0 = "2".to_owned());
    }
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains("that fewer are enough is not proved"), "{told:?}");
}

/// One of the new pods runs already, another has a place, and a pod of the older revision has ended.
#[test]
fn only_older_pods_that_hold_something_are_in_the_way_and_only_of_those_that_have_no_place() {
    let mut cluster = fleet(3);
    server(&mut cluster, "llama", 1, "ended", Some("n2"));
    server(&mut cluster, "llama", 1, "old", Some("n2"));
    server(&mut cluster, "llama", 2, "runs", Some("n2"));
    server(&mut cluster, "llama", 2, "first", None);
    server(&mut cluster, "llama", 2, "second", None);
    let ended = ("team".to_owned(), "llama-1-ended".to_owned());
    let ended = std::sync::Arc::make_mut(cluster.objects.pods.get_mut(&ended).expect("it is there"));
    ended.status.as_mut().expect("a status").phase = Some("Failed".to_owned());
    let told: Vec<String> = told(&cluster).into_iter().filter(|text| text.contains(UPDATE)).collect();
    assert!(told.len() == 1 && told[0].contains("(team/llama-1-old on n2)"), "{told:?}");
}

/// Only its own pods are there: what would help is that they end, and they end only after the new one runs.
#[test]
fn it_is_no_advice_to_an_update_that_its_own_older_pods_end() {
    let mut cluster = fleet(8);
    cluster.objects.nodes.remove("n1");
    cluster.objects.pods.retain(|(_, name), _| !name.starts_with("holder-"));
    for n in 0..8 {
        server(&mut cluster, "llama", 1, &format!("o{n}"), Some("n2"));
    }
    server(&mut cluster, "llama", 2, "b", None);
    let told = told(&cluster);
    assert!(told.len() == 1 && told[0].contains(UPDATE), "{told:?}");
    assert!(!told[0].contains("ends (or moves)"), "{told:?}");
}

#[test]
fn a_leader_worker_set_is_known_by_the_revision_of_its_template() {
    let mut cluster = fleet(1);
    let group = |revision: &str, n: u32| {
        json!({"labels": {"leaderworkerset.sigs.k8s.io/name": "granite",
            "leaderworkerset.sigs.k8s.io/template-revision-hash": revision,
            "apps.kubernetes.io/pod-index": n.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "granite", "uid": "u", "controller": true}]})
    };
    add(&mut cluster, "granite-0", Some("n2"), group("5f", 0));
    add(&mut cluster, "granite-1", None, group("7c", 1));
    let told = told(&cluster);
    assert!(told[0].contains("an update of LeaderWorkerSet team/granite"), "{told:?}");
    assert!(told[0].contains("in spec.rolloutStrategy.rollingUpdateConfiguration"), "{told:?}");
}

/// The share was lowered below what the team holds on another node: when the old pod ends, it holds too much all the same.
#[test]
fn what_is_held_on_other_nodes_counts_for_the_share_by_which_an_update_is_kept_from_its_place() {
    for (most, is_told) in [(14, true), (9, false)] {
        let mut cluster = fleet(3);
        let team = json!({"metadata": {"name": "team", "labels": {"team": "media"}}});
        cluster.objects.add_value("v1", "Namespace", team, &mut |problem| panic!("{problem}"));
        let media =
            json!({"namespaceSelector": {"matchLabels": {"team": "media"}}, "maxComputeSlices": most * 7});
        cluster.policy(json!({"type": "DemandDriven", "demandDriven": {"shares": [media]}}));
        server(&mut cluster, "llama", 1, "a", Some("n2"));
        server(&mut cluster, "llama", 2, "b", None);
        let told = told(&cluster);
        assert_eq!((told.len(), told[0].contains(UPDATE)), (1, is_told), "{told:?}");
    }
}

/// Each of these waits for others, too, or is no update at all.
#[test]
fn where_others_are_in_the_way_or_nothing_is_updated_no_update_is_told() {
    let check = |why: &str, prepare: &dyn Fn(&mut Cluster)| {
        let mut cluster = fleet(1);
        prepare(&mut cluster);
        let told = told(&cluster);
        assert!(!told.is_empty() && told.iter().all(|text| !text.contains(UPDATE)), "{why}: {told:?}");
    };
    check("another pod of the same revision is a second replica", &|cluster| {
        server(cluster, "llama", 1, "a", Some("n2"));
        server(cluster, "llama", 1, "b", None);
    });
    check("the older pod is of another server", &|cluster| {
        server(cluster, "mistral", 1, "a", Some("n2"));
        server(cluster, "llama", 2, "b", None);
    });
    check("somebody waits longer, and would get the slice of the old pod", &|cluster| {
        cluster.pod("asks", "7g.80gb", None);
        server(cluster, "llama", 1, "a", Some("n2"));
        server(cluster, "llama", 2, "b", None);
    });
    check("two new pods, and one old: the second waits for somebody else", &|cluster| {
        server(cluster, "llama", 1, "a", Some("n2"));
        server(cluster, "llama", 2, "b", None);
        server(cluster, "llama", 2, "c", None);
    });
    check("the older pod is of another job of the same set, and both are to run", &|cluster| {
        for (job, on) in [("train-0", Some("n2")), ("train-1", None)] {
            let by = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": true});
            let above: OwnerReference = serde_json::from_value(by("JobSet", "train")).expect("an owner");
            cluster.objects.owners.insert("Job", ("team".to_owned(), job.to_owned()), above);
            add(cluster, job, on, json!({"ownerReferences": [by("Job", job)]}));
        }
    });
    check("a slice is free, and something else keeps the new one from it", &|cluster| {
        let key = ("team".to_owned(), "holder-n2-0".to_owned());
        cluster.objects.pods.remove(&key);
        server(cluster, "llama", 1, "a", Some("n2"));
        server(cluster, "llama", 2, "b", None);
        cluster.settle();
        cluster.now += cluster.settings.observe.blocked_after * 2;
        cluster.settle();
    });
    check("what runs is the newer of the two, as after a rollback", &|cluster| {
        server(cluster, "llama", 2, "b", None);
        server(cluster, "llama", 1, "a", Some("n2"));
    });
}
