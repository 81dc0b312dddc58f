//! The simplest path through the product: from a policy to a label, from the label to slices that pods can
//! use.

use e2e::{NodeSpec, POOL, mig, pod, policy, scenario_on_any_nodes};

#[test]
fn a_static_policy_is_brought_to_a_node_and_a_pod_runs_on_its_slice() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.apply(pod("p", &mig("1g.10gb"), 1)).await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await?;
        scene.converged("research").await?;
        assert_eq!(scene.runs("p").await?, "n1");
        insta::assert_snapshot!(scene.story_of("Node", "n1").await?, @r"
        RepartitionStarted: the node is cordoned while its GPUs are repartitioned
        LayoutRequested: no pod can lose a slice, so MIG manager is instructed to apply the new layout
        RepartitionVerified: pods can use the slices, so the node is uncordoned
        ");
        let policy = scene.policies().get("research").await?;
        let status = policy.status.unwrap_or_default();
        assert_eq!(status.observed_generation, policy.metadata.generation);
        let counts = status.supply.iter().map(|s| (s.profile.as_str(), s.present, s.planned));
        let all = 7 * i32::from(scene.gpus("n1")?);
        assert_eq!(
            counts.filter(|(_, present, _)| *present > 0).collect::<Vec<_>>(),
            [("1g.10gb", all, all)]
        );
        Ok(())
    });
}
