//! A pod is planned for where its volumes are, and where the other resources that it asks for are free.

use crate::words::*;
use planner::decide::decide;
use planner::report::{Outcome, RequestReport, Why};
use serde_json::{Value, json};

/// Three nodes of eight GPUs, cut into the smallest slices; somebody holds one of each node.
fn fleet() -> Vec<Value> {
    let node = |(name, zone): (&str, &str)| {
        let mut node = cut(node(name), "all-1g.10gb", &[("mig-1g.10gb", 56)]);
        node["metadata"]["labels"]["nvidia.com/gpu.count"] = "8".into();
        node["metadata"]["labels"]["zone"] = zone.into();
        node
    };
    let mut all: Vec<Value> = [("n1", "a"), ("n2", "b"), ("n3", "b")].map(node).into();
    all.extend(
        ["n1", "n2", "n3"].map(|on| pod("held", &format!("on-{on}"), &[("mig-1g.10gb", 1)], Some(on))),
    );
    all.push(policy("fleet"));
    all
}

/// A volume that only nodes with this value of a label can have, bound to a claim.
fn volume(claim: (&str, &str), key: &str, value: &str) -> [Value; 2] {
    let name = format!("pv-{}-{}", claim.0, claim.1);
    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": claim.0, "name": claim.1}, "spec": {"volumeName": name}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}),
    ]
}

fn with_claims(mut pod: Value, claims: &[&str]) -> Value {
    let volumes =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod["spec"]["volumes"] = volumes.collect();
    pod
}

fn wants(name: &str) -> Value {
    pod("team", name, &[("mig-1g.10gb", 1)], None)
}

fn asks_for(mut pod: Value, resource: &str, n: u32) -> Value {
    pod["spec"]["containers"][0]["resources"]["limits"][resource] = n.to_string().into();
    pod
}

/// Where each request is served, or why not.
#[track_caller]
fn planned(objects: &[Value]) -> Vec<String> {
    let mut all = fleet();
    all.extend(objects.iter().cloned());
    let seen = see(&all);
    let decision = decide(&seen.inventory, &seen.requests, &seen.policies);
    let answer = |request: &RequestReport| match &request.outcome {
        Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } => {
            format!("{} on {node}", request.id.name)
        }
        Outcome::Unserved { why, help } => {
            assert_eq!(why, &Why::NoEligibleNode);
            let help: Vec<_> = help.iter().map(ToString::to_string).collect();
            format!("{}: {why}; {}", request.id.name, help.join(" or "))
        }
    };
    decision.report.requests.iter().map(answer).collect()
}

#[test]
fn a_pod_is_served_where_its_local_disk_is() {
    assert_eq!(planned(&[wants("lab")]), ["lab on n1"], "without a volume");
    let mut objects = vec![with_claims(wants("lab"), &["data", "scratch"])];
    objects.extend(volume(("team", "data"), "kubernetes.io/hostname", "n3"));
    assert_eq!(planned(&objects), ["lab on n3"]);
    // Another claim of the same name is another team's.
    let mut others = vec![with_claims(wants("lab"), &["data"])];
    others.extend(volume(("rivals", "data"), "kubernetes.io/hostname", "n3"));
    assert_eq!(planned(&others), ["lab on n1"]);
    // One that is not bound, or can be anywhere, says nothing.
    let unbound = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "team", "name": "data"}, "spec": {"storageClassName": "local"}});
    assert_eq!(planned(&[with_claims(wants("lab"), &["data"]), unbound]), ["lab on n1"]);
    let mut anywhere = volume(("team", "data"), "kubernetes.io/hostname", "n3");
    anywhere[1]["spec"] = json!({"nfs": {"server": "s", "path": "/"}});
    let [claim, disk] = anywhere;
    assert_eq!(planned(&[with_claims(wants("lab"), &["data"]), claim, disk]), ["lab on n1"]);
}

#[test]
fn each_of_several_volumes_has_to_be_there() {
    let both = |second: (&str, &str)| {
        let mut objects = vec![with_claims(wants("lab"), &["data", "cache"])];
        objects.extend(volume(("team", "data"), "zone", "b"));
        objects.extend(volume(("team", "cache"), second.0, second.1));
        planned(&objects)
    };
    assert_eq!(both(("zone", "b")), ["lab on n2"]);
    assert_eq!(both(("kubernetes.io/hostname", "n3")), ["lab on n3"]);
    assert_eq!(
        both(("kubernetes.io/hostname", "n1")),
        [
            "lab: no node fits its selector, affinity, tolerations, volumes and other resources; use a volume that nodes with such slices can have: node n2 cannot have the volume of claim cache, which is on nodes with kubernetes.io/hostname In (n1)"
        ]
    );
}

#[test]
fn an_ephemeral_volume_has_a_claim_that_is_called_after_the_pod() {
    let mut lab = wants("lab-0");
    lab["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    let mut objects = vec![lab];
    objects.extend(volume(("team", "lab-0-scratch"), "kubernetes.io/hostname", "n2"));
    assert_eq!(planned(&objects), ["lab-0 on n2"]);
}

#[test]
fn a_workbench_without_a_pod_is_planned_for_where_its_volume_is() {
    let mut lab = notebook("team", "lab");
    lab["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "lab", "persistentVolumeClaim": {"claimName": "lab-storage"}}]);
    let mut objects = vec![lab];
    objects.extend(volume(("team", "lab-storage"), "zone", "b"));
    assert_eq!(planned(&objects), ["lab on n2"]);
}

#[test]
fn network_interfaces_that_pods_hold_are_not_free() {
    let mut objects = fleet();
    for node in objects.iter_mut().filter(|object| object["kind"] == "Node") {
        let n = if node["metadata"]["name"] == "n1" { "1" } else { "2" };
        node["status"]["allocatable"]["rdma/hca"] = n.into();
    }
    // One that has no GPU holds the only one of n1, and one with a slice one of n2; one that has ended holds nothing.
    objects.push(asks_for(pod("net", "router", &[], Some("n1")), "rdma/hca", 1));
    objects.push(asks_for(pod("team", "old", &[("mig-1g.10gb", 1)], Some("n2")), "rdma/hca", 1));
    let mut ended = asks_for(pod("team", "gone", &[], Some("n3")), "rdma/hca", 2);
    ended["status"]["phase"] = "Succeeded".into();
    objects.push(ended);
    let with = |n: u32| {
        let mut all = objects.clone();
        all.push(asks_for(wants("lab"), "rdma/hca", n));
        let seen = see(&all);
        let decision = decide(&seen.inventory, &seen.requests, &seen.policies);
        decision.report.requests[0].outcome.clone()
    };
    let on = |outcome: Outcome| match outcome {
        Outcome::ServedNow { node, .. } => Some(node.0),
        _ => None,
    };
    assert_eq!(on(with(1)).as_deref(), Some("n2"));
    assert_eq!(on(with(2)).as_deref(), Some("n3"));
    let Outcome::Unserved { why, help } = with(3) else { panic!("no node has three") };
    assert_eq!(why, Why::NoEligibleNode);
    assert_eq!(
        help.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["ask for less of rdma/hca, or free it: node n1 has 0 of rdma/hca free (wanted: 3)"]
    );
}

#[test]
fn what_nobody_asks_for_makes_no_node_different() {
    let mut objects = fleet();
    objects[1]["status"]["allocatable"]["rdma/hca"] = "8".into();
    objects.push(wants("lab"));
    let seen = see(&objects);
    assert!(seen.inventory.nodes.values().all(|node| node.other_resources.is_empty()));
}
