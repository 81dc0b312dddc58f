//! Replicas of a server that must not share a node: slices are cut on as many nodes as there are replicas, although one
//! GPU would have room for all of them.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

/// A server whose replicas keep apart by node.
fn server(replicas: u32) -> Value {
    let labels = json!({"app": "llama"});
    let mut spec = Value::from(pod("unused", &mig("1g.10gb"), 1))["spec"].clone();
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llama", "namespace": TEAM},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

/// The replicas, those that wait and those that run, once so many run.
async fn once_running(scene: &Scene, wanted: usize) -> anyhow::Result<(Vec<Pod>, Vec<Pod>)> {
    wait::asking(&format!("{wanted} replicas run"), wait::PATIENCE, async || {
        let pods = scene.pods().list(&ListParams::default().labels("app=llama")).await?.items;
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let (run, wait): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(runs);
        let seen = format!("{} run, {} wait", run.len(), wait.len());
        Ok(if run.len() == wanted { Ok((wait, run)) } else { Err(seen) })
    })
    .await
}

#[test]
fn replicas_that_must_not_share_a_node_get_a_slice_on_each_and_one_too_many_is_told_why() {
    scenario(async |scene| {
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.nodes_are(["n1", "n2", "n3", "n4"].map(eight_gpus)).await?;
        let holds = pod("holds-n4", &mig("7g.80gb"), 8);
        scene.apply(holds.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": "n4"}))).await?;
        scene.runs("holds-n4").await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(server(3)).await?;
        let (_, run) = once_running(scene, 3).await?;
        let nodes: BTreeSet<String> =
            run.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        ensure!(nodes.len() == 3, "one on each node: {nodes:?}");
        scene.converged("research").await?;

        scene.apply(server(4)).await?;
        let fourth = wait::asking("the fourth replica is there", wait::PATIENCE, async || {
            let (wait, _) = once_running(scene, 3).await?;
            Ok(wait.into_iter().next().ok_or_else(|| "there are three".to_owned()))
        })
        .await?;
        // Free slices on the nodes of the others are none for it: what is left is the node that somebody holds.
        let told = scene.told("Pod", &fourth.name_any(), "pod team-a/holds-n4 ends").await?;
        ensure!(told.starts_with("not served: "), "{told}");
        scene.converged("research").await
    });
}
