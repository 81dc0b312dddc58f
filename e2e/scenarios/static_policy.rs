//! The thinnest line through the product: from a policy to a label, from the
//! label to slices that pods can use.

use e2e::{NodeSpec, POOL, mig, pod, policy, scenario};

#[test]
fn a_static_policy_is_brought_to_a_node_and_a_pod_runs_on_its_slice() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.apply(pod("p", &mig("1g.10gb"), 1)).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await?;
        scene.converged("research").await?;
        assert_eq!(scene.runs("p").await?, "n1");
        Ok(())
    });
}
