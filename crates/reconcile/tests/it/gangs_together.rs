//! Workloads whose pods have to be in one part of the cluster: by an affinity of their own, or by a topology of Kueue. All
//! of them get their slices there before the first may start, or nothing is cut for any of them. The fleet is that of the
//! queues, with a third node: eight GPUs are in zone `a`, sixteen in zone `b`.

use std::collections::BTreeSet;

use reconcile::CheckState;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::gangs_apart::nodes;
use crate::queues::{add, admit, fleet, of_job, one, pod_of, says, workload};

const ZONE: &str = "topology.kubernetes.io/zone";
const LARGE: &str = "nvidia.com/mig-7g.80gb";

fn zones() -> Cluster {
    let mut cluster = fleet();
    cluster.hgx("n3");
    for (name, zone) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        cluster.edit_node(name, |node| {
            node.metadata.labels.get_or_insert_default().insert(ZONE.to_owned(), zone.to_owned());
        });
    }
    cluster
}

fn affinity() -> Value {
    json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": ZONE}]}})
}

/// A job of so many pods that have to be in one zone, each with a whole GPU as a slice. Nobody has made them yet.
fn job(count: u32) -> Value {
    let mut job = of_job(workload("job", LARGE, count), "job");
    let template = &mut job["spec"]["podSets"][0]["template"];
    template["metadata"] = json!({"labels": {"app": "train"}});
    template["spec"]["affinity"] = affinity();
    job
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn all_of_them_get_their_slices_in_one_zone_and_are_kept_to_it() {
    let mut cluster = zones();
    add(&mut cluster, "Workload", job(12));
    assert_eq!(nodes(&cluster.round()), set(&["n2", "n3"]));
    cluster.settle();
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    // Whichever node the scheduler takes first, the others have slices beside it.
    assert_eq!(json!(ready.updates), json!([{"name": "main", "nodeSelector": {ZONE: "b"}}]));
    admit(&mut cluster, &ready);
    assert_eq!(says(&cluster), [], "nothing is lost by it");
    assert_eq!(nodes(&cluster.round()), set(&["n2", "n3"]));
}

/// On one node they are in one zone, and the selector of the node says so.
#[test]
fn where_one_node_has_slices_for_all_they_are_kept_to_the_node() {
    let mut cluster = zones();
    add(&mut cluster, "Workload", job(8));
    cluster.settle();
    let ready = one(&cluster);
    assert_eq!((ready.state, nodes(&cluster.round()).len()), (CheckState::Ready, 1), "{}", ready.message);
    assert!(json!(ready.updates)[0]["nodeSelector"].get(crate::queues::HOSTNAME).is_some());
}

#[test]
fn where_no_zone_has_enough_they_wait_nothing_is_cut_and_the_check_says_why() {
    let mut cluster = zones();
    add(&mut cluster, "Workload", job(17));
    let waits = one(&cluster);
    assert_eq!(waits.state, CheckState::Pending);
    assert!(
        waits.message.starts_with(
            "slices for 0 of 17 pods are free; not served: its 17 pods start together and have to be in one part of the \
             cluster by topology.kubernetes.io/zone, and none has slices for all of them"
        ),
        "{}",
        waits.message
    );
    assert_eq!(nodes(&cluster.round()), set(&[]));
    let serves = cluster.round().planned.plan.steps.iter().map(|step| step.serves.len()).sum::<usize>();
    assert_eq!(serves, 0);
}

/// Of those that run the scheduler makes the part of the cluster for the others.
#[test]
fn the_rest_of_a_job_that_runs_is_planned_beside_its_pods() {
    let mut cluster = zones();
    let gpu = |n: u32, on: Option<&str>| {
        let mut pod = pod_of("job", n, LARGE, on);
        pod["metadata"]["labels"]["app"] = "train".into();
        pod["spec"]["affinity"] = affinity();
        pod
    };
    add(&mut cluster, "Workload", job(3));
    cluster.is_cut("n1", "7g.80gb", 8);
    cluster.add_pod(gpu(0, Some("n1")));
    cluster.add_pod(gpu(1, None));
    cluster.add_pod(gpu(2, None));
    assert_eq!(nodes(&cluster.round()), set(&["n1"]));
}

/// The others have no choice: the scheduler looks for a node beside those that have one, and a selector that comes later
/// would not be on the first of them.
#[test]
fn pods_of_a_job_of_which_one_has_a_node_already_are_kept_to_no_zone() {
    let mut cluster = zones();
    add(&mut cluster, "Workload", job(12));
    for node in ["n2", "n3"] {
        cluster.is_cut(node, "7g.80gb", 8);
    }
    let mut first = pod_of("job", 0, LARGE, Some("n2"));
    first["metadata"]["labels"]["app"] = "train".into();
    cluster.add_pod(first);
    let ready = one(&cluster);
    assert_eq!((ready.state, json!(ready.updates)), (CheckState::Ready, json!([])), "{}", ready.message);
    assert_eq!(nodes(&cluster.round()), set(&["n2", "n3"]));
}

/// Kueue adds the labels of the rack itself, and only where a flavor has a topology.
#[test]
fn what_kueue_places_by_a_topology_is_planned_for_one_part_of_it_and_kept_to_none() {
    let placed = |has_topology: bool, count: u32| {
        let mut cluster = zones();
        let spec = if has_topology { json!({"nodeLabels": {}, "topologyName": "zones"}) } else { json!({}) };
        add(&mut cluster, "ResourceFlavor", json!({"metadata": {"name": "gpus"}, "spec": spec}));
        let mut job = of_job(workload("job", LARGE, count), "job");
        job["spec"]["podSets"][0]["topologyRequest"] = json!({"required": ZONE});
        job["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
            {"name": "main", "count": count, "flavors": {LARGE: "gpus"}}]});
        add(&mut cluster, "Workload", job);
        cluster.settle();
        let answer = one(&cluster);
        (answer.state, answer.updates.len(), nodes(&cluster.round()))
    };
    assert_eq!(placed(true, 12), (CheckState::Ready, 0, set(&["n2", "n3"])));
    assert_eq!(placed(true, 17), (CheckState::Pending, 0, set(&[])));
    assert_eq!(placed(false, 17), (CheckState::Ready, 0, set(&["n1", "n2", "n3"])));
}
