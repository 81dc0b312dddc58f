//! Exclusive placement: each job of a JobSet, and each group of a LeaderWorkerSet, has a zone to itself. The pods are as
//! the webhooks of the two make them. The fleet is that of the replicas that keep apart: n1 and n2 in one zone, n3 in
//! another, with free slices on each.

use k8s_openapi::api::core::v1::Pod;
use observe::apart::{noted, rules};
use serde_json::{Value, json};

use crate::apart::{HOSTNAME, ZONE, fleet, planned};
use crate::words::*;

const JOB: &str = "jobset.sigs.k8s.io/job-key";
const PRIORITY: &str = "jobset.sigs.k8s.io/priority";
const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-key";

fn expression(key: &str, operator: &str, value: &str) -> Value {
    match operator {
        "Exists" => json!({"key": key, "operator": operator}),
        _ => json!({"key": key, "operator": operator, "values": [value]}),
    }
}

/// A pod with these labels, and with these expressions as the selector of its affinity and of its anti-affinity.
fn pod_with(name: &str, on: Option<&str>, labels: &Value, near: &[Value], apart: &[Value]) -> Value {
    let mut pod = pod("training", name, &[("mig-1g.10gb", 1)], on);
    pod["metadata"]["labels"] = labels.clone();
    let mut term = |kind: &str, expressions: &[Value]| {
        if !expressions.is_empty() {
            pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"labelSelector": {"matchExpressions": expressions}, "topologyKey": ZONE}]);
        }
    };
    term("podAffinity", near);
    term("podAntiAffinity", apart);
    pod
}

/// The first pod of a job of a JobSet.
fn leader(job: &str, on: Option<&str>) -> Value {
    let near = [expression(JOB, "In", job)];
    let apart =
        [expression(JOB, "Exists", ""), expression(JOB, "NotIn", job), expression(PRIORITY, "In", "0")];
    let mut pod = pod_with(&format!("{job}-0"), on, &json!({JOB: job, PRIORITY: "0"}), &near, &apart);
    for kind in ["podAffinity", "podAntiAffinity"] {
        pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
            json!({});
    }
    pod
}

/// Another pod of it, which follows by a node selector.
fn follower(job: &str, on: Option<&str>) -> Value {
    pod_with(&format!("{job}-1"), on, &json!({JOB: job, PRIORITY: "0"}), &[], &[])
}

/// The first pod of a group of a LeaderWorkerSet, and another one.
fn leader_of_group(group: &str, on: Option<&str>) -> Value {
    let apart = [expression(GROUP, "Exists", ""), expression(GROUP, "NotIn", group)];
    pod_with(&format!("{group}-0"), on, &json!({GROUP: group}), &[expression(GROUP, "In", group)], &apart)
}

fn worker(group: &str, on: Option<&str>) -> Value {
    pod_with(&format!("{group}-1"), on, &json!({GROUP: group}), &[], &[])
}

fn elsewhere(mut pod: Value) -> Value {
    pod["metadata"]["namespace"] = "rivals".into();
    pod
}

#[test]
fn a_job_is_planned_for_a_zone_without_another_job() {
    assert_eq!(planned(vec![leader("b", None)]), "n1", "nobody is anywhere");
    for first in [leader("a", Some("n2")), follower("a", Some("n2")), elsewhere(follower("a", Some("n1")))] {
        assert_eq!(planned(vec![first.clone(), leader("b", None)]), "n3", "{first}");
    }
    assert_eq!(planned(vec![follower("b", Some("n1")), leader("b", None)]), "n1", "it is its own job's");
    let all = [leader("a", Some("n1")), leader("c", Some("n3")), leader("b", None)];
    assert_eq!(
        planned(all.into()),
        "no node fits its selector, affinity, tolerations, volumes and other resources; add nodes with such slices, or \
         relax its pod affinity, anti-affinity or topology spread: node n1 has the same topology.kubernetes.io/zone as pods \
         of another group, and one of the two groups is to have it alone (exclusive placement)"
    );
}

