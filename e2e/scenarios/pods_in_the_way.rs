//! Pods that hold a slice that would be destroyed, or may get one at the last moment.

use e2e::{a100, mig, pod, policy, scenario, scenario_on_any_nodes, workbench};
use serde_json::json;

#[test]
fn a_static_layout_that_may_evict_evicts_who_is_in_the_way_and_nobody_else() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(pod("in-the-way", &mig("1g.10gb"), 1)).await?;
        scene.apply(pod("beside", "cpu", 1)).await?;
        scene.runs("in-the-way").await?;
        scene.runs("beside").await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)]).evicts()).await?;
        scene.is_gone("in-the-way").await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        assert_eq!(scene.running().await?, ["beside"]);
        scene.converged("research").await
    });
}

#[test]
fn a_static_layout_that_may_not_evict_waits_and_names_the_pod() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let train = pod("train", &mig("1g.10gb"), 1);
        scene.apply(train.clone()).await?;
        scene.runs("train").await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.waits_for("research", "held by team-a/train").await?;
        assert_eq!(scene.running().await?, ["train"]);
        scene.delete(train).await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_disruption_budget_is_honoured_and_quoted() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(pod("train", &mig("1g.10gb"), 1).labelled("app", "train")).await?;
        scene.runs("train").await?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "train", "namespace": e2e::TEAM},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "train"}}},
        });
        scene.apply(budget.clone()).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)]).evicts()).await?;
        let refused = scene.policy("research", "quotes the refused eviction", |policy| {
            let said = serde_json::to_string(&policy.status).unwrap_or_default();
            said.contains("eviction of team-a/train refused").then_some(())
        });
        refused.await?;
        assert_eq!(scene.running().await?, ["train"]);
        scene.delete(budget).await?;
        scene.is_gone("train").await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_pod_that_is_bound_and_has_not_started_keeps_its_slice() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        scene
            .apply(pod("late", &mig("1g.10gb"), 1).annotated("sim.slicewright.io/starts-after", "8m"))
            .await?;
        scene.is_bound("late").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        let answer = scene.told("Notebook", "lab", "not served").await?;
        assert!(answer.contains("team-a/late"), "{answer}");
        scene.runs("late").await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn a_pod_that_is_bound_in_the_last_instant_is_refused_by_kubelet_and_the_change_ends_well() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.offers_nothing("n1").await?;
        // As a scheduler that has not heard of the cordon binds it.
        scene.apply(pod("hasty", &mig("1g.10gb"), 1).with("/spec/nodeName", "n1")).await?;
        scene.fails("hasty").await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}
