//! A static layout that may evict, on a node that its agent changes: MIG manager stood down before, so that nobody but the
//! agent's own walk can have evicted anybody, and nobody but the agent can have cut.

use std::collections::BTreeMap;

use anyhow::Context;
use api::GpuNode;
use api::node_agent::ChangeStage;
use e2e::agents::Agent;
use e2e::manifests::Manifest;
use e2e::{NodeSpec, POOL, Scene, mig, policy, scenario, workbench};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use operands::GpuTruth;
use serde_json::{Value, json};

use crate::agent_changes::{Has, computes, held};

/// Two teams compute on fifteen of the sixteen halves of n1, and on all of n2, which is another pool's.
const TEAMS: [&str; 2] = ["vision", "speech"];

fn halves(name: &str, pool: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, pool).layout("all-3g.40gb")
}

fn train(node: &str, pool: &str, n: usize) -> Manifest {
    computes(&format!("train-{node}-{n}"), "3g.40gb")
        .in_namespace(TEAMS[n % 2])
        .with("/spec/nodeSelector", json!({POOL: pool}))
}

/// Who computes on a node, once so many do.
async fn compute(scene: &Scene, node: &str, many: usize) -> anyhow::Result<BTreeMap<String, Has>> {
    let what = format!("{many} pods compute on {node}");
    e2e::wait::asking(&what, scene.patience(), async || {
        let held = held(scene, node)?;
        let all = held.len() == many && held.values().all(|(_, _, open)| *open);
        Ok(if all { Ok(held) } else { Err(format!("{held:?}")) })
    })
    .await
}

/// n1 is its agent's, which has cut the last half for a workbench. Says who computes on n1, the workbench not among them.
async fn the_agent_has_n1(scene: &mut Scene) -> anyhow::Result<(Agent, BTreeMap<String, Has>)> {
    scene.nodes_are([halves("n1", "research"), halves("n2", "serving")]).await?;
    scene.agents_are_installed().await?;
    scene.operator().await?;
    for team in TEAMS {
        scene.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})).await?;
    }
    scene.apply(policy("research", "research")).await?;
    scene.apply(policy("serving", "serving")).await?;
    for n in 0..16 {
        scene.apply(train("n2", "serving", n)).await?;
    }
    for n in 0..15 {
        scene.apply(train("n1", "research", n)).await?;
    }
    let before = compute(scene, "n1", 15).await?;
    let agent = scene.agent_that_changes("n1").await?;
    let on_n1 = ("/spec/template/spec/nodeSelector", json!({POOL: "research"}));
    scene.apply(workbench("lab", &mig("1g.10gb"), 1).with(on_n1.0, on_n1.1)).await?;
    assert_eq!(scene.workbench_runs("lab").await.with_context(|| agent.log())?, "n1");
    scene.converged("research").await?;
    let mig_manager = "nvidia.com/gpu.deploy.mig-manager";
    let stands_down = |node: &Node| {
        let labels = node.metadata.labels.as_ref()?;
        (labels.get(mig_manager).map(String::as_str) == Some("false")).then_some(())
    };
    scene.node("n1", "is the agent's", stands_down).await?;
    Ok((agent, before))
}

/// The slices of a GPU as a rule of a static layout.
fn as_it_is(gpu: &GpuTruth) -> Value {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for slice in &gpu.slices {
        *counts.entry(slice.profile.to_string()).or_default() += 1;
    }
    let slices = counts.iter().map(|(profile, count)| json!({"profile": profile, "count": count}));
    json!({"indices": [gpu.index], "slices": slices.collect::<Vec<_>>()})
}

/// Which change the agent of n1 has ended last, as it should be: another one than this.
async fn the_agent_has_done(scene: &Scene, before: Option<&str>) -> anyhow::Result<String> {
    let change = |node: &GpuNode| {
        let change = node.status.as_ref()?.agent.as_ref()?.change.as_ref()?;
        let is_done = change.stage == ChangeStage::Done && Some(change.id.as_str()) != before;
        is_done.then(|| change.id.clone())
    };
    scene.gpu_node("n1", "has an agent that has done a change", change).await
}

#[test]
fn a_static_layout_that_may_evict_takes_the_pods_of_one_gpu_and_no_other_from_an_agents_node() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_n1(scene).await?;
        let others = compute(scene, "n2", 16).await?;
        let lab = held(scene, "n1")?.remove("team-a/lab-0").context("the workbench has a slice")?;
        let first = the_agent_has_done(scene, None).await?;

        let truth = scene.simulator().truth("n1")?;
        let is_cut = |gpu: &&GpuTruth| gpu.slices.iter().any(|slice| slice.profile.to_string() == "1g.10gb");
        let cut = truth.iter().find(is_cut).context("the agent has cut one GPU")?;
        let gpu = truth.iter().find(|gpu| !is_cut(gpu)).context("seven are as they were")?;
        let go: Vec<String> = gpu.slices.iter().filter_map(|slice| slice.holder.clone()).collect();
        let mut stay = before.clone();
        stay.retain(|pod, _| !go.contains(pod));
        assert_eq!((go.len(), stay.len()), (2, 13));
        let rules = json!([
            {"indices": [gpu.index], "slices": [{"profile": "1g.10gb", "count": 7}]},
            as_it_is(cut),
            {"slices": [{"profile": "3g.40gb", "count": 2}]},
        ]);
        let layout = json!({"type": "Static", "static": {"gpus": rules}});
        scene.apply(policy("research", "research").spec("/layout", layout).evicts()).await?;

        the_agent_has_done(scene, Some(&first)).await.with_context(|| agent.log())?;
        scene.converged("research").await.with_context(|| agent.log())?;
        let small = scene.simulator().truth("n1")?.into_iter().find(|now| now.index == gpu.index);
        assert_eq!(small.map(|gpu| gpu.slices.len()), Some(7));

        // Exactly they are gone, and everybody else computes on the very slice that they had.
        stay.insert("team-a/lab-0".to_owned(), lab);
        assert_eq!(held(scene, "n1")?, stay);
        assert_eq!(held(scene, "n2")?, others);
        for pod in before.keys() {
            let (namespace, name) = pod.split_once('/').context("a pod has a namespace")?;
            let pods: Api<Pod> = Api::namespaced(scene.client(), namespace);
            assert_eq!(pods.get_opt(name).await?.is_none(), go.contains(pod), "{pod}");
        }
        drop(agent);
        Ok(())
    });
}
