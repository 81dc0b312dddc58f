//! Seats as series: of GPUs that several pods share, and of slices, by node, resource and whether a pod has them. Whole
//! GPUs beside slices are one more profile of each series.

use std::collections::BTreeMap;

use controller::gauges;
use controller::metrics::Metrics;
use observe::{Objects, manifest};
use reconcile::{Input, Settings, round};
use rollout::{Method, PluginConfig, Shared};
use serde_json::{Value, json};

fn shared_by(resource: &str, replicas: u32) -> PluginConfig {
    let replicas = BTreeMap::from([(format!("nvidia.com/{resource}"), replicas)]);
    let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
    PluginConfig { strategy: None, sharing: Some(shared) }
}

fn node(name: &str, product: &str, gpus: u32, offers: (&str, u32)) -> Value {
    let mut allocatable = json!({"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "0"});
    allocatable[format!("nvidia.com/{}", offers.0)] = offers.1.to_string().into();
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.count": gpus.to_string(), "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.capable": product.contains("A100").to_string(),
        }},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, resource: &str, on: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team-a", "name": name},
        "spec": {"nodeName": on, "containers": [{"name": "work", "resources": {
            "limits": {format!("nvidia.com/{resource}"): "1"}}}]},
        "status": {"phase": "Running"}})
}

/// The series of seats of a fleet, with their numbers.
fn seats(metrics: &Metrics, all: &[Value]) -> Vec<String> {
    let lines = series(metrics, all);
    lines.iter().filter_map(|line| line.strip_prefix("slicewright_seats")).map(str::to_owned).collect()
}

/// All series of a fleet, with their numbers.
fn series(metrics: &Metrics, all: &[Value]) -> Vec<String> {
    let (mut objects, mut problems) = (Objects::default(), Vec::new());
    for object in all {
        manifest::read(&mut objects, "fleet.yaml", &object.to_string(), &mut problems);
    }
    assert_eq!(problems, []);
    let found = round(&Input {
        objects: &objects,
        local: &BTreeMap::new(),
        map_changed: None,
        obstacles: &reconcile::Obstacles::NONE,
        settings: &Settings::default(),
        now: "2026-11-21T09:00:00Z".parse().unwrap(),
    });
    gauges::set(metrics, &objects, &found);
    metrics.render().lines().map(str::to_owned).collect()
}

#[test]
fn seats_are_counted_by_node_and_resource_and_go_with_their_node() {
    let mut l1 = node("l1", "NVIDIA-L4", 2, ("gpu.shared", 6));
    l1["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "3".into();
    let slices = shared_by("mig-1g.10gb", 2);
    let mut a1 = node("a1", "NVIDIA-A100-SXM4-80GB", 8, ("mig-1g.10gb.shared", 112));
    for (label, value) in [
        ("mig.config", "all-1g.10gb"),
        ("mig.config.state", "success"),
        ("mig-1g.10gb.count", "56"),
        ("mig-1g.10gb.replicas", "2"),
        ("device-plugin.config", &slices.key()),
    ] {
        a1["metadata"]["labels"][format!("nvidia.com/{label}")] = value.into();
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {slices.key(): slices.render()}});
    let t1 = node("t1", "Tesla-T4", 4, ("gpu", 4));
    let metrics = Metrics::new();
    let fleet = [
        map.clone(),
        l1.clone(),
        a1,
        t1,
        pod("lab1", "gpu.shared", "l1"),
        pod("lab2", "gpu.shared", "l1"),
        pod("train", "gpu", "t1"),
        pod("small", "mig-1g.10gb.shared", "a1"),
    ];
    let expect = [
        r#"{node="a1",profile="1g.10gb.shared",state="free"} 111"#,
        r#"{node="a1",profile="1g.10gb.shared",state="held"} 1"#,
        r#"{node="l1",profile="gpu.shared",state="free"} 4"#,
        r#"{node="l1",profile="gpu.shared",state="held"} 2"#,
        r#"{node="t1",profile="gpu",state="free"} 3"#,
        r#"{node="t1",profile="gpu",state="held"} 1"#,
    ];
    let mut found = seats(&metrics, &fleet);
    found.sort();
    assert_eq!(found, expect);
    // The others are taken out of the cluster.
    let mut found = seats(&metrics, &[map, l1]);
    found.sort();
    assert_eq!(
        found,
        [
            r#"{node="l1",profile="gpu.shared",state="free"} 6"#,
            r#"{node="l1",profile="gpu.shared",state="held"} 0"#
        ]
    );
}

/// Two nodes with eight A100s: the first two are whole, the others cut. A pod trains on both of one node, and one that
/// wants nine at once waits in vain. Five are promised on demand, and a queue has more quota than there are GPUs.
fn half_whole() -> Vec<Value> {
    let mut fleet: Vec<Value> = ["a1", "a2"]
        .map(|name| {
            let mut server = node(name, "NVIDIA-A100-SXM4-80GB", 8, ("mig-1g.10gb", 42));
            server["status"]["allocatable"]["nvidia.com/gpu"] = "2".into();
            for (label, value) in
                [("mig.config", "two-whole"), ("mig.config.state", "success"), ("mig-1g.10gb.count", "42")]
            {
                server["metadata"]["labels"][format!("nvidia.com/{label}")] = value.into();
            }
            server["metadata"]["labels"]["pool"] = "research".into();
            server
        })
        .into();
    let entries = "version: v1\nmig-configs:\n  two-whole:\n    - {devices: [0, 1], mig-enabled: false}\n    - {devices: [2, 3, 4, 5, 6, 7], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n";
    let mut train = pod("train", "gpu", "a1");
    train["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2".into();
    let mut large = pod("large", "gpu", "");
    large["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "9".into();
    large["spec"]["nodeName"] = Value::Null;
    large["status"] = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    let resources = json!([{"name": "nvidia.com/gpu", "nominalQuota": 20}]);
    fleet.extend([
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
            "data": {"config.yaml": entries}}),
        json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy",
            "metadata": {"name": "research"}, "spec": {
                "nodeSelector": {"matchLabels": {"pool": "research"}},
                "layout": {"type": "DemandDriven", "demandDriven": {"wholeGpus": {"minCount": 5}}}}}),
        train,
        large,
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a100"},
            "spec": {"nodeLabels": {"pool": "research"}}}),
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team"},
            "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "a100", "resources": resources}]}]}}),
    ]);
    fleet
}

#[test]
fn whole_gpus_beside_slices_are_a_profile_of_every_series() {
    let metrics = Metrics::new();
    let mut found = series(&metrics, &half_whole());
    found.retain(|line| line.contains(r#"profile="gpu""#) && !line.contains("_seconds"));
    found.sort();
    assert_eq!(
        found,
        [
            r#"slicewright_floor_missing_slices{policy="research",profile="gpu"} 1"#,
            r#"slicewright_floor_slices{policy="research",profile="gpu"} 5"#,
            r#"slicewright_pending_slice_requests{profile="gpu"} 9"#,
            r#"slicewright_queue_quota_drift{queue="team",flavor="a100",profile="gpu",kind="more_than_any_layout"} 4"#,
            r#"slicewright_slices{node="a1",profile="gpu",state="in_use"} 2"#,
            r#"slicewright_slices{node="a2",profile="gpu",state="free"} 2"#,
            r#"slicewright_unserved_requests{policy="research",profile="gpu",reason="TooLarge"} 1"#,
        ]
    );
}
