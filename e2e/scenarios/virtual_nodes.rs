//! The virtual GPU nodes without an operator: the basis of the scenarios.

use e2e::{NodeSpec, mig, pod, scenario};

#[test]
fn the_real_scheduler_binds_seven_pods_to_seven_slices_and_leaves_the_eighth() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await?;
        for i in 1..=8 {
            scene.apply(pod(&format!("p{i}"), &mig("1g.10gb"), 1)).await?;
            if i < 8 {
                scene.runs(&format!("p{i}")).await?;
            }
        }
        scene.is_unschedulable("p8").await?;
        assert_eq!(scene.running().await?.len(), 7);
        Ok(())
    });
}
