//! How a fleet of which GPUs and slices are shared is drawn, explained and planned with: seats, who has them, and what
//! speaks against the way in which a policy shares a card.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cli::exit::Status;
use rollout::{Method, PluginConfig, Shared};
use serde_json::{Value, json};

use crate::plan::{fleet_file, run};

fn shared_by(resource: &str, replicas: u32) -> PluginConfig {
    let replicas = BTreeMap::from([(format!("nvidia.com/{resource}"), replicas)]);
    let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
    PluginConfig { strategy: None, sharing: Some(shared) }
}

/// A node of a pool that offers so many of a resource, under a configuration of ours if there is one.
fn node(
    name: &str,
    pool: &str,
    product: &str,
    gpus: u32,
    offers: (&str, u32),
    ours: Option<&PluginConfig>,
) -> Value {
    let mut labels = json!({
        "pool": pool, "kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": gpus.to_string(),
        "nvidia.com/mig.capable": product.contains("A100").to_string(), "nvidia.com/mig.strategy": "mixed",
    });
    if let Some(config) = ours {
        labels["nvidia.com/device-plugin.config"] = config.key().into();
    }
    let mut allocatable = json!({"cpu": "64", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": "0"});
    allocatable[format!("nvidia.com/{}", offers.0)] = offers.1.to_string().into();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, resource: &str, on: Option<&str>) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "team-a", "name": name, "creationTimestamp": "2026-11-20T07:30:00Z"},
        "spec": {"containers": [{"name": "work", "resources": {"limits": {format!("nvidia.com/{resource}"): "1"}}}]},
        "status": {"phase": "Running"}});
    match on {
        Some(node) => pod["spec"]["nodeName"] = node.into(),
        None => {
            pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "full"}]});
        }
    }
    pod
}

/// Four T4s that a policy shares by four, two L4s that somebody else does, two A100s that a policy shares whole, eight
/// that are cut into slices for two, and eight cut ones that nobody shares. People have some seats, and one more waits.
fn fleet(name: &str) -> String {
    let (whole, slices) = (shared_by("gpu", 4), shared_by("mig-1g.10gb", 2));
    let a100 = "NVIDIA-A100-SXM4-80GB";
    let mut l1 = node("l1", "theirs", "NVIDIA-L4-SHARED", 2, ("gpu", 6), None);
    l1["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "3".into();
    let mut a1 = node("a1", "research", a100, 8, ("mig-1g.10gb.shared", 112), Some(&slices));
    a1["metadata"]["labels"]["nvidia.com/mig-1g.10gb.replicas"] = "2".into();
    let mut a2 = node("a2", "teaching", a100, 8, ("mig-1g.10gb", 56), None);
    for node in [&mut a1, &mut a2] {
        node["metadata"]["labels"]["nvidia.com/mig.config"] = "all-1g.10gb".into();
        node["metadata"]["labels"]["nvidia.com/mig.config.state"] = "success".into();
        node["metadata"]["labels"]["nvidia.com/mig-1g.10gb.count"] = "56".into();
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {whole.key(): whole.render(), slices.key(): slices.render()}});
    let [notebooks, whole_gpus, research] = policies();
    let objects = json!([
        notebooks,
        whole_gpus,
        research,
        map,
        l1,
        a1,
        a2,
        node("t1", "notebooks", "Tesla-T4", 4, ("gpu.shared", 16), Some(&whole)),
        node("w1", "whole", a100, 2, ("gpu.shared", 8), Some(&whole)),
        pod("lab1", "gpu.shared", Some("t1")),
        pod("lab2", "gpu.shared", Some("t1")),
        pod("theirs", "gpu", Some("l1")),
        pod("small1", "mig-1g.10gb.shared", Some("a1")),
        pod("small2", "mig-1g.10gb.shared", Some("a1")),
        pod("small3", "mig-1g.10gb.shared", Some("a1")),
        pod("alone", "mig-1g.10gb", Some("a2")),
        pod("waits", "mig-2g.20gb.shared", None),
    ]);
    let snapshot = json!({"apiVersion": "snapshot.slicewright.io/v1", "kind": "Snapshot", "cluster": "lab",
        "takenAt": "2026-11-20T08:00:00Z", "objects": objects});
    fleet_file(name, &snapshot.to_string())
}