#[test]
fn only_jobs_that_are_placed_so_and_have_the_same_priority_are_in_the_way() {
    let beside =
        |labels: Value| planned(vec![pod_with("a-1", Some("n1"), &labels, &[], &[]), leader("b", None)]);
    assert_eq!(beside(json!({JOB: "a", PRIORITY: "0"})), "n3");
    assert_eq!(beside(json!({JOB: "a", PRIORITY: "7"})), "n1", "another priority");
    assert_eq!(beside(json!({JOB: "a"})), "n1", "a job without exclusive placement");
    let mut ended = follower("a", Some("n1"));
    ended["status"]["phase"] = "Succeeded".into();
    assert_eq!(planned(vec![ended, leader("b", None)]), "n1");
}

/// The scheduler asks those who are there, too.
#[test]
fn whoever_is_there_alone_keeps_pods_of_other_jobs_off() {
    assert_eq!(planned(vec![leader("a", Some("n1")), follower("b", None)]), "n3");
    assert_eq!(planned(vec![leader("a", Some("n1")), follower("a", None)]), "n1", "it is of this job");
    assert_eq!(planned(vec![follower("a", Some("n1")), follower("b", None)]), "n1", "neither says anything");
}

#[test]
fn groups_of_a_leader_worker_set_keep_apart_within_their_namespace() {
    for (first, node) in [
        (leader_of_group("a", Some("n1")), "n3"),
        (worker("a", Some("n1")), "n3"),
        (elsewhere(leader_of_group("a", Some("n1"))), "n1"),
        (elsewhere(worker("a", Some("n1"))), "n1"),
        (follower("a", Some("n1")), "n1"),
    ] {
        assert_eq!(planned(vec![first.clone(), leader_of_group("b", None)]), node, "{first}");
    }
    assert_eq!(planned(vec![leader_of_group("a", Some("n1")), worker("b", None)]), "n3");
    assert_eq!(planned(vec![elsewhere(leader_of_group("a", Some("n1"))), worker("b", None)]), "n1");
}

/// JobSet has one first pod for each job, and whoever else writes such a rule may have many.
#[test]
fn first_pods_of_two_jobs_that_wait_keep_apart_and_two_of_one_job_do_not() {
    let keep_apart = |pods: [Value; 2]| -> Vec<usize> {
        let all: Vec<Value> = fleet().into_iter().chain(pods).collect();
        see(&all).requests.iter().map(|request| request.keeps_apart.len()).collect()
    };
    assert_eq!(keep_apart([leader("a", None), leader("b", None)]), [1, 1]);
    assert_eq!(keep_apart([leader("a", None), elsewhere(leader("b", None))]), [1, 1]);
    let mut second = leader("a", None);
    second["metadata"]["name"] = "a-1".into();
    assert_eq!(keep_apart([leader("a", None), second]), [0, 0]);
}

#[test]
fn an_object_says_by_an_annotation_of_its_kind_that_its_jobs_are_placed_so() {
    let label_of = |kind: &str, annotations: &[(&str, &str)]| {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        observe::placed_alone::label_of(kind, Some(&annotations.collect()))
    };
    let of_job_set = ("alpha.jobset.sigs.k8s.io/exclusive-topology", "rack");
    let of_server = ("leaderworkerset.sigs.k8s.io/exclusive-topology", "rack");
    assert_eq!(label_of("JobSet", &[of_job_set]).as_deref(), Some("rack"));
    assert_eq!(label_of("LeaderWorkerSet", &[of_server]).as_deref(), Some("rack"));
    assert_eq!(label_of("JobSet", &[of_server]), None);
    assert_eq!(label_of("Job", &[of_job_set]), None);
    // Its pods then select nodes that an administrator has labelled.
    assert_eq!(label_of("JobSet", &[of_job_set, ("alpha.jobset.sigs.k8s.io/node-selector", "true")]), None);
    assert_eq!(label_of("JobSet", &[(of_job_set.0, &"x".repeat(318))]), None, "no label is so long");
}

