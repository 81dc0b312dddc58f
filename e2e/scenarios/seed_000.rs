//! The cluster of seed 000, both ways: seven slices by node label, taken by
//! one workbench under strategy `single`, by seven under `mixed`.

use e2e::{Fleet, NodeSpec, POOL, mig, policy, scenario, scenario_on_any_nodes, workbench};
use operands::Strategy;

fn node() -> NodeSpec {
    NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")
}

#[test]
fn under_strategy_mixed_seven_workbenches_take_a_slice_each() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([node()]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        for i in 1..=7 {
            scene.apply(workbench(&format!("lab-{i}"), &mig("1g.10gb"), 1)).await?;
        }
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await?;
        for i in 1..=7 {
            scene.workbench_runs(&format!("lab-{i}")).await?;
        }
        scene.converged("research").await
    });
}

#[test]
fn under_strategy_single_one_workbench_takes_all_seven() {
    scenario(async |scene| {
        scene.world(Fleet { strategy: Strategy::Single, nodes: vec![node()], ..Fleet::default() }).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.offers_resources("n1", &[("nvidia.com/gpu", 7)]).await?;
        scene.apply(workbench("lab", "nvidia.com/gpu", 7)).await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n1");
        scene.converged("research").await
    });
}