/// A policy for each pool.
fn policies() -> [Value; 3] {
    let policy = |pool: &str, layout: &Value, resource: &str, replicas: u32| {
        json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy", "metadata": {"name": pool},
            "spec": {"nodeSelector": {"matchLabels": {"pool": pool}}, "layout": layout, "sharing": {
                "type": "TimeSlicing", "rules": [{"resource": resource, "replicas": replicas}]}}})
    };
    let slices = json!([{"profile": "1g.10gb", "count": 7}]);
    let small = json!({"type": "Static", "static": {"gpus": [{"slices": slices}]}});
    let none = json!({"type": "None"});
    [
        policy("notebooks", &none, "nvidia.com/gpu", 4),
        policy("whole", &none, "nvidia.com/gpu", 4),
        policy("research", &small, "nvidia.com/mig-1g.10gb", 2),
    ]
}

/// The words that name a fleet and its policies, in files of a test.
pub(crate) fn files(name: &str) -> String {
    let fleet = fleet(name);
    let path = Path::new(&fleet).with_file_name("policies.yaml");
    let texts: Vec<String> = policies().iter().map(ToString::to_string).collect();
    fs::write(&path, texts.join("\n---\n")).unwrap();
    format!("--fleet {fleet} -f {}", path.display())
}

/// What a command says; each of these lines must be among it.
#[track_caller]
fn says(command: &str, expect: &[&str]) -> String {
    let (status, out, err) = run(command);
    assert!(matches!(status, Status::Success | Status::Changes), "{status:?}: {err}");
    for line in expect {
        assert!(out.lines().any(|found| found == *line), "{line:?} is missing in:\n{out}{err}");
    }
    out
}

#[test]
fn the_fleet_is_drawn_with_the_seats_of_each_node_whoever_shares_it() {
    let fleet = fleet("seats-drawn");
    let out = says(
        &format!("fleet --fleet {fleet}"),
        &[
            "  seats  4 x T4, each shared by 4, as nvidia.com/gpu.shared: 16 seats, 2 held, 14 free",
            "  seats  2 x L4, each shared by 3, as nvidia.com/gpu: 6 seats, 1 held, 5 free",
            "  seats  2 x A100-80GB, each shared by 4, as nvidia.com/gpu.shared: 8 seats, 0 held, 8 free",
            "  seats  56 x 1g.10gb, each shared by 2, as nvidia.com/mig-1g.10gb.shared: 112 seats, 3 held, 109 free",
        ],
    );
    assert_eq!(out.matches("seats  ").count(), 4, "slices for one pod each are no seats:\n{out}");
}

#[test]
fn the_pictures_and_the_page_show_the_seats_of_cut_and_of_uncut_nodes() {
    let fleet = fleet("seats-pictures");
    for output in ["svg", "html"] {
        let (_, out, _) = run(&format!("fleet -o {output} --fleet {fleet}"));
        for shown in [
            ">t1</text>",
            ">4 x T4, each shared by 4, as nvidia.com/gpu.shared: 16 seats, 2 held, 14 free</text>",
            ">56 x 1g.10gb, each shared by 2, as nvidia.com/mig-1g.10gb.shared: 112 seats, 3 held, 109 free</text>",
        ] {
            assert!(out.contains(shown), "{output}: {shown} is missing in:\n{out}");
        }
        assert_eq!(out.matches(">seats</text>").count(), 4, "slices for one pod each are no seats:\n{out}");
    }
    let (_, page, _) = run(&format!("fleet -o html --fleet {fleet}"));
    assert!(page.contains(": 5 nodes with 24 GPUs, 1 requests that wait."), "{page}");
}

#[test]
fn programs_read_the_seats_of_slices_that_several_pods_share() {
    let (_, out, _) = run(&format!("fleet -o json --fleet {}", fleet("shared-slices-json")));
    let json: Value = serde_json::from_str(&out).unwrap();
    let shared: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|node| &node["sharedSlices"]).collect();
    let expect = json!([{"profile": "1g.10gb", "slices": 56, "replicas": 2,
        "resource": "nvidia.com/mig-1g.10gb.shared", "total": 112, "held": 3}]);
    assert!(shared.contains(&&expect), "{shared:?}");
    assert!(shared.contains(&&json!([])), "one pod each: {shared:?}");
}

