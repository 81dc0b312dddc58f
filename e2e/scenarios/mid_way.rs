//! Changes of the cluster during a node's rollout.

use e2e::{a100, mig, pod, policy, scenario, scenario_on_any_nodes};
use serde_json::json;

#[test]
fn a_policy_that_is_edited_mid_way_is_followed_after_the_node_has_finished() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        scene.apply(policy("research", "research").always(&[("2g.20gb", 3)])).await?;
        scene.each_gpu_offers("n1", &[("2g.20gb", 3)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_policy_that_is_deleted_mid_way_lets_the_node_finish() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = policy("research", "research").always(&[("3g.40gb", 2)]);
        scene.apply(layout.clone()).await?;
        scene.phase("n1", "Changing").await?;
        scene.delete(layout).await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.phase("n1", "Idle").await?;
        Ok(())
    });
}

#[test]
fn a_policy_that_is_deleted_before_the_label_is_written_leaves_everything_as_it_was() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = policy("research", "research").always(&[("3g.40gb", 2)]);
        scene.apply(layout.clone()).await?;
        scene.phase("n1", "Mapping").await?;
        scene.delete(layout).await?;
        scene.phase("n1", "Idle").await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn demand_that_vanishes_before_the_label_is_written_cancels_the_change() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        let pod = pod("p", &mig("3g.40gb"), 1);
        scene.apply(pod.clone()).await?;
        scene.phase("n1", "Mapping").await?;
        scene.delete(pod).await?;
        scene.phase("n1", "Idle").await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_node_that_is_deleted_mid_way_is_forgotten_and_the_others_go_on() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let first = scene.first_cordoned().await?;
        scene.phase(&first, "Changing").await?;
        scene.simulator().delete_node(&first).await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        scene.offers(other, &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        scene.has_no_gpu_node(&first).await
    });
}

/// Somebody cleans up, and the kubelet registers its node anew: the cordon, the
/// label and what was remembered of the node are gone, and MIG manager has cut
/// the GPU. What it has now nobody says, so nothing is done to it until somebody
/// does.
#[test]
fn a_node_whose_object_is_deleted_mid_way_registers_anew_and_is_left_alone_until_its_label_is_back() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let first = scene.first_cordoned().await?;
        scene.phase(&first, "Changing").await?;
        scene.simulator().delete_node_object(&first).await?;
        let said = scene.says("research", "Degraded", "True", "NotEstablished").await?;
        assert!(said.contains(&format!("{first}: its layout is not known")), "{said}");
        assert!(said.contains("label nvidia.com/mig.config says nothing"), "{said}");
        scene
            .patch_node(&first, json!({"metadata": {"labels": {"nvidia.com/mig.config": "all-1g.10gb"}}}))
            .await?;
        for node in ["n1", "n2"] {
            scene.offers(node, &[("3g.40gb", 2)]).await?;
        }
        scene.converged("research").await
    });
}

#[test]
fn a_node_that_is_added_mid_way_gets_its_layout_as_well() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        scene.simulator().add_node(a100("n2", "all-1g.10gb"))?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.offers("n2", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_node_that_reboots_mid_way_gets_its_layout_all_the_same() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.phase("n1", "Changing").await?;
        scene.simulator().reboot("n1")?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}
