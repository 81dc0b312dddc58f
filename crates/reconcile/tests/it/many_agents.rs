//! A thousand nodes with eight GPUs, each with an agent, and on one GPU of each somebody computes. At rest nothing is
//! written, and what one agent reports is work for its node alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::Round;
use rollout::Action;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Until};

const NODES: usize = 1_000;
const PROFILE: &str = "7g.80gb";

fn name(n: usize) -> String {
    format!("worker-{n:03}")
}

/// The first GPU is somebody's.
fn gpu(node: &str, index: usize, holder: Option<&str>) -> Value {
    let uid = |pod: &str| json!([{"uid": format!("u-{pod}"), "container": "main"}]);
    json!({
        "index": index, "model": "A100-80GB", "uuid": format!("GPU-{node}-{index}"), "migEnabled": true, "slices": [{
            "profile": PROFILE, "start": 0, "used": if holder.is_some() { "InUse" } else { "Idle" },
            "devices": [format!("MIG-{node}-{index}")], "holders": holder.map_or(json!([]), uid),
        }],
    })
}

/// What the agent of a node writes, by who holds its GPUs.
fn reports(cluster: &mut Cluster, node: &str, number: u64, holders: &[&str]) {
    let gpus: Vec<_> = (0..8).map(|index| gpu(node, index, holders.get(index).copied())).collect();
    let (at, boot) = ("2026-11-21T08:59:00Z", "b-1");
    let observed = json!({"by": "Agent", "at": at, "bootId": boot, "gpus": gpus});
    let agent = json!({"podUid": format!("u-agent-{node}"), "bootId": boot, "version": "9.8.7", "mode": "Change",
        "report": number, "at": at});
    let object = cluster.objects.gpu_nodes.get_mut(node).expect("the operator has recorded the node");
    let status = Arc::make_mut(object).status.get_or_insert_default();
    // The labels in it are the operator's.
    let labels = status.observed.take().map(|observed| observed.labels).unwrap_or_default();
    let mut observed: api::gpu_node::Observed =
        serde_json::from_value(observed).expect("what an agent observes");
    observed.labels = labels;
    status.observed = Some(observed);
    status.agent = Some(serde_json::from_value(agent).expect("the status of an agent"));
}

fn agent_pod(node: &str) -> Value {
    json!({
        "metadata": {"name": format!("agent-{node}"), "namespace": "slicewright-agent", "uid": format!("u-agent-{node}"),
            "labels": {"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "slicewright-agent", "uid": "ds",
                "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// One round and what follows from it: what was written.
fn operates(cluster: &mut Cluster) -> BTreeMap<String, usize> {
    let round = cluster.round();
    let written = writes(cluster, &round);
    cluster.follow(&round, Until::End);
    written
}

/// The nodes are their agents', and the operator has seen that.
fn fleet() -> Cluster {
    let mut cluster = Cluster::new();
    let names: Vec<_> = (0..NODES).map(name).collect();
    for node in &names {
        cluster.hgx(node);
        cluster.label(node, "nvidia.com/gpu.deploy.mig-manager", Some("false"));
        cluster.label(node, "nvidia.com/mig.config", Some(rollout::names::HANDED_TO_AGENT));
        cluster.add_pod(agent_pod(node));
        cluster.pod(&format!("train-{node}"), PROFILE, Some(node));
    }
    operates(&mut cluster);
    for node in &names {
        reports(&mut cluster, node, 1, &[&format!("train-{node}")]);
    }
    cluster
}

/// What a round writes, by what it writes to.
fn writes(cluster: &Cluster, round: &Round) -> BTreeMap<String, usize> {
    let mut writes = BTreeMap::new();
    let mut add = |what: String, count: usize| {
        if count > 0 {
            *writes.entry(what).or_default() += count;
        }
    };
    for (node, wanted) in &round.gpu_nodes {
        let kept = cluster.objects.gpu_nodes.get(&node.0);
        let told = kept.is_none_or(|kept| kept.spec != wanted.spec);
        let said = kept.is_none_or(|kept| kept.status.as_ref() != Some(&wanted.status));
        add(format!("the GpuNode {node}"), usize::from(told) + usize::from(said));
    }
    for (node, round) in &round.nodes {
        let is_write = |action: &&Action| !matches!(action, Action::ListPods | Action::EnsureMapEntry { .. });
        add(format!("the Node {node}"), round.advance.actions.iter().filter(is_write).count());
    }
    for (policy, status) in &round.policies {
        let kept = cluster.objects.policies[&policy.0].status.as_ref();
        add(format!("the policy {policy}"), usize::from(kept != Some(status)));
    }
    add("the map".to_owned(), usize::from(round.map.write.is_some()));
    writes
}

fn written(entries: &[(&str, usize)]) -> BTreeMap<String, usize> {
    entries.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect()
}

#[test]
fn of_a_thousand_agents_one_report_is_work_for_one_node_and_at_rest_nothing_is_written() {
    let mut cluster = fleet();
    // What the operator writes once it has heard of them.
    operates(&mut cluster);
    let round = cluster.round();
    assert_eq!(round.nodes.len(), NODES);
    assert!(round.nodes.values().all(|node| node.advance.progress.phase == rollout::Phase::Idle));
    assert_eq!(writes(&cluster, &round), written(&[]), "at rest");

    // Somebody has got another GPU of one node.
    let node = name(500);
    cluster.pod("more", PROFILE, Some(&node));
    reports(&mut cluster, &node, 2, &[&format!("train-{node}"), "more"]);
    let after = operates(&mut cluster);
    let told = [("the GpuNode worker-500", 1), ("the policy research", 1)];
    assert_eq!(after, written(&told));
    assert_eq!(writes(&cluster, &cluster.round()), written(&[]), "at rest again");
}
