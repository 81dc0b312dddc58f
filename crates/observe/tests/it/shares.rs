//! Shares of labels of namespaces: the labels of those who hold slices come from the Namespace objects.

use planner::decide::decide;
use planner::report::Outcome;
use serde_json::{Value, json};

use crate::words::*;

/// A node with eight GPUs, each of which is one slice.
fn eight(name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = "8".into();
    cut(node, "all-7g.80gb", &[("mig-7g.80gb", 8)])
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "kubernetes.io/metadata.name": name, "team": team,
    }}})
}

/// The namespaces `sound` and `sight` are of one team, which may have two whole GPUs. Each holds one, on another node.
#[test]
fn what_the_namespaces_of_a_team_hold_counts_for_the_share_of_its_label() {
    let whole = [("mig-7g.80gb", 1)];
    let mut shared = policy("research");
    shared["spec"]["layout"]["demandDriven"] = json!({"shares": [
        {"namespaceSelector": {"matchLabels": {"team": "media"}}, "maxComputeSlices": 14},
    ]});
    let seen = see(&[
        eight("n1"),
        eight("n2"),
        namespace("sound", "media"),
        namespace("sight", "media"),
        namespace("text", "words"),
        pod("sound", "holds", &whole, Some("n1")),
        pod("sight", "holds", &whole, Some("n2")),
        pod("sound", "waits", &whole, None),
        pod("text", "waits", &whole, None),
        shared,
    ]);
    assert_eq!(texts(&seen.problems), [""; 0]);
    let labels = |name: &str| seen.inventory.namespaces[name]["team"].as_str();
    assert_eq!((labels("sound"), labels("sight")), ("media", "media"));
    let report = decide(&seen.inventory, &seen.requests, &seen.policies).report;
    let served =
        |report: &&planner::report::RequestReport| matches!(report.outcome, Outcome::ServedNow { .. });
    let served: Vec<String> = report.requests.iter().filter(served).map(|r| r.id.to_string()).collect();
    assert_eq!(served, ["Pod text/waits"]);
}
