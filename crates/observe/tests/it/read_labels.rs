//! What the store of the operator lays aside of a node's labels changes nothing of what is observed.

use crate::words::*;
use observe::read_labels::{MANY, is_read};
use rollout::names;
use serde_json::{Value, json};

/// What some hundred labels of a real node look like, whose names nobody here reads.
const NOISE: [(&str, &str); 12] = [
    ("feature.node.kubernetes.io/cpu-cpuid.AVX512F", "true"),
    ("feature.node.kubernetes.io/kernel-version.major", "5"),
    ("nvidia.com/cuda.driver-version.full", "580.159.04"),
    ("nvidia.com/gpu.compute.major", "8"),
    ("nvidia.com/gpu.family", "ampere"),
    ("nvidia.com/gpu.mode", "compute"),
    ("nvidia.com/gpu.memory", "81920"),
    ("nvidia.com/gpu.deploy.gpu-feature-discovery", "true"),
    ("nvidia.com/mig-1g.10gb.engines.ofa", "0"),
    ("nvidia.com/mig-1g.10gb.replicas", "1"),
    ("nvidia.com/mig-1g.10gb.sharing-strategy", "none"),
    ("nvidia.com/mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
];

/// Each of them says something that is read. Among them are all that are
/// written down in `names.rs`, but for what only the command reads.
fn told() -> Vec<(&'static str, &'static str)> {
    vec![
        (names::MIG_CONFIG, "all-1g.10gb"),
        (names::MIG_CONFIG_STATE, "pending"),
        (names::MIG_CONFIG_STATE, "failed"),
        (names::MIG_STRATEGY, "single"),
        (names::MIG_CAPABLE, "false"),
        (names::PRODUCT, "Tesla-T4"),
        (names::PRESENT, "false"),
        (names::MACHINE, "NVIDIA-DGX-Station-A100"),
        (names::COUNT, "1"),
        (names::PLUGIN_CONFIG, "of-somebody"),
        (names::DEPLOY_MIG_MANAGER, "true"),
        (names::DEPLOY_DRA, "true"),
        (names::DRIVER_UPGRADE_STATE, "drain-required"),
        (names::CORDONED_BY, "slicewright"),
        (names::HOSTNAME, "another"),
        ("nvidia.com/gpu.deploy.driver", names::PAUSED_FOR_DRIVER),
        ("nvidia.com/gpu.deploy.gpu-feature-discovery", names::PAUSED_FOR_MIG),
        ("nvidia.com/gpu.deploy.device-plugin", "true"),
        ("nvidia.com/gpu.deploy.dcgm", names::PAUSED_FOR_US),
        ("nvidia.com/gpu.deploy.dcgm-exporter", "true"),
        ("nvidia.com/mig-1g.10gb.count", "7"),
        ("nvidia.com/gpu.replicas", "10"),
        ("nvidia.com/mig-1g.10gb.replicas", "2"),
        ("nvidia.com/gpu.sharing-strategy", "mps"),
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED"),
        ("nvidia.com/mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"),
        ("pool", "other"),
    ]
}

/// Two nodes with GPUs under a policy, one of them with these labels too.
fn fleet(labels: &[(&str, &str)], is_kept: fn(&str, &str) -> bool) -> String {
    let mut n1 =
        cut(node("n1"), "all-balanced", &[("mig-1g.10gb", 4), ("mig-2g.20gb", 2), ("mig-3g.40gb", 2)]);
    for (key, value) in labels {
        n1["metadata"]["labels"][*key] = (*value).into();
    }
    let mut nodes = [n1, node("n2")];
    for node in &mut nodes {
        let labels = node["metadata"]["labels"].as_object_mut().expect("it has labels");
        labels.retain(|key, value| is_kept(key, value.as_str().expect("a text")));
    }
    let holds = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team", "name": "holds", "uid": "u-holds"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main",
            "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
        "status": {"phase": "Running"},
    });
    let mut all: Vec<Value> = nodes.into();
    all.extend([holds, policy("research")]);
    let mut seen = see(&all);
    // What selectors name comes back: labels as such are no facts.
    seen.inventory.nodes.values_mut().for_each(|node| node.labels.retain(|key, value| is_read(key, value)));
    format!("{seen:#?}")
}

#[test]
fn what_is_laid_aside_of_a_node_changes_nothing_of_what_is_observed() {
    for said in told() {
        let mut labels = NOISE.to_vec();
        labels.retain(|(key, _)| *key != said.0);
        labels.push(said);
        let whole = fleet(&labels, |_, _| true);
        let spared = fleet(&labels, is_read);
        let differs = spared.lines().zip(whole.lines()).find(|(spared, whole)| spared != whole);
        assert_eq!(differs, None, "{said:?}");
        assert_eq!(spared.lines().count(), whole.lines().count(), "{said:?}");
    }
}

/// Each of those labels is read: without it something else is observed. So the
/// comparison above would notice if one were laid aside.
#[test]
fn what_each_of_the_labels_says_is_observed() {
    let without = fleet(&NOISE, |_, _| true);
    let unread = |said: &(&str, &str)| fleet(&[&NOISE[..], &[*said]].concat(), |_, _| true) == without;
    let unread: Vec<_> = told().into_iter().filter(unread).collect();
    assert_eq!(unread, []);
    for (key, value) in NOISE {
        assert!(!is_read(key, value), "{key}={value} is kept for nobody");
    }
}

/// A name that is written down is one that is read, and has to stay, whatever it says: found in the file of names, so
/// that none is forgotten.
#[test]
fn every_label_that_is_known_by_name_stays() {
    let text = include_str!("../../../rollout/src/names.rs").split('"').skip(1).step_by(2);
    let only_of_the_command = [names::CPUID_PREFIX, names::HYPERVISOR];
    let labels: Vec<&str> = text
        .filter(|name| MANY.iter().any(|of| name.strip_prefix(of).is_some_and(|rest| !rest.is_empty())))
        // The beginnings of others, a resource, and what only recordings are asked for.
        .filter(|name| !name.ends_with('.') && *name != names::RESOURCE_GPU)
        .filter(|name| !only_of_the_command.contains(name))
        .collect();
    assert!(labels.contains(&names::MACHINE) && labels.len() > 14, "{labels:?}");
    let gone: Vec<_> = labels.iter().filter(|name| !is_read(name, "x")).collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert!(only_of_the_command.iter().all(|name| !is_read(name, "true")));
}
