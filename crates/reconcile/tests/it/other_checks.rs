//! Workloads that have to pass checks of others, too, which may say where the pods are to run. The fleet is that of the
//! queues: two nodes with eight GPUs, of which the first has all of the small slices.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use reconcile::CheckState;
use serde_json::{Value, json};

use crate::queues::{HOSTNAME, SMALL, add, fleet, of_job, one, workload};

/// A job that has passed somebody else's check, which changes its pods so.
fn passed(update: Value) -> Value {
    let mut job = of_job(workload("job", SMALL, 1), "job");
    let mut theirs =
        json!({"name": "provisioning", "state": "Ready", "message": "", "podSetUpdates": [update]});
    theirs["podSetUpdates"][0]["name"] = "main".into();
    job["status"]["admissionChecks"].as_array_mut().unwrap().push(theirs);
    job
}

#[test]
fn the_nodes_that_another_check_has_chosen_are_those_that_are_planned_with() {
    let mut cluster = fleet();
    cluster.label("n2", "zone", Some("b"));
    add(&mut cluster, "Workload", passed(json!({"nodeSelector": {"zone": "b"}})));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
    assert!(answer.message.contains("n2 is to be changed"), "{}", answer.message);
}

/// Kueue ends a workload for good whose checks contradict each other.
#[test]
fn pods_are_kept_to_no_node_where_another_check_has_chosen_one() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", passed(json!({"nodeSelector": {HOSTNAME: "n1.cluster"}})));
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
}

#[test]
fn the_taints_that_another_check_lets_them_bear_keep_them_off_no_node() {
    let mut cluster = fleet();
    cluster.edit_node("n1", |node| {
        let taint = json!([{"key": "provisioned", "value": "yes", "effect": "NoSchedule"}]);
        node.spec.get_or_insert_default().taints = serde_json::from_value(taint).unwrap();
    });
    add(&mut cluster, "Workload", passed(json!({"labels": {"a": "b"}})));
    assert_eq!(one(&cluster).state, CheckState::Pending);
    let bears = json!({"tolerations": [{"key": "provisioned", "operator": "Exists"}]});
    add(&mut cluster, "Workload", passed(bears));
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

/// What it says before it has passed, it may say otherwise then.
#[test]
fn what_a_check_says_that_has_not_passed_does_not_count() {
    let mut cluster = fleet();
    let mut waits = passed(json!({"nodeSelector": {"zone": "b"}}));
    waits["status"]["admissionChecks"][1]["state"] = "Pending".into();
    add(&mut cluster, "Workload", waits);
    assert_eq!(one(&cluster).state, CheckState::Ready);
}
