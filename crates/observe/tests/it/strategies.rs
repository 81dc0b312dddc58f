//! The effect of the MIG strategy of the cluster, and of a node, on policies.

use planner::inventory::Hold;
use serde_json::{Value, json};

use crate::words::{cut, node, node_of, pod, policy, see, slices};

#[test]
fn under_strategy_single_a_demand_driven_policy_is_told_how_to_go_on() {
    let mut n1 = cut(node("n1"), "all-1g.10gb", &[("gpu", 7)]);
    n1["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single".into();
    n1["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb".into();
    n1["metadata"]["labels"]["nvidia.com/gpu.count"] = "7".into();
    let workbench = pod("a", "jupyter", &[("gpu", 7)], Some("n1"));
    // Nobody's: known, and left as it is.
    let seen = see(&[n1.clone(), workbench]);
    let found = node_of(&seen, "n1");
    assert_eq!(found.gpus.len(), 1);
    assert_eq!(slices(found, 0), ["1g.10gb in use by a/jupyter"; 7]);
    assert_eq!(found.hold, None);
    // A policy of other nodes has no say, however important it is.
    let mut elsewhere = policy("elsewhere");
    elsewhere["spec"]["nodeSelector"] = json!({"matchLabels": {"pool": "elsewhere"}});
    elsewhere["spec"]["priority"] = 9.into();
    assert_eq!(node_of(&see(&[n1.clone(), elsewhere]), "n1").hold, None);
    // A demand-driven policy's: refused, with the command.
    let seen = see(&[n1, policy("research")]);
    let Some(Hold::NotEstablished { why }) = &node_of(&seen, "n1").hold else { panic!("it is held") };
    assert!(
        why.contains("kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge"),
        "{why}"
    );
}

/// `ClusterPolicy` may leave the strategy open: then the device plugin's own
/// configuration says it, or there is none, and slices would never be offered.
#[test]
fn a_strategy_that_the_cluster_leaves_open_is_what_nodes_show() {
    let open = json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"},
        "spec": {"migManager": {"enabled": true}},
    });
    let shows = |strategy: Option<&str>| {
        let mut n1 = node("n1");
        let labels = n1["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("nvidia.com/mig.strategy");
        labels.extend(strategy.map(|strategy| ("nvidia.com/mig.strategy".to_owned(), strategy.into())));
        n1
    };
    let hold = |objects: &[Value]| node_of(&see(objects), "n1").hold.clone();
    let Some(Hold::NotEstablished { why }) = hold(&[open.clone(), shows(None), policy("research")]) else {
        panic!("it would be cut for nobody")
    };
    assert!(why.contains("the MIG strategy is not `mixed`"), "{why}");
    assert!(why.ends_with("write `sharing: {type: None}` into it, which brings the strategy"), "{why}");
    assert_eq!(hold(&[open.clone(), shows(Some("mixed")), policy("research")]), None);
    // Each node has its own. What another one has says nothing of a node that feature discovery has labelled, and where
    // slices would never be offered.
    let mut other = shows(Some("mixed"));
    other["metadata"]["name"] = "n2".into();
    let all = [open.clone(), shows(None), other.clone(), policy("research")];
    assert!(matches!(hold(&all), Some(Hold::NotEstablished { .. })), "{:?}", hold(&all));
    // Labels are away while a node changes: others tell.
    let mut changing = shows(None);
    changing["metadata"]["labels"].as_object_mut().expect("labels").remove("nvidia.com/gpu.product");
    let seen = see(&[open, changing, other, policy("research")]);
    assert_eq!(seen.nodes[&planner::names::NodeName::from("n1")].strategy(), rollout::Strategy::Mixed);
    // Where there is no ClusterPolicy, nobody says anything.
    assert_eq!(hold(&[shows(None), policy("research")]), None);
}

/// A node that has no label yet is of the strategy that the cluster has: what
/// asks for a profile is not planned for there. What a node says itself counts
/// before that, since its device plugin may have a configuration of its own.
#[test]
fn the_strategy_of_a_node_is_its_own_or_else_the_clusters() {
    let single = |label: Option<&str>, cluster: &str| {
        let mut n1 = node("n1");
        let labels = n1["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("nvidia.com/mig.strategy");
        labels.extend(label.map(|strategy| ("nvidia.com/mig.strategy".to_owned(), strategy.into())));
        let cluster = json!({
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"},
            "spec": {"mig": {"strategy": cluster}, "migManager": {"enabled": true}},
        });
        node_of(&see(&[n1, cluster]), "n1").single_strategy
    };
    assert!(single(None, "single"));
    assert!(!single(None, "mixed"));
    assert!(single(Some("single"), "mixed"));
    assert!(!single(Some("mixed"), "single"));
}