#[test]
fn programs_read_the_seats_of_gpus_that_are_not_cut_with_their_holders() {
    let (_, out, _) = run(&format!("fleet -o json --fleet {}", fleet("seats-json")));
    let json: Value = serde_json::from_str(&out).unwrap();
    let seats = json["seats"].as_array().unwrap();
    let t1 = seats.iter().find(|of| of["node"] == "t1").unwrap();
    let by = json!([{"pod": "team-a/lab1", "seats": 1}, {"pod": "team-a/lab2", "seats": 1}]);
    let expect = json!({"node": "t1", "schedulable": true, "card": "T4", "gpus": 4, "replicas": 4,
        "resource": "nvidia.com/gpu.shared", "total": 16, "held": 2, "by": by});
    assert_eq!(*t1, expect);
    let files = files("seats-json");
    let (_, out, _) = run(&format!("explain node l1 -o json {files}"));
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["node"]["seats"]["total"], &json["node"]["seats"]["held"]), (&json!(6), &json!(1)));
}

#[test]
fn a_node_is_explained_with_what_shares_it_its_seats_and_who_has_them() {
    let files = files("seats-of-a-node");
    says(
        &format!("explain node t1 {files}"),
        &[
            "t1 (policy notebooks)",
            "  sharing: each GPU is shared by 4, as nvidia.com/gpu.shared, with no memory limit of its own, by policy notebooks",
            "  seats: 4 x T4, each shared by 4, as nvidia.com/gpu.shared: 16 seats, 2 held, 14 free",
            "         1 held by team-a/lab1",
            "         1 held by team-a/lab2",
            "  how to share T4 (bare metal, as far as labels say):",
        ],
    );
    says(
        &format!("explain node a1 {files}"),
        &[
            "  sharing: each 1g.10gb slice is shared by 2, as nvidia.com/mig-1g.10gb.shared, with no memory limit of its own, by policy research",
            "  seats: 56 x 1g.10gb, each shared by 2, as nvidia.com/mig-1g.10gb.shared: 112 seats, 3 held, 109 free",
        ],
    );
    // Nobody's policy, and yet its seats and what suits the card are known.
    says(
        &format!("explain node l1 {files}"),
        &[
            "l1 has no GPU with MIG, so nothing is planned for it",
            "  seats: 2 x L4, each shared by 3, as nvidia.com/gpu: 6 seats, 1 held, 5 free",
            "         1 held by team-a/theirs",
        ],
    );
}

#[test]
fn what_speaks_against_the_way_in_which_a_policy_shares_a_card_is_said_where_it_does_so_and_nowhere_else() {
    let files = files("seats-warnings");
    let warnings = |node: &str| {
        let out = says(&format!("explain node {node} {files}"), &[]);
        let found = out.lines().filter(|line| line.contains("WARNING"));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = warnings("w1");
    assert_eq!(whole.len(), 1, "{whole:?}");
    let begins = "  WARNING: policy whole shares whole GPUs of A100-80GB by time-slicing, without memory of their own for pods; MIG is recommended: ";
    assert!(whole[0].starts_with(begins), "{whole:?}");
    for node in ["t1", "a1", "a2"] {
        assert_eq!(warnings(node), [""; 0], "{node}");
    }
}

#[test]
fn supply_of_a_policy_counts_seats_beside_slices() {
    let files = files("seats-of-a-policy");
    says(
        &format!("explain policy notebooks {files}"),
        &[
            "  nvidia.com/gpu.shared: 16 seats on 4 devices, 2 held, 16 planned, 0 asked for, 0 of these unserved",
        ],
    );
    says(
        &format!("explain policy research {files}"),
        &[
            "  nvidia.com/mig-1g.10gb.shared: 112 seats on 56 devices, 3 held, 112 planned, 0 asked for, 0 of these unserved",
        ],
    );
    let out = says(
        &format!("plan {files}"),
        &["Seats, policy notebooks", "Seats, policy research", "Seats, policy whole"],
    );
    let row = |resource: &str, at: &str| {
        let table = out.split(&format!("Seats, policy {at}\n")).nth(1).unwrap();
        let row = table.lines().find(|line| line.trim_start().starts_with(resource)).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("nvidia.com/gpu.shared", "notebooks"), "nvidia.com/gpu.shared 4 16 2 14 16 0 0");
    assert_eq!(
        row("nvidia.com/mig-1g.10gb.shared", "research"),
        "nvidia.com/mig-1g.10gb.shared 56 112 3 109 112 0 0"
    );
    says(
        &format!("plan -o markdown {files}"),
        &["| `research` | `nvidia.com/mig-1g.10gb.shared` | 56 | 112 | 3 | 112 | 0 | 0 |"],
    );
}
