//! Nodes whose cards have no MIG, and whose GPUs a policy shares by time-slicing.

use e2e::manifests::Policy;
use e2e::{NodeSpec, POOL, pod, policy, scenario};
use serde_json::{Value, json};

const SHARED: &str = "nvidia.com/gpu.shared";

fn shares(sharing: Value) -> Policy {
    policy("notebooks", "notebooks").spec("/layout", json!({"type": "None"})).spec("/sharing", sharing)
}

fn by(replicas: u32) -> Policy {
    let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]);
    shares(json!({"type": "TimeSlicing", "rules": rules}))
}

#[test]
fn t4s_are_shared_by_four_but_not_under_a_pod_that_has_one_and_are_whole_again_when_nobody_has_a_share() {
    scenario(async |scene| {
        let node = |name: &str| NodeSpec::new(name, 4, "T4").label(POOL, "notebooks");
        scene.nodes_are([node("t1"), node("t2")]).await?;
        scene.operator().await?;
        let train = pod("train", "nvidia.com/gpu", 1);
        scene.apply(train.clone()).await?;
        let busy = scene.runs("train").await?;
        let idle = if busy == "t1" { "t2" } else { "t1" };

        // The map comes first; an administrator points ClusterPolicy to it, by the command that is printed.
        scene.apply(by(4)).await?;
        let command = scene.says("notebooks", "Degraded", "True", "PluginMapNotOurs").await?;
        assert!(command.contains("kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy"), "{command}");
        let settings = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "gpu-cluster-policy"}});
        let config = json!({"config": {"name": "slicewright-plugin-config"}});
        scene.patch(settings, json!({"spec": {"devicePlugin": config}})).await?;

        // The pod would get neighbours: its node waits.
        scene.offers_resources(idle, &[(SHARED, 16)]).await?;
        let waits = scene.waits_for("notebooks", "train").await?;
        assert!(
            waits.contains(&format!("{busy}: its GPUs cannot be shared in another way while pods hold")),
            "{waits}"
        );
        scene.offers_resources(&busy, &[("nvidia.com/gpu", 4)]).await?;
        scene.delete(train).await?;
        scene.offers_resources(&busy, &[(SHARED, 16)]).await?;
        scene.converged("notebooks").await?;

        // More share each GPU under a pod that has a share, and none do when it has gone.
        let lab = pod("lab", SHARED, 1);
        scene.apply(lab.clone()).await?;
        let there = scene.runs("lab").await?;
        scene.apply(by(6)).await?;
        scene.offers_resources(&there, &[(SHARED, 24)]).await?;
        scene.converged("notebooks").await?;
        scene.apply(shares(json!({"type": "None"}))).await?;
        scene.waits_for("notebooks", "lab").await?;
        scene.offers_resources(&there, &[(SHARED, 24)]).await?;
        scene.delete(lab).await?;
        scene.offers_resources("t1", &[("nvidia.com/gpu", 4)]).await?;
        scene.offers_resources("t2", &[("nvidia.com/gpu", 4)]).await?;
        scene.converged("notebooks").await
    });
}