/// Each node is a part of the cluster by itself, and it is said so.
#[test]
fn a_group_may_have_a_node_to_itself() {
    let by_node = |mut pod: Value| {
        for kind in ["podAffinity", "podAntiAffinity"] {
            pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"] =
                HOSTNAME.into();
        }
        pod
    };
    let beside = |on: &[&str]| {
        let placed = on.iter().enumerate().map(|(n, on)| by_node(leader(&format!("a{n}"), Some(on))));
        planned(placed.chain([by_node(leader("b", None))]).collect())
    };
    assert_eq!(beside(&["n1"]), "n2");
    let said = beside(&["n1", "n2", "n3"]);
    assert!(
        said.ends_with(
            "node n1 has pods of another group, and one of the two groups is to have the node alone (exclusive placement)"
        ),
        "{said}"
    );
}

/// Anything else that a term says of others is not read: a node is ruled out only where the scheduler rules it out.
#[test]
fn a_term_that_says_something_else_rules_nothing_out() {
    let read = |change: &dyn Fn(&mut Value)| {
        let mut pod = leader("b", None);
        change(
            &mut pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                [0],
        );
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        rules(&pod).len()
    };
    // That it is near its own, that it is alone, and that it is of its job.
    assert_eq!(read(&|_| ()), 3);
    let expressions =
        |all: Value| move |term: &mut Value| term["labelSelector"]["matchExpressions"] = all.clone();
    for (why, change) in [
        ("those without a label too", json!([expression(JOB, "NotIn", "b"), expression(JOB, "NotIn", "c")])),
        (
            "two may be there",
            json!([expression(JOB, "Exists", ""),
            {"key": JOB, "operator": "NotIn", "values": ["b", "c"]}]),
        ),
        (
            "some jobs only",
            json!([expression(JOB, "Exists", ""), expression(JOB, "NotIn", "b"), expression(JOB, "In", "c")]),
        ),
        (
            "of another priority",
            json!([
                expression(JOB, "Exists", ""),
                expression(JOB, "NotIn", "b"),
                expression(PRIORITY, "In", "7")
            ]),
        ),
    ] {
        assert_eq!(read(&expressions(change)), 2, "{why}");
    }
    // One without the label is of no group.
    let stranger = json!([expression("job", "Exists", ""), expression("job", "NotIn", "b")]);
    assert_eq!(read(&expressions(stranger)), 2);
    assert_eq!(read(&|term| term["labelSelector"]["matchLabels"] = json!({"app": "x"})), 2);
    assert_eq!(read(&|term| term["namespaces"] = json!(["rivals"])), 2);
    assert_eq!(read(&|term| term["namespaceSelector"] = json!({"matchLabels": {"team": "x"}})), 2);
    assert_eq!(read(&|term| term["matchLabelKeys"] = json!(["app"])), 2);
    assert_eq!(read(&|term| term["mismatchLabelKeys"] = json!(["app"])), 2);
}

/// The operator keeps a note of the rules, and no labels: both say the same.
#[test]
fn what_is_noted_says_what_the_pods_say() {
    let kept = |full: &Value| {
        let read: Pod = serde_json::from_value(full.clone()).expect("a pod");
        let (key, note) = noted(&rules(&read)).expect("it has rules");
        let mut kept = full.clone();
        kept["metadata"]["annotations"] = json!({key: note});
        kept["metadata"]["labels"] = Value::Null;
        kept["spec"]["affinity"] = Value::Null;
        let again: Pod = serde_json::from_value(kept.clone()).expect("a pod");
        assert_eq!(rules(&again), rules(&read));
        kept
    };
    let firsts = [leader("a", Some("n1")), follower("a", Some("n1")), elsewhere(follower("a", Some("n2")))];
    for first in firsts {
        assert_eq!(planned(vec![kept(&first), kept(&leader("b", None))]), "n3", "{first}");
        assert_eq!(planned(vec![kept(&first), kept(&follower("a", None))]), "n1", "{first}");
    }
    let groups = [leader_of_group("a", Some("n1")), worker("a", Some("n1"))];
    for first in groups {
        assert_eq!(planned(vec![kept(&first), kept(&leader_of_group("b", None))]), "n3", "{first}");
        assert_eq!(planned(vec![kept(&elsewhere(first)), kept(&leader_of_group("b", None))]), "n1");
    }
}
