//! What people were told of their slices is kept from round to round, by what the `GpuNode` remembers.
use std::sync::Arc;

use api::gpu_node::PromisedTo;
use observe::Objects;
use rollout::Phase;
use serde_json::json;

use crate::cluster::{Cluster, Until};
use crate::queues::{SMALL, add, fleet, one, workload};

/// A node of eight GPUs that were not cut yet, and bob, who asks for a part of one.
fn asked_for() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.pod("bob", "3g.40gb", None);
    cluster
}

/// Two nodes of eight GPUs that were not cut yet.
fn two_nodes() -> Cluster {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.hgx(node);
        cluster.edit_node(node, |found| {
            let labels = found.metadata.labels.get_or_insert_default();
            labels.insert("kubernetes.io/hostname".to_owned(), node.to_owned());
        });
    }
    cluster
}

/// What everybody is told until n1 has been changed, and n2 is being changed.
fn told_until_n2_changes(cluster: &mut Cluster) -> Vec<String> {
    let mut told = Vec::new();
    for (node, phase) in [("n1", Phase::Idle), ("n2", Phase::Changing)] {
        cluster.until(node, phase, |_, round, _| {
            told.extend(round.answers.iter().map(|answer| format!("{}: {}", answer.id.name, answer.text)));
        });
    }
    told
}

/// Carol asks for two of them on one node: it serves more to give her both.
fn carol(cluster: &mut Cluster, priority: i32) {
    let resources = json!({"nvidia.com/mig-3g.40gb": "2"});
    cluster.add_pod(json!({
        "metadata": {"namespace": "team", "name": "carol", "uid": "u-carol", "creationTimestamp": cluster.now},
        "spec": {"priority": priority,
            "containers": [{"name": "main", "resources": {"requests": resources, "limits": resources}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available"}]},
    }));
}

fn remembered(objects: &Objects) -> Vec<String> {
    let rollout = objects.gpu_nodes.get("n1").and_then(|node| node.status.clone()?.rollout);
    let promised = rollout.map(|rollout| rollout.promised).unwrap_or_default();
    promised.into_iter().map(|PromisedTo { name, .. }| name).collect()
}

fn promised(cluster: &Cluster) -> Vec<String> {
    remembered(&cluster.objects)
}

fn said(cluster: &Cluster, name: &str) -> String {
    let round = cluster.round();
    round.answers.into_iter().find(|answer| answer.id.name == name).unwrap().text
}

/// Two replicas of a server that must not share a node. One GPU would have slices for both, and only one of them may be
/// promised a slice there: the scheduler would not put the other beside it.
#[test]
fn of_two_that_must_not_share_a_node_one_is_promised_it_and_the_other_gets_another() {
    let mut cluster = two_nodes();
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "llama"}}, "topologyKey": "kubernetes.io/hostname"});
    let limits = json!({"nvidia.com/mig-1g.10gb": "1"});
    for name in ["llama-a", "llama-b"] {
        cluster.add_pod(json!({
            "metadata": {"namespace": "team", "name": name, "uid": name, "labels": {"app": "llama"},
                "creationTimestamp": cluster.now},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/2 nodes are available"}]},
        }));
    }
    assert!(said(&cluster, "llama-a").starts_with("planned: n1 is to be changed for it (1g.10gb)"));
    assert_eq!(
        said(&cluster, "llama-b"),
        "planned: another node than n1, which a pod of the same kind gets first, and its anti-affinity keeps it apart"
    );
    let told = told_until_n2_changes(&mut cluster);
    assert!(told.iter().all(|text| !text.contains("what was promised")), "{told:#?}");
    assert!(told.iter().all(|text| !text.starts_with("llama-b: 1g.10gb is free on n1")), "{told:#?}");
    assert!(
        told.iter().any(|text| text.starts_with("llama-b: planned: n2 is to be changed for it")),
        "{told:#?}"
    );
    assert_eq!(promised(&cluster), ["llama-a"], "of n1");
}

