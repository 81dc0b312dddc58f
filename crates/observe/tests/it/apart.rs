//! Replicas that keep apart: none is planned for a node where the scheduler would not put it.

use crate::words::*;
use observe::apart::{NOTE, rules};
use planner::decide::decide;
use planner::report::{Outcome, RequestReport};
use serde_json::{Value, json};

/// Three nodes of eight GPUs that are cut into the smallest slices, in two zones; somebody holds one of each node.
pub(crate) fn fleet() -> Vec<Value> {
    let node = |(name, zone): (&str, &str)| {
        let mut node = cut(node(name), "all-1g.10gb", &[("mig-1g.10gb", 56)]);
        let labels = &mut node["metadata"]["labels"];
        labels["nvidia.com/gpu.count"] = "8".into();
        labels["kubernetes.io/hostname"] = format!("{name}.example").into();
        labels["topology.kubernetes.io/zone"] = zone.into();
        node
    };
    let mut all: Vec<Value> = [("n1", "a"), ("n2", "a"), ("n3", "b")].map(node).into();
    all.extend(
        ["n1", "n2", "n3"].map(|on| pod("held", &format!("on-{on}"), &[("mig-1g.10gb", 1)], Some(on))),
    );
    all.push(policy("fleet"));
    all
}

/// A replica of a model server, waiting or on a node, with a rule by which it keeps apart.
fn replica(name: &str, on: Option<&str>, rule: &Value) -> Value {
    let mut pod = pod("serving", name, &[("mig-1g.10gb", 1)], on);
    pod["metadata"]["labels"] = json!({"app": "llama", "pod-template-hash": "7d9"});
    for (field, value) in rule.as_object().expect("fields of a pod's spec") {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "llama"}})
}

/// No two of them with one value of a label of nodes.
fn anti_affinity(topology: &str) -> Value {
    let term = json!({"labelSelector": selector(), "topologyKey": topology});
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn spread(topology: &str, max_skew: u32) -> Value {
    json!({"topologySpreadConstraints": [{"labelSelector": selector(), "topologyKey": topology,
        "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule"}]})
}

/// Where the replica that waits is served, or why not.
#[track_caller]
pub(crate) fn planned(objects: Vec<Value>) -> String {
    let mut all = fleet();
    all.extend(objects);
    let seen = see(&all);
    let decision = decide(&seen.inventory, &seen.requests, &seen.policies);
    let [RequestReport { outcome, .. }] = decision.report.requests.as_slice() else {
        panic!("one request: {:?}", decision.report.requests)
    };
    match outcome {
        Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } => node.to_string(),
        Outcome::Unserved { why, help } => {
            let help: Vec<_> = help.iter().map(ToString::to_string).collect();
            format!("{why}; {}", help.join(" or "))
        }
    }
}

/// A replica that waits beside those on some nodes, all with the same rule.
fn beside(on: &[&str], rule: &Value) -> Vec<Value> {
    let placed = on.iter().enumerate().map(|(n, on)| replica(&format!("llama-{n}"), Some(on), rule));
    placed.chain([replica("llama-new", None, rule)]).collect()
}

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn a_replica_is_planned_for_a_node_that_has_none_yet() {
    let rule = anti_affinity(HOSTNAME);
    assert_eq!(planned(beside(&[], &rule)), "n1");
    assert_eq!(planned(beside(&["n1"], &rule)), "n2");
    assert_eq!(planned(beside(&["n1", "n2"], &rule)), "n3");
    assert_eq!(
        planned(beside(&["n1", "n2", "n3"], &rule)),
        "no node fits its selector, affinity, tolerations, volumes and other resources; add nodes with such slices, or \
         relax its pod affinity, anti-affinity or topology spread: node n1 has a pod of the same kind, from which its anti-affinity keeps it apart"
    );
    // By zone, one of them is enough for both nodes of the zone.
    assert_eq!(planned(beside(&["n2"], &anti_affinity(ZONE))), "n3");
}

#[test]
fn replicas_are_planned_for_where_there_are_fewest() {
    assert_eq!(planned(beside(&["n1"], &spread(HOSTNAME, 1))), "n2");
    assert_eq!(planned(beside(&["n1"], &spread(HOSTNAME, 2))), "n1", "one more than elsewhere is allowed");
    assert_eq!(planned(beside(&["n1", "n2", "n3"], &spread(HOSTNAME, 1))), "n1", "all have one");
    assert_eq!(planned(beside(&["n1"], &spread(ZONE, 1))), "n3");
    // A node that the pod does not select is no part of the cluster for it, and has none for it to make up for.
    let mut two = beside(&["n1"], &spread(HOSTNAME, 1));
    for pod in &mut two {
        pod["spec"]["nodeSelector"] = json!({HOSTNAME: "n1.example"});
    }
    assert_eq!(planned(two), "n1");
    // Whoever is being deleted does not count, but keeps others away where no two may be.
    let mut leaving = beside(&["n1"], &spread(HOSTNAME, 1));
    leaving[0]["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:10:00Z");
    assert_eq!(planned(leaving), "n1");
    let mut leaving = beside(&["n1"], &anti_affinity(HOSTNAME));
    leaving[0]["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:10:00Z");
    assert_eq!(planned(leaving), "n2");
}

