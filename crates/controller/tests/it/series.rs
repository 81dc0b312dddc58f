//! The number of series of a large fleet depends on its nodes and policies, and not on the number or kind
//! of requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller::gauges;
use controller::metrics::Metrics;
use k8s_openapi::api::core::v1::{Node, Pod};
use observe::Objects;
use reconcile::{Input, Settings, round};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What each GPU of the fleet is cut into, of two on a node.
const LAYOUT: [(&str, u32); 3] = [("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)];

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str) -> Node {
    let mut labels = json!({
        "pool": "research",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/gpu.deploy.mig-manager": "true",
        "nvidia.com/mig.config": "all-balanced",
        "nvidia.com/mig.config.state": "success",
    });
    let mut allocatable = json!({"cpu": "64", "memory": "512Gi", "pods": "110"});
    for (profile, each) in LAYOUT {
        labels[format!("nvidia.com/mig-{profile}.count")] = json!((2 * each).to_string());
        allocatable[format!("nvidia.com/mig-{profile}")] = json!((2 * each).to_string());
    }
    read(json!({
        "metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": "1", "labels": labels},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "bootID": "b-1", "architecture": "amd64", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux",
                "osImage": "", "systemUUID": "",
            },
        },
    }))
}

/// A pod that holds a slice on a node, or that the scheduler cannot place.
fn pod(namespace: &str, name: &str, profile: &str, on: Option<&str>) -> Pod {
    let status = match on {
        Some(_) => json!({"phase": "Running"}),
        None => json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1000 nodes are available"}]}),
    };
    read(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("u-{namespace}-{name}"),
            "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {
            "limits": {format!("nvidia.com/mig-{profile}"): "1"}}}]},
        "status": status,
    }))
}

/// A fleet in which somebody holds a slice of every third node, and as many
/// wait as `waiting` says, each in a namespace of their own: some for what
/// there is, some for what no GPU has.
fn fleet(nodes: usize, waiting: usize) -> Objects {
    let mut objects = Objects::default();
    objects.policies.insert(
        "research".to_owned(),
        read(json!({
            "apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy",
            "metadata": {"name": "research", "generation": 1, "uid": "u-research"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "research"}}, "layout": {"type": "DemandDriven"}},
        })),
    );
    objects.cluster_policies.insert(
        "gpu-cluster-policy".to_owned(),
        read(json!({"metadata": {"name": "gpu-cluster-policy"}, "spec": {
            "mig": {"strategy": "mixed"},
            "migManager": {"enabled": true, "config": {"name": rollout::names::MAP_NAME}},
        }})),
    );
    let pods = &mut objects.pods;
    let mut add = |pod: Pod| {
        let key = (pod.metadata.namespace.clone().unwrap(), pod.metadata.name.clone().unwrap());
        pods.insert(key, Arc::new(pod));
    };
    for i in 0..nodes {
        let name = format!("gpu-{i:04}");
        if i % 3 == 0 {
            add(pod("team", &format!("holds-{i}"), LAYOUT[i % LAYOUT.len()].0, Some(&name)));
        }
        objects.nodes.insert(name.clone(), Arc::new(node(&name)));
    }
    for i in 0..waiting {
        let profile = if i % 2 == 0 { "7g.80gb".to_owned() } else { format!("1g.{}gb", 100 + i) };
        add(pod(&format!("team-{i}"), "waits", &profile, None));
    }
    objects
}

/// Sets the gauges to what a round finds in a fleet, and says which series
/// there are then.
fn series(metrics: &Metrics, objects: &Objects) -> Vec<String> {
    let found = round(&Input {
        objects,
        local: &BTreeMap::new(),
        map_changed: None,
        obstacles: &reconcile::Obstacles::NONE,
        settings: &Settings::default(),
        now: "2026-11-21T09:00:00Z".parse().unwrap(),
    });
    gauges::set(metrics, objects, &found);
    metrics.render().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn of_nodes(series: &[String]) -> usize {
    series.iter().filter(|line| line.contains("node=\"")).count()
}

/// A node's series at most: each profile in each of the states that it can be
/// in, its phase, and what holds it.
const MOST_OF_A_NODE: usize = LAYOUT.len() * 3 + 2;

#[test]
fn a_thousand_nodes_have_few_series_each_and_leave_none_behind() {
    let metrics = Metrics::new();
    let all = series(&metrics, &fleet(1000, 20));
    let (nodes, others) = (of_nodes(&all), all.len() - of_nodes(&all));
    let bytes = metrics.render().len();
    println!("1,000 nodes: {nodes} series of nodes, {others} others, {bytes} bytes");
    assert!((3000..=1000 * MOST_OF_A_NODE).contains(&nodes), "{nodes} series of nodes");
    assert!(others < 100, "{others} series that are not about a node");
    // Four times what it is: names grow, and so does what is said of a node.
    assert!(bytes < 1_000_000, "{bytes} bytes a scrape");

    let fewer = series(&metrics, &fleet(10, 20));
    assert!(of_nodes(&fewer) <= 10 * MOST_OF_A_NODE, "{} series of nodes", of_nodes(&fewer));
    assert!(fewer.iter().all(|line| !line.contains("gpu-0999")));
}

#[test]
fn however_many_people_ask_and_for_whatever_the_series_are_the_same() {
    let names = |waiting| {
        let all = series(&Metrics::new(), &fleet(10, waiting));
        let name = |line: &String| line.rsplit_once(' ').unwrap().0.to_owned();
        all.iter().map(name).filter(|name| !name.contains("node=")).collect::<BTreeSet<_>>()
    };
    let few = names(40);
    assert!(few.iter().any(|name| name.contains(r#"profile="other""#)), "{few:#?}");
    assert_eq!(few, names(400));
}
