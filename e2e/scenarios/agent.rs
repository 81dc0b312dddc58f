//! The node agent on a real API server: what it reports, and what it may not write.

use api::GpuNode;
use api::gpu_node::{ObservedBy, SliceUse};
use e2e::wait::until_one;
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario, workbench};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-3g.40gb")
}

/// The slices of a node that are held, each with who has it, as its `GpuNode` says.
fn held(node: &GpuNode) -> Vec<String> {
    let observed = node.status.as_ref().and_then(|status| status.observed.as_ref());
    let mut held = Vec::new();
    for gpu in observed.iter().flat_map(|observed| &observed.gpus) {
        for slice in gpu.slices.iter().filter(|slice| slice.used != SliceUse::Idle) {
            let by: Vec<_> = slice.by.iter().map(|pod| pod.name.as_str()).collect();
            held.push(format!("{} by {}", slice.profile, by.join(" ")));
        }
    }
    // Which slice a pod gets is kubelet's choice.
    held.sort();
    held
}

async fn until_held(scene: &Scene, node: &str, expected: &[&str]) -> anyhow::Result<GpuNode> {
    let api: Api<GpuNode> = Api::all(scene.client());
    let what = format!("the agent of {node} tells of {expected:?}");
    until_one(api, node, &what, scene.patience(), |found| {
        let found = found.ok_or("there is no GpuNode")?;
        let observed = found.status.as_ref().and_then(|status| status.observed.as_ref());
        let by = observed.map(|observed| observed.by);
        match (by, held(found)) {
            (Some(ObservedBy::Agent), held) if held == expected => Ok(found.clone()),
            (by, held) => Err(format!("{by:?} tells of {held:?}")),
        }
    })
    .await
}

#[test]
fn each_slice_is_told_with_its_place_and_its_holder_and_the_operator_leaves_it_so() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.agents_are_installed().await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let agents = [scene.agent_on("n1").await?, scene.agent_on("n2").await?];
        let n1 = until_held(scene, "n1", &[]).await?;
        let observed = n1.status.as_ref().and_then(|status| status.observed.as_ref()).unwrap();
        assert_eq!(observed.gpus.len(), 8);
        let places: Vec<_> =
            observed.gpus.iter().flat_map(|gpu| gpu.slices.iter().map(|s| s.start)).collect();
        assert_eq!(places, [Some(0), Some(4)].repeat(8), "every place is known");
        assert!(observed.gpus.iter().all(|gpu| gpu.uuid.is_some()));
        until_held(scene, "n2", &[]).await?;
        scene.apply(pod("train", &mig("3g.40gb"), 1).with("/spec/nodeName", "n2")).await?;
        let n2 = until_held(scene, "n2", &["3g.40gb by train"]).await?;
        let agent = n2.status.as_ref().and_then(|status| status.agent.as_ref()).unwrap();
        assert!(agent.report >= 2, "{agent:?}");
        scene.delete(pod("train", "", 0)).await?;
        until_held(scene, "n2", &[]).await?;
        drop(agents);
        scene.converged("research").await
    });
}

/// Counts alone cannot tell which of sixteen equal slices the pod has, so that no GPU of the node is provably idle.
#[test]
fn a_gpu_that_only_the_agent_knows_to_be_idle_is_recut_for_who_waits() {
    scenario(async |scene| {
        scene.nodes_are([eight_gpus("n1")]).await?;
        scene.agents_are_installed().await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("train", &mig("3g.40gb"), 1)).await?;
        assert_eq!(scene.runs("train").await?, "n1");
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        scene.is_unserved("research", "lab").await?;
        let agent = scene.agent_on("n1").await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n1");
        assert_eq!(scene.runs("train").await?, "n1", "who computes there goes on");
        until_held(scene, "n1", &["1g.10gb by lab-0", "3g.40gb by train"]).await?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

async fn client(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// What the API server says to a merge patch of a status.
async fn says(client: &Client, node: &str, status: Value) -> Result<GpuNode, String> {
    let api: Api<GpuNode> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"status": status}));
    let answer = api.patch_status(node, &PatchParams::default(), &patch).await;
    answer.map_err(|error| error.to_string())
}

fn agent_status() -> Value {
    json!({"agent": {
        "podUid": "u", "bootId": "b", "version": "0", "mode": "Report", "report": 1, "at": "2026-11-24T00:00:00Z",
    }})
}

#[test]
fn an_agent_writes_its_own_fields_of_its_own_node_and_nothing_else() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.agents_are_installed().await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        // Nobody else writes from here on.
        scene.stop_operators().await?;
        let (kubeconfig, _) = scene.agent_kubeconfig("n1").await?;
        let agent = client(kubeconfig).await?;
        // The API server may take a while until it goes by a new policy: what has to be refused is asked until it is.
        e2e::wait::asking("another node's GpuNode is refused", scene.patience(), async || {
            Ok(match says(&agent, "n2", agent_status()).await {
                Err(why) if why.contains("may write the GpuNode n1, and not n2") => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        says(&agent, "n1", agent_status()).await.unwrap();
        let observed = json!({"observed": {"by": "Agent", "at": "2026-11-24T00:00:00Z", "gpus": []}});
        says(&agent, "n1", observed).await.unwrap();
        for (what, status) in [
            ("the rollout", json!({"rollout": {"phase": "Changing"}})),
            ("the slices", json!({"slices": "none"})),
            ("a condition", json!({"conditions": []})),
            ("the generation", json!({"observedGeneration": 9})),
            ("the labels", json!({"observed": {"labels": {"nvidia.com/gpu.count": "1"}}})),
            ("the labels by removal", json!({"observed": null})),
        ] {
            let answer = says(&agent, "n1", status).await;
            let why = answer.expect_err(what);
            assert!(why.contains("an agent may change status.agent"), "{what}: {why}");
        }
        let api: Api<GpuNode> = Api::all(agent.clone());
        let spec = Patch::Merge(json!({"spec": {"policy": "mine"}}));
        let why = api.patch("n1", &PatchParams::default(), &spec).await.unwrap_err().to_string();
        assert!(why.contains("forbidden"), "{why}");
        let nobody = client(scene.agent_kubeconfig_without_pod().await?).await?;
        let why = says(&nobody, "n1", agent_status()).await.unwrap_err();
        assert!(why.contains("does not say on which node it runs"), "{why}");
        // Everybody else goes by their own rights.
        says(&scene.client(), "n2", agent_status()).await.unwrap();
        Ok(())
    });
}