#[test]
fn only_siblings_of_one_namespace_keep_apart() {
    let rule = anti_affinity(HOSTNAME);
    let first = |change: &dyn Fn(&mut Value)| {
        let mut all = beside(&["n1"], &rule);
        change(&mut all[0]);
        planned(all)
    };
    assert_eq!(first(&|_| ()), "n2");
    assert_eq!(first(&|pod| pod["metadata"]["namespace"] = "rivals".into()), "n1", "another namespace");
    assert_eq!(first(&|pod| pod["status"]["phase"] = "Succeeded".into()), "n1", "it has ended");
    assert_eq!(first(&|pod| pod["spec"]["affinity"] = Value::Null), "n1", "another kind of pod");
    // A rule that is not about the pod itself says nothing of its siblings.
    let others = |change: &dyn Fn(&mut Value)| {
        let mut rule = rule.clone();
        let terms =
            &mut rule["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        change(&mut terms[0]);
        planned(beside(&["n1"], &rule))
    };
    assert_eq!(others(&|term| term["labelSelector"] = json!({"matchLabels": {"app": "db"}})), "n1");
    assert_eq!(others(&|term| term["labelSelector"] = Value::Null), "n1");
    assert_eq!(others(&|term| term["namespaces"] = json!(["rivals"])), "n1");
    assert_eq!(others(&|term| term["namespaces"] = json!(["rivals", "serving"])), "n2");
    assert_eq!(others(&|term| term["namespaceSelector"] = json!({})), "n2", "all namespaces");
    assert_eq!(others(&|term| term["namespaceSelector"] = json!({"matchLabels": {"team": "x"}})), "n1");
    let in_set = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["llama", "opt"]},
        {"key": "canary", "operator": "DoesNotExist"}]});
    assert_eq!(others(&|term| term["labelSelector"] = in_set.clone()), "n2");
    assert_eq!(others(&|term| term["matchLabelKeys"] = json!(["pod-template-hash"])), "n2");
    // A preference is no rule.
    let mut soft = spread(HOSTNAME, 1);
    soft["topologySpreadConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway".into();
    assert_eq!(planned(beside(&["n1"], &soft)), "n1");
}

/// With `matchLabelKeys`, an update keeps apart among its own.
#[test]
fn revisions_with_label_keys_are_of_different_kinds() {
    let mut rule = spread(HOSTNAME, 1);
    rule["topologySpreadConstraints"][0]["matchLabelKeys"] = json!(["pod-template-hash"]);
    let mut all = beside(&["n1"], &rule);
    assert_eq!(planned(all.clone()), "n2");
    all[0]["metadata"]["labels"]["pod-template-hash"] = "old".into();
    assert_eq!(planned(all), "n1");
}

/// The operator keeps a note of the rules, and no labels: both say the same.
#[test]
fn what_is_noted_says_what_the_pod_says() {
    for rule in [anti_affinity(HOSTNAME), anti_affinity(ZONE), spread(ZONE, 3)] {
        let noted = beside(&["n1"], &rule).into_iter().map(|pod| {
            let read: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod.clone()).expect("a pod");
            let (key, note) = observe::apart::noted(&rules(&read)).expect("it has a rule");
            assert_eq!(key, NOTE);
            let mut kept = pod;
            kept["metadata"]["annotations"] = json!({key: note});
            kept["metadata"]["labels"] = Value::Null;
            kept["spec"]["affinity"] = Value::Null;
            kept["spec"]["topologySpreadConstraints"] = Value::Null;
            kept
        });
        assert_eq!(planned(noted.collect()), planned(beside(&["n1"], &rule)));
    }
    // What anybody else writes there is no rule, or is his own affair.
    for nonsense in
        ["", ",", "a", "a b", "a b c", "a 1", "a -1 zone", "a 4294967296 zone", &"x".repeat(10_000)]
    {
        let mut pod = replica("llama-new", None, &json!({}));
        pod["metadata"]["annotations"] = json!({NOTE: nonsense});
        assert_eq!(planned(vec![pod]), "n1", "{nonsense}");
    }
}

/// All of them where a label of nodes has one value.
fn affinity(topology: &str) -> Value {
    let term = json!({"labelSelector": selector(), "topologyKey": topology});
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn a_replica_that_has_to_be_beside_others_is_planned_for_their_zone() {
    assert_eq!(planned(beside(&["n3"], &affinity(ZONE))), "n3");
    assert_eq!(planned(beside(&["n2"], &affinity(HOSTNAME))), "n2");
    // Where none of them is yet, any zone will do; a node without the label is in none.
    assert_eq!(planned(beside(&[], &affinity(ZONE))), "n1");
    let said = planned(beside(&[], &affinity("example.com/rack")));
    assert!(said.contains("is not where its pod affinity wants it: by example.com/rack"), "{said}");
    // A rule about others is not read.
    let mut about_others = affinity(ZONE);
    about_others["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] =
        json!({"matchLabels": {"app": "cache"}});
    assert_eq!(planned(beside(&["n3"], &about_others)), "n1");
}

#[test]
fn what_a_pod_says_of_its_affinity_is_noted_where_its_labels_are_not_kept() {
    let pod: k8s_openapi::api::core::v1::Pod =
        serde_json::from_value(replica("llama-0", None, &affinity(ZONE))).expect("a pod");
    let read = rules(&pod);
    assert!(read.iter().all(observe::apart::Rule::is_together) && read.len() == 1, "{read:?}");
    let noted: std::collections::BTreeMap<_, _> = observe::apart::noted(&read).into_iter().collect();
    let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        annotations: Some(noted),
        ..Default::default()
    };
    let kept = k8s_openapi::api::core::v1::Pod { metadata, ..Default::default() };
    assert_eq!(rules(&kept), read);
}
