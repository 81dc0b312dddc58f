//! Layouts that nodes were given and do not have yet are completed, unless another plan is better.

use std::sync::Arc;

use jiff::SignedDuration;
use planner::names::{GpuIndex, NodeName};
use rollout::Phase;
use serde_json::json;

use crate::cluster::{Cluster, Until};

fn wants(cluster: &Cluster, node: &str) -> bool {
    let wanted = &cluster.round().gpu_nodes[&NodeName(node.to_owned())];
    !wanted.spec.gpus.is_empty()
}

/// Two machines are alike, so that it is of no account which one is cut: the
/// one that was told goes on, though by itself the planner takes the other.
#[test]
fn what_a_node_was_told_goes_on_though_another_would_do_as_well() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.hgx("n2");
    cluster.pod("asks", "1g.10gb", None);
    let _ = cluster.step(Until::Stored);
    assert!(wants(&cluster, "n1") && !wants(&cluster, "n2"), "by itself the planner takes the first");

    let spec = |cluster: &Cluster, node: &str| cluster.objects.gpu_nodes[node].spec.clone();
    let (first, second) = (spec(&cluster, "n1"), spec(&cluster, "n2"));
    for (node, spec) in [("n1", &second), ("n2", &first)] {
        let gpu_node = Arc::make_mut(cluster.objects.gpu_nodes.get_mut(node).unwrap());
        gpu_node.spec.clone_from(spec);
    }
    assert!(wants(&cluster, "n2") && !wants(&cluster, "n1"), "what the second was told goes on");
}

/// The same where MIG is to be switched off: a spec without slices is a wish as any other.
#[test]
fn a_node_that_was_told_to_switch_mig_off_goes_on_though_another_would_do_as_well() {
    let mut cluster = Cluster::new();
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {"wholeGpus": {}}}));
    cluster.hgx("n1");
    cluster.hgx("n2");
    cluster.add_pod(json!({
        "metadata": {"name": "asks", "namespace": "team", "uid": "u-asks", "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."}]},
    }));
    let _ = cluster.step(Until::Stored);
    let spec = |cluster: &Cluster, node: &str| cluster.objects.gpu_nodes[node].spec.clone();
    let (first, second) = (spec(&cluster, "n1"), spec(&cluster, "n2"));
    assert!(second.gpus.iter().all(|gpu| gpu.slices.is_empty()) && second.gpus.len() == 8, "{second:?}");
    assert!(first.gpus.is_empty(), "by itself the planner takes the second");
    for (node, spec) in [("n1", &second), ("n2", &first)] {
        let gpu_node = Arc::make_mut(cluster.objects.gpu_nodes.get_mut(node).unwrap());
        gpu_node.spec.clone_from(spec);
    }
    assert!(wants(&cluster, "n1") && !wants(&cluster, "n2"), "what the first was told goes on");
}

/// Its labels may vanish for good while it changes, with the GPUs themselves:
/// what was begun there is brought to an end. A machine without GPUs of which
/// nothing is remembered is nobody's business.
#[test]
fn what_was_begun_is_looked_after_though_the_gpus_are_gone() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.node("plain");
    cluster.pod("asks", "1g.10gb", None);
    let _ = cluster.step(Until::End);
    for node in ["n1", "plain"] {
        cluster.edit_node(node, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.retain(|name, _| !name.starts_with("nvidia.com/"));
            node.status.get_or_insert_default().allocatable = None;
        });
    }
    for (name, gpu_node) in &mut cluster.objects.gpu_nodes {
        let status = Arc::make_mut(gpu_node).status.get_or_insert_default();
        status.observed = None;
        let phase = status.rollout.as_ref().map_or("Idle", |rollout| rollout.phase.as_str());
        assert_eq!(phase != "Idle", name == "n1", "{name}: {phase}");
    }
    let round = cluster.round();
    let looked_after: Vec<_> = round.nodes.keys().map(|name| name.0.as_str()).collect();
    assert_eq!(looked_after, ["n1"]);
}

/// kubelet's copy of the map is as old as the map, whoever needs it when: a node
/// that comes later does not wait for it once more.
#[test]
fn an_entry_that_is_in_the_map_since_long_is_not_waited_for() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster.until("n1", Phase::Mapping, |_, _, _| {});
    let _ = cluster.step(Until::End);
    let phase = |cluster: &Cluster| cluster.round().nodes[&NodeName("n1".to_owned())].advance.progress.phase;
    assert!(!cluster.our_map().is_empty() && cluster.map_changed.is_some());
    assert_eq!(phase(&cluster), Phase::Mapping, "the entry is new");
    cluster.map_changed = Some(cluster.now - SignedDuration::from_hours(1));
    assert_eq!(phase(&cluster), Phase::Cordoning, "the entry is old");
}

#[test]
fn the_rollout_is_told_of_every_gpu() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    let models = cluster.models("n1");
    let named: Vec<_> = models.iter().map(|(index, model)| (*index, model.map(|m| m.id.as_str()))).collect();
    assert_eq!(named, (0..8).map(|i| (GpuIndex(i), Some("A100-80GB"))).collect::<Vec<_>>());
    assert!(cluster.models("nobody").is_empty());
}