/// Two jobs of JobSets, of two teams, of which each has to have a node to itself: the first pods of both wait.
#[test]
fn of_two_jobs_that_must_be_alone_one_is_promised_a_node_and_the_other_gets_another() {
    let mut cluster = two_nodes();
    let limits = json!({"nvidia.com/mig-1g.10gb": "1"});
    let of = "jobset.sigs.k8s.io/job-key";
    for (namespace, job) in [("team", "a"), ("rivals", "b")] {
        let others =
            json!([{"key": of, "operator": "Exists"}, {"key": of, "operator": "NotIn", "values": [job]}]);
        let term = json!({"labelSelector": {"matchExpressions": others}, "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {}});
        cluster.add_pod(json!({
            "metadata": {"namespace": namespace, "name": format!("{job}-0"), "uid": job, "labels": {of: job},
                "creationTimestamp": cluster.now},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/2 nodes are available"}]},
        }));
    }
    let told = told_until_n2_changes(&mut cluster);
    assert!(told.iter().all(|text| !text.contains("what was promised")), "{told:#?}");
    let [first] = promised(&cluster).try_into().expect("n1 is promised to one of them");
    let other = if first == "a-0" { "b-0" } else { "a-0" };
    assert!(
        told.iter().all(|text| !text.starts_with(&format!("{other}: 1g.10gb is free on n1"))),
        "{told:#?}"
    );
    let planned = format!("{other}: planned: n2 is to be changed for it");
    assert!(told.iter().any(|text| text.starts_with(&planned)), "{told:#?}");
}

#[test]
fn a_time_that_was_told_is_kept_when_somebody_comes_who_asks_for_more() {
    let mut cluster = asked_for();
    cluster.until("n1", Phase::Quiescing, |objects, _, _| {
        assert_eq!(remembered(objects), Vec::<String>::new(), "what is planned is not promised");
    });
    cluster.until("n1", Phase::Changing, |_, _, _| {});
    let _ = cluster.step(Until::End);
    assert!(said(&cluster, "bob").contains("3g.40gb will be ready there, at about "));
    assert_eq!(promised(&cluster), ["bob"]);
    carol(&mut cluster, 0);
    // The operator has nothing else than the objects, before a restart and after it.
    assert!(said(&cluster, "bob").contains("3g.40gb will be ready there, at about "));
    assert!(said(&cluster, "carol").starts_with("not served: "), "{}", said(&cluster, "carol"));
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["bob"]);
    // Without what is remembered it would be hers.
    let mut forgetful = cluster;
    let node = Arc::make_mut(forgetful.objects.gpu_nodes.get_mut("n1").unwrap());
    node.status.as_mut().unwrap().rollout.as_mut().unwrap().promised.clear();
    assert!(said(&forgetful, "bob").starts_with("not served: "), "{}", said(&forgetful, "bob"));
}

#[test]
fn a_higher_priority_breaks_it_and_the_answer_says_so_once() {
    let mut cluster = asked_for();
    cluster.until("n1", Phase::Changing, |_, _, _| {});
    let _ = cluster.step(Until::End);
    carol(&mut cluster, 1_000);
    let told = said(&cluster, "bob");
    let why = "what was promised on n1 cannot be kept: Pod team/carol has a higher priority and needs what was promised; not served: ";
    assert!(told.starts_with(why), "{told}");
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["carol"]);
    assert!(said(&cluster, "bob").starts_with("not served: "), "{}", said(&cluster, "bob"));
}

#[test]
fn a_promise_is_forgotten_when_its_pod_has_a_node() {
    let mut cluster = asked_for();
    cluster.until("n1", Phase::Changing, |_, _, _| {});
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["bob"]);
    cluster.until("n1", Phase::Idle, |_, _, _| {});
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["bob"], "the slice is there, and the pod is not bound yet");
    cluster.pod("bob", "3g.40gb", Some("n1"));
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), Vec::<String>::new());
}

/// Kueue may make the pods before the operator sees its own answer again.
#[test]
fn what_a_workload_is_let_go_for_is_kept_for_it_from_that_very_round() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("train", SMALL, 2));
    assert_eq!(one(&cluster).state, reconcile::CheckState::Ready);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), ["train", "train"]);
    // One that waits yet has no promise of what is free: others may come first.
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("train", SMALL, 57));
    assert_eq!(one(&cluster).state, reconcile::CheckState::Pending);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), Vec::<String>::new());
}
