//! A new node with MIG switched off.

use e2e::{NodeSpec, POOL, mig, pod, policy, scenario, workbench};

#[test]
fn a_fresh_node_is_onboarded_once_nobody_holds_its_gpu() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator().await?;
        let whole = pod("whole", "nvidia.com/gpu", 1);
        scene.apply(whole.clone()).await?;
        scene.runs("whole").await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        let answer = scene.told("Notebook", "lab", "not served").await?;
        assert!(answer.contains("team-a/whole"), "{answer}");
        scene.delete(whole).await?;
        scene.workbench_runs("lab").await?;
        scene.converged("research").await
    });
}
