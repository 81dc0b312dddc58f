//! A model server is updated where no GPU is free: what its people read, and both ways out of it.

use anyhow::ensure;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

/// How the pods of the server are known.
const SERVER: &str = "serving.kserve.io/inferenceservice";

/// A server with one pod on a whole GPU, as KServe makes its Deployment: the new pod is to run before the old one ends.
fn server(image: &str) -> Value {
    let labels = json!({SERVER: "chat"});
    let mut spec = Value::from(pod("unused", &mig("7g.80gb"), 1))["spec"].clone();
    spec["containers"][0]["image"] = json!(image);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat-predictor", "namespace": TEAM},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

async fn pods(scene: &Scene) -> anyhow::Result<Vec<Pod>> {
    Ok(scene.pods().list(&ListParams::default().labels(&format!("{SERVER}=chat"))).await?.items)
}

/// Waits until the only pod of the server runs, with this image.
async fn serves(scene: &Scene, image: &str) -> anyhow::Result<Pod> {
    wait::asking(&format!("the server runs as {image}"), wait::PATIENCE, async || {
        let found = pods(scene).await?;
        let [pod] = &found[..] else { return Ok(Err(format!("it has {} pods", found.len()))) };
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let is = pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image));
        Ok(if is && phase == "Running" { Ok(pod.clone()) } else { Err(phase) })
    })
    .await
}

/// Waits until the server has a second pod, and says its name.
async fn the_new_one(scene: &Scene, old: &Pod) -> anyhow::Result<String> {
    wait::asking("the update has made a pod", wait::PATIENCE, async || {
        let found = pods(scene).await?;
        let new = found.iter().find(|pod| pod.uid() != old.uid());
        Ok(new.map(ResourceExt::name_any).ok_or_else(|| format!("there are {}", found.len())))
    })
    .await
}

/// Waits until what is made now is younger than a pod: the API server counts in seconds, and of two pods of one second
/// nobody knows which is the older.
async fn is_older_than_now(scene: &Scene, old: &Pod) -> anyhow::Result<()> {
    let probe: Pod = serde_json::from_value(pod("probe", "cpu", 1).into())?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    wait::asking("a second has passed", wait::PATIENCE, async || {
        let made = scene.pods().create(&dry, &probe).await?.creation_timestamp();
        Ok(if made > old.creation_timestamp() { Ok(()) } else { Err(format!("{made:?}")) })
    })
    .await
}

#[test]
fn an_update_that_waits_for_its_own_old_pod_reads_both_ways_out_and_each_of_them_helps() {
    scenario(async |scene| {
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        for (node, held) in [("n1", 8), ("n2", 7)] {
            let holds = pod(&format!("holds-{node}"), &mig("7g.80gb"), held);
            scene.apply(holds.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
            scene.runs(&format!("holds-{node}")).await?;
        }
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(server("registry.example/server:1")).await?;
        let old = serves(scene, "registry.example/server:1").await?;
        is_older_than_now(scene, &old).await?;
        scene.apply(server("registry.example/server:2")).await?;
        let new = the_new_one(scene, &old).await?;
        let told = scene.told("Pod", &new, "this is an update of Deployment team-a/chat-predictor").await?;
        let own = format!("only its own older pods are in the way (team-a/{} on n2)", old.name_any());
        for part in [
            own.as_str(),
            "set maxSurge: 0 and maxUnavailable: 1",
            "set spec.layout.demandDriven.slices[7g.80gb].spareCount to 1",
        ] {
            ensure!(told.contains(part), "{part}: {told}");
        }
        // Nobody is disturbed for it.
        ensure!(pods(scene).await?.iter().any(|pod| pod.uid() == old.uid()), "the old pod serves on");

        // The first way out: the old pod ends first.
        let strategy = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}});
        scene.patch(server(""), strategy).await?;
        let second = serves(scene, "registry.example/server:2").await?;
        scene.converged("research").await?;

        // The second: a spare slice. There is one as soon as somebody needs one less, and the surge finds it.
        scene.apply(policy("research", "research").bounds("7g.80gb", &json!({"spareCount": 1}))).await?;
        scene.delete(pod("holds-n1", &mig("7g.80gb"), 8)).await?;
        scene.is_gone("holds-n1").await?;
        let less = pod("holds-n1", &mig("7g.80gb"), 7);
        scene.apply(less.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": "n1"}))).await?;
        scene.runs("holds-n1").await?;
        scene.converged("research").await?;
        scene.apply(server("registry.example/server:3")).await?;
        let third = serves(scene, "registry.example/server:3").await?;
        ensure!(third.uid() != second.uid(), "it is another pod");
        scene.converged("research").await
    });
}
