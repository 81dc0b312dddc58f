//! Situations in which no change may start: previews, pauses, windows.

use e2e::{a100, mig, pod, policy, scenario, scenario_on_any_nodes};
use serde_json::json;

#[test]
fn a_preview_says_what_it_would_do_and_writes_nothing_but_status_and_events() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").mode("Preview")).await?;
        scene.apply(pod("p", &mig("3g.40gb"), 1)).await?;
        scene.says("research", "Ready", "False", "Preview").await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await?;
        for write in scene.audit()?.writes()? {
            let object = &write.object_ref;
            let ours = object.api_group == "slicewright.io";
            let policy = object.resource == "gpupartitionpolicies";
            let allowed = object.resource == "events" || ours && (!policy || object.subresource == "status");
            assert!(allowed, "{write}");
        }
        Ok(())
    });
}

#[test]
fn a_paused_policy_starts_nothing_until_it_goes_on() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").mode("Paused").always(&[("3g.40gb", 2)])).await?;
        scene.says("research", "Ready", "False", "Paused").await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_pause_mid_way_lets_the_node_finish() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = || policy("research", "research").always(&[("3g.40gb", 2)]);
        scene.apply(layout()).await?;
        let first = scene.first_cordoned().await?;
        // From here on it can no longer be taken back.
        scene.phase(&first, "Changing").await?;
        scene.apply(layout().mode("Paused")).await?;
        scene.each_gpu_offers(&first, &[("3g.40gb", 2)]).await?;
        scene.says("research", "Ready", "False", "Paused").await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        scene.each_gpu_offers(other, &[("1g.10gb", 7)]).await
    });
}

#[test]
fn outside_of_its_window_nothing_starts() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = || policy("research", "research").always(&[("3g.40gb", 2)]);
        // The 29th of February is not today.
        let closed = json!([{"schedule": "0 0 29 2 *", "duration": "1h"}]);
        scene.apply(layout().spec("/rollout/windows", closed)).await?;
        scene.waits_for("research", "no window is open; the next opens at ").await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await?;
        // Every minute of every hour: it is always open.
        let open = json!([{"schedule": "* * * * *", "duration": "1h", "timeZone": "Asia/Seoul"}]);
        scene.apply(layout().spec("/rollout/windows", open)).await?;
        scene.each_gpu_offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_window_that_closes_mid_way_lets_the_node_finish_and_no_other_start() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = |window: &str| {
            let windows = json!([{"schedule": window, "duration": "1h"}]);
            policy("research", "research").always(&[("3g.40gb", 2)]).spec("/rollout/windows", windows)
        };
        scene.apply(layout("* * * * *")).await?;
        let first = scene.first_cordoned().await?;
        scene.phase(&first, "Changing").await?;
        scene.apply(layout("0 0 29 2 *")).await?;
        scene.each_gpu_offers(&first, &[("3g.40gb", 2)]).await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        let closed = format!("{}: no window is open; the next opens at ", scene.real_name(other));
        scene.waits_for("research", &closed).await?;
        scene.each_gpu_offers(other, &[("1g.10gb", 7)]).await?;
        scene.apply(layout("* * * * *")).await?;
        scene.each_gpu_offers(other, &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}
